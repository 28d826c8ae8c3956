//! The real binary on PostgreSQL: what it reads while nothing happens to it, and what it does
//! behind a pooler.

#![expect(clippy::print_stdout, reason = "the figures are wanted when the test is read")]

mod pooler;
mod steady;

use std::time::Duration;

use hence_e2e::Setup;

/// A debug build on a busy machine.
const SOON: Duration = Duration::from_secs(30);

hence_e2e::cases!(
    steady::steady_work_reads_no_jobs,
    pooler::a_pooler_in_transaction_mode_loses_nothing,
    pooler::a_pooler_that_was_not_told_of_is_refused,
);

/// A server on this database.
fn on(url: &str) -> Setup {
    Setup { args: vec!["--store".to_owned(), url.to_owned()], ..Setup::default() }
}
