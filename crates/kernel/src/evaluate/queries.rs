//! The queries of an engine, and what each of them says of a message.

use super::budget::{Budget, Exceeded, Meter};
use super::cache::Want;
use super::expressions::{ExprId, Expressions, Type};
use super::program::decode;
use super::run::{Context, Evaluation, State};
use super::tree::{Node, Tree};
use crate::names::Names;
use crate::shapes::nodes::NodeIx;

/// The number of a query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueryId(pub u32);

struct Query {
    root: ExprId,
    /// It asks for the nodes that it selects, too.
    selects: bool,
}

/// What a query says of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Whether the message satisfies it.
    Holds(bool),
    /// The nodes that it selects, in document order; none if the message does not satisfy it. Namespace nodes, which have
    /// no number, are left out.
    Selects(bool, Vec<NodeIx>),
    /// It took more than its budget.
    Failed(Exceeded),
}

/// XPath expressions by number. They do not change while messages are evaluated.
#[derive(Default)]
pub struct Queries {
    all: Expressions,
    queries: Vec<Option<Query>>,
    free: Vec<u32>,
}

/// Working memory of one thread.
#[derive(Default)]
pub struct Scratch(State);

impl Queries {
    /// Adds a query, given as words and the strings in it (see [`program`](super::program)). With `selects`, it has to be
    /// a node-set.
    pub fn add(
        &mut self,
        words: &[u32],
        strings: &[&str],
        selects: bool,
        names: &Names,
    ) -> Result<QueryId, &'static str> {
        let list = decode(words, strings, names)?;
        let root = self.all.add(list).ok_or("an empty program")?;
        if selects && self.all.info(root).of != Type::Nodes {
            self.all.release(root);
            return Err("only a node-set selects nodes");
        }
        let query = Some(Query { root, selects });
        Ok(QueryId(match self.free.pop() {
            Some(free) => {
                self.queries[free as usize] = query;
                free
            }
            None => {
                self.queries.push(query);
                self.queries.len() as u32 - 1
            }
        }))
    }

    /// Removes a query. Returns false if there is none with this number.
    pub fn remove(&mut self, id: QueryId) -> bool {
        let Some(query) = self.queries.get_mut(id.0 as usize).and_then(Option::take) else { return false };
        self.all.release(query.root);
        self.free.push(id.0);
        true
    }

    /// Returns the numbers of all queries in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = QueryId> + '_ {
        (0..).zip(&self.queries).filter(|(_, query)| query.is_some()).map(|(id, _)| QueryId(id))
    }

    /// Returns the number of distinct expressions.
    #[cfg(test)]
    pub(super) fn expressions(&self) -> usize {
        self.all.len()
    }

    /// Calls `each` with the outcome of every query asked for. A number without a query does not hold.
    pub fn evaluate(
        &self,
        tree: Tree<'_>,
        budget: Budget,
        asked: impl IntoIterator<Item = QueryId>,
        scratch: &mut Scratch,
        mut each: impl FnMut(QueryId, Outcome),
    ) {
        let state = &mut scratch.0;
        state.begin(&tree);
        for id in asked {
            let Some(Some(query)) = self.queries.get(id.0 as usize) else {
                each(id, Outcome::Holds(false));
                continue;
            };
            state.cache.begin();
            let mut run = Evaluation { tree, all: &self.all, state: &mut *state, meter: Meter::new(budget) };
            let outcome = if query.selects {
                run.nodes(query.root, Context::DOCUMENT, Want::All).map(|nodes| {
                    Outcome::Selects(!nodes.is_empty(), nodes.iter().copied().filter_map(Node::number).collect())
                })
            } else {
                run.boolean(query.root, Context::DOCUMENT).map(Outcome::Holds)
            };
            each(id, outcome.unwrap_or_else(Outcome::Failed));
        }
    }
}
