//! Large documents in parts that are documents themselves (eXtract's CHUNKTOOL): one pass of the streaming reader,
//! memory bounded by depth and by what a part may hold.
//!
//! * [`chunker`] writes fragments: what a chunk of a scheme keeps of the document, in batches where that may be.
//! * [`pieces`] cuts the bytes of the document between elements that belong together, without reading them first:
//!   a piece is checked by whoever reads it, and read again with care if it was cut wrongly.

pub(crate) mod automaton;
pub mod chunker;
mod cutter;
mod fragment;
pub mod pieces;
