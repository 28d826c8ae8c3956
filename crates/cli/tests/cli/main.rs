//! The command line as a user has it: the real binary, against real servers. One program, so that
//! it is linked once.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

mod demo;
mod help;
mod jobs;
mod serve;
mod store;
mod support;
mod times;
mod work;
