//! Factored state sets for the cold path (KERNEL.md §2.5). The states active at a tag path are the union of a few
//! shared sets: *origins*, one per distinct set of `//`-states that some tag path activates first, and *groups*, what
//! an origin or a group leads to on a symbol. Both are hash-consed or cached, so tag paths with the same suffix below
//! the same origin share them, and a new tag path touches a handful of sets instead of thousands of states.

use super::segment::{Entry, Input, Mask, Segment};
use super::tab::Tab;
use super::{PathId, NONE};
use crate::names::{is_attribute, Sym, OTHER, OTHER_ATTRIBUTE};
use hashbrown::HashMap;

/// Number of a set.
pub type SetId = u32;
/// The set of no states.
pub const EMPTY: SetId = 0;

#[derive(Clone, Copy, Default)]
struct Set {
    /// Range of `entries`: the active states.
    e0: u32,
    e1: u32,
    /// Range of `accepts`: the paths that end on the symbol that led here.
    a0: u32,
    a1: u32,
    /// Range of `entries`: the `//`-children activated here.
    d0: u32,
    d1: u32,
    mask: Mask,
}

#[derive(Default)]
pub struct Sets {
    sets: Vec<Set>,
    entries: Vec<Entry>,
    accepts: Vec<PathId>,
    moves: Tab,
    origins: HashMap<Box<[u32]>, SetId>,
    origin_bytes: usize,
    descendants: Vec<Entry>,
}

impl Sets {
    /// The sets of the document node: its group and, if there is one, its origin.
    pub fn new(segment: &Segment) -> (Sets, SetId, Option<SetId>) {
        let mut s = Sets { sets: vec![Set::default()], ..Sets::default() };
        let root = s.push_entries(&[segment.root]);
        let origin = (segment.root_descendant.off != NONE).then(|| s.origin(&[segment.root_descendant]));
        (s, root, origin)
    }

    fn push_entries(&mut self, entries: &[Entry]) -> SetId {
        let e0 = self.entries.len() as u32;
        self.entries.extend(entries.iter().filter(|e| e.off != NONE));
        let mask = entries.iter().fold(0, |m, e| m | e.mask);
        self.sets.push(Set { e0, e1: self.entries.len() as u32, mask, ..Set::default() });
        self.sets.len() as u32 - 1
    }

    /// The origin with these `//`-states, which are sorted by offset.
    pub fn origin(&mut self, states: &[Entry]) -> SetId {
        let key: Box<[u32]> = states.iter().map(|e| e.off).collect();
        if let Some(&o) = self.origins.get(&key) {
            return o;
        }
        let o = self.push_entries(states);
        self.origin_bytes += key.len() * 4 + 40;
        self.origins.insert(key, o);
        o
    }

    pub fn mask(&self, s: SetId) -> Mask {
        self.sets[s as usize].mask
    }

    pub fn states(&self, s: SetId) -> &[Entry] {
        let x = &self.sets[s as usize];
        &self.entries[x.e0 as usize..x.e1 as usize]
    }

    pub fn accepts(&self, s: SetId) -> &[PathId] {
        let x = &self.sets[s as usize];
        &self.accepts[x.a0 as usize..x.a1 as usize]
    }

    pub fn activated(&self, s: SetId) -> &[Entry] {
        let x = &self.sets[s as usize];
        &self.entries[x.d0 as usize..x.d1 as usize]
    }

    /// The group that a set leads to on a symbol.
    #[inline]
    pub fn step(&mut self, segment: &Segment, s: SetId, input: &Input) -> SetId {
        let mask = self.sets[s as usize].mask;
        if mask & input.want == 0 {
            return EMPTY;
        }
        // a name this set has no transition on goes where any unknown name goes
        let other = other(input.sym);
        let sym = if mask & input.named == 0 { other } else { input.sym };
        let known = self.moves.get(s, sym);
        if known != NONE {
            return known;
        }
        if sym == other && sym != input.sym {
            let input = Input { sym: other, also: [NONE; 2], named: 0, ..*input };
            self.make(segment, s, &input)
        } else {
            self.make(segment, s, input)
        }
    }

    #[inline(never)]
    fn make(&mut self, segment: &Segment, s: SetId, input: &Input) -> SetId {
        let from = self.sets[s as usize];
        let (e0, a0) = (self.entries.len(), self.accepts.len());
        self.descendants.clear();
        let mut named = false;
        for i in from.e0..from.e1 {
            let e = self.entries[i as usize];
            let (entries, accepts, descendants) = (&mut self.entries, &mut self.accepts, &mut self.descendants);
            segment.follow(e, input, |t| {
                named |= t.named;
                if t.accept != NONE {
                    accepts.push(t.accept);
                }
                if t.next.off != NONE {
                    entries.push(t.next);
                }
                if t.descendant.off != NONE {
                    descendants.push(t.descendant);
                }
            });
        }
        let other = other(input.sym);
        let group = if !named && input.sym != other {
            // only wildcards moved: the same group as for an unknown name
            self.entries.truncate(e0);
            self.accepts.truncate(a0);
            let input = Input { sym: other, also: [NONE; 2], named: 0, ..*input };
            match self.moves.get(s, other) {
                NONE => self.make(segment, s, &input),
                known => known,
            }
        } else if self.accepts.len() == a0 && self.entries.len() == e0 && self.descendants.is_empty() {
            EMPTY
        } else {
            let e1 = self.entries.len();
            let mask = self.entries[e0..e1].iter().fold(0, |m, e| m | e.mask);
            self.entries.extend_from_slice(&self.descendants);
            self.sets.push(Set {
                e0: e0 as u32,
                e1: e1 as u32,
                a0: a0 as u32,
                a1: self.accepts.len() as u32,
                d0: e1 as u32,
                d1: self.entries.len() as u32,
                mask,
            });
            self.sets.len() as u32 - 1
        };
        self.moves.set(s, input.sym, group);
        group
    }

    pub fn bytes(&self) -> usize {
        self.sets.len() * std::mem::size_of::<Set>()
            + self.entries.len() * 8
            + self.accepts.len() * 4
            + self.moves.bytes()
            + self.origin_bytes
    }
}

/// The symbol that stands for unknown names of the same kind; leaves have none and stand for themselves.
fn other(sym: Sym) -> Sym {
    if is_attribute(sym) {
        OTHER_ATTRIBUTE
    } else if crate::names::is_element(sym) {
        OTHER
    } else {
        sym
    }
}
