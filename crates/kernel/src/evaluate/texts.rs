//! Paths to a text that somebody wants of each message, such as the time that it tells.

use super::budget::Budget;
use super::queries::{Queries, Scratch};
use super::tree::Tree;
use crate::names::Names;
use crate::shapes::nodes::NodeIx;

/// A path of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextId(pub u32);

/// The paths of an engine. There are few, and none goes.
#[derive(Default)]
pub struct Texts {
    paths: Queries,
    count: u32,
}

impl Texts {
    /// Adds a path, given as words and the strings in it (see [`program`](super::program)).
    pub(crate) fn add(&mut self, words: &[u32], strings: &[&str], names: &Names) -> Result<TextId, &'static str> {
        let number = self.count;
        self.paths.add(number, words, strings, names)?;
        let is_path = self.paths.of(number).is_some_and(|query| self.paths.is_node_set(query));
        if !is_path {
            self.paths.remove(number);
            return Err("only a node-set has a first node");
        }
        self.count += 1;
        Ok(TextId(number))
    }

    /// Whether there is such a path.
    pub(crate) fn has(&self, id: TextId) -> bool {
        id.0 < self.count
    }

    /// Begins a message.
    pub(crate) fn begin(&self, tree: &Tree<'_>, scratch: &mut Scratch) {
        self.paths.begin(tree, scratch);
    }

    /// Returns the first node in document order that a path selects; None if there is none, or to find it takes too much.
    pub(crate) fn first(&self, id: TextId, tree: Tree<'_>, budget: Budget, scratch: &mut Scratch) -> Option<NodeIx> {
        let (_, nodes) = self.paths.select(self.paths.of(id.0)?, tree, budget, scratch).ok()?;
        nodes.first().copied()
    }
}
