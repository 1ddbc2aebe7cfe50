//! An engine from what was written of one. Every number is checked once.

use super::{
    Read, SavedConstants, SavedNames, SavedPaths, SavedQueries, SavedTransforms, SavedWanted, ANY_LOCAL, ANY_URI,
    NO_NAME, NO_SELECTOR, NO_SLOT,
};
use crate::engine::{Engine, Number};
use crate::evaluate::is_groups;
use crate::names::{self, Names};
use crate::paths::index::PathIndex;
use crate::paths::{Step, NONE};
use crate::shapes::block::{Constant, Form};
use crate::shapes::select::Form as Selected;
use crate::shapes::store::{Access, Shape};
use crate::transform::set::Spec;
use crate::values::constants::Constants;
use crate::words::Words;

/// Takes the first `n` items of a slice.
fn take<'a, T>(from: &mut &'a [T], n: usize) -> Read<&'a [T]> {
    let (head, tail) = from.split_at_checked(n).ok_or("a list is longer than the array it lies in")?;
    *from = tail;
    Ok(head)
}

fn take_one<T: Copy>(from: &mut &[T]) -> Read<T> {
    Ok(take(from, 1)?[0])
}

/// Programs, each after its length.
fn take_programs(mut words: &[u32]) -> Read<Vec<&[u32]>> {
    let mut programs = vec![];
    while !words.is_empty() {
        let len = take_one(&mut words)?;
        programs.push(take(&mut words, len as usize)?);
    }
    Ok(programs)
}

/// The constants of a row.
fn take_row(from: &mut &[u64], n: usize) -> Read<Vec<f64>> {
    Ok(take(from, n)?.iter().map(|&x| f64::from_bits(x)).collect())
}

impl SavedNames {
    pub(super) fn open(&self) -> Read<Names> {
        let mut text = &self.text[..];
        let mut names = Names::new();
        for head in self.heads.chunks(3) {
            let &[attribute, uri, local] = head else { return Err("half a name") };
            if local == NO_NAME {
                names.push_gap();
                continue;
            }
            let uri = if uri == ANY_URI { None } else { Some(take(&mut text, uri as usize)?) };
            let local = if local == ANY_LOCAL { None } else { Some(take(&mut text, local as usize)?) };
            if !names.push(attribute == 1, uri, local) {
                return Err("a name that is there twice");
            }
        }
        if !names.open() {
            return Err("too many wildcards of names");
        }
        Ok(names)
    }
}

impl SavedConstants {
    pub(super) fn open(self) -> Read<Constants> {
        Constants::open(&self.text, &self.lens, self.numbers)
    }
}

impl SavedPaths {
    pub(super) fn check(&self, names: &Names, constants: &Constants) -> Read<()> {
        // all of them are numbered by 32 bits
        if u32::try_from(self.steps.len().max(self.items.len())).is_err() {
            return Err("it has more than 2^32 steps");
        }
        let known = |test| names.is_test(test) || constants.has_value(test);
        if !self.steps.iter().all(|&s| known(Step(s).test())) {
            return Err("a step tests for an unknown symbol");
        }
        let mut steps = &self.steps[..];
        let mut last: &[u32] = &[];
        for &len in &self.lens {
            let path = take(&mut steps, len as usize)?;
            // the empty path is first of all, so it is refused too
            if path <= last {
                return Err("its paths are not in order");
            }
            last = path;
        }
        if self.counts.len() == self.lens.len() && steps.is_empty() {
            Ok(())
        } else {
            Err("paths without subscriptions")
        }
    }
}

impl SavedTransforms {
    /// Numbers that it uses.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.held.iter().chain(self.subs.iter().step_by(2)).copied()
    }

    pub(super) fn take_roles(&self, roles: &mut Roles) -> Read<()> {
        if !self.heads.len().is_multiple_of(4) || !self.subs.len().is_multiple_of(2) {
            return Err("half a transform");
        }
        self.numbers().try_for_each(|number| roles.set(number, Number::Transform))
    }

    pub(super) fn add_to(&self, engine: &mut Engine) -> Read<()> {
        let programs = take_programs(&self.words)?;
        let (mut subs, mut rows, mut codes) = (self.subs.as_chunks::<2>().0, &self.rows[..], &self.codes[..]);
        for &[program, count, constants, code] in self.heads.as_chunks().0 {
            let words = programs.get(program as usize).ok_or("a transform without a program")?;
            let row = take_row(&mut rows, constants as usize)?;
            let code = take(&mut codes, code as usize)?;
            let plan = take(&mut subs, count as usize)?;
            if words.is_empty() {
                for &[sub, empty] in plan {
                    engine.make_residual_transform(sub, code, empty != 0)?;
                }
                continue;
            }
            let (&[first, empty], others) = plan.split_first().ok_or("an unused plan")?;
            let spec = Spec::decode(words, &engine.index.names)?;
            engine.transforms.add(first, (&spec, &row), code, empty != 0, engine.constants.len())?;
            others.iter().for_each(|&[sub, empty]| engine.transforms.add_like(first, sub, empty != 0));
        }
        if subs.is_empty() && rows.is_empty() && codes.is_empty() {
            Ok(())
        } else {
            Err("something that belongs to no transform")
        }
    }
}

impl SavedQueries {
    pub(super) fn add_to(&self, engine: &mut Engine) -> Read<()> {
        let (mut text, mut programs) = (&self.text[..], &self.programs[..]);
        let mut strings = Vec::with_capacity(self.lens.len());
        for &len in &self.lens {
            let string = take(&mut text, len as usize)?;
            strings.push(std::str::from_utf8(string).map_err(|_| "a string that is no text")?);
        }
        for head in self.heads.chunks(2) {
            let &[number, len] = head else { return Err("half a query") };
            if engine.has_query(number) || engine.number_of(number) == Number::Free {
                return Err("a query without a subscription, or with another one");
            }
            let words = take(&mut programs, len as usize)?;
            if engine.number_of(number) == Number::Transform && is_groups(words) {
                engine.queries.add(number, words, &strings, &engine.index.names)?;
            } else {
                engine.add_query(number, words, &strings)?;
            }
        }
        if text.is_empty() && programs.is_empty() {
            Ok(())
        } else {
            Err("more words than queries")
        }
    }
}

impl SavedWanted {
    pub(super) fn add_to(&self, engine: &mut Engine) -> Read<()> {
        for words in take_programs(&self.words)? {
            engine.add_selector(words)?;
        }
        let mut rows = &self.rows[..];
        for head in self.heads.chunks(3) {
            let &[sub, fragments, selector] = head else { return Err("half a selection") };
            let form = if fragments != 0 { Selected::Fragments } else { Selected::Nodes };
            if selector == NO_SELECTOR {
                engine.want_query(sub, form)?;
            } else {
                let row = take_row(&mut rows, engine.wanted.slots(selector)?.len())?;
                engine.want(sub, form, selector, &row)?;
            }
        }
        if rows.is_empty() {
            Ok(())
        } else {
            Err("constants that belong to no selection")
        }
    }
}

impl Engine {
    pub(super) fn open_shapes(&mut self, mut words: &[u32], roles: &mut Roles) -> Read<()> {
        while !words.is_empty() {
            let len = take_one(&mut words)?;
            let program = take(&mut words, len as usize)?;
            let exact = take_one(&mut words)?.checked_sub(1);
            let (access, guards) = (Self::open_access(&mut words)?, Self::open_access(&mut words)?);
            let shared = guards.iter().filter(|g| g.slot.is_none()).count();
            let shape = self.add_shape(program, access, guards, exact)?;
            let items = take(&mut words, shared)?;
            for &item in items {
                roles.guard(item)?;
            }
            self.store.set_shape_guards(shape, items.to_vec());
        }
        Ok(())
    }

    fn open_access(words: &mut &[u32]) -> Read<Vec<Access>> {
        let mut list = vec![];
        for _ in 0..take_one(words)? {
            let slot = Some(take_one(words)?).filter(|&s| s != NO_SLOT);
            let len = take_one(words)?;
            list.push(Access { path: take(words, len as usize)?.iter().map(|&s| Step(s)).collect(), slot });
        }
        Ok(list)
    }

    pub(super) fn open_buckets(&mut self, heads: &[u32], blocks: Words, roles: &mut Roles) -> Read<()> {
        if !heads.len().is_multiple_of(4) {
            return Err("a bucket without its shape, number, size or form");
        }
        let words = blocks.len();
        self.store.open(blocks, heads.len() / 4);
        let mut at = 0;
        for (bucket, &[shape, item, room, wide]) in (0..).zip(heads.as_chunks().0) {
            at = self.store.open_saved(shape, item, at, Form { room, wide: wide != 0 }, &self.constants)?;
            roles.set(item, Number::Bucket(bucket))?;
            let block = self.store.block(bucket);
            for (row, &sub) in (0..).zip(block.subs()) {
                roles.set(sub, Number::Row { bucket, row })?;
            }
            for &guard in block.guards().iter().filter(|&&g| g != NONE) {
                roles.guard(guard)?;
            }
        }
        if self.store.shapes().any(|s| s.buckets == 0) {
            return Err("a shape without a bucket");
        }
        if at as usize == words {
            Ok(())
        } else {
            Err("subscriptions without a bucket")
        }
    }

    pub(super) fn open_paths(&mut self, paths: SavedPaths, roles: &mut Roles) -> Read<()> {
        let mut items = &paths.items[..];
        for (path, &count) in paths.counts.iter().enumerate() {
            let path = path as u32;
            let items = take(&mut items, count as usize)?;
            if items.is_empty() || !items.is_sorted_by(|a, b| a < b) {
                return Err("the subscriptions of a path are not in order");
            }
            for &item in items {
                match roles.get(item)? {
                    Some(Number::Bucket(b)) if self.store.bucket(b).path == NONE => self.store.set_path(b, path),
                    Some(Number::Guard { path: NONE, users }) => {
                        roles.numbers[item as usize] = Number::Guard { path, users }
                    }
                    Some(Number::Bucket(b)) if !self.has_ways(b) => {
                        return Err("a bucket on another path than its shape's")
                    }
                    Some(Number::Paths(_) | Number::Bucket(_)) => self.more.entry(item).or_default().push(path),
                    Some(_) => return Err("a number of two meanings"),
                    None => roles.set(item, Number::Paths(path))?,
                }
            }
        }
        if !items.is_empty() {
            return Err("subscriptions without a path");
        }
        let steps: Vec<Step> = paths.steps.into_iter().map(Step).collect();
        self.uses_attributes |= steps.iter().any(|s| names::is_attribute(s.test()));
        let names = std::mem::take(&mut self.index.names);
        self.index = PathIndex::open(names, steps, &paths.lens, paths.items, &paths.counts);
        Ok(())
    }

    /// Every bucket and every guard has the paths that its shape says, with its constants. Counts what there is.
    pub(super) fn check_buckets(&mut self) -> Read<()> {
        for (number, &role) in (0..).zip(&self.numbers) {
            match role {
                Number::Free | Number::Bucket(_) | Number::Gate(_) => continue,
                Number::Guard { path, .. } => {
                    self.guards.insert(path, number);
                    self.index.hush(number);
                    continue;
                }
                Number::Paths(_) | Number::Row { .. } | Number::Transform => self.subscriptions += 1,
            }
        }
        let is_guard = |item: u32, guard: &Access, bucket: u32| matches!(self.number_of(item), Number::Guard { path, .. } if path != NONE && self.leads(path, guard, bucket));
        for bucket in 0..self.store.bucket_count() as u32 {
            let (b, block) = (self.store.bucket(bucket), self.store.block(bucket));
            let shape = self.store.shape(b.shape).ok_or("a bucket of no shape")?;
            let reached = |path: u32| path != NONE && shape.access.iter().any(|a| self.leads(path, a, bucket));
            let more = if shape.access.len() == 1 { None } else { self.more.get(&b.item) };
            let (mut slotted, mut others) = (block.guards().iter(), shape.guard_items.iter());
            let guarded = shape.guards.iter().all(|g| match g.slot {
                Some(_) => slotted.next().is_some_and(|&item| item == NONE || is_guard(item, g, bucket)),
                None => others.next().is_some_and(|&item| is_guard(item, g, bucket)),
            });
            let count = 1 + more.map_or(0, Vec::len);
            if !reached(b.path) || !more.into_iter().flatten().all(|&p| reached(p)) || count != self.ways(shape, bucket)
            {
                return Err("a bucket on another path than its shape's");
            }
            if !guarded {
                return Err("a guard on another path than its shape's");
            }
        }
        Ok(())
    }

    /// Is this the access path, or guard, of the bucket?
    fn leads(&self, path: u32, access: &Access, bucket: u32) -> bool {
        let steps = self.index.steps(path);
        match self.last_step(access, bucket) {
            None => steps == access.path,
            Some(value) => steps.split_last().is_some_and(|(last, steps)| Some(*last) == value && steps == access.path),
        }
    }

    /// The constant of an access path as its last step; None if it has no slot, Some(None) if no path has that step.
    fn last_step(&self, access: &Access, bucket: u32) -> Option<Option<Step>> {
        let slot = access.slot?;
        let sym = match self.store.constant(bucket, slot).get(0) {
            Constant::Number(x) => self.constants.find_number(x).map(names::number_value),
            Constant::String(id) => Some(names::string_value(id)),
        };
        Some(sym.map(|sym| Step::new(false, sym)))
    }

    fn has_ways(&self, bucket: u32) -> bool {
        self.store.shape(self.store.bucket(bucket).shape).is_some_and(|s| s.access.len() > 1)
    }

    /// Number of distinct paths to a bucket.
    fn ways(&self, shape: &Shape, bucket: u32) -> usize {
        if shape.access.len() == 1 {
            return 1;
        }
        let mut ways: Vec<_> = shape.access.iter().map(|a| (&a.path, self.last_step(a, bucket))).collect();
        ways.sort_unstable();
        ways.dedup();
        ways.len()
    }
}

/// What the numbers stand for, each set once.
pub(super) struct Roles {
    numbers: Vec<Number>,
    set: Vec<bool>,
}

impl Roles {
    /// `most` bounds the numbers in use, so that no file can ask for more memory than it has bytes.
    pub(super) fn new(free: &[u32], most: usize) -> Read<Roles> {
        let mut roles = Roles { numbers: vec![Number::Free; free.len() + most], set: vec![false; free.len() + most] };
        for &n in free {
            roles.set(n, Number::Free)?;
        }
        Ok(roles)
    }

    fn get(&self, number: u32) -> Read<Option<Number>> {
        let set = *self.set.get(number as usize).ok_or("a number beyond the last")?;
        Ok(set.then(|| self.numbers[number as usize]))
    }

    fn set(&mut self, number: u32, role: Number) -> Read<()> {
        if self.get(number)?.is_some() {
            return Err("a number of two meanings");
        }
        self.set[number as usize] = true;
        self.numbers[number as usize] = role;
        Ok(())
    }

    /// One more needs this guard; what its path is is told by the paths.
    fn guard(&mut self, number: u32) -> Read<()> {
        match self.get(number)? {
            None => self.set(number, Number::Guard { path: NONE, users: 1 }),
            Some(Number::Guard { path, users }) => {
                self.numbers[number as usize] = Number::Guard { path, users: users + 1 };
                Ok(())
            }
            Some(_) => Err("a number of two meanings"),
        }
    }

    /// Numbers have no gaps.
    pub(super) fn finish(mut self) -> Read<Vec<Number>> {
        let bound = self.set.iter().position(|set| !set).unwrap_or(self.set.len());
        if self.set[bound..].contains(&true) {
            return Err("a number without a meaning");
        }
        self.numbers.truncate(bound);
        self.numbers.shrink_to_fit();
        Ok(self.numbers)
    }
}
