//! The library from outside, by a clock that is moved by hand. A test that shows one of the
//! promises P1 to P12 says so in its name.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

mod crashes;
mod ends;
mod faults;
mod handlers;
mod herd;
mod http;
mod keys;
mod letters;
mod pull;
mod queues;
mod schedules;
mod support;
mod time;
mod verbs;
mod wait;
