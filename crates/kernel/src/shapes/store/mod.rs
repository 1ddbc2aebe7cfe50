//! Shapes and their subscriptions. A shape is a program; its subscriptions differ in their constants only and lie in
//! *buckets*: those with the same access constants, as columns. A message reaches a bucket through the path engine,
//! by a path that must be there, with the constant as its last step where there is one (the access predicate).

mod evaluate;

pub use evaluate::{dedup, Scratch, Short};

use super::block::{number, Arena, Block, BlockMut, Column, Constant, Form, Layout, Place};
use super::program::Program;
use super::star::{Key, Order, Star};
use crate::paths::{PathId, Step, NONE};
use crate::values::constants::Constants;
use crate::values::texts::Texts;
use crate::words::Words;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use std::hash::BuildHasher;

/// One way a message can reach a shape. A message that satisfies the shape has at least one of its access paths.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    pub path: Vec<Step>,
    /// The slot whose constant the path's last node has as its value.
    pub slot: Option<u32>,
}

pub struct Shape {
    pub program: Program,
    /// The program's encoding.
    pub words: Box<[u32]>,
    pub access: Vec<Access>,
    /// Further paths that every message which satisfies the shape has: checked before the program is run.
    pub guards: Vec<Access>,
    /// The one access path and the guards are all there is to the pattern, if so many steps of it, its first, find a
    /// single node: then they decide it.
    pub exact: Option<u32>,
    /// The items of guards without slots; none while the shape has no bucket.
    pub guard_items: Vec<u32>,
    /// The slots of the other guards, whose items each bucket has.
    guard_slots: Box<[u32]>,
    layout: Layout,
    star: Option<Star>,
    key: Option<Key>,
    pub buckets: usize,
    pub subscriptions: usize,
    /// Some of its subscriptions ask more of a message, while it is there: their checks are not put off.
    at_once: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// `NONE` for a number that is free.
    pub shape: u32,
    /// The number by which the path engine knows the bucket, and the first of its paths there.
    pub item: u32,
    pub path: PathId,
    /// Its block: where, how its rows lie, and how many there are.
    at: u32,
    form: Form,
    len: u32,
    /// The first rows, as many as these, are sorted by the shape's key. They stay where they are when they are removed
    /// (their subscription becomes `NONE`) so that they stay sorted.
    sorted: u32,
    removed: u32,
}

/// What is left to do when a bucket is gone.
pub struct Gone {
    pub item: u32,
    pub path: PathId,
    pub guards: Vec<u32>,
}

#[derive(Default)]
pub struct Store {
    shapes: Vec<Shape>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    arena: Arena,
    /// Buckets by what their rows share.
    keys: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Buckets of which too much is not sorted.
    unsettled: HashSet<u32>,
    /// Indexes of sorted strings by bucket.
    texts: HashMap<u32, Texts>,
    fixed: Vec<u32>,
}

/// Smaller buckets are not worth sorting.
const WORTH_SORTING: u32 = 64;

/// Unsorted rows that a bucket may have: sorting costs as much as all rows, and they cost every message.
fn bearable(len: u32) -> u32 {
    32 + 4 * len.isqrt()
}

impl Store {
    pub fn add_shape(
        &mut self,
        program: Program,
        words: &[u32],
        access: Vec<Access>,
        guards: Vec<Access>,
        exact: Option<u32>,
    ) -> u32 {
        let guard_slots: Box<[u32]> = guards.iter().filter_map(|g| g.slot).collect();
        let is_fixed = |slot| access.iter().any(|a| a.slot == Some(slot));
        let layout = Layout::new(&program.slots, is_fixed, guard_slots.len() as u32);
        let star = Star::new(&program.pred, &layout.places, &access);
        let key = star.as_ref().and_then(Star::key);
        self.shapes.push(Shape {
            program,
            words: words.into(),
            access,
            guards,
            exact,
            guard_items: vec![],
            guard_slots,
            layout,
            star,
            key,
            buckets: 0,
            subscriptions: 0,
            at_once: false,
        });
        self.shapes.len() as u32 - 1
    }

    pub fn shape(&self, shape: u32) -> Option<&Shape> {
        self.shapes.get(shape as usize)
    }

    /// From now on the subscriptions of the bucket's shape are checked before the next message is read.
    pub fn check_at_once(&mut self, bucket: u32) {
        let shape = self.shape_of(bucket);
        self.shapes[shape as usize].at_once = true;
    }

    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.shapes.iter()
    }

    pub fn set_shape_guards(&mut self, shape: u32, items: Vec<u32>) {
        self.shapes[shape as usize].guard_items = items;
    }

    pub fn take_shape_guards(&mut self, shape: u32) -> Vec<u32> {
        self.shapes.get_mut(shape as usize).map(|s| std::mem::take(&mut s.guard_items)).unwrap_or_default()
    }

    /// The shape of a bucket.
    pub fn shape_of(&self, bucket: u32) -> u32 {
        self.buckets[bucket as usize].shape
    }

    /// The bucket that a row belongs to.
    pub fn find_bucket(&mut self, shape: u32, row: &[u64]) -> Option<u32> {
        self.shapes[shape as usize].layout.fixed(row, &mut self.fixed);
        let hash = self.hasher.hash_one((shape, &self.fixed));
        let is = |&b: &u32| self.buckets[b as usize].shape == shape && self.block(b).fixed() == self.fixed;
        self.keys.find(hash, is).copied()
    }

    /// A new bucket for rows like this one, with the items of the guards that have slots.
    pub fn open_bucket(&mut self, shape: u32, row: &[u64], item: u32, path: PathId, guards: &[u32]) -> u32 {
        let s = &mut self.shapes[shape as usize];
        s.buckets += 1;
        s.layout.fixed(row, &mut self.fixed);
        let form = Form { room: 1, wide: false };
        let words = s.layout.words(form);
        let at = self.arena.take(words);
        if let Some(words) = self.arena.get_mut(at, words) {
            BlockMut { layout: &s.layout, words, form }.set_head(&self.fixed, guards);
        }
        self.enter(Bucket { shape, item, path, at, form, len: 0, sorted: 0, removed: 0 })
    }

    fn enter(&mut self, bucket: Bucket) -> u32 {
        let b = match self.free.pop() {
            Some(b) => {
                self.buckets[b as usize] = bucket;
                b
            }
            None => {
                self.buckets.push(bucket);
                self.buckets.len() as u32 - 1
            }
        };
        let (buckets, shapes, arena, hasher) = (&self.buckets, &self.shapes, &self.arena, &self.hasher);
        let hash = |b: u32| {
            let bucket = &buckets[b as usize];
            hasher.hash_one((bucket.shape, block(arena, &shapes[bucket.shape as usize].layout, bucket).fixed()))
        };
        self.keys.insert_unique(hash(b), b, |&b| hash(b));
        b
    }

    /// The blocks of all buckets, each with the places of its constants by slot.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Block<'_>, &[Place])> {
        self.buckets.iter().filter(|b| b.shape != NONE).map(|b| {
            let layout = &self.shapes[b.shape as usize].layout;
            (block(&self.arena, layout, b), &layout.places[..])
        })
    }

    /// The buckets, by number from 0, with their blocks as a snapshot has them: without what was removed, and with the
    /// numbers that `string` gives to strings.
    pub fn save(&self, string: impl Fn(u32) -> u32, mut each: impl FnMut(&Bucket, Form, &[u32])) {
        let mut words = vec![];
        for b in self.buckets.iter().filter(|b| b.shape != NONE) {
            let layout = &self.shapes[b.shape as usize].layout;
            let block = block(&self.arena, layout, b);
            let live = (0..b.len).filter(|&row| block.subs()[row as usize] != NONE);
            let form = Form { room: b.len - b.removed, ..b.form };
            words.resize(layout.words(form), 0);
            let mut copy = BlockMut { layout, words: &mut words, form };
            copy.copy_rows(block, live);
            copy.map_strings(&string);
            each(b, form, &words);
        }
    }

    /// The blocks of a snapshot, whose buckets `open_saved` enters one after another.
    pub fn open(&mut self, blocks: Words, buckets: usize) {
        self.arena = Arena::open(blocks);
        self.buckets.reserve_exact(buckets);
        self.keys.reserve(buckets, |_| 0);
    }

    /// A bucket whose block begins at `at`; answers where it ends.
    pub fn open_saved(
        &mut self,
        shape: u32,
        item: u32,
        at: u32,
        form: Form,
        constants: &Constants,
    ) -> Result<u32, &'static str> {
        let s = self.shapes.get_mut(shape as usize).ok_or("a bucket of no shape")?;
        let (words, len) = (s.layout.words(form), form.room);
        if len == 0 || !self.arena.has(at, words) {
            return Err("a bucket without subscriptions");
        }
        let bucket = Bucket { shape, item, path: NONE, at, form, len, sorted: 0, removed: 0 };
        let block = block(&self.arena, &s.layout, &bucket);
        for &place in &s.layout.places {
            match block.column(place) {
                Column::Strings(c) if c.iter().any(|&id| id as usize >= constants.len()) => {
                    return Err("a string that is not known");
                }
                Column::Decimals(c) if !c.are_valid() => return Err("a decimal that none is written as"),
                Column::Numbers(c) if place.is_fixed() && number(c[0]).to_bits() != (number(c[0]) + 0.0).to_bits() => {
                    return Err("a number in another form than the usual");
                }
                _ => {}
            }
        }
        let shared = |&(i, &slot): &(usize, &u32)| {
            block.guards()[i] == NONE || {
                let column = block.column(s.layout.places[slot as usize]);
                (0..column.len()).all(|i| column.get(i) == column.get(0))
            }
        };
        if !s.guard_slots.iter().enumerate().all(|g| shared(&g)) {
            return Err("a guard that not all its subscriptions share");
        }
        let sorted = match s.key {
            Some(key) if len >= WORTH_SORTING => sorted(block, key),
            _ => 0,
        };
        let hash = self.hasher.hash_one((shape, block.fixed()));
        let same = |&b: &u32| {
            let other = &self.buckets[b as usize];
            other.shape == shape && self::block(&self.arena, &s.layout, other).fixed() == block.fixed()
        };
        if self.keys.find(hash, same).is_some() {
            return Err("two buckets for the same constants");
        }
        s.buckets += 1;
        s.subscriptions += len as usize;
        let b = self.enter(Bucket { sorted, ..bucket });
        self.unsettled.insert(b);
        Ok(at + words as u32)
    }

    /// Of a bucket that was opened: one more path.
    pub fn set_path(&mut self, bucket: u32, path: PathId) {
        self.buckets[bucket as usize].path = path;
    }

    /// The constants of a slot.
    pub fn constant(&self, bucket: u32, slot: u32) -> Column<'_> {
        let shape = &self.shapes[self.buckets[bucket as usize].shape as usize];
        self.block(bucket).column(shape.layout.places[slot as usize])
    }

    pub fn bucket(&self, bucket: u32) -> &Bucket {
        &self.buckets[bucket as usize]
    }

    pub fn bucket_count(&self) -> usize {
        self.buckets.len() - self.free.len()
    }

    #[inline]
    pub fn block(&self, bucket: u32) -> Block<'_> {
        let b = &self.buckets[bucket as usize];
        block(&self.arena, &self.shapes[b.shape as usize].layout, b)
    }

    /// Takes away the guards that a new row does not share; answers their items.
    pub fn drop_guards(&mut self, bucket: u32, row: &[u64]) -> Vec<u32> {
        let b = self.buckets[bucket as usize];
        let shape = &self.shapes[b.shape as usize];
        let old = self.block(bucket);
        let differs = |&(i, slot): &(usize, u32)| {
            old.guards()[i] != NONE
                && match old.column(shape.layout.places[slot as usize]).get(0) {
                    Constant::Number(x) => x != f64::from_bits(row[slot as usize]),
                    Constant::String(id) => id as u64 != row[slot as usize],
                }
        };
        let gone: Vec<usize> = shape.guard_slots.iter().copied().enumerate().filter(differs).map(|(i, _)| i).collect();
        let items = gone.iter().map(|&i| old.guards()[i]).collect();
        if !gone.is_empty() {
            let mut block = self.block_mut(bucket);
            for i in gone {
                block.guards()[i] = NONE;
            }
        }
        items
    }

    /// A block of our own.
    fn block_mut(&mut self, bucket: u32) -> BlockMut<'_> {
        let b = self.buckets[bucket as usize];
        if !self.arena.is_own(b.at) {
            self.move_block(bucket, b.form);
        }
        let b = self.buckets[bucket as usize];
        let layout = &self.shapes[b.shape as usize].layout;
        let words = self.arena.get_mut(b.at, layout.words(b.form)).unwrap_or_default();
        BlockMut { layout, words, form: b.form }
    }

    /// To where there is memory for this form.
    fn move_block(&mut self, bucket: u32, form: Form) {
        let b = &mut self.buckets[bucket as usize];
        let layout = &self.shapes[b.shape as usize].layout;
        let (old, new) = (layout.words(b.form), layout.words(form));
        let at = self.arena.take(new);
        let (from, words) = self.arena.both((b.at, old), (at, new));
        BlockMut { layout, words, form }.copy_rows(Block::new(layout, from, b.form, b.len), 0..b.len);
        self.arena.give(b.at, old);
        (b.at, b.form) = (at, form);
    }

    /// Appends a row; answers its place.
    pub fn push(&mut self, bucket: u32, row: &[u64], sub: u32) -> u32 {
        let b = self.buckets[bucket as usize];
        let full = b.len == b.form.room;
        if full {
            self.move_block(bucket, Form { room: b.len + (b.len / 2).max(1), ..b.form });
        }
        let fits = b.form.wide || self.block_mut(bucket).fit(row, b.len);
        if !fits {
            self.move_block(bucket, Form { wide: true, ..self.buckets[bucket as usize].form });
        }
        if full || !fits {
            self.compact_if(|used, waste| waste > used / 2 + (1 << 20));
        }
        self.block_mut(bucket).set_row(b.len, row, sub);
        let b = &mut self.buckets[bucket as usize];
        b.len += 1;
        let shape = &mut self.shapes[b.shape as usize];
        shape.subscriptions += 1;
        if shape.key.is_some() && b.len >= WORTH_SORTING && b.len - b.sorted > bearable(b.len) {
            self.unsettled.insert(bucket);
        }
        b.len - 1
    }

    /// Takes a row out; answers the subscription that took its place, and the bucket if that was its last.
    pub fn take(&mut self, bucket: u32, row: u32) -> (Option<u32>, Option<Gone>) {
        let b = self.buckets[bucket as usize];
        self.shapes[b.shape as usize].subscriptions -= 1;
        if b.len - b.removed == 1 {
            return (None, Some(self.close(bucket)));
        }
        if row < b.sorted {
            self.block_mut(bucket).set_sub(row, NONE);
            let b = &mut self.buckets[bucket as usize];
            b.removed += 1;
            if b.removed > b.len / 4 {
                self.unsettled.insert(bucket);
            }
            return (None, None);
        }
        self.block_mut(bucket).copy_row(b.len - 1, row);
        self.buckets[bucket as usize].len -= 1;
        (self.block(bucket).subs().get(row as usize).copied(), None)
    }

    fn close(&mut self, bucket: u32) -> Gone {
        let b = self.buckets[bucket as usize];
        let block = self.block(bucket);
        let guards = block.guards().iter().copied().filter(|&g| g != NONE).collect();
        let hash = self.hasher.hash_one((b.shape, block.fixed()));
        if let Ok(entry) = self.keys.find_entry(hash, |&x| x == bucket) {
            entry.remove();
        }
        let shape = &mut self.shapes[b.shape as usize];
        shape.buckets -= 1;
        self.arena.give(b.at, shape.layout.words(b.form));
        self.texts.remove(&bucket);
        self.unsettled.remove(&bucket);
        self.buckets[bucket as usize].shape = NONE;
        self.free.push(bucket);
        Gone { item: b.item, path: b.path, guards }
    }

    /// Sorts what needs it. `moved` is told where subscriptions are now: (subscription, bucket, row).
    pub fn settle(&mut self, constants: &Constants, mut moved: impl FnMut(u32, u32, u32)) {
        for bucket in std::mem::take(&mut self.unsettled) {
            self.sort(bucket, &mut moved);
            self.index_texts(bucket, constants);
        }
        self.compact_if(|used, waste| waste > used / 8 + (1 << 12));
    }

    fn sort(&mut self, bucket: u32, moved: &mut impl FnMut(u32, u32, u32)) {
        let b = self.buckets[bucket as usize];
        let shape = &self.shapes[b.shape as usize];
        let Some(key) = shape.key else { return };
        if b.len < WORTH_SORTING || b.len - b.sorted <= bearable(b.len) && b.removed <= b.len / 4 {
            return;
        }
        let block = block(&self.arena, &shape.layout, &b);
        let live = (0..b.len).zip(block.subs()).filter(|(_, &sub)| sub != NONE).map(|(row, _)| row as usize);
        let column = block.column(key.place);
        let mut order: Vec<(u64, u32)> = live.map(|row| (rank(key.order, column.get(row)), row as u32)).collect();
        order.sort();
        let len = order.len() as u32;
        let form = Form { room: len + len / 16, ..b.form };
        let (old, new) = (shape.layout.words(b.form), shape.layout.words(form));
        let at = self.arena.take(new);
        let (from, words) = self.arena.both((b.at, old), (at, new));
        let from = Block::new(&shape.layout, from, b.form, b.len);
        BlockMut { layout: &shape.layout, words, form }.copy_rows(from, order.iter().map(|o| o.1));
        self.arena.give(b.at, old);
        self.buckets[bucket as usize] = Bucket { at, form, len, sorted: len, removed: 0, ..b };
        for (row, &sub) in (0..).zip(self.block(bucket).subs()) {
            moved(sub, bucket, row);
        }
        self.texts.remove(&bucket);
    }

    fn index_texts(&mut self, bucket: u32, constants: &Constants) {
        let b = self.buckets[bucket as usize];
        let Some(key) = self.shapes[b.shape as usize].key else { return };
        if b.sorted == 0 || self.texts.contains_key(&bucket) {
            return;
        }
        let Column::Strings(column) = self.block(bucket).column(key.place) else { return };
        let mut ids = column[..b.sorted as usize].to_vec();
        ids.dedup();
        let texts = match key.order {
            Order::Contained => Texts::contained(ids.into_iter(), constants),
            Order::Prefix => Some(Texts::prefixes(ids.into_iter(), constants)),
            Order::Ascending | Order::Descending | Order::Id => None,
        };
        self.texts.extend(texts.map(|t| (bucket, t)));
    }

    /// Moves all blocks of our own together if they use too little of their memory.
    fn compact_if(&mut self, too_little: impl Fn(usize, usize) -> bool) {
        let (used, waste) = self.arena.usage();
        if !too_little(used, waste) {
            return;
        }
        let mut packed = self.arena.anew(used + used / 16);
        for b in self.buckets.iter_mut().filter(|b| b.shape != NONE && self.arena.is_own(b.at)) {
            let layout = &self.shapes[b.shape as usize].layout;
            let form = Form { room: b.form.room.min(b.len + b.len / 16).max(1), ..b.form };
            let (old, new) = (layout.words(b.form), layout.words(form));
            let at = packed.take(new);
            let from = Block::new(layout, self.arena.get(b.at, old), b.form, b.len);
            if let Some(words) = packed.get_mut(at, new) {
                BlockMut { layout, words, form }.copy_rows(from, 0..b.len);
            }
            (b.at, b.form) = (at, form);
        }
        self.arena = packed;
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn bytes(&self) -> usize {
        self.arena.bytes()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.keys.capacity() * 5
            + self.shapes.len() * 500
            + self.texts.values().map(Texts::bytes).sum::<usize>()
    }
}

/// How many rows are in the order of the key.
fn sorted(block: Block<'_>, key: Key) -> u32 {
    let column = block.column(key.place);
    let rank = |i: usize| rank(key.order, column.get(i));
    1 + (1..column.len()).take_while(|&i| rank(i - 1) <= rank(i)).count() as u32
}

#[inline(always)]
fn block<'a>(arena: &'a Arena, layout: &'a Layout, b: &Bucket) -> Block<'a> {
    Block::new(layout, arena.get(b.at, layout.words(b.form)), b.form, b.len)
}

/// Constants in the order of a key, as whole numbers. What is no number holds for none, so it comes last.
#[inline(always)]
fn rank(order: Order, constant: Constant) -> u64 {
    match constant {
        Constant::String(id) => id as u64,
        Constant::Number(x) if x.is_nan() => u64::MAX,
        Constant::Number(x) => {
            let bits = (if order == Order::Descending { -x } else { x } + 0.0).to_bits();
            bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
        }
    }
}
