//! Simulated worlds: the same seed tells the same story, and every seed that ever showed a bug is
//! lived through again.

use std::fs;
use std::path::Path;

use hence_sim::history::{Event, Verb, What};
use hence_sim::seeds::run_one;
use hence_sim::world::{self, Fault, Options, Size};

fn options(seed: u64) -> Options {
    Options { seed, ..Options::default() }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in [1, 2, 3, 7, 1001] {
        let [first, second] = [(); 2].map(|()| world::run(&options(seed)).expect("a world"));
        assert!(first.events.len() > 500, "seed {seed} is worth telling");
        for (one, other) in first.events.iter().zip(&second.events) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first.events.len(), second.events.len(), "seed {seed}");
        assert_eq!(first.steps, second.steps, "seed {seed}");
    }
}

#[test]
fn another_seed_tells_another_story() {
    let [one, other] = [1, 2].map(|seed| world::run(&options(seed)).expect("a world"));
    assert_ne!(one.events, other.events);
    assert_ne!(one.faults, other.faults);
}

#[test]
fn a_handful_of_worlds_keep_every_promise() {
    for seed in 1..=6 {
        let (_, reasons) = run_one(&options(seed));
        assert!(reasons.is_empty(), "seed {seed}: {reasons:#?}");
    }
}

/// One seed a line, and behind it what it showed.
#[test]
fn seeds_that_once_failed_do_not_fail_again() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/seeds.txt");
    let text = fs::read_to_string(path).expect("the list is there");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut count = 0;
    for line in lines {
        let (seed, what) = line.split_once(' ').expect("a seed and what it showed");
        let (_, reasons) = run_one(&options(seed.parse().expect("a seed")));
        assert!(reasons.is_empty(), "seed {seed} ({what}): {reasons:#?}");
        count += 1;
    }
    assert!(count > 0, "a list of nothing shows nothing");
}

fn fired(events: &[Event]) -> Vec<&str> {
    let kinds = events.iter().filter_map(|event| match &event.what {
        What::Fault { kind, .. } => Some(kind.as_str()),
        _ => None,
    });
    kinds.collect()
}

#[test]
fn a_world_can_be_narrowed_to_some_of_its_faults() {
    let all = world::run(&options(1)).expect("a world");
    let (one, _) = all.faults[0];
    let narrow = Options { only: Some(vec![one]), ..options(1) };
    let narrow = world::run(&narrow).expect("a world");
    assert!(fired(&all.events).iter().any(|kind| *kind != one.as_str()));
    assert!(fired(&narrow.events).iter().all(|kind| *kind == one.as_str()));
    assert_eq!(narrow.faults.len(), 1);
}

#[test]
fn a_world_can_be_cut_short() {
    let whole = world::run(&options(1)).expect("a world");
    let short = Options { steps: Some(500), ..options(1) };
    let short = world::run(&short).expect("a world");
    assert!(short.events.len() * 4 < whole.events.len(), "{} events", short.events.len());
    let last = short.events.last().expect("something happened");
    assert!(matches!(last.what, What::Final(_)), "it still comes to its end");
}

#[test]
fn a_world_without_faults_is_calm() {
    let calm = Options { only: Some(Vec::new()), ..options(5) };
    let run = world::run(&calm).expect("a world");
    assert_eq!(run.broken, None);
    assert!(fired(&run.events).is_empty());
    assert!(run.done() > 100, "{} deliveries", run.done());
}

#[test]
fn every_fault_has_its_own_name() {
    let mut names: Vec<_> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Fault::ALL.len());
}

#[test]
fn a_large_world_keeps_every_promise_and_its_story_can_be_read() {
    let large = Options { size: Size::Large, ..options(1) };
    let (run, reasons) = run_one(&large);
    assert!(reasons.is_empty(), "{reasons:#?}");
    let run = run.expect("a world");
    assert!(run.simulated_ms >= 3_600_000, "{} ms", run.simulated_ms);
    let submitted = |event: &&Event| matches!(event.what, What::Ask { verb: Verb::Submit(_), .. });
    let submitted = run.events.iter().filter(submitted).count();
    assert!(submitted >= 5_000, "{submitted} submissions");
    let of_one = world::about(&run.events, "alpha/-/p1-1");
    assert!(of_one.len() * 10 < run.events.len(), "{} lines", of_one.len());
}
