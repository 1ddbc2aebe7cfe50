//! A compiled set of subscriptions as bytes.
//!
//! Only what cannot be told from the rest is written: names, constants, paths in sorted order with their items, shapes
//! and the columns of their buckets, each as one array. Opening copies the arrays and derives the rest in linear time
//! (the automaton of sorted paths, what each number stands for, the hash tables), so that no file, however made, opens
//! to an engine that contradicts itself: every number is checked once, and no derived pointer is ever read.

use crate::engine::{Engine, Mode, Number};
use crate::names::{self, Names};
use crate::paths::index::PathIndex;
use crate::paths::{Step, NONE};
use crate::shapes::program::Slot;
use crate::shapes::store::{Access, Shape};
use crate::values::constants::Constants;

/// Why bytes are no snapshot.
type Read<T> = Result<T, &'static str>;

const NO_SLOT: u32 = u32::MAX;

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

    /// In place: large arrays are copied once only, each item to where it belongs.
    fn raw_words(&mut self) -> Read<&'a [[u8; 4]]> {
        Ok(self.array(4)?.as_chunks().0)
    }

    fn raw_longs(&mut self) -> Read<&'a [[u8; 8]]> {
        Ok(self.array(8)?.as_chunks().0)
    }

    fn words(&mut self) -> Read<Vec<u32>> {
        Ok(words(self.raw_words()?))
    }

    fn longs(&mut self) -> Read<Vec<u64>> {
        Ok(longs(self.raw_longs()?))
    }
}

fn words(raw: &[[u8; 4]]) -> Vec<u32> {
    raw.iter().map(|&w| u32::from_le_bytes(w)).collect()
}

fn longs(raw: &[[u8; 8]]) -> Vec<u64> {
    raw.iter().map(|&w| u64::from_le_bytes(w)).collect()
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

impl Engine {
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        save_names(&self.index.names, &mut out);
        self.constants.save(&mut out);
        self.save_paths(&mut out);
        self.save_numbers(&mut out);
        self.save_shapes(&mut out);
        out.0
    }

    fn save_paths(&self, out: &mut Writer) {
        let index = &self.index;
        let mut paths: Vec<u32> = index.live().collect();
        paths.sort_unstable_by(|&a, &b| index.steps(a).cmp(index.steps(b)));
        out.words(paths.iter().flat_map(|&p| index.steps(p)).map(|s| s.0));
        out.words(paths.iter().map(|&p| index.steps(p).len() as u32));
        let mut items = vec![];
        let mut counts = Vec::with_capacity(paths.len());
        for &p in &paths {
            let from = items.len();
            index.subs(p, |item| items.push(item));
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
        self.numbers.iter().zip(&mut free).for_each(|(n, free)| *free = *n == Number::Free);
        self.free.iter().for_each(|&n| free[n as usize] = false);
        // reserved, but never used
        let lost = free.iter().enumerate().filter(|(_, &free)| free).map(|(n, _)| n as u32);
        out.words(lost.chain(self.free.iter().copied()));
    }

    fn save_shapes(&self, out: &mut Writer) {
        let mut numbers = vec![0; self.store.len()];
        let mut words = vec![];
        let used = self.store.shapes().enumerate().filter(|(_, s)| s.subscriptions > 0);
        for (number, (i, shape)) in used.enumerate() {
            numbers[i] = number as u32;
            words.push(shape.words.len() as u32);
            words.extend(&shape.words);
            words.push(shape.exact as u32);
            for list in [&shape.access, &shape.guards] {
                words.push(list.len() as u32);
                for a in list {
                    words.extend([a.slot.unwrap_or(NO_SLOT), a.path.len() as u32]);
                    words.extend(a.path.iter().map(|s| s.0));
                }
            }
        }
        out.words(words);
        let buckets = || self.store.buckets();
        out.words(buckets().flat_map(|(b, _)| [numbers[b.shape as usize], b.item, b.subs.len() as u32]));
        out.words(buckets().flat_map(|(b, _)| &b.subs).copied());
        let mut guards = vec![];
        for (b, _) in buckets() {
            guards.push(b.guards.len() as u32);
            guards.extend(b.guards.iter().flat_map(|g| [g.index, g.item]));
        }
        out.words(guards);
        out.longs(buckets().flat_map(|(b, shape)| b.constants(shape)).flatten().copied());
    }

    pub fn open(data: &[u8], mode: Mode, cache_bytes: usize, fuel: u32) -> Read<Engine> {
        let mut file = Reader(data);
        let mut engine = Engine::new(mode, cache_bytes, fuel);
        let names = open_names(&mut file)?;
        engine.constants = Constants::open(file.bytes()?, &file.words()?, file.longs()?)?;
        let paths = Paths::open(&mut file)?;
        engine.free = file.words()?;
        paths.check(&names, &engine.constants)?;
        engine.index.names = names;
        engine.open_shapes(&file.words()?)?;
        let (heads, subs, guards, constants) = (file.words()?, file.raw_words()?, file.words()?, file.raw_longs()?);
        if !file.0.is_empty() {
            return Err("there is something after its end");
        }
        let mut roles = Roles::new(&engine.free, subs.len() + paths.items.len())?;
        engine.open_buckets(&heads, subs, constants, &mut roles)?;
        engine.open_guards(&guards, &mut roles)?;
        engine.open_paths(paths, &mut roles)?;
        engine.numbers = roles.finish(&engine)?;
        engine.check_guards()?;
        let direct = engine.numbers.iter().filter(|n| matches!(n, Number::Paths(_))).count();
        engine.subscriptions = subs.len() + direct;
        engine.has_patterns |= !engine.constants.is_empty() || engine.constants.has_numbers();
        Ok(engine)
    }

    fn open_shapes(&mut self, mut words: &[u32]) -> Read<()> {
        while !words.is_empty() {
            let len = take_one(&mut words)?;
            let program = take(&mut words, len as usize)?;
            let exact = take_one(&mut words)? == 1;
            let (access, guards) = (Self::open_access(&mut words)?, Self::open_access(&mut words)?);
            self.add_shape(program, access, guards, exact)?;
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

    /// The guards of each bucket; what their paths are is told by the paths.
    fn open_guards(&mut self, mut words: &[u32], roles: &mut Roles) -> Read<()> {
        for bucket in 0..self.store.buckets().count() as u32 {
            let count = take_one(&mut words)?;
            let pairs = take(&mut words, 2 * count as usize)?;
            for pair in pairs.chunks_exact(2) {
                match roles.get(pair[1])? {
                    None => roles.set(pair[1], Number::Guard { path: NONE, buckets: 1 })?,
                    Some(Number::Guard { path, buckets }) => {
                        roles.numbers[pair[1] as usize] = Number::Guard { path, buckets: buckets + 1 }
                    }
                    Some(_) => return Err("a number of two meanings"),
                }
            }
            if !pairs.chunks_exact(2).is_sorted_by(|a, b| a[0] < b[0]) {
                return Err("the guards of a bucket are not in order");
            }
            let mut row = vec![];
            self.store.row(bucket, 0, &mut row);
            if !self.store.open_guards(bucket, pairs.chunks_exact(2).map(|p| (p[0], p[1])), &row) {
                return Err("a guard that its shape does not have");
            }
        }
        if words.is_empty() {
            Ok(())
        } else {
            Err("guards without a bucket")
        }
    }

    /// Every guard is the path that its shape says, with the constant of its bucket.
    fn check_guards(&mut self) -> Read<()> {
        let mut row = vec![];
        for bucket in 0..self.store.buckets().count() as u32 {
            self.store.row(bucket, 0, &mut row);
            let Some(shape) = self.store.shape_of(bucket) else { continue };
            let (slots, all) = (shape.program.slots.clone(), shape.guards.clone());
            for g in self.store.guards(bucket).to_vec() {
                let path = self.path_with_value(&all[g.index as usize], &slots, &row);
                match self.number_of(g.item) {
                    Number::Guard { path: id, .. } if self.index.find(&path) == Some(id) => {
                        self.guards.insert(id, g.item);
                    }
                    _ => return Err("a guard on another path than its shape's"),
                }
            }
        }
        Ok(())
    }

    fn open_buckets(
        &mut self,
        heads: &[u32],
        mut subs: &[[u8; 4]],
        mut constants: &[[u8; 8]],
        roles: &mut Roles,
    ) -> Read<()> {
        if !heads.len().is_multiple_of(3) {
            return Err("a bucket without its shape, number or size");
        }
        self.store.reserve(heads.len() / 3);
        let mut first = vec![];
        for (bucket, head) in heads.chunks_exact(3).enumerate() {
            let (shape, item, rows) = (head[0], head[1], head[2] as usize);
            let s = self.store.shape(shape).ok_or("a bucket of no shape")?;
            if rows == 0 {
                return Err("a bucket without subscriptions");
            }
            let mut columns = Vec::with_capacity(s.program.slots.len());
            first.clear();
            for (slot, kind) in s.program.slots.iter().enumerate() {
                let column = take(&mut constants, if s.is_fixed(slot) { 1 } else { rows })?;
                let strings = self.constants.len() as u64;
                if *kind == Slot::Str && column.iter().any(|&x| u64::from_le_bytes(x) >= strings) {
                    return Err("a string that is not known");
                }
                first.push(u64::from_le_bytes(column[0]));
                if !s.is_fixed(slot) {
                    columns.push(longs(column));
                }
            }
            let key = self.access_key(shape, &first)?;
            let subs = words(take(&mut subs, rows)?);
            roles.set(item, Number::Bucket(bucket as u32))?;
            for (row, &sub) in subs.iter().enumerate() {
                roles.set(sub, Number::Row { bucket: bucket as u32, row: row as u32 })?;
            }
            if self.store.find_bucket(shape, &key).is_some() {
                return Err("two buckets for the same constants");
            }
            let at = self.store.open_bucket(shape, key, &first, item, vec![]);
            self.store.fill(at, columns, subs);
        }
        if subs.is_empty() && constants.is_empty() {
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
                    Some(Number::Bucket(b)) => self.store.add_path(b, path),
                    Some(Number::Guard { path: NONE, buckets }) => {
                        roles.numbers[item as usize] = Number::Guard { path, buckets }
                    }
                    Some(Number::Paths(_)) => self.more.entry(item).or_default().push(path),
                    Some(_) => return Err("a number of two meanings"),
                    None => roles.set(item, Number::Paths(path))?,
                }
            }
        }
        if !items.is_empty() {
            return Err("subscriptions without a path");
        }
        self.uses_attributes |= paths.steps.iter().any(|s| names::is_attribute(s.test()));
        match self.mode() {
            Mode::Trie => {}
            Mode::Nfa => paths.each(|id, path| self.nfa.insert(path, id)),
            Mode::FsmPerQuery => paths.each(|id, path| self.fsms.insert(path, id)),
        }
        let names = std::mem::take(&mut self.index.names);
        self.index = PathIndex::open(names, paths.steps, &paths.lens, paths.items, &paths.counts);
        Ok(())
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

    fn each(&self, mut f: impl FnMut(u32, &[Step])) {
        let mut at = 0;
        for (id, &len) in self.lens.iter().enumerate() {
            f(id as u32, &self.steps[at..at + len as usize]);
            at += len as usize;
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

    /// Numbers have no gaps, and no bucket is out of reach.
    fn finish(mut self, engine: &Engine) -> Read<Vec<Number>> {
        let bound = self.set.iter().position(|set| !set).unwrap_or(self.set.len());
        if self.set[bound..].contains(&true) {
            return Err("a number without a meaning");
        }
        if engine.store.buckets().any(|(b, _)| b.paths.is_empty()) {
            return Err("a bucket without a path");
        }
        self.numbers.truncate(bound);
        self.numbers.shrink_to_fit();
        Ok(self.numbers)
    }
}

fn save_names(names: &Names, out: &mut Writer) {
    let text = |(_, uri, local): (_, &[u8], Option<&[u8]>)| [uri.to_vec(), local.unwrap_or_default().to_vec()].concat();
    out.bytes(names.entries().flat_map(text));
    let head = |(attribute, uri, local): (bool, &[u8], Option<&[u8]>)| {
        [attribute as u32, uri.len() as u32, local.map_or(u32::MAX, |l| l.len() as u32)]
    };
    out.words(names.entries().flat_map(head));
}

fn open_names(file: &mut Reader<'_>) -> Read<Names> {
    let (mut text, heads) = (file.bytes()?, file.words()?);
    let mut names = Names::new();
    for head in heads.chunks(3) {
        let &[attribute, uri, local] = head else { return Err("half a name") };
        let bound = names.bound();
        let uri = take(&mut text, uri as usize)?;
        let local = if local == u32::MAX { None } else { Some(take(&mut text, local as usize)?) };
        names.intern(attribute == 1, uri, local);
        if names.bound() == bound {
            return Err("a name that is there twice");
        }
    }
    Ok(names)
}

impl Constants {
    fn save(&self, out: &mut Writer) {
        out.bytes(self.strings().flatten().copied());
        out.words(self.strings().map(|s| s.len() as u32));
        out.longs(self.numbers().map(f64::to_bits));
    }
}

impl Engine {
    /// By number: does it stand for a subscription?
    pub fn subscriptions(&self) -> Vec<bool> {
        self.numbers.iter().map(|n| matches!(n, Number::Paths(_) | Number::Row { .. })).collect()
    }

    /// The shapes by number.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.store.shapes()
    }
}
