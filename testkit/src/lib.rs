//! Real servers for tests, the bench and the examples: private, on loopback, gone at the end.
//!
//! [`Postgres`], [`MariaDb`], [`Galera`] and [`PgBouncer`] start the programs of the machine in
//! temporary directories, as a user that is not root, on free ports, several at once. They can be
//! stopped, killed, paused and started again. When the process that started them dies, however it
//! dies, the servers are killed and their directories removed. [`Proxy`] stands between a client
//! and a server and cuts the connection where a test wants it.
//!
//! What a machine does not have is [`Missing`], an error that [`suite`] shows as a skipped case
//! with its reason, never as a passed one.

mod certificates;
mod galera;
mod home;
mod install;
mod mariadb;
mod missing;
mod pgbouncer;
mod place;
mod ports;
mod postgres;
mod process;
mod proxy;
mod sql;
pub mod suite;
mod template;
mod wait;
mod watchdog;

pub use certificates::Certificates;
pub use galera::Galera;
pub use install::{Program, programs};
pub use mariadb::MariaDb;
pub use missing::Missing;
pub use pgbouncer::PgBouncer;
pub use ports::free_port;
pub use postgres::Postgres;
pub use proxy::{Fault, Proxy, Side};
pub use wait::until;
