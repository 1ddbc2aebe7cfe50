//! What crates/papers and the kernel's own tests see of the inside of the kernel, beyond its public face.
//!
//! No other crate enables the feature `internals`. Nothing here is stable.

pub use crate::document::read;
pub use crate::names::{is_element, is_value, Names, Sym, ANY, ANY_ATTRIBUTE, OTHER, OTHER_ATTRIBUTE, TEXT};
pub use crate::paths::index::{Change, PathIndex};
pub use crate::paths::trie::Trie;
pub use crate::paths::{PathId, PathMatcher, Step, NONE};
pub use crate::shapes::nodes::{NodeIx, Nodes};
pub use crate::shapes::program::{Node, Pred, Program, Slot, Test, Twig};
pub use crate::shapes::search::{Message, Search};
pub use crate::shapes::shared::Shared as Sets;
pub use crate::tagpaths::{LinearPath, PathIx, PathSet, TagPaths, TooMuch};
pub use crate::transform::atoms::{AtomIx, Atoms, Condition, NodeValue};
pub use crate::transform::engine::make;
pub use crate::transform::factory::{Factory, Making, Returned};
pub use crate::transform::run::{select, OfPlan, Runner as TransformRunner};
pub use crate::transform::shared::{constants_of, key, Shared};
pub use crate::values::constants::StrId;
