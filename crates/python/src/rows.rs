//! Columns of messages that come in, and what was wrong with them on its way out.

use crate::arrow::structs;
use arrow_array::builder::{StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, ListArray, StringArray};
use arrow_buffer::NullBufferBuilder;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;
use twigcast_kernel::evaluate::{Exceeded, Failed};
use twigcast_kernel::xml::XmlError;

/// The column of messages, whichever of the usual types it has.
pub(crate) enum Rows<'a> {
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
}

impl<'a> Rows<'a> {
    pub(crate) fn new(array: &'a ArrayRef) -> PyResult<Rows<'a>> {
        let any = array.as_any();
        if let Some(a) = any.downcast_ref() {
            Ok(Rows::Binary(a))
        } else if let Some(a) = any.downcast_ref() {
            Ok(Rows::LargeBinary(a))
        } else if let Some(a) = any.downcast_ref() {
            Ok(Rows::Text(a))
        } else if let Some(a) = any.downcast_ref() {
            Ok(Rows::LargeText(a))
        } else {
            Err(PyTypeError::new_err(format!("messages must be binary or string, not {}", array.data_type())))
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Binary(a) => a.len(),
            Rows::LargeBinary(a) => a.len(),
            Rows::Text(a) => a.len(),
            Rows::LargeText(a) => a.len(),
        }
    }

    pub(crate) fn get(&self, i: usize) -> Option<&[u8]> {
        match self {
            Rows::Binary(a) => a.is_valid(i).then(|| a.value(i)),
            Rows::LargeBinary(a) => a.is_valid(i).then(|| a.value(i)),
            Rows::Text(a) => a.is_valid(i).then(|| a.value(i).as_bytes()),
            Rows::LargeText(a) => a.is_valid(i).then(|| a.value(i).as_bytes()),
        }
    }
}

/// A subscription that failed on a message, and what it took too much of: `steps` or `bytes` of a query, or the
/// `work` of a transform.
pub(crate) type Failure = (u32, &'static str);

pub(crate) fn failures(failed: &[Failed]) -> Vec<Failure> {
    let what = |why| match why {
        Exceeded::Steps => "steps",
        Exceeded::Bytes => "bytes",
        Exceeded::Work => "work",
    };
    failed.iter().map(|one| (one.number, what(one.why))).collect()
}

/// What was wrong with the rows of a column. Most have nothing wrong, and take nothing until the end.
#[derive(Default)]
pub(crate) struct Errors {
    rows: usize,
    found: Vec<(usize, XmlError)>,
    /// Subscriptions that failed, by row.
    pub(crate) failed: Vec<(usize, Vec<Failure>)>,
}

impl Errors {
    #[inline]
    pub(crate) fn push(&mut self, error: Option<XmlError>) {
        if let Some(error) = error {
            self.found.push((self.rows, error));
        }
        self.rows += 1;
    }

    /// Notes the subscriptions that failed on the row that comes next.
    #[inline]
    pub(crate) fn fail(&mut self, failed: &[Failed]) {
        if !failed.is_empty() {
            self.failed.push((self.rows, failures(failed)));
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let (mut code, mut text) = (StringBuilder::new(), StringBuilder::new());
        let (mut line, mut column, mut offset) = (UInt32Builder::new(), UInt32Builder::new(), UInt64Builder::new());
        let mut valid = NullBufferBuilder::new(self.rows);
        let mut row = 0;
        // each error after the rows before it that have none, and at last the rows that are left
        for (at, error) in self.found.iter().map(|(at, e)| (*at, Some(e))).chain([(self.rows, None)]) {
            let good = at - row;
            code.append_nulls(good);
            line.append_nulls(good);
            column.append_nulls(good);
            offset.append_nulls(good);
            text.append_nulls(good);
            valid.append_n_nulls(good);
            let Some(e) = error else { break };
            code.append_value(e.code);
            line.append_value(e.line);
            column.append_value(e.column);
            offset.append_value(e.offset);
            text.append_value(&e.message);
            valid.append_non_null();
            row = at + 1;
        }
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("code", Arc::new(code.finish()), true),
            ("line", Arc::new(line.finish()), true),
            ("column", Arc::new(column.finish()), true),
            ("offset", Arc::new(offset.finish()), true),
            ("text", Arc::new(text.finish()), true),
        ];
        Arc::new(structs(columns, valid.finish()))
    }
}

/// The answer to a column of messages, with further columns.
pub(crate) fn table(matches: ListArray, errors: Errors, more: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let mut columns: Vec<(&str, ArrayRef, bool)> =
        vec![("matches", Arc::new(matches), false), ("error", errors.finish(), true)];
    columns.extend(more.into_iter().map(|(name, column)| (name, column, true)));
    Arc::new(structs(columns, None))
}
