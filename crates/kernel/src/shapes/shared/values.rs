//! The values of a message's nodes as patterns ask for them: constants and numbers, each found out once.

use crate::names::Sym;
use crate::shapes::bitset::{has, insert};
use crate::shapes::expr::{Check, Dag, Question};
use crate::shapes::nodes::{NodeIx, NodeRec, NO_CONSTANT, UNREAD};
use crate::shapes::program::{Op, Test};
use crate::shapes::search::Message;
use crate::values::constants::canonical;
use crate::values::number::number;
use crate::values::strings::{length, normalize_space};
use hashbrown::HashMap;

/// The least and the greatest of the numbers that steps lead to from a node.
#[derive(Clone, Copy)]
pub(super) struct Extremes {
    pub(super) node: NodeIx,
    least: f64,
    greatest: f64,
}

impl Extremes {
    /// Does some number pass, if the check is a range?
    pub(super) fn pass(&self, check: Check) -> bool {
        match check.question {
            Question::Number(op @ (Op::Lt | Op::Le), want) => op.holds(self.least, f64::from_bits(want)),
            Question::Number(op, want) => op.holds(self.greatest, f64::from_bits(want)),
            _ => false,
        }
    }
}

/// The extremes that lie at a place.
pub(super) fn extremes_at<'a>(all: &'a [Extremes], spans: &[(u32, u32)], at: u32) -> &'a [Extremes] {
    let (from, to) = spans[at as usize];
    &all[from as usize..to as usize]
}

/// What is known of the values of nodes.
#[derive(Default)]
pub(in crate::shapes) struct Values {
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
    pub(super) fn begin(&mut self) {
        self.strings.clear();
        self.numbers.clear();
        self.by_number.clear();
    }

    /// Appends the nodes of a name whose number is this one.
    pub(in crate::shapes) fn equal(&mut self, message: Message<'_>, sym: Sym, x: f64, out: &mut Vec<NodeIx>) {
        if x.is_nan() {
            return;
        }
        if !self.by_number.contains_key(&sym) {
            let mut nodes: Vec<_> = message.nodes.of(sym).map(|n| (canonical(self.number(message, n)), n)).collect();
            nodes.sort_unstable();
            self.by_number.insert(sym, nodes.into());
        }
        let nodes = &self.by_number[&sym];
        let from = nodes.partition_point(|&(key, _)| key < canonical(x));
        out.extend(nodes[from..].iter().take_while(|&&(key, _)| key == canonical(x)).map(|&(_, n)| n));
    }

    /// Calls `f` with the parents (all ancestors) of nodes, each once: with what came with the first node below it.
    pub(super) fn climb<T: Copy>(
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

    /// Appends the least and the greatest number that steps lead to, by the nodes that they lead there from.
    pub(super) fn extremes(&mut self, dag: &Dag, message: Message<'_>, steps: &[u32], out: &mut Vec<Extremes>) {
        let recs = &message.nodes.recs;
        let from = out.len();
        let mut add = |node: NodeIx| {
            let x = self.number(message, node);
            if !x.is_nan() {
                out.push(Extremes { node, least: x, greatest: x });
            }
        };
        match steps.last().map(|&step| dag.test_of(step / 2)) {
            Some(Test::Exactly(sym)) => message.nodes.of(sym).for_each(add),
            Some(test) => {
                let passes = |n: &NodeIx| test.passes(message.names, recs[*n as usize].sym);
                (1..recs.len() as NodeIx).filter(passes).for_each(&mut add);
            }
            None => {}
        }
        for (k, step) in steps.iter().enumerate().rev() {
            let found = &mut out[from..];
            if step % 2 == 0 {
                found.iter_mut().for_each(|e| e.node = recs[e.node as usize].parent);
            } else {
                let above = self.spread(recs, found);
                out.truncate(from);
                out.extend(above);
            }
            let test = k.checked_sub(1).map(|before| dag.test_of(steps[before] / 2));
            out[from..].sort_unstable_by_key(|e| e.node);
            let mut kept = from;
            for i in from..out.len() {
                let e = out[i];
                if kept > from && out[kept - 1].node == e.node {
                    let last = &mut out[kept - 1];
                    (last.least, last.greatest) = (last.least.min(e.least), last.greatest.max(e.greatest));
                } else if test.is_none_or(|test| test.passes(message.names, recs[e.node as usize].sym)) {
                    out[kept] = e;
                    kept += 1;
                }
            }
            out.truncate(kept);
        }
    }

    /// All ancestors of nodes, with the extremes of what is below each.
    fn spread(&mut self, recs: &[NodeRec], found: &mut [Extremes]) -> Vec<Extremes> {
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
        above
    }

    #[inline]
    pub(in crate::shapes) fn pass(&mut self, message: Message<'_>, n: NodeIx, check: Check) -> bool {
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

/// Does a value pass?
pub(super) fn pass(message: Message<'_>, value: &[u8], check: Check) -> bool {
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
        Question::Length(op, want) => op.holds(length(value) as f64, f64::from_bits(want)),
    }
}
