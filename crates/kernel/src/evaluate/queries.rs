//! The residual queries of an engine by the number of their subscription, and what each of them says of a message.

use super::budget::{Budget, Exceeded, Meter};
use super::cache::Want;
use super::expressions::{Axis, Expr, ExprId, Expressions, Type};
use super::program::{decode, encode, Strings};
use super::run::{Context, Evaluation, State};
use super::tree::{Node, NodeTest, Tree};
use crate::names::{Names, Sym};
use crate::paths::Step;
use crate::shapes::nodes::NodeIx;

/// A query; equal queries are one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueryId(ExprId);

/// XPath expressions by the number of their subscription. They do not change while messages are evaluated.
#[derive(Default)]
pub struct Queries {
    all: Expressions,
    /// By number.
    roots: Vec<Option<ExprId>>,
    count: usize,
}

/// What a transform finds: the nodes that it binds, in document order, and of each of them, return by return, the nodes
/// that it returns, and where these end.
#[derive(Default)]
pub struct Groups {
    pub bound: Vec<NodeIx>,
    pub nodes: Vec<NodeIx>,
    pub ends: Vec<u32>,
}

/// Working memory of one thread.
#[derive(Default)]
pub struct Scratch(State);

impl Queries {
    /// Adds the query of a subscription, given as words and the strings in it (see [`program`](super::program)).
    pub fn add(&mut self, number: u32, words: &[u32], strings: &[&str], names: &Names) -> Result<(), &'static str> {
        let list = decode(words, strings, names)?;
        let root = self.all.add(list).ok_or("an empty program")?;
        self.remove(number);
        let place = number as usize;
        if place >= self.roots.len() {
            self.roots.resize(place + 1, None);
        }
        self.roots[place] = Some(root);
        self.count += 1;
        Ok(())
    }

    /// Removes the query of a subscription, if it has one.
    pub fn remove(&mut self, number: u32) {
        if let Some(root) = self.roots.get_mut(number as usize).and_then(Option::take) {
            self.all.release(root);
            self.count -= 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many queries there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the query of a subscription.
    #[inline]
    pub fn of(&self, number: u32) -> Option<QueryId> {
        self.roots.get(number as usize).copied().flatten().map(QueryId)
    }

    /// Whether some of these subscriptions has a query.
    #[inline]
    pub fn any(&self, numbers: &[u32]) -> bool {
        self.count > 0 && numbers.iter().any(|&number| self.of(number).is_some())
    }

    /// Whether a query selects nodes.
    pub fn is_node_set(&self, query: QueryId) -> bool {
        self.all.info(query.0).of == Type::Nodes
    }

    /// Calls `each` with the symbols that queries test for.
    pub(crate) fn symbols(&self, mut each: impl FnMut(Sym)) {
        for test in self.all.tests() {
            if let NodeTest::Is(test) = test {
                each(test.symbol());
            }
        }
    }

    /// Calls `each` with the number and the encoded program of every query. Appends their strings to `strings`.
    pub(crate) fn programs<'a>(&'a self, strings: &mut Strings<'a>, mut each: impl FnMut(u32, &[u32])) {
        let mut words = vec![];
        for (number, root) in (0..).zip(&self.roots) {
            if let Some(root) = root {
                words.clear();
                encode(&self.all, *root, strings, &mut words);
                each(number, &words);
            }
        }
    }

    /// Returns the bytes that all of it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.roots.capacity() * size_of::<Option<ExprId>>() + self.all.bytes()
    }

    /// Returns the number of distinct expressions.
    #[cfg(test)]
    pub(super) fn expressions(&self) -> usize {
        self.all.len()
    }

    /// Begins a message.
    pub fn begin(&self, tree: &Tree<'_>, scratch: &mut Scratch) {
        scratch.0.begin(tree);
    }

    fn run<'a, 's>(&'a self, tree: Tree<'a>, budget: Budget, scratch: &'s mut Scratch) -> Evaluation<'a, 's> {
        let state = &mut scratch.0;
        state.cache.begin();
        Evaluation { tree, all: &self.all, state, meter: Meter::new(budget) }
    }

    /// Whether the message satisfies a query.
    pub fn holds(
        &self,
        query: QueryId,
        tree: Tree<'_>,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Result<bool, Exceeded> {
        self.run(tree, budget, scratch).boolean(query.0, Context::DOCUMENT)
    }

    /// Returns whether the message satisfies a query that is a node-set, and the nodes that it selects, in document
    /// order. Namespace nodes, which have no number, are left out.
    pub fn select(
        &self,
        query: QueryId,
        tree: Tree<'_>,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Result<(bool, Vec<NodeIx>), Exceeded> {
        let nodes = self.run(tree, budget, scratch).nodes(query.0, Context::DOCUMENT, Want::All)?;
        Ok((!nodes.is_empty(), nodes.iter().copied().filter_map(Node::number).collect()))
    }

    /// Returns the nodes that a query selects from a node, in document order, but for namespace nodes.
    pub(crate) fn select_from(
        &self,
        query: QueryId,
        node: NodeIx,
        tree: Tree<'_>,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Result<Vec<NodeIx>, Exceeded> {
        scratch.0.begin(&tree);
        let context = Context { node: Node::new(node), ..Context::DOCUMENT };
        let nodes = self.run(tree, budget, scratch).nodes(query.0, context, Want::All)?;
        Ok(nodes.iter().copied().filter_map(Node::number).collect())
    }

    /// The binding and the returns of a transform; empty for any other query.
    fn parts(&self, query: QueryId) -> &[ExprId] {
        match self.all.get(query.0) {
            Expr::Groups(parts) => parts,
            _ => &[],
        }
    }

    /// How many lists a transform returns of each bound node; None if the query is none.
    pub(crate) fn returns(&self, query: QueryId) -> Option<usize> {
        self.parts(query).len().checked_sub(1)
    }

    /// Returns what a transform finds.
    pub fn groups(
        &self,
        query: QueryId,
        tree: Tree<'_>,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Result<Groups, Exceeded> {
        let mut found = Groups::default();
        let Some((&binding, returns)) = self.parts(query).split_first() else { return Ok(found) };
        let mut run = self.run(tree, budget, scratch);
        let bound = run.nodes(binding, Context::DOCUMENT, Want::All)?;
        for &node in bound.iter() {
            found.bound.extend(node.number());
            for &part in returns {
                let nodes = run.nodes(part, Context { node, ..Context::DOCUMENT }, Want::All)?;
                run.meter.bytes(size_of_val(&*nodes))?;
                found.nodes.extend(nodes.iter().copied().filter_map(Node::number));
                found.ends.push(found.nodes.len() as u32);
            }
        }
        Ok(found)
    }

    /// Returns a path that a message must have for a transform to bind something. None if any message may do.
    pub(crate) fn gate(&self, query: QueryId) -> Option<Vec<Step>> {
        let mut at = *self.parts(query).first()?;
        let mut path = vec![];
        loop {
            let (input, step) = match self.all.get(at) {
                Expr::Step(input, step) => (*input, step),
                Expr::Filter(input, _) => {
                    at = *input;
                    continue;
                }
                Expr::Document if !path.is_empty() => break,
                _ => return None,
            };
            at = input;
            let deep = match step.axis {
                Axis::Itself => continue,
                Axis::Child | Axis::Attribute => false,
                Axis::Descendant | Axis::DeepChild | Axis::DeepAttribute => true,
                _ => return None,
            };
            match step.test {
                NodeTest::Is(test) => path.push(Step::new(deep, test.symbol())),
                _ => path.clear(), // what is before it will do
            }
        }
        path.reverse();
        Some(path)
    }
}
