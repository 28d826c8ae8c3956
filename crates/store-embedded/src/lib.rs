//! The embedded engine: an append-only log and sorted tables in one directory.

pub mod kv;
