//! The Twigcast kernel: bytes in, matches out. No Python, no Spark, no query syntax, no policy.
//!
//! Data flows one way, and a module uses only those before it:
//! `xml` (bytes to events) -> `paths` (events to matched linear paths) -> `engine` (matches per message).

pub mod engine;
pub mod matcher;
pub mod names;
pub mod paths;
pub mod shapes;
pub mod snapshot;
pub mod sorted;
pub mod values;
pub mod xml;
