//! Room for very many items of one kind, each found by its slot. An item stays where it was put, so
//! that nothing is copied as more come; what the items of a piece leave is given back.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Items in one piece: as many as there are bits to say which are there.
const PIECE: u32 = u64::BITS;

/// Where an item is, as long as it is there. Half of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u32);

/// The items.
#[derive(Debug)]
pub(super) struct Slab<T> {
    pieces: Vec<Piece<T>>,
    /// Those with a free place; the last one is filled next.
    with_room: Vec<u32>,
    /// One that holds nothing and keeps its memory, for what comes and goes one by one.
    spare: Option<u32>,
}

#[derive(Debug)]
struct Piece<T> {
    /// None while it holds nothing and is not the spare one.
    items: Option<Box<[Option<T>; PIECE as usize]>>,
    /// A bit for each item that is there.
    taken: u64,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pieces: Vec::new(), with_room: Vec::new(), spare: None }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, item: T) -> Slot {
        let at = self.with_room.last().copied().unwrap_or_else(|| self.add_piece());
        let piece = &mut self.pieces[at as usize];
        let nth = piece.taken.trailing_ones();
        let items = piece.items.get_or_insert_with(|| Box::new([const { None }; PIECE as usize]));
        items[nth as usize] = Some(item);
        piece.taken |= 1 << nth;
        self.spare = self.spare.filter(|spare| *spare != at);
        if piece.taken == u64::MAX {
            self.with_room.pop();
        }
        Slot(at * PIECE + nth)
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let (at, nth) = slot.parts();
        let piece = &mut self.pieces[at as usize];
        assert!(piece.taken & (1 << nth) != 0, "only what is there is removed");
        if piece.taken == u64::MAX {
            self.with_room.push(at);
        }
        piece.taken &= !(1 << nth);
        if let Some(items) = &mut piece.items {
            items[nth as usize] = None;
        }
        if piece.taken == 0 && *self.spare.get_or_insert(at) != at {
            piece.items = None;
        }
    }

    /// All of them, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().filter_map(|piece| piece.items.as_deref()).flatten().flatten()
    }

    fn add_piece(&mut self) -> u32 {
        let at = self.pieces.len() as u32;
        assert!(at < u32::MAX / PIECE, "four thousand million items are more than there is memory");
        self.pieces.push(Piece { items: None, taken: 0 });
        self.with_room.push(at);
        at
    }
}

impl<T> Index<Slot> for Slab<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        let (at, nth) = slot.parts();
        match self.pieces[at as usize].items.as_ref().and_then(|items| items[nth as usize].as_ref())
        {
            Some(item) => item,
            None => unreachable!("whoever has a slot has one that is taken"),
        }
    }
}

impl<T> IndexMut<Slot> for Slab<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        let (at, nth) = slot.parts();
        match self.pieces[at as usize].items.as_mut().and_then(|items| items[nth as usize].as_mut())
        {
            Some(item) => item,
            None => unreachable!("whoever has a slot has one that is taken"),
        }
    }
}

impl Slot {
    /// Which piece, and which place of it.
    fn parts(self) -> (u32, u32) {
        (self.0 / PIECE, self.0 % PIECE)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    fn pieces_held<T>(slab: &Slab<T>) -> usize {
        slab.pieces.iter().filter(|piece| piece.items.is_some()).count()
    }

    #[test]
    fn it_does_what_a_map_does() {
        let (mut slab, mut known) = (Slab::default(), BTreeMap::new());
        // More come than go, then more go than come.
        for (nth, goes) in (0..8_000_u32).map(|nth| (nth, 3 * (nth / 4_000) + 1)) {
            if nth * 7_919 % 5 >= goes {
                let slot = slab.insert(nth);
                assert_eq!(known.insert(slot.0, nth), None, "a free slot");
            } else if let Some(slot) = known.keys().nth(nth as usize * 31 % known.len().max(1)) {
                let slot = *slot;
                slab.remove(Slot(slot));
                known.remove(&slot);
            }
            if nth % 97 == 0 {
                assert!(slab.iter().eq(known.values()));
                assert!(known.iter().all(|(slot, item)| slab[Slot(*slot)] == *item));
            }
        }
        assert!(!known.is_empty() && known.len() < 500, "{} are left", known.len());
    }

    #[test]
    fn what_is_not_needed_is_given_back_and_used_again() {
        let mut slab = Slab::default();
        let slots: Vec<Slot> = (0..10 * PIECE).map(|nth| slab.insert(nth)).collect();
        assert_eq!(pieces_held(&slab), 10);
        for slot in slots {
            slab.remove(slot);
        }
        assert_eq!(pieces_held(&slab), 1, "the spare one");
        for nth in 0..10 * PIECE {
            slab.insert(nth);
        }
        assert_eq!((pieces_held(&slab), slab.pieces.len()), (10, 10));
    }
}
