//! Subscriptions in, messages in, matched subscriptions out.
//!
//! An [`Engine`] does not change while messages are matched; all that does is in a
//! [`Matcher`](crate::matcher::Matcher), which its caller owns, one per thread.
//!
//! Subscriptions are numbered. One that is nothing but paths is an item of the path engine under its own number;
//! others are rows of a bucket of their shape, and the bucket is such an item.

use crate::evaluate::{is_groups, Queries, TextId, Texts};
use crate::gates::{Behind, Gates, Users};
use crate::join::{BlockShape, Blocks, Variable};
use crate::names::{self, is_attribute, is_value, Names, Sym};
use crate::paths::index::PathIndex;
use crate::paths::{PathId, Step};
use crate::shapes::candidates::Item;
use crate::shapes::program::{Program, Slot};
use crate::shapes::select::{Form, Wanted};
use crate::shapes::store::{Access, Store};
use crate::transform::set::{Set, Spec};
use crate::values::constants::Constants;
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
    Gate {
        path: PathId,
        users: Users,
    },
}

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
        self.numbers[item as usize] = Number::Free;
        self.free.push(item);
        self.changed.push(item);
    }

    /// A shape: a program in its encoding, the ways to reach it, further paths that it needs, and how many of its first
    /// steps must find a single node for these and the one way to decide it. Subscriptions of the shape are added by
    /// `add_rows`.
    pub fn add_shape(
        &mut self,
        words: &[u32],
        access: Vec<Access>,
        guards: Vec<Access>,
        exact: Option<u32>,
    ) -> Result<u32, &'static str> {
        let program = Program::decode(words, &self.index.names)?;
        let known = |a: &Access| {
            !a.path.is_empty()
                && a.path.iter().all(|s| self.index.names.is_test(s.test()))
                && a.slot.is_none_or(|s| (s as usize) < program.slots.len())
        };
        if access.is_empty() || !access.iter().chain(&guards).all(known) {
            return Err("a shape needs ways to reach it");
        }
        self.has_patterns = true;
        self.uses_attributes |= words.iter().any(|&w| is_attribute(w)); // generously
        let exact = exact.filter(|&steps| access.len() == 1 && program.trunk(steps).is_some());
        Ok(self.store.add_shape(program, words, access, guards, exact))
    }

    /// Adds subscriptions of a shape under reserved numbers. `rows` holds their constants slot by slot, row after row:
    /// a number, or the number of a string.
    pub fn add_rows(&mut self, shape: u32, numbers: &[u32], rows: &[f64]) -> Result<(), &'static str> {
        let slots = self.store.shape(shape).ok_or("no such shape")?.program.slots.clone();
        if slots.len() * numbers.len() != rows.len() {
            return Err("a row with another number of constants than its shape has slots");
        }
        if !self.are_reserved(numbers) {
            return Err("every subscription needs a reserved number");
        }
        let mut row = vec![];
        for (i, &number) in numbers.iter().enumerate() {
            row.clear();
            row.extend(slots.iter().zip(&rows[i * slots.len()..]).map(|(slot, &x)| slot.word(x)));
            self.add_row(shape, number, &row)?;
        }
        Ok(())
    }

    fn add_row(&mut self, shape: u32, sub: u32, row: &[u64]) -> Result<(), &'static str> {
        let s = self.store.shape(shape).ok_or("no such shape")?;
        let strings = s.program.slots.iter().zip(row).filter(|(s, _)| **s == Slot::Str);
        if strings.map(|(_, &x)| x).any(|x| x >= self.constants.len() as u64) {
            return Err("a string that is not known");
        }
        let bucket = match self.store.find_bucket(shape, row) {
            Some(b) => {
                for item in self.store.drop_guards(b, row) {
                    self.release_guard(item);
                }
                b
            }
            None => self.open_bucket(shape, row)?,
        };
        self.changed.push(self.store.bucket(bucket).item);
        if self.has_query(sub) {
            self.store.check_at_once(bucket);
        }
        let row = self.store.push(bucket, row, sub);
        self.numbers[sub as usize] = Number::Row { bucket, row };
        self.subscriptions += 1;
        Ok(())
    }

    fn open_bucket(&mut self, shape: u32, row: &[u64]) -> Result<u32, &'static str> {
        let s = self.store.shape(shape).ok_or("no such shape")?;
        let (slots, access, guards) = (s.program.slots.clone(), s.access.clone(), s.guards.clone());
        if s.buckets == 0 {
            let items = guards.iter().filter(|g| g.slot.is_none()).map(|g| self.acquire_guard(&g.path)).collect();
            self.store.set_shape_guards(shape, items);
        }
        let item = self.number();
        let paths: Vec<Vec<Step>> = access.iter().map(|a| self.path_with_value(a, &slots, row)).collect();
        let first = self.tie(item, paths.iter().map(|p| &p[..]))[0];
        let mut items = vec![];
        for guard in guards.iter().filter(|g| g.slot.is_some()) {
            let path = self.path_with_value(guard, &slots, row);
            items.push(self.acquire_guard(&path));
        }
        let b = self.store.open_bucket(shape, row, item, first, &items);
        self.numbers[item as usize] = Number::Bucket(b);
        Ok(b)
    }

    /// Takes a row out of its bucket, and the bucket out of the path engine with its last row.
    fn remove_row(&mut self, bucket: u32, row: u32) {
        let shape = self.store.shape_of(bucket);
        self.changed.push(self.store.bucket(bucket).item);
        let (moved, gone) = self.store.take(bucket, row);
        if let Some(moved) = moved {
            self.numbers[moved as usize] = Number::Row { bucket, row };
        }
        let Some(gone) = gone else { return };
        let paths = self.paths_from(gone.item, gone.path);
        self.untie(gone.item, &paths);
        let unused = self.store.shape(shape).is_none_or(|s| s.buckets == 0);
        let shared = if unused { self.store.take_shape_guards(shape) } else { vec![] };
        for item in gone.guards.into_iter().chain(shared) {
            self.release_guard(item);
        }
    }

    /// An access path with the constant of its slot as its last step.
    pub(crate) fn path_with_value(&mut self, access: &Access, slots: &[Slot], row: &[u64]) -> Vec<Step> {
        let mut path = access.path.clone();
        if let Some(slot) = access.slot {
            let x = row[slot as usize];
            path.push(Step::new(
                false,
                match slots[slot as usize] {
                    Slot::Str => names::string_value(x as u32),
                    Slot::Num => names::number_value(self.constants.intern_number(f64::from_bits(x))),
                },
            ));
        }
        path
    }

    fn acquire_guard(&mut self, path: &[Step]) -> u32 {
        if let Some(&number) = self.index.find(path).and_then(|id| self.guards.get(&id)) {
            if let Number::Guard { users, .. } = &mut self.numbers[number as usize] {
                *users += 1;
            }
            return number;
        }
        let number = self.number();
        let id = self.tie(number, std::iter::once(path))[0];
        self.index.hush(number);
        self.numbers[number as usize] = Number::Guard { path: id, users: 1 };
        self.guards.insert(id, number);
        number
    }

    fn release_guard(&mut self, number: u32) {
        if let Number::Guard { path, users } = &mut self.numbers[number as usize] {
            *users -= 1;
            if *users == 0 {
                let path = *path;
                self.guards.remove(&path);
                self.untie(number, &[path]);
            }
        }
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
            Some(Number::Transform | Number::Bucket(_) | Number::Guard { .. } | Number::Gate { .. }) | None => {
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
        if numbers.len() != sub_ends.len() || !self.are_reserved(numbers) {
            return Err("every subscription needs a reserved number");
        }
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
        let known = |a: &Access| {
            !a.path.is_empty()
                && a.path.iter().all(|s| self.index.names.is_test(s.test()))
                && a.slot.is_none_or(|s| (s as usize) < slots.len())
        };
        if paths.is_empty() || !paths.iter().all(known) {
            return Err("every subscription needs paths, and every path steps that are known");
        }
        if slots.len() * numbers.len() != rows.len() {
            return Err("a row with another number of constants than there are slots");
        }
        if !self.are_reserved(numbers) {
            return Err("every subscription needs a reserved number");
        }
        self.has_patterns |= !slots.is_empty();
        let mut row = vec![];
        for (i, &number) in numbers.iter().enumerate() {
            row.clear();
            row.extend(slots.iter().zip(&rows[i * slots.len()..]).map(|(slot, &x)| slot.word(x)));
            let paths: Vec<Vec<Step>> = paths.iter().map(|a| self.path_with_value(a, slots, &row)).collect();
            self.add_at(number, paths.iter().map(|p| &p[..]));
        }
        Ok(())
    }

    /// Adds a transform under a reserved number: its program with the constants of the slots, as `add_rows` has them, and
    /// the code of what is made of its groups. With `deliver_empty` that is made also where there are none.
    pub fn add_transform(
        &mut self,
        number: u32,
        words: &[u32],
        row: &[f64],
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        self.check_place(number)?;
        let spec = Spec::decode(words, &self.index.names)?;
        self.transforms.add(number, (&spec, row), code, deliver_empty, self.constants.len())?;
        self.place_transform(number);
        self.acquire_gate(Behind::Transforms, number);
        Ok(())
    }

    /// The blocks of correlations.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the shape of blocks of correlations that may be added: see `Blocks::shape`.
    pub fn block_shape(
        &mut self,
        stream: u32,
        words: &[u32],
        paths: &[u32],
        variables: Vec<Variable>,
    ) -> Result<BlockShape, &'static str> {
        self.blocks.shape(stream, words, paths, variables, &self.index.names)
    }

    /// Adds a block of correlations under its number, which is none of a subscription. Its shape is one of this engine;
    /// `keys` are those of the block and of the columns of its variables, for a witness that is to be read elsewhere.
    pub fn add_block(
        &mut self,
        block: u32,
        shape: &BlockShape,
        row: &[f64],
        keys: Option<(u64, &[u64])>,
    ) -> Result<(), &'static str> {
        self.blocks.add(block, shape, row, keys, self.constants.len())?;
        self.acquire_gate(Behind::Blocks, block);
        Ok(())
    }

    /// Removes a block.
    pub fn remove_block(&mut self, block: u32) -> Result<(), &'static str> {
        if self.blocks.contains(block) {
            self.release_gate(Behind::Blocks, block);
        }
        self.blocks.remove(block)
    }

    /// Values of a column of blocks are compared from now on.
    pub fn join_on(&mut self, column: u32) {
        self.blocks.join_on(column);
    }

    /// Adds a transform that is no pattern under a reserved number: its query, given as words and the strings in it, and
    /// the code of what is made of its groups.
    pub fn add_residual_transform(
        &mut self,
        number: u32,
        (words, strings): (&[u32], &[&str]),
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        self.check_place(number)?;
        if self.transforms.contains(number) {
            return Err("a subscription that is there already");
        }
        self.queries.add(number, words, strings, &self.index.names)?;
        let added = self.make_residual_transform(number, code, deliver_empty);
        if added.is_err() {
            self.queries.remove(number);
            return added;
        }
        self.place_transform(number);
        self.acquire_gate(Behind::Transforms, number);
        Ok(())
    }

    /// Adds a transform whose query is there.
    pub(crate) fn make_residual_transform(
        &mut self,
        number: u32,
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        let query = self.queries.of(number).ok_or("a transform without a query")?;
        let returns = self.queries.returns(query).ok_or("a transform with the query of a filter")?;
        self.transforms.add_residual(number, (query, returns), code, deliver_empty)
    }

    /// Keeps a reserved number, or that of a transform, for a transform that is evaluated elsewhere.
    pub fn hold(&mut self, number: u32) -> Result<(), &'static str> {
        if !self.remove_transform(number) {
            self.check_place(number)?;
        }
        self.queries.remove(number);
        self.place_transform(number);
        Ok(())
    }

    /// False if there is no such transform.
    fn remove_transform(&mut self, number: u32) -> bool {
        if self.transforms.contains(number) {
            self.release_gate(Behind::Transforms, number);
        }
        self.transforms.remove(number)
    }

    /// A transform takes a reserved number, or one that was held. Earlier versions held numbers by a path.
    fn check_place(&self, number: u32) -> Result<(), &'static str> {
        let held = matches!(self.number_of(number), Number::Transform | Number::Paths(_));
        if held || self.are_reserved(&[number]) {
            Ok(())
        } else {
            Err("every subscription needs a reserved number")
        }
    }

    fn place_transform(&mut self, number: u32) {
        if let Number::Paths(first) = self.number_of(number) {
            let ids = self.paths_from(number, first);
            self.untie(number, &ids);
            self.free.pop();
            self.subscriptions -= 1;
        }
        if self.number_of(number) == Number::Free {
            self.subscriptions += 1;
        }
        self.numbers[number as usize] = Number::Transform;
    }

    fn are_reserved(&self, numbers: &[u32]) -> bool {
        numbers.iter().all(|&n| (n as usize) < self.numbers.len() && self.number_of(n) == Number::Free)
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
                self.numbers[sub as usize] = Number::Free;
                self.free.push(sub);
            }
            Number::Transform => {
                self.remove_transform(sub);
                self.numbers[sub as usize] = Number::Free;
                self.free.push(sub);
            }
            Number::Free | Number::Bucket(_) | Number::Guard { .. } | Number::Gate { .. } => return false,
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
            Number::Gate { users, .. } => Item::Gate(users.open()),
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
        let sharers = |id| self.index.refs(id) - self.gates.numbers.contains_key(&id) as u32;
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
            + self.numbers.capacity() * 12
            + self.constants.bytes()
            + self.store.bytes()
            + self.wanted.bytes()
            + self.queries.bytes()
    }
}
