//! The engine for Python: subscriptions as arrays of step codes, messages and matches as Arrow columns.

mod process;

use crate::arrow::{export, import, ArrowData};
use crate::constants::{numbered, rows_of, Column, Constant};
use crate::join::{BlockShape, Witness};
use crate::locks::is_free;
use crate::pool::Pool;
use crate::results;
use crate::rows::{failures, Failure, Rows};
use crate::xml::{error, limits_of, Error, GivenLimits};
use arrow_array::{Array, BooleanArray, UInt8Array};
use process::{Asked, Columns, Input, Most};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use twigcast_kernel::evaluate::TextId;
use twigcast_kernel::join::{Variable, Witness as SeenWitness};
use twigcast_kernel::output::{Results, MOST_BYTES};
use twigcast_kernel::shapes::{Access, Form, Shape, Slot};
use twigcast_kernel::xml::{Limits, XmlError};
use twigcast_kernel::{Beside, Engine as Kernel, FirstText, Held, Matcher, Seen, Step, CACHE_BYTES};

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

/// The subscriptions that a message satisfies, what some of them get, what correlations see of the message, the text that
/// is asked for, the subscriptions that failed, and why the message cannot be read.
type Processed<'py> = (Vec<u32>, Bound<'py, PyDict>, Witness, Option<Bound<'py, PyBytes>>, Vec<Failure>, Option<Error>);

/// Access paths or guards: the steps and the slot of the value.
type Ways = Vec<(Vec<u32>, Option<u32>)>;

fn form(fragments: bool) -> Form {
    if fragments {
        Form::Fragments
    } else {
        Form::Nodes
    }
}

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
    fn value_symbol(&self, py: Python<'_>, value: Constant) -> u32 {
        py.detach(|| match value {
            Constant::Text(text) => self.write().string_value(text.as_bytes()),
            Constant::Number(x) => self.write().number_value(x),
        })
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
        let steps: Vec<Step> = codes.into_iter().map(Step).collect();
        self.change(py, |kernel| kernel.add_many(&numbers, &steps, &path_ends, &sub_ends))
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
        self.change(py, |kernel| kernel.add_shape(&program, access, guards, exact))
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
    fn add_rows(&self, py: Python<'_>, shape: u32, numbers: Vec<u32>, constants: Vec<Constant>) -> PyResult<()> {
        self.change(py, |kernel| {
            let rows = numbered(constants, |text| kernel.string(text));
            kernel.add_rows(shape, &numbers, &rows)
        })
    }

    /// The same with the constants column by column, as texts.
    fn add_columns(&self, py: Python<'_>, shape: u32, numbers: Vec<u32>, columns: Vec<Column>) -> PyResult<()> {
        self.change(py, |kernel| {
            let rows = rows_of(kernel, &columns);
            kernel.add_rows(shape, &numbers, &rows)
        })
    }

    /// Adds subscriptions to the same paths under reserved numbers. Each path has its steps and the column with the
    /// values of the node at its end (None: the path alone); the columns are as in `add_columns`.
    fn add_paths(&self, py: Python<'_>, paths: Ways, numbers: Vec<u32>, columns: Vec<Column>) -> PyResult<()> {
        let slots: Vec<Slot> = columns.iter().map(Column::slot).collect();
        let paths = accesses(paths);
        self.change(py, |kernel| {
            let rows = rows_of(kernel, &columns);
            kernel.add_paths(&paths, &slots, &numbers, &rows)
        })
    }

    /// A selector, by its program.
    fn add_selector(&self, py: Python<'_>, program: Vec<u32>) -> PyResult<u32> {
        self.change(py, |kernel| kernel.add_selector(&program))
    }

    /// From now on `process_one` and `process` tell what a subscription selects: fragments, or the ids of nodes.
    fn want(
        &self,
        py: Python<'_>,
        number: u32,
        fragments: bool,
        selector: u32,
        constants: Vec<Constant>,
    ) -> PyResult<()> {
        self.change(py, |kernel| {
            let row = numbered(constants, |text| kernel.string(text));
            kernel.want(number, form(fragments), selector, &row)
        })
    }

    /// From now on a subscription holds only for messages that satisfy this query, too: its words, and the strings in it.
    fn add_query(&self, py: Python<'_>, number: u32, words: Vec<u32>, strings: Vec<PyBackedStr>) -> PyResult<()> {
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        self.change(py, |kernel| kernel.add_query(number, &words, &strings))
    }

    /// A path to a text that `process` may be asked for: its words, and the strings in it.
    fn add_text(&self, py: Python<'_>, words: Vec<u32>, strings: Vec<PyBackedStr>) -> PyResult<u32> {
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        self.change(py, |kernel| kernel.add_text(&words, &strings)).map(|path| path.0)
    }

    /// From now on `process_one` and `process` tell what the query of a subscription selects.
    fn want_query(&self, py: Python<'_>, number: u32, fragments: bool) -> PyResult<()> {
        self.change(py, |kernel| kernel.want_query(number, form(fragments)))
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
        constants: Vec<Constant>,
        making: &[u8],
        deliver_empty: bool,
    ) -> PyResult<()> {
        self.change(py, |kernel| {
            let row = numbered(constants, |text| kernel.string(text));
            kernel.add_transform(number, &program, &row, making, deliver_empty)
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
        self.change(py, |kernel| kernel.block_shape(stream, &program, &paths, variables)).map(BlockShape)
    }

    /// Adds a block of correlations: its shape, with the constants of its slots. `keys` are those of the block and of its
    /// columns, for witnesses that another process is to read.
    #[pyo3(signature = (block, shape, constants, keys=None))]
    fn add_block(
        &self,
        py: Python<'_>,
        block: u32,
        shape: &BlockShape,
        constants: Vec<Constant>,
        keys: Option<(u64, Vec<u64>)>,
    ) -> PyResult<()> {
        let keys = keys.as_ref().map(|(block, columns)| (*block, &columns[..]));
        self.change(py, |kernel| {
            let row = numbered(constants, |text| kernel.string(text));
            kernel.add_block(block, &shape.0, &row, keys)
        })
    }

    fn remove_block(&self, py: Python<'_>, block: u32) -> PyResult<()> {
        self.change(py, |kernel| kernel.remove_block(block))
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
        self.change(py, |kernel| kernel.add_residual_transform(number, (&words, &strings), making, deliver_empty))
    }

    /// Keeps a reserved number, or that of a transform, for a transform that is evaluated elsewhere.
    fn hold(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        self.change(py, |kernel| kernel.hold(number))
    }

    /// Transforms; distinct plans, classes, bindings and relative paths of these.
    fn transform_stats(&self, py: Python<'_>) -> (usize, [usize; 4]) {
        py.detach(|| self.read().transform_stats())
    }

    fn remove(&self, py: Python<'_>, sub: u32) -> PyResult<()> {
        let removed = self.change(py, |kernel| Ok(kernel.remove(sub)))?;
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

    /// As `match_one`, with what subscriptions get if `selecting`, by their numbers (those that get the match alone have no
    /// entry), with what correlations see of the message, given the streams that it comes by, and with the text at a path
    /// of `add_text`: all in one reading.
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
        let asked = Asked::new(selecting, order)?;
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let most = Most { matches: max_matches, bytes: max_bytes.unwrap_or(MOST_BYTES).min(MOST_BYTES) };
        let beside = Columns::new(self.text_path(text)?, streams);
        let (data, next, failed) = py.detach(|| Input::new(&rows, start, limits, beside).process(self, &asked, &most));
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

impl Engine {
    // Whoever waits for one of these locks must not hold the interpreter up meanwhile: `detach` first.

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Kernel> {
        self.kernel.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Kernel> {
        self.kernel.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the subscriptions of the kernel.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Kernel) -> Result<T, &'static str> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut kernel = self.write();
            self.dirty.store(true, Ordering::Release);
            change(&mut kernel)
        })
        .map_err(PyValueError::new_err)
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
}
