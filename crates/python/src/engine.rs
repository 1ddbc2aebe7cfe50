//! The engine for Python: subscriptions as arrays of step codes, messages and matches as Arrow columns.

use crate::arrow::{export, import, ArrowData};
use crate::constants::{constant, numbered, rows_of, Column, Constant};
use crate::join::{BlockShape, Witness};
use crate::locks::is_free;
use crate::pool::Pool;
use crate::results;
use crate::rows::{failures, table, Errors, Failure, Rows};
use crate::xml::{error, limits_of, Error, GivenLimits};
use arrow_array::builder::{BinaryBuilder, LargeBinaryBuilder};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, UInt32Array, UInt8Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyList, PySequence};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use twigcast_kernel::evaluate::TextId;
use twigcast_kernel::join::{Variable, Witness as SeenWitness};
use twigcast_kernel::output::{Results, MOST_BYTES};
use twigcast_kernel::shapes::Form;
use twigcast_kernel::shapes::Slot;
use twigcast_kernel::shapes::{Access, Shape};
use twigcast_kernel::xml::{Limits, XmlError};
use twigcast_kernel::Group;
use twigcast_kernel::Held;
use twigcast_kernel::Matcher;
use twigcast_kernel::Seen;
use twigcast_kernel::Step;
use twigcast_kernel::{Beside, FirstText};
use twigcast_kernel::{Engine as Kernel, CACHE_BYTES};

#[pyclass(frozen, module = "twigcast._kernel")]
pub struct Engine {
    kernel: RwLock<Kernel>,
    /// Changed since it was last settled.
    dirty: AtomicBool,
    make_matcher: fn(&Kernel) -> Matcher,
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

/// By row, counted from the first one that was matched: subscriptions that failed.
type FailedRows = Vec<(usize, Vec<Failure>)>;

/// The subscriptions that a message satisfies, what some of them get, those that failed, and why it cannot be read.
type Answers<'py> = (Vec<u32>, Bound<'py, PyDict>, Vec<Failure>, Option<Error>);

/// As `Answers`, with what correlations see of the message and the text that is asked for.
type Processed<'py> = (Vec<u32>, Bound<'py, PyDict>, Witness, Option<Bound<'py, PyBytes>>, Vec<Failure>, Option<Error>);

/// Access paths or guards: the steps and the slot of the value.
type Ways = Vec<(Vec<u32>, Option<u32>)>;

fn accesses(ways: Ways) -> Vec<Access> {
    ways.into_iter().map(|(path, slot)| Access { path: path.into_iter().map(Step).collect(), slot }).collect()
}

impl Engine {
    pub(crate) fn with_matchers(kernel: Kernel, make_matcher: fn(&Kernel) -> Matcher) -> Engine {
        Engine {
            kernel: RwLock::new(kernel),
            dirty: AtomicBool::new(true),
            make_matcher,
            idle: Mutex::new(vec![]),
            pool: Arc::default(),
        }
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (cache_bytes=CACHE_BYTES))]
    fn new(cache_bytes: usize) -> Engine {
        Engine::with_matchers(Kernel::new(cache_bytes), Matcher::new)
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.kernel.try_write()) && is_free(self.idle.try_lock())
    }

    /// Opens an engine from what `save` gave, as an Arrow array of bytes.
    #[staticmethod]
    #[pyo3(signature = (data, cache_bytes=CACHE_BYTES))]
    fn open(py: Python<'_>, data: &Bound<'_, PyAny>, cache_bytes: usize) -> PyResult<Engine> {
        Ok(Engine::with_matchers(open(py, data, cache_bytes)?, Matcher::new))
    }

    /// All there is to know about the subscriptions, as an Arrow array of bytes.
    fn save(&self, py: Python<'_>) -> ArrowData {
        export(py.detach(|| Arc::new(UInt8Array::from(self.read().save()))))
    }

    /// Return the symbol of a name test; `uri` is None for any namespace, `local` for any name. None if there are too many
    /// pairs of these wildcards.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: Option<&str>, local: Option<&str>) -> Option<u32> {
        py.detach(|| self.write().names_mut().test(attribute, uri.map(str::as_bytes), local.map(str::as_bytes)))
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

    /// By number: does it stand for a subscription? As an Arrow array.
    fn subscriptions(&self, py: Python<'_>) -> ArrowData {
        export(py.detach(|| Arc::new(BooleanArray::from(self.read().subscriptions()))))
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
    /// guards likewise; and how many of its first steps must find a single node for access path and guards to decide it.
    fn add_shape(
        &self,
        py: Python<'_>,
        program: Vec<u32>,
        access: Ways,
        guards: Ways,
        exact: Option<u32>,
    ) -> PyResult<u32> {
        let (access, guards) = (accesses(access), accesses(guards));
        py.detach(|| self.write().add_shape(&program, access, guards, exact)).map_err(PyValueError::new_err)
    }

    /// The shapes by number, as `add_shape` took them.
    fn shapes(&self, py: Python<'_>) -> Vec<(Vec<u32>, Ways, Ways, Option<u32>)> {
        let ways = |list: &[Access]| list.iter().map(|a| (a.path.iter().map(|s| s.0).collect(), a.slot)).collect();
        py.detach(|| {
            let each = |s: &Shape| (s.words.to_vec(), ways(&s.access), ways(&s.guards), s.exact);
            self.read().shapes().map(each).collect()
        })
    }

    /// Adds subscriptions of one shape under reserved numbers, with their constants slot by slot, row after row.
    fn add_rows(&self, py: Python<'_>, shape: u32, numbers: Vec<u32>, constants: &Bound<'_, PyList>) -> PyResult<()> {
        let constants = constants.iter().map(|c| constant(&c)).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let rows = numbered(constants, |text| kernel.string(text));
            kernel.add_rows(shape, &numbers, &rows).map_err(PyValueError::new_err)
        })
    }

    /// The same with the constants column by column, as texts.
    fn add_columns(
        &self,
        py: Python<'_>,
        shape: u32,
        numbers: Vec<u32>,
        columns: Vec<(bool, Bound<'_, PyList>)>,
    ) -> PyResult<()> {
        let columns = columns.iter().map(Column::new).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let rows = rows_of(&mut kernel, &columns);
            kernel.add_rows(shape, &numbers, &rows).map_err(PyValueError::new_err)
        })
    }

    /// Adds subscriptions to the same paths under reserved numbers. Each path has its steps and the column with the
    /// values of the node at its end (None: the path alone); the columns are as in `add_columns`.
    fn add_paths(
        &self,
        py: Python<'_>,
        paths: Ways,
        numbers: Vec<u32>,
        columns: Vec<(bool, Bound<'_, PyList>)>,
    ) -> PyResult<()> {
        let columns = columns.iter().map(Column::new).collect::<PyResult<Vec<_>>>()?;
        let slots: Vec<Slot> = columns.iter().map(Column::slot).collect();
        let paths = accesses(paths);
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let rows = rows_of(&mut kernel, &columns);
            kernel.add_paths(&paths, &slots, &numbers, &rows).map_err(PyValueError::new_err)
        })
    }

    /// A selector, by its program.
    fn add_selector(&self, py: Python<'_>, program: Vec<u32>) -> PyResult<u32> {
        py.detach(|| self.write().add_selector(&program)).map_err(PyValueError::new_err)
    }

    /// From now on `select_one` and `process` tell what a subscription selects: fragments, or the ids of nodes.
    fn want(
        &self,
        py: Python<'_>,
        number: u32,
        fragments: bool,
        selector: u32,
        constants: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let constants = constants.iter().map(|c| constant(&c)).collect::<PyResult<Vec<_>>>()?;
        let form = if fragments { Form::Fragments } else { Form::Nodes };
        py.detach(|| {
            let mut kernel = self.write();
            let row = numbered(constants, |text| kernel.string(text));
            kernel.want(number, form, selector, &row).map_err(PyValueError::new_err)
        })
    }

    /// From now on a subscription holds only for messages that satisfy this query, too: its words, and the strings in it.
    fn add_query(&self, py: Python<'_>, number: u32, words: Vec<u32>, strings: Vec<PyBackedStr>) -> PyResult<()> {
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        py.detach(|| self.write().add_query(number, &words, &strings)).map_err(PyValueError::new_err)
    }

    /// A path to a text that `process` may be asked for: its words, and the strings in it.
    fn add_text(&self, py: Python<'_>, words: Vec<u32>, strings: Vec<PyBackedStr>) -> PyResult<u32> {
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        py.detach(|| self.write().add_text(&words, &strings)).map(|path| path.0).map_err(PyValueError::new_err)
    }

    /// From now on `select_one` and `process` tell what the query of a subscription selects.
    fn want_query(&self, py: Python<'_>, number: u32, fragments: bool) -> PyResult<()> {
        let form = if fragments { Form::Fragments } else { Form::Nodes };
        py.detach(|| self.write().want_query(number, form)).map_err(PyValueError::new_err)
    }

    /// The subscriptions that select nodes or fragments, in no particular order.
    fn selecting(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.read().selecting().collect())
    }

    /// Whether a subscription has a query.
    fn has_query(&self, py: Python<'_>, number: u32) -> bool {
        py.detach(|| self.read().has_query(number))
    }

    /// Adds a transform under a reserved number: its program with the constants of its slots, and the code of what is made
    /// of its groups. With `deliver_empty` that is made also where there are none.
    fn add_transform(
        &self,
        py: Python<'_>,
        number: u32,
        program: Vec<u32>,
        constants: &Bound<'_, PyList>,
        making: &[u8],
        deliver_empty: bool,
    ) -> PyResult<()> {
        let constants = constants.iter().map(|c| constant(&c)).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let row = numbered(constants, |text| kernel.string(text));
            kernel.add_transform(number, &program, &row, making, deliver_empty).map_err(PyValueError::new_err)
        })
    }

    /// Returns the shape of blocks of correlations that may be added here: their stream; their program; the program of the
    /// paths to their variables; and these, as places of their parents and columns.
    fn block_shape(
        &self,
        py: Python<'_>,
        stream: u32,
        program: Vec<u32>,
        paths: Vec<u32>,
        parents: Vec<u32>,
        columns: Vec<u32>,
    ) -> PyResult<BlockShape> {
        let variables = parents.into_iter().zip(columns).map(|(parent, column)| Variable { parent, column }).collect();
        let made = py.detach(|| self.write().block_shape(stream, &program, &paths, variables));
        made.map(BlockShape).map_err(PyValueError::new_err)
    }

    /// Adds a block of correlations: its shape, with the constants of its slots. `keys` are those of the block and of its
    /// columns, for witnesses that another process is to read.
    #[pyo3(signature = (block, shape, constants, keys=None))]
    fn add_block(
        &self,
        py: Python<'_>,
        block: u32,
        shape: &BlockShape,
        constants: &Bound<'_, PySequence>,
        keys: Option<(u64, Vec<u64>)>,
    ) -> PyResult<()> {
        let constants = constants.try_iter()?.map(|c| constant(&c?)).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            let row = numbered(constants, |text| kernel.string(text));
            kernel.add_block(block, &shape.0, &row, keys.as_ref().map(|(block, columns)| (*block, &columns[..])))
        })
        .map_err(PyValueError::new_err)
    }

    fn remove_block(&self, py: Python<'_>, block: u32) -> PyResult<()> {
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            kernel.remove_block(block)
        })
        .map_err(PyValueError::new_err)
    }

    /// Values of these columns of blocks are compared from now on.
    fn join_on(&self, py: Python<'_>, columns: Vec<u32>) {
        py.detach(|| {
            let mut kernel = self.write();
            columns.into_iter().for_each(|column| kernel.join_on(column));
        })
    }

    /// Adds a transform that is no pattern under a reserved number: its query as words, and the strings in it.
    fn add_residual_transform(
        &self,
        py: Python<'_>,
        number: u32,
        query: (Vec<u32>, Vec<PyBackedStr>),
        making: &[u8],
        deliver_empty: bool,
    ) -> PyResult<()> {
        let (words, strings) = query;
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            kernel
                .add_residual_transform(number, (&words, &strings), making, deliver_empty)
                .map_err(PyValueError::new_err)
        })
    }

    /// Keeps a reserved number, or that of a transform, for a transform that is evaluated elsewhere.
    fn hold(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        py.detach(|| self.write().hold(number)).map_err(PyValueError::new_err)
    }

    /// Transforms; distinct plans, classes, bindings and relative paths of these.
    fn transform_stats(&self, py: Python<'_>) -> (usize, [usize; 4]) {
        py.detach(|| self.read().transform_stats())
    }

    fn remove(&self, py: Python<'_>, sub: u32) -> PyResult<()> {
        let removed = py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            kernel.remove(sub)
        });
        removed.then_some(()).ok_or_else(|| PyKeyError::new_err(sub))
    }

    /// How many subscriptions share a path.
    fn sharers(&self, py: Python<'_>, codes: &[u8]) -> PyResult<u32> {
        let steps: Vec<Step> = words(codes)?.into_iter().map(Step).collect();
        Ok(py.detach(|| self.read().sharers(&steps)))
    }

    /// The numbers of the subscriptions that a message satisfies, ascending; those that failed on it; or why it cannot be
    /// read.
    #[pyo3(signature = (xml, limits=None))]
    fn match_one(
        &self,
        py: Python<'_>,
        xml: &[u8],
        limits: Option<GivenLimits<'_>>,
    ) -> PyResult<(Vec<u32>, Vec<Failure>, Option<Error>)> {
        let limits = limits_of(limits)?;
        Ok(py.detach(|| {
            let mut out = vec![];
            let (read, failed) = self.with_matcher(|kernel, matcher| {
                (matcher.read_sorted(kernel, xml, &limits, &mut out), failures(matcher.failed()))
            });
            (out, failed, read.err().map(error))
        }))
    }

    /// As `match_one`, with what subscriptions get, by their numbers; those that get the match alone have no entry.
    #[pyo3(signature = (xml, limits=None))]
    fn select_one<'py>(&self, py: Python<'py>, xml: &[u8], limits: Option<GivenLimits<'py>>) -> PyResult<Answers<'py>> {
        let limits = limits_of(limits)?;
        let (mut found, mut selected) = (vec![], Results::default());
        let (read, failed) = py.detach(|| {
            self.with_matcher(|kernel, matcher| {
                (matcher.select(kernel, xml, &limits, &mut found, &mut selected), failures(matcher.failed()))
            })
        });
        let selected = results::by_number(py, &found, &selected)?;
        Ok((found, selected, failed, read.err().map(error)))
    }

    /// As `select_one` (or, without `selecting`, as `match_one`) in one reading with what correlations see of the message,
    /// given the streams that it comes by, and with the text at a path of `add_text`.
    #[pyo3(signature = (xml, streams, selecting, limits=None, text=None))]
    fn process_one<'py>(
        &self,
        py: Python<'py>,
        xml: &[u8],
        streams: Vec<u32>,
        selecting: bool,
        limits: Option<GivenLimits<'py>>,
        text: Option<u32>,
    ) -> PyResult<Processed<'py>> {
        let limits = limits_of(limits)?;
        let text = self.text_path(text)?;
        let (mut found, mut selected, mut witness) = (vec![], Results::default(), SeenWitness::default());
        let mut value = None;
        let (read, failed) = py.detach(|| {
            self.with_matcher(|kernel, matcher| {
                let results = selecting.then_some(&mut selected);
                let seen = Some(Seen { streams: &streams, witness: &mut witness });
                let text = text.map(|path| FirstText { path, value: &mut value });
                let read = matcher.process(kernel, xml, &limits, &mut found, results, Beside { seen, text });
                (read, failures(matcher.failed()))
            })
        });
        let selected = if selecting { results::by_number(py, &found, &selected)? } else { PyDict::new(py) };
        let value = value.map(|text| PyBytes::new(py, &text));
        Ok((found, selected, Witness(witness), value, failed, read.err().map(error)))
    }

    /// What correlations see of a message that comes by some streams; or why it cannot be read.
    #[pyo3(signature = (xml, streams, limits=None))]
    fn witness_one(
        &self,
        py: Python<'_>,
        xml: &[u8],
        streams: Vec<u32>,
        limits: Option<GivenLimits<'_>>,
    ) -> PyResult<(Witness, Option<Error>)> {
        let limits = limits_of(limits)?;
        let mut seen = SeenWitness::default();
        let read = py.detach(|| self.see(&streams, xml, &limits, &mut seen));
        Ok((Witness(seen), read.err().map(error)))
    }

    /// A witness from its bytes, as `process` has them; None if the message has to be read again.
    fn read_witness(&self, py: Python<'_>, bytes: &[u8]) -> Option<Witness> {
        let mut witness = SeenWitness::default();
        py.detach(|| self.read().blocks().read_witness(bytes, &mut witness)).then_some(Witness(witness))
    }

    /// Reads the messages of a column from row `start` on, each once, until there are `max_matches` or, with `selecting`,
    /// `max_bytes` of results. Answers the first row not read, the subscriptions that failed, and a struct array:
    /// `matches` (list<uint32>, or structs with what each subscription gets); `error`; with `text`, a path of `add_text`,
    /// the string value of its first node; and with `streams` the `witness` as bytes, null where correlations see nothing.
    /// `order` is "ascending" or "any"; "none" recognises and delivers nothing, for benchmarks.
    #[pyo3(signature = (column, start, max_matches, max_bytes=None, selecting=false, order="ascending", text=None, streams=None, limits=None))]
    #[allow(clippy::too_many_arguments)]
    fn process(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        start: usize,
        max_matches: usize,
        max_bytes: Option<usize>,
        selecting: bool,
        order: &str,
        text: Option<u32>,
        streams: Option<Vec<u32>>,
        limits: Option<GivenLimits<'_>>,
    ) -> PyResult<(ArrowData, usize, FailedRows)> {
        let limits = limits_of(limits)?;
        let order = match order {
            "ascending" => Order::Ascending,
            "any" => Order::Any,
            "none" => Order::None,
            _ => return Err(PyValueError::new_err(format!("unknown order {order}"))),
        };
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let max_bytes = max_bytes.unwrap_or(MOST_BYTES).min(MOST_BYTES);
        let text = self.text_path(text)?;
        let most = Most { matches: max_matches, bytes: max_bytes };
        let (data, next, failed) = py.detach(|| {
            let mut beside = Columns::new(text, streams);
            let (matches, mut errors, next) = match selecting {
                true => self.select_rows(&rows, start, most, &limits, &mut beside),
                false => self.match_rows(&rows, start, most, order, &limits, &mut beside),
            };
            let failed = std::mem::take(&mut errors.failed);
            (table(matches, errors, beside.finish()), next, failed)
        });
        Ok((export(data), next, failed))
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

/// Opens a kernel engine from what `save` gave, as an Arrow array of bytes.
pub(crate) fn open(py: Python<'_>, data: &Bound<'_, PyAny>, cache_bytes: usize) -> PyResult<Kernel> {
    let data = import(data)?;
    let bytes = data.as_any().downcast_ref::<UInt8Array>().ok_or_else(|| PyTypeError::new_err("bytes are needed"))?;
    let held = Arc::new(Bytes(bytes.clone()));
    py.detach(|| Kernel::open(held, cache_bytes)).map_err(PyValueError::new_err)
}

/// A mapped file, or a part of it.
struct Bytes(UInt8Array);

// SAFETY: Arrow data is immutable and does not move. (Whoever writes into a mapped file breaks Arrow's own promise; what
// the kernel reads of it is checked again when it is used as an index.)
unsafe impl Held for Bytes {
    fn bytes(&self) -> &[u8] {
        self.0.values()
    }
}

/// How much `process` answers at once, roughly.
#[derive(Clone, Copy)]
struct Most {
    matches: usize,
    bytes: usize,
}

/// What is asked of messages beside their matches, as columns.
struct Columns {
    text: Option<(TextId, BinaryBuilder)>,
    witness: Option<(Vec<u32>, SeenWitness, LargeBinaryBuilder)>,
    value: Option<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Columns {
    fn new(text: Option<TextId>, streams: Option<Vec<u32>>) -> Columns {
        let text = text.map(|path| (path, BinaryBuilder::new()));
        let witness = streams.map(|streams| (streams, SeenWitness::default(), LargeBinaryBuilder::new()));
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

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Ascending,
    Any,
    None,
}

impl Engine {
    // Whoever waits for one of these locks must not hold the interpreter up meanwhile: `detach` first.

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Kernel> {
        self.kernel.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Kernel> {
        self.kernel.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Matcher>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text_path(&self, path: Option<u32>) -> PyResult<Option<TextId>> {
        match path.map(TextId) {
            Some(path) if !self.read().has_text(path) => Err(PyKeyError::new_err("no such path")),
            path => Ok(path),
        }
    }

    pub(crate) fn with_matcher<T>(&self, f: impl FnOnce(&Kernel, &mut Matcher) -> T) -> T {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.write().settle();
        }
        let kernel = self.read();
        let idle = self.idle().pop();
        let mut matcher = idle.unwrap_or_else(|| (self.make_matcher)(&kernel));
        let result = f(&kernel, &mut matcher);
        let overworked = matcher.is_overworked(&kernel);
        self.idle().push(matcher);
        drop(kernel);
        if overworked {
            self.write().fold();
        }
        result
    }

    /// Finds what correlations see of a message, and nothing else.
    fn see(&self, streams: &[u32], xml: &[u8], limits: &Limits, witness: &mut SeenWitness) -> Result<(), XmlError> {
        self.with_matcher(|kernel, matcher| matcher.witness(kernel, xml, limits, Seen { streams, witness }))
    }

    /// As `see`; it is an error if correlations cannot be tried with the message.
    pub(crate) fn witness(
        &self,
        streams: &[u32],
        xml: &[u8],
        limits: &Limits,
        witness: &mut SeenWitness,
    ) -> Result<(), XmlError> {
        self.see(streams, xml, limits, witness)?;
        witness.check()
    }

    fn select_rows(
        &self,
        rows: &Rows<'_>,
        start: usize,
        most: Most,
        limits: &Limits,
        beside: &mut Columns,
    ) -> (ListArray, Errors, usize) {
        let (mut found, mut selected) = (vec![], Results::default());
        let mut offsets: Vec<i32> = vec![0];
        let (errors, next) = self.each_row(rows, start, |kernel, matcher, xml| {
            let read = beside
                .read(kernel, |beside| matcher.process(kernel, xml, limits, &mut found, Some(&mut selected), beside));
            offsets.push(found.len() as i32);
            (read, found.len() < most.matches && selected.size() < most.bytes)
        });
        (results::lists(found, offsets, selected), errors, next)
    }

    fn match_rows(
        &self,
        rows: &Rows<'_>,
        start: usize,
        most: Most,
        order: Order,
        limits: &Limits,
        beside: &mut Columns,
    ) -> (ListArray, Errors, usize) {
        let mut found = self.pool.take();
        let mut offsets: Vec<i32> = vec![0];
        let (errors, next) = match order {
            Order::None => self.each_row(rows, start, |kernel, matcher, xml| {
                offsets.push(0);
                (matcher.recognise(kernel, xml, limits), true)
            }),
            _ => {
                let sorted = order == Order::Ascending;
                self.each_group(rows, start, most.matches, limits, sorted, (&mut found, &mut offsets), beside)
            }
        };
        let item = Arc::new(Field::new("item", DataType::UInt32, false));
        let values = Arc::new(UInt32Array::new(self.pool.lend(found), None));
        (ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None), errors, next)
    }

    /// As `each_row`, for the matches of messages alone.
    #[allow(clippy::too_many_arguments)]
    fn each_group(
        &self,
        rows: &Rows<'_>,
        start: usize,
        max_matches: usize,
        limits: &Limits,
        sorted: bool,
        (found, offsets): (&mut Vec<u32>, &mut Vec<i32>),
        beside: &mut Columns,
    ) -> (Errors, usize) {
        let mut errors = Errors::default();
        let mut row = start;
        while row < rows.len() && (row == start || found.len() < max_matches) {
            self.with_matcher(|kernel, matcher| {
                let mut group = Group::begin(matcher, found, offsets, sorted);
                loop {
                    let xml = rows.get(row).unwrap_or_default(); // a null is refused as the empty message is
                    let read = beside.read(kernel, |beside| group.read(matcher, kernel, xml, limits, beside));
                    errors.fail(matcher.failed());
                    errors.push(read.err());
                    row += 1;
                    let full = group.found.len() >= max_matches || group.is_full(matcher);
                    if row == rows.len() || full || matcher.is_overworked(kernel) {
                        break;
                    }
                }
                group.finish(matcher, kernel);
            });
        }
        (errors, row)
    }

    /// Calls `read` for the messages from row `start` on, until it says that there is no room for more. Answers what
    /// was wrong with them, and the first row not read.
    fn each_row(
        &self,
        rows: &Rows<'_>,
        start: usize,
        mut read: impl FnMut(&Kernel, &mut Matcher, &[u8]) -> (Result<(), XmlError>, bool),
    ) -> (Errors, usize) {
        let mut errors = Errors::default();
        let mut row = start;
        let mut more = row < rows.len();
        while more {
            self.with_matcher(|kernel, matcher| {
                while more {
                    let xml = rows.get(row).unwrap_or_default(); // a null is refused as the empty message is
                    let (read, room) = read(kernel, matcher, xml);
                    errors.fail(matcher.failed());
                    errors.push(read.err());
                    row += 1;
                    more = row < rows.len() && room;
                    if matcher.is_overworked(kernel) {
                        break;
                    }
                }
            });
        }
        (errors, row)
    }
}
