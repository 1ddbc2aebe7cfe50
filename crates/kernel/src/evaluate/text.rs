//! Strings during an evaluation: mostly parts of the message or of a query, which are not copied.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// A string in UTF-8.
pub(super) enum Text<'a> {
    /// A part of the message or of a query.
    Part(&'a [u8]),
    Made(Vec<u8>),
    /// A cached result.
    Shared(Arc<[u8]>),
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Part(bytes) => bytes,
            Text::Made(bytes) => bytes,
            Text::Shared(bytes) => bytes,
        }
    }
}

impl Text<'_> {
    /// Returns a part of the string.
    pub(super) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Text::Part(bytes) => Text::Part(&bytes[range]),
            Text::Made(mut bytes) => {
                bytes.truncate(range.end);
                bytes.drain(..range.start);
                Text::Made(bytes)
            }
            Text::Shared(bytes) => Text::Made(bytes[range].to_vec()),
        }
    }

    /// Returns the string as one that can be shared.
    pub(super) fn share(self) -> Arc<[u8]> {
        match self {
            Text::Shared(bytes) => bytes,
            Text::Made(bytes) => bytes.into(),
            Text::Part(bytes) => bytes.into(),
        }
    }
}
