//! The power fails at every call to the disk in turn.

use super::*;

const COMMITS: usize = 60;

/// Runs until the power fails; how many commits were acknowledged and how many were tried.
fn run_until_off(disk: &FakeDisk) -> (usize, usize) {
    let Ok((kv, _)) = open(disk) else { return (0, 0) };
    for number in 0..COMMITS {
        if kv.commit(&batch_of(number)).is_err() {
            return (number, number + 1);
        }
        if number % 20 == 19 && kv.compact().is_err() {
            return (number + 1, number + 1);
        }
    }
    (COMMITS, COMMITS)
}

fn check_after(disk: &FakeDisk, acknowledged: usize, tried: usize, states: &[Model], what: &str) {
    let (kv, report) = match open(disk) {
        Ok(opened) => opened,
        Err(error) => panic!("{what}: {error}"),
    };
    let found = contents(&kv).expect("reads");
    let number = (acknowledged..=tried).find(|number| states[*number] == found);
    let number = number.unwrap_or_else(|| panic!("{what}: no state of {acknowledged}..={tried}"));
    assert_eq!(report.last_sequence, number as u64, "{what}");
    // It goes on from there.
    kv.commit(&put("after", "crash")).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(kv.get(b"after").expect("reads"), Some(Bytes::from_static(b"crash")));
}

#[test]
fn every_acknowledged_commit_survives_a_crash_at_any_call() {
    let states = states(COMMITS);
    let whole = FakeDisk::new();
    assert_eq!(run_until_off(&whole), (COMMITS, COMMITS));
    let calls = whole.changes();
    assert!(calls > 200, "the run is long enough to be worth it: {calls}");
    for call in 0..=calls {
        let disk = FakeDisk::new();
        disk.power_off_after(call);
        let (acknowledged, tried) = run_until_off(&disk);
        for seed in 0..4 {
            let what = format!("call {call}, seed {seed}");
            check_after(&disk.after_crash(seed), acknowledged, tried, &states, &what);
        }
    }
}

#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let states = states(COMMITS);
    let whole = FakeDisk::new();
    run_until_off(&whole);
    let first = FakeDisk::new();
    first.power_off_after(whole.changes() * 3 / 5);
    let (acknowledged, tried) = run_until_off(&first);
    assert!(acknowledged > 10 && acknowledged < COMMITS, "{acknowledged}");
    for seed in 0..4 {
        let crashed = first.after_crash(seed);
        let probe = crashed.fork();
        open(&probe).expect("opens");
        for call in 0..=probe.changes() {
            let again = crashed.fork();
            again.power_off_after(call);
            drop(open(&again));
            let what = format!("seed {seed}, call {call}");
            check_after(&again.after_crash(seed + call), acknowledged, tried, &states, &what);
        }
    }
}

#[test]
fn the_same_calls_give_the_same_disk() {
    let run = || {
        let disk = FakeDisk::new();
        run_until_off(&disk);
        let names = super::super::disk::Disk::list(&disk, dir()).expect("lists");
        names.iter().map(|name| disk.content(&dir().join(name))).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
