//! From a new message to the parts that it may play in queries, each with the stored message that it plays it with.

use super::index::{Entry, Index, PairIx, Within};
use super::state::State;
use super::{ColumnIx, Slot, ValueIx};
use std::ops::Range;

/// From here on a list of messages is worth avoiding.
const LONG: usize = 32;
/// Lists that are looked at for being avoidable.
const MOST_AVOIDED: usize = 16;

struct Way {
    pair: PairIx,
    value: ValueIx,
    column: ColumnIx,
    places: Range<usize>,
}

#[derive(Default)]
pub struct Probe {
    ways: Vec<Way>,
    avoided: Vec<PairIx>,
    /// Stored messages, each with a pair of columns in which it agrees with the new one.
    met: Vec<(Slot, PairIx)>,
    pairs: Vec<PairIx>,
}

impl Probe {
    /// Appends what is found for a message that is not in the index yet.
    pub fn run(&mut self, state: &State, index: &Index, new: Slot, hits: &mut Vec<(Entry, Slot)>) {
        self.find_ways(state, index, new);
        self.avoid_long_ways(index);
        self.met.clear();
        for way in &self.ways {
            if !self.avoided.contains(&way.pair) {
                if let Some(list) = state.values.list(way.value, way.column) {
                    self.met.extend(list.slots(way.places.clone()).map(|slot| (slot, way.pair)));
                }
            }
        }
        self.met.sort_unstable();
        self.met.dedup();
        let doc = state.get(new);
        let mut within = Within::new(index, &doc.blocks);
        for same in self.met.chunk_by(|a, b| a.0 == b.0) {
            let slot = same[0].0;
            if same.len() == 1 && self.avoided.is_empty() {
                let stored = || &state.get(slot).blocks[..];
                let found = within.of_single(same[0].1, state.set_of(slot), stored);
                hits.extend(found.iter().map(|&entry| (entry, slot)));
                continue;
            }
            let stored = state.get(slot);
            if self.avoided.is_empty() {
                self.pairs.clear();
                self.pairs.extend(same.iter().map(|m| m.1));
            } else {
                agreeing(&stored.keys, &doc.keys, index, &mut self.pairs);
            }
            within.each(&self.pairs, &stored.blocks, |entry| hits.push((entry, slot)));
        }
        by_order(state, index, new, hits);
        scan(state, index, new, hits);
    }

    fn find_ways(&mut self, state: &State, index: &Index, new: Slot) {
        self.ways.clear();
        let doc = state.get(new);
        for &(value, column) in &doc.keys {
            for (other, list) in state.values.lists(value) {
                let Some(pair) = index.find(*other, column) else { continue };
                let (from, to) = index.reach(pair).around(doc.time);
                let places = list.between(from, to);
                if !places.is_empty() {
                    self.ways.push(Way { pair, value, column: *other, places });
                }
            }
        }
    }

    /// A hot value leads to many messages. They need not be looked at if no query is satisfied by agreement in such
    /// pairs alone: whatever satisfies a query is then found by another pair too.
    fn avoid_long_ways(&mut self, index: &Index) {
        self.avoided.clear();
        if self.ways.iter().all(|w| w.places.len() < LONG) {
            return;
        }
        self.ways.sort_unstable_by_key(|w| std::cmp::Reverse(w.places.len()));
        for way in self.ways.iter().take(MOST_AVOIDED).take_while(|w| w.places.len() >= LONG) {
            let before = self.avoided.clone();
            if let Err(at) = self.avoided.binary_search(&way.pair) {
                self.avoided.insert(at, way.pair);
            }
            if index.any_within(&self.avoided) {
                self.avoided = before;
            }
        }
    }
}

/// The pairs of columns in which two messages agree, ascending.
fn agreeing(stored: &[(ValueIx, ColumnIx)], new: &[(ValueIx, ColumnIx)], index: &Index, pairs: &mut Vec<PairIx>) {
    pairs.clear();
    let mut rest = stored;
    for &(value, column) in new {
        while rest.first().is_some_and(|k| k.0 < value) {
            rest = &rest[1..];
        }
        let same = rest.iter().take_while(|k| k.0 == value);
        pairs.extend(same.filter_map(|k| index.find(k.1, column)));
    }
    pairs.sort_unstable();
    pairs.dedup();
}

/// Parts that an inequality leads to.
fn by_order(state: &State, index: &Index, new: Slot, hits: &mut Vec<(Entry, Slot)>) {
    let doc = state.get(new);
    for cells in doc.cells.chunk_by(|a, b| a.column == b.column) {
        for order in index.orders(cells[0].column) {
            let Some(ordered) = state.ordered(order.stored) else { continue };
            let Some((live, reach)) = index.ordered(order, &doc.blocks) else { continue };
            let (from, to) = reach.around(doc.time);
            for slot in ordered.fitting(order.op, state.numbers(doc, order.new), (from, to)) {
                let stored = state.get(slot);
                if (from..=to).contains(&stored.time) {
                    live.each(&stored.blocks, |entry| hits.push((entry, slot)));
                }
            }
        }
    }
}

/// Parts that no comparison leads to: all stored messages of the block within reach.
fn scan(state: &State, index: &Index, new: Slot, hits: &mut Vec<(Entry, Slot)>) {
    let doc = state.get(new);
    for &block in doc.blocks.iter() {
        let Some((lists, reach)) = index.scans(block) else { continue };
        let (from, to) = reach.around(doc.time);
        for (stored, entries) in lists {
            let Some(list) = state.of_block(*stored) else { continue };
            for slot in list.slots(list.between(from, to)) {
                hits.extend(entries.iter().map(|&e| (e, slot)));
            }
        }
    }
}
