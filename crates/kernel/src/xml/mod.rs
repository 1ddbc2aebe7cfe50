//! A strict, non-validating reader of XML 1.0 (5th edition) with Namespaces 1.0.

mod sink;

pub use sink::{Attr, NsId, Sink, Tag, Text};
