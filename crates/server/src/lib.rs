//! The HTTP front end.
