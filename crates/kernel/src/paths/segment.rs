//! An immutable set of paths as an automaton for the cold path: the states' transitions as records in one array, in
//! breadth-first order, each record carrying all that is known of its target, so that following a transition is one
//! mostly ascending memory access (KERNEL.md §2.5).

use super::{PathId, Step, NONE};
use crate::names::{is_attribute, is_value, Names, Sym, ANY, COMMENT, INSTRUCTION, OTHER, OTHER_ATTRIBUTE, TEXT};

/// What a state can follow: a hash of the element names, and one bit each for `*`, attributes, leaves and values.
pub type Mask = u32;
pub const STAR: Mask = 1 << 31;
pub const ATTRIBUTES: Mask = 1 << 30;
pub const LEAVES: Mask = 1 << 29;
pub const VALUES: Mask = 1 << 28;
const NAME_BITS: u32 = 28;

/// The mask bit of a test.
#[inline(always)]
pub fn bit(test: Sym) -> Mask {
    if test == ANY {
        STAR
    } else if is_attribute(test) {
        ATTRIBUTES
    } else if is_value(test) {
        VALUES
    } else if matches!(test, TEXT | COMMENT | INSTRUCTION) {
        LEAVES
    } else {
        1 << (test % NAME_BITS)
    }
}

/// A symbol of a message with the tests it satisfies.
#[derive(Clone, Copy)]
pub struct Input {
    pub sym: Sym,
    pub any: Sym,
    /// The wildcards of names that it satisfies, `NONE` for none.
    pub also: [Sym; 2],
    /// Mask bits of names: `sym` and `also`.
    pub named: Mask,
    /// Mask bits of everything the symbol can follow.
    pub want: Mask,
}

impl Input {
    #[inline]
    pub fn new(names: &Names, sym: Sym) -> Input {
        let also = names.also(sym);
        let any = Names::any_of(sym);
        let mut named = if matches!(sym, OTHER | OTHER_ATTRIBUTE) { 0 } else { bit(sym) };
        for wildcard in also.into_iter().filter(|&wildcard| wildcard != NONE) {
            named |= bit(wildcard);
        }
        let want = named | if any == NONE { 0 } else { bit(any) };
        Input { sym, any, also, named, want }
    }

    #[inline(always)]
    fn takes(&self, test: Sym) -> bool {
        test == self.sym || test == self.any || self.also.contains(&test)
    }
}

/// An active state, named by where its records start. A state without records is never active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub off: u32,
    pub mask: Mask,
}

#[derive(Clone, Copy)]
struct Record {
    /// The test, and `LAST` on the last record of a state.
    test: u32,
    accept: PathId,
    next: Entry,
    /// The target's `//`-child (offset `NONE` if it has none).
    descendant: Entry,
}

const LAST: u32 = 1 << 31;
/// Records of a state that are looked at one by one; among more of them (values, mostly) what is wanted is searched.
const NEAR: usize = 16;

pub struct Segment {
    records: Vec<Record>,
    /// Where the states with more than `NEAR` records start and end, ascending.
    wide: Vec<(u32, u32)>,
    pub root: Entry,
    pub root_descendant: Entry,
}

/// What one transition leads to.
pub struct Target {
    pub accept: PathId,
    pub next: Entry,
    pub descendant: Entry,
    /// The test was a name, not a wildcard of the symbol's kind.
    pub named: bool,
}

/// A state while building: the sorted paths `lo..hi` share their first `depth` steps.
struct Node {
    lo: u32,
    hi: u32,
    depth: u32,
    /// The step that led here.
    test: Sym,
    accept: PathId,
    /// Children in breadth-first numbering: first those by `/`, then those by `//`.
    first: u32,
    children: u32,
    descendants: u32,
    entry: Entry,
    descendant: Entry,
}

impl Segment {
    /// From distinct, non-empty paths.
    pub fn build(mut paths: Vec<(&[Step], PathId)>) -> Segment {
        paths.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let root = Self::node(0, paths.len() as u32, 0, 0);
        let mut nodes = vec![root];
        let mut i = 0;
        let mut off = 0u32;
        while i < nodes.len() {
            let (mut lo, hi, depth) = (nodes[i].lo, nodes[i].hi, nodes[i].depth as usize);
            if depth > 0 && paths[lo as usize].0.len() == depth {
                nodes[i].accept = paths[lo as usize].1;
                lo += 1;
            }
            nodes[i].first = nodes.len() as u32;
            let (mut mask, mut descendant_mask) = (0, 0);
            while lo < hi {
                let step = paths[lo as usize].0[depth];
                let mut end = lo + 1;
                while end < hi && paths[end as usize].0[depth] == step {
                    end += 1;
                }
                if step.descendant() {
                    nodes[i].descendants += 1;
                    descendant_mask |= bit(step.test());
                } else {
                    nodes[i].children += 1;
                    mask |= bit(step.test());
                }
                nodes.push(Self::node(lo, end, depth as u32 + 1, step.test()));
                lo = end;
            }
            let n = &mut nodes[i];
            n.entry = Entry { off: if n.children > 0 { off } else { NONE }, mask };
            off += n.children;
            n.descendant = Entry { off: if n.descendants > 0 { off } else { NONE }, mask: descendant_mask };
            off += n.descendants;
            i += 1;
        }
        let mut records = Vec::with_capacity(off as usize);
        let mut wide = vec![];
        for n in &nodes {
            for (first, count) in [(n.first, n.children), (n.first + n.children, n.descendants)] {
                if count as usize > NEAR {
                    wide.push((records.len() as u32, records.len() as u32 + count));
                }
                for k in 0..count {
                    let c = &nodes[(first + k) as usize];
                    let test = c.test | if k + 1 == count { LAST } else { 0 };
                    records.push(Record { test, accept: c.accept, next: c.entry, descendant: c.descendant });
                }
            }
        }
        Segment { records, wide, root: nodes[0].entry, root_descendant: nodes[0].descendant }
    }

    fn node(lo: u32, hi: u32, depth: u32, test: Sym) -> Node {
        let none = Entry { off: NONE, mask: 0 };
        Node { lo, hi, depth, test, accept: NONE, first: 0, children: 0, descendants: 0, entry: none, descendant: none }
    }

    /// Number of transitions.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.records.len() * std::mem::size_of::<Record>() + self.wide.len() * 8
    }

    /// Calls `f` for each transition of the active state that the input takes. Records of a state are sorted by
    /// test, and special tests sort before names.
    #[inline(always)]
    pub fn follow(&self, e: Entry, input: &Input, mut f: impl FnMut(Target)) {
        if e.mask & input.want == 0 {
            return;
        }
        let last_wanted = if e.mask & input.named == 0 {
            input.any
        } else {
            input.also.into_iter().filter(|&wildcard| wildcard != NONE).fold(input.sym, Sym::max)
        };
        let mut i = e.off as usize;
        loop {
            let r = &self.records[i];
            let test = r.test & !LAST;
            if input.takes(test) {
                f(Target { accept: r.accept, next: r.next, descendant: r.descendant, named: test != input.any });
            }
            if r.test & LAST != 0 || test >= last_wanted {
                return;
            }
            i += 1;
            if i - e.off as usize >= NEAR {
                match self.ahead(e.off, i, test, input) {
                    Some(next) => i = next,
                    None => return,
                }
            }
        }
    }

    /// Where a wide state, from record `i` on, may have the next test after `done` that the input takes.
    fn ahead(&self, off: u32, i: usize, done: Sym, input: &Input) -> Option<usize> {
        let wide = self.wide.binary_search_by_key(&off, |w| w.0).ok()?;
        let end = self.wide[wide].1 as usize;
        let [ns, named] = input.also;
        let next = [input.sym, input.any, ns, named].into_iter().filter(|&t| t != NONE && t > done).min()?;
        let found = i + self.records[i..end].partition_point(|r| r.test & !LAST < next);
        (found < end).then_some(found)
    }
}
