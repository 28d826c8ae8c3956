//! Many worlds, one after the other on every core, and a verdict about each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check;
use crate::world::{self, Fault, Options, Run, Size};

/// Why a seed failed; empty when it did not.
pub type Reasons = Vec<String>;

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were lived through.
    pub seeds: u64,
    /// Those that failed, and why.
    pub failed: BTreeMap<u64, Reasons>,
    /// Simulated time, all together.
    pub simulated_ms: u64,
    /// Steps of the node, all together.
    pub steps: u64,
    /// Events, all together.
    pub events: u64,
    /// Deliveries that were done.
    pub done: u64,
    /// How often each fault fired.
    pub faults: BTreeMap<Fault, u64>,
}

/// Lives through one world and judges it.
pub fn run_one(options: &Options) -> (Option<Run>, Reasons) {
    match catch_unwind(AssertUnwindSafe(|| world::run(options))) {
        Ok(Ok(run)) => {
            let reasons = judge(options, &run);
            (Some(run), reasons)
        }
        Ok(Err(error)) => (None, vec![format!("{error:#}")]),
        Err(panic) => (None, vec![format!("it panicked: {}", message(&*panic))]),
    }
}

/// Everything that is wrong with a run.
fn judge(options: &Options, run: &Run) -> Reasons {
    let mut reasons: Reasons = run.broken.iter().cloned().collect();
    reasons.extend(check::judge(&run.events).iter().map(ToString::to_string));
    // A world that was cut short, or robbed of its faults, is for looking at, not for proving.
    if options.steps.is_none() && options.only.is_none() {
        let idle = run.faults.iter().filter(|(_, fired)| *fired == 0);
        reasons.extend(idle.map(|(fault, _)| format!("{} never fired", fault.as_str())));
        let done = run.done();
        if done < options.size.done_min() {
            reasons.push(format!("only {done} deliveries were done"));
        }
    }
    reasons
}

/// How far to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// Through all of them.
    TheEnd,
    /// Until one fails.
    Failure,
}

/// Lives through many worlds of a size on so many threads; `progress` hears of each.
pub fn run_many(
    seeds: Range<u64>,
    size: Size,
    threads: usize,
    until: Until,
    progress: &(dyn Fn() + Sync),
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let (run, reasons) = run_one(&Options { seed, size, ..Options::default() });
                    if until == Until::Failure && !reasons.is_empty() {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                    summary.lock().expect("nobody panics while adding").add(seed, run, reasons);
                    progress();
                }
            });
        }
    });
    summary.into_inner().expect("nobody panics while adding")
}

impl Summary {
    fn add(&mut self, seed: u64, run: Option<Run>, reasons: Reasons) {
        self.seeds += 1;
        if !reasons.is_empty() {
            self.failed.insert(seed, reasons);
        }
        let Some(run) = run else { return };
        self.simulated_ms += run.simulated_ms;
        self.steps += run.steps;
        self.events += run.events.len() as u64;
        self.done += run.done() as u64;
        for (fault, fired) in run.faults {
            *self.faults.entry(fault).or_default() += fired as u64;
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
