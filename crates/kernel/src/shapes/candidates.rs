//! What a thread remembers of the items that messages reach: which are buckets that are to be checked, and what there
//! is to check about them, side by side in memory. A candidate costs little but the looking up, so that is kept short.

use super::expr::{Dag, Expr, ExprId, EVERYTHING, NOTHING};
use super::search::Message;
use super::shared::Sets;
use super::store::Store;
use crate::bits::fetch;

/// Expressions and words kept: past it all are dropped, for subscriptions come and go.
const MAX_EXPRESSIONS: usize = 1 << 20;
const MAX_WORDS: usize = 1 << 24;

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Subscription,
    Guard,
    Bucket(u32),
}

#[derive(Default)]
pub struct Candidates {
    /// By item: what it is, or where in `words` it is told what to check.
    entries: Vec<u32>,
    /// Of each bucket: the number of guards, these, the number of rows, and of each row the subscription, the number of
    /// sets that must meet, and these.
    words: Vec<u32>,
    dag: Dag,
    sets: Sets,
    /// Items that are known to be guards. A message has very many of them, and few are asked for.
    guards: Vec<u64>,
    /// What this message has: entries, and buckets that the store checks.
    reached: Vec<u32>,
    stored: Vec<u32>,
    row: Vec<u64>,
}

const UNKNOWN: u32 = 0;
const SUBSCRIPTION: u32 = 1;
const GUARD: u32 = 2;
const STORED: u32 = 3;
const FIRST: usize = 4;

/// In place of the number of sets: a pattern is to be evaluated.
const PATTERN: u32 = u32::MAX;

impl Candidates {
    /// A message ends; `bound` is one past the highest item. Items in `changed` may be others now; `None`: any may.
    pub fn begin(&mut self, bound: usize, changed: Option<&[u32]>) {
        if changed.is_none() || self.dag.size() > MAX_EXPRESSIONS || self.words.len() > MAX_WORDS {
            *self = Candidates::default();
        }
        for &item in changed.unwrap_or(&[]) {
            if let Some(entry) = self.entries.get_mut(item as usize) {
                *entry = UNKNOWN;
                self.guards[item as usize / 64] &= !(1 << (item % 64));
            }
        }
        self.words.resize(self.words.len().max(FIRST), 0);
        self.entries.resize(bound, UNKNOWN);
        self.guards.resize(bound / 64 + 1, 0);
        self.reached.clear();
        self.stored.clear();
    }

    /// The message has this item. True if it is a subscription.
    #[inline(always)]
    pub fn reach(&mut self, store: &Store, item: u32, what: impl Fn(u32) -> Item) -> bool {
        if self.guards[item as usize / 64] >> (item % 64) & 1 == 1 {
            return false;
        }
        let mut entry = self.entries[item as usize];
        if entry == UNKNOWN {
            entry = self.get_to_know(store, item, what(item));
        }
        match entry {
            SUBSCRIPTION => return true,
            GUARD => self.guards[item as usize / 64] |= 1 << (item % 64),
            STORED => {
                if let Item::Bucket(b) = what(item) {
                    self.stored.push(b);
                }
            }
            _ => self.reached.push(entry),
        }
        false
    }

    /// Are there buckets to check?
    pub fn any(&self) -> bool {
        !self.reached.is_empty() || !self.stored.is_empty()
    }

    /// Are there any of which sets of nodes are asked for?
    pub fn ask_values(&self) -> bool {
        !self.reached.is_empty()
    }

    /// Buckets with all their guards that the store checks. `has`: does the message have a guard?
    pub fn stored<'a>(&'a self, store: &'a Store, has: impl Fn(u32) -> bool + 'a) -> impl Iterator<Item = u32> + 'a {
        self.stored.iter().copied().filter(move |&b| store.guards(b).all(&has))
    }

    /// Appends the subscriptions of the other buckets that the message satisfies. `has` is as above; `expect` is told
    /// of what it will be asked.
    pub fn check(&mut self, message: Message<'_>, has: impl Fn(u32) -> bool, expect: impl Fn(u32), out: &mut Vec<u32>) {
        self.sets.begin(&self.dag, message.nodes.len());
        let guards = |entry: u32| {
            let (&guards, rest) = self.words[entry as usize..].split_first().unwrap_or((&0, &[]));
            rest.split_at(guards as usize)
        };
        for (i, &entry) in self.reached.iter().enumerate() {
            // they lie apart, and it is known well ahead which come
            if let Some(&later) = self.reached.get(i + 16) {
                fetch(&self.words[later as usize]);
            }
            if let Some(&soon) = self.reached.get(i + 8) {
                guards(soon).0.iter().for_each(|&g| expect(g));
            }
            let (guards, rest) = guards(entry);
            if !guards.iter().all(|&g| has(g)) {
                continue;
            }
            let mut at = 1;
            for _ in 0..rest[0] {
                let (sub, count) = (rest[at], rest[at + 1]);
                at += 2;
                let holds = if count == PATTERN {
                    at += 1;
                    self.sets.holds(&self.dag, message, rest[at - 1])
                } else {
                    at += count as usize;
                    self.sets.meet(&self.dag, message, &rest[at - count as usize..at])
                };
                if holds {
                    out.push(sub);
                }
            }
        }
    }

    #[cold]
    fn get_to_know(&mut self, store: &Store, item: u32, what: Item) -> u32 {
        let entry = match what {
            Item::Subscription => SUBSCRIPTION,
            Item::Guard => GUARD,
            Item::Bucket(b) => self.compile(store, b).unwrap_or(STORED),
        };
        self.entries[item as usize] = entry;
        entry
    }

    /// None if the store is better at it.
    fn compile(&mut self, store: &Store, bucket: u32) -> Option<u32> {
        let (pred, block) = store.short(bucket)?;
        let entry = self.words.len();
        self.words.push(0);
        self.words.extend(store.guards(bucket));
        self.words[entry] = (self.words.len() - entry - 1) as u32;
        let rows = self.words.len();
        self.words.push(0);
        for (i, sub) in block.live() {
            let pattern = match pred {
                None => EVERYTHING,
                Some(pred) => {
                    self.row.clear();
                    block.row(i, &mut self.row);
                    self.dag.pattern(pred, &self.row)
                }
            };
            if pattern != NOTHING {
                self.words.push(sub);
                push_pattern(&self.dag, pattern, &mut self.words);
                self.words[rows] += 1;
            }
        }
        Some(entry as u32)
    }
}

fn push_pattern(dag: &Dag, pattern: ExprId, words: &mut Vec<u32>) {
    match dag.get(pattern) {
        Expr::Everything => words.push(0),
        Expr::Meet(list) => {
            let list = dag.list(list);
            words.push(list.len() as u32);
            words.extend_from_slice(list);
        }
        _ => words.extend([PATTERN, pattern]),
    }
}
