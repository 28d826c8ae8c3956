//! Real servers for tests, the bench and the examples: private, on loopback, gone at the end.
//!
//! [`Postgres`] starts the programs of the machine in a temporary directory, as a user that is not
//! root, on a free port, several at once. It can be stopped, killed, paused and started again. When
//! the process that started it dies, however it dies, the server is killed and its directory
//! removed.
//!
//! What a machine does not have is [`Missing`], an error that [`suite`] shows as a skipped case
//! with its reason, never as a passed one.

mod home;
mod install;
mod missing;
mod ports;
mod postgres;
mod process;
mod sql;
pub mod suite;
mod template;
mod wait;
mod watchdog;

pub use install::{Program, programs};
pub use missing::Missing;
pub use ports::free_port;
pub use postgres::Postgres;
pub use wait::until;
