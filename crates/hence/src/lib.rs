//! Durable scheduling of future work, as a library.
