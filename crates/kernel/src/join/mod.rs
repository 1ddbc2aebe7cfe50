//! Joins across messages: standing queries over several tree patterns (*blocks*), tied by comparisons of the values that
//! their variables are bound to and by windows of time (MMQJP).
//!
//! Stage 1 ([`witness`]): the blocks of all streams are one set of patterns of the engine, matched at once as transforms are
//! and on the same table of nodes as filters. What is kept of a message is which blocks it matches and the nodes and values of *columns*: a column is the linear path from the
//! document to a variable, whatever the block, so a value is stored once however many queries join on it.
//!
//! Stage 2: [`state`] finds earlier messages by (column, value, set of blocks that they match) in the order of time, so
//! that those are skipped whose blocks no query ties to a block of the new message; [`index`] finds the queries of a
//! pair of messages by the set of columns on which the two agree, as a conjunction of such pairs; [`probe`] puts both
//! together. Where no equality leads anywhere, [`order`] finds earlier messages by their numbers. [`solve`] looks at structure, and only where a variable of the block has several nodes to choose from;
//! [`chain`] goes on to further blocks, [`results`] counts what is found, and [`payload`] makes new messages of it. [`engine`] is the whole of it.
//!
//! Where the paper joins relations of witnesses with relations of queries, template by template, this goes from values
//! to messages to queries: what a message costs depends on the earlier messages that share a value with it and on the
//! queries that these satisfy, not on how many queries or templates there are.

pub(crate) mod chain;
pub(crate) mod engine;
pub(crate) mod index;
pub(crate) mod order;
pub(crate) mod payload;
mod portable;
pub(crate) mod probe;
pub(crate) mod query;
pub(crate) mod results;
pub(crate) mod sets;
pub(crate) mod solve;
pub(crate) mod state;
pub(crate) mod values;
pub(crate) mod witness;

pub use engine::{Correlator, Input, Settings};
pub use payload::{Path, Payloads, Template};
pub use query::{Comparison, Form, Place, Shape, Tie};
pub use results::Results;
pub use witness::{BlockShape, Blocks, Variable, Witness};

/// Event time, in whatever unit the caller has.
pub type Time = i64;
/// Place of a message in the state.
pub type Slot = u32;
pub type ValueIx = u32;
pub type ColumnIx = u32;
pub type BlockIx = u32;
pub type QueryIx = u32;
/// Number of a set of blocks that a message matches.
pub type SetIx = u32;

/// No value: nobody joins on the column.
pub const NO_VALUE: ValueIx = ValueIx::MAX;
