//! The messages that later ones may join with.

use super::order::Ordered;
use super::sets::Sets;
use super::values::{Postings, Values};
use super::witness::{Bindings, Cell};
use super::{BlockIx, ColumnIx, SetIx, Slot, Time, ValueIx, NO_VALUE};
use crate::shapes::nodes::NodeIx;
use crate::values::number::number;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct Doc {
    /// Its place in the order of arrival.
    pub number: u64,
    pub time: Time,
    /// Which streams it came by, as the caller numbers that.
    pub route: u32,
    pub label: Box<[u8]>,
    pub xml: Box<[u8]>,
    /// The blocks that it matches, ascending.
    pub blocks: Arc<[BlockIx]>,
    /// The number of that set in the state.
    pub set: SetIx,
    /// By column, then in document order.
    pub cells: Box<[Cell]>,
    /// What it can be found by, ascending, each once.
    pub keys: Box<[(ValueIx, ColumnIx)]>,
    /// By block the bindings, where there is a choice in binding its variables.
    pub bindings: Box<[(BlockIx, Bindings)]>,
}

impl Doc {
    pub fn matches(&self, block: BlockIx) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }

    /// The nodes of a column.
    pub fn cells_of(&self, column: ColumnIx) -> &[Cell] {
        let from = self.cells.partition_point(|c| c.column < column);
        let rest = &self.cells[from..];
        &rest[..rest.iter().take_while(|c| c.column == column).count()]
    }

    pub fn value_of(&self, column: ColumnIx, node: NodeIx) -> ValueIx {
        self.cells_of(column).iter().find(|c| c.node == node).map_or(NO_VALUE, |c| c.value)
    }

    pub fn bindings_of(&self, block: BlockIx) -> Option<&Bindings> {
        self.bindings.binary_search_by_key(&block, |b| b.0).ok().map(|at| &self.bindings[at].1)
    }

    fn bytes(&self) -> usize {
        let of = |b: &(BlockIx, Bindings)| {
            64 + 4 * b.1.roots.len() + b.1.edges.iter().map(|e| 24 + 8 * e.len()).sum::<usize>()
        };
        let bindings: usize = self.bindings.iter().map(of).sum();
        let text = self.label.len() + self.xml.len();
        OVERHEAD + text + self.cells.len() * 12 + self.keys.len() * (8 + POSTING) + bindings
    }
}

/// What a message costs beside its contents, about, and what one of its postings does.
const OVERHEAD: usize = 200;
const POSTING: usize = 40;

#[derive(Default)]
pub struct State {
    docs: Vec<Option<Doc>>,
    free: Vec<Slot>,
    by_time: BTreeSet<(Time, Slot)>,
    pub values: Values,
    /// Messages by block, of blocks that no value leads to.
    by_block: HashMap<BlockIx, Postings>,
    /// Of columns that inequalities lead to.
    ordered: HashMap<ColumnIx, Ordered>,
    /// By slot which set of blocks the message matches: looked at for very many messages, which are not.
    set_of: Vec<SetIx>,
    pub(crate) sets: Sets,
    bytes: usize,
}

impl State {
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes + self.values.bytes()
    }

    pub fn get(&self, slot: Slot) -> &Doc {
        self.docs[slot as usize].as_ref().expect("a message in the state")
    }

    /// In the order of time.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.by_time.iter().map(|x| x.1)
    }

    /// Messages that match a block from now on can be found by it.
    pub fn index_block(&mut self, block: BlockIx) {
        self.by_block.entry(block).or_default();
    }

    pub fn of_block(&self, block: BlockIx) -> Option<&Postings> {
        self.by_block.get(&block)
    }

    /// Messages can be found by the numbers of a column from now on.
    pub fn order_column(&mut self, column: ColumnIx) {
        self.ordered.entry(column).or_default();
    }

    pub fn ordered(&self, column: ColumnIx) -> Option<&Ordered> {
        self.ordered.get(&column)
    }

    /// The numbers that a message has in a column.
    pub fn numbers<'a>(&'a self, doc: &'a Doc, column: ColumnIx) -> impl Iterator<Item = f64> + 'a {
        numbers(&self.values, doc.cells_of(column))
    }

    /// A number for the set of blocks that a message matches: the same for the same set.
    #[inline]
    pub fn set_of(&self, slot: Slot) -> SetIx {
        self.set_of[slot as usize]
    }

    /// Stores a message, not yet to be found.
    pub fn put(&mut self, doc: Doc) -> Slot {
        self.bytes += doc.bytes();
        let slot = self.free.pop().unwrap_or(self.docs.len() as Slot);
        self.by_time.insert((doc.time, slot));
        let set = doc.set;
        if slot as usize == self.docs.len() {
            self.docs.push(Some(doc));
            self.set_of.push(set);
        } else {
            self.docs[slot as usize] = Some(doc);
            self.set_of[slot as usize] = set;
        }
        slot
    }

    /// Lets it be found.
    pub fn index(&mut self, slot: Slot) {
        let doc = self.docs[slot as usize].as_ref().expect("a message in the state");
        for &(value, column) in &doc.keys {
            self.values.insert(value, (column, doc.set), (doc.time, slot));
        }
        if !self.by_block.is_empty() {
            for block in doc.blocks.iter() {
                if let Some(list) = self.by_block.get_mut(block) {
                    list.insert(doc.time, slot);
                }
            }
        }
        if !self.ordered.is_empty() {
            for cells in doc.cells.chunk_by(|a, b| a.column == b.column) {
                if let Some(ordered) = self.ordered.get_mut(&cells[0].column) {
                    ordered.insert(doc.time, slot, numbers(&self.values, cells));
                }
            }
        }
    }

    pub fn remove(&mut self, slot: Slot) {
        let Some(doc) = self.docs[slot as usize].take() else { return };
        self.bytes -= doc.bytes();
        self.by_time.remove(&(doc.time, slot));
        for &(value, column) in &doc.keys {
            self.values.remove(value, (column, doc.set), (doc.time, slot));
        }
        if !self.by_block.is_empty() {
            for block in doc.blocks.iter() {
                if let Some(list) = self.by_block.get_mut(block) {
                    list.remove(doc.time, slot);
                }
            }
        }
        if !self.ordered.is_empty() {
            for cells in doc.cells.chunk_by(|a, b| a.column == b.column) {
                if let Some(ordered) = self.ordered.get_mut(&cells[0].column) {
                    ordered.remove(doc.time, slot, numbers(&self.values, cells));
                }
            }
        }
        doc.cells.iter().filter(|c| c.value != NO_VALUE).for_each(|c| self.values.release(c.value));
        self.sets.release(doc.set);
        self.free.push(slot);
    }

    pub fn oldest(&self) -> Option<(Time, Slot)> {
        self.by_time.first().copied()
    }

    /// Forgets what is older than a time; says how many messages that was.
    pub fn expire(&mut self, before: Time) -> usize {
        let mut count = 0;
        while let Some((time, slot)) = self.oldest() {
            if time >= before {
                break;
            }
            self.remove(slot);
            count += 1;
        }
        count
    }
}

fn numbers<'a>(values: &'a Values, cells: &'a [Cell]) -> impl Iterator<Item = f64> + 'a {
    cells.iter().filter(|c| c.value != NO_VALUE).map(|c| number(values.get(c.value)))
}

/// What a message can be found by.
pub fn keys_of(cells: &[Cell]) -> Box<[(ValueIx, ColumnIx)]> {
    let mut keys: Vec<_> = cells.iter().filter(|c| c.value != NO_VALUE).map(|c| (c.value, c.column)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into()
}
