//! Finds places where a document may be cut: after units, and before elements that are neither units nor inside one.

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
}

/// A place where the document may be cut.
#[derive(Clone, Default)]
pub struct Cut {
    /// Offset in the document, once it is known (`placed`); before, in the buffer at hand.
    at: u64,
    placed: bool,
    pub chain: Chain,
    /// The end tag of the unit that ends there.
    pub unit: Option<Vec<u8>>,
}

/// Follows a document and remembers the last places where it may be cut.
pub struct Cutter {
    names: Names,
    units: Automaton,
    states: Vec<StateId>,
    tags: Tags,
    /// Open elements of the unit at hand, and its name.
    inside: u32,
    unit: Vec<u8>,
    at_unit: Option<Cut>,
    elsewhere: Option<Cut>,
}

impl Cutter {
    pub fn new(names: Names, units: Automaton) -> Cutter {
        let (states, tags, unit) = (vec![], Tags::default(), vec![]);
        Cutter { names, units, states, tags, inside: 0, unit, at_unit: None, elsewhere: None }
    }

    /// Gives up what it knows of a document, for another one.
    pub fn into_parts(self) -> (Names, Automaton) {
        (self.names, self.units)
    }

    /// The last place found, if it is after `from`: one after a unit if there is any.
    pub fn take(&mut self, from: u64) -> Option<(u64, Cut)> {
        let (unit, other) = (self.at_unit.take(), self.elsewhere.take());
        let good = |cut: &Cut| cut.placed && cut.at > from;
        unit.filter(good).or(other.filter(good)).map(|cut| (cut.at, cut))
    }

    fn cut(&mut self, at: u32, unit: bool) {
        let slot = if unit { &mut self.at_unit } else { &mut self.elsewhere };
        let cut = slot.get_or_insert_default();
        (cut.at, cut.placed) = (u64::from(at), false);
        cut.chain.tags.clear();
        cut.chain.tags.extend_from_slice(&self.tags.bytes);
        cut.chain.ends.clear();
        for depth in (0..self.tags.open.len()).rev() {
            end_tag(self.tags.name(depth), &mut cut.chain.ends);
        }
        if unit {
            let end = cut.unit.get_or_insert_default();
            end.clear();
            end_tag(&self.unit, end);
        }
    }
}

fn end_tag(name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"</");
    out.extend_from_slice(name);
    out.push(b'>');
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
        if is_unit {
            self.inside = 1;
            self.unit.clear();
            self.unit.extend_from_slice(tag.name());
            return;
        }
        if !self.states.is_empty() {
            self.cut(tag.start, false);
        }
        self.states.push(state);
        self.tags.push(&tag.src[tag.start as usize..tag.end as usize], tag.name().len(), 0, 0, 0);
    }

    #[inline]
    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        if self.inside > 0 {
            self.inside -= 1;
            if self.inside == 0 && !self.states.is_empty() {
                self.cut(past, true);
            }
            return;
        }
        self.states.pop();
        self.tags.pop();
    }

    fn turn(&mut self, _src: &[u8], _read: u32, _next: u32, offset: &mut dyn FnMut(u32) -> u64) {
        for cut in [&mut self.at_unit, &mut self.elsewhere].into_iter().flatten() {
            if !cut.placed {
                (cut.at, cut.placed) = (offset(cut.at as u32), true);
            }
        }
        self.units.trim(self.states.iter_mut());
    }
}
