//! A unit read lightly: which names it has, and the values of those that subscriptions compare, wherever they are in it.
//! Most units have not all the names and values that some subscription needs, and so need not be read any closer.

use crate::engine::{Engine, Number};
use crate::names::{is_value, number_value, string_value, Names, Sym};
use crate::shapes::necessary::{Necessary, Question};
use crate::values::constants::Constants;
use crate::values::number::number;
use crate::xml::{decode_attribute, Tag, Text};
use hashbrown::HashMap;

/// Of more items than this no account is kept.
const MAX_ITEMS: usize = 1 << 18;
/// A unit of which so much would have to be asked is read closely instead.
const MAX_ASKED: usize = 256;
/// So is one with so many bytes of values that are asked for: elements around each other have the same text.
const MAX_BYTES: usize = 1 << 16;
/// After so many units it is known which names are rare.
const KNOWN: [u32; 2] = [64, 4096];

// What matters of a name: that it is there, what the values of its nodes are, and what `Necessary` knows of it.
const PRESENT: u8 = 1;
const STRING: u8 = 2;
const NUMBER: u8 = 4;
const NEEDED: u8 = 8;

/// A path that leads to an item: the names that are on it.
struct Way {
    item: u32,
    names: (u32, u32),
}

#[derive(Default)]
pub(super) struct Watch {
    /// Changes of items heard of, and whether it has heard of any.
    changes: u64,
    is_made: bool,
    is_usable: bool,
    /// How many had been found when the ways to them were forgotten.
    found: usize,
    ways: Vec<Way>,
    names: Vec<Sym>,
    /// Ways that end in a value: by name and value.
    keys: HashMap<(Sym, Sym), Vec<u32>>,
    /// The others: by the symbol of a name, the rarest. And those without.
    filed: Vec<Vec<u32>>,
    always: Vec<u32>,
    /// By symbol.
    flags: Vec<u8>,
    counts: Vec<u32>,
    units: u32,
    necessary: Necessary,
    // Of the unit at hand:
    unit: u32,
    /// It has no element: it is what comes after the last one.
    is_empty: bool,
    /// By symbol: the last unit that had it.
    seen: Vec<u32>,
    present: Vec<Sym>,
    /// Ways whose value is there.
    pulled: Vec<u32>,
    /// Of values.
    bytes: usize,
    depth: u32,
    /// Open elements whose values are asked for.
    open: Vec<Open>,
    texts: Vec<Run>,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Open {
    depth: u32,
    sym: Sym,
    /// Its first run of text.
    from: u32,
    asked: Question,
}

#[derive(Clone, Copy)]
struct Run {
    start: u32,
    end: u32,
    plain: bool,
    cdata: bool,
}

impl Watch {
    /// A document, or the next part of one, begins. By number: is the subscription not looked for any more? (Then it will
    /// not be again.) False if units cannot be read lightly.
    pub fn prepare(&mut self, engine: &Engine, found: &[bool]) -> bool {
        let changed = engine.changed.since(&mut self.changes);
        if !self.is_made || changed.is_none_or(|items| !items.is_empty()) {
            *self = Watch { changes: self.changes, is_made: true, ..Watch::default() };
            self.is_usable = engine.bound() <= MAX_ITEMS;
            if self.is_usable {
                self.make(engine);
            }
        }
        let count = found.iter().filter(|&&is_found| is_found).count();
        if count > self.found + self.ways.len() / 64 {
            self.found = count;
            self.drop_found(engine, found);
        }
        self.is_usable
    }

    /// Forgets the ways to what has been found.
    fn drop_found(&mut self, engine: &Engine, found: &[bool]) {
        let ways = &self.ways;
        let is_wanted = |&way: &u32| {
            let item = ways[way as usize].item;
            match engine.number_of(item) {
                Number::Bucket(bucket) => engine.store.block(bucket).live().any(|(_, sub)| !found[sub as usize]),
                _ => !found[item as usize],
            }
        };
        self.always.retain(is_wanted);
        for list in self.filed.iter_mut().chain(self.keys.values_mut()) {
            list.retain(is_wanted);
        }
    }

    fn make(&mut self, engine: &Engine) {
        let symbols = engine.index.names.bound();
        self.filed.resize_with(symbols, Vec::new);
        self.flags.resize(symbols, 0);
        self.counts.resize(symbols, 0);
        self.seen.resize(symbols, 0);
        self.necessary.begin_engine(engine.bound());
        let mut lists = HashMap::new();
        let mut names = vec![];
        for item in 0..engine.bound() as u32 {
            let first = match engine.number_of(item) {
                Number::Paths(first) => first,
                Number::Bucket(bucket) => engine.store.bucket(bucket).path,
                Number::Free | Number::Transform | Number::Row { .. } => continue,
                Number::Guard { .. } | Number::Gate(_) => continue,
            };
            for path in engine.paths_from(item, first) {
                let steps = engine.index.steps(path);
                names.clear();
                names.extend(steps.iter().map(|s| s.test()).filter(|&sym| is_name(&engine.index.names, sym)));
                let list = *lists.entry(names.clone()).or_insert_with(|| {
                    let from = self.names.len() as u32;
                    self.names.extend_from_slice(&names);
                    (from, self.names.len() as u32)
                });
                let way = self.ways.len() as u32;
                self.ways.push(Way { item, names: list });
                for &name in &names {
                    self.flags[name as usize] |= PRESENT;
                }
                let value = steps.last().map(|s| s.test()).filter(|&sym| is_value(sym));
                let before = steps.len().checked_sub(2).map(|i| steps[i].test());
                match (value, before.filter(|&sym| is_name(&engine.index.names, sym))) {
                    (Some(value), Some(name)) => {
                        self.flags[name as usize] |= if is_string(value) { STRING } else { NUMBER };
                        self.keys.entry((name, value)).or_default().push(way);
                    }
                    (Some(_), None) => self.always.push(way),
                    (None, _) => self.file(way),
                }
            }
        }
    }

    fn file(&mut self, way: u32) {
        let (from, to) = self.ways[way as usize].names;
        let names = self.names[from as usize..to as usize].iter().rev();
        match names.min_by_key(|&&name| self.counts[name as usize]) {
            Some(&name) => self.filed[name as usize].push(way),
            None => self.always.push(way),
        }
    }

    /// A unit begins.
    pub fn begin(&mut self) {
        self.units = self.units.saturating_add(1);
        if KNOWN.contains(&self.units) {
            let ways: Vec<u32> = self.filed.iter_mut().flat_map(std::mem::take).collect();
            ways.into_iter().for_each(|way| self.file(way));
        }
        if self.unit == u32::MAX {
            self.seen.fill(0);
            self.unit = 0;
        }
        self.unit += 1;
        self.present.clear();
        self.pulled.clear();
        self.bytes = 0;
        self.is_empty = true;
        self.depth = 0;
        self.open.clear();
        self.texts.clear();
        self.necessary.begin();
    }

    #[inline(always)]
    fn flags(&self, sym: Sym) -> u8 {
        self.flags.get(sym as usize).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn present(&mut self, sym: Sym) {
        let seen = &mut self.seen[sym as usize];
        if *seen != self.unit {
            *seen = self.unit;
            self.present.push(sym);
        }
    }

    #[inline(always)]
    pub fn start(&mut self, names: &Names, constants: &Constants, tag: &Tag<'_>) {
        self.is_empty = false;
        self.depth += 1;
        let sym = names.symbol(false, tag.ns, tag.local());
        let flags = self.flags(sym);
        if flags != 0 {
            self.present(sym);
            if flags != PRESENT {
                let asked =
                    if flags & NEEDED == 0 { Question::default() } else { self.necessary.open(sym, self.depth) };
                if flags & (STRING | NUMBER) != 0 || asked.is_any() {
                    self.open.push(Open { depth: self.depth, sym, from: self.texts.len() as u32, asked });
                }
            }
        }
        if !tag.attrs.is_empty() {
            self.attributes(names, constants, tag);
        }
    }

    fn attributes(&mut self, names: &Names, constants: &Constants, tag: &Tag<'_>) {
        for a in tag.attrs {
            let sym = names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            let flags = self.flags(sym);
            if flags == 0 {
                continue;
            }
            self.present(sym);
            let needed = flags & NEEDED != 0;
            let asked = if needed { self.necessary.attribute(sym, self.depth) } else { Question::default() };
            if flags & (STRING | NUMBER) != 0 || asked.is_any() {
                let raw = &tag.src[a.value as usize..a.value_end as usize];
                if a.plain {
                    self.value(constants, sym, asked, raw);
                } else {
                    let mut scratch = std::mem::take(&mut self.scratch);
                    scratch.clear();
                    decode_attribute(raw, &mut scratch);
                    self.value(constants, sym, asked, &scratch);
                    self.scratch = scratch;
                }
            }
        }
    }

    #[inline(always)]
    pub fn end(&mut self, constants: &Constants, src: &[u8]) {
        self.necessary.close(self.depth);
        if let Some(&open) = self.open.last() {
            if open.depth == self.depth {
                self.open.pop();
                self.value_of(constants, open, src);
            }
        }
        self.depth -= 1;
    }

    #[inline(never)]
    fn value_of(&mut self, constants: &Constants, open: Open, src: &[u8]) {
        if self.bytes > MAX_BYTES {
            return;
        }
        let texts = &self.texts[open.from as usize..];
        self.bytes += texts.iter().map(|run| (run.end - run.start) as usize).sum::<usize>();
        match *texts {
            [] => self.value(constants, open.sym, open.asked, b""),
            [Run { start, end, plain: true, .. }] => {
                self.value(constants, open.sym, open.asked, &src[start as usize..end as usize]);
            }
            _ => {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                for &Run { start, end, plain, cdata } in texts {
                    Text { src, start, end, plain, cdata }.decode(&mut scratch);
                }
                self.value(constants, open.sym, open.asked, &scratch);
                self.scratch = scratch;
            }
        }
        if self.open.is_empty() {
            self.texts.clear();
        }
    }

    #[inline(always)]
    pub fn text(&mut self, text: &Text<'_>) {
        if !self.open.is_empty() {
            let &Text { start, end, plain, cdata, .. } = text;
            self.texts.push(Run { start, end, plain, cdata });
        }
    }

    fn value(&mut self, constants: &Constants, sym: Sym, asked: Question, value: &[u8]) {
        let flags = self.flags(sym);
        let string = if asked.string || flags & STRING != 0 { constants.find(value) } else { None };
        let x = if asked.number || flags & NUMBER != 0 { number(value) } else { f64::NAN };
        self.necessary.value(asked, string, x);
        if let Some(id) = string.filter(|_| flags & STRING != 0) {
            self.pull(sym, string_value(id));
        }
        if flags & NUMBER != 0 {
            if let Some(id) = constants.find_number(x) {
                self.pull(sym, number_value(id));
            }
        }
    }

    fn pull(&mut self, name: Sym, value: Sym) {
        if let Some(ways) = self.keys.get(&(name, value)) {
            self.pulled.extend_from_slice(ways);
        }
    }

    /// The unit ends. May some subscription hold, of those that are still looked for?
    pub fn may_hold(&mut self, engine: &Engine, found: &[bool]) -> bool {
        if self.is_empty {
            return false;
        }
        if self.bytes > MAX_BYTES {
            return true;
        }
        let mut pulled = std::mem::take(&mut self.pulled);
        pulled.extend_from_slice(&self.always);
        for name in &self.present {
            pulled.extend_from_slice(&self.filed[*name as usize]);
            if self.units <= KNOWN[1] {
                self.counts[*name as usize] += 1;
            }
        }
        let mut asked = 0;
        let may = pulled.iter().any(|&way| {
            asked += 1;
            asked > MAX_ASKED || self.may_lead(engine, way, found)
        });
        self.pulled = pulled;
        for sym in self.necessary.take_new() {
            self.flags[sym as usize] |= NEEDED;
        }
        may
    }

    fn may_lead(&mut self, engine: &Engine, way: u32, found: &[bool]) -> bool {
        let Way { item, names: (from, to) } = self.ways[way as usize];
        if !self.names[from as usize..to as usize].iter().all(|&name| self.seen[name as usize] == self.unit) {
            return false;
        }
        match engine.number_of(item) {
            Number::Bucket(bucket) => self.necessary.may_hold(&engine.store, item, bucket, |sub| found[sub as usize]),
            _ => !found[item as usize],
        }
    }
}

/// Is it the name of elements or attributes, and of no others?
fn is_name(names: &Names, sym: Sym) -> bool {
    !is_value(sym) && names.describe(sym).is_some()
}

fn is_string(value: Sym) -> bool {
    value & 2 == 0
}
