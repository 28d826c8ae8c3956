//! A map in key order, for keys that come in a few ascending rows: new ones mostly behind the last
//! new one, changed ones mostly behind the last changed one.
//!
//! It is a list of pieces, and remembers the pieces touched last: nearly every key is found in one
//! of them without a search. Keys in any order are searched for, as in a tree of two levels.

use std::collections::VecDeque;
use std::ops::Bound;

/// Items in one piece. More would be moved when one comes between two others; with fewer, the
/// list of pieces would grow. Few where assertions are on, so that short lives in tests and
/// simulations meet more than one piece.
const PIECE_MAX: usize = if cfg!(debug_assertions) { 8 } else { 128 };

#[derive(Debug)]
pub(super) struct Ordered<K, V> {
    /// In order. All keys of a piece are at or behind its `low`, and before the next one's; those
    /// before the first `low` belong to the first piece.
    pieces: VecDeque<Piece<K, V>>,
    /// The pieces touched last, the latest first. They may have moved since.
    recent: [usize; 2],
    len: usize,
    places: usize,
}

#[derive(Debug)]
struct Piece<K, V> {
    low: K,
    /// In order. A key that was taken out keeps its place until all of the piece are out: the
    /// others need not move, and most follow soon.
    items: Vec<(K, Option<V>)>,
    len: usize,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { pieces: VecDeque::new(), recent: [0; 2], len: 0, places: 0 }
    }
}

impl<K: Ord + Clone, V> Ordered<K, V> {
    /// How many keys are in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many keys take up memory: those that were taken out may still do.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let piece = self.pieces.get(self.search(key))?;
        let at = piece.items.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        piece.items[at].1.as_ref()
    }

    /// Puts in the key's place what is made of the value there; nothing, if that is nothing.
    pub(super) fn change(&mut self, key: K, make: impl FnOnce(Option<&V>) -> Option<V>) {
        let Some(at) = self.find(&key) else {
            if let Some(value) = make(None) {
                self.pieces.push_back(Piece::new(key.clone()));
                self.insert((0, 0), key, value);
            }
            return;
        };
        let piece = &mut self.pieces[at];
        match piece.place_of(&key) {
            Ok(place) => {
                let value = &mut piece.items[place].1;
                let before = value.is_some();
                *value = make(value.as_ref());
                let after = value.is_some();
                piece.len = piece.len + usize::from(after) - usize::from(before);
                self.len = self.len + usize::from(after) - usize::from(before);
                if piece.len == 0 {
                    self.drop_piece(at);
                }
            }
            Err(place) => {
                if let Some(value) = make(None) {
                    self.insert((at, place), key, value);
                }
            }
        }
    }

    /// What is between the bounds, from both ends.
    pub(super) fn range(&self, from: Bound<&K>, to: Bound<&K>) -> Range<'_, K, V> {
        let front = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.first(key, |other| other < key),
            Bound::Excluded(key) => self.first(key, |other| other <= key),
        };
        let back = match to {
            Bound::Unbounded => (self.pieces.len(), 0),
            Bound::Included(key) => self.first(key, |other| other <= key),
            Bound::Excluded(key) => self.first(key, |other| other < key),
        };
        Range { pieces: &self.pieces, front, back }
    }

    /// The piece for a key, and from now on one of those touched last; none if there is no piece.
    fn find(&mut self, key: &K) -> Option<usize> {
        let [latest, before] = self.recent;
        if self.is_for(latest, key) {
            return Some(latest);
        }
        let at = if self.is_for(before, key) { before } else { self.search(key) };
        self.recent = [at, latest];
        (at < self.pieces.len()).then_some(at)
    }

    /// Whether the key belongs to this piece.
    fn is_for(&self, at: usize, key: &K) -> bool {
        let behind_low = |piece: &Piece<K, V>| at == 0 || piece.low <= *key;
        let before_next = || self.pieces.get(at + 1).is_none_or(|next| *key < next.low);
        self.pieces.get(at).is_some_and(behind_low) && before_next()
    }

    fn search(&self, key: &K) -> usize {
        self.pieces.partition_point(|piece| piece.low <= *key).saturating_sub(1)
    }

    /// The place of the first key that is not before others, around where the key belongs.
    fn first(&self, key: &K, is_before: impl Fn(&K) -> bool) -> Place {
        let at = self.search(key);
        let items = self.pieces.get(at).map_or(&[][..], |piece| &piece.items);
        (at, items.partition_point(|(other, _)| is_before(other)))
    }

    fn insert(&mut self, (at, place): Place, key: K, value: V) {
        let (at, place) = self.make_room(at, place, &key);
        let piece = &mut self.pieces[at];
        piece.items.insert(place, (key, Some(value)));
        piece.len += 1;
        self.len += 1;
        self.places += 1;
    }

    /// Where the key goes, once there is room for it.
    fn make_room(&mut self, at: usize, place: usize, key: &K) -> Place {
        let piece = &mut self.pieces[at];
        if piece.items.len() < PIECE_MAX {
            return (at, place);
        }
        if place == PIECE_MAX {
            // Behind all: a full piece stays full, and the next one begins here. It will be full
            // soon, too.
            let next = Piece { items: Vec::with_capacity(PIECE_MAX), ..Piece::new(key.clone()) };
            self.pieces.insert(at + 1, next);
            self.recent[0] = at + 1;
            return (at + 1, 0);
        }
        self.places -= piece.items.len() - piece.len;
        piece.items.retain(|(_, value)| value.is_some());
        if piece.len == PIECE_MAX {
            let upper = piece.split();
            self.pieces.insert(at + 1, upper);
        }
        let at = at + usize::from(!self.is_for(at, key));
        (at, self.pieces[at].items.partition_point(|(other, _)| other < key))
    }

    /// Nothing is in it any more.
    fn drop_piece(&mut self, at: usize) {
        self.places -= self.pieces[at].items.len();
        if self.pieces.len() == 1 {
            // The next key will need one.
            self.pieces[at].items.clear();
        } else {
            self.pieces.remove(at);
        }
    }
}

impl<K: Ord + Clone, V> Piece<K, V> {
    fn new(low: K) -> Self {
        Piece { low, items: Vec::new(), len: 0 }
    }

    fn place_of(&self, key: &K) -> Result<usize, usize> {
        match self.items.last() {
            Some((last, _)) if last < key => Err(self.items.len()),
            _ => self.items.binary_search_by(|(other, _)| other.cmp(key)),
        }
    }

    /// Takes the upper half out; nothing in it has gone.
    fn split(&mut self) -> Self {
        let items = self.items.split_off(self.items.len() / 2);
        self.len -= items.len();
        Piece { low: items[0].0.clone(), len: items.len(), items }
    }
}

/// A piece, and an item in it.
type Place = (usize, usize);

/// Keys and values in order.
#[derive(Debug)]
pub(super) struct Range<'a, K, V> {
    pieces: &'a VecDeque<Piece<K, V>>,
    /// The next item.
    front: Place,
    /// The one behind the last.
    back: Place,
}

impl<'a, K, V> Iterator for Range<'a, K, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<&'a V> {
        while self.front < self.back {
            let (at, place) = self.front;
            let Some((_, value)) = self.pieces[at].items.get(place) else {
                self.front = (at + 1, 0);
                continue;
            };
            self.front.1 += 1;
            if value.is_some() {
                return value.as_ref();
            }
        }
        None
    }
}

impl<V, K> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while self.front < self.back {
            let (at, place) = self.back;
            let Some(place) = place.checked_sub(1) else {
                self.back = (at - 1, self.pieces[at - 1].items.len());
                continue;
            };
            self.back.1 = place;
            let value = &self.pieces[at].items[place].1;
            if value.is_some() {
                return value.as_ref();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::ops::RangeBounds;

    /// The map and a tree that went through the same.
    #[derive(Default)]
    struct Both {
        ordered: Ordered<u32, u32>,
        model: BTreeMap<u32, u32>,
    }

    impl Both {
        fn put(&mut self, key: u32, value: u32) {
            let model = &self.model;
            self.ordered.change(key, |old| {
                assert_eq!(old, model.get(&key));
                Some(value)
            });
            self.model.insert(key, value);
        }

        fn remove(&mut self, key: u32) {
            self.ordered.change(key, |_| None);
            self.model.remove(&key);
        }

        fn assert_same(&self) {
            let Both { ordered, model } = self;
            assert_eq!(ordered.len(), model.len());
            assert!(ordered.places() >= ordered.len());
            let all = || ordered.range(Bound::Unbounded, Bound::Unbounded);
            assert!(all().eq(model.values()));
            assert!(all().rev().eq(model.values().rev()));
            let places: usize = ordered.pieces.iter().map(|piece| piece.items.len()).sum();
            assert_eq!(places, ordered.places());
            for piece in &ordered.pieces {
                assert!(piece.items.is_sorted_by_key(|(key, _)| key));
                let len = piece.items.iter().filter(|(_, value)| value.is_some()).count();
                assert_eq!(len, piece.len);
                assert!(len > 0 || ordered.len() == 0, "what is empty has gone");
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// So many new keys, each behind the last of its row.
        Append {
            row: u32,
            count: u32,
        },
        /// The first so many of a row go.
        Shift {
            row: u32,
            count: usize,
        },
        Put(u32),
        Remove(u32),
    }

    const ROW: u32 = 10_000;

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..4 * ROW;
        prop_oneof![
            (0..4u32, 1..400u32).prop_map(|(row, count)| Step::Append { row, count }),
            (0..4u32, 1..400usize).prop_map(|(row, count)| Step::Shift { row, count }),
            key.clone().prop_map(Step::Put),
            key.prop_map(Step::Remove),
        ]
    }

    fn row(both: &Both, row: u32) -> Vec<u32> {
        both.model.range(row * ROW..(row + 1) * ROW).map(|(key, _)| *key).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in proptest::collection::vec(step(), 1..40),
            cuts in [0..4 * ROW, 0..4 * ROW],
        ) {
            let mut both = Both::default();
            for step in steps {
                match step {
                    Step::Append { row: which, count } => {
                        let last = row(&both, which).last().map_or(which * ROW, |last| last + 1);
                        let end = (which + 1) * ROW;
                        (last..end.min(last + count)).for_each(|key| both.put(key, key ^ count));
                    }
                    Step::Shift { row: which, count } => {
                        row(&both, which).into_iter().take(count).for_each(|key| both.remove(key));
                    }
                    Step::Put(key) => both.put(key, !key),
                    Step::Remove(key) => both.remove(key),
                }
                both.assert_same();
            }
            let [low, high] = [cuts[0].min(cuts[1]), cuts[0].max(cuts[1])];
            for from in [Bound::Included(&low), Bound::Excluded(&low), Bound::Unbounded] {
                for to in [Bound::Included(&high), Bound::Excluded(&high), Bound::Unbounded] {
                    let within = |key: &&u32| (from, to).contains(*key);
                    let expected: Vec<_> =
                        both.model.iter().filter(|(key, _)| within(key)).map(|it| it.1).collect();
                    prop_assert!(both.ordered.range(from, to).eq(expected.iter().copied()));
                    let back = both.ordered.range(from, to).rev();
                    prop_assert!(back.eq(expected.iter().rev().copied()));
                }
            }
            prop_assert_eq!(both.ordered.get(&low), both.model.get(&low));
        }
    }

    #[test]
    fn what_comes_in_order_fills_its_pieces_and_what_has_gone_takes_no_room() {
        let mut both = Both::default();
        let count = 10 * PIECE_MAX as u32;
        (0..count).for_each(|key| both.put(key, key));
        assert_eq!(both.ordered.pieces.len(), 10);
        (0..count).for_each(|key| both.remove(key));
        both.assert_same();
        assert_eq!((both.ordered.pieces.len(), both.ordered.places()), (1, 0));
        both.put(7, 7);
        both.assert_same();
    }

    #[test]
    fn both_ends_meet() {
        let mut both = Both::default();
        (0..300).for_each(|key| both.put(key, key));
        let mut range = both.ordered.range(Bound::Unbounded, Bound::Unbounded);
        let mut seen = 0;
        while range.next().is_some() {
            seen += 1 + usize::from(range.next_back().is_some());
        }
        assert_eq!((seen, range.next_back()), (300, None));
    }
}
