//! Recently read blocks, kept in memory up to a fixed number of bytes.
//!
//! A clock: a block that was asked for since the hand last passed stays one round longer. Split
//! into parts with a lock each, so that readers rarely meet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::block::Block;

const PARTS: usize = 8;

/// Which block of which table.
type Place = (u64, u64);

#[derive(Debug)]
pub(super) struct Cache {
    parts: [Mutex<Part>; PARTS],
    part_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Part {
    index: HashMap<Place, usize>,
    slots: Vec<Slot>,
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    place: Place,
    block: Block,
    asked: bool,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Cache { parts: Default::default(), part_bytes_max: bytes_max / PARTS }
    }

    pub(super) fn get(&self, place: Place) -> Option<Block> {
        let mut part = self.part(place).lock().unwrap_or_else(PoisonError::into_inner);
        let slot = *part.index.get(&place)?;
        part.slots[slot].asked = true;
        Some(part.slots[slot].block.clone())
    }

    pub(super) fn insert(&self, place: Place, block: Block) {
        let mut part = self.part(place).lock().unwrap_or_else(PoisonError::into_inner);
        if block.bytes() > self.part_bytes_max || part.index.contains_key(&place) {
            return;
        }
        part.bytes += block.bytes();
        while part.bytes > self.part_bytes_max {
            part.evict_one();
        }
        let slot = part.slots.len();
        part.index.insert(place, slot);
        part.slots.push(Slot { place, block, asked: false });
    }

    fn part(&self, (table, offset): Place) -> &Mutex<Part> {
        // Offsets are multiples of nothing in particular; the low bits of a block number differ.
        let spread = (table ^ (offset >> 14)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.parts[spread as usize % PARTS]
    }
}

impl Part {
    fn evict_one(&mut self) {
        assert!(!self.slots.is_empty(), "a block larger than the cache is not inserted");
        loop {
            self.hand = if self.hand >= self.slots.len() { 0 } else { self.hand };
            if !std::mem::take(&mut self.slots[self.hand].asked) {
                break;
            }
            self.hand += 1;
        }
        let gone = self.slots.swap_remove(self.hand);
        self.index.remove(&gone.place);
        self.bytes -= gone.block.bytes();
        if let Some(moved) = self.slots.get(self.hand) {
            self.index.insert(moved.place, self.hand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::block::BlockBuilder;
    use bytes::Bytes;

    fn block() -> Block {
        let (mut builder, mut out) = (BlockBuilder::default(), Vec::new());
        builder.add(b"key", Some(&[0; 1000]));
        builder.finish(&mut out, 0, 0);
        Block::open(Bytes::from(out), 0, 0).expect("valid")
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_is_asked_for() {
        let cache = Cache::new(PARTS * 5000);
        cache.insert((0, 0), block());
        for number in 1..2000u64 {
            assert!(cache.get((0, 0)).is_some(), "lost after {number} inserts");
            cache.insert((number, number << 14), block());
        }
        for part in &cache.parts {
            let part = part.lock().expect("no panic");
            assert!(part.bytes <= 5000);
            assert_eq!(part.index.len(), part.slots.len());
        }
    }
}
