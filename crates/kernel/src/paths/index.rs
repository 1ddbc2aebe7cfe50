//! The subscribed paths and who asked for them: everything the matchers read, changed only between messages.
//!
//! Matchers keep caches of their own. Each change is logged, so that a warm cache catches up at the cost of the
//! change; a cache too far behind starts anew.

use super::segment::Segment;
use super::table::PathTable;
use super::{PathId, Step, NONE};
use crate::names::{Names, Sym};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The subscription now has the path; `fresh` if no subscription had it before.
    Add { sub: u32, path: PathId, fresh: bool },
    /// The subscription is gone from all its paths.
    Remove { sub: u32 },
    /// The path is gone; its number will not mean another path before the next generation.
    Drop { path: PathId },
}

/// A subscription (`NONE` for none) and the entry of the next one of the same path.
type Link = (u32, u32);

/// A cache that missed more changes than this starts anew rather than catch up.
const LOG: usize = 1 << 14;
/// Paths not in the segment yet are kept aside until they are more than this, and an eighth of the segment.
const DELTA: usize = 512;

pub struct PathIndex {
    pub names: Names,
    table: PathTable,
    /// Per path its first subscription, here at hand since most have but one, and the next of its `entries`.
    heads: Vec<Link>,
    entries: Vec<Link>,
    free: Vec<u32>,
    subs: usize,
    /// One past the highest subscription number seen.
    sub_bound: usize,
    /// Bits of subscriptions that are not delivered, only asked for.
    quiet: Vec<u64>,
    /// Paths that are gone but whose numbers caches may still hold.
    zombies: Vec<PathId>,
    segment: Arc<Segment>,
    segment_paths: usize,
    segment_epoch: u32,
    /// Live paths that are not in the segment, by last test.
    delta: HashMap<Sym, Vec<PathId>>,
    delta_len: usize,
    delta_max: usize,
    generation: u32,
    log: Vec<Change>,
    /// Version number of the first change in the log.
    log_start: u64,
}

impl Default for PathIndex {
    fn default() -> Self {
        Self::with_delta(DELTA)
    }
}

impl PathIndex {
    /// `max` paths at least are kept outside the segment before it is built anew.
    pub fn with_delta(max: usize) -> PathIndex {
        PathIndex {
            names: Names::new(),
            table: PathTable::default(),
            heads: vec![],
            entries: vec![],
            free: vec![],
            subs: 0,
            sub_bound: 0,
            quiet: vec![],
            zombies: vec![],
            segment: Arc::new(Segment::build(vec![])),
            segment_paths: 0,
            segment_epoch: 0,
            delta: HashMap::new(),
            delta_len: 0,
            delta_max: max,
            generation: 0,
            log: vec![],
            log_start: 0,
        }
    }

    /// Distinct paths that lie one after another in `steps`, each with at least one subscription, which lie likewise in
    /// `subs`.
    pub fn open(names: Names, steps: Vec<Step>, lens: &[u32], subs: Vec<u32>, counts: &[u32]) -> PathIndex {
        let mut index = PathIndex { names, table: PathTable::open(steps, lens, counts), ..PathIndex::default() };
        index.subs = subs.len();
        index.sub_bound = subs.iter().max().map_or(0, |&s| s as usize + 1);
        index.entries.reserve_exact(subs.len() - counts.len());
        index.heads.reserve_exact(counts.len());
        let mut rest = &subs[..];
        for &count in counts {
            let (own, others) = rest.split_at(count as usize);
            let mut link = (own[0], NONE);
            for &sub in &own[1..] {
                index.entries.push(link);
                link = (sub, index.entries.len() as u32 - 1);
            }
            index.heads.push(link);
            rest = others;
        }
        index.rebuild();
        index
    }

    /// Ties a subscription to a path. Paths have at least one step.
    pub fn add(&mut self, sub: u32, path: &[Step]) -> PathId {
        let (id, fresh) = self.table.acquire(path);
        if fresh {
            if self.heads.len() <= id as usize {
                self.heads.resize(id as usize + 1, (NONE, NONE));
            }
            self.heads[id as usize] = (NONE, NONE);
            self.delta.entry(path[path.len() - 1].test()).or_default().push(id);
            self.delta_len += 1;
        }
        let first = self.heads[id as usize];
        let next = if first.0 == NONE {
            NONE
        } else if let Some(e) = self.free.pop() {
            self.entries[e as usize] = first;
            e
        } else {
            self.entries.push(first);
            self.entries.len() as u32 - 1
        };
        self.heads[id as usize] = (sub, next);
        self.subs += 1;
        self.sub_bound = self.sub_bound.max(sub as usize + 1);
        self.record(Change::Add { sub, path: id, fresh });
        id
    }

    /// Matchers need not deliver the subscription, which is about to be added or was just now; they may.
    pub fn hush(&mut self, sub: u32) {
        let word = sub as usize / 64;
        self.quiet.resize(self.quiet.len().max(word + 1), 0);
        self.quiet[word] |= 1 << (sub % 64);
    }

    pub fn is_quiet(&self, sub: u32) -> bool {
        self.quiet.get(sub as usize / 64).is_some_and(|w| w >> (sub % 64) & 1 == 1)
    }

    /// Unties a subscription from the paths it has.
    pub fn remove(&mut self, sub: u32, paths: &[PathId]) {
        if let Some(word) = self.quiet.get_mut(sub as usize / 64) {
            *word &= !(1 << (sub % 64));
        }
        self.record(Change::Remove { sub });
        for &path in paths {
            self.unlink(sub, path);
            self.subs -= 1;
            if self.table.release(path) {
                self.zombies.push(path);
                let test = self.table.steps(path).last().map_or(0, |s| s.test());
                if let Some(list) = self.delta.get_mut(&test) {
                    let before = list.len();
                    list.retain(|&p| p != path);
                    self.delta_len -= before - list.len();
                }
                self.record(Change::Drop { path });
            }
        }
    }

    fn unlink(&mut self, sub: u32, path: PathId) {
        let first = &mut self.heads[path as usize];
        let mut e = first.1;
        if first.0 == sub {
            *first = (NONE, NONE);
            if e != NONE {
                *first = self.entries[e as usize];
                self.free.push(e);
            }
            return;
        }
        let mut prev = NONE;
        while e != NONE {
            let (s, next) = self.entries[e as usize];
            if s == sub {
                if prev == NONE {
                    self.heads[path as usize].1 = next;
                } else {
                    self.entries[prev as usize].1 = next;
                }
                self.free.push(e);
                return;
            }
            (prev, e) = (e, next);
        }
    }

    fn record(&mut self, change: Change) {
        if self.log.len() == LOG {
            self.log_start += (LOG / 2) as u64;
            self.log.drain(..LOG / 2);
        }
        self.log.push(change);
    }

    /// Settles pending work before matching: folds new paths into the segment when there are many, and frees the
    /// numbers of paths that are gone when those are many.
    pub fn settle(&mut self) {
        if self.zombies.len() > 1024 + self.table.len() / 4 {
            for id in std::mem::take(&mut self.zombies) {
                self.table.recycle(id);
            }
            self.generation += 1;
            self.rebuild();
        } else if self.segment_paths == 0 || self.delta_len > self.delta_max.max(self.segment_paths / 8) {
            self.fold();
        }
    }

    /// Moves all paths into the segment.
    pub fn fold(&mut self) {
        if self.delta_len > 0 {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let paths: Vec<_> = self.table.live().map(|id| (self.table.steps(id), id)).collect();
        self.segment_paths = paths.len();
        self.segment = Arc::new(Segment::build(paths));
        self.segment_epoch += 1;
        self.delta.clear();
        self.delta_len = 0;
    }

    /// The subscriptions of a path.
    #[inline(always)]
    pub fn subs(&self, path: PathId, mut f: impl FnMut(u32)) {
        let mut link = self.heads[path as usize];
        if link.0 == NONE {
            return;
        }
        f(link.0);
        while link.1 != NONE {
            link = self.entries[link.1 as usize];
            f(link.0);
        }
    }

    pub fn steps(&self, path: PathId) -> &[Step] {
        self.table.steps(path)
    }

    pub fn find(&self, path: &[Step]) -> Option<PathId> {
        self.table.find(path)
    }

    /// Number of subscriptions that have the path.
    pub fn refs(&self, path: PathId) -> u32 {
        self.table.refs(path)
    }

    /// Number of distinct paths.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn path_bound(&self) -> usize {
        self.table.bound()
    }

    pub fn sub_bound(&self) -> usize {
        self.sub_bound
    }

    pub fn live(&self) -> impl Iterator<Item = PathId> + '_ {
        self.table.live()
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    pub fn segment_epoch(&self) -> u32 {
        self.segment_epoch
    }

    /// Changes with every renumbering of paths: caches of another generation are void.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn version(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// The changes since a version, or `None` if they are forgotten.
    pub fn since(&self, version: u64) -> Option<&[Change]> {
        let skip = version.checked_sub(self.log_start)? as usize;
        self.log.get(skip..)
    }

    pub fn delta_is_empty(&self) -> bool {
        self.delta_len == 0
    }

    /// All paths outside the segment.
    pub fn delta(&self) -> impl Iterator<Item = PathId> + '_ {
        self.delta.values().flatten().copied()
    }

    /// Paths outside the segment that end in a test the symbol satisfies.
    pub fn delta_for(&self, sym: Sym, mut f: impl FnMut(PathId)) {
        if self.delta_len == 0 {
            return;
        }
        for test in std::iter::once(&sym).chain(&self.names.wildcards(sym)) {
            for &p in self.delta.get(test).map_or(&[][..], |v| v) {
                f(p);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.table.bytes() + (self.heads.capacity() + self.entries.capacity()) * 8 + self.segment.bytes()
    }
}
