//! Direct simulation of the automaton, for the subtrees below a tag path that the trie's bounded cache did not admit.
//! Slower than the trie, equally right, and its memory is bounded by the depth of the message.

use super::align;
use super::index::PathIndex;
use super::segment::{Entry, Input, Segment};
use super::{PathId, NONE};
use crate::names::Sym;

#[derive(Default)]
pub struct Bypass {
    /// States active at one level only, level after level.
    plain: Vec<Entry>,
    /// `//`-states: active from the level that added them down.
    loops: Vec<Entry>,
    /// Where each open level starts in `plain` and in `loops`.
    marks: Vec<(u32, u32)>,
    /// By offset: is the `//`-state in `loops`?
    looping: Vec<bool>,
    /// Symbols from the root to the current node.
    pub tags: Vec<Sym>,
}

impl Bypass {
    pub fn clear(&mut self) {
        self.truncate_loops(0);
        self.plain.clear();
        self.marks.clear();
        self.tags.clear();
    }

    /// Starts at a node whose tags are in `self.tags` and whose active states are given.
    pub fn enter(&mut self, segment: &Segment, plain: impl Iterator<Item = Entry>, loops: impl Iterator<Item = Entry>) {
        self.truncate_loops(0);
        self.plain.clear();
        self.marks.clear();
        self.looping.resize(segment.len(), false);
        self.plain.extend(plain);
        for e in loops {
            self.activate(e);
        }
        self.marks.push((0, 0));
    }

    fn activate(&mut self, e: Entry) {
        if !std::mem::replace(&mut self.looping[e.off as usize], true) {
            self.loops.push(e);
        }
    }

    fn truncate_loops(&mut self, to: usize) {
        for e in self.loops.drain(to..) {
            self.looping[e.off as usize] = false;
        }
    }

    /// A child of the current node; reports the paths that end at it. Answers the work done on paths outside the segment.
    pub fn open(&mut self, index: &PathIndex, segment: &Segment, sym: Sym, mut accept: impl FnMut(PathId)) -> usize {
        let input = Input::new(&index.names, sym);
        let from = self.marks[self.marks.len() - 1].0 as usize;
        let (to, loops) = (self.plain.len(), self.loops.len());
        for i in from..to + loops {
            let e = if i < to { self.plain[i] } else { self.loops[i - to] };
            let (plain, all, looping) = (&mut self.plain, &mut self.loops, &mut self.looping);
            segment.follow(e, &input, |t| {
                if t.accept != NONE {
                    accept(t.accept);
                }
                if t.next.off != NONE {
                    plain.push(t.next);
                }
                if t.descendant.off != NONE && !std::mem::replace(&mut looping[t.descendant.off as usize], true) {
                    all.push(t.descendant);
                }
            });
        }
        self.marks.push((to as u32, loops as u32));
        self.tags.push(sym);
        let tags = &self.tags;
        let mut work = 0;
        index.delta_for(sym, |p| {
            work += tags.len();
            if align::accepts(&index.names, index.steps(p), tags) {
                accept(p);
            }
        });
        work
    }

    /// Leaves the current node; true if that ends the bypass.
    pub fn close(&mut self) -> bool {
        if let Some((plain, loops)) = self.marks.pop() {
            self.plain.truncate(plain as usize);
            self.truncate_loops(loops as usize);
            self.tags.pop();
        }
        self.marks.len() <= 1
    }
}
