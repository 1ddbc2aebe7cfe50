//! Shapes and their subscriptions. A shape is a program; its subscriptions differ in their constants only and lie in
//! *buckets*: those with the same access constants, as columns. A message reaches a bucket through the path engine,
//! by a path that must be there, with the constant as its last step where there is one (the access predicate).

use super::bulk::Bulk;
use super::program::Program;
use super::search::{Message, Search};
use super::star::{self, Star};
use crate::names::Sym;
use crate::paths::{PathId, Step};
use hashbrown::{DefaultHashBuilder, HashTable};
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
    /// The one access path and the guards are all there is to the pattern: they decide it.
    pub exact: bool,
    star: Option<Star>,
    /// For each slot the column it has in buckets; `u32::MAX` where it is the bucket's own.
    column_of: Vec<u32>,
    pub subscriptions: usize,
}

pub struct Bucket {
    pub shape: u32,
    /// Constants that all rows share, by slot; 0 where they do not.
    fixed: Vec<u64>,
    columns: Vec<Vec<u64>>,
    pub subs: Vec<u32>,
    /// The number by which the path engine knows the bucket, and its paths there.
    pub item: u32,
    pub paths: Vec<PathId>,
    /// Guards that all rows have in common, by their index in the shape: the item and the constant of each.
    pub guards: Vec<Guard>,
    /// The access constants.
    key: Box<[Sym]>,
}

/// A path of its own in the path engine, shared by all buckets that it guards.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub index: u32,
    pub item: u32,
    constant: u64,
}

#[derive(Default)]
pub struct Store {
    shapes: Vec<Shape>,
    buckets: Vec<Option<Bucket>>,
    free: Vec<u32>,
    /// Buckets by their keys.
    keys: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Store {
    pub fn add_shape(
        &mut self,
        program: Program,
        words: &[u32],
        access: Vec<Access>,
        guards: Vec<Access>,
        exact: bool,
    ) -> u32 {
        let star = Star::new(&program.pred);
        // With one access path its constant is the same in the whole bucket; with several each row keeps its own.
        let shared = match &access[..] {
            [one] => one.slot,
            _ => None,
        };
        let mut next = 0;
        let column_of = (0..program.slots.len() as u32)
            .map(|slot| {
                if Some(slot) == shared {
                    return u32::MAX;
                }
                next += 1;
                next - 1
            })
            .collect();
        let words = words.into();
        self.shapes.push(Shape { program, words, access, guards, exact, star, column_of, subscriptions: 0 });
        self.shapes.len() as u32 - 1
    }

    pub fn shape(&self, shape: u32) -> Option<&Shape> {
        self.shapes.get(shape as usize)
    }

    /// The bucket for these access constants.
    pub fn find_bucket(&self, shape: u32, access: &[Sym]) -> Option<u32> {
        let is = |&b: &u32| matches!(&self.buckets[b as usize], Some(b) if b.shape == shape && *b.key == *access);
        self.keys.find(self.hash(shape, access), is).copied()
    }

    fn hash(&self, shape: u32, access: &[Sym]) -> u64 {
        self.hasher.hash_one((shape, access))
    }

    pub fn open_bucket(&mut self, shape: u32, access: Vec<Sym>, row: &[u64], item: u32, paths: Vec<PathId>) -> u32 {
        let s = &self.shapes[shape as usize];
        let columns = s.column_of.iter().filter(|&&c| c != u32::MAX).count();
        let fixed = s.column_of.iter().zip(row).map(|(&c, &x)| if c == u32::MAX { x } else { 0 }).collect();
        let bucket = Bucket {
            shape,
            fixed,
            columns: vec![vec![]; columns],
            subs: vec![],
            item,
            paths,
            guards: vec![],
            key: access.into_boxed_slice(),
        };
        let b = self.free.pop().unwrap_or(self.buckets.len() as u32);
        if b as usize == self.buckets.len() {
            self.buckets.push(Some(bucket));
        } else {
            self.buckets[b as usize] = Some(bucket);
        }
        let (buckets, hasher) = (&self.buckets, &self.hasher);
        let hash = |b: u32| buckets[b as usize].as_ref().map_or(0, |b| hasher.hash_one((b.shape, &*b.key)));
        self.keys.insert_unique(hash(b), b, |&b| hash(b));
        b
    }

    /// Guards of a new bucket.
    pub fn set_guards(&mut self, bucket: u32, items: impl Iterator<Item = u32>, row: &[u64]) {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return };
        let guards = &self.shapes[b.shape as usize].guards;
        let constant = |g: &Access| g.slot.map_or(0, |s| row[s as usize]);
        let each = items.zip(guards).enumerate();
        b.guards = each.map(|(i, (item, g))| Guard { index: i as u32, item, constant: constant(g) }).collect();
    }

    /// Guards of a bucket with rows: (index, item). False if the shape has no such guard.
    pub fn open_guards(&mut self, bucket: u32, pairs: impl Iterator<Item = (u32, u32)>, row: &[u64]) -> bool {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return false };
        let guards = &self.shapes[b.shape as usize].guards;
        for (index, item) in pairs {
            let Some(g) = guards.get(index as usize) else { return false };
            b.guards.push(Guard { index, item, constant: g.slot.map_or(0, |s| row[s as usize]) });
        }
        true
    }

    /// Takes away the guards that a new row does not share; answers their items.
    pub fn drop_guards(&mut self, bucket: u32, row: &[u64]) -> Vec<u32> {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return vec![] };
        let guards = &self.shapes[b.shape as usize].guards;
        let mut gone = vec![];
        b.guards.retain(|g| {
            let same = guards[g.index as usize].slot.is_none_or(|s| row[s as usize] == g.constant);
            if !same {
                gone.push(g.item);
            }
            same
        });
        gone
    }

    /// Makes room for the first buckets.
    pub fn reserve(&mut self, buckets: usize) {
        self.buckets.reserve_exact(buckets);
        self.keys.reserve(buckets, |_| 0);
    }

    /// The rows of a bucket that has none: their constants for each slot that is not fixed, and their subscriptions.
    pub fn fill(&mut self, bucket: u32, columns: Vec<Vec<u64>>, subs: Vec<u32>) {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return };
        self.shapes[b.shape as usize].subscriptions += subs.len();
        (b.columns, b.subs) = (columns, subs);
    }

    pub fn add_path(&mut self, bucket: u32, path: PathId) {
        if let Some(b) = self.buckets[bucket as usize].as_mut() {
            b.paths.push(path);
        }
    }

    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.shapes.iter()
    }

    pub fn buckets(&self) -> impl Iterator<Item = (&Bucket, &Shape)> {
        self.buckets.iter().flatten().map(|b| (b, &self.shapes[b.shape as usize]))
    }

    /// Appends a row; answers its place.
    pub fn push(&mut self, bucket: u32, row: &[u64], sub: u32) -> u32 {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return 0 };
        let shape = &mut self.shapes[b.shape as usize];
        for (&c, &x) in shape.column_of.iter().zip(row) {
            if c != u32::MAX {
                b.columns[c as usize].push(x);
            }
        }
        shape.subscriptions += 1;
        b.subs.push(sub);
        b.subs.len() as u32 - 1
    }

    /// Takes a row out; answers the subscription that took its place, and the bucket itself if that was the last.
    pub fn take(&mut self, bucket: u32, row: u32) -> (Option<u32>, Option<Bucket>) {
        let Some(b) = self.buckets[bucket as usize].as_mut() else { return (None, None) };
        self.shapes[b.shape as usize].subscriptions -= 1;
        for c in &mut b.columns {
            c.swap_remove(row as usize);
        }
        b.subs.swap_remove(row as usize);
        let moved = b.subs.get(row as usize).copied();
        if !b.subs.is_empty() {
            return (moved, None);
        }
        let gone = self.buckets[bucket as usize].take();
        if let Some(gone) = &gone {
            let h = self.hash(gone.shape, &gone.key);
            if let Ok(entry) = self.keys.find_entry(h, |&b| b == bucket) {
                entry.remove();
            }
            self.free.push(bucket);
        }
        (None, gone)
    }

    /// The items that a message must have, besides the bucket's own, to satisfy any of its subscriptions.
    #[inline]
    pub fn guards(&self, bucket: u32) -> &[Guard] {
        self.buckets[bucket as usize].as_ref().map_or(&[], |b| &b.guards)
    }

    /// The constants of a row, by slot.
    pub fn row(&self, bucket: u32, row: u32, out: &mut Vec<u64>) {
        out.clear();
        if let Some(b) = &self.buckets[bucket as usize] {
            b.row(&self.shapes[b.shape as usize], row as usize, out);
        }
    }

    /// The shape of a bucket.
    pub fn shape_of(&self, bucket: u32) -> Option<&Shape> {
        self.buckets.get(bucket as usize)?.as_ref().map(|b| &self.shapes[b.shape as usize])
    }

    /// Appends the subscriptions of the bucket that the message satisfies.
    pub fn evaluate(&self, bucket: u32, message: Message<'_>, fuel: u32, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Some(b) = self.buckets[bucket as usize].as_ref() else { return };
        let shape = &self.shapes[b.shape as usize];
        if shape.exact && b.guards.len() == shape.guards.len() {
            return out.extend_from_slice(&b.subs);
        }
        let fuel = fuel.saturating_mul(message.nodes.len() as u32 + 256);
        if b.subs.len() > 1 {
            if let Some(star) = &shape.star {
                let from = out.len();
                let rows =
                    star::Rows { len: b.subs.len(), columns: &b.columns, column_of: &shape.column_of, fixed: &b.fixed };
                let hits = star.matches(message, fuel, &rows, &mut scratch.star, |i| out.push(b.subs[i]));
                if hits.is_ok() {
                    // several centres may have hit the same row
                    out[from..].sort_unstable();
                    let mut kept = from;
                    for i in from..out.len() {
                        if i == from || out[i] != out[kept - 1] {
                            out[kept] = out[i];
                            kept += 1;
                        }
                    }
                    out.truncate(kept);
                    return;
                }
                out.truncate(from);
            }
        }
        for (i, &sub) in b.subs.iter().enumerate() {
            scratch.row.clear();
            b.row(shape, i, &mut scratch.row);
            let found = Search::new(message, fuel).holds(&shape.program.pred, 0, (1, 1), &scratch.row);
            if found.unwrap_or_else(|_| Bulk::new(message, &scratch.row).holds(&shape.program.pred)) {
                out.push(sub);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    pub fn bytes(&self) -> usize {
        let rows = |b: &Bucket| b.columns.iter().map(|c| c.capacity() * 8).sum::<usize>() + b.subs.capacity() * 4 + 160;
        self.buckets.iter().flatten().map(rows).sum::<usize>() + self.shapes.len() * 400 + self.keys.capacity() * 5
    }
}

/// Working memory of `Store::evaluate`.
#[derive(Default)]
pub struct Scratch {
    row: Vec<u64>,
    star: star::Scratch,
}

impl Shape {
    /// All rows of a bucket have the same constant in the slot.
    pub fn is_fixed(&self, slot: usize) -> bool {
        self.column_of[slot] == u32::MAX
    }
}

impl Bucket {
    /// Per slot the constants of all rows, or the one they share.
    pub fn constants<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = &'a [u64]> {
        shape.column_of.iter().enumerate().map(|(slot, &c)| match c {
            u32::MAX => std::slice::from_ref(&self.fixed[slot]),
            c => &self.columns[c as usize][..],
        })
    }

    fn row(&self, shape: &Shape, i: usize, out: &mut Vec<u64>) {
        out.extend(shape.column_of.iter().enumerate().map(|(slot, &c)| match c {
            u32::MAX => self.fixed[slot],
            c => self.columns[c as usize][i],
        }));
    }
}
