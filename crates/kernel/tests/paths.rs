//! All matchers against brute force, over random trees and random sets of paths that change between messages.

use proptest::prelude::*;
use twigcast_kernel::names::{Names, Sym, ANY, ANY_ATTRIBUTE, OTHER, OTHER_ATTRIBUTE, TEXT};
use twigcast_kernel::paths::fsm::{self, Fsms};
use twigcast_kernel::paths::index::PathIndex;
use twigcast_kernel::paths::nfa::{self, Nfa};
use twigcast_kernel::paths::trie::Trie;
use twigcast_kernel::paths::Step;
use twigcast_kernel::xml::NsId;

#[derive(Clone, Debug)]
struct Node {
    sym: u32,
    attrs: Vec<u32>,
    text: bool,
    kids: Vec<Node>,
}

/// Symbols as the test writes them: 0..4 names a-d, 4 a name of namespace u, 5 an unknown name of u, 6 unknown.
fn element(names: &Names, k: u32) -> Sym {
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

type Query = Vec<(bool, u32)>;

/// (descendant, test) with tests 0..4 names, 4 u:n, 5 u:*, 6 and 7 `*`; the last may be 8 @x, 9 @y, 10 @*, 11 text().
fn path() -> impl Strategy<Value = Query> {
    (prop::collection::vec((any::<bool>(), 0u32..8), 1..5), prop::option::weighted(0.3, (any::<bool>(), 8u32..12)))
        .prop_map(|(mut p, last)| {
            p.extend(last);
            p
        })
}

fn steps(names: &mut Names, p: &[(bool, u32)]) -> Vec<Step> {
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

fn run_trie(trie: &mut Trie, index: &PathIndex, doc: &Node) -> Vec<u32> {
    trie.sync(index);
    trie.begin();
    walk(doc, &index.names, &mut |e| match e {
        Some((_, true)) if trie.is_dead() => trie.open_dead(),
        Some((sym, true)) => trie.open(index, sym),
        Some((sym, false)) => {
            if if sym == TEXT { trie.wants_leaves() } else { trie.wants_attributes() } {
                trie.leaf(index, sym)
            }
        }
        None => trie.close(),
    });
    let mut out = vec![];
    trie.deliver(index, &mut out);
    out.sort_unstable();
    out
}

fn subs_of(index: &PathIndex, paths: &[u32]) -> Vec<u32> {
    let mut out = vec![];
    for &p in paths {
        index.subs(p, |s| out.push(s));
    }
    out.sort_unstable();
    out.dedup();
    out
}

#[derive(Clone, Debug)]
enum Op {
    Add(Query),
    /// A further path for the last subscription.
    Also(Query),
    Remove(usize),
    /// The same message several times, so that caches get warm.
    Match(Node, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => path().prop_map(Op::Add),
        1 => path().prop_map(Op::Also),
        2 => (0usize..1000).prop_map(Op::Remove),
        4 => (tree(), 1u32..9).prop_map(|(t, n)| Op::Match(t, n)),
    ]
}

struct World {
    index: PathIndex,
    nfa: Nfa,
    fsms: Fsms,
    subs: Vec<(u32, Vec<(Query, u32)>)>,
    next: u32,
    free: Vec<u32>,
}

impl World {
    fn add(&mut self, sub: u32, query: &Query) -> Option<u32> {
        let st = steps(&mut self.index.names, query);
        if let Some((_, paths)) = self.subs.iter().find(|x| x.0 == sub) {
            if paths.iter().any(|(_, id)| self.index.steps(*id) == &st[..]) {
                return None;
            }
        }
        let id = self.index.add(sub, &st);
        if self.index.refs(id) == 1 {
            self.nfa.insert(&st, id);
            self.fsms.insert(&st, id);
        }
        Some(id)
    }

    fn remove(&mut self, i: usize) {
        let (sub, paths) = self.subs.swap_remove(i);
        for (_, id) in &paths {
            if self.index.refs(*id) == 1 {
                self.nfa.remove(self.index.steps(*id));
                self.fsms.remove(*id);
            }
        }
        self.index.remove(sub, &paths.iter().map(|x| x.1).collect::<Vec<_>>());
        self.free.push(sub);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn matchers_agree_with_the_definition(ops in prop::collection::vec(op(), 1..40), delta in 0usize..6) {
        let mut w = World {
            index: PathIndex::with_delta(delta), nfa: Nfa::default(), fsms: Fsms::default(),
            subs: vec![], next: 0, free: vec![],
        };
        let (mut nfa_run, mut fsm_run) = (nfa::Run::default(), fsm::Run::default());
        let mut tries = vec![Trie::new(&w.index, 1 << 20), Trie::new(&w.index, 12000), Trie::new(&w.index, 0)];
        for op in ops {
            match op {
                Op::Add(q) => {
                    let sub = w.free.pop().unwrap_or(w.next);
                    w.next = w.next.max(sub + 1);
                    if let Some(id) = w.add(sub, &q) {
                        w.subs.push((sub, vec![(q, id)]));
                    }
                }
                Op::Also(q) => if let Some(&(sub, _)) = w.subs.last() {
                    if let Some(id) = w.add(sub, &q) {
                        w.subs.last_mut().unwrap().1.push((q, id));
                    }
                },
                Op::Remove(i) => if !w.subs.is_empty() {
                    w.remove(i % w.subs.len());
                },
                Op::Match(doc, times) => {
                    w.index.settle();
                    let mut want: Vec<u32> = w.subs.iter()
                        .filter(|(_, paths)| paths.iter().any(|(p, _)| satisfies(p, &doc))).map(|x| x.0).collect();
                    want.sort_unstable();
                    for _ in 0..times {
                        for trie in &mut tries {
                            prop_assert_eq!(&run_trie(trie, &w.index, &doc), &want);
                        }
                    }
                    let mut found = vec![];
                    nfa_run.reset(&w.nfa);
                    walk(&doc, &w.index.names, &mut |e| match e {
                        Some((sym, element)) => {
                            nfa_run.open(&w.nfa, &w.index.names, sym, |p| found.push(p));
                            if !element { nfa_run.close() }
                        }
                        None => nfa_run.close(),
                    });
                    prop_assert_eq!(&subs_of(&w.index, &found), &want);
                    found.clear();
                    fsm_run.reset();
                    walk(&doc, &w.index.names, &mut |e| match e {
                        Some((sym, element)) => {
                            fsm_run.open(&w.fsms, &w.index.names, sym, |p| found.push(p));
                            if !element { fsm_run.close() }
                        }
                        None => fsm_run.close(),
                    });
                    prop_assert_eq!(&subs_of(&w.index, &found), &want);
                }
            }
        }
        while !w.subs.is_empty() {
            w.remove(0);
        }
        prop_assert!(w.nfa.is_empty(), "the automaton keeps {} states of no path", w.nfa.len() - 1);
        prop_assert!(w.index.is_empty());
    }
}

/// A hundred thousand levels are a handful of nodes, and an endless supply of tag paths stays within the bound.
#[test]
fn hostile_structure_stays_bounded() {
    let mut index = PathIndex::with_delta(0);
    for (i, q) in [vec![(true, 0), (true, 1)], vec![(false, 0), (false, 0), (true, 2)]].iter().enumerate() {
        let st = steps(&mut index.names, q);
        index.add(i as u32, &st);
    }
    index.settle();
    let mut trie = Trie::new(&index, 1 << 16);
    trie.begin();
    for i in 0..100_000 {
        trie.open(&index, element(&index.names, i % 3));
    }
    for _ in 0..100_000 {
        trie.close();
    }
    let mut out = vec![];
    trie.deliver(&index, &mut out);
    out.sort_unstable();
    assert_eq!(out, [0]);
    assert!(trie.len() < 100, "{} nodes", trie.len());

    let mut x = 1u64;
    for message in 0..300 {
        trie.sync(&index);
        trie.begin();
        for _ in 0..100 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            trie.open(&index, element(&index.names, (x >> 33) as u32 % 7));
        }
        for _ in 0..100 {
            trie.close();
        }
        out.clear();
        trie.deliver(&index, &mut out);
        assert!(trie.bytes() < (1 << 16) + 4096, "message {message}: {} bytes", trie.bytes());
    }
}
