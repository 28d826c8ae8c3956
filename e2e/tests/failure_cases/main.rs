//! The failure cases that the ancestors of Hence got wrong, each as a test against the real binary.
//!
//! | case | what goes wrong | shown here | shown below the binary as well |
//! |---|---|---|---|
//! | 1 | crash between taking a job and arming it again | yes | core: recovery of leases |
//! | 2 | crash between storing and queueing | yes | store: conformance, reopen |
//! | 3 | overwrite while the old timer is armed | yes | core: replace |
//! | 4 | restart with overdue jobs | yes | core: recovery |
//! | 5 | second job of a key after the first | yes | core: keys |
//! | 6 | first job of a new key while the rest is being loaded | yes | core: window |
//! | 7 | lease ended, second worker runs, first finishes late | yes | core: tokens |
//! | 8 | second claim after an ended claim | yes | core: leases |
//! | 9 | holder paused longer than its lease | yes, with SIGSTOP | core: tokens |
//! | 10 | delay preserved over a restart | yes; fail-over needs a cluster | core: recovery |
//! | 11 | delays below a second | yes | core: due times |
//! | 12 | more than 24 hours, 45 days, 2038 ahead | yes | store: conformance, precision |
//! | 13 | backlog in order of due time | yes | core: order |
//! | 14 | long outage, storm of missed ticks | yes | core: schedules |
//! | 15 | a schedule's first tick | yes | core: schedules |
//! | 16 | a failure must not be acknowledged | yes | core: retries |
//! | 17 | a long job outlives its visibility | yes | core: extend |
//! | 18 | returning node while the stand-in delivers | no: needs a cluster | |
//! | 19 | node and its backup both die | no: needs a cluster | |
//! | 20 | emptied key: the journal shrinks | yes | store-embedded: merging |
//! | 21 | poison job blocks its key or the node | yes | core: crashes, keys |
//! | 22 | target hangs | yes | delivery: hostile receivers |
//! | 23 | the clock jumps | yes, with libfaketime | hence: clock |
//! | 24 | ack to a node that does not know the job | yes | core: tokens |
//! | 25 | client gives up at submit, job may exist | yes | core: idempotency |

mod crash;
mod keys;
mod leases;
mod targets;
mod times;

hence_e2e::cases!(
    crash::case_01_crash_between_taking_and_arming_again,
    crash::case_02_crash_between_storing_and_queueing,
    keys::case_03_overwrite_while_the_old_timer_is_armed,
    crash::case_04_restart_with_overdue_jobs,
    keys::case_05_second_job_of_a_key_after_the_first,
    keys::case_06_first_job_of_a_new_key_while_loading,
    leases::case_07_first_worker_finishes_after_its_lease,
    leases::case_08_second_claim_after_an_ended_claim,
    leases::case_09_holder_paused_longer_than_its_lease,
    crash::case_10_delay_preserved_over_a_restart,
    times::case_11_delays_below_a_second,
    times::case_12_far_ahead_is_exact_and_kept,
    keys::case_13_backlog_in_order_of_due_time,
    times::case_14_long_outage_makes_no_storm,
    times::case_15_first_tick_of_a_schedule,
    targets::case_16_a_failure_is_not_acknowledged,
    leases::case_17_a_long_job_keeps_its_lease,
    keys::case_20_finished_work_leaves_no_bytes,
    keys::case_21_a_poison_job_blocks_only_its_key,
    targets::case_22_a_hanging_target_times_out,
    times::case_23_the_clock_jumps,
    leases::case_24_ack_of_an_unknown_token,
    crash::case_25_submit_again_after_giving_up,
);
