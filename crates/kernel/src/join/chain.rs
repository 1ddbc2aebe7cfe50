//! Queries of more than two blocks: from two messages that go together to all that complete them.
//!
//! Nothing intermediate is stored: what a chain has found so far follows from the messages in the state, which have to
//! stay for its output anyway. So late messages, restarts and expiry need no thought of their own.

use super::query::{Comparison, Place, Query};
use super::state::State;
use super::{ColumnIx, Slot, Time, NO_VALUE};
use crate::shapes::program::Op;

/// Combinations of one new message and one query; beyond this they are cut off.
const MAX_COMBINATIONS: usize = 1 << 20;

pub struct Chain<'a> {
    pub state: &'a State,
    pub query: &'a Query,
}

impl Chain<'_> {
    /// All combinations that have these two messages in their places, as slots by block. False if there were too many.
    pub fn complete(&self, one: (u32, Slot), other: (u32, Slot), out: &mut Vec<Box<[Slot]>>) -> bool {
        let mut chosen: Vec<Option<Slot>> = vec![None; self.query.body.blocks.len()];
        chosen[one.0 as usize] = Some(one.1);
        chosen[other.0 as usize] = Some(other.1);
        self.extend(&mut chosen, out);
        out.len() < MAX_COMBINATIONS
    }

    fn extend(&self, chosen: &mut Vec<Option<Slot>>, out: &mut Vec<Box<[Slot]>>) {
        if out.len() >= MAX_COMBINATIONS || !self.in_time(chosen) {
            return;
        }
        let Some(next) = self.next(chosen) else {
            out.push(chosen.iter().map(|c| c.unwrap_or_default()).collect());
            return;
        };
        for slot in self.candidates(next, chosen) {
            if !chosen.contains(&Some(slot)) && self.state.get(slot).matches(self.query.body.blocks[next]) {
                chosen[next] = Some(slot);
                self.extend(chosen, out);
                chosen[next] = None;
            }
        }
    }

    /// The block to choose a message for: one that an equality leads to, if there is one.
    fn next(&self, chosen: &[Option<Slot>]) -> Option<usize> {
        let open = || (0..chosen.len()).filter(|&b| chosen[b].is_none());
        open().find(|&b| self.ways(b, chosen).next().is_some()).or_else(|| open().next())
    }

    /// Equalities between a block and chosen ones: the place in the block and that in the chosen one.
    fn ways<'s>(&'s self, block: usize, chosen: &'s [Option<Slot>]) -> impl Iterator<Item = (Place, Place)> + 's {
        self.query.form().comparisons.iter().filter(|c| c.op == Op::Eq).filter_map(move |c| {
            let (own, other) = if c.left.block as usize == block { (c.left, c.right) } else { (c.right, c.left) };
            let leads = own.block as usize == block && chosen[other.block as usize].is_some();
            leads.then_some((own, other))
        })
    }

    fn column(&self, place: Place) -> ColumnIx {
        self.query.body.shape.variable(place).column
    }

    fn candidates(&self, block: usize, chosen: &[Option<Slot>]) -> Vec<Slot> {
        let span = self.query.span();
        let times = || chosen.iter().flatten().map(|&s| self.state.get(s).time);
        let from = times().max().unwrap_or(Time::MIN).saturating_sub(span);
        let to = times().min().unwrap_or(Time::MAX).saturating_add(span);
        let mut found: Option<Vec<Slot>> = None;
        for (own, other) in self.ways(block, chosen) {
            let Some(slot) = chosen[other.block as usize] else { continue };
            let cells = self.state.get(slot).cells_of(self.column(other));
            let mut slots = vec![];
            for cell in cells.iter().filter(|c| c.value != NO_VALUE) {
                let lists = self.state.values.lists_of(cell.value, self.column(own)).iter();
                let wanted = self.query.body.blocks[block];
                for list in lists.filter(|l| self.state.sets.get(l.set).binary_search(&wanted).is_ok()) {
                    slots.extend(list.postings.slots(list.postings.between(from, to)));
                }
            }
            slots.sort_unstable();
            slots.dedup();
            if found.as_ref().is_none_or(|f| f.len() > slots.len()) {
                found = Some(slots);
            }
        }
        found.or_else(|| self.in_order(block, chosen, (from, to))).unwrap_or_else(|| {
            let list = self.state.of_block(self.query.body.blocks[block]);
            list.map_or(vec![], |l| l.slots(l.between(from, to)).collect())
        })
    }

    /// Where no equality leads to a block: what an inequality with a chosen one does.
    fn in_order(&self, block: usize, chosen: &[Option<Slot>], times: (Time, Time)) -> Option<Vec<Slot>> {
        let of_block = |c: &&Comparison| c.is_order() && [c.left, c.right].iter().any(|p| p.block as usize == block);
        let orders = self.query.form().comparisons.iter().filter(of_block).filter_map(|c| {
            let (own, other) = if c.left.block as usize == block { (c.left, c.right) } else { (c.right, c.left) };
            let doc = self.state.get(chosen[other.block as usize]?);
            let numbers = self.state.numbers(doc, self.column(other));
            Some(self.state.ordered(self.column(own))?.fitting(c.op_from(own.block), numbers, times))
        });
        orders.min_by_key(Vec::len)
    }

    /// Do the messages chosen so far leave room for the rest? Exact as soon as those of a tie are all there.
    fn in_time(&self, chosen: &[Option<Slot>]) -> bool {
        let mut left = Time::MIN;
        for (i, slot) in chosen.iter().enumerate() {
            let Some(slot) = slot else { return true };
            let time = self.state.get(*slot).time;
            if i > 0 {
                let window = self.query.form().windows.get(i - 1).copied().unwrap_or(self.query.widest());
                if self.query.form().ties[i - 1].gap(left, time).is_none_or(|gap| gap > window) {
                    return false;
                }
            }
            left = left.max(time);
        }
        true
    }
}
