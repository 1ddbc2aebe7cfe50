//! Which elements are kept, by their tag paths: an automaton that is made as the document needs it.

use crate::names::{Names, Sym};
use std::collections::HashMap;

/// A path to elements that chunk number `chunk` keeps, with all that is in them if `subtree`.
#[derive(Clone)]
pub struct Keep {
    pub chunk: usize,
    pub subtree: bool,
    /// Test and whether it is for any descendant, not for children only.
    pub steps: Vec<(Sym, bool)>,
}

/// Number of a keep, and how many of its steps are behind.
type Item = (u32, u32);
/// Number of a chunk, and whether it keeps all that is in the element.
type Kept = (usize, bool);

pub type StateId = u32;

#[derive(Default)]
pub struct State {
    items: Vec<Item>,
    /// The chunks that keep the element, in ascending order, and whether they keep all that is in it.
    pub kept: Vec<Kept>,
    /// The chunks that may keep something below, in ascending order.
    pub live: Vec<usize>,
    next: HashMap<Sym, StateId>,
}

pub struct Automaton {
    keeps: Vec<Keep>,
    states: Vec<State>,
    known: HashMap<(Vec<Item>, Vec<Kept>), StateId>,
}

/// Hostile nesting may need very many states: then all but those in use are forgotten.
const MOST: usize = 1 << 14;

impl Automaton {
    pub const ROOT: StateId = 0;

    pub fn new(keeps: Vec<Keep>) -> Automaton {
        let mut automaton = Automaton { keeps, states: vec![], known: HashMap::new() };
        automaton.clear();
        automaton
    }

    fn clear(&mut self) {
        self.states.clear();
        self.known.clear();
        let items = (0..self.keeps.len() as u32).map(|keep| (keep, 0)).collect();
        self.add(items, vec![]);
    }

    pub fn state(&self, id: StateId) -> &State {
        &self.states[id as usize]
    }

    fn add(&mut self, items: Vec<Item>, kept: Vec<Kept>) -> StateId {
        if let Some(&id) = self.known.get(&(items.clone(), kept.clone())) {
            return id;
        }
        let mut live: Vec<usize> = items.iter().map(|item| self.keeps[item.0 as usize].chunk).collect();
        live.sort_unstable();
        live.dedup();
        let id = self.states.len() as StateId;
        self.known.insert((items.clone(), kept.clone()), id);
        self.states.push(State { items, kept, live, next: HashMap::new() });
        id
    }

    /// The state of an element below one in the state `from`.
    #[inline]
    pub fn step(&mut self, names: &Names, from: StateId, sym: Sym) -> StateId {
        match self.states[from as usize].next.get(&sym) {
            Some(&to) => to,
            None => self.make(names, from, sym),
        }
    }

    fn make(&mut self, names: &Names, from: StateId, sym: Sym) -> StateId {
        let mut items = vec![];
        let mut kept = vec![];
        for &(keep, behind) in &self.states[from as usize].items {
            let Keep { chunk, subtree, steps } = &self.keeps[keep as usize];
            let (test, any_depth) = steps[behind as usize];
            if any_depth {
                items.push((keep, behind));
            }
            if names.satisfies(sym, test) {
                if behind as usize + 1 == steps.len() {
                    kept.push((*chunk, *subtree));
                } else {
                    items.push((keep, behind + 1));
                }
            }
        }
        items.sort_unstable();
        items.dedup();
        // Of one chunk only the keep that takes more counts.
        kept.sort_unstable_by_key(|&(chunk, subtree)| (chunk, !subtree));
        kept.dedup_by_key(|entry| entry.0);
        let to = self.add(items, kept);
        self.states[from as usize].next.insert(sym, to);
        to
    }

    /// Forgets states, if there are too many, and numbers those in `used` anew.
    pub fn trim<'a>(&mut self, used: impl Iterator<Item = &'a mut StateId>) {
        if self.states.len() <= MOST {
            return;
        }
        let old = std::mem::take(&mut self.states);
        self.clear();
        for id in used {
            let State { items, kept, .. } = &old[*id as usize];
            *id = self.add(items.clone(), kept.clone());
        }
    }
}
