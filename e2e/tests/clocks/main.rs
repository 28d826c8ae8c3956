//! Clocks that are set while the server runs, and a process that does not run for a while.
//!
//! The server's wall clock is libfaketime's, moved by a file; the clock that only counts is the
//! machine's, and so is that of the receiver, which judges. What is promised: a step ahead of up
//! to an hour is believed at once, a larger one only when it has stayed for five seconds; a step
//! back makes what is due later by as much; and whatever the clock does, each job is delivered
//! once and the server goes on.

mod faketime;
mod pauses;
mod steps;

hence_e2e::cases!(
    steps::a_small_step_ahead_is_believed_at_once,
    steps::a_large_step_ahead_that_is_taken_back_fires_nothing,
    steps::a_large_step_ahead_that_stays_is_believed,
    steps::a_step_back_delays_and_doubles_nothing,
    steps::leases_run_out_after_a_step,
    steps::a_clock_that_jumps_about_doubles_nothing,
    steps::schedules_tick_once_however_the_clock_jumps,
    pauses::a_pause_longer_than_a_lease_lets_another_worker_finish,
    pauses::a_pause_in_the_middle_of_a_delivery_records_one_success,
);
