//! Large documents for Python: the streaming reader alone, fragments of a scheme, and pieces.

use crate::arrow::{export, import, ArrowData};
use crate::engine::Engine;
use crate::rows::{failures, Failure, Rows};
use crate::xml::{error, limits, Count, Error};
use arrow_array::LargeBinaryArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Mutex, PoisonError};
use twigcast_kernel as kernel;
use twigcast_kernel::chunk::chunker::{self, Keep, Manner};
use twigcast_kernel::chunk::pieces;
use twigcast_kernel::xml::Stream;
use twigcast_kernel::{Names, ANY};

/// Reads a document as its bytes come, and keeps nothing of it.
#[pyclass(module = "twigcast._kernel")]
pub struct Check {
    stream: Stream,
    count: Count,
}

#[pymethods]
impl Check {
    #[new]
    #[pyo3(signature = (limits=None, window=1 << 18, max_total=u64::MAX))]
    fn new(limits: Option<&Bound<'_, PyDict>>, window: usize, max_total: u64) -> PyResult<Check> {
        Ok(Check { stream: Stream::new(self::limits(limits)?, window, max_total), count: Count::default() })
    }

    fn feed(&mut self, py: Python<'_>, data: &[u8]) -> Option<Error> {
        py.detach(|| self.stream.push(data, &mut self.count)).err().map(error)
    }

    fn finish(&mut self, py: Python<'_>) -> Option<Error> {
        py.detach(|| self.stream.finish(&mut self.count)).err().map(error)
    }

    #[getter]
    fn elements(&self) -> u64 {
        self.count.0
    }

    /// The document is in UTF-8, without a DTD that changes it; None before that is known.
    #[getter]
    fn plain(&self) -> Option<bool> {
        self.stream.is_plain()
    }
}

/// A step: whether it is for any descendant, namespace name (None: any), local name (None: any).
type Step = (bool, Option<String>, Option<String>);

fn keep(names: &mut Names, chunk: usize, subtree: bool, steps: Vec<Step>) -> PyResult<Keep> {
    if steps.is_empty() {
        return Err(PyValueError::new_err("a path needs a step"));
    }
    let mut tests = Vec::with_capacity(steps.len());
    for (any_depth, uri, local) in steps {
        let test = match (&uri, &local) {
            (None, None) => ANY,
            // Where there are too many pairs of wildcards, all elements are kept: too much does no harm.
            (uri, local) => {
                let [uri, local] = [uri, local].map(|part| part.as_deref().map(str::as_bytes));
                names.test(false, uri, local).unwrap_or(ANY)
            }
        };
        tests.push((test, any_depth));
    }
    Ok(Keep { chunk, subtree, steps: tests })
}

/// Writes the fragments of a chunking scheme.
#[pyclass(module = "twigcast._kernel")]
pub struct Chunker(chunker::Chunker);

/// Number of a chunk, XML, runs (id here, id in the document, byte offset in the document).
type Fragment<'py> = (usize, Bound<'py, PyBytes>, Vec<(u64, u64, u64)>);
type TagPath = Vec<(String, String)>;

#[pymethods]
impl Chunker {
    /// `keeps`: chunk, whether all that is in the elements is kept, and the steps to them. `manners`, per chunk: whether
    /// it is the document itself, and whether it may be cut into batches.
    #[new]
    #[pyo3(signature = (keeps, manners, batch, max_fragment, limits=None, window=1 << 18, max_total=u64::MAX, tag_paths=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        keeps: Vec<(usize, bool, Vec<Step>)>,
        manners: Vec<(bool, bool)>,
        batch: usize,
        max_fragment: usize,
        limits: Option<&Bound<'_, PyDict>>,
        window: usize,
        max_total: u64,
        tag_paths: bool,
    ) -> PyResult<Chunker> {
        let mut names = Names::new();
        let mut made = Vec::with_capacity(keeps.len());
        for (chunk, subtree, steps) in keeps {
            if chunk >= manners.len() {
                return Err(PyValueError::new_err("no such chunk"));
            }
            made.push(keep(&mut names, chunk, subtree, steps)?);
        }
        let manners: Vec<Manner> = manners.iter().map(|&(whole, batches)| Manner { whole, batches }).collect();
        let limits = self::limits(limits)?;
        let settings = chunker::Settings { limits, window, max_total, batch, max_fragment, tag_paths };
        Ok(Chunker(chunker::Chunker::new(names, made, &manners, settings)))
    }

    fn feed(&mut self, py: Python<'_>, data: &[u8]) -> Option<Error> {
        py.detach(|| self.0.push(data)).err().map(error)
    }

    fn finish(&mut self, py: Python<'_>) -> Option<Error> {
        py.detach(|| self.0.finish()).err().map(error)
    }

    fn take<'py>(&mut self, py: Python<'py>) -> Vec<Fragment<'py>> {
        let done = py.detach(|| self.0.take()).into_iter();
        done.map(|fragment| {
            let runs = fragment.runs.iter().map(|run| (run.here, run.there, run.offset)).collect();
            (fragment.chunk, PyBytes::new(py, &fragment.xml), runs)
        })
        .collect()
    }

    /// Chunks that are too large: no fragment of theirs will come.
    fn overfull(&self) -> Vec<usize> {
        self.0.overfull()
    }

    /// The tag paths that are new; None if there are too many.
    fn tag_paths(&mut self) -> Option<Vec<TagPath>> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let paths = self.0.new_tag_paths()?.into_iter();
        Some(paths.map(|path| path.into_iter().map(|(uri, local)| (text(uri), text(local))).collect()).collect())
    }

    #[getter]
    fn nodes(&self) -> u64 {
        self.0.nodes()
    }
}

/// Cuts a document into pieces.
#[pyclass(module = "twigcast._kernel")]
pub struct Pieces(pieces::Pieces);

/// Number, XML as an Arrow array of one, start and end of its content, whether it may have been cut wrongly, how many
/// elements are open around it, and the units, by number, that are cut through at its end.
type Piece = (u64, ArrowData, usize, usize, bool, usize, Vec<usize>);

#[pymethods]
impl Pieces {
    #[new]
    #[pyo3(signature = (units, target, limits=None, window=1 << 18, max_total=u64::MAX))]
    fn new(
        units: Vec<Vec<Step>>,
        target: usize,
        limits: Option<&Bound<'_, PyDict>>,
        window: usize,
        max_total: u64,
    ) -> PyResult<Pieces> {
        let mut names = Names::new();
        let units = units.into_iter().enumerate();
        let keeps = units.map(|(number, steps)| keep(&mut names, number, true, steps)).collect::<PyResult<_>>()?;
        let settings = pieces::Settings { limits: self::limits(limits)?, window, max_total, target: target.max(1) };
        Ok(Pieces(pieces::Pieces::new(names, keeps, settings)))
    }

    fn feed(&mut self, py: Python<'_>, data: &[u8]) {
        py.detach(|| self.0.feed(data));
    }

    fn finish(&mut self, py: Python<'_>) {
        py.detach(|| self.0.finish());
    }

    fn break_off(&mut self, py: Python<'_>) {
        py.detach(|| self.0.break_off());
    }

    fn take(&mut self) -> Vec<Piece> {
        let ready = self.0.take().into_iter();
        ready
            .map(|piece| {
                let ends = ScalarBuffer::from(vec![0, piece.xml.len() as i64]);
                let (start, end) = piece.content;
                let array = LargeBinaryArray::new(OffsetBuffer::new(ends), Buffer::from_vec(piece.xml), None);
                (piece.number, export(Arc::new(array)), start, end, piece.guessed, piece.around, piece.parted)
            })
            .collect()
    }

    fn settle(&mut self) {
        self.0.settle();
    }

    fn reject(&mut self, py: Python<'_>, contents: Vec<Bound<'_, PyBytes>>) {
        let contents: Vec<&[u8]> = contents.iter().map(|content| content.as_bytes()).collect();
        py.detach(|| self.0.reject(&contents));
    }

    #[getter]
    fn error(&self) -> Option<Error> {
        self.0.error().cloned().map(error)
    }
}

/// Matches documents unit by unit.
#[pyclass(frozen, module = "twigcast._kernel")]
pub struct Units {
    engine: Py<Engine>,
    units: Vec<Keep>,
    /// What threads have done with: each that matches takes one and gives it back.
    idle: Mutex<Vec<kernel::Units>>,
    /// By number: it is not looked for any more.
    found: Mutex<Vec<bool>>,
}

#[pymethods]
impl Units {
    #[new]
    fn new(engine: Py<Engine>, units: Vec<Vec<Step>>) -> PyResult<Units> {
        let mut names = engine.get().write();
        let units = units.into_iter().map(|steps| keep(names.names_mut(), 0, true, steps)).collect::<PyResult<_>>()?;
        drop(names);
        Ok(Units { engine, units, idle: Mutex::default(), found: Mutex::default() })
    }

    /// Looks no more for these subscriptions. They are still there, and cost a little.
    fn skip(&self, numbers: Vec<u32>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for number in numbers {
            let at = number as usize;
            if found.len() <= at {
                found.resize(at + 1, false);
            }
            found[at] = true;
        }
    }

    /// The numbers of the subscriptions that some unit of the document satisfies, or what lies between units, ascending;
    /// those that failed on some unit and hold on none; or why it cannot be read. The document is the first of an Arrow column. Of its elements, the outermost `free` are
    /// no units.
    #[pyo3(signature = (column, free=0, limits=None))]
    fn match_one(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        free: usize,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(Vec<u32>, Vec<Failure>, Option<Error>)> {
        let limits = self::limits(limits)?;
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let xml = rows.get(0).unwrap_or_default();
        let engine = self.engine.get();
        Ok(py.detach(|| {
            let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = idle().pop();
            let mut units = taken.unwrap_or_else(|| kernel::Units::new(self.units.clone()));
            units.begin(free, &self.found.lock().unwrap_or_else(PoisonError::into_inner));
            let mut out = vec![];
            let (read, failed) = engine.with_matcher(|kernel, matcher| {
                (matcher.read_units(kernel, xml, &limits, &mut units, &mut out), failures(matcher.failed()))
            });
            idle().push(units);
            (out, failed, read.err().map(error))
        }))
    }
}
