//! Random trees, random sets of paths that change between messages, and the definition of which match.

use proptest::prelude::*;
use twigcast_kernel::internals::{
    Names, PathIndex, PathMatcher, Step, Sym, ANY, ANY_ATTRIBUTE, OTHER, OTHER_ATTRIBUTE, TEXT,
};
use twigcast_kernel::xml::NsId;

#[derive(Clone, Debug)]
pub struct Node {
    sym: u32,
    attrs: Vec<u32>,
    text: bool,
    kids: Vec<Node>,
}

/// Symbols as the test writes them: 0..4 names a-d, 4 a name of namespace u, 5 an unknown name of u, 6 unknown.
pub fn element(names: &Names, k: u32) -> Sym {
    let u = names.namespace(b"u");
    match k {
        0..=3 => names.symbol(false, NsId::NONE, &[b'a' + k as u8]),
        4 => names.symbol(false, u, b"n"),
        5 => names.symbol(false, u, b"zz"),
        _ => OTHER,
    }
}

fn attribute(names: &Names, k: u32) -> Sym {
    match k {
        0..=1 => names.symbol(true, NsId::NONE, &[b'x' + k as u8]),
        _ => OTHER_ATTRIBUTE,
    }
}

fn tree() -> impl Strategy<Value = Node> {
    let leaf = (0u32..7, prop::collection::vec(0u32..3, 0..3), any::<bool>()).prop_map(|(sym, attrs, text)| Node {
        sym,
        attrs,
        text,
        kids: vec![],
    });
    leaf.prop_recursive(6, 40, 4, |inner| {
        (0u32..7, prop::collection::vec(0u32..3, 0..2), any::<bool>(), prop::collection::vec(inner, 0..4))
            .prop_map(|(sym, attrs, text, kids)| Node { sym, attrs, text, kids })
    })
}

pub type Query = Vec<(bool, u32)>;

/// (descendant, test) with tests 0..4 names, 4 u:n, 5 u:*, 6 and 7 `*`; the last may be 8 @x, 9 @y, 10 @*, 11 text().
fn path() -> impl Strategy<Value = Query> {
    (prop::collection::vec((any::<bool>(), 0u32..8), 1..5), prop::option::weighted(0.3, (any::<bool>(), 8u32..12)))
        .prop_map(|(mut p, last)| {
            p.extend(last);
            p
        })
}

pub fn steps(names: &mut Names, p: &[(bool, u32)]) -> Vec<Step> {
    p.iter()
        .map(|&(d, t)| {
            let test = match t {
                0..=3 => names.intern(false, b"", Some(&[b'a' + t as u8])),
                4 => names.intern(false, b"u", Some(b"n")),
                5 => names.intern(false, b"u", None),
                6 | 7 => ANY,
                8 | 9 => names.intern(true, b"", Some(&[b'x' + t as u8 - 8])),
                10 => ANY_ATTRIBUTE,
                _ => TEXT,
            };
            Step::new(d, test)
        })
        .collect()
}

/// Written without symbols or automata: the definition.
fn satisfies(path: &[(bool, u32)], root: &Node) -> bool {
    fn passes(t: u32, sym: u32) -> bool {
        match t {
            0..=4 => t == sym,
            5 => sym == 4 || sym == 5,
            6 | 7 => true,
            _ => false,
        }
    }
    fn below(path: &[(bool, u32)], context: &Node) -> bool {
        let (descendant, t) = path[0];
        if t >= 8 {
            let here = match t {
                8 | 9 => context.attrs.contains(&(t - 8)),
                10 => !context.attrs.is_empty(),
                _ => context.text,
            };
            return here || descendant && context.kids.iter().any(|k| below(path, k));
        }
        context
            .kids
            .iter()
            .any(|k| passes(t, k.sym) && (path.len() == 1 || below(&path[1..], k)) || descendant && below(path, k))
    }
    below(path, &Node { sym: 99, attrs: vec![], text: false, kids: vec![root.clone()] })
}

/// Some((symbol, is an element)) for each node, `None` where an element ends.
fn walk(node: &Node, names: &Names, visit: &mut dyn FnMut(Option<(Sym, bool)>)) {
    visit(Some((element(names, node.sym), true)));
    for &a in &node.attrs {
        visit(Some((attribute(names, a), false)));
    }
    if node.text {
        visit(Some((TEXT, false)));
    }
    for k in &node.kids {
        walk(k, names, visit);
    }
    visit(None);
}

/// Returns the subscriptions that a matcher finds in a message, ascending.
pub fn run(matcher: &mut impl PathMatcher, index: &PathIndex, doc: &Node) -> Vec<u32> {
    matcher.sync(index);
    matcher.begin(index);
    walk(doc, &index.names, &mut |e| match e {
        Some((_, true)) if matcher.is_dead() => matcher.open_dead(),
        Some((sym, true)) => matcher.open(index, sym),
        Some((sym, false)) => {
            if if sym == TEXT { matcher.wants_leaves() } else { matcher.wants_attributes() } {
                matcher.leaf(index, sym)
            }
        }
        None => matcher.close(),
    });
    let mut out = vec![];
    matcher.deliver(index, &mut out);
    out.sort_unstable();
    out
}

#[derive(Clone, Debug)]
pub enum Op {
    Add(Query),
    /// A further path for the last subscription.
    Also(Query),
    Remove(usize),
    /// The same message several times, so that caches get warm.
    Match(Node, u32),
}

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => path().prop_map(Op::Add),
        1 => path().prop_map(Op::Also),
        2 => (0usize..1000).prop_map(Op::Remove),
        4 => (tree(), 1u32..9).prop_map(|(t, n)| Op::Match(t, n)),
    ]
}

/// Subscriptions that come and go.
pub struct World {
    pub index: PathIndex,
    subs: Vec<(u32, Vec<(Query, u32)>)>,
    next: u32,
    free: Vec<u32>,
}

impl World {
    pub fn new(delta: usize) -> World {
        World { index: PathIndex::with_delta(delta), subs: vec![], next: 0, free: vec![] }
    }

    fn add(&mut self, sub: u32, query: &Query) -> Option<u32> {
        let st = steps(&mut self.index.names, query);
        if let Some((_, paths)) = self.subs.iter().find(|x| x.0 == sub) {
            if paths.iter().any(|(_, id)| self.index.steps(*id) == &st[..]) {
                return None;
            }
        }
        Some(self.index.add(sub, &st))
    }

    fn remove(&mut self, i: usize) {
        let (sub, paths) = self.subs.swap_remove(i);
        self.index.remove(sub, &paths.iter().map(|x| x.1).collect::<Vec<_>>());
        self.free.push(sub);
    }

    pub fn remove_all(&mut self) {
        while !self.subs.is_empty() {
            self.remove(0);
        }
    }

    /// Makes a change; or returns a message, how often it is to be matched, and what it matches.
    pub fn apply(&mut self, op: Op) -> Option<(Node, u32, Vec<u32>)> {
        match op {
            Op::Add(q) => {
                let sub = self.free.pop().unwrap_or(self.next);
                self.next = self.next.max(sub + 1);
                if let Some(id) = self.add(sub, &q) {
                    self.subs.push((sub, vec![(q, id)]));
                }
            }
            Op::Also(q) => {
                if let Some(&(sub, _)) = self.subs.last() {
                    if let Some(id) = self.add(sub, &q) {
                        self.subs.last_mut().unwrap().1.push((q, id));
                    }
                }
            }
            Op::Remove(i) => {
                if !self.subs.is_empty() {
                    self.remove(i % self.subs.len());
                }
            }
            Op::Match(doc, times) => {
                self.index.settle();
                let satisfied = |x: &&(u32, Vec<(Query, u32)>)| x.1.iter().any(|(p, _)| satisfies(p, &doc));
                let mut want: Vec<u32> = self.subs.iter().filter(satisfied).map(|x| x.0).collect();
                want.sort_unstable();
                return Some((doc, times, want));
            }
        }
        None
    }
}
