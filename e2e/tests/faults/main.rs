//! Faults of the machine and of the people around it: full disks, failing syncs, damaged files,
//! second processes, signals, hostile receivers and hostile clients.
//!
//! A fault that cannot be made on this machine (no root, a tool is missing) is shown as skipped.

mod disk;
mod input;
mod life;

hence_e2e::cases!(
    life::a_second_process_is_refused,
    life::sigterm_under_load_loses_and_doubles_nothing,
    life::a_second_sigterm_ends_it_at_once,
    life::hanging_receivers_hold_up_nobody_else,
    life::a_stopped_server_goes_on_where_it_was,
    input::bad_input_is_refused_and_the_server_lives,
    input::a_slow_client_is_dropped_and_others_are_served,
    disk::a_full_disk_refuses_work_and_goes_on,
    disk::a_failed_sync_ends_the_process,
    disk::a_torn_tail_is_dropped,
    disk::damage_in_the_middle_is_named_and_refused,
);
