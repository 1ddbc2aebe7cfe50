//! Patterns over one message, set at a time: each expression that the patterns are made of is computed when the first
//! of them asks for it, and once. What a candidate costs is then little more than to look up a few sets of nodes and to
//! see whether they meet; the worst that it can cost is the size of the message times the size of the pattern.
//!
//! In a large message even a set of bits is much for a subscription that concerns a few of its nodes. There a small set
//! is a list, and of expressions that must hold at the same node only the one with the fewest nodes is computed as a set;
//! the others are evaluated at these nodes, until that has cost as much as their sets would.

use super::bitset::{each, each_of_both, each_within, fill, has, insert, size};
use super::expr::{Check, CheckId, Dag, Expr, ExprId, Question, EVERYTHING};
use super::nodes::{NodeIx, NodeRec, NO_CONSTANT, UNREAD};
use super::program::{Node, Op, Pred, Test, Twig};
use super::search::{length, normalize_space, position_holds, Message, Place, Row};
use crate::names::Sym;
use crate::values::number::number;
use hashbrown::HashMap;

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

const EMPTY: u32 = u32::MAX;
/// The set is a list, which lies in `lists` at the rest of the number.
const LISTED: u32 = 1 << 31;

/// A set of nodes.
#[derive(Clone, Copy)]
enum Set<'a> {
    Bits(&'a [u64]),
    List(&'a [NodeIx]),
}

impl<'a> Set<'a> {
    #[inline(always)]
    fn new(words: &'a [u64], lists: &'a [u32], width: usize, at: u32) -> Set<'a> {
        if at & LISTED == 0 {
            return Set::Bits(&words[at as usize..at as usize + width]);
        }
        let at = (at & !LISTED) as usize;
        Set::List(&lists[at + 1..at + 1 + lists[at] as usize])
    }

    #[inline(always)]
    fn has(self, n: NodeIx) -> bool {
        match self {
            Set::Bits(bits) => has(bits, n),
            Set::List(list) => list.binary_search(&n).is_ok(),
        }
    }

    #[inline(always)]
    fn each(self, f: impl FnMut(NodeIx)) {
        match self {
            Set::Bits(bits) => each(bits, f),
            Set::List(list) => list.iter().copied().for_each(f),
        }
    }

    /// Calls `f` for the members from `from` up to `to`, ascending.
    fn each_within(self, from: NodeIx, to: NodeIx, f: impl FnMut(NodeIx)) {
        match self {
            Set::Bits(bits) => each_within(bits, from, to, f),
            Set::List(list) => {
                let first = list.partition_point(|&n| n < from);
                list[first..].iter().copied().take_while(|&n| n < to).for_each(f);
            }
        }
    }

    fn size(self) -> usize {
        match self {
            Set::Bits(bits) => size(bits) as usize,
            Set::List(list) => list.len(),
        }
    }

    /// Takes all nodes but its members out of a set of bits.
    fn retain_in(self, bits: &mut [u64]) {
        match self {
            Set::Bits(set) => bits.iter_mut().zip(set).for_each(|(a, b)| *a &= b),
            Set::List(list) => {
                let both: Vec<NodeIx> = list.iter().copied().filter(|&n| has(bits, n)).collect();
                bits.fill(0);
                both.into_iter().for_each(|n| insert(bits, n));
            }
        }
    }
}

/// The least and the greatest of the numbers that steps lead to from a node.
#[derive(Clone, Copy)]
struct Extremes {
    node: NodeIx,
    least: f64,
    greatest: f64,
}

impl Extremes {
    /// Does some number pass, if the check is a range?
    fn pass(&self, check: Check) -> bool {
        match check.question {
            Question::Number(op @ (Op::Lt | Op::Le), want) => op.holds(self.least, f64::from_bits(want)),
            Question::Number(op, want) => op.holds(self.greatest, f64::from_bits(want)),
            _ => false,
        }
    }
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
    /// By `Known::at`, sorted by node.
    extremes: Vec<Vec<Extremes>>,
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
                let (mut below, end) = (n + 1, recs[n as usize].end);
                let (mut looked, mut found) = (0, false);
                while below < end && !found {
                    looked += 1;
                    found = self.at(dag, message, of, below) && self.at(dag, message, with, below);
                    below = if deep { below + 1 } else { recs[below as usize].end };
                }
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
        let at = match self.known(of) {
            Some(at) => at,
            None => self.find(dag, message, of),
        };
        let extremes = &self.extremes[at as usize];
        extremes.binary_search_by_key(&n, |e| e.node).is_ok_and(|i| extremes[i].pass(dag.check(check)))
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
                let mut below = n + 1;
                if !deep || end - n <= WALK && self.by_node() {
                    while below < end && end > covered {
                        if self.at(dag, message, set, below) {
                            next.push(below);
                        }
                        below = if deep { below + 1 } else { recs[below as usize].end };
                    }
                } else if let Some(at) = self.set(dag, message, set).filter(|_| end > covered) {
                    self.view(at).each_within(below, end, |m| next.push(m));
                }
                if deep {
                    covered = covered.max(end);
                }
            }
            // children of nested nodes come out of order
            next.sort_unstable();
            found = next;
        }
        found
    }

    /// Of expressions, the one whose set seems to have the fewest nodes.
    #[inline(never)]
    fn fewest(&self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> Option<ExprId> {
        match *list {
            [one] => Some(one),
            _ => list.iter().copied().min_by_key(|&part| self.guess(dag, message, part, GUESS)),
        }
    }

    /// How many nodes a set may have, going by the names and values that there are.
    fn guess(&self, dag: &Dag, message: Message<'_>, id: ExprId, depth: u32) -> usize {
        match self.known(id) {
            Some(EMPTY) => return 0,
            Some(at) if at & LISTED != 0 => return self.view(at).size(),
            _ if depth == 0 => return self.nodes,
            _ => {}
        }
        let guess = |id: ExprId| self.guess(dag, message, id, depth - 1);
        match dag.get(id) {
            Expr::Nothing => 0,
            Expr::Document | Expr::Meet(_) => 1,
            Expr::Test(Test::Exactly(sym)) => message.nodes.count_of(sym) as usize,
            Expr::Valued { of, check } => match dag.check(check).question {
                Question::Is(want) if is_looked_up(message, dag.check(check)) => {
                    message.nodes.count_with(want, SPARSE) + message.nodes.unread(dag.test_of(of)).len()
                }
                _ => guess(of),
            },
            Expr::And(list) => dag.list(list).iter().map(|&p| guess(p)).min().unwrap_or(self.nodes),
            Expr::Or(list) => dag.list(list).iter().map(|&p| guess(p)).sum(),
            Expr::Above { of, with: EVERYTHING, .. }
            | Expr::Below { to: of, .. }
            | Expr::First { of, .. }
            | Expr::Count { of, .. } => guess(of),
            Expr::Above { of, with, .. } => guess(of).min(guess(with)),
            Expr::Counted { of, filter, .. } => {
                conjuncts(dag, of, filter).into_iter().map(guess).min().unwrap_or(self.nodes)
            }
            _ => self.nodes,
        }
    }

    #[inline(never)]
    fn find(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> u32 {
        // a list and not recursion, for paths can be long
        let base = self.todo.len();
        self.todo.push(id);
        while let Some(&top) = self.todo[base..].last() {
            match self.next_part(dag, message, dag.get(top)) {
                Some(part) => self.todo.push(part),
                None => {
                    let at = self.compute(dag, message, dag.get(top));
                    self.known[top as usize] = Known { stamp: self.stamp, at };
                    self.todo.pop();
                }
            }
        }
        self.known[id as usize].at
    }

    /// A part that is to be known first.
    fn next_part(&self, dag: &Dag, message: Message<'_>, expr: Expr) -> Option<ExprId> {
        let unknown = |id: ExprId| self.known(id).is_none().then_some(id);
        match expr {
            Expr::Nothing
            | Expr::Everything
            | Expr::Document
            | Expr::Test(_)
            | Expr::Numbers(_)
            | Expr::Meet(_)
            | Expr::Position { .. } => None,
            Expr::Valued { of, .. } | Expr::Not(of) | Expr::Compared { of, .. } | Expr::Counted { of, .. } => {
                unknown(of)
            }
            Expr::Above { of, with: EVERYTHING, .. } => unknown(of),
            Expr::Above { of, with, .. } if self.by_node() => self.fewest(dag, message, &[of, with]).and_then(unknown),
            Expr::Above { of, with, .. } => match self.known(of) {
                None => Some(of),
                Some(EMPTY) => None,
                Some(_) => unknown(with),
            },
            Expr::Or(list) => dag.list(list).iter().find_map(|&p| unknown(p)),
            Expr::And(list) if self.by_node() => self.fewest(dag, message, dag.list(list)).and_then(unknown),
            Expr::And(list) => {
                for &p in dag.list(list) {
                    match self.known(p) {
                        None => return Some(p),
                        Some(EMPTY) => return None,
                        Some(_) => {}
                    }
                }
                None
            }
            Expr::Below { from, to, .. } => match self.known(from) {
                None => Some(from),
                Some(EMPTY) => None,
                Some(at) if self.by_node() && self.is_listed(from) => {
                    let mut below = 0;
                    self.view(at).each(|n| below += (message.nodes.recs[n as usize].end - n) as usize);
                    unknown(to).filter(|_| below >= self.guess(dag, message, to, GUESS))
                }
                Some(_) => unknown(to),
            },
            Expr::First { of, .. } | Expr::Count { of, .. } if self.by_node() => unknown(of),
            Expr::First { of, steps, .. } | Expr::Count { of, steps, .. } => {
                unknown(of).or_else(|| dag.list(steps).iter().find_map(|&s| unknown(s / 2)))
            }
        }
    }

    /// Computes what `next_part` says can be computed; answers where it lies.
    #[inline(always)]
    fn compute(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> u32 {
        if let Expr::Numbers(steps) = expr {
            self.extremes.push(self.values.extremes(dag, message, dag.list(steps)));
            return self.extremes.len() as u32 - 1;
        }
        let listed = match expr {
            Expr::Valued { of, check } if is_looked_up(message, dag.check(check)) => {
                let Question::Is(want) = dag.check(check).question else { return EMPTY };
                if message.nodes.first_with(want) == NodeIx::MAX && message.nodes.unread(dag.test_of(of)).is_empty() {
                    return EMPTY; // most subscriptions' values
                }
                true
            }
            Expr::Meet(_) | Expr::Counted { .. } | Expr::First { .. } | Expr::Count { .. } => true,
            _ => self.by_node(),
        };
        match listed.then(|| self.list(dag, message, expr)).flatten() {
            Some(found) => self.keep(found),
            None => self.compute_bits(dag, message, expr),
        }
    }

    /// The nodes of a set, in any order, if they are better listed than set as bits.
    #[inline(never)]
    fn list(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> Option<Vec<NodeIx>> {
        let recs = &message.nodes.recs;
        let mut found = vec![];
        match expr {
            Expr::Meet(list) => found.extend(self.meet(dag, message, dag.list(list)).then_some(0)),
            Expr::Valued { of, check } if is_looked_up(message, dag.check(check)) => {
                let check = dag.check(check);
                let Question::Is(want) = check.question else { return None };
                let mut n = message.nodes.first_with(want);
                while n != NodeIx::MAX {
                    found.push(n);
                    n = message.nodes.next_with(n);
                }
                let unread = message.nodes.unread(dag.test_of(of)).iter().copied();
                found.extend(unread.filter(|&n| self.values.pass(message, n, check)));
                found.retain(|&n| self.at(dag, message, of, n));
            }
            Expr::Counted { of, filter, .. } => {
                let fewest = self.fewest(dag, message, &conjuncts(dag, of, filter)).unwrap_or(of);
                self.set(dag, message, fewest);
                found = self.members(fewest);
                found.retain(|&n| self.holds_among(dag, message, filter, n, of));
            }
            Expr::First { of, .. } | Expr::Count { of, .. } => {
                found = self.members(of);
                found.retain(|&n| self.context_passes(dag, message, expr, n));
            }
            Expr::Document => found.push(0),
            Expr::Test(Test::Exactly(sym)) if message.nodes.count_of(sym) as usize <= self.nodes / SPARSE => {
                let mut n = message.nodes.first_of(sym);
                while n != NodeIx::MAX {
                    found.push(n);
                    n = message.nodes.next_of(n);
                }
            }
            Expr::And(list) => {
                let fewest = self.fewest(dag, message, dag.list(list)).filter(|&p| self.is_listed(p))?;
                found = self.members(fewest);
                found.retain(|&n| self.are_in(dag, message, dag.list(list), n));
            }
            Expr::Or(list) if dag.list(list).iter().all(|&p| self.is_listed(p)) => {
                dag.list(list).iter().for_each(|&p| found.append(&mut self.members(p)));
            }
            Expr::Above { of, with, deep } => {
                let fewest = self.fewest(dag, message, &[of, with]).filter(|_| with != EVERYTHING).unwrap_or(of);
                if !self.is_listed(fewest) {
                    return None;
                }
                let mut ends = self.members(fewest);
                ends.retain(|&n| self.are_in(dag, message, &[of, with], n));
                let ends = ends.into_iter().map(|n| (n, ()));
                self.values.climb(recs, ends, deep, |n, ()| found.push(n));
            }
            Expr::Below { from, deep, to } if self.is_listed(from) && self.known(to).is_none() => {
                for n in self.members(from) {
                    let (mut below, end) = (n + 1, recs[n as usize].end);
                    while below < end {
                        if self.at(dag, message, to, below) {
                            found.push(below);
                        }
                        below = if deep { below + 1 } else { recs[below as usize].end };
                    }
                }
            }
            Expr::Below { from, deep, to } if self.is_listed(to) => {
                found = self.members(to);
                found.retain(|&n| {
                    let mut n = n;
                    while n != 0 {
                        n = recs[n as usize].parent;
                        if self.at(dag, message, from, n) {
                            return true;
                        }
                        if !deep {
                            break;
                        }
                    }
                    false
                });
            }
            _ => return None,
        }
        Some(found)
    }

    /// Keeps a set; answers where it lies.
    fn keep(&mut self, mut nodes: Vec<NodeIx>) -> u32 {
        if nodes.is_empty() {
            return EMPTY;
        }
        if !self.large || nodes.len() > self.nodes / SPARSE {
            let start = self.words.len();
            self.words.resize(start + self.width, 0);
            nodes.into_iter().for_each(|n| insert(&mut self.words[start..], n));
            return start as u32;
        }
        nodes.sort_unstable();
        nodes.dedup();
        let at = self.lists.len() as u32;
        self.lists.push(nodes.len() as u32);
        self.lists.append(&mut nodes);
        at | LISTED
    }

    /// Computes a set as bits; answers where it lies.
    fn compute_bits(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> u32 {
        if self.by_node() {
            // it takes all the parts
            let depth = std::mem::replace(&mut self.depth, DEPTH);
            while let Some(part) = self.next_part(dag, message, expr) {
                self.find(dag, message, part);
            }
            self.depth = depth;
        }
        let start = self.words.len();
        self.words.resize(start + self.width, 0);
        let (old, out) = self.words.split_at_mut(start);
        let (known, width, recs) = (&self.known, self.width, &message.nodes.recs);
        let (old, lists) = (&*old, &self.lists[..]);
        let set = |id: ExprId| match known[id as usize].at {
            EMPTY => None,
            at => Some(Set::new(old, lists, width, at)),
        };
        match expr {
            Expr::Nothing
            | Expr::Position { .. }
            | Expr::Numbers(_)
            | Expr::Meet(_)
            | Expr::Counted { .. }
            | Expr::First { .. }
            | Expr::Count { .. } => {}
            Expr::Everything => fill(out, 0, self.nodes),
            Expr::Document => out[0] = 1,
            Expr::Test(Test::Exactly(sym)) => {
                let mut n = message.nodes.first_of(sym);
                while n != NodeIx::MAX {
                    insert(out, n);
                    n = message.nodes.next_of(n);
                }
            }
            Expr::Test(test) => {
                for (n, r) in recs.iter().enumerate().skip(1) {
                    out[n / 64] |= (test.passes(message.names, r.sym) as u64) << (n % 64);
                }
            }
            Expr::Valued { of, check } => {
                let (values, check) = (&mut self.values, dag.check(check));
                if let Some(of) = set(of) {
                    of.each(|n| {
                        if values.pass(message, n, check) {
                            insert(out, n);
                        }
                    });
                }
            }
            Expr::Compared { of, check } => {
                let (extremes, check) = (&self.extremes[known[of as usize].at as usize], dag.check(check));
                extremes.iter().filter(|e| e.pass(check)).for_each(|e| insert(out, e.node));
            }
            Expr::And(list) => {
                let mut first = true;
                for &p in dag.list(list) {
                    match set(p) {
                        None => {
                            out.fill(0);
                            break;
                        }
                        Some(Set::Bits(set)) if first => out.copy_from_slice(set),
                        Some(set) if first => set.each(|n| insert(out, n)),
                        Some(set) => set.retain_in(out),
                    }
                    first = false;
                }
            }
            Expr::Or(list) => {
                for set in dag.list(list).iter().filter_map(|&p| set(p)) {
                    match set {
                        Set::Bits(set) => out.iter_mut().zip(set).for_each(|(a, b)| *a |= b),
                        Set::List(list) => list.iter().for_each(|&n| insert(out, n)),
                    }
                }
            }
            Expr::Not(of) => {
                fill(out, 0, self.nodes);
                match set(of) {
                    None => {}
                    Some(Set::Bits(set)) => out.iter_mut().zip(set).for_each(|(a, b)| *a &= !b),
                    Some(Set::List(list)) => list.iter().for_each(|&n| out[n as usize / 64] &= !(1 << (n % 64))),
                }
            }
            Expr::Above { of, with, deep } => {
                let mut above = |n: NodeIx| {
                    let mut n = n;
                    while n != 0 {
                        n = recs[n as usize].parent;
                        if !deep || has(out, n) {
                            return insert(out, n);
                        }
                        insert(out, n);
                    }
                };
                match set(of) {
                    None => {}
                    Some(of) if with == EVERYTHING => of.each(above),
                    Some(of) => match (of, set(with)) {
                        (_, None) => {}
                        (Set::Bits(of), Some(Set::Bits(with))) => each_of_both(of, with, above),
                        (of, Some(with)) => of.each(|n| {
                            if with.has(n) {
                                above(n);
                            }
                        }),
                    },
                }
            }
            Expr::Below { from, deep, to } => {
                // `to` is not known if there is nothing to start from
                if let Some((from, to)) = set(from).and_then(|from| Some((from, set(to)?))) {
                    if deep {
                        let mut covered = 0;
                        from.each(|n| {
                            let end = recs[n as usize].end;
                            if end > covered {
                                fill(out, n as usize + 1, end as usize);
                                covered = end;
                            }
                        });
                        to.retain_in(out);
                    } else if to.size() > 4 * from.size() {
                        // few parents of many children in all, as with `*`
                        from.each(|n| {
                            let end = recs[n as usize].end;
                            let mut child = n + 1;
                            while child < end {
                                if to.has(child) {
                                    insert(out, child);
                                }
                                child = recs[child as usize].end;
                            }
                        });
                    } else {
                        to.each(|n| {
                            if n != 0 && from.has(recs[n as usize].parent) {
                                insert(out, n);
                            }
                        });
                    }
                }
            }
        }
        if out.iter().all(|&w| w == 0) {
            self.words.truncate(start);
            return EMPTY;
        }
        start as u32
    }
}

/// Is the check for a value by which nodes are linked?
#[inline]
fn is_looked_up(message: Message<'_>, check: Check) -> bool {
    matches!(check, Check { question: Question::Is(_), normalize: false }) && message.nodes.is_indexed()
}

/// Sets that a node is in if a filter with positions, which count in the set `of`, passes it.
fn conjuncts(dag: &Dag, of: ExprId, filter: ExprId) -> Vec<ExprId> {
    let mut found = vec![of];
    if let Expr::And(list) = dag.get(filter) {
        found.extend(dag.list(list).iter().filter(|&&p| !dag.counts(p)));
    }
    found
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

/// What is known of the values of nodes.
#[derive(Default)]
pub(super) struct Values {
    strings: Vec<u32>,
    numbers: Vec<u64>,
    /// By name: its nodes, sorted by their numbers.
    by_number: HashMap<Sym, Box<[(u64, NodeIx)]>>,
    /// Nodes that have been climbed to, as bits; none between climbs.
    seen: Vec<u64>,
    climbed: Vec<NodeIx>,
    scratch: Vec<u8>,
}

/// A NaN that `number` does not give.
const UNREAD_NUMBER: u64 = u64::MAX;

impl Values {
    fn begin(&mut self) {
        self.strings.clear();
        self.numbers.clear();
        self.by_number.clear();
    }

    /// Appends the nodes of a name whose number is this one.
    pub(super) fn equal(&mut self, message: Message<'_>, sym: Sym, x: f64, out: &mut Vec<NodeIx>) {
        if x.is_nan() {
            return;
        }
        let key = |x: f64| (x + 0.0).to_bits();
        if !self.by_number.contains_key(&sym) {
            let mut nodes = vec![];
            let mut n = message.nodes.first_of(sym);
            while n != NodeIx::MAX {
                nodes.push((key(self.number(message, n)), n));
                n = message.nodes.next_of(n);
            }
            nodes.sort_unstable();
            self.by_number.insert(sym, nodes.into());
        }
        let nodes = &self.by_number[&sym];
        let from = nodes.partition_point(|&(k, _)| k < key(x));
        out.extend(nodes[from..].iter().take_while(|&&(k, _)| k == key(x)).map(|&(_, n)| n));
    }

    /// Calls `f` with the parents (all ancestors) of nodes, each once: with what came with the first node below it.
    fn climb<T: Copy>(
        &mut self,
        recs: &[NodeRec],
        ends: impl Iterator<Item = (NodeIx, T)>,
        deep: bool,
        mut f: impl FnMut(NodeIx, T),
    ) {
        self.seen.resize(self.seen.len().max(recs.len() / 64 + 1), 0);
        self.climbed.clear();
        for (mut n, with) in ends {
            while n != 0 {
                n = recs[n as usize].parent;
                if has(&self.seen, n) {
                    break;
                }
                insert(&mut self.seen, n);
                self.climbed.push(n);
                f(n, with);
                if !deep {
                    break;
                }
            }
        }
        self.climbed.iter().for_each(|&n| self.seen[n as usize / 64] = 0);
    }

    /// The least and the greatest number that steps lead to, by the nodes that they lead there from.
    fn extremes(&mut self, dag: &Dag, message: Message<'_>, steps: &[u32]) -> Vec<Extremes> {
        let recs = &message.nodes.recs;
        let mut found: Vec<Extremes> = vec![];
        let mut add = |me: &mut Values, node: NodeIx| {
            let x = me.number(message, node);
            if !x.is_nan() {
                found.push(Extremes { node, least: x, greatest: x });
            }
        };
        match steps.last().map(|&step| dag.test_of(step / 2)) {
            Some(Test::Exactly(sym)) => {
                let mut n = message.nodes.first_of(sym);
                while n != NodeIx::MAX {
                    add(self, n);
                    n = message.nodes.next_of(n);
                }
            }
            Some(test) => {
                let passes = |n: &NodeIx| test.passes(message.names, recs[*n as usize].sym);
                (1..recs.len() as NodeIx).filter(passes).for_each(|n| add(self, n));
            }
            None => {}
        }
        for (k, step) in steps.iter().enumerate().rev() {
            if step % 2 == 0 {
                found.iter_mut().for_each(|e| e.node = recs[e.node as usize].parent);
            } else {
                self.spread(recs, &mut found);
            }
            found.sort_unstable_by_key(|e| e.node);
            found.dedup_by(|b, a| {
                let same = a.node == b.node;
                if same {
                    (a.least, a.greatest) = (a.least.min(b.least), a.greatest.max(b.greatest));
                }
                same
            });
            if k > 0 {
                let test = dag.test_of(steps[k - 1] / 2);
                found.retain(|e| test.passes(message.names, recs[e.node as usize].sym));
            }
        }
        found
    }

    /// Replaces nodes by all their ancestors, with the extremes of what is below each.
    fn spread(&mut self, recs: &[NodeRec], found: &mut Vec<Extremes>) {
        // in this order, the first node from which an ancestor is reached has its extreme
        let mut above = vec![];
        found.sort_unstable_by(|a, b| a.least.total_cmp(&b.least));
        let ends = found.iter().map(|e| (e.node, e.least));
        self.climb(recs, ends, true, |node, least| above.push(Extremes { node, least, greatest: least }));
        above.sort_unstable_by_key(|e| e.node);
        found.sort_unstable_by(|a, b| b.greatest.total_cmp(&a.greatest));
        let ends = found.iter().map(|e| (e.node, e.greatest));
        let mut greatest = vec![];
        self.climb(recs, ends, true, |node, x| greatest.push((node, x)));
        greatest.sort_unstable_by_key(|g| g.0);
        above.iter_mut().zip(greatest).for_each(|(e, (_, x))| e.greatest = x);
        *found = above;
    }

    #[inline]
    pub(super) fn pass(&mut self, message: Message<'_>, n: NodeIx, check: Check) -> bool {
        match check.question {
            Question::Is(want) if !check.normalize => self.string(message, n) == want,
            Question::IsNot(want) if !check.normalize => self.string(message, n) != want,
            Question::Number(op, want) if !check.normalize => op.holds(self.number(message, n), f64::from_bits(want)),
            _ => pass(message, message.nodes.value(message.src, n, &mut self.scratch), check),
        }
    }

    /// The number of the constant that a node's value is, if it is one.
    fn string(&mut self, message: Message<'_>, n: NodeIx) -> u32 {
        let found = message.nodes.recs[n as usize].constant;
        if found != UNREAD {
            return found;
        }
        if self.strings.is_empty() {
            self.strings.resize(message.nodes.len(), UNREAD);
        }
        let known = &mut self.strings[n as usize];
        if *known == UNREAD {
            let value = message.nodes.value(message.src, n, &mut self.scratch);
            *known = message.constants.find(value).unwrap_or(NO_CONSTANT);
        }
        *known
    }

    fn number(&mut self, message: Message<'_>, n: NodeIx) -> f64 {
        if self.numbers.is_empty() {
            self.numbers.resize(message.nodes.len(), UNREAD_NUMBER);
        }
        let known = &mut self.numbers[n as usize];
        if *known == UNREAD_NUMBER {
            *known = number(message.nodes.value(message.src, n, &mut self.scratch)).to_bits();
        }
        f64::from_bits(*known)
    }
}

fn pass(message: Message<'_>, value: &[u8], check: Check) -> bool {
    if check.normalize {
        return pass(message, &normalize_space(value), Check { normalize: false, ..check });
    }
    let constant = |id: u32| message.constants.get(id);
    match check.question {
        Question::Is(want) => value == constant(want),
        Question::IsNot(want) => value != constant(want),
        Question::Contains(want) => memchr::memmem::find(value, constant(want)).is_some(),
        Question::StartsWith(want) => value.starts_with(constant(want)),
        Question::Number(op, want) => op.holds(number(value), f64::from_bits(want)),
        Question::Length(op, want) => op.holds(length(value), f64::from_bits(want)),
    }
}
