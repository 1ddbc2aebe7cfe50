//! From a new message to the parts that it may play in queries, each with the stored message that it plays it with.

use super::index::{Entry, Index, Live, PairIx, Reach, Within};
use super::query::Order;
use super::state::State;
use super::values::List;
use super::{BlockIx, ColumnIx, Slot, ValueIx};
use hashbrown::HashMap;

/// From here on messages that agree in a pair of columns are worth avoiding.
const LONG: usize = 32;
/// Pairs that are looked at for being avoidable.
const MOST_AVOIDED: usize = 16;
/// From so many lists on it may be quicker to look for those of a few sets than to look at each.
const MANY: usize = 16;

/// A value of the new message that stored ones have in a column, and how many these are at any time, or if there are many
/// lists, how many lists.
struct Way {
    pair: PairIx,
    value: ValueIx,
    column: ColumnIx,
    count: usize,
}

#[derive(Default)]
pub struct Probe {
    ways: Vec<Way>,
    avoided: Vec<PairIx>,
    /// Stored messages, each with a pair of columns in which it agrees with the new one.
    met: Vec<(Slot, PairIx)>,
    pairs: Vec<PairIx>,
    /// What was found.
    pub(crate) hits: Vec<(Entry, Slot)>,
}

/// Room for what is found that is kept from one message to the next.
const MOST_KEPT: usize = 1 << 16;

impl Probe {
    /// Finds the parts of a message that is not in the index yet, and leaves them in `hits`. False if that is more than
    /// `most`: the rest is missing.
    pub fn run(&mut self, state: &State, index: &Index, new: Slot, most: usize) -> bool {
        self.meet(state, index, new);
        let Probe { avoided, met, pairs, hits, .. } = self;
        hits.clear();
        hits.shrink_to(MOST_KEPT);
        let doc = state.get(new);
        let mut within = Within::new(index, &doc.blocks);
        for same in met.chunk_by(|a, b| a.0 == b.0) {
            let slot = same[0].0;
            if hits.len() > most {
                return false;
            }
            if same.len() == 1 && avoided.is_empty() {
                let stored = || &state.get(slot).blocks[..];
                let found = within.of_single(same[0].1, state.set_of(slot), stored);
                hits.extend(found.iter().map(|&entry| (entry, slot)));
                continue;
            }
            let stored = state.get(slot);
            if avoided.is_empty() {
                pairs.clear();
                pairs.extend(same.iter().map(|m| m.1));
            } else {
                agreeing(&stored.keys, &doc.keys, index, pairs);
            }
            within.each(pairs, &stored.blocks, |entry| hits.push((entry, slot)));
        }
        let scans = Scans::new(state, index, new);
        for (slot, lead) in scans.slots(state, new) {
            if hits.len() > most {
                return false;
            }
            scans.each(state, slot, lead, |entry| hits.push((entry, slot)));
        }
        hits.len() <= most
    }

    /// Calls `f` with the parts that a message may play with one stored message after another, in the order in which
    /// these arrived. Takes longer than `run`, and memory for the parts of one stored message at a time.
    pub fn run_in_order(&mut self, state: &State, index: &Index, new: Slot, mut f: impl FnMut(Entry, Slot)) {
        self.meet(state, index, new);
        let doc = state.get(new);
        let scans = Scans::new(state, index, new);
        let leads = scans.slots(state, new);
        let mut slots: Vec<Slot> = self.met.iter().map(|m| m.0).chain(leads.iter().map(|l| l.0)).collect();
        slots.sort_unstable_by_key(|&slot| (state.get(slot).number, slot));
        slots.dedup();
        let mut by_slot: HashMap<Slot, Vec<u32>> = HashMap::new();
        leads.into_iter().for_each(|(slot, lead)| by_slot.entry(slot).or_default().push(lead));
        let mut within = Within::new(index, &doc.blocks);
        let mut entries = vec![];
        for slot in slots {
            entries.clear();
            let from = self.met.partition_point(|m| m.0 < slot);
            let same = self.met[from..].iter().take_while(|m| m.0 == slot);
            let stored = state.get(slot);
            self.pairs.clear();
            self.pairs.extend(same.map(|m| m.1));
            if !self.pairs.is_empty() {
                if !self.avoided.is_empty() {
                    agreeing(&stored.keys, &doc.keys, index, &mut self.pairs);
                }
                within.each(&self.pairs, &stored.blocks, |entry| entries.push(entry));
            }
            for &lead in by_slot.get(&slot).into_iter().flatten() {
                scans.each(state, slot, lead, |entry| entries.push(entry));
            }
            entries.sort_unstable_by_key(|entry| (entry.query, entry.new, entry.stored));
            entries.iter().for_each(|&entry| f(entry, slot));
        }
    }

    /// Finds the stored messages that have a value in common with the new one in some pair of columns. Leaves out those
    /// that match no block which a query with that pair ties to a block of the new message.
    fn meet(&mut self, state: &State, index: &Index, new: Slot) {
        self.find_ways(state, index, new);
        self.avoid_long_ways(index);
        let Probe { ways, avoided, met, .. } = self;
        met.clear();
        let doc = state.get(new);
        for way in ways.iter().filter(|way| !avoided.contains(&way.pair)) {
            let (from, to) = index.reach(way.pair).around(doc.time);
            let mut take = |list: &List| {
                met.extend(list.postings.slots(list.postings.between(from, to)).map(|slot| (slot, way.pair)));
            };
            let lists = state.values.lists_of(way.value, way.column);
            if way.count <= doc.blocks.len() {
                lists.iter().for_each(&mut take); // to tell them apart would take longer
                continue;
            }
            let ties = index.ties(way.pair, &doc.blocks);
            let sets = if lists.len() < MANY { None } else { state.sets.with_any(ties.blocks(), lists.len() / 4) };
            match sets {
                Some(sets) => {
                    let found = sets.iter().filter_map(|set| lists.binary_search_by_key(set, |l| l.set).ok());
                    found.for_each(|at| take(&lists[at]));
                }
                None => lists.iter().filter(|l| ties.meet(state.sets.get(l.set))).for_each(take),
            }
        }
        met.sort_unstable();
        met.dedup();
    }

    fn find_ways(&mut self, state: &State, index: &Index, new: Slot) {
        self.ways.clear();
        let doc = state.get(new);
        for &(value, column) in &doc.keys {
            for lists in state.values.lists(value).chunk_by(|a, b| a.column == b.column) {
                let other = lists[0].column;
                let Some(pair) = index.find(other, column) else { continue };
                let count = match lists.len() {
                    many @ LONG.. => many,
                    _ => lists.iter().map(|l| l.postings.len()).sum(),
                };
                self.ways.push(Way { pair, value, column: other, count });
            }
        }
    }

    /// A hot value leads to many messages. They need not be looked at if no query is satisfied by agreement in such
    /// pairs alone: whatever satisfies a query is then found by another pair too.
    fn avoid_long_ways(&mut self, index: &Index) {
        self.avoided.clear();
        if self.ways.iter().all(|w| w.count < LONG) {
            return;
        }
        self.ways.sort_unstable_by_key(|w| std::cmp::Reverse(w.count));
        for way in self.ways.iter().take(MOST_AVOIDED).take_while(|w| w.count >= LONG) {
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

/// Parts that no equality leads to: those that an inequality leads to, and those of all stored messages within reach.
struct Scans<'a> {
    orders: Vec<(Order, Live<'a>, Reach)>,
    blocks: Vec<(BlockIx, &'a [Entry], Reach)>,
}

impl<'a> Scans<'a> {
    fn new(state: &State, index: &'a Index, new: Slot) -> Scans<'a> {
        let doc = state.get(new);
        let mut scans = Scans { orders: vec![], blocks: vec![] };
        for cells in doc.cells.chunk_by(|a, b| a.column == b.column) {
            for order in index.orders(cells[0].column) {
                if let Some((live, reach)) = index.ordered(order, &doc.blocks) {
                    scans.orders.push((*order, live, reach));
                }
            }
        }
        for (lists, reach) in doc.blocks.iter().filter_map(|&block| index.scans(block)) {
            scans.blocks.extend(lists.iter().map(|(&stored, entries)| (stored, &entries[..], reach)));
        }
        scans
    }

    /// The stored messages, each with the number of what leads there: orders first, then blocks.
    fn slots(&self, state: &State, new: Slot) -> Vec<(Slot, u32)> {
        let doc = state.get(new);
        let mut found = vec![];
        for (i, (order, _, reach)) in self.orders.iter().enumerate() {
            let Some(ordered) = state.ordered(order.stored) else { continue };
            let (from, to) = reach.around(doc.time);
            let slots = ordered.fitting(order.op, state.numbers(doc, order.new), (from, to)).into_iter();
            let near = slots.filter(|&slot| (from..=to).contains(&state.get(slot).time));
            found.extend(near.map(|slot| (slot, i as u32)));
        }
        for (i, (stored, _, reach)) in self.blocks.iter().enumerate() {
            let Some(list) = state.of_block(*stored) else { continue };
            let (from, to) = reach.around(doc.time);
            found.extend(list.slots(list.between(from, to)).map(|slot| (slot, (self.orders.len() + i) as u32)));
        }
        found
    }

    /// Calls `f` with the parts that a lead has for a stored message.
    fn each(&self, state: &State, slot: Slot, lead: u32, mut f: impl FnMut(Entry)) {
        match self.orders.get(lead as usize) {
            Some((_, live, _)) => live.each(&state.get(slot).blocks, f),
            None => self.blocks[lead as usize - self.orders.len()].1.iter().for_each(|&entry| f(entry)),
        }
    }
}
