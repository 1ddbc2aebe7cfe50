//! The values of messages in the state, numbered. Each value lists the messages that have it, by column and by the set
//! of blocks that the messages match, in the order of time.
//! A value without messages is forgotten, so an endless stream of new values takes no more than its window.

use super::{ColumnIx, SetIx, Slot, Time, ValueIx};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Messages in the order of their times, those of equal times as they came.
#[derive(Default)]
pub struct Postings(VecDeque<(Time, Slot)>);

impl Postings {
    pub fn insert(&mut self, time: Time, slot: Slot) {
        if self.0.back().is_none_or(|last| last.0 <= time) {
            self.0.push_back((time, slot));
        } else {
            let at = self.0.partition_point(|p| p.0 <= time);
            self.0.insert(at, (time, slot));
        }
    }

    pub fn remove(&mut self, time: Time, slot: Slot) {
        let from = self.0.partition_point(|p| p.0 < time);
        if let Some(at) = self.0.range(from..).position(|p| p.1 == slot) {
            self.0.remove(from + at);
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places of the messages from one time to another, both included.
    pub fn between(&self, from: Time, to: Time) -> std::ops::Range<usize> {
        let Some(last) = self.0.back() else { return 0..0 };
        if last.0 < from {
            return 0..0;
        }
        let start = self.0.partition_point(|p| p.0 < from);
        let end = if last.0 <= to { self.0.len() } else { self.0.partition_point(|p| p.0 <= to) };
        start..end.max(start)
    }

    pub fn slots(&self, places: std::ops::Range<usize>) -> impl Iterator<Item = Slot> + '_ {
        self.0.range(places).map(|p| p.1)
    }
}

/// The messages that have a value in a column and match a set of blocks.
pub(crate) struct List {
    pub(crate) column: ColumnIx,
    pub(crate) set: SetIx,
    pub(crate) postings: Postings,
}

struct Value {
    bytes: Box<[u8]>,
    hash: u64,
    users: u32,
    /// Ascending by column, then by set.
    lists: Vec<List>,
}

#[derive(Default)]
pub struct Values {
    items: Vec<Value>,
    free: Vec<ValueIx>,
    ids: HashTable<ValueIx>,
    hasher: DefaultHashBuilder,
    bytes: usize,
}

/// What a value costs beside its bytes, about.
const OVERHEAD: usize = 120;

impl Values {
    /// The number of a value, with one more user.
    pub fn acquire(&mut self, bytes: &[u8]) -> ValueIx {
        let hash = self.hasher.hash_one(bytes);
        if let Some(&id) = self.ids.find(hash, |&id| &*self.items[id as usize].bytes == bytes) {
            self.items[id as usize].users += 1;
            return id;
        }
        let value = Value { bytes: bytes.into(), hash, users: 1, lists: vec![] };
        self.bytes += bytes.len() + OVERHEAD;
        let id = self.free.pop().unwrap_or(self.items.len() as ValueIx);
        if id as usize == self.items.len() {
            self.items.push(value);
        } else {
            self.items[id as usize] = value;
        }
        let items = &self.items;
        self.ids.insert_unique(hash, id, |&id| items[id as usize].hash);
        id
    }

    pub fn release(&mut self, id: ValueIx) {
        let value = &mut self.items[id as usize];
        value.users -= 1;
        if value.users == 0 {
            self.bytes -= value.bytes.len() + OVERHEAD;
            let hash = value.hash;
            value.bytes = Box::default();
            value.lists = vec![];
            if let Ok(entry) = self.ids.find_entry(hash, |&x| x == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }

    pub fn get(&self, id: ValueIx) -> &[u8] {
        &self.items[id as usize].bytes
    }

    /// The messages that have the value, by column and set of blocks.
    pub(crate) fn lists(&self, id: ValueIx) -> &[List] {
        &self.items[id as usize].lists
    }

    /// The lists of one column.
    pub(crate) fn lists_of(&self, id: ValueIx, column: ColumnIx) -> &[List] {
        let lists = self.lists(id);
        let from = lists.partition_point(|l| l.column < column);
        &lists[from..from + lists[from..].partition_point(|l| l.column == column)]
    }

    pub(crate) fn insert(&mut self, id: ValueIx, (column, set): (ColumnIx, SetIx), (time, slot): (Time, Slot)) {
        let lists = &mut self.items[id as usize].lists;
        let at = lists.binary_search_by_key(&(column, set), |l| (l.column, l.set)).unwrap_or_else(|at| {
            lists.insert(at, List { column, set, postings: Postings::default() });
            at
        });
        lists[at].postings.insert(time, slot);
    }

    pub(crate) fn remove(&mut self, id: ValueIx, (column, set): (ColumnIx, SetIx), (time, slot): (Time, Slot)) {
        let lists = &mut self.items[id as usize].lists;
        if let Ok(at) = lists.binary_search_by_key(&(column, set), |l| (l.column, l.set)) {
            lists[at].postings.remove(time, slot);
            if lists[at].postings.is_empty() {
                lists.remove(at);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
