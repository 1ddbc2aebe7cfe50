//! The values of messages in the state, numbered, each with the messages that have it: per column, in the order of time.
//! A value without messages is forgotten, so an endless stream of new values takes no more than its window.

use super::{ColumnIx, Slot, Time, ValueIx};
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

struct Value {
    bytes: Box<[u8]>,
    hash: u64,
    users: u32,
    lists: Vec<(ColumnIx, Postings)>,
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

    /// The messages that have the value, by column.
    pub fn lists(&self, id: ValueIx) -> &[(ColumnIx, Postings)] {
        &self.items[id as usize].lists
    }

    pub fn list(&self, id: ValueIx, column: ColumnIx) -> Option<&Postings> {
        self.lists(id).iter().find(|l| l.0 == column).map(|l| &l.1)
    }

    pub fn list_mut(&mut self, id: ValueIx, column: ColumnIx) -> &mut Postings {
        let lists = &mut self.items[id as usize].lists;
        let at = lists.iter().position(|l| l.0 == column).unwrap_or_else(|| {
            lists.push((column, Postings::default()));
            lists.len() - 1
        });
        &mut lists[at].1
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
