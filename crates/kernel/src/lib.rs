//! The Twigcast kernel: bytes in, matches out. No Python, no Spark, no query syntax, no policy.
//!
//! Data flows one way, and a module uses only those before it:
//! `xml` (bytes to events) -> `paths` (events to matched linear paths) -> `shapes` (tree patterns over the message's nodes)
//! -> `output` (selected nodes to results) -> `engine`, `matcher` (matches per message); beside these `evaluate` (full
//! XPath over the message's nodes), `transform` (new messages) and, on top of it, `join` (messages that belong together).
//! `chunk` cuts large documents into messages.

mod bits;
mod branches;
pub mod chunk;
mod document;
mod engine;
pub mod evaluate;
mod gates;
mod group;
#[cfg(feature = "internals")]
pub mod internals;
pub mod join;
mod matcher;
mod names;
pub mod output;
mod paths;
pub mod shapes;
mod shred;
mod snapshot;
mod sorted;
mod tagpaths;
pub mod transform;
mod used;
mod values;
mod vocabulary;
mod words;
pub mod xml;

pub use branches::{meet, Binding};
pub use engine::{Engine, CACHE_BYTES};
pub use group::Group;
pub use matcher::{Beside, FirstText, Matcher, Seen, Units};
pub use names::{Names, ANY};
pub use paths::Step;
pub use shapes::nodes::documents_built;
pub use shred::{Shredder, Shreds};
pub use vocabulary::Vocabulary;
pub use words::Held;
