//! Black-box tests: the real binary, kill -9, hostile receivers.
//!
//! Nothing here links against Hence, but for the list of its fail points and the checker of
//! histories. A test starts the program as an operator would ([`server`]), speaks HTTP to it
//! ([`api`]), and judges it by what arrived at a receiver of its own ([`receiver`]), never by what
//! Hence says about itself.

pub mod api;
pub mod clock;
pub mod fake_clock;
pub mod packages;
pub mod receiver;
pub mod seed;
pub mod server;

pub use api::{Answer, Api};
pub use fake_clock::FakeClock;
pub use hence_testkit::{cases, suite};
pub use receiver::{Arrival, Receiver, Token};
pub use seed::Seed;
pub use server::{Build, Server, Setup};
