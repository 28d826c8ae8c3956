//! A set in order, for what mostly comes at its end and goes from its front: as dense in memory as
//! a list, and as quick at both ends. A tree that is filled in order is half empty.

use alloc::collections::VecDeque;

/// Items in one piece. More would be moved when one comes or goes in the middle; with fewer, there
/// would be more pieces to search.
const PIECE_MAX: usize = 256;

/// Different items, in order.
#[derive(Debug)]
pub(super) struct Sorted<T> {
    /// In order, none empty, each with at most `PIECE_MAX` items. Two neighbours hold more than a
    /// quarter of that together, so that what is left of many does not take the room of all.
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { pieces: VecDeque::new(), len: 0 }
    }
}

impl<T: Ord> Sorted<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The least.
    pub(super) fn first(&self) -> Option<&T> {
        self.pieces.front()?.front()
    }

    /// All of them, from both ends.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// Puts an item in; `false` if it was there.
    pub(super) fn insert(&mut self, item: T) -> bool {
        let at = self.piece_of(&item);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.append(item);
            return true;
        };
        let Err(place) = piece.binary_search(&item) else { return false };
        piece.insert(place, item);
        if piece.len() > PIECE_MAX {
            let upper = piece.split_off(PIECE_MAX / 2);
            self.pieces.insert(at + 1, upper);
        }
        self.len += 1;
        true
    }

    /// Takes an item out; `false` if it was not there.
    pub(super) fn remove(&mut self, item: &T) -> bool {
        let at = self.piece_of(item);
        let Some(piece) = self.pieces.get_mut(at) else { return false };
        let Ok(place) = piece.binary_search(item) else { return false };
        piece.remove(place);
        self.len -= 1;
        self.tidy(at);
        true
    }

    /// Takes the least out.
    pub(super) fn pop_first(&mut self) -> Option<T> {
        let first = self.pieces.front_mut()?.pop_front();
        self.len -= 1;
        self.tidy(0);
        first
    }

    /// The piece in which an item is, if it is there at all; one past the last if it is greater
    /// than all.
    fn piece_of(&self, item: &T) -> usize {
        let is_before = |piece: &VecDeque<T>| piece.back().is_some_and(|last| last < item);
        match (self.pieces.front(), self.pieces.back()) {
            // Nearly all are at one of the ends, and to search looks into many pieces.
            (Some(first), _) if !is_before(first) => 0,
            (_, Some(last)) if is_before(last) => self.pieces.len(),
            _ => self.pieces.partition_point(is_before),
        }
    }

    /// Puts an item in that is greater than all.
    fn append(&mut self, item: T) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE_MAX => last.push_back(item),
            _ => self.pieces.push_back(VecDeque::from([item])),
        }
        self.len += 1;
    }

    /// After an item of a piece has gone: joins it with a neighbour if little is left of both.
    fn tidy(&mut self, at: usize) {
        if self.pieces[at].is_empty() {
            self.pieces.remove(at);
        }
        for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            let Some(right) = self.pieces.get(left + 1).map(VecDeque::len) else { continue };
            if self.pieces[left].len() + right <= PIECE_MAX / 4
                && let Some(mut right) = self.pieces.remove(left + 1)
            {
                self.pieces[left].append(&mut right);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;

    /// Numbers in no order, each once.
    fn mixed(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |nth| (nth * 7_919) % count)
    }

    fn check(sorted: &Sorted<u64>, known: &BTreeSet<u64>) {
        assert_eq!(sorted.len(), known.len());
        assert_eq!(sorted.first(), known.first());
        assert!(sorted.iter().eq(known.iter()) && sorted.iter().rev().eq(known.iter().rev()));
        let sizes: Vec<usize> = sorted.pieces.iter().map(VecDeque::len).collect();
        assert!(sizes.iter().all(|size| (1..=PIECE_MAX).contains(size)), "{sizes:?}");
        let sparse = |pair: &[usize]| pair[0] + pair[1] <= PIECE_MAX / 4;
        assert!(!sizes.windows(2).any(sparse), "{sizes:?}");
    }

    #[test]
    fn it_does_what_a_tree_does() {
        let mut sorted = Sorted::default();
        let mut known = BTreeSet::new();
        let count = 5_003;
        for (nth, number) in mixed(count).enumerate() {
            assert!(sorted.insert(number) && known.insert(number));
            assert!(!sorted.insert(number), "it was there");
            if nth % 97 == 0 {
                check(&sorted, &known);
            }
        }
        for (nth, number) in mixed(count).skip(17).enumerate() {
            assert_eq!(sorted.remove(&number), known.remove(&number));
            assert!(!sorted.remove(&number), "it has gone");
            if nth % 3 == 0 {
                assert_eq!(sorted.pop_first(), known.pop_first());
            }
            if nth % 97 == 0 {
                check(&sorted, &known);
            }
        }
        while let Some(first) = known.pop_first() {
            assert_eq!(sorted.pop_first(), Some(first));
            check(&sorted, &known);
        }
        assert_eq!(sorted.pop_first(), None);
    }

    #[test]
    fn what_comes_in_order_lies_dense() {
        let mut sorted = Sorted::default();
        for number in 0..100 * PIECE_MAX {
            assert!(sorted.insert(number));
        }
        assert_eq!(sorted.pieces.len(), 100);
        let room: usize = sorted.pieces.iter().map(VecDeque::capacity).sum();
        assert_eq!(room, sorted.len(), "no room is left over");
    }
}
