//! A strict, non-validating reader of XML 1.0 (5th edition) with Namespaces 1.0.
//!
//! ```text
//! bytes -> encoding -> prolog -> (dtd, attlist, models -> rewrite, entities, known, output) -> scan -> walk, tag -> Sink
//! ```
//!
//! Nearly every message is UTF-8 without internal subset: it is read in place, in two stages. Stage 1 (`scan`) indexes
//! a window of it with SIMD: every `<`, and what character data must be looked at for. Stage 2 (`walk`) goes from one
//! `<` to the next, checks everything and tells the [`Sink`]. Other encodings are transcoded first. A document whose DTD
//! declares entities, attribute defaults or token types is first rewritten to an equivalent plain one, so that the
//! same two stages read it; errors are reported where they are in the message all the same. Nothing external is ever
//! opened, nothing recurses on the depth of the input, and everything that can grow has a limit ([`Limits`]).
//! A document too large for memory is read in parts by the same code ([`Stream`]).

mod attlist;
mod chars;
mod decode;
mod dtd;
mod encoding;
mod entities;
mod error;
mod known;
mod limits;
mod markup;
mod models;
mod names;
mod namespaces;
mod output;
mod place;
mod prolog;
mod reader;
mod rewrite;
mod scan;
mod sink;
mod stream;
mod tag;
mod walk;

pub use decode::{decode_attribute, decode_line_ends, decode_text};
pub use error::{XmlError, CODES};
pub use limits::Limits;
pub use place::Place;
pub use reader::Reader;
pub use sink::{Attr, NsId, Sink, Tag, Text};
pub use stream::Stream;

#[cfg(test)]
mod tests;
