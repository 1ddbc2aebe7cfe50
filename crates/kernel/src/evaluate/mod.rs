//! Full XPath 1.0 over the nodes of a message, for expressions that are no tree patterns.
//!
//! ```text
//! words --program--> Expressions (one DAG of all queries) --Evaluation over a Tree--> verdicts and nodes
//! ```
//!
//! Python compiles the syntax tree of a query to words. [`program`] decodes and checks them and adds the expressions to
//! one DAG, in which equal expressions of all queries are one ([`expressions`]). [`run`] evaluates queries over a
//! [`Tree`](tree::Tree), the only view of the message that this module has. What depends on the message alone and not on
//! a context node is evaluated once per message ([`cache`]).
//!
//! Every node that is visited is a step; every byte of a string that is made or compared is counted, and so is the memory
//! of cached results. A query that exceeds its [`Budget`] fails alone. What a query pays does not depend on its
//! neighbours: a cached result costs each query what it cost to make.
//!
//! Nothing recurses on the depth of the message; recursion on the depth of an expression is bounded by the decoder.

mod axes;
mod budget;
mod cache;
mod compare;
mod expressions;
mod functions;
mod program;
mod queries;
mod run;
mod steps;
mod strings;
mod text;
mod texts;
mod tree;

pub use budget::{Budget, Exceeded, Failed};
pub(crate) use program::{is_groups, Strings};
pub use queries::{Groups, Queries, QueryId, Scratch};
pub use texts::{TextId, Texts};
pub use tree::{IdAttribute, Tree};

#[cfg(test)]
mod tests;
