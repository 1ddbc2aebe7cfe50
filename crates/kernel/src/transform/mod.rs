//! Transforms: for each node that a *binding path* finds, lists of the nodes that *return paths* find below it, built
//! into a new message by a template (broker §2.2: the groupSequence-listSequence format and the message factory).
//!
//! Paths relative to a bound node do not depend on what bound it, so everything is shared by relative path: which
//! nodes a path leads to from which ancestors (`tagpaths`, decided once per tag path), which ancestors satisfy a
//! condition on the path's value ([`atoms`], an index of constants: the broker's shared selection; what the index leads to is
//! checked for further ones, [`conditions`]), and the nodes of a
//! return path grouped by ancestor ([`groups`], its shared group-by). [`set`] holds the registered transforms, [`run`]
//! takes them over a message ([`alone`] one by one, where all at once are too much), [`factory`] makes bytes of what it
//! finds.

pub(crate) mod alone;
pub(crate) mod atoms;
pub(crate) mod code;
pub(crate) mod conditions;
pub(crate) mod elements;
pub(crate) mod engine;
pub(crate) mod factory;
pub(crate) mod groups;
pub(crate) mod run;
pub(crate) mod set;
pub(crate) mod shared;

pub use elements::Elements;
pub use engine::{Evaluator, Output, Transformer};
pub use factory::Making;
