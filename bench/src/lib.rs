//! The scripts behind every number we publish.
