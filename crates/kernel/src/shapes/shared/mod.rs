//! Patterns over one message, set at a time: each expression that the patterns are made of is computed when the first
//! of them asks for it, and once. What a candidate costs is then little more than to look up a few sets of nodes and to
//! see whether they meet; the worst that it can cost is the size of the message times the size of the pattern.
//!
//! In a large message even a set of bits is much for a subscription that concerns a few of its nodes. There a small set
//! is a list, and of expressions that must hold at the same node only the one with the fewest nodes is computed as a set;
//! the others are evaluated at these nodes, until that has cost as much as their sets would.

mod compute;
mod set;
mod values;

use super::expr::{CheckId, Dag, Expr, ExprId, List, Question};
use super::nodes::{NodeIx, NodeRec};
use super::program::{Node, Pred, Twig};
use super::search::{position_holds, Message, Place, Row};
use hashbrown::HashMap;
use set::{Set, EMPTY, LISTED};
use values::{extremes_at, pass, Extremes, Values};

/// Words of sets kept per message: past it they are computed anew, which only huge messages see.
const MAX_WORDS: usize = 1 << 22;
/// A message is large if it has more nodes than this for each unit of fuel.
const LARGE: usize = 64;
/// In a large message a set is a list if it has at most one of so many nodes.
const SPARSE: usize = 32;
/// Nodes below a node that are looked at one by one.
const WALK: u32 = 256;
/// Expressions within expressions that are evaluated at a node: beyond, by sets, which takes no stack.
const DEPTH: u32 = 64;
/// How far it is looked into an expression to guess the size of its set.
const GUESS: u32 = 8;
/// Expressions kept for patterns that are evaluated one at a time.
const MAX_EXPRESSIONS: usize = 1 << 16;

/// Is a message of so many nodes evaluated by lists, not by bits alone?
pub fn is_large(nodes: usize, fuel: u32) -> bool {
    nodes > LARGE.saturating_mul(fuel as usize)
}

/// Patterns that are evaluated one at a time; what they have in common is computed once per message.
#[derive(Default)]
pub struct Shared {
    dag: Dag,
    sets: Sets,
    /// The sets are those of the message at hand.
    begun: bool,
}

impl Shared {
    /// Another message begins.
    pub fn begin_message(&mut self) {
        self.begun = false;
    }

    /// Does a predicate hold for the document?
    pub fn holds(&mut self, message: Message<'_>, fuel: u32, pred: &Pred, row: Row<'_>) -> bool {
        self.begin(message, fuel);
        let pattern = self.dag.pattern(pred, row);
        self.sets.fit(&self.dag);
        self.sets.holds(&self.dag, message, pattern)
    }

    /// Returns the nodes that the twig finds from the document, in document order.
    pub fn select(&mut self, message: Message<'_>, fuel: u32, twig: &Twig, row: Row<'_>) -> Vec<NodeIx> {
        self.begin(message, fuel);
        let id = self.dag.select(twig, row);
        self.members(message, id)
    }

    /// By node: does it satisfy a predicate?
    pub fn satisfying(message: Message<'_>, pred: &Pred, row: Row<'_>) -> Vec<bool> {
        Shared::by_node(message, |dag| dag.satisfying(pred, row))
    }

    /// By node: does it pass a step's test and filters?
    pub fn passing(message: Message<'_>, step: &Node, row: Row<'_>) -> Vec<bool> {
        Shared::by_node(message, |dag| dag.passing(step, row))
    }

    fn by_node(message: Message<'_>, make: impl FnOnce(&mut Dag) -> ExprId) -> Vec<bool> {
        let mut shared = Shared::default();
        shared.begin(message, u32::MAX);
        let id = make(&mut shared.dag);
        let mut found = vec![false; message.nodes.len()];
        shared.members(message, id).into_iter().for_each(|n| found[n as usize] = true);
        found
    }

    fn begin(&mut self, message: Message<'_>, fuel: u32) {
        if self.begun {
            return;
        }
        if self.dag.size() > MAX_EXPRESSIONS {
            *self = Shared::default();
        }
        self.begun = true;
        self.sets.begin(&self.dag, message.nodes.len(), fuel);
    }

    fn members(&mut self, message: Message<'_>, id: ExprId) -> Vec<NodeIx> {
        self.sets.fit(&self.dag);
        self.sets.trim();
        self.sets.set(&self.dag, message, id);
        self.sets.members(id)
    }
}

/// What is known of an expression: with the message's stamp, where its set lies; with the one before, what it has cost
/// to evaluate it at nodes.
#[derive(Clone, Copy, Default)]
struct Known {
    stamp: u32,
    at: u32,
}

/// The sets of one message.
#[derive(Default)]
pub struct Sets {
    stamp: u32,
    nodes: usize,
    large: bool,
    /// Words per set.
    width: usize,
    known: Vec<Known>,
    words: Vec<u64>,
    /// Each with its length before it.
    lists: Vec<u32>,
    /// Those of each list of steps, sorted by node; by `Known::at` where they begin and end.
    extremes: Vec<Extremes>,
    spans: Vec<(u32, u32)>,
    /// The members of sets, with their places among their siblings there.
    places: HashMap<ExprId, Box<[(NodeIx, Place)]>>,
    /// Expressions to compute, those they need above them.
    todo: Vec<ExprId>,
    /// Expressions that are being evaluated at nodes.
    depth: u32,
    pub(super) values: Values,
}

impl Sets {
    /// A message begins, for the patterns that there are.
    pub fn begin(&mut self, dag: &Dag, nodes: usize, fuel: u32) {
        self.fit(dag);
        self.nodes = nodes;
        self.large = is_large(nodes, fuel);
        self.width = nodes.div_ceil(64);
        self.values.begin();
        self.forget();
    }

    /// Makes room for all expressions.
    fn fit(&mut self, dag: &Dag) {
        if self.known.len() < dag.size() {
            self.known.resize(dag.size() + dag.size() / 2, Known::default());
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.words.clear();
        self.lists.clear();
        self.extremes.clear();
        self.spans.clear();
        self.places.clear();
        if self.stamp >= u32::MAX - 2 {
            self.known.fill(Known::default());
            self.stamp = 0;
        }
        self.stamp += 2;
    }

    /// Forgets the sets if they take too much memory. Not while one is computed.
    #[inline(always)]
    pub fn trim(&mut self) {
        if self.words.len() + self.lists.len() > MAX_WORDS {
            self.forget();
        }
    }

    /// Does the document satisfy a pattern?
    pub fn holds(&mut self, dag: &Dag, message: Message<'_>, pattern: ExprId) -> bool {
        match dag.get(pattern) {
            Expr::Meet(list) => {
                self.trim();
                self.meet(dag, message, dag.list(list))
            }
            Expr::And(list) => dag.list(list).iter().all(|&p| self.holds(dag, message, p)),
            Expr::Or(list) => dag.list(list).iter().any(|&p| self.holds(dag, message, p)),
            Expr::Not(p) => !self.holds(dag, message, p),
            _ => {
                self.trim();
                self.at(dag, message, pattern, 0)
            }
        }
    }

    /// Do the sets have a node in common?
    #[inline]
    pub fn meet(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> bool {
        if self.by_node() {
            return self.meet_by_node(dag, message, list);
        }
        if !list.iter().all(|&part| self.set(dag, message, part).is_some()) {
            return false;
        }
        if self.large {
            return self.members(list[0]).into_iter().any(|n| self.are_in(dag, message, list, n));
        }
        let set = |part: ExprId| &self.words[self.known[part as usize].at as usize..][..self.width];
        match *list {
            [] | [_] => true,
            [a, b] => set(a).iter().zip(set(b)).any(|(x, y)| x & y != 0),
            [a, b, c] => set(a).iter().zip(set(b)).zip(set(c)).any(|((x, y), z)| x & y & z != 0),
            _ => (0..self.width).any(|i| list.iter().fold(!0, |x, &part| x & set(part)[i]) != 0),
        }
    }

    #[inline(never)]
    fn meet_by_node(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> bool {
        let Some(fewest) = self.fewest(dag, message, list) else { return true };
        self.set(dag, message, fewest);
        self.members(fewest).into_iter().any(|n| self.are_in(dag, message, list, n))
    }

    /// Computes the sets; false if one is empty.
    #[inline]
    pub fn know(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> bool {
        self.trim();
        list.iter().all(|&part| self.set(dag, message, part).is_some())
    }

    /// Is a node in all of the sets, which are known and not empty?
    #[inline(always)]
    pub fn are_known_in(&self, list: &[ExprId], n: NodeIx) -> bool {
        list.iter().all(|&part| self.view(self.known[part as usize].at).has(n))
    }

    /// Is a node in all of the sets?
    #[inline(always)]
    pub fn are_in(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId], n: NodeIx) -> bool {
        list.iter().all(|&part| self.at(dag, message, part, n))
    }

    /// Has the set a single node?
    #[inline]
    pub fn is_single(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> bool {
        self.trim();
        self.set(dag, message, id).is_some_and(|at| self.view(at).size() == 1)
    }

    #[inline(always)]
    fn known(&self, id: ExprId) -> Option<u32> {
        let k = self.known[id as usize];
        (k.stamp == self.stamp).then_some(k.at)
    }

    /// Where the set lies, unless it is empty.
    #[inline(always)]
    fn set(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> Option<u32> {
        let at = match self.known(id) {
            Some(at) => at,
            None => self.find(dag, message, id),
        };
        (at != EMPTY).then_some(at)
    }

    #[inline(always)]
    fn view(&self, at: u32) -> Set<'_> {
        Set::new(&self.words, &self.lists, self.width, at)
    }

    /// The members of a set that is known.
    fn members(&self, id: ExprId) -> Vec<NodeIx> {
        let mut found = vec![];
        match self.known(id) {
            None | Some(EMPTY) => {}
            Some(at) => self.view(at).each(|n| found.push(n)),
        }
        found
    }

    /// Is the set known, and a list?
    fn is_listed(&self, id: ExprId) -> bool {
        self.known(id).is_some_and(|at| at & LISTED != 0) // `EMPTY` is one, too
    }

    /// Are parts of an expression evaluated at nodes?
    #[inline(always)]
    fn by_node(&self) -> bool {
        self.large && self.depth < DEPTH
    }

    /// Is a node in a set? Where it costs less than the set, no more than that is found out.
    #[inline]
    fn at(&mut self, dag: &Dag, message: Message<'_>, id: ExprId, n: NodeIx) -> bool {
        match self.known(id) {
            Some(EMPTY) => false,
            Some(at) => self.view(at).has(n),
            None => self.evaluate_at(dag, message, id, n),
        }
    }

    fn evaluate_at(&mut self, dag: &Dag, message: Message<'_>, id: ExprId, n: NodeIx) -> bool {
        let expr = dag.get(id);
        if let Expr::Compared { of, check } = expr {
            return self.compares(dag, message, of, check, n);
        }
        if !self.by_node() {
            return self.set(dag, message, id).is_some_and(|at| self.view(at).has(n));
        }
        self.depth += 1;
        let recs = &message.nodes.recs;
        let holds = match expr {
            Expr::Everything => true,
            Expr::Document => n == 0,
            Expr::Test(test) => test.passes(message.names, recs[n as usize].sym),
            Expr::Valued { of, check } => {
                self.at(dag, message, of, n) && self.values.pass(message, n, dag.check(check))
            }
            Expr::And(list) => self.are_in(dag, message, dag.list(list), n),
            Expr::Or(list) => dag.list(list).iter().any(|&p| self.at(dag, message, p, n)),
            Expr::Not(p) => !self.at(dag, message, p, n),
            Expr::Counted { of, filter, .. } => self.holds_among(dag, message, filter, n, of),
            Expr::First { of, .. } | Expr::Count { of, .. } if self.may_walk(id) => {
                self.known[id as usize].at += recs[n as usize].end - n;
                self.at(dag, message, of, n) && self.context_passes(dag, message, expr, n)
            }
            Expr::Above { of, with, deep } if recs[n as usize].end - n <= WALK && self.may_walk(id) => {
                let mut looked = 0;
                let found = message.nodes.below(n, deep).any(|below| {
                    looked += 1;
                    self.at(dag, message, of, below) && self.at(dag, message, with, below)
                });
                self.known[id as usize].at += looked;
                found
            }
            _ => self.set(dag, message, id).is_some_and(|at| self.view(at).has(n)),
        };
        self.depth -= 1;
        holds
    }

    /// Has it cost less so far to evaluate an expression at nodes than its set would cost?
    fn may_walk(&mut self, id: ExprId) -> bool {
        let known = &mut self.known[id as usize];
        if known.stamp != self.stamp - 1 {
            *known = Known { stamp: self.stamp - 1, at: 0 };
        }
        (known.at as usize) < self.nodes
    }

    /// Does some number that steps lead to from a node pass?
    #[inline]
    fn compares(&mut self, dag: &Dag, message: Message<'_>, of: ExprId, check: CheckId, n: NodeIx) -> bool {
        let at = match (self.known(of), dag.get(of)) {
            (Some(at), _) => at,
            (None, Expr::Numbers(steps)) => {
                let at = self.find_extremes(dag, message, steps);
                self.known[of as usize] = Known { stamp: self.stamp, at };
                at
            }
            _ => return false,
        };
        let extremes = extremes_at(&self.extremes, &self.spans, at);
        extremes.binary_search_by_key(&n, |e| e.node).is_ok_and(|i| extremes[i].pass(dag.check(check)))
    }

    /// Finds the extremes of the numbers that steps lead to; answers where they lie.
    fn find_extremes(&mut self, dag: &Dag, message: Message<'_>, steps: List) -> u32 {
        let from = self.extremes.len() as u32;
        self.values.extremes(dag, message, dag.list(steps), &mut self.extremes);
        self.spans.push((from, self.extremes.len() as u32));
        self.spans.len() as u32 - 1
    }

    /// Is a node of a set among those that a filter with positions passes, which count in the set?
    fn holds_among(&mut self, dag: &Dag, message: Message<'_>, filter: ExprId, n: NodeIx, of: ExprId) -> bool {
        let Some(at) = self.set(dag, message, of) else { return false };
        if !self.places.contains_key(&of) {
            let places = count_siblings(&message.nodes.recs, self.view(at));
            self.places.insert(of, places);
        }
        let places = &self.places[&of];
        let place = places.binary_search_by_key(&n, |p| p.0).map(|i| places[i].1);
        place.is_ok_and(|place| self.holds_at(dag, message, filter, n, place))
    }

    fn holds_at(&mut self, dag: &Dag, message: Message<'_>, filter: ExprId, n: NodeIx, place: Place) -> bool {
        if !dag.counts(filter) {
            return self.at(dag, message, filter, n);
        }
        match dag.get(filter) {
            Expr::And(list) => dag.list(list).iter().all(|&p| self.holds_at(dag, message, p, n, place)),
            Expr::Or(list) => dag.list(list).iter().any(|&p| self.holds_at(dag, message, p, n, place)),
            Expr::Not(p) => !self.holds_at(dag, message, p, n, place),
            Expr::Position { of, op, n: k } => position_holds(of, op, k as f64, place),
            _ => false,
        }
    }

    /// Does what steps find from a node pass: the first of it, or its number?
    fn context_passes(&mut self, dag: &Dag, message: Message<'_>, expr: Expr, n: NodeIx) -> bool {
        match expr {
            Expr::First { steps, check, .. } => match self.reach(dag, message, dag.list(steps), n).first() {
                Some(&first) => self.values.pass(message, first, dag.check(check)),
                None => pass(message, b"", dag.check(check)),
            },
            Expr::Count { steps, check, .. } => {
                let count = self.reach(dag, message, dag.list(steps), n).len();
                matches!(dag.check(check).question, Question::Number(op, x) if op.holds(count as f64, f64::from_bits(x)))
            }
            _ => false,
        }
    }

    /// What steps find from a node, in document order: at the cost of its subtree.
    fn reach(&mut self, dag: &Dag, message: Message<'_>, steps: &[u32], n: NodeIx) -> Vec<NodeIx> {
        let recs = &message.nodes.recs;
        let mut found = vec![n];
        for &step in steps {
            let (set, deep) = (step / 2, step % 2 == 1);
            let mut next = vec![];
            let mut covered = 0;
            for &n in &found {
                let end = recs[n as usize].end;
                if end <= covered {
                    continue;
                }
                if !deep || end - n <= WALK && self.by_node() {
                    next.extend(message.nodes.below(n, deep).filter(|&below| self.at(dag, message, set, below)));
                } else if let Some(at) = self.set(dag, message, set) {
                    self.view(at).each_within(n + 1, end, |m| next.push(m));
                }
                if deep {
                    covered = end;
                }
            }
            // children of nested nodes come out of order
            next.sort_unstable();
            found = next;
        }
        found
    }
}

/// The members of a set with their places among their siblings in it, by node.
fn count_siblings(recs: &[NodeRec], set: Set<'_>) -> Box<[(NodeIx, Place)]> {
    let mut found = vec![];
    set.each(|n| found.push((n, (recs[n as usize].parent, 0))));
    // by parent first: then siblings lie together
    found.sort_unstable_by_key(|&(n, (parent, _))| (parent, n));
    for siblings in found.chunk_by_mut(|a, b| a.1 .0 == b.1 .0) {
        let last = siblings.len() as u32;
        siblings.iter_mut().zip(1..).for_each(|(one, position)| one.1 = (position, last));
    }
    found.sort_unstable_by_key(|&(n, _)| n);
    found.into()
}
