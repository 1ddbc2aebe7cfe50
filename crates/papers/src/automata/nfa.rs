//! YFilter's shared automaton (overview §2-3): all paths in one NFA that shares common prefixes, a small hash table
//! of transitions per state, a `//`-child state with an implicit self-loop per `//`, and a run-time stack of active
//! state sets. Paths come and go one at a time; states are ref-counted.

use hashbrown::HashMap;
use std::hash::BuildHasherDefault;
use twigcast_kernel::internals::{is_element, is_value, Names, PathId, Step, Sym, NONE};

type Fx = BuildHasherDefault<std::hash::DefaultHasher>;

/// The automaton and its way through one message.
#[derive(Default)]
pub struct Automaton {
    nfa: Nfa,
    run: Run,
}

impl Automaton {
    /// Whether it has no paths.
    pub fn is_empty(&self) -> bool {
        self.nfa.is_empty()
    }
}

impl super::Automaton for Automaton {
    fn insert(&mut self, path: &[Step], id: PathId) {
        self.nfa.insert(path, id);
    }

    fn remove(&mut self, path: &[Step], _id: PathId) {
        self.nfa.remove(path);
    }

    fn begin(&mut self) {
        self.run.reset(&self.nfa);
    }

    fn open(&mut self, names: &Names, sym: Sym, accept: impl FnMut(PathId)) {
        self.run.open(&self.nfa, names, sym, accept);
    }

    fn close(&mut self) {
        self.run.close();
    }

    fn wants_values(&self) -> bool {
        self.run.wants_values(&self.nfa)
    }
}

#[derive(Default)]
struct State {
    next: HashMap<Sym, u32, Fx>,
    /// The `//`-child, or `NONE`.
    descendant: u32,
    loops: bool,
    accept: PathId,
    /// Paths that pass through or end here.
    refs: u32,
}

impl State {
    fn new(loops: bool) -> State {
        State { descendant: NONE, loops, accept: NONE, ..State::default() }
    }
}

struct Nfa {
    states: Vec<State>,
    free: Vec<u32>,
}

impl Default for Nfa {
    fn default() -> Self {
        Nfa { states: vec![State::new(false)], free: vec![] }
    }
}

impl Nfa {
    fn open(&mut self, loops: bool) -> u32 {
        match self.free.pop() {
            Some(s) => {
                self.states[s as usize] = State::new(loops);
                s
            }
            None => {
                self.states.push(State::new(loops));
                self.states.len() as u32 - 1
            }
        }
    }

    fn insert(&mut self, path: &[Step], id: PathId) {
        let mut s = 0u32;
        for step in path {
            if step.descendant() {
                let mut d = self.states[s as usize].descendant;
                if d == NONE {
                    d = self.open(true);
                    self.states[s as usize].descendant = d;
                }
                s = d;
                self.states[s as usize].refs += 1;
            }
            s = match self.states[s as usize].next.get(&step.test()) {
                Some(&t) => t,
                None => {
                    let t = self.open(false);
                    self.states[s as usize].next.insert(step.test(), t);
                    t
                }
            };
            self.states[s as usize].refs += 1;
        }
        self.states[s as usize].accept = id;
    }

    /// Takes the path out again; states that only it used are freed.
    fn remove(&mut self, path: &[Step]) {
        let mut s = 0u32;
        for (i, step) in path.iter().enumerate() {
            if step.descendant() {
                let d = self.states[s as usize].descendant;
                self.states[d as usize].refs -= 1;
                if self.states[d as usize].refs == 0 {
                    self.states[s as usize].descendant = NONE;
                }
                s = self.follow(s, d);
            }
            let t = self.states[s as usize].next[&step.test()];
            self.states[t as usize].refs -= 1;
            if self.states[t as usize].refs == 0 {
                self.states[s as usize].next.remove(&step.test());
            }
            s = self.follow(s, t);
            if i + 1 == path.len() {
                self.states[s as usize].accept = NONE;
                if self.states[s as usize].refs == 0 {
                    self.free.push(s);
                }
            }
        }
    }

    /// Steps from `s` to `t` in `remove`: `s` is free once nothing refers to it (the root always stays).
    fn follow(&mut self, s: u32, t: u32) -> u32 {
        if s != 0 && self.states[s as usize].refs == 0 {
            self.free.push(s);
        }
        t
    }

    /// Whether only the root state is in use.
    fn is_empty(&self) -> bool {
        self.states.len() - self.free.len() == 1
    }
}

/// The run-time stack: one set of active states per open element.
#[derive(Default)]
struct Run {
    active: Vec<u32>,
    marks: Vec<u32>,
    stamp: Vec<u32>,
    epoch: u32,
}

impl Run {
    fn reset(&mut self, nfa: &Nfa) {
        self.active.clear();
        self.marks.clear();
        self.stamp.resize(nfa.states.len(), 0);
        self.active.push(0);
        if nfa.states[0].descendant != NONE {
            self.active.push(nfa.states[0].descendant);
        }
        self.marks.push(0);
    }

    /// A child of the current node: pushes its active set and reports the paths it ends.
    fn open(&mut self, nfa: &Nfa, names: &Names, sym: Sym, mut accept: impl FnMut(PathId)) {
        if self.epoch == u32::MAX {
            self.stamp.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
        let from = self.marks[self.marks.len() - 1] as usize;
        let to = self.active.len();
        let wildcards = names.wildcards(sym);
        for i in from..to {
            let s = self.active[i];
            let state = &nfa.states[s as usize];
            if state.loops && is_element(sym) {
                self.activate(s);
            }
            for test in std::iter::once(&sym).chain(&wildcards) {
                if let Some(&t) = state.next.get(test) {
                    let target = &nfa.states[t as usize];
                    self.active.push(t);
                    if target.accept != NONE {
                        accept(target.accept);
                    }
                    if target.descendant != NONE {
                        self.activate(target.descendant);
                    }
                }
            }
        }
        self.marks.push(to as u32);
    }

    /// Does some path go on to the value of the current node?
    fn wants_values(&self, nfa: &Nfa) -> bool {
        let from = self.marks.last().map_or(0, |&m| m as usize);
        self.active[from..].iter().any(|&s| nfa.states[s as usize].next.keys().any(|&t| is_value(t)))
    }

    /// Only `//`-child states can be reached twice.
    fn activate(&mut self, s: u32) {
        if self.stamp[s as usize] != self.epoch {
            self.stamp[s as usize] = self.epoch;
            self.active.push(s);
        }
    }

    fn close(&mut self) {
        if let Some(m) = self.marks.pop() {
            self.active.truncate(m as usize);
        }
    }
}
