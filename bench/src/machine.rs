//! What the machine itself does: its clocks, its scheduling noise, and what a process uses of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

/// Microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    now_us() / 1_000
}

/// How late things were, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) early: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// Gathers how late things were.
pub(crate) struct Lateness {
    histogram: Histogram<u64>,
    early: u64,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new(3).expect("three digits are allowed");
        Lateness { histogram, early: 0 }
    }

    /// Takes in one, late by so many microseconds; negative is early.
    pub(crate) fn add(&mut self, late_us: i64) {
        match u64::try_from(late_us) {
            Ok(late) => self.histogram.record(late).expect("it grows as needed"),
            Err(_) => self.early += 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Lateness) {
        self.early += other.early;
        self.histogram.add(&other.histogram).expect("both grow as needed");
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len() + self.early
    }

    pub(crate) fn spread(&self) -> Spread {
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        Spread {
            count: self.count(),
            early: self.early,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.histogram.max() as f64 / 1_000.0,
        }
    }
}

/// How late a thread that only sleeps wakes up, while nothing else of ours runs: what the machine
/// adds to everything.
pub(crate) fn noise(span: Duration) -> Spread {
    let mut lateness = Lateness::new();
    let end = Instant::now() + span;
    let mut next = Instant::now();
    while next < end {
        next += Duration::from_millis(1);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let late = Instant::now().saturating_duration_since(next);
        lateness.add(i64::try_from(late.as_micros()).unwrap_or(i64::MAX));
        // A long gap is one gap, not many.
        next = next.max(Instant::now());
    }
    lateness.spread()
}

/// Measures two things in turns, so that both meet the same weather; returns the median of each.
pub(crate) fn in_turns(
    mut ours: impl FnMut() -> Result<f64>,
    mut theirs: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut our, mut their) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        their.push(theirs()?);
        our.push(ours()?);
    }
    Ok((median(our), median(their)))
}

/// How often two things are measured in turns.
pub(crate) const ROUNDS: u32 = 5;

/// The one in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Waits until a store has made its reserve: files are added in the background after an open, and
/// writing them is not what is measured.
pub(crate) fn settle(dir: &Path) {
    let files = || fs::read_dir(dir).map_or(0, Iterator::count);
    let (mut seen, mut calm) = (0, 0);
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        calm = if files() == seen { calm + 1 } else { 0 };
        seen = files();
        if calm >= 10 {
            return;
        }
    }
}

/// Resident memory of a process, in bytes.
pub(crate) fn rss_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib * 1_024)
}

/// Processor time of a process so far.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    Ok(stat(&format!("/proc/{pid}/stat"))?.own)
}

/// Processor time of a process and its children so far, those that have ended included.
pub(crate) fn family_cpu_time(pid: u32) -> Result<Duration> {
    let parent = stat(&format!("/proc/{pid}/stat"))?;
    let mut sum = parent.own + parent.of_ended_children;
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path().join("stat");
        // Not every entry is a process, and one that is may have ended meanwhile.
        if let Ok(child) = stat(&path.to_string_lossy())
            && child.parent == pid
        {
            sum += child.own;
        }
    }
    Ok(sum)
}

struct Stat {
    parent: u32,
    own: Duration,
    of_ended_children: Duration,
}

fn stat(path: &str) -> Result<Stat> {
    let text = fs::read_to_string(path)?;
    // The name may hold anything, but ends with the last parenthesis.
    let rest = text.rsplit_once(')').context("no name")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| -> Result<u64> { Ok(fields.get(at).context("no field")?.parse()?) };
    let ticks = |at: usize| -> Result<Duration> {
        Ok(Duration::from_millis((number(at)? + number(at + 1)?) * 10))
    };
    let parent = u32::try_from(number(1)?)?;
    Ok(Stat { parent, own: ticks(11)?, of_ended_children: ticks(13)? })
}
