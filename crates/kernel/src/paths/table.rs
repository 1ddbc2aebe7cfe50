//! The set of distinct paths, ref-counted: equal paths of many subscriptions are one path.

use super::{PathId, Step};
use hashbrown::HashTable;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

#[derive(Default)]
pub struct PathTable {
    /// Where the steps of each path lie in `steps`.
    spans: Vec<(u32, u32)>,
    refs: Vec<u32>,
    steps: Vec<Step>,
    ids: HashTable<PathId>,
    free: Vec<PathId>,
    /// Steps of removed paths still in `steps`.
    waste: usize,
}

fn hash(steps: &[Step]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(steps)
}

impl PathTable {
    /// The path's number, and whether it is new.
    pub fn acquire(&mut self, path: &[Step]) -> (PathId, bool) {
        let h = hash(path);
        let (spans, steps) = (&self.spans, &self.steps);
        if let Some(&id) = self.ids.find(h, |&id| slice(spans, steps, id) == path) {
            self.refs[id as usize] += 1;
            return (id, false);
        }
        let span = (self.steps.len() as u32, path.len() as u32);
        self.steps.extend_from_slice(path);
        let id = match self.free.pop() {
            Some(id) => {
                self.spans[id as usize] = span;
                self.refs[id as usize] = 1;
                id
            }
            None => {
                self.spans.push(span);
                self.refs.push(1);
                self.spans.len() as u32 - 1
            }
        };
        let (spans, steps) = (&self.spans, &self.steps);
        self.ids.insert_unique(h, id, |&id| hash(slice(spans, steps, id)));
        (id, true)
    }

    /// Distinct paths that lie one after another in `steps`, with their numbers of references.
    pub fn open(steps: Vec<Step>, lens: &[u32], refs: &[u32]) -> PathTable {
        let mut at = 0;
        let mut span = |&len: &u32| {
            at += len;
            (at - len, len)
        };
        let spans: Vec<_> = lens.iter().map(&mut span).collect();
        let of = |id: PathId| hash(slice(&spans, &steps, id));
        let mut ids = HashTable::with_capacity(lens.len());
        for id in 0..lens.len() as PathId {
            ids.insert_unique(of(id), id, |&id| of(id));
        }
        PathTable { spans, refs: refs.to_vec(), steps, ids, free: vec![], waste: 0 }
    }

    pub fn find(&self, path: &[Step]) -> Option<PathId> {
        self.ids.find(hash(path), |&id| self.steps(id) == path).copied()
    }

    /// Gives one reference back; true if it was the last and the path is gone. Its number may be used again only
    /// after `recycle`, so that caches which still know the old path can be told first.
    pub fn release(&mut self, id: PathId) -> bool {
        self.refs[id as usize] -= 1;
        if self.refs[id as usize] > 0 {
            return false;
        }
        let h = hash(self.steps(id));
        if let Ok(e) = self.ids.find_entry(h, |&x| x == id) {
            e.remove();
        }
        self.waste += self.spans[id as usize].1 as usize;
        true
    }

    /// Makes the number of a path that is gone available again, and its steps unreadable.
    pub fn recycle(&mut self, id: PathId) {
        self.free.push(id);
        if self.waste * 2 > self.steps.len() + 1024 {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let mut packed = Vec::with_capacity(self.steps.len() - self.waste);
        for (span, &refs) in self.spans.iter_mut().zip(&self.refs) {
            let start = packed.len() as u32;
            if refs > 0 {
                packed.extend_from_slice(&self.steps[span.0 as usize..(span.0 + span.1) as usize]);
                span.0 = start;
            } else {
                *span = (0, 0);
            }
        }
        self.steps = packed;
        self.waste = 0;
    }

    pub fn refs(&self, id: PathId) -> u32 {
        self.refs[id as usize]
    }

    pub fn steps(&self, id: PathId) -> &[Step] {
        slice(&self.spans, &self.steps, id)
    }

    /// One past the highest path number in use.
    pub fn bound(&self) -> usize {
        self.spans.len()
    }

    /// Number of distinct paths.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn live(&self) -> impl Iterator<Item = PathId> + '_ {
        self.refs.iter().enumerate().filter(|(_, &r)| r > 0).map(|(i, _)| i as PathId)
    }

    pub fn bytes(&self) -> usize {
        self.spans.capacity() * 8 + self.refs.capacity() * 4 + self.steps.capacity() * 4 + self.ids.capacity() * 5
    }
}

fn slice<'a>(spans: &[(u32, u32)], steps: &'a [Step], id: PathId) -> &'a [Step] {
    let (start, len) = spans[id as usize];
    &steps[start as usize..(start + len) as usize]
}
