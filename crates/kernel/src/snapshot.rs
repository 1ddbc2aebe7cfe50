//! A compiled set of subscriptions as bytes.
//!
//! Only what cannot be told from the rest is written: names, constants, paths in sorted order with their items, shapes
//! and the blocks of their buckets, the words of queries and the programs of transforms, each as one array. The blocks,
//! which are most of it, are used where they lie; the rest
//! is derived in linear time (the automaton of sorted paths, what each number stands for, the hash tables), so that no
//! file, however made, opens to an engine that contradicts itself: every number is checked once, and no derived pointer
//! is ever read.

use crate::engine::{Engine, Number};
use crate::evaluate::{is_groups, Strings};
use crate::gates::Behind;
use crate::names::{self, Names};
use crate::paths::index::PathIndex;
use crate::paths::{Step, NONE};
use crate::shapes::block::{Constant, Form};
use crate::shapes::program::Slot;
use crate::shapes::select::Form as Selected;
use crate::shapes::store::{Access, Bucket, Shape};
use crate::used::Used;
use crate::values::constants::Constants;
use crate::words::{Held, Words};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Why bytes are no snapshot.
type Read<T> = Result<T, &'static str>;

const NO_SLOT: u32 = u32::MAX;
/// Of a subscription whose query selects.
const NO_SELECTOR: u32 = u32::MAX;

/// Arrays one after another, each after its length and padded to eight bytes.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn array<const N: usize>(&mut self, items: impl IntoIterator<Item = [u8; N]>) {
        let at = self.0.len();
        self.0.extend([0; 8]);
        items.into_iter().for_each(|item| self.0.extend(item));
        let len = (self.0.len() - at - 8) as u64 / N as u64;
        self.0[at..at + 8].copy_from_slice(&len.to_le_bytes());
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    fn bytes(&mut self, items: impl IntoIterator<Item = u8>) {
        self.array(items.into_iter().map(|b| [b]));
    }

    fn words(&mut self, items: impl IntoIterator<Item = u32>) {
        self.array(items.into_iter().map(u32::to_le_bytes));
    }

    fn longs(&mut self, items: impl IntoIterator<Item = u64>) {
        self.array(items.into_iter().map(u64::to_le_bytes));
    }
}

/// What is left of the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array(&mut self, width: usize) -> Read<&'a [u8]> {
        const SHORT: &str = "it ends early";
        let (len, rest) = self.0.split_first_chunk::<8>().ok_or(SHORT)?;
        let bytes = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|n| n.checked_mul(width)).ok_or(SHORT)?;
        let array = rest.get(..bytes).ok_or(SHORT)?;
        self.0 = rest.get(bytes.next_multiple_of(8)..).ok_or(SHORT)?;
        Ok(array)
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        self.array(1)
    }

    fn words(&mut self) -> Read<Vec<u32>> {
        Ok(self.array(4)?.as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect())
    }

    /// Words that are used where they lie.
    fn words_in_place(&mut self, all: &Arc<dyn Held>) -> Read<Words> {
        let array = self.array(4)?;
        let at = array.as_ptr() as usize - all.bytes().as_ptr() as usize;
        Words::open(all, at, array.len() / 4).ok_or("it ends early")
    }

    fn longs(&mut self) -> Read<Vec<u64>> {
        Ok(self.array(8)?.as_chunks().0.iter().map(|&w| u64::from_le_bytes(w)).collect())
    }
}

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

impl Engine {
    /// The subscriptions with the names and constants that they use: those of removed subscriptions are left out.
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let used = Used::by(self);
        save_names(&self.index.names, &used, &mut out);
        self.constants.save(&used, &mut out);
        self.save_paths(&used, &mut out);
        self.save_numbers(&mut out);
        self.save_shapes(&used, &mut out);
        self.save_queries(&mut out);
        self.save_transforms(&used, &mut out);
        self.save_wanted(&used, &mut out);
        out.0
    }

    fn save_queries(&self, out: &mut Writer) {
        let mut strings = Strings::default();
        let (mut heads, mut programs) = (vec![], vec![]);
        self.queries.programs(&mut strings, |number, words| {
            heads.extend([number, words.len() as u32]);
            programs.extend_from_slice(words);
        });
        out.bytes(strings.list.iter().flat_map(|s| s.iter().copied()));
        out.words(strings.list.iter().map(|s| s.len() as u32));
        out.words(heads);
        out.words(programs);
    }

    /// The numbers that are held; the programs of transforms, each after its length, which is zero for those whose queries
    /// are among the queries; by plan the number of its program and of its subscriptions, these with a flag for those that want to know if nothing is bound, the constants, where strings
    /// are their numbers, and the code of what is made.
    fn save_transforms(&self, used: &Used, out: &mut Writer) {
        let set = &self.transforms;
        let is_held = |&(n, number): &(u32, &Number)| *number == Number::Transform && !set.contains(n);
        out.words((0..).zip(&self.numbers).filter(is_held).map(|(n, _)| n));
        let mut numbers: HashMap<*const u32, (u32, Vec<Slot>)> = HashMap::new();
        let (mut words, mut heads, mut subs, mut rows, mut codes) = (vec![], vec![], vec![], vec![], vec![]);
        for (_, plan) in set.plans() {
            let next = numbers.len() as u32;
            let (program, slots) = numbers.entry(plan.words.as_ptr()).or_insert_with(|| {
                words.push(plan.words.len() as u32);
                words.extend_from_slice(&plan.words);
                (next, plan.slots(&self.index.names))
            });
            heads.extend([*program, plan.subs.len() as u32, plan.row.len() as u32, plan.code.len() as u32]);
            let empty: HashSet<u32> = plan.wanting_empty.iter().copied().collect();
            subs.extend(plan.subs.iter().flat_map(|sub| [*sub, empty.contains(sub) as u32]));
            rows.extend(used.row(slots, &plan.row));
            codes.extend_from_slice(&plan.code);
        }
        out.words(words);
        out.words(heads);
        out.words(subs);
        out.longs(rows);
        out.bytes(codes);
    }

    /// The programs of selectors, each after its length; by subscription its number, form and selector; the constants.
    fn save_wanted(&self, used: &Used, out: &mut Writer) {
        let mut numbers: HashMap<&[u32], u32> = HashMap::new();
        let (mut words, mut heads, mut rows) = (vec![], vec![], vec![]);
        for (sub, form, selection) in self.wanted.entries() {
            let selector = selection.map_or(NO_SELECTOR, |(selector, row)| {
                rows.extend(used.row(&selector.slots, row));
                let next = numbers.len() as u32;
                *numbers.entry(&selector.words).or_insert_with(|| {
                    words.push(selector.words.len() as u32);
                    words.extend_from_slice(&selector.words);
                    next
                })
            });
            heads.extend([sub, (form == Selected::Fragments) as u32, selector]);
        }
        out.words(words);
        out.words(heads);
        out.longs(rows);
    }

    fn save_paths(&self, used: &Used, out: &mut Writer) {
        let index = &self.index;
        // gates are made anew when it is opened
        let is_gate = |item: u32| matches!(self.number_of(item), Number::Gate(_));
        let items_of = |path: u32, items: &mut Vec<u32>| {
            index.subs(path, |item| {
                if !is_gate(item) {
                    items.push(item);
                }
            });
        };
        let mut paths: Vec<u32> = index.live().collect();
        if self.gates.any() {
            let mut items = vec![];
            paths.retain(|&p| {
                items.clear();
                items_of(p, &mut items);
                !items.is_empty()
            });
        }
        let steps = |p: u32| index.steps(p).iter().map(|&s| used.step(s));
        paths.sort_unstable_by(|&a, &b| steps(a).cmp(steps(b)));
        out.words(paths.iter().flat_map(|&p| steps(p)).map(|s| s.0));
        out.words(paths.iter().map(|&p| index.steps(p).len() as u32));
        let mut items = vec![];
        let mut counts = Vec::with_capacity(paths.len());
        for &p in &paths {
            let from = items.len();
            items_of(p, &mut items);
            items[from..].sort_unstable();
            counts.push((items.len() - from) as u32);
        }
        out.words(items);
        out.words(counts);
    }

    /// The free numbers, in the order in which they will be used. What the others stand for is told by paths and
    /// buckets.
    fn save_numbers(&self, out: &mut Writer) {
        let mut free = vec![false; self.numbers.len()];
        let unused = |n: &Number| matches!(n, Number::Free | Number::Gate(_));
        self.numbers.iter().zip(&mut free).for_each(|(n, free)| *free = unused(n));
        self.free.iter().for_each(|&n| free[n as usize] = false);
        // reserved, but never used
        let lost = free.iter().enumerate().filter(|(_, &free)| free).map(|(n, _)| n as u32);
        out.words(lost.chain(self.free.iter().copied()));
    }

    fn save_shapes(&self, used: &Used, out: &mut Writer) {
        let mut numbers = vec![0; self.store.len()];
        let mut words = vec![];
        let shapes = self.store.shapes().enumerate().filter(|(_, s)| s.subscriptions > 0);
        for (number, (i, shape)) in shapes.enumerate() {
            numbers[i] = number as u32;
            words.push(shape.words.len() as u32);
            words.extend(&shape.words);
            words.push(shape.exact.map_or(0, |steps| steps + 1));
            for list in [&shape.access, &shape.guards] {
                words.push(list.len() as u32);
                for a in list {
                    words.extend([a.slot.unwrap_or(NO_SLOT), a.path.len() as u32]);
                    words.extend(a.path.iter().map(|s| s.0));
                }
            }
            words.extend(&shape.guard_items);
        }
        out.words(words);
        let (mut heads, mut blocks) = (vec![], vec![]);
        let head = |b: &Bucket, form: Form| [numbers[b.shape as usize], b.item, form.room, form.wide as u32];
        self.store.save(
            |id| used.string(id),
            |b, form, block| {
                heads.extend(head(b, form));
                blocks.extend_from_slice(block);
            },
        );
        out.words(heads);
        out.words(blocks);
    }

    pub fn open(data: Arc<dyn Held>, cache_bytes: usize) -> Read<Engine> {
        let mut file = Reader(data.bytes());
        let mut engine = Engine::new(cache_bytes);
        let names = open_names(&mut file)?;
        engine.constants = Constants::open(file.bytes()?, &file.words()?, file.longs()?)?;
        let paths = Paths::open(&mut file)?;
        engine.free = file.words()?;
        paths.check(&names, &engine.constants)?;
        engine.index.names = names;
        let (shapes, heads, blocks) = (file.words()?, file.words()?, file.words_in_place(&data)?);
        // earlier versions had no queries, and no transforms
        let (queries, transforms) = match file.0.is_empty() {
            true => (None, SavedTransforms::default()),
            false => (Some(SavedQueries::open(&mut file)?), SavedTransforms::open(&mut file)?),
        };
        // earlier versions had no selections
        let wanted = if file.0.is_empty() { SavedWanted::default() } else { SavedWanted::open(&mut file)? };
        if !file.0.is_empty() {
            return Err("there is something after its end");
        }
        // a row takes at least a word
        let rows = heads.iter().skip(2).step_by(4).map(|&len| len as usize).sum::<usize>().min(blocks.len());
        let mut roles = Roles::new(&engine.free, rows + paths.items.len() + transforms.numbers().count())?;
        engine.open_shapes(&shapes, &mut roles)?;
        engine.open_buckets(&heads, blocks, &mut roles)?;
        engine.open_paths(paths, &mut roles)?;
        for number in transforms.numbers() {
            roles.set(number, Number::Transform)?;
        }
        engine.numbers = roles.finish()?;
        engine.check_buckets()?;
        if let Some(queries) = queries {
            queries.add_to(&mut engine)?;
        }
        engine.open_transforms(&transforms)?;
        wanted.add_to(&mut engine)?;
        engine.has_patterns |= !engine.constants.is_empty() || engine.constants.has_numbers();
        for sub in engine.transforms.subs() {
            engine.acquire_gate(Behind::Transforms, sub);
        }
        Ok(engine)
    }

    fn open_transforms(&mut self, saved: &SavedTransforms<'_>) -> Read<()> {
        let programs = take_programs(&saved.words)?;
        let (mut subs, mut rows, mut codes) = (saved.subs.as_chunks::<2>().0, &saved.rows[..], saved.codes);
        for &[program, count, constants, code] in saved.heads.as_chunks().0 {
            let words = programs.get(program as usize).ok_or("a transform without a program")?;
            let row = take_row(&mut rows, constants as usize)?;
            let code = take(&mut codes, code as usize)?;
            let known = (&self.index.names, self.constants.len());
            let plan = take(&mut subs, count as usize)?;
            if words.is_empty() {
                for &[sub, empty] in plan {
                    self.make_residual_transform(sub, code, empty != 0)?;
                }
                continue;
            }
            let (&[first, empty], others) = plan.split_first().ok_or("an unused plan")?;
            self.transforms.add(first, (words, &row), code, empty != 0, known)?;
            others.iter().for_each(|&[sub, empty]| self.transforms.add_like(first, sub, empty != 0));
        }
        if subs.is_empty() && rows.is_empty() && codes.is_empty() {
            Ok(())
        } else {
            Err("something that belongs to no transform")
        }
    }

    fn open_shapes(&mut self, mut words: &[u32], roles: &mut Roles) -> Read<()> {
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

    fn open_buckets(&mut self, heads: &[u32], blocks: Words, roles: &mut Roles) -> Read<()> {
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

    fn open_paths(&mut self, paths: Paths, roles: &mut Roles) -> Read<()> {
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
        self.uses_attributes |= paths.steps.iter().any(|s| names::is_attribute(s.test()));
        let names = std::mem::take(&mut self.index.names);
        self.index = PathIndex::open(names, paths.steps, &paths.lens, paths.items, &paths.counts);
        Ok(())
    }

    /// Every bucket and every guard has the paths that its shape says, with its constants. Counts what there is.
    fn check_buckets(&mut self) -> Read<()> {
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

/// Transforms, as `Engine::save_transforms` writes them. Earlier versions have none.
#[derive(Default)]
struct SavedTransforms<'a> {
    held: Vec<u32>,
    words: Vec<u32>,
    heads: Vec<u32>,
    subs: Vec<u32>,
    rows: Vec<u64>,
    codes: &'a [u8],
}

impl<'a> SavedTransforms<'a> {
    fn open(file: &mut Reader<'a>) -> Read<SavedTransforms<'a>> {
        let (held, words, heads, subs) = (file.words()?, file.words()?, file.words()?, file.words()?);
        if !heads.len().is_multiple_of(4) || !subs.len().is_multiple_of(2) {
            return Err("half a transform");
        }
        Ok(SavedTransforms { held, words, heads, subs, rows: file.longs()?, codes: file.bytes()? })
    }

    /// Numbers that it uses.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.held.iter().chain(self.subs.iter().step_by(2)).copied()
    }
}

/// Distinct paths in ascending order, each with the items that are tied to it.
struct Paths {
    steps: Vec<Step>,
    lens: Vec<u32>,
    items: Vec<u32>,
    counts: Vec<u32>,
}

impl Paths {
    fn open(file: &mut Reader<'_>) -> Read<Paths> {
        let steps: Vec<Step> = file.words()?.into_iter().map(Step).collect();
        let paths = Paths { steps, lens: file.words()?, items: file.words()?, counts: file.words()? };
        // all of them are numbered by 32 bits
        match u32::try_from(paths.steps.len().max(paths.items.len())) {
            Ok(_) => Ok(paths),
            Err(_) => Err("it has more than 2^32 steps"),
        }
    }

    fn check(&self, names: &Names, constants: &Constants) -> Read<()> {
        let known = |s: &Step| names.is_test(s.test()) || constants.has_value(s.test());
        if !self.steps.iter().all(known) {
            return Err("a step tests for an unknown symbol");
        }
        let mut steps = &self.steps[..];
        let mut last: &[Step] = &[];
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

/// Queries as they are saved: their strings, then the number and the length of each, then their words.
struct SavedQueries<'a> {
    text: &'a [u8],
    lens: Vec<u32>,
    heads: Vec<u32>,
    programs: Vec<u32>,
}

impl<'a> SavedQueries<'a> {
    fn open(file: &mut Reader<'a>) -> Read<SavedQueries<'a>> {
        Ok(SavedQueries { text: file.bytes()?, lens: file.words()?, heads: file.words()?, programs: file.words()? })
    }

    fn add_to(&self, engine: &mut Engine) -> Read<()> {
        let (mut text, mut programs) = (self.text, &self.programs[..]);
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

/// What subscriptions select, as `Engine::save_wanted` writes it.
#[derive(Default)]
struct SavedWanted {
    words: Vec<u32>,
    heads: Vec<u32>,
    rows: Vec<u64>,
}

impl SavedWanted {
    fn open(file: &mut Reader<'_>) -> Read<SavedWanted> {
        Ok(SavedWanted { words: file.words()?, heads: file.words()?, rows: file.longs()? })
    }

    fn add_to(&self, engine: &mut Engine) -> Read<()> {
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

/// What the numbers stand for, each set once.
struct Roles {
    numbers: Vec<Number>,
    set: Vec<bool>,
}

impl Roles {
    /// `most` bounds the numbers in use, so that no file can ask for more memory than it has bytes.
    fn new(free: &[u32], most: usize) -> Read<Roles> {
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
    fn finish(mut self) -> Read<Vec<Number>> {
        let bound = self.set.iter().position(|set| !set).unwrap_or(self.set.len());
        if self.set[bound..].contains(&true) {
            return Err("a number without a meaning");
        }
        self.numbers.truncate(bound);
        self.numbers.shrink_to_fit();
        Ok(self.numbers)
    }
}

/// The length of a local name where there is none, for the test `ns:*`.
const ANY_LOCAL: u32 = u32::MAX;
/// The same where the symbol has no name any more.
const NO_NAME: u32 = u32::MAX - 1;

/// Symbols keep their numbers, so those that are no longer in use leave gaps.
fn save_names(names: &Names, used: &Used, out: &mut Writer) {
    let entries = || names.entries().map(|entry| entry.filter(|entry| used.has_name(entry)));
    out.bytes(entries().flatten().flat_map(|entry| [entry.uri, entry.local.unwrap_or_default()].concat()));
    out.words(entries().flat_map(|entry| match entry {
        Some(e) => [e.attribute as u32, e.uri.len() as u32, e.local.map_or(ANY_LOCAL, |l| l.len() as u32)],
        None => [0, 0, NO_NAME],
    }));
}

fn open_names(file: &mut Reader<'_>) -> Read<Names> {
    let (mut text, heads) = (file.bytes()?, file.words()?);
    let mut names = Names::new();
    for head in heads.chunks(3) {
        let &[attribute, uri, local] = head else { return Err("half a name") };
        if local == NO_NAME {
            names.push_gap();
            continue;
        }
        let bound = names.bound();
        let uri = take(&mut text, uri as usize)?;
        let local = if local == ANY_LOCAL { None } else { Some(take(&mut text, local as usize)?) };
        names.intern(attribute == 1, uri, local);
        if names.bound() == bound {
            return Err("a name that is there twice");
        }
    }
    names.fill_gaps();
    Ok(names)
}

impl Constants {
    fn save(&self, used: &Used, out: &mut Writer) {
        let strings = || self.strings().enumerate().filter(|&(id, _)| used.has_string(id)).map(|(_, s)| s);
        out.bytes(strings().flatten().copied());
        out.words(strings().map(|s| s.len() as u32));
        let numbers = self.numbers().enumerate().filter(|&(id, _)| used.has_number(id));
        out.longs(numbers.map(|(_, x)| x.to_bits()));
    }
}

impl Engine {
    /// By number: does it stand for a subscription?
    pub fn subscriptions(&self) -> Vec<bool> {
        self.numbers.iter().map(|n| matches!(n, Number::Paths(_) | Number::Row { .. } | Number::Transform)).collect()
    }

    /// The shapes by number.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.store.shapes()
    }
}
