//! Subscriptions in, messages in, matched subscriptions out.
//!
//! An [`Engine`] does not change while messages are matched; all that does is in a
//! [`Matcher`](crate::matcher::Matcher), which its caller owns, one per thread.
//!
//! Subscriptions are numbered. One that is nothing but paths is an item of the path engine under its own number;
//! others are rows of a bucket of their shape, and the bucket is such an item.

mod buckets;
mod transforms;

use crate::evaluate::{is_groups, Queries, TextId, Texts};
use crate::gates::Gates;
use crate::join::Blocks;
use crate::names::{self, is_attribute, is_value, Names, Sym};
use crate::paths::index::PathIndex;
use crate::paths::{PathId, Step};
use crate::shapes::candidates::Item;
use crate::shapes::program::Slot;
use crate::shapes::select::{Form, Wanted};
use crate::shapes::store::{Access, Store};
use crate::transform::set::Set;
use crate::values::constants::Constants;
use buckets::for_rows;
use std::collections::HashMap;

/// The bound on what messages can make a matcher's cache grow to.
pub const CACHE_BYTES: usize = 256 << 20;
/// Most patterns find a witness, or the lack of one, within a few visits per node.
const FUEL: u32 = 16;

pub struct Engine {
    pub(crate) cache_bytes: usize,
    /// Nodes that the search for a witness may visit per message node before the evaluation by sets takes over.
    pub(crate) fuel: u32,
    pub(crate) index: PathIndex,
    pub(crate) constants: Constants,
    pub(crate) store: Store,
    pub(crate) wanted: Wanted,
    /// What is left to ask, by full XPath, of messages that satisfy the patterns of some subscriptions.
    pub(crate) queries: Queries,
    /// Paths to texts that are asked for beside the matches.
    pub(crate) texts: Texts,
    /// The transforms, which share names and constants with the filters: both look at the same table of nodes.
    pub(crate) transforms: Set,
    /// The blocks of correlations, which share these, too.
    pub(crate) blocks: Blocks,
    /// Some subscription needs more than paths.
    pub(crate) has_patterns: bool,
    /// Some path or pattern looks at attributes.
    pub(crate) uses_attributes: bool,
    pub(crate) numbers: Vec<Number>,
    /// The numbers of guards.
    pub(crate) guards: HashMap<PathId, u32>,
    pub(crate) gates: Gates,
    /// Further paths of items that have several.
    pub(crate) more: HashMap<u32, Vec<PathId>>,
    pub(crate) free: Vec<u32>,
    pub(crate) subscriptions: usize,
    pub(crate) changed: Changed,
}

/// Items that may be other than they were: matchers drop what they know of them.
#[derive(Default)]
pub(crate) struct Changed {
    items: Vec<u32>,
    /// How many there were before these.
    before: u64,
}

impl Changed {
    /// More than this many back, matchers had better start afresh.
    const KEPT: usize = 1 << 16;

    pub(crate) fn push(&mut self, item: u32) {
        if self.items.len() == Self::KEPT {
            self.before += self.items.len() as u64;
            self.items.clear();
        }
        self.items.push(item);
    }

    /// Those after the first `seen`, which becomes the number of all; `None` if they are not known any more.
    pub(crate) fn since(&self, seen: &mut u64) -> Option<&[u32]> {
        let from = std::mem::replace(seen, self.before + self.items.len() as u64);
        self.items.get(from.checked_sub(self.before)? as usize..)
    }
}

/// What a number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    Free,
    /// A subscription to paths; the first of them.
    Paths(PathId),
    /// A subscription that is a row of a bucket.
    Row {
        bucket: u32,
        row: u32,
    },
    /// A transform: one of `Engine::transforms`, or one that is evaluated elsewhere.
    Transform,
    /// A bucket.
    Bucket(u32),
    /// A guard: a path that some buckets, or all of a shape, need, and how many do.
    Guard {
        path: PathId,
        users: u32,
    },
    /// A gate: a path that some transforms or blocks need.
    Gate(PathId),
}

// An engine has one for each subscription.
const _: () = assert!(size_of::<Number>() == 12);

impl Engine {
    /// Returns an engine without subscriptions. `cache_bytes` bounds the cache of each of its matchers.
    pub fn new(cache_bytes: usize) -> Engine {
        Engine {
            cache_bytes,
            fuel: FUEL,
            index: PathIndex::default(),
            constants: Constants::default(),
            store: Store::default(),
            wanted: Wanted::default(),
            queries: Queries::default(),
            texts: Texts::default(),
            transforms: Set::default(),
            blocks: Blocks::default(),
            has_patterns: false,
            uses_attributes: false,
            numbers: vec![],
            guards: HashMap::new(),
            gates: Gates::default(),
            more: HashMap::new(),
            free: vec![],
            subscriptions: 0,
            changed: Changed::default(),
        }
    }

    /// Sets how many nodes, per node of the message, the search for a witness may visit before the evaluation by sets
    /// takes over. Tests force one or the other by it.
    #[cfg(feature = "internals")]
    pub fn set_fuel(&mut self, fuel: u32) {
        self.fuel = fuel;
    }

    /// Returns what messages are read with, and the transforms.
    #[cfg(feature = "internals")]
    pub fn transforms(&self) -> ((&Names, &Constants), &Set) {
        ((&self.index.names, &self.constants), &self.transforms)
    }

    pub fn names(&self) -> &Names {
        &self.index.names
    }

    /// The symbols that paths are made of.
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.index.names
    }

    /// The last step of a path whose node has this string as its value.
    pub fn string_value(&mut self, value: &[u8]) -> Sym {
        self.has_patterns = true;
        names::string_value(self.constants.intern(value))
    }

    /// The last step of a path whose node has this number as its value.
    pub fn number_value(&mut self, value: f64) -> Sym {
        self.has_patterns = true;
        names::number_value(self.constants.intern_number(value))
    }

    /// The number of a string constant, as rows hold it.
    pub fn string(&mut self, value: &[u8]) -> u32 {
        self.constants.intern(value)
    }

    /// Numbers for subscriptions to come. Those of removed subscriptions are used again; in a new engine they ascend.
    pub fn reserve(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.number()).collect()
    }

    /// A subscription that a message satisfies if it satisfies any of the paths.
    fn add_at<'a>(&mut self, number: u32, paths: impl Iterator<Item = &'a [Step]>) {
        let ids = self.tie(number, paths);
        self.numbers[number as usize] = Number::Paths(ids[0]);
        self.subscriptions += 1;
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.numbers.push(Number::Free);
            self.numbers.len() as u32 - 1
        })
    }

    /// Makes an item of the path engine.
    pub(crate) fn tie<'a>(&mut self, item: u32, paths: impl Iterator<Item = &'a [Step]>) -> Vec<PathId> {
        let mut distinct: Vec<&[Step]> = paths.collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut ids = Vec::with_capacity(distinct.len());
        for path in distinct {
            let before = self.index.len();
            let id = self.index.add(item, path);
            if self.index.len() > before {
                self.uses_attributes |= path.iter().any(|s| is_attribute(s.test()));
            }
            ids.push(id);
        }
        if ids.len() > 1 {
            self.more.insert(item, ids[1..].into());
        }
        ids
    }

    pub(crate) fn untie(&mut self, item: u32, ids: &[PathId]) {
        self.index.remove(item, ids);
        self.more.remove(&item);
        self.free(item);
        self.changed.push(item);
    }

    /// A selector, in its encoding: what `want` says that subscriptions select.
    pub fn add_selector(&mut self, words: &[u32]) -> Result<u32, &'static str> {
        self.wanted.add_selector(words, &self.index.names)
    }

    /// From now on matches of the subscription come with what the selector finds, given constants as `add_rows` has.
    pub fn want(&mut self, sub: u32, form: Form, selector: u32, row: &[f64]) -> Result<(), &'static str> {
        if !matches!(self.number_of(sub), Number::Paths(_) | Number::Row { .. }) {
            return Err("no such filter");
        }
        self.wanted.add(sub, form, selector, row, self.constants.len())
    }

    /// From now on the subscription, which may still be a reserved number, holds only for messages that satisfy its
    /// patterns and this query, too. The query is given as words and the strings in it (see `evaluate::program`).
    pub fn add_query(&mut self, sub: u32, words: &[u32], strings: &[&str]) -> Result<(), &'static str> {
        match self.numbers.get(sub as usize) {
            _ if is_groups(words) => return Err("the query of a transform"),
            Some(Number::Free | Number::Paths(_)) => {}
            Some(&Number::Row { bucket, .. }) => self.store.check_at_once(bucket),
            Some(Number::Transform | Number::Bucket(_) | Number::Guard { .. } | Number::Gate(_)) | None => {
                return Err("no such subscription")
            }
        }
        self.queries.add(sub, words, strings, &self.index.names)?;
        self.has_patterns = true;
        self.uses_attributes = true;
        Ok(())
    }

    /// Adds a path to a text that may be asked for of each message. It is given as a query is.
    pub fn add_text(&mut self, words: &[u32], strings: &[&str]) -> Result<TextId, &'static str> {
        self.texts.add(words, strings, &self.index.names)
    }

    /// Whether `add_text` has given this path.
    pub fn has_text(&self, path: TextId) -> bool {
        self.texts.has(path)
    }

    /// From now on matches of the subscription come with what its query selects.
    pub fn want_query(&mut self, sub: u32, form: Form) -> Result<(), &'static str> {
        let query = self.queries.of(sub).filter(|query| self.queries.is_node_set(*query));
        self.wanted.add_query(sub, form, query.ok_or("only a node-set selects nodes")?);
        Ok(())
    }

    /// The subscriptions that select nodes or fragments, in no particular order.
    pub fn selecting(&self) -> impl Iterator<Item = u32> + '_ {
        self.wanted.subscriptions()
    }

    /// Whether a subscription has a query.
    pub fn has_query(&self, sub: u32) -> bool {
        self.queries.of(sub).is_some()
    }

    /// Adds subscriptions under reserved numbers: path i ends at `path_ends[i]` of the steps, subscription j at
    /// `sub_ends[j]` of the paths.
    pub fn add_many(
        &mut self,
        numbers: &[u32],
        steps: &[Step],
        path_ends: &[u32],
        sub_ends: &[u32],
    ) -> Result<(), &'static str> {
        let known = |test: Sym| self.index.names.is_test(test) || is_value(test);
        if !steps.iter().all(|s| known(s.test())) {
            return Err("a step tests for an unknown symbol");
        }
        let rising = |ends: &[u32], len: usize| {
            ends.is_sorted_by(|a, b| a < b) && ends.first() != Some(&0) && ends.last().map_or(0, |&e| e as usize) == len
        };
        if !rising(path_ends, steps.len()) || !rising(sub_ends, path_ends.len()) {
            return Err("every path needs steps and every subscription paths");
        }
        if numbers.len() != sub_ends.len() {
            return Err("every subscription needs a number");
        }
        self.check_reserved(numbers)?;
        let path = |i: usize| &steps[if i == 0 { 0 } else { path_ends[i - 1] as usize }..path_ends[i] as usize];
        let mut from = 0;
        for (&number, &end) in numbers.iter().zip(sub_ends) {
            self.add_at(number, (from..end as usize).map(path));
            from = end as usize;
        }
        Ok(())
    }

    /// Adds subscriptions to the same paths under reserved numbers, where some paths end with the value of a slot. `rows`
    /// holds the values as that of `add_rows` does.
    pub fn add_paths(
        &mut self,
        paths: &[Access],
        slots: &[Slot],
        numbers: &[u32],
        rows: &[f64],
    ) -> Result<(), &'static str> {
        if paths.is_empty() || !paths.iter().all(|a| self.is_known(a, slots)) {
            return Err("every subscription needs paths, and every path steps that are known");
        }
        self.check_reserved(numbers)?;
        self.has_patterns |= !slots.is_empty();
        for_rows(slots, numbers, rows, |number, row| {
            let paths: Vec<Vec<Step>> = paths.iter().map(|a| self.path_with_value(a, slots, row)).collect();
            self.add_at(number, paths.iter().map(|p| &p[..]));
            Ok(())
        })
    }

    fn check_reserved(&self, numbers: &[u32]) -> Result<(), &'static str> {
        let reserved = |n: u32| self.numbers.get(n as usize) == Some(&Number::Free);
        match numbers.iter().all(|&n| reserved(n)) {
            true => Ok(()),
            false => Err("every subscription needs a reserved number"),
        }
    }

    /// From now on a number stands for nothing.
    fn free(&mut self, number: u32) {
        self.numbers[number as usize] = Number::Free;
        self.free.push(number);
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        match self.number_of(sub) {
            Number::Paths(first) => {
                let ids = self.paths_from(sub, first);
                self.untie(sub, &ids);
            }
            Number::Row { bucket, row } => {
                self.remove_row(bucket, row);
                self.free(sub);
            }
            Number::Transform => {
                self.remove_transform(sub);
                self.free(sub);
            }
            Number::Free | Number::Bucket(_) | Number::Guard { .. } | Number::Gate(_) => return false,
        }
        self.wanted.remove(sub);
        self.queries.remove(sub);
        self.subscriptions -= 1;
        true
    }

    /// What an item of the path engine is.
    pub(crate) fn item(&self, number: u32) -> Item {
        match self.number_of(number) {
            Number::Bucket(b) => Item::Bucket(b),
            Number::Guard { .. } => Item::Guard,
            Number::Gate(path) => Item::Gate(self.gates.of(path)),
            _ => Item::Subscription,
        }
    }

    pub(crate) fn number_of(&self, number: u32) -> Number {
        self.numbers.get(number as usize).copied().unwrap_or(Number::Free)
    }

    pub(crate) fn paths_from(&self, item: u32, first: PathId) -> Vec<PathId> {
        let mut ids = vec![first];
        ids.extend(self.more.get(&item).map_or(&[][..], |b| b));
        ids
    }

    /// Subscriptions that are transforms of this engine; distinct plans, classes, bindings and relative paths of these.
    pub fn transform_stats(&self) -> (usize, [usize; 4]) {
        (self.transforms.len(), self.transforms.distinct())
    }

    /// Work that is better done once for many changes; call before matching.
    pub fn settle(&mut self) {
        self.index.settle();
        let numbers = &mut self.numbers;
        self.store.settle(&self.constants, |sub, bucket, row| numbers[sub as usize] = Number::Row { bucket, row });
    }

    /// Moves everything added one by one to where bulk additions are; worth it once a matcher says so.
    pub fn fold(&mut self) {
        self.index.fold();
    }

    /// Number of subscriptions that share a path.
    pub fn sharers(&self, path: &[Step]) -> u32 {
        let sharers = |id| self.index.refs(id) - self.gates.has(id) as u32;
        self.index.find(path).map_or(0, sharers)
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.subscriptions
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the highest subscription number.
    pub fn bound(&self) -> usize {
        self.numbers.len()
    }

    /// Number of distinct paths.
    pub fn path_count(&self) -> usize {
        self.index.len()
    }

    pub fn bytes(&self) -> usize {
        self.index.bytes()
            + self.numbers.capacity() * size_of::<Number>()
            + self.constants.bytes()
            + self.store.bytes()
            + self.wanted.bytes()
            + self.queries.bytes()
    }
}
