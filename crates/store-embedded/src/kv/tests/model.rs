//! The store equals a map, whatever is done to it in whatever order.

use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Op>),
    Flush,
    Compact,
    Reopen,
    Crash(u64),
}

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u8),
    Delete(u8),
    /// Puts a key that never was there; a later `DeleteFresh` removes one of these.
    PutFresh(u8),
    DeleteFresh(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..40, any::<u8>()).prop_map(|(key, value)| Op::Put(key, value)),
        2 => (0u8..40).prop_map(Op::Delete),
        2 => any::<u8>().prop_map(Op::PutFresh),
        2 => any::<u8>().prop_map(Op::DeleteFresh),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => vec(op(), 1..8).prop_map(Step::Commit),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

struct World {
    disk: FakeDisk,
    kv: Option<Kv>,
    model: Model,
    fresh: Vec<Vec<u8>>,
    fresh_count: u32,
}

impl World {
    fn new() -> Self {
        let disk = FakeDisk::new();
        let kv = Some(open_new(&disk));
        World { disk, kv, model: Model::new(), fresh: Vec::new(), fresh_count: 0 }
    }

    fn kv(&self) -> &Kv {
        self.kv.as_ref().expect("open")
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Commit(ops) => {
                let mut batch = WriteBatch::new();
                for op in ops {
                    self.add(&mut batch, &op);
                }
                self.kv().commit(&batch).expect("commits");
            }
            Step::Flush => self.kv().flush().expect("flushes"),
            Step::Compact => self.kv().compact().expect("merges"),
            Step::Reopen => {
                self.kv = None;
                self.kv = Some(open(&self.disk).expect("opens").0);
            }
            Step::Crash(seed) => {
                // Everything acknowledged must be there, whatever became of unsynced sectors.
                self.disk = self.disk.after_crash(seed);
                self.kv = Some(open(&self.disk).expect("opens").0);
            }
        }
    }

    fn add(&mut self, batch: &mut WriteBatch, op: &Op) {
        let key = |key: &u8| format!("key-{key:02}{}", "-long".repeat(*key as usize % 13));
        match op {
            Op::Put(number, value) => {
                let value = vec![*value; *value as usize];
                batch.put(key(number).as_bytes(), &value);
                self.model.insert(key(number).into_bytes(), value);
            }
            Op::Delete(number) => {
                batch.delete(key(number).as_bytes());
                self.model.remove(key(number).as_bytes());
            }
            Op::PutFresh(value) => {
                self.fresh_count += 1;
                let key = format!("fresh-{:05}", self.fresh_count).into_bytes();
                batch.put_fresh(&key, &[*value]);
                self.model.insert(key.clone(), vec![*value]);
                self.fresh.push(key);
            }
            Op::DeleteFresh(choice) => {
                if self.fresh.is_empty() {
                    return;
                }
                let key = self.fresh.swap_remove(*choice as usize % self.fresh.len());
                batch.delete(&key);
                self.model.remove(&key);
            }
        }
    }

    fn compare(&self, low: u8, high: u8) {
        let kv = self.kv();
        let expected: Vec<_> = self.model.clone().into_iter().collect();
        assert_eq!(everything(kv, Direction::Forward).expect("reads"), expected);
        let backward: Vec<_> = expected.iter().rev().cloned().collect();
        assert_eq!(everything(kv, Direction::Backward).expect("reads"), backward);
        for number in 0..40u8 {
            let key = format!("key-{number:02}{}", "-long".repeat(number as usize % 13));
            let found = kv.get(key.as_bytes()).expect("reads").map(|value| value.to_vec());
            assert_eq!(found.as_ref(), self.model.get(key.as_bytes()));
        }
        let (low, high) = (format!("key-{low:02}"), format!("key-{high:02}"));
        self.compare_span(Bound::Included(low.as_bytes()), Bound::Excluded(high.as_bytes()));
        self.compare_span(Bound::Excluded(low.as_bytes()), Bound::Included(high.as_bytes()));
    }

    fn compare_span(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        let inside = |key: &[u8]| {
            let after = match from {
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from,
                Bound::Unbounded => true,
            };
            after
                && match to {
                    Bound::Included(to) => key <= to,
                    Bound::Excluded(to) => key < to,
                    Bound::Unbounded => true,
                }
        };
        let entries = self.model.iter().filter(|(key, _)| inside(key));
        let expected: Vec<_> = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        let span = Span { from, to };
        assert_eq!(within(self.kv(), span, Direction::Forward).expect("reads"), expected);
        let found = within(self.kv(), span, Direction::Backward).expect("reads");
        assert!(found.iter().rev().eq(expected.iter()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_store_equals_a_map(
        steps in vec(step(), 1..120),
        low in 0u8..40,
        high in 0u8..40,
    ) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.compare(low, high);
        world.take(Step::Reopen);
        world.compare(low, high);
        world.take(Step::Compact);
        world.compare(low, high);
    }
}

#[test]
fn a_scan_larger_than_a_piece_sees_every_entry_once() {
    let disk = FakeDisk::new();
    let options = Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk)).expect("opens");
    let mut expected = Vec::new();
    for round in 0..2 {
        let mut batch = WriteBatch::new();
        for number in 0..1500u32 {
            let key = format!("key-{:05}", number * 2 + round);
            batch.put(key.as_bytes(), b"v");
            expected.push((key.into_bytes(), b"v".to_vec()));
        }
        kv.commit(&batch).expect("commits");
        if round == 0 {
            kv.flush().expect("flushes");
        }
    }
    expected.sort();
    assert_eq!(everything(&kv, Direction::Forward).expect("reads"), expected);
    expected.reverse();
    assert_eq!(everything(&kv, Direction::Backward).expect("reads"), expected);
}
