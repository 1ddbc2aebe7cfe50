//! The Twigcast kernel: bytes in, matches out. No Python, no Spark, no query syntax, no policy.
//!
//! Data flows one way, and a module uses only those before it:
//! `xml` (bytes to events) -> `paths` (events to matched linear paths) -> `shapes` (tree patterns over the message's nodes)
//! -> `output` (selected nodes to results) -> `engine`, `matcher` (matches per message); beside these `transform` (new
//! messages) and, on top of it, `join` (messages that belong together). `chunk` cuts large documents into messages.

pub mod bits;
pub mod branches;
pub mod chunk;
pub mod engine;
pub mod group;
pub mod join;
pub mod matcher;
pub mod names;
pub mod output;
pub mod paths;
pub mod shapes;
pub mod shred;
pub mod snapshot;
pub mod sorted;
pub mod transform;
mod used;
pub mod values;
pub mod words;
pub mod xml;
