//! Making nodes: the state sets of a tag path seen for the first time, and what it accepts.

use super::{flag, Cold, Hot, NodeId, Run, Trie, BYPASS, DEAD};
use crate::names::{is_element, is_value, Sym};
use crate::paths::align;
use crate::paths::index::PathIndex;
use crate::paths::segment::{Input, ATTRIBUTES, LEAVES, VALUES};
use crate::paths::sets::{SetId, EMPTY};
use crate::paths::NONE;

/// A hundred thousand levels of the same tags must not make as many nodes: how far up to look for an equal node.
const FOLD: usize = 4;
/// How far up to look for what a node need not deliver itself: far enough for messages people write.
const ANCESTORS: usize = 32;
/// States, or subscriptions of a path, that are quicker asked each time than remembered.
const FEW: usize = 8;

impl Trie {
    #[inline(never)]
    pub(super) fn miss(&mut self, index: &PathIndex, cur: NodeId, sym: Sym) -> NodeId {
        if cur == DEAD {
            return DEAD;
        }
        if cur != BYPASS {
            // a value that came before may come again and again
            if is_value(sym) && !self.came_before(cur, sym) && self.look_up(index, cur, sym) {
                return DEAD;
            }
            if self.admits(cur, sym) {
                return self.make(index, cur, sym);
            }
            self.refused += 1;
            self.enter_bypass(index, cur);
        }
        let Run { bypass, late, path_stamp, message, .. } = &mut self.run;
        path_stamp.resize(index.path_bound(), 0);
        self.delta_work += bypass.open(index, &self.segment, sym, |p| {
            if std::mem::replace(&mut path_stamp[p as usize], *message) != *message {
                late.push(p);
            }
        });
        BYPASS
    }

    /// The paths that end on a value of the current node, found without making a node for it: there may be as many
    /// values as messages, and one that a message in ten thousand has is not worth the memory. False where that would
    /// cost more than what the node would remember: many states to ask, or many subscriptions.
    fn look_up(&mut self, index: &PathIndex, cur: NodeId, sym: Sym) -> bool {
        self.ensure_sets(index, cur);
        let c = self.cold[cur as usize];
        let (sets, segment, late) = (&self.sets, &self.segment, &mut self.run.late);
        let groups = &self.refs[c.g0 as usize..c.o0 as usize];
        if c.inherited & VALUES != 0 || groups.iter().map(|&g| sets.states(g).len()).sum::<usize>() > FEW {
            return false;
        }
        let input = Input::new(&index.names, sym);
        let first = late.len();
        for &g in groups {
            for &e in sets.states(g) {
                segment.follow(e, &input, |t| late.extend((t.accept != NONE).then_some(t.accept)));
            }
        }
        if !index.delta_is_empty() {
            let tags = &mut self.scratch.tags;
            tags.clear();
            tags.extend_from_slice(self.scratch.way.to(&self.cold, cur));
            tags.push(sym);
            self.delta_work += tags.len();
            index.delta_for(sym, |p| {
                self.delta_work += tags.len();
                late.extend(align::accepts(&index.names, index.steps(p), tags).then_some(p));
            });
        }
        let few = late[first..].iter().all(|&p| index.refs(p) as usize <= FEW);
        if !few {
            late.truncate(first);
        }
        few
    }

    /// While the cache is less than half full everything enters; then only what comes twice; at the bound nothing.
    fn admits(&mut self, cur: NodeId, sym: Sym) -> bool {
        let bytes = self.bytes();
        if bytes < self.cap / 2 {
            return true;
        }
        bytes <= self.cap && (is_value(sym) || self.came_before(cur, sym))
    }

    /// Was this child asked for before, and not too many others since?
    fn came_before(&mut self, cur: NodeId, sym: Sym) -> bool {
        let h = ((cur as u64) << 32 | sym as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seen = &mut self.filter[(h >> 49) as usize];
        std::mem::replace(seen, h as u32 | 1) == h as u32 | 1
    }

    fn enter_bypass(&mut self, index: &PathIndex, cur: NodeId) {
        self.ensure_sets(index, cur);
        let c = self.cold[cur as usize];
        let (sets, refs, cold) = (&self.sets, &self.refs, &self.cold);
        self.run.bypass.tags.clear();
        self.run.bypass.tags.extend_from_slice(self.scratch.way.to(cold, cur));
        let plain = refs[c.g0 as usize..c.o0 as usize].iter().flat_map(|&s| sets.states(s).iter().copied());
        let loops = origins(cold, refs, cur).flat_map(|s| sets.states(s).iter().copied());
        self.run.bypass.enter(&self.segment, plain, loops);
    }

    fn make(&mut self, index: &PathIndex, parent: NodeId, sym: Sym) -> NodeId {
        self.ensure_sets(index, parent);
        let input = Input::new(&index.names, sym);
        // Two tag paths may share a node only if no path outside the segment can tell them apart.
        let may_share = index.delta_is_empty();
        let from = self.cold[parent as usize];
        let groups = self.refs[from.g0 as usize..from.o0 as usize].iter().fold(0, |m, &s| m | self.sets.mask(s));
        let stops = !is_element(sym) || from.inherited == 0; // `//`-states go on below any element
        if may_share && stops && (groups | from.inherited) & input.want == 0 {
            self.aliases.push((parent, sym));
            self.tab.set(parent, sym, DEAD);
            return DEAD;
        }
        let refs = self.refs.len();
        let node = self.derive(parent, &input);
        if may_share {
            let barren = stops && node.g0 == node.a1;
            if let Some(same) = if barren { Some(DEAD) } else { self.fold(parent, &node) } {
                self.refs.truncate(refs);
                self.aliases.push((parent, sym));
                self.tab.set(parent, sym, same);
                return same;
            }
        }
        let id = self.cold.len() as NodeId;
        let mut flags = self.flags_of(&node);
        let (i0, i1) = self.compile(index, &node);
        if i1 > i0 {
            flags |= flag::ACCEPTS;
        }
        self.cold.push(node);
        self.by_sym.entry(sym).or_default().push(id);
        if !index.delta_is_empty() {
            flags |= self.meet_delta(index, id);
        }
        self.hot.push(Hot { stamp: 0, flags, i0, i1 });
        self.tab.set(parent, sym, id);
        id
    }

    fn flags_of(&self, node: &Cold) -> u16 {
        let own = self.refs[node.g0 as usize..node.o0 as usize].iter().fold(0, |m, &s| m | self.sets.mask(s));
        let mask = own | node.inherited;
        let element = is_element(node.sym);
        let mut flags = 0;
        if element && mask & ATTRIBUTES != 0 {
            flags |= flag::ATTRIBUTES;
        }
        if element && mask & LEAVES != 0 {
            flags |= flag::LEAVES;
        }
        if own & VALUES != 0 {
            flags |= flag::VALUES; // a value is reached by `/` only
        }
        flags
    }

    /// The state sets of a child, written to `refs`.
    fn derive(&mut self, parent: NodeId, input: &Input) -> Cold {
        let from = self.cold[parent as usize];
        let mut groups = std::mem::take(&mut self.scratch.groups);
        groups.clear();
        for i in from.g0..from.o0 {
            let s = self.refs[i as usize];
            let g = self.sets.step(&self.segment, s, input);
            if g != EMPTY {
                groups.push(g);
            }
        }
        let mut anc = from.skip;
        while anc != NONE {
            let c = self.cold[anc as usize];
            let g = self.sets.step(&self.segment, self.refs[c.o0 as usize], input);
            if g != EMPTY {
                groups.push(g);
            }
            anc = if c.parent == NONE { NONE } else { self.cold[c.parent as usize].skip };
        }
        let g0 = self.refs.len() as u32;
        let mut activates = false;
        for &g in &groups {
            if self.sets.mask(g) != 0 {
                self.refs.push(g);
            }
            activates |= !self.sets.activated(g).is_empty();
        }
        let o0 = self.refs.len() as u32;
        let id = self.cold.len() as NodeId;
        let (mut skip, mut inherited) = (from.skip, from.inherited);
        if activates {
            if let Some(o) = self.own_origin(parent, &groups) {
                self.refs.push(o);
                inherited |= self.sets.mask(o);
                skip = id;
            }
        }
        let a0 = self.refs.len() as u32;
        for &g in &groups {
            if !self.sets.accepts(g).is_empty() {
                self.refs.push(g);
            }
        }
        self.scratch.groups = groups;
        Cold {
            parent,
            sym: input.sym,
            depth: from.depth + 1,
            skip,
            g0,
            o0,
            a0,
            a1: self.refs.len() as u32,
            inherited,
            epoch: self.epoch,
        }
    }

    /// The origin of the `//`-states that the groups activate and no ancestor has.
    fn own_origin(&mut self, parent: NodeId, groups: &[SetId]) -> Option<SetId> {
        let s = &mut self.scratch;
        s.state_stamp.resize(self.segment.len(), 0);
        if s.state_epoch == u32::MAX {
            s.state_stamp.fill(0);
            s.state_epoch = 0;
        }
        s.state_epoch += 1;
        for o in origins(&self.cold, &self.refs, parent) {
            for e in self.sets.states(o) {
                s.state_stamp[e.off as usize] = s.state_epoch;
            }
        }
        s.fresh.clear();
        for &g in groups {
            for &e in self.sets.activated(g) {
                if std::mem::replace(&mut s.state_stamp[e.off as usize], s.state_epoch) != s.state_epoch {
                    s.fresh.push(e);
                }
            }
        }
        if s.fresh.is_empty() {
            return None;
        }
        s.fresh.sort_unstable_by_key(|e| e.off);
        Some(self.sets.origin(&s.fresh))
    }

    /// A near ancestor with the same state sets, if there is one: the child *is* that ancestor.
    fn fold(&self, parent: NodeId, node: &Cold) -> Option<NodeId> {
        if node.a0 != node.o0 {
            return None; // it has an origin of its own
        }
        let mut anc = parent;
        for _ in 0..FOLD {
            let c = &self.cold[anc as usize];
            if c.parent == NONE || c.skip != node.skip || c.epoch != self.epoch {
                return None;
            }
            // equal sets, in whatever order, of which only the accepting ones are listed twice
            let same = |a: (u32, u32), b: (u32, u32)| {
                let (a, b) = (&self.refs[a.0 as usize..a.1 as usize], &self.refs[b.0 as usize..b.1 as usize]);
                a.len() == b.len() && (a == b || a.iter().all(|x| b.contains(x)))
            };
            if is_element(c.sym)
                && is_element(node.sym)
                && same((c.g0, c.o0), (node.g0, node.o0))
                && same((c.a0, c.a1), (node.a0, node.a1))
            {
                return Some(anc);
            }
            anc = c.parent;
        }
        None
    }

    /// Works out the state sets of a node that were lost with the last segment, from the nearest ancestor that has them.
    fn ensure_sets(&mut self, index: &PathIndex, node: NodeId) {
        if self.cold[node as usize].epoch == self.epoch {
            return;
        }
        let mut chain = vec![];
        let mut n = node;
        while self.cold[n as usize].epoch != self.epoch {
            chain.push(n);
            n = self.cold[n as usize].parent;
        }
        for n in chain.into_iter().rev() {
            let old = self.cold[n as usize];
            let input = Input::new(&index.names, old.sym);
            let mut c = self.derive(old.parent, &input);
            if c.a0 != c.o0 {
                c.skip = n;
            }
            self.cold[n as usize] = c;
        }
    }

    /// The intervals of what a new node accepts, as a range of `intervals`; without what its ancestors deliver, which
    /// are visited whenever it is. This moves positions, so no message's bits may be set meanwhile.
    fn compile(&mut self, index: &PathIndex, node: &Cold) -> (u32, u32) {
        let set = &mut self.run.hits;
        set.fit(&self.laminar);
        for &g in &self.refs[node.a0 as usize..node.a1 as usize] {
            for &p in self.sets.accepts(g) {
                index.subs(p, |sub| set.set_one(self.laminar.position(sub)));
            }
        }
        let mut anc = node.parent;
        for _ in 0..ANCESTORS {
            let Some(h) = self.hot.get(anc as usize) else { break };
            for &i in &self.intervals[h.i0 as usize..h.i1 as usize] {
                set.unset(i);
            }
            anc = self.cold[anc as usize].parent;
        }
        let i0 = self.intervals.len() as u32;
        self.laminar.refine(set, &mut self.intervals);
        (i0, self.intervals.len() as u32)
    }
}

/// The origins active at a node.
fn origins<'a>(cold: &'a [Cold], refs: &'a [SetId], n: NodeId) -> impl Iterator<Item = SetId> + 'a {
    let mut anc = cold[n as usize].skip;
    std::iter::from_fn(move || {
        let c = cold.get(anc as usize)?;
        anc = if c.parent == NONE { NONE } else { cold[c.parent as usize].skip };
        Some(refs[c.o0 as usize])
    })
}
