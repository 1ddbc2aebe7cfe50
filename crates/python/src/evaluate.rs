//! The evaluator of XPath for Python.

use crate::locks::is_free;
use crate::xml::{error, limits, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError, RwLock};
use twigcast_kernel::evaluate::{Budget, Exceeded, Outcome, Queries, QueryId, Scratch, Trees};
use twigcast_kernel::Names;

/// XPath expressions that are evaluated over messages within a budget.
#[pyclass(frozen, module = "twigcast._kernel")]
#[derive(Default)]
pub struct Evaluator {
    set: RwLock<(Names, Queries)>,
    /// Working memory not in use: each thread takes one and gives it back.
    idle: Mutex<Vec<(Trees, Scratch)>>,
}

/// Number of a query, whether it holds, the nodes that it selects if it asks for these, and what it exceeded if it failed.
type Answer = (u32, bool, Option<Vec<u32>>, Option<&'static str>);

fn answer(id: QueryId, outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Holds(holds) => (id.0, holds, None, None),
        Outcome::Selects(holds, nodes) => (id.0, holds, Some(nodes), None),
        Outcome::Failed(Exceeded::Steps) => (id.0, false, None, Some("steps")),
        Outcome::Failed(Exceeded::Bytes) => (id.0, false, None, Some("bytes")),
    }
}

#[pymethods]
impl Evaluator {
    #[new]
    fn new() -> Evaluator {
        Evaluator::default()
    }

    /// The default budget: steps and bytes.
    #[staticmethod]
    fn default_budget() -> (u64, u64) {
        let budget = Budget::default();
        (budget.steps, budget.bytes)
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.set.try_write()) && is_free(self.idle.try_lock())
    }

    /// The symbol of a name test; `local` is None for any name in the namespace.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: &str, local: Option<&str>) -> u32 {
        py.detach(|| {
            let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
            set.0.intern(attribute, uri.as_bytes(), local.map(str::as_bytes))
        })
    }

    /// Adds a query as words and the strings in it; returns its number.
    #[pyo3(signature = (words, strings, *, selects=false))]
    fn add(&self, py: Python<'_>, words: Vec<u32>, strings: Vec<PyBackedStr>, selects: bool) -> PyResult<u32> {
        let strings: Vec<&str> = strings.iter().map(|s| &**s).collect();
        let added = py.detach(|| {
            let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
            let (names, queries) = &mut *set;
            queries.add(&words, &strings, selects, names)
        });
        added.map(|id| id.0).map_err(PyValueError::new_err)
    }

    /// Removes a query; returns False if there is none with this number.
    fn remove(&self, py: Python<'_>, number: u32) -> bool {
        py.detach(|| self.set.write().unwrap_or_else(PoisonError::into_inner).1.remove(QueryId(number)))
    }

    /// Evaluates queries, all of them if `numbers` is None, over a message. Each may take so many steps and bytes.
    #[pyo3(signature = (xml, limits, budget, numbers=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        xml: &[u8],
        limits: &Bound<'_, PyDict>,
        budget: (u64, u64),
        numbers: Option<Vec<u32>>,
    ) -> PyResult<(Vec<Answer>, Option<Error>)> {
        let limits = self::limits(Some(limits))?;
        let budget = Budget { steps: budget.0, bytes: budget.1 };
        let read = py.detach(|| {
            let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
            let (names, queries) = &*set;
            let mut working = self.idle.try_lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default();
            let (trees, scratch) = &mut working;
            let asked: Vec<QueryId> = match numbers {
                Some(numbers) => numbers.into_iter().map(QueryId).collect(),
                None => queries.ids().collect(),
            };
            let mut answers = Vec::with_capacity(asked.len());
            let read = trees.read(xml, &limits, names, |tree| {
                queries.evaluate(tree, budget, asked, scratch, |id, outcome| answers.push(answer(id, outcome)));
            });
            if let Ok(mut idle) = self.idle.try_lock() {
                idle.push(working);
            }
            read.map(|_| answers)
        });
        match read {
            Ok(answers) => Ok((answers, None)),
            Err(e) => Ok((vec![], Some(error(e)))),
        }
    }
}
