//! Finds places where a document may be cut: between elements that are not inside a unit.

use super::automaton::{Automaton, StateId};
use super::fragment::Tags;
use crate::names::Names;
use crate::xml::{NsId, Sink, Tag};

/// The elements that are open at some place.
#[derive(Clone, Default)]
pub struct Chain {
    /// Their start tags, one after the other.
    pub tags: Vec<u8>,
    /// Their end tags, the innermost first.
    pub ends: Vec<u8>,
    pub depth: usize,
}

/// A place where the document may be cut.
pub struct Cut {
    pub at: u64,
    pub chain: Chain,
    /// The end tag of the unit that ends there.
    pub unit: Option<Vec<u8>>,
    /// The units, by the number of their path, that are open there nevertheless.
    pub parted: Vec<usize>,
}

/// The last place of some kind. The elements that are open there are still open, so that nothing has to be copied.
#[derive(Clone, Copy)]
struct At {
    /// Offset in the document, once it is known (`placed`); before, in the buffer at hand.
    offset: u64,
    placed: bool,
    depth: usize,
}

/// Follows a document and remembers the last places where it may be cut.
pub struct Cutter {
    names: Names,
    units: Automaton,
    states: Vec<StateId>,
    tags: Tags,
    /// So many of the open elements, the outermost, may be cut through even if they are units.
    free: usize,
    /// Open elements of the unit at hand, and its name.
    inside: u32,
    unit: Vec<u8>,
    at_unit: Option<At>,
    elsewhere: Option<At>,
}

impl Cutter {
    /// No element is a unit to it.
    pub const ALL: usize = usize::MAX;

    pub fn new(names: Names, units: Automaton, free: usize) -> Cutter {
        let (states, tags, unit) = (vec![], Tags::default(), vec![]);
        Cutter { names, units, states, tags, free, inside: 0, unit, at_unit: None, elsewhere: None }
    }

    /// Gives up what it knows of a document, for another one.
    pub fn into_parts(self) -> (Names, Automaton) {
        (self.names, self.units)
    }

    /// The last place found, if it is after `from`: one after a unit if there is any.
    pub fn take(&mut self, from: u64) -> Option<Cut> {
        let (unit, other) = (self.at_unit.take(), self.elsewhere.take());
        let good = |at: &At| at.placed && at.offset > from;
        let unit = unit.filter(good);
        let at = unit.or(other.filter(good))?;
        Some(Cut { unit: unit.map(|_| end_of(&self.unit)), ..self.cut(at) })
    }

    /// The places before the units that are open, the outermost `beyond` elements left out. For one that follows
    /// `ALL`: all that is whole comes before the first of these that is in its way.
    pub fn before_open_units(&self, beyond: usize) -> impl Iterator<Item = Cut> + '_ {
        let open = self.tags.open.iter().enumerate().skip(beyond.max(1));
        let units = open.filter(|&(depth, one)| one.placed && !self.units.state(self.states[depth]).kept.is_empty());
        units.map(|(depth, one)| self.cut(At { offset: one.offset, placed: true, depth }))
    }

    fn cut(&self, at: At) -> Cut {
        let chain = Chain {
            tags: self.tags.open[..at.depth].last().map_or(vec![], |open| self.tags.bytes[..open.tag.1].to_vec()),
            ends: (0..at.depth).rev().flat_map(|depth| end_of(self.tags.name(depth))).collect(),
            depth: at.depth,
        };
        let parted = self.states[..at.depth].iter().flat_map(|&state| &self.units.state(state).kept);
        let parted = parted.map(|&(unit, _)| unit).collect();
        Cut { at: at.offset, chain, unit: None, parted }
    }

    /// How many elements are open up to the unit at hand, with it.
    pub fn depth_of_unit(&self) -> Option<usize> {
        (self.inside > 0).then_some(self.states.len() + 1)
    }

    #[inline]
    fn at(&self, offset: u32) -> Option<At> {
        let depth = self.states.len();
        (depth > 0).then_some(At { offset: u64::from(offset), placed: false, depth })
    }
}

fn end_of(name: &[u8]) -> Vec<u8> {
    [b"</", name, b">"].concat()
}

impl Sink for Cutter {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.names.namespace(uri)
    }

    #[inline]
    fn start(&mut self, tag: &Tag<'_>) {
        if self.inside > 0 {
            self.inside += 1;
            return;
        }
        let sym = self.names.symbol(false, tag.ns, tag.local());
        let from = self.states.last().copied().unwrap_or(Automaton::ROOT);
        let state = self.units.step(&self.names, from, sym);
        let is_unit = !self.units.state(state).kept.is_empty();
        if is_unit && self.states.len() >= self.free {
            self.inside = 1;
            self.unit.clear();
            self.unit.extend_from_slice(tag.name());
            return;
        }
        self.elsewhere = self.at(tag.start).or(self.elsewhere);
        self.states.push(state);
        self.tags.push(&tag.src[tag.start as usize..tag.end as usize], tag.name().len(), 0, 0, tag.start);
    }

    #[inline]
    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        if self.inside > 0 {
            self.inside -= 1;
            if self.inside == 0 {
                self.at_unit = self.at(past);
            }
            return;
        }
        self.states.pop();
        self.tags.pop();
        if self.free != Cutter::ALL {
            self.free = self.free.min(self.states.len());
        }
        self.elsewhere = self.at(past);
        if self.free == Cutter::ALL && self.states.is_empty() {
            self.elsewhere = Some(At { offset: u64::from(past), placed: false, depth: 0 });
            // it is all there
        }
        self.at_unit = self.at_unit.filter(|at| at.depth <= self.states.len());
    }

    fn turn(&mut self, _src: &[u8], _read: u32, _next: u32, offset: &mut dyn FnMut(u32) -> u64) {
        for at in [&mut self.at_unit, &mut self.elsewhere].into_iter().flatten() {
            if !at.placed {
                (at.offset, at.placed) = (offset(at.offset as u32), true);
            }
        }
        if self.free == Cutter::ALL {
            self.tags.place(offset);
        }
        self.units.trim(self.states.iter_mut());
    }
}
