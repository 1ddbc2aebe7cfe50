//! What a thread remembers of the items that messages reach: which are buckets that are to be checked, and what there
//! is to check about them, side by side in memory. A candidate costs little but the looking up, so that is kept short.

use super::climb::{stars, Climber};
use super::expr::{Dag, EVERYTHING, NOTHING};
use super::search::Message;
use super::shared::Sets;
use super::store::{Short, Store};
use crate::bits::fetch;
use crate::gates::Open;
use crate::paths::NONE;

/// Expressions and words kept: past it all are dropped, for subscriptions come and go.
const MAX_EXPRESSIONS: usize = 1 << 20;
const MAX_WORDS: usize = 1 << 24;

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Subscription,
    Guard,
    Gate(Open),
    Bucket(u32),
}

#[derive(Default)]
pub(crate) struct Candidates {
    /// By item: what it is, or where in `words` it is told what to check; and one of its guards, the bucket that the store
    /// checks, or whom a gate leads to.
    entries: Vec<(u32, u32)>,
    /// Of each bucket: the number of guards, these, a set, the number of rows, their subscriptions, and of each row the
    /// number of words that follow: a pattern, or stars. If the set has a single node, the guards decide.
    words: Vec<u32>,
    dag: Dag,
    sets: Sets,
    climber: Climber,
    /// What this message has: entries, and buckets that the store checks.
    reached: Vec<u32>,
    stored: Vec<u32>,
    /// Whom the gates of this message lead to.
    open: Open,
    row: Vec<u64>,
}

const UNKNOWN: u32 = 0;
const SUBSCRIPTION: u32 = 1;
const GUARD: u32 = 2;
const STORED: u32 = 3;
const GATE: u32 = 4;
const FIRST: usize = 5;

impl Candidates {
    /// A message ends; `bound` is one past the highest item. Items in `changed` may be others now; `None`: any may.
    pub fn begin(&mut self, bound: usize, changed: Option<&[u32]>) {
        if changed.is_none() || self.dag.size() > MAX_EXPRESSIONS || self.words.len() > MAX_WORDS {
            *self = Candidates::default();
        }
        for &item in changed.unwrap_or(&[]) {
            if let Some(entry) = self.entries.get_mut(item as usize) {
                *entry = (UNKNOWN, NONE);
            }
        }
        self.words.resize(self.words.len().max(FIRST), 0);
        self.entries.resize(bound, (UNKNOWN, NONE));
        self.reached.clear();
        self.stored.clear();
        self.open = Open::default();
    }

    /// The message has this item. True if it is a subscription. `has`: does the message have a guard?
    #[inline(always)]
    pub fn reach(&mut self, store: &Store, item: u32, what: impl Fn(u32) -> Item, has: impl Fn(u32) -> bool) -> bool {
        let (mut entry, mut other) = self.entries[item as usize];
        if entry == UNKNOWN {
            (entry, other) = self.get_to_know(store, item, what(item));
        }
        match entry {
            SUBSCRIPTION => return true,
            GUARD => {}
            GATE => self.open.open(Open::of(other)),
            STORED => {
                // another line of memory, wanted as soon as the nodes have been linked
                store.expect(other);
                self.stored.push(other);
            }
            // most fail here, and what else there is to check lies elsewhere in memory
            _ if other != NONE && !has(other) => {}
            _ => self.reached.push(entry),
        }
        false
    }

    /// An item that the message will be said to have.
    #[inline(always)]
    pub fn expect(&self, item: u32) {
        fetch(&self.entries[item as usize].0);
    }

    /// A guard that will be asked for if the message has the item; `NONE` if none will.
    #[inline(always)]
    pub fn guard(&self, item: u32) -> u32 {
        match self.entries[item as usize] {
            (STORED | GATE, _) => NONE,
            (_, guard) => guard,
        }
    }

    /// Whom do the gates of the message lead to?
    pub(crate) fn open(&self) -> Open {
        self.open
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
    pub fn check(
        &mut self,
        (message, fuel): (Message<'_>, u32),
        has: impl Fn(u32) -> bool,
        expect: impl Fn(u32),
        out: &mut Vec<u32>,
    ) {
        self.sets.begin(&self.dag, message.nodes.len(), fuel);
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
            let centre = rest[0];
            let (subs, mut rest) = rest[2..].split_at(rest[1] as usize);
            let decided = match centre {
                NOTHING => false,
                EVERYTHING => true,
                _ => self.sets.is_single(&self.dag, message, centre),
            };
            if decided {
                out.extend_from_slice(subs);
                continue;
            }
            for &sub in subs {
                let (row, others) = rest[1..].split_at(rest[0] as usize);
                let holds = match *row {
                    [pattern] => self.sets.holds(&self.dag, message, pattern),
                    _ => self.climber.holds(&mut self.sets, &self.dag, message, row),
                };
                if holds {
                    out.push(sub);
                }
                rest = others;
            }
        }
    }

    #[cold]
    fn get_to_know(&mut self, store: &Store, item: u32, what: Item) -> (u32, u32) {
        let known = match what {
            Item::Subscription => (SUBSCRIPTION, NONE),
            Item::Guard => (GUARD, NONE),
            Item::Gate(open) => (GATE, open.word()),
            Item::Bucket(b) => match self.compile(store, b) {
                None => (STORED, b),
                Some(entry) if self.words[entry as usize] == 0 => (entry, NONE),
                Some(entry) => (entry, self.words[entry as usize + 1]),
            },
        };
        self.entries[item as usize] = known;
        known
    }

    /// None if the store is better at it.
    fn compile(&mut self, store: &Store, bucket: u32) -> Option<u32> {
        let Short { trunk, pred, block } = store.short(bucket)?;
        let entry = self.words.len();
        self.words.push(0);
        self.words.extend(store.guards(bucket));
        self.words[entry] = (self.words.len() - entry - 1) as u32;
        let centre = match trunk {
            None => NOTHING,
            Some([]) => EVERYTHING,
            Some(nodes) => self.dag.trunk(nodes),
        };
        let rows = self.words.len() + 1;
        self.words.extend([centre, 0]);
        self.words.extend(block.live().map(|(_, sub)| sub));
        self.words[rows] = (self.words.len() - rows - 1) as u32;
        if centre == EVERYTHING {
            return Some(entry as u32);
        }
        for (i, _) in block.live() {
            self.row.clear();
            block.row(i, &mut self.row);
            let at = self.words.len();
            self.words.push(0);
            if !stars(&mut self.dag, pred, &self.row, &mut self.words) {
                self.words.push(self.dag.pattern(pred, &self.row));
            }
            self.words[at] = (self.words.len() - at - 1) as u32;
        }
        Some(entry as u32)
    }
}
