//! Transforms for Python: programs and templates in, new messages out.

use crate::arrow::{export, import, ArrowData};
use crate::constants::{constant, Constant};
use crate::locks::is_free;
use crate::rows::{table, Errors, Rows};
use crate::xml::{error, limits, Error};
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StructArray, UInt32Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use twigcast_kernel::output::Cut;
use twigcast_kernel::output::Under;
use twigcast_kernel::output::MOST_BYTES;
use twigcast_kernel::transform::{Bound as Pair, Expr, Key, Making, Piece, Start, Template};
use twigcast_kernel::transform::{Output, Transformer, Transforms as Kernel};
use twigcast_kernel::xml::XmlError;

#[pyclass(frozen, module = "twigcast._kernel")]
#[derive(Default)]
pub struct Transforms {
    kernel: RwLock<Kernel>,
    idle: Mutex<Vec<Transformer>>,
}

/// Subscriptions, the places of their new messages in the list of these, why some of the messages are not there, and why
/// the message was refused if it was.
pub(crate) type Made = (Vec<u32>, Vec<u32>, Vec<Py<PyBytes>>, Cuts, Option<Error>);
/// New messages that were left out, by their places, and why.
type Cuts = Vec<(u32, &'static str)>;

#[pymethods]
impl Transforms {
    #[new]
    fn new() -> Transforms {
        Transforms::default()
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.kernel.try_write()) && is_free(self.idle.try_lock())
    }

    /// The symbol of a name test; `local` is None for any name in the namespace.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: &str, local: Option<&str>) -> u32 {
        py.detach(|| self.write(|k| k.names_mut().intern(attribute, uri.as_bytes(), local.map(str::as_bytes))))
    }

    /// Adds a transform: its program with the constants of its slots, and what is made of its groups: sort keys, and the
    /// template before, in and after them. Pieces are tuples of a word and its arguments.
    fn add(
        &self,
        py: Python<'_>,
        number: u32,
        program: Vec<u32>,
        constants: &Bound<'_, PyList>,
        making: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let constants = constants.iter().map(|c| constant(&c)).collect::<PyResult<Vec<_>>>()?;
        let making = self::making(making)?;
        py.detach(|| {
            self.write(|k| {
                let row = row(k, constants);
                k.add(number, &program, &row, making)
            })
        })
        .map_err(PyValueError::new_err)
    }

    fn remove(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        let removed = py.detach(|| self.write(|k| k.remove(number)));
        removed.then_some(()).ok_or_else(|| PyKeyError::new_err(number))
    }

    /// The subscriptions that make something of a message, the numbers of what they make, these new messages, which of
    /// them were too long, and why the message was refused if it was.
    #[pyo3(signature = (xml, limits=None))]
    fn transform_one(&self, py: Python<'_>, xml: &[u8], limits: Option<&Bound<'_, PyDict>>) -> PyResult<Made> {
        let limits = self::limits(limits)?;
        let mut out = Output::default();
        let done = py.detach(|| self.with(|k, t| t.transform(k, xml, &limits, &mut out)));
        Ok(made(py, out, done))
    }

    /// As `transform_one` for a column from row `start` on, until there are `max_bytes`: a struct array (matches: list of
    /// subscription and payload, the place of the new message in the array of all, error), that array, which of its
    /// messages were left out and why, and the first row not done.
    #[pyo3(signature = (column, start, max_bytes, limits=None))]
    fn transform_column(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        start: usize,
        max_bytes: usize,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(ArrowData, ArrowData, Cuts, usize)> {
        let limits = self::limits(limits)?;
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let max_bytes = max_bytes.min(MOST_BYTES) as u64;
        let (matches, payloads, cuts, next) = py.detach(|| {
            let (mut out, mut errors, mut offsets) = (Output::default(), Errors::default(), vec![0i32]);
            let next = self.each_row(&rows, start, |k, t, xml| {
                errors.push(t.transform(k, xml, &limits, &mut out).err());
                offsets.push(out.subs.len() as i32);
                out.delivered + 8 * (out.subs.len() as u64) < max_bytes
            });
            let cuts = cuts(&out);
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("subscription", Arc::new(UInt32Array::new(ScalarBuffer::from(out.subs), None))),
                ("payload", Arc::new(UInt32Array::new(ScalarBuffer::from(out.payload_of), None))),
            ];
            let fields: Fields = columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), false)).collect();
            let each = StructArray::new(fields, columns.into_iter().map(|c| c.1).collect(), None);
            let item = Arc::new(Field::new("item", each.data_type().clone(), false));
            let lists = ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), Arc::new(each), None);
            let ends = std::iter::once(0).chain(out.ends.iter().map(|&e| e as i32)).collect();
            let payloads: ArrayRef =
                Arc::new(BinaryArray::new(OffsetBuffer::new(ends), Buffer::from_vec(out.bytes), None));
            (table(lists, errors), payloads, cuts, next)
        });
        Ok((export(matches), export(payloads), cuts, next))
    }

    /// The subscriptions that make something of a message, or why it was refused.
    #[pyo3(signature = (xml, limits=None))]
    fn match_one(
        &self,
        py: Python<'_>,
        xml: &[u8],
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(Vec<u32>, Option<Error>)> {
        let limits = self::limits(limits)?;
        let mut out = vec![];
        let done = py.detach(|| self.with(|k, t| t.matches(k, xml, &limits, &mut out)));
        Ok((out, done.err().map(error)))
    }

    /// As `match_one` for a whole column: a struct array (matches: list<uint32>, error).
    #[pyo3(signature = (column, limits=None))]
    fn match_column(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ArrowData> {
        let limits = self::limits(limits)?;
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        Ok(export(py.detach(|| {
            let (mut out, mut errors, mut offsets) = (vec![], Errors::default(), vec![0i32]);
            self.each_row(&rows, 0, |k, t, xml| {
                errors.push(t.matches(k, xml, &limits, &mut out).err());
                offsets.push(out.len() as i32);
                true
            });
            let item = Arc::new(Field::new("item", DataType::UInt32, false));
            let values = Arc::new(UInt32Array::new(ScalarBuffer::from(out), None));
            table(ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None), errors)
        })))
    }

    /// Subscriptions; distinct plans, classes, bindings and relative paths.
    fn stats(&self, py: Python<'_>) -> (usize, [usize; 4]) {
        py.detach(|| self.read(|k| (k.set.len(), k.set.distinct())))
    }
}

impl Transforms {
    fn write<T>(&self, f: impl FnOnce(&mut Kernel) -> T) -> T {
        f(&mut self.kernel.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn read<T>(&self, f: impl FnOnce(&Kernel) -> T) -> T {
        f(&self.kernel.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, f: impl FnOnce(&Kernel, &mut Transformer) -> T) -> T {
        let kernel = self.kernel.read().unwrap_or_else(PoisonError::into_inner);
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transformer = idle().pop().unwrap_or_default();
        let result = f(&kernel, &mut transformer);
        idle().push(transformer);
        result
    }

    fn each_row(
        &self,
        rows: &Rows<'_>,
        start: usize,
        mut f: impl FnMut(&Kernel, &mut Transformer, &[u8]) -> bool,
    ) -> usize {
        let mut row = start;
        self.with(|kernel, transformer| {
            while row < rows.len() {
                let more = f(kernel, transformer, rows.get(row).unwrap_or_default());
                row += 1;
                if !more {
                    break;
                }
            }
        });
        row
    }
}

/// Returns the new messages of one message.
pub(crate) fn made(py: Python<'_>, out: Output, done: Result<(), XmlError>) -> Made {
    let from = |i: usize| if i == 0 { 0 } else { out.ends[i - 1] as usize };
    let payload = |i: usize| PyBytes::new(py, &out.bytes[from(i)..out.ends[i] as usize]).unbind();
    let payloads = (0..out.ends.len()).map(payload).collect();
    let cuts = cuts(&out);
    (out.subs, out.payload_of, payloads, cuts, done.err().map(error))
}

fn cuts(out: &Output) -> Cuts {
    let cut = |(place, cut): (usize, &Option<Cut>)| cut.map(|cut| (place as u32, cut.code()));
    out.cuts.iter().enumerate().filter_map(cut).collect()
}

/// Constants as rows hold them.
pub(crate) fn row(kernel: &mut Kernel, constants: Vec<Constant>) -> Vec<f64> {
    let number_of = |c| match c {
        Constant::Text(text) => kernel.string(text.as_bytes()) as f64,
        Constant::Number(x) => x,
    };
    constants.into_iter().map(number_of).collect()
}

/// (sort keys, before, pieces, after)
pub(crate) fn making(value: &Bound<'_, PyTuple>) -> PyResult<Making> {
    let part = |i| value.get_item(i);
    let order = part(0)?.cast::<PyList>()?.iter().map(|k| key(&k)).collect::<PyResult<_>>()?;
    let pieces = part(2)?.cast::<PyList>()?.iter().map(|p| piece(&p)).collect::<PyResult<_>>()?;
    let template = Template { before: bytes(&part(1)?)?, pieces, after: bytes(&part(3)?)? };
    Ok(Making { order, template })
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Box<[u8]>> {
    Ok(value.extract::<&[u8]>()?.into())
}

fn piece(value: &Bound<'_, PyAny>) -> PyResult<Piece> {
    let parts = value.cast::<PyTuple>()?;
    let part = |i| parts.get_item(i);
    let pairs = |i| -> PyResult<Vec<Pair>> {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = part(i)?.extract()?;
        Ok(pairs.into_iter().map(|(a, b)| (a.into(), b.into())).collect())
    };
    Ok(match part(0)?.extract::<String>()?.as_str() {
        "markup" => Piece::Markup(bytes(&part(1)?)?),
        "copy" => Piece::Copy(part(1)?.extract()?, if part(2)?.extract()? { Under::Default } else { Under::NoDefault }),
        "attributes" => {
            let start = Start { declared: pairs(2)?, scope: pairs(3)?, attributes: pairs(4)? };
            Piece::Attributes(part(1)?.extract::<Vec<u32>>()?.into(), Box::new(start))
        }
        "item" => Piece::Item(expr(&part(1)?)?),
        "sequence" => Piece::Sequence,
        "quoted" => Piece::Quoted(expr(&part(1)?)?),
        other => return Err(PyValueError::new_err(format!("unknown piece {other}"))),
    })
}

/// (value, numeric, descending, none last)
fn key(value: &Bound<'_, PyAny>) -> PyResult<Key> {
    let parts = value.cast::<PyTuple>()?;
    let flag = |i| -> PyResult<bool> { parts.get_item(i)?.extract() };
    Ok(Key { value: expr(&parts.get_item(0)?)?, numeric: flag(1)?, descending: flag(2)?, none_last: flag(3)? })
}

fn expr(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    let parts = value.cast::<PyTuple>()?;
    let argument = parts.get_item(1)?;
    let list = || argument.extract::<u32>();
    let parts_of = || argument.cast::<PyTuple>()?.iter().map(|e| expr(&e)).collect::<PyResult<_>>();
    Ok(match parts.get_item(0)?.extract::<String>()?.as_str() {
        "constant" => Expr::Constant(bytes(&argument)?),
        "concat" => Expr::Concat(parts_of()?),
        "spaced" => Expr::Spaced(parts_of()?),
        "joined" => Expr::Joined(list()?),
        "first" => Expr::First(list()?),
        "count" => Expr::Count(list()?),
        "sum" => Expr::Sum(list()?),
        "min" => Expr::Min(list()?),
        "max" => Expr::Max(list()?),
        "avg" => Expr::Average(list()?),
        other => return Err(PyValueError::new_err(format!("unknown expression {other}"))),
    })
}
