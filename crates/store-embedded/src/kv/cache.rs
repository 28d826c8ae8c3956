//! Recently read pieces of tables, kept in memory up to a fixed number of bytes.
//!
//! A clock: a piece that was asked for since the hand last passed stays one round longer. Split
//! into parts with a lock each, so that readers rarely meet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::block::Block;
use super::table_format::Index;

const PARTS: usize = 8;

/// Which piece of which table: its number, and the offset in its file.
pub(super) type Place = (u64, u64);

/// What was read of all tables. Each kind has memory of its own: a walk through many blocks does
/// not push out the filters that spare reading blocks at all.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) blocks: Clock<Block>,
    pub(super) filters: Clock<Bytes>,
    pub(super) indexes: Clock<Arc<Index>>,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        let eighth = bytes_max / 8;
        Cache {
            blocks: Clock::new(4 * eighth),
            filters: Clock::new(3 * eighth),
            indexes: Clock::new(eighth),
        }
    }
}

/// What can be kept: the memory it takes is known, and a copy is a reference.
pub(super) trait Piece: Clone {
    fn bytes(&self) -> usize;
}

impl Piece for Block {
    fn bytes(&self) -> usize {
        Block::bytes(self)
    }
}

impl Piece for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Piece for Arc<Index> {
    fn bytes(&self) -> usize {
        Index::bytes(self)
    }
}

/// Pieces of one kind.
#[derive(Debug)]
pub(super) struct Clock<P> {
    parts: [Mutex<Part<P>>; PARTS],
    part_bytes_max: usize,
}

#[derive(Debug)]
struct Part<P> {
    index: HashMap<Place, usize>,
    slots: Vec<Slot<P>>,
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot<P> {
    place: Place,
    piece: P,
    asked: bool,
}

impl<P: Piece> Clock<P> {
    fn new(bytes_max: usize) -> Self {
        Clock {
            parts: std::array::from_fn(|_| Mutex::new(Part::new())),
            part_bytes_max: bytes_max / PARTS,
        }
    }

    /// The piece at this place, read now if it is not at hand.
    pub(super) fn get_or<E>(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<P, E>,
    ) -> Result<P, E> {
        if let Some(piece) = self.get(place) {
            return Ok(piece);
        }
        let piece = read()?;
        self.insert(place, piece.clone());
        Ok(piece)
    }

    fn get(&self, place: Place) -> Option<P> {
        let mut part = self.part(place).lock().unwrap_or_else(PoisonError::into_inner);
        let slot = *part.index.get(&place)?;
        part.slots[slot].asked = true;
        Some(part.slots[slot].piece.clone())
    }

    fn insert(&self, place: Place, piece: P) {
        let mut part = self.part(place).lock().unwrap_or_else(PoisonError::into_inner);
        if piece.bytes() > self.part_bytes_max || part.index.contains_key(&place) {
            return;
        }
        part.bytes += piece.bytes();
        while part.bytes > self.part_bytes_max {
            part.evict_one();
        }
        let slot = part.slots.len();
        part.index.insert(place, slot);
        part.slots.push(Slot { place, piece, asked: false });
    }

    fn part(&self, (table, offset): Place) -> &Mutex<Part<P>> {
        // Offsets are multiples of nothing in particular; the low bits of a block number differ.
        let spread = (table ^ (offset >> 14)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.parts[spread as usize % PARTS]
    }
}

impl<P: Piece> Part<P> {
    fn new() -> Self {
        Part { index: HashMap::new(), slots: Vec::new(), hand: 0, bytes: 0 }
    }

    fn evict_one(&mut self) {
        assert!(!self.slots.is_empty(), "a piece larger than the cache is not inserted");
        loop {
            self.hand = if self.hand >= self.slots.len() { 0 } else { self.hand };
            if !std::mem::take(&mut self.slots[self.hand].asked) {
                break;
            }
            self.hand += 1;
        }
        let gone = self.slots.swap_remove(self.hand);
        self.index.remove(&gone.place);
        self.bytes -= gone.piece.bytes();
        if let Some(moved) = self.slots.get(self.hand) {
            self.index.insert(moved.place, self.hand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece() -> Bytes {
        Bytes::from(vec![0; 1_000])
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_is_asked_for() {
        let cache = Clock::new(PARTS * 5_000);
        cache.insert((0, 0), piece());
        for number in 1..2000u64 {
            assert!(cache.get((0, 0)).is_some(), "lost after {number} inserts");
            cache.insert((number, number << 14), piece());
        }
        for part in &cache.parts {
            let part = part.lock().expect("no panic");
            assert!(part.bytes <= 5_000);
            assert_eq!(part.index.len(), part.slots.len());
        }
    }

    #[test]
    fn what_is_at_hand_is_not_read_again_and_what_cannot_be_read_is_not_kept() {
        let cache = Clock::new(PARTS * 5_000);
        let place = (1, 4_096);
        assert_eq!(cache.get_or(place, || Err("no disk")), Err("no disk"));
        assert_eq!(cache.get_or(place, || Ok::<_, &str>(piece())), Ok(piece()));
        assert_eq!(cache.get_or(place, || Err("no disk")), Ok(piece()));
    }
}
