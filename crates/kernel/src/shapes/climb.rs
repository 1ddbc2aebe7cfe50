//! Patterns of one subscription, branch by branch. Most patterns are *stars*: paths that meet in one node, the centre,
//! and some of them lead to values. Few nodes have the very value that a subscription asks for, so such a branch is
//! climbed from these up to the centre, and everything else that the subscription asks is asked there. What many
//! subscriptions have in common, the way to the centre and branches that ask for no value, are sets that are computed
//! once per message ([`shared`](super::shared)); the rest lies with the subscription, so that reading it is one look into
//! memory.

use super::bitset::has;
use super::expr::{check, Check, Dag, ExprId, Question, EVERYTHING};
use super::nodes::NodeIx;
use super::program::{Node, Op, Pred, Test, Twig, Value};
use super::search::{Message, Row};
use super::shared::Sets;
use super::star::has_slots;
use crate::names::is_element;

/// A star while it is made: the sets that its centre is in, those with constants of the subscription, and its branches
/// that lead to equal values.
#[derive(Default)]
struct Star {
    sets: Vec<ExprId>,
    tests: Vec<ExprId>,
    climbs: Vec<u32>,
}

/// Appends the stars that a pattern is, and answers whether it is any. Each is its length, the number of sets, these, the
/// number of sets with constants, these, and its branches.
pub(crate) fn stars(dag: &mut Dag, pred: &Pred, row: Row<'_>, out: &mut Vec<u32>) -> bool {
    let Pred::Exists(Twig { nodes }) = pred else { return false };
    let mut centres = (0..nodes.len()).filter(|&i| !nodes[i].filters.is_empty());
    let (Some(mut centre), next) = (centres.next(), centres.next()) else { return false };
    if nodes.iter().any(|n| n.positional) {
        return false;
    }
    if let (0, Some(next), true) = (centre, next, is_root(&nodes[0])) {
        // there is but one, so what is asked of it is asked apart
        if next + 1 < nodes.len() || nodes[next].filters.len() > 1 {
            Star::new(dag, &nodes[..1], &[], row).write(out);
            centre = next;
        }
    }
    Star::new(dag, &nodes[..=centre], &nodes[centre + 1..], row).write(out);
    true
}

/// Is it the step to the root element?
fn is_root(node: &Node) -> bool {
    let of_elements = match node.test {
        Test::Exactly(sym) | Test::Wildcard(sym) => is_element(sym),
        Test::Element => true,
        Test::Attribute | Test::Node => false,
    };
    of_elements && !node.deep
}

impl Star {
    fn new(dag: &mut Dag, trunk: &[Node], below: &[Node], row: Row<'_>) -> Star {
        let mut star = Star::default();
        star.sets.push(dag.trunk(trunk));
        let centre = &trunk[trunk.len() - 1];
        let test = dag.test(centre.test);
        for filter in &centre.filters {
            star.filter(dag, test, filter, row);
        }
        if !below.is_empty() {
            star.path(dag, below, row);
        }
        star
    }

    fn filter(&mut self, dag: &mut Dag, test: ExprId, filter: &Pred, row: Row<'_>) {
        match filter {
            Pred::And(ps) => ps.iter().for_each(|p| self.filter(dag, test, p, row)),
            Pred::Exists(twig) => self.path(dag, &twig.nodes, row),
            _ => {
                if !self.value(dag, &[], filter, row) {
                    let set = dag.pred(filter, test, row);
                    if has_slots(filter) { &mut self.tests } else { &mut self.sets }.push(set);
                }
            }
        }
    }

    fn path(&mut self, dag: &mut Dag, nodes: &[Node], row: Row<'_>) {
        if let [inner @ .., Node { filters, .. }] = nodes {
            if let ([filter], true) = (&filters[..], inner.iter().all(|n| n.filters.is_empty())) {
                if self.value(dag, nodes, filter, row) {
                    return;
                }
            }
        }
        let set = dag.leading_to(nodes, None, row);
        let varies = nodes.iter().any(|n| n.filters.iter().any(has_slots));
        if varies { &mut self.tests } else { &mut self.sets }.push(set);
    }

    /// A comparison of what `nodes`, whatever their filters, and its own path lead to. False if it is not climbed.
    fn value(&mut self, dag: &mut Dag, nodes: &[Node], pred: &Pred, row: Row<'_>) -> bool {
        let Pred::Compare { value, .. } = pred else { return false };
        let Value::Str { twig, first: false, normalize: false } = value else { return false };
        let Some(Check { question, .. }) = check(pred, row) else { return false };
        if twig.nodes.iter().any(|n| !n.filters.is_empty()) {
            return false;
        }
        let named = matches!(twig.nodes.last().or(nodes.last()), Some(Node { test: Test::Exactly(_), .. }));
        match question {
            Question::Is(want) => self.climbs.extend([CONSTANT, want, 0]),
            Question::Number(Op::Eq, x) if named => self.climbs.extend([NUMBER, x as u32, (x >> 32) as u32]),
            _ => return false, // too many nodes to begin with
        }
        self.climbs.push((nodes.len() + twig.nodes.len()) as u32);
        for node in nodes.iter().chain(&twig.nodes) {
            let step = dag.test(node.test) * 2 + node.deep as u32;
            self.climbs.push(step);
        }
        true
    }

    fn write(mut self, out: &mut Vec<u32>) {
        if self.climbs.is_empty() {
            self.sets.append(&mut self.tests);
        }
        let at = out.len();
        out.push(0);
        for mut sets in [self.sets, self.tests] {
            sets.sort_unstable();
            sets.dedup();
            sets.retain(|&set| set != EVERYTHING);
            out.push(sets.len() as u32);
            out.append(&mut sets);
        }
        out.append(&mut self.climbs);
        out[at] = (out.len() - at - 1) as u32;
    }
}

/// What a branch asks for: a constant by its number, or a number by its bits.
const CONSTANT: u32 = 0;
const NUMBER: u32 = 1;

/// Working memory.
#[derive(Default)]
pub(crate) struct Climber {
    centres: Vec<NodeIx>,
    from: Vec<NodeIx>,
    to: Vec<NodeIx>,
    /// Nodes in `to`, as bits; none between steps.
    seen: Vec<u64>,
}

impl Climber {
    /// Does the document satisfy all the stars?
    pub(crate) fn holds(&mut self, sets: &mut Sets, dag: &Dag, message: Message<'_>, mut stars: &[u32]) -> bool {
        while let Some((&len, rest)) = stars.split_first() {
            let (star, others) = rest.split_at(len as usize);
            if !self.star(sets, dag, message, star) {
                return false;
            }
            stars = others;
        }
        true
    }

    fn star(&mut self, sets: &mut Sets, dag: &Dag, message: Message<'_>, star: &[u32]) -> bool {
        let (ids, rest) = star[1..].split_at(star[0] as usize);
        let (tests, mut climbs) = rest[1..].split_at(rest[0] as usize);
        if climbs.is_empty() {
            sets.trim();
            return sets.meet(dag, message, ids);
        }
        if !sets.know(dag, message, ids) {
            return false;
        }
        let mut first = true;
        while let [how, low, high, len, rest @ ..] = climbs {
            let (steps, others) = rest.split_at(*len as usize);
            self.begin(sets, dag, message, (*how, *low, *high), steps);
            self.climb(dag, message, steps);
            if first {
                self.centres.clear();
                self.centres.extend(self.from.iter().copied().filter(|&n| sets.are_known_in(ids, n)));
            } else if self.from.len() < 16 {
                self.centres.retain(|n| self.from.contains(n));
            } else {
                self.from.sort_unstable();
                self.centres.retain(|n| self.from.binary_search(n).is_ok());
            }
            if self.centres.is_empty() {
                return false;
            }
            first = false;
            climbs = others;
        }
        self.centres.iter().any(|&n| sets.are_in(dag, message, tests, n))
    }

    /// The nodes that a branch ends in.
    fn begin(
        &mut self,
        sets: &mut Sets,
        dag: &Dag,
        message: Message<'_>,
        (how, low, high): (u32, u32, u32),
        steps: &[u32],
    ) {
        let nodes = message.nodes;
        let test = steps.last().map(|&step| dag.test_of(step / 2));
        let passes = |n: NodeIx| test.is_none_or(|t| t.passes(message.names, nodes.recs[n as usize].sym));
        self.from.clear();
        if how == CONSTANT {
            self.from.extend(nodes.with(low).filter(|&n| passes(n)));
            let check = Check { question: Question::Is(low), normalize: false };
            let unread = nodes.unread(test.unwrap_or(Test::Node)).iter().copied();
            self.from.extend(unread.filter(|&n| passes(n) && sets.values.pass(message, n, check)));
        } else if let Some(Test::Exactly(sym)) = test {
            let x = f64::from_bits(low as u64 | (high as u64) << 32);
            sets.values.equal(message, sym, x, &mut self.from);
        }
    }

    /// From the ends of a branch to the nodes that it may begin at. Each node is passed once per step at most.
    fn climb(&mut self, dag: &Dag, message: Message<'_>, steps: &[u32]) {
        let recs = &message.nodes.recs;
        let words = recs.len() / 64 + 1;
        if self.seen.len() < words {
            self.seen.resize(words, 0);
        }
        for (k, step) in steps.iter().enumerate().rev() {
            self.to.clear();
            for &n in &self.from {
                let mut n = recs[n as usize].parent;
                // what is seen has been climbed from
                while n != 0 && !has(&self.seen, n) {
                    self.seen[n as usize / 64] |= 1 << (n % 64);
                    self.to.push(n);
                    if step % 2 == 0 {
                        break;
                    }
                    n = recs[n as usize].parent;
                }
            }
            self.to.iter().for_each(|&n| self.seen[n as usize / 64] = 0);
            if k > 0 {
                let test = dag.test_of(steps[k - 1] / 2);
                self.to.retain(|&n| test.passes(message.names, recs[n as usize].sym));
            }
            std::mem::swap(&mut self.from, &mut self.to);
        }
    }
}
