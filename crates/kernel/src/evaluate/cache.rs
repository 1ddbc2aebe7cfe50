//! Results that depend on the message alone, kept until the message is done, with what they cost.
//!
//! A query pays for a cached result what it cost to make, once, and a step each time that it uses it again: so it pays the
//! same whether it made the result or found it. That needs costs which do not depend on what else was known: a result is
//! made in a frame of its own, in which nothing counts as paid yet.

use super::budget::{Budget, Cost, Exceeded, Meter};
use super::expressions::ExprId;
use super::tree::Node;
use hashbrown::HashTable;
use std::sync::Arc;

/// What is asked of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Want {
    /// Its value; of a node-set all nodes.
    All,
    /// Of a node-set the first node in document order.
    First,
    /// Of a node-set, whether there is any node.
    Any,
    /// Of a node-set, the string-values of its nodes.
    Values,
    /// Of a node-set, the least and the greatest number.
    Extremes,
}

impl Want {
    const COUNT: usize = 5;
}

/// The string-values of a node-set, each once: its hash and the first node that has it, in document order.
#[derive(Default)]
pub(super) struct Values {
    pub(super) list: Vec<(u64, Node)>,
    /// Places in the list by hash.
    places: HashTable<u32>,
}

impl Values {
    pub(super) fn with_capacity(capacity: usize) -> Values {
        Values { list: Vec::with_capacity(capacity), places: HashTable::with_capacity(capacity) }
    }

    /// Appends a value that is not in the list.
    pub(super) fn push(&mut self, hash: u64, node: Node) {
        let list = &mut self.list;
        list.push((hash, node));
        self.places.insert_unique(hash, list.len() as u32 - 1, |at| list[*at as usize].0);
    }

    /// Returns the nodes whose values have a hash.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = Node> + '_ {
        let known = self.places.iter_hash(hash).map(|at| self.list[*at as usize]);
        known.filter(move |known| known.0 == hash).map(|known| known.1)
    }
}

#[derive(Clone)]
pub(super) enum Value {
    Boolean(bool),
    Number(f64),
    Text(Arc<[u8]>),
    Nodes(Arc<[Node]>),
    Values(Arc<Values>),
    Extremes(Extremes),
}

/// The least and the greatest number in a node-set; NaN where there is none.
#[derive(Clone, Copy)]
pub(super) struct Extremes {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Value {
    fn size(&self) -> usize {
        match self {
            Value::Boolean(_) | Value::Number(_) | Value::Extremes(_) => 0,
            Value::Text(text) => text.len(),
            Value::Nodes(nodes) => size_of_val(&**nodes),
            Value::Values(values) => 2 * size_of::<(u64, Node)>() * values.list.len(),
        }
    }
}

enum Made {
    Value(Value),
    /// It could not be made with this much of a budget left.
    Failed(Budget, Exceeded),
}

struct Entry {
    key: Key,
    made: Made,
    cost: Cost,
    /// The frame that has paid for it.
    paid: u64,
}

type Key = (ExprId, Want);

/// The results of one message.
#[derive(Default)]
pub(super) struct Cache {
    entries: Vec<Entry>,
    /// By expression and what is asked of it, where the entry may be: it is there if it has that key.
    places: Vec<u32>,
    frame: u64,
    frames: u64,
    /// What the frames around the current one had paid for, and the current one pays for too.
    paid: Vec<(Key, u64)>,
    /// Bytes of all results.
    held: usize,
}

/// Bytes of results that are kept for the next query.
const MOST_HELD: usize = 64 << 20;
/// Entries for which memory is kept for the next message.
const KEPT: usize = 1 << 16;

fn place((id, want): Key) -> usize {
    id.0 as usize * Want::COUNT + want as usize
}

/// The frame around another one.
pub(super) struct Outer {
    frame: u64,
    paid: usize,
}

impl Cache {
    #[inline]
    fn find(&self, key: Key) -> Option<usize> {
        let at = *self.places.get(place(key))? as usize;
        self.entries.get(at).filter(|entry| entry.key == key).map(|_| at)
    }

    fn insert(&mut self, entry: Entry) {
        if let Some(at) = self.find(entry.key) {
            self.entries[at] = entry;
            return;
        }
        let place = place(entry.key);
        if place >= self.places.len() {
            self.places.resize(place + 1, 0);
        }
        self.places[place] = self.entries.len() as u32;
        self.entries.push(entry);
    }

    /// Begins a message.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEPT);
        self.paid.clear();
        self.held = 0;
    }

    /// Begins a query, which has paid for nothing. Results are dropped here and nowhere else, so that a query finds again
    /// what it has paid for.
    pub(super) fn begin(&mut self) {
        if self.held > MOST_HELD {
            self.clear();
        }
        self.paid.clear();
        self.frames += 1;
        self.frame = self.frames;
    }

    /// Begins a frame in which nothing is paid for.
    pub(super) fn enter(&mut self) -> Outer {
        let outer = Outer { frame: self.frame, paid: self.paid.len() };
        self.frames += 1;
        self.frame = self.frames;
        outer
    }

    pub(super) fn leave(&mut self, outer: Outer) {
        while self.paid.len() > outer.paid {
            let Some((key, frame)) = self.paid.pop() else { break };
            if let Some(at) = self.find(key) {
                self.entries[at].paid = frame;
            }
        }
        self.frame = outer.frame;
    }

    /// Returns a result that is known, after it has been paid for; None if it must be made.
    pub(super) fn get(&mut self, key: Key, meter: &mut Meter) -> Result<Option<Value>, Exceeded> {
        let Some(at) = self.find(key) else { return Ok(None) };
        let entry = &mut self.entries[at];
        match &entry.made {
            Made::Value(value) => {
                if entry.paid == self.frame {
                    meter.steps(1)?;
                } else {
                    self.paid.push((key, entry.paid));
                    entry.paid = self.frame;
                    meter.pay(entry.cost)?;
                }
                Ok(Some(value.clone()))
            }
            Made::Failed(with, why) => {
                let left = meter.left();
                if left.steps <= with.steps && left.bytes <= with.bytes {
                    Err(*why)
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// Returns a node-set that is known, after its cost has been paid, whoever paid for it before.
    pub(super) fn nodes(&mut self, id: ExprId, meter: &mut Meter) -> Result<Option<Arc<[Node]>>, Exceeded> {
        match self.find((id, Want::All)).map(|at| &self.entries[at]) {
            Some(Entry { made: Made::Value(Value::Nodes(nodes)), cost, .. }) => {
                meter.pay(*cost)?;
                Ok(Some(nodes.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Keeps a result, for which the current frame has paid if `is_paid`. `before` is what was left of the budget.
    pub(super) fn put(
        &mut self,
        key: Key,
        made: Result<Value, Exceeded>,
        before: Budget,
        meter: &mut Meter,
        is_paid: bool,
    ) -> Result<Value, Exceeded> {
        // the memory of a result is part of its cost
        let made = made.and_then(|value| meter.bytes(value.size()).map(|()| value));
        let cost = meter.since(before);
        match &made {
            Ok(value) => {
                self.held += value.size() + size_of::<Entry>();
                let paid = if is_paid { self.frame } else { 0 };
                if is_paid {
                    self.paid.push((key, 0));
                }
                self.insert(Entry { key, made: Made::Value(value.clone()), cost, paid });
            }
            Err(why) => {
                self.insert(Entry { key, made: Made::Failed(before, *why), cost, paid: 0 });
            }
        }
        made
    }
}
