//! Patterns over one message, set at a time: each expression that the patterns are made of is computed when the first
//! of them asks for it, and once. What a candidate costs is then little more than to look up a few sets of nodes and to
//! see whether they meet; the worst that it can cost is the size of the message times the size of the pattern.

use super::bitset::{each, each_of_both, each_within, fill, has, insert, size};
use super::expr::{Check, Dag, Expr, ExprId, Question, EVERYTHING};
use super::nodes::{NodeIx, NO_CONSTANT, UNREAD};
use super::program::{Node, Pred, Test, Twig};
use super::search::{length, normalize_space, position_holds, Message, Place, Row};
use crate::values::number::number;

/// Words of sets kept per message: past it they are computed anew, which only huge messages see.
const MAX_WORDS: usize = 1 << 22;

/// One pattern alone, by the same means.
pub struct Shared;

impl Shared {
    /// Does a predicate hold for the document?
    pub fn holds(message: Message<'_>, pred: &Pred, row: Row<'_>) -> bool {
        let mut dag = Dag::default();
        let pattern = dag.pattern(pred, row);
        let mut sets = Sets::default();
        sets.begin(&dag, message.nodes.len());
        sets.holds(&dag, message, pattern)
    }

    /// The nodes that the twig finds from the document, in document order.
    pub fn select(message: Message<'_>, twig: &Twig, row: Row<'_>) -> Vec<NodeIx> {
        let mut found = vec![];
        Self::members(message, |dag| dag.select(twig, row), |n| found.push(n));
        found
    }

    /// By node: does it satisfy a predicate?
    pub fn satisfying(message: Message<'_>, pred: &Pred, row: Row<'_>) -> Vec<bool> {
        let mut found = vec![false; message.nodes.len()];
        Self::members(message, |dag| dag.satisfying(pred, row), |n| found[n as usize] = true);
        found
    }

    /// By node: does it pass a step's test and filters?
    pub fn passing(message: Message<'_>, step: &Node, row: Row<'_>) -> Vec<bool> {
        let mut found = vec![false; message.nodes.len()];
        Self::members(message, |dag| dag.passing(step, row), |n| found[n as usize] = true);
        found
    }

    fn members(message: Message<'_>, make: impl FnOnce(&mut Dag) -> ExprId, f: impl FnMut(NodeIx)) {
        let mut dag = Dag::default();
        let id = make(&mut dag);
        let mut sets = Sets::default();
        sets.begin(&dag, message.nodes.len());
        if let Some(at) = sets.set(&dag, message, id) {
            each(&sets.words[at..at + sets.width], f);
        }
    }
}

/// A set that is computed: where it lies, or that it is empty.
#[derive(Clone, Copy, Default)]
struct Known {
    stamp: u32,
    at: u32,
}

const EMPTY: u32 = u32::MAX;

/// The sets of one message.
#[derive(Default)]
pub struct Sets {
    stamp: u32,
    nodes: usize,
    /// Words per set.
    width: usize,
    known: Vec<Known>,
    words: Vec<u64>,
    /// Expressions to compute, those they need above them.
    todo: Vec<ExprId>,
    pub(super) values: Values,
}

impl Sets {
    /// A message begins, for the patterns that there are.
    pub fn begin(&mut self, dag: &Dag, nodes: usize) {
        if self.known.len() < dag.size() {
            self.known.resize(dag.size() + dag.size() / 2, Known::default());
        }
        self.nodes = nodes;
        self.width = nodes.div_ceil(64);
        self.values.begin();
        self.forget();
    }

    #[cold]
    fn forget(&mut self) {
        self.words.clear();
        if self.stamp == u32::MAX {
            self.known.fill(Known::default());
            self.stamp = 0;
        }
        self.stamp += 1;
    }

    /// Does the document satisfy a pattern?
    pub fn holds(&mut self, dag: &Dag, message: Message<'_>, pattern: ExprId) -> bool {
        match dag.get(pattern) {
            Expr::Meet(list) => self.meet(dag, message, dag.list(list)),
            Expr::And(list) => dag.list(list).iter().all(|&p| self.holds(dag, message, p)),
            Expr::Or(list) => dag.list(list).iter().any(|&p| self.holds(dag, message, p)),
            Expr::Not(p) => !self.holds(dag, message, p),
            _ => self.set(dag, message, pattern).is_some_and(|at| self.words[at] & 1 != 0),
        }
    }

    /// Do the sets have a node in common?
    #[inline]
    pub fn meet(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> bool {
        if !self.know(dag, message, list) {
            return false;
        }
        let set = |part: ExprId| &self.words[self.known[part as usize].at as usize..][..self.width];
        match *list {
            [] | [_] => true,
            [a, b] => set(a).iter().zip(set(b)).any(|(x, y)| x & y != 0),
            [a, b, c] => set(a).iter().zip(set(b)).zip(set(c)).any(|((x, y), z)| x & y & z != 0),
            _ => (0..self.width).any(|i| list.iter().fold(!0, |x, &part| x & set(part)[i]) != 0),
        }
    }

    /// Computes the sets; false if one is empty.
    #[inline]
    pub fn know(&mut self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> bool {
        if self.words.len() > MAX_WORDS {
            self.forget();
        }
        list.iter().all(|&part| self.set(dag, message, part).is_some())
    }

    /// Is a node in all of the sets, which are known?
    #[inline(always)]
    pub fn are_in(&self, list: &[ExprId], n: NodeIx) -> bool {
        list.iter().all(|&part| has(&self.words[self.known[part as usize].at as usize..], n))
    }

    /// Has the set a single node?
    #[inline]
    pub fn is_single(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> bool {
        if self.words.len() > MAX_WORDS {
            self.forget();
        }
        self.set(dag, message, id).is_some_and(|at| size(&self.words[at..at + self.width]) == 1)
    }

    #[inline(always)]
    fn known(&self, id: ExprId) -> Option<u32> {
        let k = self.known[id as usize];
        (k.stamp == self.stamp).then_some(k.at)
    }

    /// Where the set lies, unless it is empty.
    #[inline(always)]
    fn set(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> Option<usize> {
        let at = match self.known(id) {
            Some(at) => at,
            None => self.find(dag, message, id),
        };
        (at != EMPTY).then_some(at as usize)
    }

    #[inline(never)]
    fn find(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> u32 {
        // a list and not recursion, for paths can be long
        let base = self.todo.len();
        self.todo.push(id);
        while let Some(&top) = self.todo[base..].last() {
            match self.next_part(dag, dag.get(top)) {
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
    fn next_part(&self, dag: &Dag, expr: Expr) -> Option<ExprId> {
        let unknown = |id: ExprId| self.known(id).is_none().then_some(id);
        match expr {
            Expr::Nothing | Expr::Everything | Expr::Document | Expr::Test(_) | Expr::Position { .. } => None,
            Expr::Valued { of, .. } | Expr::Not(of) => unknown(of),
            Expr::Above { of, with: EVERYTHING, .. } => unknown(of),
            Expr::Above { of, with, .. } => match self.known(of) {
                None => Some(of),
                Some(EMPTY) => None,
                Some(_) => unknown(with),
            },
            Expr::Or(list) => dag.list(list).iter().find_map(|&p| unknown(p)),
            Expr::And(list) | Expr::Meet(list) => {
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
                Some(_) => unknown(to),
            },
            Expr::Counted { of, parts, .. } => match self.known(of) {
                None => Some(of),
                Some(EMPTY) => None,
                Some(_) => dag.list(parts).iter().find_map(|&p| unknown(p)),
            },
            Expr::First { of, steps, .. } | Expr::Count { of, steps, .. } => {
                unknown(of).or_else(|| dag.list(steps).iter().find_map(|&s| unknown(s / 2)))
            }
        }
    }

    /// Computes a set whose parts are known; answers where it lies.
    fn compute(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> u32 {
        let start = self.words.len();
        self.words.resize(start + self.width, 0);
        let (old, out) = self.words.split_at_mut(start);
        let (known, width, recs) = (&self.known, self.width, &message.nodes.recs);
        let old = &*old;
        let set = |id: ExprId| match known[id as usize].at {
            EMPTY => None,
            at => Some(&old[at as usize..at as usize + width]),
        };
        match expr {
            Expr::Nothing | Expr::Position { .. } => {}
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
                let of = set(of).unwrap_or(&[]);
                match check.question {
                    Question::Is(want) if message.nodes.is_indexed() && !check.normalize && !of.is_empty() => {
                        let mut n = message.nodes.first_with(want);
                        while n != NodeIx::MAX {
                            if has(of, n) {
                                insert(out, n);
                            }
                            n = message.nodes.next_with(n);
                        }
                        for &n in message.nodes.unread() {
                            if has(of, n) && values.pass(message, n, check) {
                                insert(out, n);
                            }
                        }
                    }
                    _ => each(of, |n| {
                        if values.pass(message, n, check) {
                            insert(out, n);
                        }
                    }),
                }
            }
            Expr::And(list) => {
                let mut first = true;
                for &p in dag.list(list) {
                    match set(p) {
                        None => {
                            out.fill(0);
                            break;
                        }
                        Some(set) if first => out.copy_from_slice(set),
                        Some(set) => out.iter_mut().zip(set).for_each(|(a, b)| *a &= b),
                    }
                    first = false;
                }
            }
            Expr::Or(list) => {
                for set in dag.list(list).iter().filter_map(|&p| set(p)) {
                    out.iter_mut().zip(set).for_each(|(a, b)| *a |= b);
                }
            }
            Expr::Not(of) => {
                fill(out, 0, self.nodes);
                if let Some(set) = set(of) {
                    out.iter_mut().zip(set).for_each(|(a, b)| *a &= !b);
                }
            }
            Expr::Above { of, with, deep } => {
                let above = |n: NodeIx| {
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
                    Some(of) if with == EVERYTHING => each(of, above),
                    Some(of) => set(with).map_or((), |with| each_of_both(of, with, above)),
                }
            }
            Expr::Below { from, deep, to } => {
                // `to` is not known if there is nothing to start from
                if let Some((from, to)) = set(from).and_then(|from| Some((from, set(to)?))) {
                    if deep {
                        let mut covered = 0;
                        each(from, |n| {
                            let end = recs[n as usize].end;
                            if end > covered {
                                fill(out, n as usize + 1, end as usize);
                                covered = end;
                            }
                        });
                        out.iter_mut().zip(to).for_each(|(a, b)| *a &= b);
                    } else if size(to) > 4 * size(from) {
                        // few parents of many children in all, as with `*`
                        each(from, |n| {
                            let end = recs[n as usize].end;
                            let mut child = n + 1;
                            while child < end {
                                if has(to, child) {
                                    insert(out, child);
                                }
                                child = recs[child as usize].end;
                            }
                        });
                    } else {
                        each(to, |n| {
                            if n != 0 && has(from, recs[n as usize].parent) {
                                insert(out, n);
                            }
                        });
                    }
                }
            }
            Expr::Counted { of, filter, .. } => {
                if let Some(of) = set(of) {
                    count_siblings(message, of, |n, place| {
                        if holds_at(dag, &set, filter, n, place) {
                            insert(out, n);
                        }
                    });
                }
            }
            Expr::First { of, steps, check } => {
                let (values, check) = (&mut self.values, dag.check(check));
                let empty = pass(message, b"", check);
                each_context(message, set(of), dag.list(steps), &set, |n, found| {
                    if found.first().map_or(empty, |&f| values.pass(message, f, check)) {
                        insert(out, n);
                    }
                });
            }
            Expr::Count { of, steps, check } => {
                let Question::Number(op, number) = dag.check(check).question else { return EMPTY };
                let number = f64::from_bits(number);
                each_context(message, set(of), dag.list(steps), &set, |n, found| {
                    if op.holds(found.len() as f64, number) {
                        insert(out, n);
                    }
                });
            }
            Expr::Meet(list) => {
                let sets: Option<Vec<&[u64]>> = dag.list(list).iter().map(|&p| set(p)).collect();
                if let Some(sets) = sets {
                    out[0] = (0..width).any(|i| sets.iter().fold(!0, |x, s| x & s[i]) != 0) as u64;
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

/// Is a node among those that a filter with positions passes, given its place?
fn holds_at<'a>(
    dag: &Dag,
    set: &impl Fn(ExprId) -> Option<&'a [u64]>,
    filter: ExprId,
    n: NodeIx,
    place: Place,
) -> bool {
    if !dag.counts(filter) {
        return set(filter).is_some_and(|s| has(s, n));
    }
    match dag.get(filter) {
        Expr::And(list) => dag.list(list).iter().all(|&p| holds_at(dag, set, p, n, place)),
        Expr::Or(list) => dag.list(list).iter().any(|&p| holds_at(dag, set, p, n, place)),
        Expr::Not(p) => !holds_at(dag, set, p, n, place),
        Expr::Position { of, op, n: k } => position_holds(of, op, k as f64, place),
        _ => false,
    }
}

/// Calls `f` for the members of a set with their place among their siblings in it.
fn count_siblings(message: Message<'_>, set: &[u64], mut f: impl FnMut(NodeIx, Place)) {
    let recs = &message.nodes.recs;
    let mut last = vec![0u32; recs.len()];
    each(set, |n| last[recs[n as usize].parent as usize] += 1);
    let mut position = vec![0u32; recs.len()];
    each(set, |n| {
        let parent = recs[n as usize].parent as usize;
        position[parent] += 1;
        f(n, (position[parent], last[parent]));
    });
}

/// Calls `f` for the members of a set, each with what the steps find from it, in document order: at the cost of its
/// subtree, for what they find depends on where they begin.
fn each_context<'a>(
    message: Message<'_>,
    of: Option<&[u64]>,
    steps: &[u32],
    set: &impl Fn(ExprId) -> Option<&'a [u64]>,
    mut f: impl FnMut(NodeIx, &[NodeIx]),
) {
    let recs = &message.nodes.recs;
    let mut found = vec![];
    let mut next = vec![];
    each(of.unwrap_or(&[]), |context| {
        found.clear();
        found.push(context);
        for &step in steps {
            next.clear();
            let Some(to) = set(step / 2) else {
                found.clear();
                break;
            };
            let mut covered = 0;
            for &n in &found {
                let end = recs[n as usize].end;
                if step % 2 == 0 {
                    let mut child = n + 1;
                    while child < end {
                        if has(to, child) {
                            next.push(child);
                        }
                        child = recs[child as usize].end;
                    }
                } else if end > covered {
                    each_within(to, n + 1, end, |m| next.push(m));
                    covered = end;
                }
            }
            // children of nested nodes come out of order
            next.sort_unstable();
            std::mem::swap(&mut found, &mut next);
        }
        f(context, &found);
    });
}

/// What is known of the values of nodes.
#[derive(Default)]
pub(super) struct Values {
    strings: Vec<u32>,
    numbers: Vec<u64>,
    scratch: Vec<u8>,
}

/// A NaN that `number` does not give.
const UNREAD_NUMBER: u64 = u64::MAX;

impl Values {
    fn begin(&mut self) {
        self.strings.clear();
        self.numbers.clear();
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
