//! A pattern over one message, set at a time: each part of the pattern is decided for all nodes in one pass, so the
//! cost is the size of the message times the size of the pattern, whatever the message is like.

use super::nodes::NodeIx;
use super::program::{Node, Op, Pred, Test, Twig, Value};
use super::search::{length, normalize_space, position_holds, Message, Row};
use crate::values::number::number;

/// A set of nodes.
type Set = Vec<bool>;

pub struct Bulk<'a> {
    message: Message<'a>,
    row: Row<'a>,
}

impl<'a> Bulk<'a> {
    pub fn new(message: Message<'a>, row: Row<'a>) -> Bulk<'a> {
        Bulk { message, row }
    }

    fn len(&self) -> usize {
        self.message.nodes.len()
    }

    /// Does the predicate hold for the document?
    pub fn holds(&self, pred: &Pred) -> bool {
        self.satisfying(pred)[0]
    }

    /// The nodes that satisfy a predicate without positions.
    pub fn satisfying(&self, pred: &Pred) -> Set {
        match pred {
            Pred::Bool(b) => vec![*b; self.len()],
            Pred::And(ps) => self.all(ps),
            Pred::Or(ps) => {
                let mut set = vec![false; self.len()];
                for p in ps {
                    let other = self.satisfying(p);
                    set.iter_mut().zip(other).for_each(|(a, b)| *a |= b);
                }
                set
            }
            Pred::Not(p) => {
                let mut set = self.satisfying(p);
                set.iter_mut().for_each(|a| *a = !*a);
                set
            }
            Pred::Exists(twig) => self.leading_to(twig, vec![true; self.len()]),
            Pred::NodeIs(test) => {
                let mut set = self.passing(*test);
                set[0] = false;
                set
            }
            Pred::Text { value, equal, slot } => {
                let want = self.message.constants.get(self.row[*slot as usize] as u32);
                self.with_string(value, |s| (s == want) == *equal)
            }
            Pred::Contains { value, slot } => {
                let want = self.message.constants.get(self.row[*slot as usize] as u32);
                self.with_string(value, |s| memchr::memmem::find(s, want).is_some())
            }
            Pred::StartsWith { value, slot } => {
                let want = self.message.constants.get(self.row[*slot as usize] as u32);
                self.with_string(value, |s| s.starts_with(want))
            }
            Pred::Number { value, op, slot } => self.with_number(value, *op, f64::from_bits(self.row[*slot as usize])),
            // positions are decided where the siblings are at hand
            Pred::Position { .. } => vec![false; self.len()],
        }
    }

    fn all(&self, ps: &[Pred]) -> Set {
        let mut set = vec![true; self.len()];
        for p in ps {
            let other = self.satisfying(p);
            set.iter_mut().zip(other).for_each(|(a, b)| *a &= b);
        }
        set
    }

    fn passing(&self, test: Test) -> Set {
        self.message.nodes.recs.iter().map(|r| test.passes(self.message.names, r.sym)).collect()
    }

    /// The nodes that pass a step's test and filters, wherever they are.
    pub fn candidates(&self, node: &Node) -> Set {
        let mut set = self.passing(node.test);
        set[0] = false;
        if !node.positional {
            let filters = self.all(&node.filters);
            set.iter_mut().zip(filters).for_each(|(a, b)| *a &= b);
            return set;
        }
        for f in &node.filters {
            let leaves = self.without_positions(f);
            self.count_siblings(&mut set, |n, place| leaves.holds(f, n, place));
        }
        set
    }

    /// Keeps the members of the set for which `keep` says so, given their position among the set's siblings.
    fn count_siblings(&self, set: &mut Set, keep: impl Fn(NodeIx, (u32, u32)) -> bool) {
        let recs = &self.message.nodes.recs;
        let mut last = vec![0u32; self.len()];
        for (n, &member) in set.iter().enumerate() {
            last[recs[n].parent as usize] += member as u32;
        }
        let mut position = vec![0u32; self.len()];
        for n in 1..self.len() {
            if set[n] {
                let parent = recs[n].parent as usize;
                position[parent] += 1;
                set[n] = keep(n as NodeIx, (position[parent], last[parent]));
            }
        }
    }

    /// The sets of all parts of a filter that have no positions in them, in the order of a walk.
    fn without_positions(&self, f: &Pred) -> Leaves {
        let mut leaves = Leaves(vec![]);
        self.gather(f, &mut leaves.0);
        leaves
    }

    fn gather(&self, f: &Pred, out: &mut Vec<(*const Pred, Set)>) {
        match f {
            Pred::And(ps) | Pred::Or(ps) => ps.iter().for_each(|p| self.gather(p, out)),
            Pred::Not(p) => self.gather(p, out),
            Pred::Position { .. } => {}
            other => out.push((other as *const Pred, self.satisfying(other))),
        }
    }

    /// The context nodes from which the twig finds a member of `goal`.
    fn leading_to(&self, twig: &Twig, goal: Set) -> Set {
        let mut goal = goal;
        for node in twig.nodes.iter().rev() {
            let mut hits = self.candidates(node);
            hits.iter_mut().zip(&goal).for_each(|(a, b)| *a &= b);
            goal = self.above(&hits, node.deep);
        }
        goal
    }

    /// The parents (or all ancestors) of the members.
    fn above(&self, set: &Set, deep: bool) -> Set {
        let recs = &self.message.nodes.recs;
        let mut up = vec![false; self.len()];
        for n in (1..self.len()).rev() {
            if set[n] || deep && up[n] {
                up[recs[n].parent as usize] = true;
            }
        }
        up
    }

    /// The nodes that the twig finds from the document, in document order.
    pub fn select(&self, twig: &Twig) -> Vec<NodeIx> {
        self.select_from(twig, 0)
    }

    /// The nodes that the twig finds from a node, in document order.
    pub fn select_from(&self, twig: &Twig, from: NodeIx) -> Vec<NodeIx> {
        let recs = &self.message.nodes.recs;
        let mut set = vec![false; self.len()];
        set[from as usize] = true;
        for node in &twig.nodes {
            let mut below = vec![false; self.len()];
            for n in 1..self.len() {
                let p = recs[n].parent as usize;
                below[n] = set[p] || node.deep && below[p];
            }
            let hits = self.candidates(node);
            set = below.iter().zip(hits).map(|(&a, b)| a && b).collect();
        }
        (0..self.len()).filter(|&n| set[n]).map(|n| n as NodeIx).collect()
    }

    fn with_string(&self, value: &Value, test: impl Fn(&[u8]) -> bool) -> Set {
        let (Value::Str { twig, first, normalize } | Value::Length { twig, first, normalize }) = value else {
            return vec![false; self.len()];
        };
        let mut scratch = vec![];
        let mut check = |n: NodeIx| {
            let v = self.message.nodes.value(self.message.src, n, &mut scratch);
            if *normalize {
                test(&normalize_space(v))
            } else {
                test(v)
            }
        };
        if twig.nodes.is_empty() {
            return (0..self.len()).map(|n| check(n as NodeIx)).collect();
        }
        if !*first {
            // only the ends of the twig are looked at: string-values of everything would be quadratic in depth
            let ends = self.passing(twig.nodes[twig.nodes.len() - 1].test);
            let goal = (0..self.len()).map(|n| ends[n] && n > 0 && check(n as NodeIx)).collect();
            return self.leading_to(twig, goal);
        }
        let empty = test(b"");
        self.per_context(twig, |found| match found.first() {
            Some(&n) => check(n),
            None => empty,
        })
    }

    fn with_number(&self, value: &Value, op: Op, want: f64) -> Set {
        match value {
            Value::Str { .. } => self.with_string(value, |s| op.holds(number(s), want)),
            Value::Length { .. } => self.with_string(value, |s| op.holds(length(s), want)),
            Value::Count(twig) => self.per_context(twig, |found| op.holds(found.len() as f64, want)),
        }
    }

    /// For values that depend on all the nodes a twig finds from one context: decided context by context, each at
    /// the cost of its subtree.
    fn per_context(&self, twig: &Twig, mut decide: impl FnMut(&[NodeIx]) -> bool) -> Set {
        let recs = &self.message.nodes.recs;
        let steps: Vec<(Set, bool)> = twig.nodes.iter().map(|node| (self.candidates(node), node.deep)).collect();
        let reach = self.leading_to(twig, vec![true; self.len()]);
        let otherwise = decide(&[]);
        let mut set = vec![otherwise; self.len()];
        for n in (0..self.len()).filter(|&n| reach[n]) {
            // `below[i]`: node n + i is among what the steps so far find
            let window = n..recs[n].end as usize;
            let mut found = vec![false; window.len()];
            found[0] = true;
            for (hits, deep) in &steps {
                let mut below = vec![false; window.len()];
                for i in 1..window.len() {
                    let p = recs[n + i].parent as usize - n;
                    below[i] = found[p] || *deep && below[p];
                }
                found = below.iter().enumerate().map(|(i, &b)| b && hits[n + i]).collect();
            }
            let nodes: Vec<NodeIx> = window.filter(|&m| found[m - n]).map(|m| m as NodeIx).collect();
            set[n] = decide(&nodes);
        }
        set
    }
}

/// Parts of a filter that need no positions, decided for all nodes.
struct Leaves(Vec<(*const Pred, Set)>);

impl Leaves {
    fn holds(&self, f: &Pred, n: NodeIx, place: (u32, u32)) -> bool {
        match f {
            Pred::And(ps) => ps.iter().all(|p| self.holds(p, n, place)),
            Pred::Or(ps) => ps.iter().any(|p| self.holds(p, n, place)),
            Pred::Not(p) => !self.holds(p, n, place),
            Pred::Position { of, op, n: k } => position_holds(*of, *op, *k, place),
            other => self.0.iter().any(|(p, set)| std::ptr::eq(*p, other) && set[n as usize]),
        }
    }
}
