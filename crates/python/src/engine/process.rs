//! Columns of messages through an engine: what is asked of the messages, and the columns that come of it.

use super::{Engine, FailedRows};
use crate::results;
use crate::rows::{table, Errors, Rows};
use arrow_array::builder::{BinaryBuilder, LargeBinaryBuilder};
use arrow_array::{ArrayRef, ListArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use twigcast_kernel::evaluate::TextId;
use twigcast_kernel::join::Witness;
use twigcast_kernel::output::Results;
use twigcast_kernel::xml::{Limits, XmlError};
use twigcast_kernel::{Beside, Engine as Kernel, FirstText, Group, Matcher, Seen};

/// What is asked of each message.
pub(super) enum Asked {
    /// The matches and what they select.
    Results,
    /// The matches, in ascending order or in any.
    Matches { ascending: bool },
    /// Nothing: the paths of messages are recognised, for benchmarks.
    Nothing,
}

impl Asked {
    pub(super) fn new(selecting: bool, order: &str) -> PyResult<Asked> {
        match order {
            "ascending" | "any" | "none" if selecting => Ok(Asked::Results),
            "ascending" => Ok(Asked::Matches { ascending: true }),
            "any" => Ok(Asked::Matches { ascending: false }),
            "none" => Ok(Asked::Nothing),
            _ => Err(PyValueError::new_err(format!("unknown order {order}"))),
        }
    }
}

/// How much is answered at once, roughly.
pub(super) struct Most {
    pub(super) matches: usize,
    pub(super) bytes: usize,
}

/// A column of messages on its way through an engine.
pub(super) struct Input<'a> {
    rows: &'a Rows<'a>,
    /// The first row that has not been read.
    row: usize,
    limits: Limits,
    errors: Errors,
    beside: Columns,
}

impl<'a> Input<'a> {
    pub(super) fn new(rows: &'a Rows<'a>, row: usize, limits: Limits, beside: Columns) -> Input<'a> {
        Input { rows, row, limits, errors: Errors::default(), beside }
    }

    /// Reads messages until there is no room for more. Answers the columns, the first row not read and the subscriptions
    /// that failed.
    pub(super) fn process(mut self, engine: &Engine, asked: &Asked, most: &Most) -> (ArrayRef, usize, FailedRows) {
        let matches = match asked {
            Asked::Results => self.select(engine, most),
            Asked::Matches { ascending } => self.find(engine, *ascending, most),
            Asked::Nothing => self.recognise(engine),
        };
        let failed = std::mem::take(&mut self.errors.failed);
        (table(matches, self.errors, self.beside.finish()), self.row, failed)
    }

    fn is_done(&self) -> bool {
        self.row >= self.rows.len()
    }

    /// Reads the next message by `read`, and notes what was wrong with it.
    fn next(
        &mut self,
        kernel: &Kernel,
        matcher: &mut Matcher,
        read: impl FnOnce(&mut Matcher, &[u8], &Limits, Beside<'_>) -> Result<(), XmlError>,
    ) {
        let xml = self.rows.get(self.row).unwrap_or_default(); // a null is refused as the empty message is
        let limits = &self.limits;
        let done = self.beside.read(kernel, |beside| read(matcher, xml, limits, beside));
        self.errors.fail(matcher.failed());
        self.errors.push(done.err());
        self.row += 1;
    }

    fn select(&mut self, engine: &Engine, most: &Most) -> ListArray {
        let (mut found, mut selected, mut offsets) = (vec![], Results::default(), vec![0]);
        let mut room = true;
        while room && !self.is_done() {
            engine.with_matcher(|kernel, matcher| loop {
                self.next(kernel, matcher, |matcher, xml, limits, beside| {
                    matcher.process(kernel, xml, limits, &mut found, Some(&mut selected), beside)
                });
                offsets.push(found.len() as i32);
                room = found.len() < most.matches && selected.size() < most.bytes;
                if !room || self.is_done() || matcher.is_overworked(kernel) {
                    break;
                }
            });
        }
        results::lists(found, offsets, selected)
    }

    fn find(&mut self, engine: &Engine, ascending: bool, most: &Most) -> ListArray {
        let (mut found, mut offsets) = (engine.pool.take(), vec![0]);
        let mut room = true;
        while room && !self.is_done() {
            engine.with_matcher(|kernel, matcher| {
                let mut group = Group::begin(matcher, &mut found, &mut offsets, ascending);
                loop {
                    self.next(kernel, matcher, |matcher, xml, limits, beside| {
                        group.read(matcher, kernel, xml, limits, beside)
                    });
                    let full = group.found.len() >= most.matches || group.is_full(matcher);
                    if full || self.is_done() || matcher.is_overworked(kernel) {
                        break;
                    }
                }
                group.finish(matcher, kernel);
            });
            room = found.len() < most.matches;
        }
        lists(engine, found, offsets)
    }

    fn recognise(&mut self, engine: &Engine) -> ListArray {
        let from = self.row;
        engine.with_matcher(|kernel, matcher| {
            while !self.is_done() {
                self.next(kernel, matcher, |matcher, xml, limits, _| matcher.recognise(kernel, xml, limits));
            }
        });
        lists(engine, vec![], vec![0; self.row - from + 1])
    }
}

fn lists(engine: &Engine, found: Vec<u32>, offsets: Vec<i32>) -> ListArray {
    let item = Arc::new(Field::new("item", DataType::UInt32, false));
    let values = Arc::new(UInt32Array::new(engine.pool.lend(found), None));
    ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None)
}

/// What is asked of messages beside their matches, as columns.
pub(super) struct Columns {
    text: Option<(TextId, BinaryBuilder)>,
    witness: Option<(Vec<u32>, Witness, LargeBinaryBuilder)>,
    value: Option<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Columns {
    pub(super) fn new(text: Option<TextId>, streams: Option<Vec<u32>>) -> Columns {
        let text = text.map(|path| (path, BinaryBuilder::new()));
        let witness = streams.map(|streams| (streams, Witness::default(), LargeBinaryBuilder::new()));
        Columns { text, witness, value: None, bytes: vec![] }
    }

    /// Calls `read` for a message, and appends what it finds.
    fn read(&mut self, kernel: &Kernel, read: impl FnOnce(Beside<'_>) -> Result<(), XmlError>) -> Result<(), XmlError> {
        let Columns { text, witness, value, bytes } = self;
        *value = None;
        let text_of = text.as_ref().map(|(path, _)| FirstText { path: *path, value });
        let seen = witness.as_mut().map(|(streams, witness, _)| Seen { streams, witness });
        let done = read(Beside { seen, text: text_of });
        let good = done.is_ok();
        if let Some((_, column)) = text {
            column.append_option(value.as_deref().filter(|_| good));
        }
        if let Some((_, witness, column)) = witness {
            bytes.clear();
            if good && !witness.is_empty() {
                kernel.blocks().write(witness, bytes);
            }
            column.append_option(Some(&bytes[..]).filter(|bytes| !bytes.is_empty()));
        }
        done
    }

    fn finish(self) -> Vec<(&'static str, ArrayRef)> {
        let mut columns: Vec<(&'static str, ArrayRef)> = vec![];
        if let Some((_, mut column)) = self.text {
            columns.push(("text", Arc::new(column.finish())));
        }
        if let Some((_, _, mut column)) = self.witness {
            columns.push(("witness", Arc::new(column.finish())));
        }
        columns
    }
}
