//! Crash states of the embedded engine: every prefix of every bounded workload, with every subset
//! of what was not synced. Whatever the disk kept, what was acknowledged is there, and nothing
//! else is but the one commit that was under way.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hence_store_embedded::kv::fake_disk::FakeDisk;
use hence_store_embedded::kv::{
    Background, Direction, Kv, OpenReport, Options, Read, Span, WriteBatch,
};

const DIR: &str = "/store";

/// Outcomes of one crash that are all looked at; of more, these and as many random ones.
const SUBSETS_MAX: u64 = 256;

/// What a workload is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A small commit: within a sector.
    Put,
    /// A commit over several sectors.
    PutLarge,
    /// A commit that takes back what the last one put.
    Delete,
    /// Memory is written out as a table.
    Flush,
    /// All tables become one.
    Compact,
}

impl Op {
    /// Every one of them.
    pub const ALL: [Op; 5] = [Op::Put, Op::PutLarge, Op::Delete, Op::Flush, Op::Compact];
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Workloads.
    pub workloads: u64,
    /// States of a disk that were opened and compared.
    pub states: u64,
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything there is about workloads of so many operations.
pub fn run(operations: usize, progress: &dyn Fn()) -> Result<Counted> {
    let base = FakeDisk::new();
    open(&base).context("making a store")?;
    let mut counted = Counted::default();
    for length in 1..=operations {
        for number in 0..Op::ALL.len().pow(length as u32) {
            let workload = Workload::of(number, length);
            counted.states += workload.crash_everywhere(&base)?;
            counted.workloads += 1;
            progress();
        }
    }
    Ok(counted)
}

/// A few operations in a row.
struct Workload(Vec<Op>);

/// How far a workload came before the power failed.
struct Came {
    /// The states of which one must be found: after what was acknowledged, and after one more.
    acknowledged: Model,
    tried: Model,
}

impl Workload {
    fn of(mut number: usize, length: usize) -> Self {
        let mut ops = Vec::with_capacity(length);
        for _ in 0..length {
            ops.push(Op::ALL[number % Op::ALL.len()]);
            number /= Op::ALL.len();
        }
        Workload(ops)
    }

    fn crash_everywhere(&self, base: &FakeDisk) -> Result<u64> {
        let whole = base.fork();
        self.run_on(&whole);
        let mut states = 0;
        for call in 0..=whole.changes() {
            let disk = base.fork();
            disk.power_off_after(call);
            let came = self.run_on(&disk);
            states += look_at_all(&disk, &came)
                .with_context(|| format!("{:?}, power off after call {call}", self.0))?;
        }
        Ok(states)
    }

    /// Runs until the end, or until the power fails.
    fn run_on(&self, disk: &FakeDisk) -> Came {
        let mut done = Model::new();
        let Ok((kv, _)) = open(disk) else {
            return Came { acknowledged: done.clone(), tried: done };
        };
        for (at, op) in self.0.iter().enumerate() {
            let mut tried = done.clone();
            let ended = match op {
                Op::Put => commit(&kv, &mut tried, at, 40),
                Op::PutLarge => commit(&kv, &mut tried, at, 2_800),
                Op::Delete => delete(&kv, &mut tried),
                Op::Flush => kv.flush().is_ok(),
                Op::Compact => kv.compact().is_ok(),
            };
            if !ended {
                return Came { acknowledged: done, tried };
            }
            done = tried;
        }
        Came { acknowledged: done.clone(), tried: done }
    }
}

fn commit(kv: &Kv, model: &mut Model, at: usize, bytes: usize) -> bool {
    let (key, value) = (format!("key {at}").into_bytes(), vec![b'a' + at as u8; bytes]);
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    model.insert(key, value);
    kv.commit(&batch).is_ok()
}

fn delete(kv: &Kv, model: &mut Model) -> bool {
    let Some((key, _)) = model.pop_last() else { return true };
    let mut batch = WriteBatch::new();
    batch.delete(&key);
    kv.commit(&batch).is_ok()
}

/// Looks at every outcome of the crash, or at many.
fn look_at_all(disk: &FakeDisk, came: &Came) -> Result<u64> {
    let mut choices = Choices::default();
    let mut states = 0;
    loop {
        look_at(&disk.after_crash_by(states, &mut |limit| choices.choose(limit)), came)?;
        states += 1;
        if !choices.advance() {
            return Ok(states);
        }
        if states == SUBSETS_MAX {
            break;
        }
    }
    for seed in 0..SUBSETS_MAX {
        look_at(&disk.after_crash(seed), came).with_context(|| format!("seed {seed}"))?;
    }
    Ok(2 * SUBSETS_MAX)
}

fn look_at(disk: &FakeDisk, came: &Came) -> Result<()> {
    let (kv, _) = open(disk).context("after the crash")?;
    let found = contents(&kv)?;
    ensure!(
        found == came.acknowledged || found == came.tried,
        "found {:?}, acknowledged were {:?}",
        found.keys().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>(),
        came.acknowledged.keys().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>(),
    );
    let mut batch = WriteBatch::new();
    batch.put(b"and on", b"it goes");
    if kv.commit(&batch).is_err() || kv.get(b"and on")?.is_none() {
        bail!("it does not go on after the crash");
    }
    Ok(())
}

/// Counts through all ways to choose.
#[derive(Default)]
struct Choices {
    /// How many there were at each choice, and which was taken.
    taken: Vec<(u64, u64)>,
    at: usize,
}

impl Choices {
    fn choose(&mut self, limit: u64) -> u64 {
        if self.at == self.taken.len() {
            self.taken.push((limit, 0));
        }
        self.at += 1;
        self.taken[self.at - 1].1
    }

    /// Goes on to the next way; false: that was the last.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((limit, value)) = self.taken.pop() {
            if value + 1 < limit {
                self.taken.push((limit, value + 1));
                return true;
            }
        }
        false
    }
}

/// A store in which everything is small, so that few operations meet every part.
pub(crate) fn open(disk: &FakeDisk) -> hence_store_embedded::kv::Result<(Kv, OpenReport)> {
    let options = Options {
        segment_bytes: 4096,
        spares_ready: 1,
        memtable_bytes: 3_000,
        cache_bytes: 16 * 1024,
        background: Background::Inline,
        ..Options::new(*b"0123456789abcdef")
    };
    Kv::open(Path::new(DIR), options, Arc::new(disk.clone()))
}

pub(crate) fn contents(kv: &Kv) -> hence_store_embedded::kv::Result<Model> {
    let mut found = Model::new();
    kv.scan(Span::all(), Direction::Forward, &mut |key, value| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_choose_comes_once() {
        let mut choices = Choices::default();
        let mut ways = Vec::new();
        loop {
            // The second choice depends on the first.
            let first = choices.choose(3);
            let second = if first == 1 { choices.choose(2) } else { 0 };
            ways.push((first, second));
            if !choices.advance() {
                break;
            }
        }
        assert_eq!(ways, [(0, 0), (1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn short_workloads_survive_every_crash() {
        let counted = run(2, &|| {}).expect("nothing is lost");
        assert_eq!(counted.workloads, 30);
        assert!(counted.states > 1_500, "{counted:?}");
    }

    #[test]
    fn a_lost_commit_is_noticed() {
        let disk = FakeDisk::new();
        let came = Workload(vec![Op::Put]).run_on(&disk);
        assert_eq!(came.acknowledged.len(), 1);
        let refused = look_at(&FakeDisk::new(), &came).expect_err("it is empty");
        assert!(refused.to_string().contains("acknowledged"), "{refused:#}");
    }
}
