//! Jobs and acknowledgements in transactions of one's own: the programs of `examples/transactions`
//! run to their end and are judged from outside; then what is promised about letters, about a
//! second node on one database, and about moving there while work goes on.
//!
//! A language that this machine lacks, or whose packages cannot be had, is shown as skipped.

#![expect(clippy::print_stdout, reason = "the figures are wanted when the test is read")]

mod languages;
mod letters;
mod nodes;
mod packages;
mod scene;

hence_e2e::cases!(
    languages::python,
    languages::go,
    languages::javascript,
    languages::rust,
    languages::python_on_mysql,
    languages::go_on_mysql,
    languages::javascript_on_mysql,
    languages::rust_on_mysql,
    letters::what_is_committed_is_scheduled_within_a_second,
    letters::a_letter_for_a_paused_queue_waits,
    letters::nonsense_is_kept_with_its_reason,
    letters::a_kill_before_letters_are_taken_loses_nothing,
    letters::two_workers_one_effect,
    letters::an_application_needs_the_rights_of_the_guide,
    nodes::a_second_node_stands_by_and_takes_over,
    nodes::moved_while_work_goes_on,
);
