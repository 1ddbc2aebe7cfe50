//! A strict, non-validating reader of XML 1.0 (5th edition) with Namespaces 1.0.

mod attlist;
mod chars;
mod decode;
mod dtd;
mod encoding;
mod entities;
mod error;
mod limits;
mod markup;
mod models;
mod names;
mod namespaces;
mod output;
mod prolog;
mod reader;
mod rewrite;
mod scan;
mod sink;
mod tag;
mod walk;

pub use decode::{decode_attribute, decode_line_ends, decode_text};
pub use error::{XmlError, CODES};
pub use limits::Limits;
pub use reader::Reader;
pub use sink::{Attr, NsId, Sink, Tag, Text};

#[cfg(test)]
mod tests;
