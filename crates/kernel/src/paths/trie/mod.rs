//! The tag-path trie: structure is matched once per distinct tag path (DESIGN.md, idea 3). In steady state an
//! element costs one look-up, (trie node, symbol) -> trie node; a node knows the subscriptions it satisfies as
//! intervals of positions. A tag path seen for the first time is worked out from factored state sets (`sets`), or,
//! past the cache's bound, by direct simulation (`bypass`). It is the lazy determinisation of YFilter's automaton.
//! A value that few subscriptions compare with is looked up and gets a node only when it comes again (`make`): values do
//! not repeat as tag paths do.
//!
//! The trie is a cache owned by its caller: it follows a [`PathIndex`] and can always be thrown away.

mod make;
mod message;
mod sync;

use super::bypass::Bypass;
use super::hits::Hits;
use super::index::PathIndex;
use super::laminar::{Interval, Laminar};
use super::runs::Runs;
use super::segment::{Entry, Mask, Segment, LEAVES};
use super::sets::{SetId, Sets};
use super::tab::Tab;
use super::{PathId, NONE};
use crate::names::Sym;
use hashbrown::HashMap;
use std::sync::Arc;

/// Number of a trie node. 0 is the document node.
type NodeId = u32;
/// Below here nothing can match. Not a tag path of its own.
const DEAD: NodeId = 1;
/// The current node is not in the trie: `bypass` knows where we are.
const BYPASS: NodeId = u32::MAX - 1;
const FILTER: usize = 1 << 15;

mod flag {
    /// Some path may go on to attributes.
    pub const ATTRIBUTES: u16 = 1;
    /// Some path may go on to text, comments or PIs.
    pub const LEAVES: u16 = 2;
    /// The node satisfies some path.
    pub const ACCEPTS: u16 = 4;
    /// The node has positions added since it was made.
    pub const EXTRA: u16 = 8;
    /// Some path may go on to the node's value.
    pub const VALUES: u16 = 16;
}

/// What every visit reads.
#[derive(Clone, Copy, Default)]
struct Hot {
    /// The message that last visited the node.
    stamp: u32,
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

    /// Tag paths that were refused, or values that were only looked up, once; a second visit is admitted.
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
    /// Nodes whose value is this symbol, not looked up yet: these look-ups miss the caches, and many at a time cost
    /// little more than one.
    values: Vec<(NodeId, Sym)>,
    noted: Vec<Interval>,
    bypass: Bypass,
    /// Paths found without a node: by the bypass, or of a value. One may be there more than once.
    late: Vec<PathId>,
    path_stamp: Vec<u32>,
    /// What `Laminar::refine` is given.
    hits: Hits,
    runs: Runs,
}

#[derive(Default)]
struct Scratch {
    groups: Vec<SetId>,
    fresh: Vec<Entry>,
    state_stamp: Vec<u32>,
    state_epoch: u32,
    way: Way,
    tags: Vec<Sym>,
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
        let (quiet, loud): (Vec<u32>, Vec<u32>) = subs.into_iter().partition(|&s| index.is_quiet(s));
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
            laminar: Laminar::new(&loud, &quiet, index.sub_bound()),
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

    /// Number of tag paths known.
    pub(crate) fn len(&self) -> usize {
        self.cold.len() - 2
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
