//! Decides what happens to jobs and when; does nothing.
//!
//! No clock, no IO, no randomness, no thread: events in, effects out. `no_std`, so that none of
//! them can be imported by mistake.
#![no_std]

extern crate alloc;

pub mod change;
pub mod effect;
pub mod error;
pub mod id;
pub mod input;
pub mod job;
pub mod limits;
pub mod queue;
pub mod retry;
pub mod schedule;
pub mod time;
