//! Hands a due job to the outside world.
