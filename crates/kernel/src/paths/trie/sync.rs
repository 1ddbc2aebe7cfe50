//! Catching up with the index: subscriptions that come and go, and paths that are not in the segment yet.

use super::{flag, NodeId, Trie};
use crate::names::{is_attribute, is_element, is_value};
use crate::paths::index::{Change, PathIndex};
use crate::paths::segment::LEAVES;
use crate::paths::sets::Sets;
use crate::paths::{align, PathId, NONE};

/// Once this many elements have gone past a full cache, it is cheaper to fill it anew.
const REFUSALS: usize = 1 << 16;
/// What an interval in `extra` takes, with its share of list and map.
const EXTRA_BYTES: usize = 24;

impl Trie {
    /// Brings the cache up to the index. Between messages only.
    pub(super) fn follow(&mut self, index: &PathIndex) {
        let full = self.refused > REFUSALS && self.bytes() > self.cap;
        let stale =
            self.generation != index.generation() || self.laminar.dead_count() > 1024 + self.laminar.len() / 2 || full;
        let changes = if stale { None } else { index.since(self.version) };
        // Adding to a warm trie costs about twice what making a node does.
        let few = 256.max(self.len() / 2);
        let Some(changes) = changes.filter(|c| c.len() <= few) else {
            *self = Trie::new(index, self.cap);
            return;
        };
        for &c in changes {
            match c {
                Change::Add { sub, path, fresh } => self.add(index, sub, path, fresh),
                Change::Remove { sub } => self.laminar.remove(sub),
                Change::Drop { .. } => {}
            }
        }
        self.version = index.version();
        if self.epoch != index.segment_epoch() {
            if self.common != 0 {
                *self = Trie::new(index, self.cap); // which nodes want attributes is to be found out anew
                return;
            }
            self.adopt(index);
        }
    }

    /// A new segment: nodes keep their answers, and get their state sets again when a child is made.
    fn adopt(&mut self, index: &PathIndex) {
        self.segment = index.segment().clone();
        let (sets, root, origin) = Sets::new(&self.segment);
        self.sets = sets;
        self.epoch = index.segment_epoch();
        self.delta_work = 0;
        self.refs = vec![root];
        self.refs.extend(origin);
        let end = self.refs.len() as u32;
        let d = &mut self.cold[0];
        (d.g0, d.o0, d.a0, d.a1) = (0, 1, end, end);
        d.skip = if origin.is_some() { 0 } else { NONE };
        d.inherited = origin.map_or(0, |o| self.sets.mask(o));
        d.epoch = self.epoch;
        if (self.sets.mask(root) | d.inherited) & LEAVES != 0 {
            self.hot[0].flags |= flag::LEAVES;
        }
        self.scratch.state_stamp.clear();
        self.drop_aliases();
    }

    /// A subscription on a path joins every node that the path accepts.
    fn add(&mut self, index: &PathIndex, sub: u32, path: PathId, fresh: bool) {
        if fresh {
            self.drop_aliases();
            self.admit_test(index, path);
        }
        if self.laminar.position(sub) == NONE {
            self.laminar.push(sub);
        }
        // a class of its own, so that its position is one interval and stays
        let own = self.laminar.isolate(sub);
        let steps = index.steps(path);
        let test = steps[steps.len() - 1].test();
        let mut way = std::mem::take(&mut self.scratch.way);
        let named = self.by_sym.get(&test).map_or(&[][..], |v| v);
        let plain = is_value(test) || index.names.describe(test).is_some();
        let all = if plain { 0..0 } else { 2..self.cold.len() as NodeId };
        for n in named.iter().copied().filter(|_| plain).chain(all) {
            if !index.names.satisfies(self.cold[n as usize].sym, test) {
                continue;
            }
            if align::accepts(&index.names, steps, way.to(&self.cold, n)) {
                self.extra.entry(n).or_default().push(own);
                self.extra_bytes += EXTRA_BYTES;
                self.hot[n as usize].flags |= flag::ACCEPTS | flag::EXTRA;
            }
        }
        self.scratch.way = way;
    }

    pub(super) fn admit_test(&mut self, index: &PathIndex, path: PathId) {
        for step in index.steps(path).iter().rev().take(2) {
            let test = step.test();
            if is_attribute(test) {
                self.common |= flag::ATTRIBUTES;
            } else if is_value(test) {
                self.common |= flag::VALUES;
            } else if !is_element(test) {
                self.common |= flag::LEAVES;
            }
        }
    }

    pub(super) fn drop_aliases(&mut self) {
        for (n, sym) in self.aliases.drain(..) {
            self.tab.set(n, sym, NONE);
        }
    }

    /// The paths outside the segment that the new node satisfies.
    pub(super) fn meet_delta(&mut self, index: &PathIndex, id: NodeId) -> u16 {
        let tags = self.scratch.way.to(&self.cold, id);
        let set = &mut self.run.hits;
        set.fit(&self.laminar);
        self.delta_work += tags.len();
        index.delta_for(self.cold[id as usize].sym, |p| {
            self.delta_work += tags.len();
            if align::accepts(&index.names, index.steps(p), tags) {
                index.subs(p, |sub| set.set_one(self.laminar.position(sub)));
            }
        });
        let mut intervals = vec![];
        self.laminar.refine(set, &mut intervals);
        if intervals.is_empty() {
            return 0;
        }
        self.extra_bytes += EXTRA_BYTES * intervals.len();
        self.extra.insert(id, intervals);
        flag::ACCEPTS | flag::EXTRA
    }
}
