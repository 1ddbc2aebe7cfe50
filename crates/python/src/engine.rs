//! The engine for Python: subscriptions as arrays of step codes, messages and matches as Arrow columns.

use crate::arrow::{export, import, ArrowData};
use crate::pool::Pool;
use crate::xml::{error, limits, Error};
use arrow_array::builder::{StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, ListArray, StringArray, StructArray, UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use twigcast_kernel::engine::{Engine as Kernel, Mode, CACHE_BYTES, FUEL};
use twigcast_kernel::matcher::Matcher;
use twigcast_kernel::paths::Step;
use twigcast_kernel::shapes::store::Access;
use twigcast_kernel::xml::{Limits, XmlError};

#[pyclass(frozen, module = "twigcast._kernel")]
pub struct Engine {
    kernel: RwLock<Kernel>,
    /// Changed since it was last settled.
    dirty: AtomicBool,
    /// Matchers not in use: each thread that matches takes one and gives it back.
    idle: Mutex<Vec<Matcher>>,
    pool: Arc<Pool>,
}

fn words(bytes: &[u8]) -> PyResult<Vec<u32>> {
    if !bytes.len().is_multiple_of(4) {
        return Err(PyValueError::new_err("an array of 32-bit numbers is needed"));
    }
    Ok(bytes.chunks_exact(4).map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect())
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (mode="trie", cache_bytes=CACHE_BYTES, fuel=FUEL))]
    fn new(mode: &str, cache_bytes: usize, fuel: u32) -> PyResult<Engine> {
        let mode = Mode::ALL
            .iter()
            .find(|(name, _)| *name == mode)
            .ok_or_else(|| PyValueError::new_err(format!("unknown mode {mode}")))?
            .1;
        Ok(Engine {
            kernel: RwLock::new(Kernel::new(mode, cache_bytes, fuel)),
            dirty: AtomicBool::new(false),
            idle: Mutex::new(vec![]),
            pool: Arc::default(),
        })
    }

    #[staticmethod]
    fn modes() -> Vec<&'static str> {
        Mode::ALL.iter().map(|m| m.0).collect()
    }

    /// The symbol of a name test; `local` is None for any name in the namespace.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: &str, local: Option<&str>) -> u32 {
        py.detach(|| self.write().names_mut().intern(attribute, uri.as_bytes(), local.map(str::as_bytes)))
    }

    /// All symbols in the order they were made: (attribute, uri, local).
    fn symbols(&self, py: Python<'_>) -> Vec<(bool, String, Option<String>)> {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        py.detach(|| self.read().names().entries().map(|(a, uri, local)| (a, text(uri), local.map(text))).collect())
    }

    /// The symbol of a value, a string or a number, as the last step of a path.
    fn value_symbol(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<u32> {
        let value = constant(value)?;
        Ok(py.detach(|| match value {
            Constant::Text(text) => self.write().string_value(text.as_bytes()),
            Constant::Number(x) => self.write().number_value(x),
        }))
    }

    /// Numbers for subscriptions to come; in a new engine they ascend from 0.
    fn reserve(&self, py: Python<'_>, count: usize) -> Vec<u32> {
        py.detach(|| self.write().reserve(count))
    }

    /// Adds subscriptions to paths under reserved numbers. `codes` holds the steps of all paths; path i ends at
    /// `path_ends[i]` of them, and subscription j at `sub_ends[j]` of the paths; all as native 32-bit numbers.
    fn add(&self, py: Python<'_>, numbers: Vec<u32>, codes: &[u8], path_ends: &[u8], sub_ends: &[u8]) -> PyResult<()> {
        let (codes, path_ends, sub_ends) = (words(codes)?, words(path_ends)?, words(sub_ends)?);
        py.detach(|| {
            let steps: Vec<Step> = codes.into_iter().map(Step).collect();
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            kernel.add_many(&numbers, &steps, &path_ends, &sub_ends).map_err(PyValueError::new_err)
        })
    }

    /// A shape: its program; the access paths, each with its steps and the slot of its value (None: the path alone); the
    /// guards likewise; and whether access path and guards alone decide it.
    fn add_shape(
        &self,
        py: Python<'_>,
        program: Vec<u32>,
        access: Vec<(Vec<u32>, Option<u32>)>,
        guards: Vec<(Vec<u32>, Option<u32>)>,
        exact: bool,
    ) -> PyResult<u32> {
        let paths = |list: Vec<(Vec<u32>, Option<u32>)>| {
            list.into_iter().map(|(path, slot)| Access { path: path.into_iter().map(Step).collect(), slot }).collect()
        };
        let (access, guards) = (paths(access), paths(guards));
        py.detach(|| self.write().add_shape(&program, access, guards, exact)).map_err(PyValueError::new_err)
    }

    /// Adds subscriptions of one shape under reserved numbers, with their constants slot by slot, row after row.
    fn add_rows(&self, py: Python<'_>, shape: u32, numbers: Vec<u32>, constants: &Bound<'_, PyList>) -> PyResult<()> {
        let constants = constants.iter().map(|c| constant(&c)).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let rows: Vec<f64> = constants
                .into_iter()
                .map(|c| match c {
                    Constant::Text(text) => kernel.string(text.as_bytes()) as f64,
                    Constant::Number(x) => x,
                })
                .collect();
            kernel.add_rows(shape, &numbers, &rows).map_err(PyValueError::new_err)
        })
    }

    fn remove(&self, py: Python<'_>, sub: u32) -> PyResult<()> {
        let removed = py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            kernel.remove(sub)
        });
        removed.then_some(()).ok_or_else(|| PyKeyError::new_err(sub))
    }

    /// The steps of the given subscriptions, in the form that `add` takes.
    fn steps<'py>(
        &self,
        py: Python<'py>,
        subs: Vec<u32>,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (mut codes, mut path_ends, mut sub_ends) = (vec![], vec![], vec![]);
        py.detach(|| {
            let kernel = self.read();
            for sub in subs {
                for path in kernel.paths_of(sub) {
                    codes.extend(path.iter().map(|s| s.0));
                    path_ends.push(codes.len() as u32);
                }
                sub_ends.push(path_ends.len() as u32);
            }
        });
        let bytes = |w: &[u32]| PyBytes::new(py, &bytes_of(w));
        (bytes(&codes), bytes(&path_ends), bytes(&sub_ends))
    }

    /// How many subscriptions share a path.
    fn sharers(&self, py: Python<'_>, codes: &[u8]) -> PyResult<u32> {
        let steps: Vec<Step> = words(codes)?.into_iter().map(Step).collect();
        Ok(py.detach(|| self.read().sharers(&steps)))
    }

    /// The numbers of the subscriptions that a message satisfies, ascending, or why it cannot be read.
    #[pyo3(signature = (xml, limits=None))]
    fn match_one(
        &self,
        py: Python<'_>,
        xml: &[u8],
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(Vec<u32>, Option<Error>)> {
        let limits = self::limits(limits)?;
        Ok(py.detach(|| {
            let mut out = vec![];
            let read = self.with_matcher(|kernel, matcher| matcher.read_sorted(kernel, xml, &limits, &mut out));
            (out, read.err().map(error))
        }))
    }

    /// Matches the messages of a column from row `start` on, until there are `max_matches`. Answers a struct array
    /// (matches: list<uint32>, error: struct) and the first row not matched. `order` is "ascending" or "any";
    /// "none" recognises and delivers nothing, for benchmarks.
    #[pyo3(signature = (column, start, max_matches, order, limits=None))]
    fn match_column(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        start: usize,
        max_matches: usize,
        order: &str,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(ArrowData, usize)> {
        let limits = self::limits(limits)?;
        let order = match order {
            "ascending" => Order::Ascending,
            "any" => Order::Any,
            "none" => Order::None,
            _ => return Err(PyValueError::new_err(format!("unknown order {order}"))),
        };
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let (data, next) = py.detach(|| self.match_rows(&rows, start, max_matches, order, &limits));
        Ok((export(data), next))
    }

    /// Subscriptions, distinct paths, bytes of the engine, and tag paths and bytes of the largest idle cache.
    fn stats(&self, py: Python<'_>) -> (usize, usize, usize, usize, usize) {
        py.detach(|| {
            let kernel = self.read();
            let (nodes, bytes) = self.idle().iter().map(Matcher::cache).max().unwrap_or((0, 0));
            (kernel.len(), kernel.path_count(), kernel.bytes(), nodes, bytes)
        })
    }

    /// Drops all caches, as if no message had been seen.
    fn forget(&self) {
        self.idle().clear();
    }
}

/// A constant of a subscription.
enum Constant {
    Text(PyBackedStr),
    Number(f64),
}

fn constant(value: &Bound<'_, PyAny>) -> PyResult<Constant> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(Constant::Text(text.extract()?)),
        Err(_) => Ok(Constant::Number(value.extract()?)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Ascending,
    Any,
    None,
}

impl Engine {
    // Whoever waits for one of these locks must not hold the interpreter up meanwhile: `detach` first.

    fn read(&self) -> RwLockReadGuard<'_, Kernel> {
        self.kernel.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kernel> {
        self.kernel.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Matcher>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_matcher<T>(&self, f: impl FnOnce(&Kernel, &mut Matcher) -> T) -> T {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.write().settle();
        }
        let kernel = self.read();
        let idle = self.idle().pop();
        let mut matcher = idle.unwrap_or_else(|| Matcher::new(&kernel));
        let result = f(&kernel, &mut matcher);
        let overworked = matcher.is_overworked(&kernel);
        self.idle().push(matcher);
        drop(kernel);
        if overworked {
            self.write().fold();
        }
        result
    }

    fn match_rows(
        &self,
        rows: &Rows<'_>,
        start: usize,
        max_matches: usize,
        order: Order,
        limits: &Limits,
    ) -> (ArrayRef, usize) {
        let mut found = self.pool.take();
        let mut offsets: Vec<i32> = vec![0];
        let mut errors = Errors::default();
        let mut row = start;
        let mut more = row < rows.len();
        while more {
            self.with_matcher(|kernel, matcher| {
                while more {
                    let xml = rows.get(row).unwrap_or_default(); // a null is refused as the empty message is
                    let read = match order {
                        Order::Ascending => matcher.read_sorted(kernel, xml, limits, &mut found),
                        Order::Any => matcher.read(kernel, xml, limits, &mut found),
                        Order::None => matcher.recognise(kernel, xml, limits),
                    };
                    errors.push(read.err());
                    offsets.push(found.len() as i32);
                    row += 1;
                    more = row < rows.len() && found.len() < max_matches;
                    if matcher.is_overworked(kernel) {
                        break;
                    }
                }
            });
        }
        (result(self.pool.lend(found), offsets, errors), row)
    }
}

/// The column of messages, whichever of the usual types it has.
enum Rows<'a> {
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
}

impl<'a> Rows<'a> {
    fn new(array: &'a ArrayRef) -> PyResult<Rows<'a>> {
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

    fn len(&self) -> usize {
        match self {
            Rows::Binary(a) => a.len(),
            Rows::LargeBinary(a) => a.len(),
            Rows::Text(a) => a.len(),
            Rows::LargeText(a) => a.len(),
        }
    }

    fn get(&self, i: usize) -> Option<&[u8]> {
        match self {
            Rows::Binary(a) => a.is_valid(i).then(|| a.value(i)),
            Rows::LargeBinary(a) => a.is_valid(i).then(|| a.value(i)),
            Rows::Text(a) => a.is_valid(i).then(|| a.value(i).as_bytes()),
            Rows::LargeText(a) => a.is_valid(i).then(|| a.value(i).as_bytes()),
        }
    }
}

#[derive(Default)]
struct Errors {
    valid: Vec<bool>,
    code: StringBuilder,
    line: UInt32Builder,
    column: UInt32Builder,
    offset: UInt64Builder,
    text: StringBuilder,
}

impl Errors {
    fn push(&mut self, error: Option<XmlError>) {
        self.valid.push(error.is_some());
        let e = error.as_ref();
        self.code.append_option(e.map(|e| e.code));
        self.line.append_option(e.map(|e| e.line));
        self.column.append_option(e.map(|e| e.column));
        self.offset.append_option(e.map(|e| e.offset));
        self.text.append_option(e.map(|e| &*e.message));
    }
}

fn result(found: ScalarBuffer<u32>, offsets: Vec<i32>, mut errors: Errors) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::UInt32, false));
    let values = Arc::new(UInt32Array::new(found, None));
    let matches = ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("code", Arc::new(errors.code.finish())),
        ("line", Arc::new(errors.line.finish())),
        ("column", Arc::new(errors.column.finish())),
        ("offset", Arc::new(errors.offset.finish())),
        ("text", Arc::new(errors.text.finish())),
    ];
    let fields: Fields = columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|c| c.1).collect();
    let error = StructArray::new(fields, arrays, Some(NullBuffer::from(errors.valid)));
    let fields: Fields = vec![
        Field::new("matches", matches.data_type().clone(), false),
        Field::new("error", error.data_type().clone(), true),
    ]
    .into();
    Arc::new(StructArray::new(fields, vec![Arc::new(matches), Arc::new(error)], None))
}
