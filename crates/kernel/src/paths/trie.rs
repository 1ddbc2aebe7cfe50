//! The tag-path trie: structure is matched once per distinct tag path (DESIGN.md, idea 3). In steady state an
//! element costs one look-up, (trie node, symbol) -> trie node; a node knows the subscriptions it satisfies as
//! intervals of positions. A tag path seen for the first time is worked out from factored state sets (`sets`), or,
//! past the cache's bound, by direct simulation (`bypass`). It is the lazy determinisation of YFilter's automaton.
//!
//! The trie is a cache owned by its caller: it follows a [`PathIndex`] and can always be thrown away.

use super::bypass::Bypass;
use super::index::{Change, PathIndex};
use super::laminar::{Hits, Interval, Laminar};
use super::segment::{Entry, Input, Mask, Segment, ATTRIBUTES, LEAVES, VALUES};
use super::sets::{SetId, Sets, EMPTY};
use super::tab::Tab;
use super::{align, PathId, NONE};
use crate::names::{is_attribute, is_element, is_value, Sym};
use hashbrown::HashMap;
use std::sync::Arc;

/// Number of a trie node. 0 is the document node.
type NodeId = u32;
/// Below here nothing can match. Not a tag path of its own.
const DEAD: NodeId = 1;
/// The current node is not in the trie: `bypass` knows where we are.
const BYPASS: NodeId = u32::MAX - 1;
/// Visits after which a node's subscriptions are compiled to intervals. Before, it delivers through shared lists:
/// most tag paths of irregular data are seen only a few times, and compiling costs more than that.
const COMPILE_AFTER: u16 = 6;
/// A hundred thousand levels of the same tags must not make as many nodes: how far up to look for an equal node.
const FOLD: usize = 4;
/// Once this many elements have gone past a full cache, it is cheaper to fill it anew.
const REFUSALS: usize = 1 << 16;
const FILTER: usize = 1 << 15;
/// What an interval in `extra` takes, with its share of list and map.
const EXTRA_BYTES: usize = 24;

mod flag {
    /// Some path may go on to attributes.
    pub const ATTRIBUTES: u16 = 1;
    /// Some path may go on to text, comments or PIs.
    pub const LEAVES: u16 = 2;
    /// The node satisfies some path.
    pub const ACCEPTS: u16 = 4;
    /// `intervals` is filled in.
    pub const COMPILED: u16 = 8;
    /// The node has positions added since it was made.
    pub const EXTRA: u16 = 16;
    /// Some path may go on to the node's value.
    pub const VALUES: u16 = 32;
}

/// What every visit reads.
#[derive(Clone, Copy, Default)]
struct Hot {
    /// The message that last visited the node.
    stamp: u32,
    visits: u16,
    flags: u16,
    /// Range of `intervals`.
    i0: u32,
    i1: u32,
}

/// What making children reads.
#[derive(Clone, Copy)]
struct Cold {
    parent: NodeId,
    sym: Sym,
    depth: u32,
    /// Nearest node on the way to the root, this one included, that has an origin.
    skip: NodeId,
    /// `refs[g0..o0]` groups, `refs[o0..a0]` the origin (none or one), `refs[a0..a1]` the accepting groups.
    g0: u32,
    o0: u32,
    a0: u32,
    a1: u32,
    /// What the origins from the root to here can follow.
    inherited: Mask,
    /// The sets are those of this segment epoch.
    epoch: u32,
}

pub struct Trie {
    cap: usize,
    tab: Tab,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    refs: Vec<SetId>,
    sets: Sets,
    segment: Arc<Segment>,
    intervals: Vec<Interval>,
    extra: HashMap<NodeId, Vec<Interval>>,
    extra_bytes: usize,
    /// Work done on paths outside the segment, in steps looked at.
    delta_work: usize,
    by_sym: HashMap<Sym, Vec<NodeId>>,
    /// Edges that lead to a node which stands for several tag paths: void as soon as a new path may tell them apart.
    aliases: Vec<(NodeId, Sym)>,
    laminar: Laminar,
    /// Flags that every node has because a path outside the segment wants them.
    common: u16,

    generation: u32,
    version: u64,
    epoch: u32,

    /// Paths of tag paths refused once; a second visit is admitted.
    filter: Vec<u32>,
    refused: usize,

    run: Run,
    scratch: Scratch,
}

/// The state of the message being read.
#[derive(Default)]
struct Run {
    message: u32,
    cur: NodeId,
    stack: Vec<NodeId>,
    visited: Vec<NodeId>,
    bypass: Bypass,
    /// Paths found by the bypass.
    late: Vec<PathId>,
    path_stamp: Vec<u32>,
    hits: Hits,
}

#[derive(Default)]
struct Scratch {
    groups: Vec<SetId>,
    fresh: Vec<Entry>,
    state_stamp: Vec<u32>,
    state_epoch: u32,
    set_stamp: Vec<u32>,
    sub_stamp: Vec<u32>,
    sub_epoch: u32,
    subs: Vec<u32>,
    way: Way,
}

/// The way from the root element to a node. Asked for one node after another it does only what differs, so that a
/// message a hundred thousand levels deep does not cost the square of that.
#[derive(Default)]
struct Way {
    nodes: Vec<NodeId>,
    tags: Vec<Sym>,
}

impl Way {
    /// Symbols from the root element to the node.
    fn to(&mut self, cold: &[Cold], mut n: NodeId) -> &[Sym] {
        let depth = cold[n as usize].depth as usize;
        self.nodes.resize(depth, NONE);
        self.tags.resize(depth, 0);
        for d in (0..depth).rev() {
            if self.nodes[d] == n {
                break;
            }
            let c = &cold[n as usize];
            (self.nodes[d], self.tags[d]) = (n, c.sym);
            n = c.parent;
        }
        &self.tags
    }
}

impl Trie {
    /// An empty cache of at most about `cap` bytes.
    pub fn new(index: &PathIndex, cap: usize) -> Trie {
        let segment = index.segment().clone();
        let (sets, root, origin) = Sets::new(&segment);
        let mut subs: Vec<u32> = vec![];
        let mut seen = vec![false; index.sub_bound()];
        for path in index.live() {
            index.subs(path, |s| {
                if !std::mem::replace(&mut seen[s as usize], true) {
                    subs.push(s);
                }
            });
        }
        let mut refs = vec![root];
        let mut inherited = 0;
        if let Some(o) = origin {
            refs.push(o);
            inherited = sets.mask(o);
        }
        let end = refs.len() as u32;
        let document = Cold {
            parent: NONE,
            sym: NONE,
            depth: 0,
            skip: if origin.is_some() { 0 } else { NONE },
            g0: 0,
            o0: 1,
            a0: end,
            a1: end,
            inherited,
            epoch: index.segment_epoch(),
        };
        let dead = Cold { a1: end, g0: end, o0: end, ..document };
        let mask = sets.mask(root) | inherited;
        let document_flags = if mask & LEAVES != 0 { flag::LEAVES } else { 0 };
        let mut t = Trie {
            cap,
            tab: Tab::with_capacity(512),
            hot: vec![Hot { flags: document_flags, ..Hot::default() }, Hot::default()],
            cold: vec![document, dead],
            refs,
            sets,
            segment,
            intervals: vec![],
            extra: HashMap::new(),
            extra_bytes: 0,
            delta_work: 0,
            by_sym: HashMap::new(),
            aliases: vec![],
            laminar: Laminar::new(subs.into_iter(), index.sub_bound()),
            common: 0,
            generation: index.generation(),
            version: index.version(),
            epoch: index.segment_epoch(),
            filter: vec![0; FILTER],
            refused: 0,
            run: Run::default(),
            scratch: Scratch::default(),
        };
        // Paths that came after the segment was built are not in its sets.
        for path in index.delta() {
            t.admit_test(index, path);
        }
        t
    }

    /// Brings the cache up to the index. Between messages only.
    pub fn sync(&mut self, index: &PathIndex) {
        let full = self.bytes() > self.cap && self.refused > REFUSALS;
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
        for n in 2..self.cold.len() as NodeId {
            if self.hot[n as usize].flags & flag::COMPILED == 0 {
                self.compile(index, n);
            }
        }
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
        self.scratch.set_stamp.clear();
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
        let mut own = vec![];
        self.laminar.refine(&[sub], &mut own);
        let steps = index.steps(path);
        let test = steps[steps.len() - 1].test();
        let mut way = std::mem::take(&mut self.scratch.way);
        let named = self.by_sym.get(&test).map_or(&[][..], |v| v);
        let plain = is_value(test) || index.names.describe(test).is_some_and(|(_, local)| local.is_some());
        let all = if plain { 0..0 } else { 2..self.cold.len() as NodeId };
        for n in named.iter().copied().filter(|_| plain).chain(all) {
            if !index.names.satisfies(self.cold[n as usize].sym, test) {
                continue;
            }
            if align::accepts(&index.names, steps, way.to(&self.cold, n)) {
                self.extra.entry(n).or_default().extend(&own);
                self.extra_bytes += EXTRA_BYTES;
                self.hot[n as usize].flags |= flag::ACCEPTS | flag::EXTRA;
            }
        }
        self.scratch.way = way;
    }

    fn admit_test(&mut self, index: &PathIndex, path: PathId) {
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

    fn drop_aliases(&mut self) {
        for (n, sym) in self.aliases.drain(..) {
            self.tab.set(n, sym, NONE);
        }
    }

    // ---- one message -------------------------------------------------------------------------------------------

    pub fn begin(&mut self) {
        let run = &mut self.run;
        if run.message == u32::MAX {
            run.message = 0;
            self.hot.iter_mut().for_each(|h| h.stamp = 0);
            run.path_stamp.fill(0);
            self.scratch.set_stamp.fill(0);
        }
        run.message += 1;
        run.cur = 0;
        run.stack.clear();
        run.visited.clear();
        run.late.clear();
        run.bypass.clear();
    }

    /// True if nothing below the current node can match, so that names need not even be looked up.
    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.run.cur == DEAD
    }

    #[inline(always)]
    pub fn open(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        self.run.stack.push(cur);
        let next = self.tab.get(cur, sym);
        self.run.cur = if next != NONE { next } else { self.miss(index, cur, sym) };
        self.visit(self.run.cur);
    }

    /// An element below a dead node.
    #[inline(always)]
    pub fn open_dead(&mut self) {
        self.run.stack.push(DEAD);
    }

    #[inline(always)]
    pub fn close(&mut self) {
        if self.run.cur == BYPASS {
            self.run.bypass.close();
        }
        self.run.cur = self.run.stack.pop().unwrap_or(0);
    }

    /// Do attributes of the current element matter?
    #[inline(always)]
    pub fn wants_attributes(&self) -> bool {
        self.wants(flag::ATTRIBUTES)
    }

    /// Do text, comments and PIs in the current element matter?
    #[inline(always)]
    pub fn wants_leaves(&self) -> bool {
        self.wants(flag::LEAVES)
    }

    /// Does the value of the current node matter?
    #[inline(always)]
    pub fn wants_values(&self) -> bool {
        self.wants(flag::VALUES)
    }

    #[inline(always)]
    fn wants(&self, flag: u16) -> bool {
        match self.hot.get(self.run.cur as usize) {
            Some(h) => (h.flags | self.common) & flag != 0,
            None => true,
        }
    }

    /// An attribute or leaf of the current node.
    #[inline(always)]
    pub fn leaf(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        let next = self.tab.get(cur, sym);
        if next != NONE {
            self.visit(next);
        } else {
            let n = self.miss(index, cur, sym);
            if n == BYPASS {
                self.run.bypass.close();
            } else {
                self.visit(n);
            }
        }
    }

    #[inline(always)]
    fn visit(&mut self, n: NodeId) {
        if let Some(h) = self.hot.get_mut(n as usize) {
            if h.stamp != self.run.message {
                h.stamp = self.run.message;
                if h.flags & flag::ACCEPTS != 0 {
                    self.run.visited.push(n);
                }
            }
        }
    }

    /// Appends the subscriptions that the message satisfies, in no particular order. Ends the message.
    pub fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        // Compiling moves positions, so all of it comes before the first bit is set.
        let visited = std::mem::take(&mut self.run.visited);
        for &n in &visited {
            let h = &mut self.hot[n as usize];
            h.visits = h.visits.saturating_add(1);
            if h.visits >= COMPILE_AFTER && h.flags & flag::COMPILED == 0 {
                self.compile(index, n);
            }
        }
        let message = self.run.message;
        let hits = &mut self.run.hits;
        hits.fit(&self.laminar);
        self.scratch.set_stamp.resize(self.sets.len(), 0);
        for &n in &visited {
            let h = self.hot[n as usize];
            if h.flags & flag::COMPILED != 0 {
                for &i in &self.intervals[h.i0 as usize..h.i1 as usize] {
                    hits.set(i);
                }
            } else {
                let c = &self.cold[n as usize];
                for &s in &self.refs[c.a0 as usize..c.a1 as usize] {
                    if std::mem::replace(&mut self.scratch.set_stamp[s as usize], message) != message {
                        for &p in self.sets.accepts(s) {
                            index.subs(p, |sub| hits.set_one(self.laminar.position(sub)));
                        }
                    }
                }
            }
            if h.flags & flag::EXTRA != 0 {
                for &i in &self.extra[&n] {
                    hits.set(i);
                }
            }
        }
        for &p in &self.run.late {
            index.subs(p, |sub| hits.set_one(self.laminar.position(sub)));
        }
        hits.drain(&self.laminar, out);
        self.run.visited = visited;
    }

    // ---- making nodes ------------------------------------------------------------------------------------------

    #[inline(never)]
    fn miss(&mut self, index: &PathIndex, cur: NodeId, sym: Sym) -> NodeId {
        if cur == DEAD {
            return DEAD;
        }
        if cur != BYPASS {
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

    /// While the cache is less than half full everything enters; then only what comes twice; at the bound nothing.
    fn admits(&mut self, cur: NodeId, sym: Sym) -> bool {
        let bytes = self.bytes();
        if bytes < self.cap / 2 {
            return true;
        }
        if bytes > self.cap {
            return false;
        }
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
        if node.a1 > node.a0 {
            flags |= flag::ACCEPTS;
        }
        self.cold.push(node);
        self.by_sym.entry(sym).or_default().push(id);
        if !index.delta_is_empty() {
            flags |= self.meet_delta(index, id);
        }
        self.hot.push(Hot { flags, ..Hot::default() });
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

    /// The paths outside the segment that the new node satisfies.
    fn meet_delta(&mut self, index: &PathIndex, id: NodeId) -> u16 {
        let tags = self.scratch.way.to(&self.cold, id);
        let mut subs = vec![];
        self.delta_work += tags.len();
        index.delta_for(self.cold[id as usize].sym, |p| {
            self.delta_work += tags.len();
            if align::accepts(&index.names, index.steps(p), tags) {
                index.subs(p, |s| subs.push(s));
            }
        });
        if subs.is_empty() {
            return 0;
        }
        subs.sort_unstable();
        subs.dedup();
        let mut intervals = vec![];
        self.laminar.refine(&subs, &mut intervals);
        self.extra_bytes += EXTRA_BYTES * intervals.len();
        self.extra.insert(id, intervals);
        flag::ACCEPTS | flag::EXTRA
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

    /// From shared lists to intervals.
    fn compile(&mut self, index: &PathIndex, n: NodeId) {
        let c = self.cold[n as usize];
        let s = &mut self.scratch;
        s.sub_stamp.resize(index.sub_bound(), 0);
        if s.sub_epoch == u32::MAX {
            s.sub_stamp.fill(0);
            s.sub_epoch = 0;
        }
        s.sub_epoch += 1;
        s.subs.clear();
        for &g in &self.refs[c.a0 as usize..c.a1 as usize] {
            for &p in self.sets.accepts(g) {
                index.subs(p, |sub| {
                    if std::mem::replace(&mut s.sub_stamp[sub as usize], s.sub_epoch) != s.sub_epoch {
                        s.subs.push(sub);
                    }
                });
            }
        }
        let i0 = self.intervals.len() as u32;
        self.laminar.refine(&s.subs, &mut self.intervals);
        let h = &mut self.hot[n as usize];
        (h.i0, h.i1) = (i0, self.intervals.len() as u32);
        h.flags |= flag::COMPILED;
    }

    /// Paths outside the segment have cost more here than moving them into it would: that takes a pass over all
    /// paths, and every node is compiled.
    pub fn is_overworked(&self, index: &PathIndex) -> bool {
        self.delta_work > 256 * (index.len() + 16 * self.len()) && !index.delta_is_empty()
    }

    /// Number of tag paths known.
    pub fn len(&self) -> usize {
        self.cold.len() - 2
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the cache holds that messages can make grow.
    pub fn bytes(&self) -> usize {
        self.cold.len() * (std::mem::size_of::<Cold>() + std::mem::size_of::<Hot>() + 4)
            + self.refs.len() * 4
            + self.intervals.len() * 8
            + self.aliases.len() * 8
            + self.extra_bytes
            + self.tab.bytes()
            + self.sets.bytes()
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
