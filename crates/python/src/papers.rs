//! The papers' own strategies for Python: `_kernel.papers`. Only `twigcast.papers` uses it.

use crate::arrow::import;
use crate::constants::{numbered, Constant};
use crate::engine::{open, Engine};
use crate::locks::is_free;
use crate::rows::Rows;
use crate::xml::{error, limits, Error};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::{Mutex, PoisonError, RwLock};
use twigcast_kernel::output::Cut;
use twigcast_kernel::transform::{Making, Output};
use twigcast_kernel::xml::{Limits, XmlError};
use twigcast_kernel::{Engine as Kernel, CACHE_BYTES};
use twigcast_papers::automata::Mode;
use twigcast_papers::plans::{Executor, Groups, KernelGroups, Plans as Registered, KINDS};

pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(parent.py(), "papers")?;
    module.add("MODES", PyTuple::new(parent.py(), Mode::ALL.map(|(name, _)| name))?)?;
    module.add_class::<GroupCounter>()?;
    module.add_class::<Plans>()?;
    module.add_function(wrap_pyfunction!(engine, &module)?)?;
    module.add_function(wrap_pyfunction!(open_engine, &module)?)?;
    parent.add_submodule(&module)
}

fn mode_of(name: &str) -> PyResult<Mode> {
    let mode = Mode::ALL.iter().find(|(known, _)| *known == name);
    mode.map(|m| m.1).ok_or_else(|| PyValueError::new_err(format!("unknown mode {name}")))
}

/// Returns an engine that matches paths in another way. `fuel` bounds the search for a witness, for tests.
#[pyfunction]
#[pyo3(signature = (mode="trie", cache_bytes=CACHE_BYTES, fuel=None))]
fn engine(mode: &str, cache_bytes: usize, fuel: Option<u32>) -> PyResult<Engine> {
    let mut kernel = Kernel::new(cache_bytes);
    if let Some(fuel) = fuel {
        kernel.set_fuel(fuel);
    }
    Ok(Engine::with_matchers(kernel, mode_of(mode)?.make_matcher()))
}

/// Opens an engine from what `Engine.save` gave, as an Arrow array of bytes.
#[pyfunction]
#[pyo3(signature = (data, mode="trie", cache_bytes=CACHE_BYTES))]
fn open_engine(py: Python<'_>, data: &Bound<'_, PyAny>, mode: &str, cache_bytes: usize) -> PyResult<Engine> {
    Ok(Engine::with_matchers(open(py, data, cache_bytes)?, mode_of(mode)?.make_matcher()))
}

/// Subscriptions, the places of their new messages in the list of these, why some of the messages are not there, and why
/// the message was refused if it was.
type Made = (Vec<u32>, Vec<u32>, Vec<Py<PyBytes>>, Vec<(u32, &'static str)>, Option<Error>);

/// Returns the new messages of one message.
fn made(py: Python<'_>, out: Output, done: Result<(), XmlError>) -> Made {
    let from = |i: usize| if i == 0 { 0 } else { out.ends[i - 1] as usize };
    let payload = |i: usize| PyBytes::new(py, &out.bytes[from(i)..out.ends[i] as usize]).unbind();
    let payloads = (0..out.ends.len()).map(payload).collect();
    let cut = |(place, cut): (usize, &Option<Cut>)| cut.map(|cut| (place as u32, cut.code()));
    let cuts = out.cuts.iter().enumerate().filter_map(cut).collect();
    (out.subs, out.payload_of, payloads, cuts, done.err().map(error))
}

/// Transforms as plans of the broker paper's.
#[pyclass(frozen, module = "twigcast._kernel.papers")]
#[derive(Default)]
struct Plans {
    plans: RwLock<Registered>,
    idle: Mutex<Vec<Executor>>,
}

#[pymethods]
impl Plans {
    #[new]
    fn new() -> Plans {
        Plans::default()
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.plans.try_write()) && is_free(self.idle.try_lock())
    }

    /// Return the symbol of a name test; `uri` is None for any namespace, `local` for any name. None if there are too many
    /// pairs of these wildcards.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: Option<&str>, local: Option<&str>) -> Option<u32> {
        let local = local.map(str::as_bytes);
        py.detach(|| self.write(|p| p.vocabulary.names_mut().test(attribute, uri.map(str::as_bytes), local)))
    }

    /// Adds a plan: its operators as codes, and the program that they refer to. A shared plan has operators in common with
    /// others, else it runs on its own.
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        py: Python<'_>,
        number: u32,
        codes: Vec<u32>,
        program: Vec<u32>,
        constants: Vec<Constant>,
        making: &[u8],
        shared: bool,
    ) -> PyResult<()> {
        let making = Making::decode(making).map_err(PyValueError::new_err)?;
        py.detach(|| {
            self.write(|p| {
                let row = numbered(constants, |text| p.vocabulary.string(text));
                p.add(number, &codes, (&program, &row), making, shared)
            })
        })
        .map_err(PyValueError::new_err)
    }

    fn remove(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        let removed = py.detach(|| self.write(|p| p.remove(number)));
        removed.then_some(()).ok_or_else(|| PyKeyError::new_err(number))
    }

    /// The new messages that plans make of a message, each by its place, why some are not there, and why the message was
    /// refused if it was.
    #[pyo3(signature = (xml, limits=None))]
    fn transform_one(&self, py: Python<'_>, xml: &[u8], limits: Option<&Bound<'_, PyDict>>) -> PyResult<Made> {
        let limits = self::limits(limits)?;
        let mut out = Output::default();
        let done = py.detach(|| self.with(|p, executor| executor.transform(p, xml, &limits, &mut out)));
        Ok(made(py, out, done))
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
        let done = py.detach(|| self.with(|p, executor| executor.matches(p, xml, &limits, &mut out)));
        Ok((out, done.err().map(error)))
    }

    /// Goes through a column and counts: plans that bind something, groups, nodes in lists. With `what` "read" the messages
    /// are only read.
    fn count_column(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        what: &str,
        limits: &Bound<'_, PyDict>,
    ) -> PyResult<Counts> {
        let only_read = what == "read";
        count(py, column, limits, |rows, limits| {
            self.with(|p, executor| {
                rows.count(|xml, out| match only_read {
                    true => drop(executor.read(p, xml, limits)),
                    false => drop(executor.groups(p, xml, limits, out)),
                })
            })
        })
    }

    /// What operators cost over a column, by their kinds: runs, tuples taken, nanoseconds.
    fn profile_column<'p>(
        &self,
        py: Python<'p>,
        column: &Bound<'p, PyAny>,
        limits: &Bound<'p, PyDict>,
    ) -> PyResult<Bound<'p, PyDict>> {
        let costs = count(py, column, limits, |rows, limits| {
            self.with(|p, executor| {
                *executor.profile() = Default::default();
                executor.profile().is_on = true;
                rows.count(|xml, out| drop(executor.groups(p, xml, limits, out)));
                std::mem::take(executor.profile()).costs
            })
        })?;
        let found = PyDict::new(py);
        for (kind, cost) in KINDS.iter().zip(costs) {
            found.set_item(kind, (cost.runs, cost.tuples, cost.nanos))?;
        }
        Ok(found)
    }

    /// Subscriptions; joins, outputs of joins, group-bys and results of the shared plans.
    fn stats(&self, py: Python<'_>) -> (usize, [usize; 4]) {
        py.detach(|| self.with(|p, _| (p.set.len(), p.set.sharing.counts())))
    }
}

impl Plans {
    fn write<T>(&self, f: impl FnOnce(&mut Registered) -> T) -> T {
        f(&mut self.plans.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, f: impl FnOnce(&Registered, &mut Executor) -> T) -> T {
        let plans = self.plans.read().unwrap_or_else(PoisonError::into_inner);
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut executor = idle().pop().unwrap_or_default();
        let result = f(&plans, &mut executor);
        idle().push(executor);
        result
    }
}

/// Plans that bind something, groups, and nodes in lists.
type Counts = (usize, usize, usize);

/// Counts what the kernel's own transforms find, as `Plans.count_column` does.
#[pyclass(frozen, module = "twigcast._kernel.papers")]
struct GroupCounter {
    engine: Py<Engine>,
    /// Kept, so that its cache is warm.
    finder: Mutex<KernelGroups>,
}

#[pymethods]
impl GroupCounter {
    #[new]
    fn new(engine: Py<Engine>) -> GroupCounter {
        GroupCounter { engine, finder: Mutex::default() }
    }

    /// Counts what the transforms find. With `what` "read" the messages are only read.
    fn count_column(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        what: &str,
        limits: &Bound<'_, PyDict>,
    ) -> PyResult<Counts> {
        let (engine, only_read) = (self.engine.get(), what == "read");
        count(py, column, limits, |rows, limits| {
            let mut finder = self.finder.lock().unwrap_or_else(PoisonError::into_inner);
            let kernel = engine.read();
            rows.count(|xml, out| match only_read {
                true => drop(finder.read(&kernel, xml, limits)),
                false => drop(finder.find(&kernel, xml, limits, out)),
            })
        })
    }
}

/// Calls `run` with a column of messages, without holding the interpreter up.
fn count<T: Send>(
    py: Python<'_>,
    column: &Bound<'_, PyAny>,
    limits: &Bound<'_, PyDict>,
    run: impl FnOnce(&Rows<'_>, &Limits) -> T + Send,
) -> PyResult<T> {
    let limits = self::limits(Some(limits))?;
    let column = import(column)?;
    let rows = Rows::new(&column)?;
    Ok(py.detach(|| run(&rows, &limits)))
}

impl Rows<'_> {
    /// Calls `find` for each message, and counts the groups that it finds.
    fn count(&self, mut find: impl FnMut(&[u8], &mut Groups)) -> Counts {
        let (mut counts, mut out) = ((0, 0, 0), Groups::default());
        for row in 0..self.len() {
            find(self.get(row).unwrap_or_default(), &mut out);
            counts.0 += out.group_ends.len();
            counts.1 += out.bound.len();
            counts.2 += out.nodes.len();
            out.clear();
        }
        counts
    }
}
