//! Other ways to match paths than the kernel's trie: [`nfa`] is YFilter's shared automaton, [`fsm`] XFilter's machine per
//! query, which is the YFilter paper's baseline. The answers are the same.

pub mod fsm;
pub mod nfa;

use twigcast_kernel::internals::{Change, Names, PathId, PathIndex, PathMatcher, Step, Sym};
use twigcast_kernel::{Engine, Matcher};

/// How paths are matched. All agree; they differ in speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Trie,
    Nfa,
    FsmPerQuery,
}

impl Mode {
    pub const ALL: [(&'static str, Mode); 3] =
        [("trie", Mode::Trie), ("nfa", Mode::Nfa), ("fsm-per-query", Mode::FsmPerQuery)];

    /// Returns the function that makes matchers of this mode.
    pub fn make_matcher(self) -> fn(&Engine) -> Matcher {
        match self {
            Mode::Trie => Matcher::new,
            Mode::Nfa => |_| Matcher::with_paths(Following::<nfa::Automaton>::default()),
            Mode::FsmPerQuery => |_| Matcher::with_paths(Following::<fsm::Automaton>::default()),
        }
    }
}

/// An automaton of paths, and its way through one message.
pub trait Automaton: Default + Send {
    fn insert(&mut self, path: &[Step], id: PathId);
    fn remove(&mut self, path: &[Step], id: PathId);
    /// Begins a message.
    fn begin(&mut self);
    /// Goes on to a child of the current node; `accept` gets the paths that it ends.
    fn open(&mut self, names: &Names, sym: Sym, accept: impl FnMut(PathId));
    /// Goes back to the parent.
    fn close(&mut self);
    /// Whether some path goes on to the value of the current node.
    fn wants_values(&self) -> bool;
}

/// An automaton that follows the paths of an index, and the paths that the message has satisfied.
#[derive(Default)]
pub struct Following<A> {
    automaton: A,
    /// Generation and version of the index that the automaton is made of.
    at: Option<(u32, u64)>,
    found: Found,
}

impl<A> Following<A> {
    pub fn automaton(&self) -> &A {
        &self.automaton
    }
}

impl<A: Automaton> PathMatcher for Following<A> {
    fn sync(&mut self, index: &PathIndex) {
        let known = self.at.filter(|&(generation, _)| generation == index.generation());
        match known.and_then(|(_, version)| index.since(version)) {
            Some(changes) => {
                for &change in changes {
                    match change {
                        Change::Add { path, fresh: true, .. } => self.automaton.insert(index.steps(path), path),
                        Change::Drop { path } => self.automaton.remove(index.steps(path), path),
                        Change::Add { .. } | Change::Remove { .. } => {}
                    }
                }
            }
            None => {
                self.automaton = A::default();
                for path in index.live() {
                    self.automaton.insert(index.steps(path), path);
                }
            }
        }
        self.at = Some((index.generation(), index.version()));
    }

    fn begin(&mut self, index: &PathIndex) {
        self.automaton.begin();
        self.found.begin(index);
    }

    fn open(&mut self, index: &PathIndex, sym: Sym) {
        self.automaton.open(&index.names, sym, |path| self.found.add(path));
    }

    fn close(&mut self) {
        self.automaton.close();
    }

    fn wants_values(&self) -> bool {
        self.automaton.wants_values()
    }

    fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        self.found.deliver(index, out);
    }

    fn has(&self, sub: u32) -> bool {
        self.found.has(sub)
    }
}

/// The distinct paths that a message has satisfied so far.
#[derive(Default)]
struct Found {
    message: u32,
    stamp: Vec<u32>,
    paths: Vec<PathId>,
    sub_stamp: Vec<u32>,
}

impl Found {
    fn begin(&mut self, index: &PathIndex) {
        if self.message == u32::MAX {
            self.stamp.fill(0);
            self.sub_stamp.fill(0);
            self.message = 0;
        }
        self.message += 1;
        self.paths.clear();
        self.stamp.resize(index.path_bound(), 0);
        self.sub_stamp.resize(index.sub_bound(), 0);
    }

    fn add(&mut self, path: PathId) {
        if std::mem::replace(&mut self.stamp[path as usize], self.message) != self.message {
            self.paths.push(path);
        }
    }

    fn has(&self, sub: u32) -> bool {
        self.sub_stamp[sub as usize] == self.message
    }

    fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        for &p in &self.paths {
            index.subs(p, |sub| {
                if std::mem::replace(&mut self.sub_stamp[sub as usize], self.message) != self.message {
                    out.push(sub);
                }
            });
        }
    }
}
