//! Every verb and every rule as a few lines of a small world, by name.
//!
//! `scenarios/cases.rs` holds the failures that earlier systems of this kind are known for. Those
//! that need several nodes or a disk belong elsewhere:
//!
//! | case | what goes wrong | where it is tested |
//! |---|---|---|
//! | 1 | a crash between taking a job and arming it again | `case_01_…` |
//! | 2 | a crash between storing and queueing | `case_02_…` |
//! | 3 | a job is overwritten while its timer is armed | `case_03_…` |
//! | 4 | a restart with overdue jobs | `case_04_…` |
//! | 5 | the second job of a key never runs | `case_05_…` |
//! | 6 | the first job of a new key arrives during a load | `case_06_…` |
//! | 7 | a worker completes after its lease passed to another | `case_07_…` |
//! | 8 | an expired claim keeps the next one out | `case_08_…` |
//! | 9 | the holder is paused for longer than its lease | `case_09_…` |
//! | 10 | a delay is forgotten by a restart | `case_10_…`; fail-over: cluster |
//! | 11 | a delay is rounded to seconds | `case_11_…` |
//! | 12 | a job is due in days, in months, after 2038 | `case_12_…` |
//! | 13 | a backlog is not worked off by due time | `case_13_…` |
//! | 14 | a long outage is followed by a storm of ticks | `case_14_…` |
//! | 15 | the first tick of a schedule is lost | `case_15_…` |
//! | 16 | a failure is acknowledged | `case_16_…` |
//! | 17 | a long job outlives its lease | `case_17_…` |
//! | 18 | a node returns while its stand-in delivers | cluster |
//! | 19 | a node and its backup both die | cluster |
//! | 20 | an emptied key leaves something behind | `case_20_…`; its bytes: engines |
//! | 21 | a poisonous job blocks its key, or its node | `case_21_…` |
//! | 22 | a target hangs | `case_22_…` |
//! | 23 | the clock jumps | `case_23_…`; skew between nodes: cluster |
//! | 24 | an acknowledgement of something unknown | `case_24_…` |
//! | 25 | a client gives up waiting and submits again | `case_25_…` |

mod support;
mod scenarios {
    mod backfills;
    mod cases;
    mod keys;
    mod leases;
    mod letters;
    mod manage;
    mod policies;
    mod queues;
    mod recovery;
    mod retries;
    mod schedules;
    mod submit;
    mod waiting;
    mod window;
}

use support::{World, config, window};

/// A world with everything in memory.
fn world() -> World {
    World::new(config())
}

/// A world that keeps so many jobs of a queue in memory.
fn tiny(jobs: usize) -> World {
    World::new(window(jobs))
}
