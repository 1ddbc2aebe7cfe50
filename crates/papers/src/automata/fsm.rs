//! XFilter's machine per query (the baseline of the YFilter overview, §3.4): each path is a chain of path nodes; an
//! index from name to the path nodes waiting for it (the candidate lists) says which machines an element may
//! advance; an advanced machine waits for its next name as long as the element is open.

use hashbrown::HashMap;
use twigcast_kernel::internals::{is_value, Names, PathId, Step, Sym};

/// The machines and their way through one message.
#[derive(Default)]
pub struct Automaton {
    fsms: Fsms,
    run: Run,
}

impl super::Automaton for Automaton {
    fn insert(&mut self, path: &[Step], id: PathId) {
        self.fsms.insert(path, id);
    }

    fn remove(&mut self, _path: &[Step], id: PathId) {
        self.fsms.remove(id);
    }

    fn begin(&mut self) {
        self.run.reset();
    }

    fn open(&mut self, names: &Names, sym: Sym, accept: impl FnMut(PathId)) {
        self.run.open(&self.fsms, names, sym, accept);
    }

    fn close(&mut self) {
        self.run.close();
    }

    fn wants_values(&self) -> bool {
        self.run.wants_values()
    }
}

/// A path node that waits for a test.
#[derive(Clone, Copy)]
struct Waiting {
    path: PathId,
    /// Index of the step waited for.
    step: u32,
    /// Depth at which (or, for `//`, from which on) the step may match.
    level: u32,
    descendant: bool,
}

#[derive(Default)]
struct Fsms {
    paths: HashMap<PathId, Box<[Step]>>,
    /// Candidate lists as they are when no document is open: the first step of every path.
    initial: HashMap<Sym, Vec<Waiting>>,
}

impl Fsms {
    fn insert(&mut self, path: &[Step], id: PathId) {
        self.paths.insert(id, path.into());
        self.initial.entry(path[0].test()).or_default().push(Waiting {
            path: id,
            step: 0,
            level: 1,
            descendant: path[0].descendant(),
        });
    }

    fn remove(&mut self, id: PathId) {
        if let Some(path) = self.paths.remove(&id) {
            if let Some(list) = self.initial.get_mut(&path[0].test()) {
                list.retain(|w| w.path != id);
            }
        }
    }
}

#[derive(Default)]
struct Run {
    /// Path nodes promoted by open elements, per test.
    promoted: HashMap<Sym, Vec<Waiting>>,
    /// The tests promoted to, in order, so that closing an element can take them back.
    undo: Vec<Sym>,
    marks: Vec<u32>,
    depth: u32,
}

impl Run {
    fn reset(&mut self) {
        for list in self.promoted.values_mut() {
            list.clear();
        }
        self.undo.clear();
        self.marks.clear();
        self.depth = 0;
    }

    fn open(&mut self, fsms: &Fsms, names: &Names, sym: Sym, mut accept: impl FnMut(PathId)) {
        self.depth += 1;
        self.marks.push(self.undo.len() as u32);
        let depth = self.depth;
        for test in std::iter::once(sym).chain(names.wildcards(sym)) {
            if let Some(list) = fsms.initial.get(&test) {
                for w in list {
                    self.advance(fsms, *w, &mut accept);
                }
            }
            // entries promoted while this loop runs wait for a deeper level, and lie behind `n`
            let n = self.promoted.get(&test).map_or(0, Vec::len);
            for i in 0..n {
                let w = self.promoted[&test][i];
                if w.level <= depth {
                    self.advance(fsms, w, &mut accept);
                }
            }
        }
    }

    /// Does some machine wait for the value of the current node?
    fn wants_values(&self) -> bool {
        let from = self.marks.last().map_or(0, |&m| m as usize);
        self.undo[from..].iter().any(|&test| is_value(test))
    }

    fn advance(&mut self, fsms: &Fsms, w: Waiting, accept: &mut impl FnMut(PathId)) {
        if !w.descendant && w.level != self.depth {
            return;
        }
        let path = &fsms.paths[&w.path];
        let Some(next) = path.get(w.step as usize + 1) else { return accept(w.path) };
        let level = self.depth + 1;
        let list = self.promoted.entry(next.test()).or_default();
        // a `//` step already waiting for an enclosing element covers this one
        if next.descendant() && list.iter().any(|x| x.path == w.path && x.step == w.step + 1) {
            return;
        }
        list.push(Waiting { path: w.path, step: w.step + 1, level, descendant: next.descendant() });
        self.undo.push(next.test());
    }

    fn close(&mut self) {
        let Some(mark) = self.marks.pop() else { return };
        while self.undo.len() > mark as usize {
            if let Some(test) = self.undo.pop() {
                if let Some(list) = self.promoted.get_mut(&test) {
                    list.pop();
                }
            }
        }
        self.depth -= 1;
    }
}
