//! The parts of all patterns, shared: an expression over sets of a message's nodes is kept once, whatever number of
//! subscriptions it is a part of (the shared expression DAG). [`shared`](super::shared) computes each at most once per
//! message.
//!
//! A path from the document is read forwards up to its first filter (few distinct ones, for subscriptions have their
//! beginnings in common) and what hangs below that node backwards, from the values up: `/a//b[c = 5]/d` is the question
//! whether the nodes at `/a//b`, the parents of a `c` that is 5 and the parents of a `d` have a node in common.

use super::program::{Ask, Counted, Node, Op, Pred, Test, Twig, Value};
use super::search::{position_holds, Row};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;

/// Number of an expression. Those it is made of have lower ones.
pub type ExprId = u32;

/// What the value of a node is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Question {
    /// Is it (is it not) this string constant?
    Is(u32),
    IsNot(u32),
    Contains(u32),
    StartsWith(u32),
    /// How does it compare, as a number, with the one of these bits? How does its length?
    Number(Op, u64),
    Length(Op, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Check {
    pub question: Question,
    /// White space is normalised first.
    pub normalize: bool,
}

/// A list of expressions, by where its length lies; equal lists lie in the same place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct List(u32);

/// Number of a check.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CheckId(u32);

/// A set of nodes. What is said of nodes that an expression is not asked about (those that fail the test of the step it
/// filters) means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    Nothing,
    Everything,
    Document,
    Test(Test),
    /// Those of a set whose value passes.
    Valued {
        of: ExprId,
        check: CheckId,
    },
    And(List),
    Or(List),
    Not(ExprId),
    /// The parents (all ancestors) of what two sets have in common.
    Above {
        of: ExprId,
        with: ExprId,
        deep: bool,
    },
    /// Those of `to` with their parent (some ancestor) in `from`.
    Below {
        from: ExprId,
        deep: bool,
        to: ExprId,
    },
    /// Depends on a node's place among siblings; only inside the filter of `Counted`.
    Position {
        of: Counted,
        op: Op,
        n: u32,
    },
    /// Those of a set that pass a filter which counts positions among the siblings in the set; `parts` of the filter
    /// do not count.
    Counted {
        of: ExprId,
        filter: ExprId,
        parts: List,
    },
    /// Not a set: the least and the greatest number that steps of mere tests lead to, by node.
    Numbers(List),
    /// Those from which steps lead to a number in a range.
    Compared {
        of: ExprId,
        check: CheckId,
    },
    /// Those of a set from which the first node that the steps find passes, or, if they find none, an empty value does.
    First {
        of: ExprId,
        steps: List,
        check: CheckId,
    },
    /// Those of a set from which the steps find so many nodes: their number is asked, and not a value.
    Count {
        of: ExprId,
        steps: List,
        check: CheckId,
    },
    /// The document, if the sets have a node in common.
    Meet(List),
}

// A message asks for many that lie apart: the smaller, the more of them are at hand.
const _: () = assert!(size_of::<Expr>() == 16);

pub const NOTHING: ExprId = 0;
pub const EVERYTHING: ExprId = 1;
pub const DOCUMENT: ExprId = 2;

pub struct Dag {
    exprs: Vec<Expr>,
    /// Does it contain a position that counts?
    counts: Vec<bool>,
    ids: HashMap<Expr, ExprId>,
    lists: Vec<u32>,
    list_ids: HashTable<List>,
    checks: Vec<Check>,
    check_ids: HashMap<Check, CheckId>,
    hasher: DefaultHashBuilder,
}

impl Default for Dag {
    fn default() -> Dag {
        let mut dag = Dag {
            exprs: vec![],
            counts: vec![],
            ids: HashMap::new(),
            lists: vec![],
            list_ids: HashTable::new(),
            checks: vec![],
            check_ids: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
        };
        for constant in [Expr::Nothing, Expr::Everything, Expr::Document] {
            dag.add(constant);
        }
        dag
    }
}

impl Dag {
    #[inline(always)]
    pub fn get(&self, id: ExprId) -> Expr {
        self.exprs[id as usize]
    }

    #[inline(always)]
    pub fn list(&self, list: List) -> &[u32] {
        list_at(&self.lists, list)
    }

    #[inline(always)]
    pub fn check(&self, check: CheckId) -> Check {
        self.checks[check.0 as usize]
    }

    #[inline]
    pub fn counts(&self, id: ExprId) -> bool {
        self.counts[id as usize]
    }

    /// How many expressions there are.
    pub fn size(&self) -> usize {
        self.exprs.len()
    }

    /// A pattern on the document, with its constants.
    pub fn pattern(&mut self, pred: &Pred, row: Row<'_>) -> ExprId {
        match pred {
            Pred::And(ps) => {
                let parts = ps.iter().map(|p| self.pattern(p, row)).collect();
                self.and(parts)
            }
            Pred::Or(ps) => {
                let parts = ps.iter().map(|p| self.pattern(p, row)).collect();
                self.or(parts)
            }
            Pred::Not(p) => {
                let part = self.pattern(p, row);
                self.not(part)
            }
            Pred::Exists(twig) => self.finds(twig, None, row),
            Pred::Position { of, op, n } if position_holds(*of, *op, *n, (1, 1)) => EVERYTHING,
            Pred::Position { .. } => NOTHING,
            Pred::Compare { value, .. } => match (value, check(pred, row)) {
                (Value::Str { twig, first: false, .. } | Value::Length { twig, first: false, .. }, Some(check))
                    if !twig.nodes.is_empty() =>
                {
                    self.finds(twig, Some(check), row)
                }
                _ => self.pred(pred, DOCUMENT, row),
            },
            _ => self.pred(pred, DOCUMENT, row),
        }
    }

    /// The nodes that a twig finds from the document.
    pub fn select(&mut self, twig: &Twig, row: Row<'_>) -> ExprId {
        let mut at = DOCUMENT;
        for node in &twig.nodes {
            let to = self.passing(node, row);
            at = self.add(Expr::Below { from: at, deep: node.deep, to });
        }
        at
    }

    /// The nodes that pass a test.
    pub fn test(&mut self, test: Test) -> ExprId {
        self.add(Expr::Test(test))
    }

    /// The test that an expression is.
    #[inline(always)]
    pub fn test_of(&self, id: ExprId) -> Test {
        match self.get(id) {
            Expr::Test(test) => test,
            _ => Test::Node,
        }
    }

    /// The nodes that steps find from the document, whatever their filters.
    pub fn trunk(&mut self, nodes: &[Node]) -> ExprId {
        nodes.iter().fold(DOCUMENT, |from, node| {
            let to = self.test(node.test);
            self.add(Expr::Below { from, deep: node.deep, to })
        })
    }

    /// The nodes that satisfy a predicate, whatever they are.
    pub fn satisfying(&mut self, pred: &Pred, row: Row<'_>) -> ExprId {
        self.pred(pred, EVERYTHING, row)
    }

    /// Does the twig find a node from the document (one whose value passes)?
    fn finds(&mut self, twig: &Twig, check: Option<Check>, row: Row<'_>) -> ExprId {
        let nodes = &twig.nodes;
        if let Some(range) = self.range(nodes, check) {
            return range;
        }
        let Some(last) = nodes.len().checked_sub(1) else { return EVERYTHING };
        let centre = nodes.iter().position(|n| !n.filters.is_empty()).unwrap_or(last);
        let mut meet = vec![self.trunk(&nodes[..=centre])];
        self.filters(&nodes[centre], row, &mut meet);
        if centre < last {
            meet.push(self.leading_to(&nodes[centre + 1..], check, row));
        } else if let Some(check) = check {
            let (of, check) = (self.add(Expr::Test(nodes[centre].test)), self.add_check(check));
            meet.push(self.add(Expr::Valued { of, check }));
        }
        meet.sort_unstable();
        meet.dedup();
        meet.retain(|&p| p != EVERYTHING);
        if meet[0] == NOTHING {
            return NOTHING;
        }
        let list = self.intern(&meet);
        self.add(Expr::Meet(list))
    }

    /// What a predicate says of nodes that are in the set `of`.
    pub fn pred(&mut self, pred: &Pred, of: ExprId, row: Row<'_>) -> ExprId {
        match pred {
            Pred::Bool(false) => NOTHING,
            Pred::Bool(true) => EVERYTHING,
            Pred::And(ps) => {
                let parts = ps.iter().map(|p| self.pred(p, of, row)).collect();
                self.and(parts)
            }
            Pred::Or(ps) => {
                let parts = ps.iter().map(|p| self.pred(p, of, row)).collect();
                self.or(parts)
            }
            Pred::Not(p) => {
                let part = self.pred(p, of, row);
                self.not(part)
            }
            Pred::Exists(twig) => self.leading_to(&twig.nodes, None, row),
            Pred::NodeIs(test) => self.add(Expr::Test(*test)),
            Pred::Position { of, op, n } => self.add(Expr::Position { of: *of, op: *op, n: *n as u32 }),
            Pred::Compare { value: Value::Count(twig), ask: Ask::Number(op), slot } => {
                let question = Question::Number(*op, row[*slot as usize]);
                let (steps, check) = (self.steps(twig, row), self.add_check(Check { question, normalize: false }));
                self.add(Expr::Count { of, steps, check })
            }
            Pred::Compare { value, .. } => {
                let (Value::Str { twig, first, .. } | Value::Length { twig, first, .. }) = value else {
                    return NOTHING;
                };
                let Some(asked) = check(pred, row) else { return NOTHING };
                let check = self.add_check(asked);
                if twig.nodes.is_empty() {
                    self.add(Expr::Valued { of, check })
                } else if *first {
                    let steps = self.steps(twig, row);
                    self.add(Expr::First { of, steps, check })
                } else {
                    self.leading_to(&twig.nodes, Some(asked), row)
                }
            }
        }
    }

    /// The nodes from which the steps find something (that passes).
    pub fn leading_to(&mut self, nodes: &[Node], check: Option<Check>, row: Row<'_>) -> ExprId {
        if let Some(range) = self.range(nodes, check) {
            return range;
        }
        let mut goal = EVERYTHING;
        for (i, node) in nodes.iter().enumerate().rev() {
            let mut of = self.add(Expr::Test(node.test));
            if let (Some(check), true) = (check, i + 1 == nodes.len()) {
                let check = self.add_check(check);
                of = self.add(Expr::Valued { of, check });
            }
            let mut with = vec![goal];
            self.filters(node, row, &mut with);
            let with = self.and(with);
            goal = if with == NOTHING { NOTHING } else { self.add(Expr::Above { of, with, deep: node.deep }) };
        }
        goal
    }

    /// The nodes from which steps without filters lead to a number in a range, if that is what is asked for.
    fn range(&mut self, nodes: &[Node], check: Option<Check>) -> Option<ExprId> {
        let check = check.filter(|c| matches!(c.question, Question::Number(Op::Lt | Op::Le | Op::Gt | Op::Ge, _)))?;
        if check.normalize || nodes.is_empty() || nodes.iter().any(|n| !n.filters.is_empty()) {
            return None;
        }
        let steps: Vec<u32> = nodes.iter().map(|n| self.test(n.test) * 2 + n.deep as u32).collect();
        let steps = self.intern(&steps);
        let (of, check) = (self.add(Expr::Numbers(steps)), self.add_check(check));
        Some(self.add(Expr::Compared { of, check }))
    }

    /// The steps of a twig: twice the set of nodes that pass, plus one if reached by `//`.
    fn steps(&mut self, twig: &Twig, row: Row<'_>) -> List {
        let steps: Vec<u32> = twig.nodes.iter().map(|n| self.passing(n, row) * 2 + n.deep as u32).collect();
        self.intern(&steps)
    }

    /// The nodes that pass a step's test and filters, wherever they are.
    pub fn passing(&mut self, node: &Node, row: Row<'_>) -> ExprId {
        let mut parts = vec![self.add(Expr::Test(node.test))];
        self.filters(node, row, &mut parts);
        self.and(parts)
    }

    /// What the filters of a step say of nodes that pass its test.
    fn filters(&mut self, node: &Node, row: Row<'_>, out: &mut Vec<ExprId>) {
        if node.filters.is_empty() {
            return;
        }
        let test = self.add(Expr::Test(node.test));
        if !node.positional {
            return out.extend(node.filters.iter().map(|f| self.pred(f, test, row)));
        }
        // positions count among those that the filters before have left
        let mut of = test;
        for f in &node.filters {
            let filter = self.pred(f, test, row);
            of = if self.counts(filter) {
                let mut parts = vec![];
                self.parts(filter, &mut parts);
                let parts = self.intern(&parts);
                self.add(Expr::Counted { of, filter, parts })
            } else {
                self.and(vec![of, filter])
            };
        }
        out.push(of);
    }

    fn parts(&self, filter: ExprId, out: &mut Vec<ExprId>) {
        if !self.counts(filter) {
            return out.push(filter);
        }
        match self.get(filter) {
            Expr::And(list) | Expr::Or(list) => self.list(list).iter().for_each(|&p| self.parts(p, out)),
            Expr::Not(p) => self.parts(p, out),
            _ => {}
        }
    }

    fn and(&mut self, parts: Vec<ExprId>) -> ExprId {
        self.combine(parts, (EVERYTHING, NOTHING), Expr::And)
    }

    fn or(&mut self, parts: Vec<ExprId>) -> ExprId {
        self.combine(parts, (NOTHING, EVERYTHING), Expr::Or)
    }

    /// Combines expressions, of which one changes nothing and one decides alone.
    fn combine(
        &mut self,
        mut parts: Vec<ExprId>,
        (neutral, decisive): (ExprId, ExprId),
        make: fn(List) -> Expr,
    ) -> ExprId {
        parts.sort_unstable();
        parts.dedup();
        parts.retain(|&p| p != neutral);
        match parts[..] {
            [] => neutral,
            [first, ..] if first == decisive => decisive,
            [one] => one,
            _ => {
                let list = self.intern(&parts);
                self.add(make(list))
            }
        }
    }

    fn not(&mut self, part: ExprId) -> ExprId {
        match (part, self.get(part)) {
            (NOTHING, _) => EVERYTHING,
            (EVERYTHING, _) => NOTHING,
            (_, Expr::Not(p)) => p,
            _ => self.add(Expr::Not(part)),
        }
    }

    fn add(&mut self, expr: Expr) -> ExprId {
        let next = self.exprs.len() as ExprId;
        let id = *self.ids.entry(expr).or_insert(next);
        if id == next {
            let counts = match expr {
                Expr::Position { .. } => true,
                Expr::And(list) | Expr::Or(list) => self.list(list).iter().any(|&p| self.counts(p)),
                Expr::Not(p) => self.counts(p),
                _ => false,
            };
            self.exprs.push(expr);
            self.counts.push(counts);
        }
        id
    }

    pub fn add_check(&mut self, check: Check) -> CheckId {
        let checks = &mut self.checks;
        *self.check_ids.entry(check).or_insert_with(|| {
            checks.push(check);
            CheckId(checks.len() as u32 - 1)
        })
    }

    fn intern(&mut self, items: &[u32]) -> List {
        let hash = self.hasher.hash_one(items);
        let lists = &self.lists;
        if let Some(&list) = self.list_ids.find(hash, |&l| list_at(lists, l) == items) {
            return list;
        }
        let list = List(self.lists.len() as u32);
        self.lists.push(items.len() as u32);
        self.lists.extend_from_slice(items);
        let (lists, hasher) = (&self.lists, &self.hasher);
        self.list_ids.insert_unique(hash, list, |&l| hasher.hash_one(list_at(lists, l)));
        list
    }
}

#[inline(always)]
fn list_at(lists: &[u32], list: List) -> &[u32] {
    let start = list.0 as usize + 1;
    &lists[start..start + lists[start - 1] as usize]
}

/// What a comparison asks of each value.
pub fn check(pred: &Pred, row: Row<'_>) -> Option<Check> {
    let Pred::Compare { value, ask, slot } = pred else { return None };
    let (Value::Str { normalize, .. } | Value::Length { normalize, .. }) = value else { return None };
    let constant = row[*slot as usize];
    let question = match (ask, value) {
        (Ask::Is, _) => Question::Is(constant as u32),
        (Ask::IsNot, _) => Question::IsNot(constant as u32),
        (Ask::Contains, _) => Question::Contains(constant as u32),
        (Ask::StartsWith, _) => Question::StartsWith(constant as u32),
        (Ask::Number(op), Value::Length { .. }) => Question::Length(*op, constant),
        (Ask::Number(op), _) => Question::Number(*op, constant),
    };
    Some(Check { question, normalize: *normalize })
}
