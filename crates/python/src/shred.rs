//! Shredding for Python: messages in, rows out as Arrow columns; and BrPred over such columns.

use crate::arrow::{export, import, structs, ArrowData};
use crate::locks::is_free;
use crate::rows::{Errors, Rows};
use crate::xml::limits;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int32Array, ListArray, StringArray, UInt32Array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twigcast_kernel::Step;
use twigcast_kernel::{meet, Binding};
use twigcast_kernel::{Shredder as Kernel, Shreds};

#[pyclass(frozen, module = "twigcast._kernel")]
#[derive(Default)]
pub struct Shredder {
    kernel: Mutex<Kernel>,
}

/// Tag path and linear path; and tag path, branch and positions.
type News = (Vec<(u32, u32)>, Vec<(u32, u32, Vec<u32>)>);

#[pymethods]
impl Shredder {
    #[new]
    fn new() -> Shredder {
        Shredder::default()
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.kernel.try_lock())
    }

    /// Return the symbol of a name test; `uri` is None for any namespace, `local` for any name. None if there are too many
    /// pairs of these wildcards.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: Option<&str>, local: Option<&str>) -> Option<u32> {
        py.detach(|| self.lock().names_mut().test(attribute, uri.map(str::as_bytes), local.map(str::as_bytes)))
    }

    /// A linear path under a number; once more to say that values matter after all.
    fn add_path(&self, py: Python<'_>, number: u32, codes: Vec<u32>, valued: bool) -> PyResult<()> {
        let steps: Vec<Step> = codes.into_iter().map(Step).collect();
        py.detach(|| self.lock().add_path(number, &steps, valued)).map_err(PyValueError::new_err)
    }

    /// A branch that ends in a linear path; `points` are the steps, from 0, that are branch points.
    fn add_branch(&self, py: Python<'_>, number: u32, path: u32, points: Vec<u32>) -> PyResult<()> {
        py.detach(|| self.lock().add_branch(number, path, points)).map_err(PyValueError::new_err)
    }

    fn add_tag_path(&self, py: Python<'_>, text: &str) -> PyResult<u32> {
        py.detach(|| self.lock().add_tag_path(text)).map_err(PyValueError::new_err)
    }

    fn tag_path(&self, py: Python<'_>, number: u32) -> PyResult<String> {
        py.detach(|| {
            let mut kernel = self.lock();
            let known = (number as usize) < kernel.tag_paths();
            known.then(|| kernel.tag_path(number)).ok_or_else(|| PyValueError::new_err("no such tag path"))
        })
    }

    fn tag_paths(&self, py: Python<'_>) -> usize {
        py.detach(|| self.lock().tag_paths())
    }

    /// What is new since the last call: pairs of tag path and linear path that match; tag path, branch and the depths
    /// where its points can lie.
    fn news(&self, py: Python<'_>) -> News {
        py.detach(|| {
            let news = self.lock().news();
            (news.matches, news.positions.into_iter().map(|(t, b, p)| (t, b, p.into_vec())).collect())
        })
    }

    /// The rows of the messages from row `start` on, as long as there is room; what is wrong with each message; and the
    /// first row not read.
    #[pyo3(signature = (column, start=0, limits=None))]
    fn shred(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        start: usize,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(ArrowData, ArrowData, usize)> {
        let limits = self::limits(limits)?;
        let column = import(column)?;
        let rows = Rows::new(&column)?;
        let (shreds, errors, next) = py.detach(|| {
            let (mut shreds, mut errors) = (Shreds::default(), Errors::default());
            let mut kernel = self.lock();
            let mut row = start;
            while row < rows.len() && shreds.has_room() {
                let xml = rows.get(row).unwrap_or_default(); // a null is refused as the empty message is
                errors.push(kernel.shred(row as u32, xml, &limits, &mut shreds).err());
                row += 1;
            }
            (shreds, errors, row)
        });
        Ok((export(columns(shreds)?), export(errors.finish()), next))
    }
}

impl Shredder {
    fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ends(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(std::iter::once(0).chain(ends).collect())
}

fn columns(s: Shreds) -> PyResult<ArrayRef> {
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let ids = ListArray::new(item, ends(s.id_ends), Arc::new(Int32Array::new(ScalarBuffer::from(s.ids), None)), None);
    let valued = NullBuffer::from(s.valued);
    let values = StringArray::try_new(ends(s.value_ends), Buffer::from_vec(s.values), Some(valued))
        .map_err(|e| PyValueError::new_err(e.to_string()))?;
    let is_number = NullBuffer::from_iter(s.numbers.iter().map(|x| !x.is_nan()));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("event_id", Arc::new(UInt32Array::new(ScalarBuffer::from(s.messages), None)), true),
        ("tagpath", Arc::new(UInt32Array::new(ScalarBuffer::from(s.tag_paths), None)), true),
        ("idpath", Arc::new(ids), true),
        ("value", Arc::new(values), true),
        ("number", Arc::new(Float64Array::new(ScalarBuffer::from(s.numbers), Some(is_number))), true),
    ];
    Ok(Arc::new(structs(columns, None)))
}

fn list(array: &ArrayRef) -> PyResult<&ListArray> {
    array.as_any().downcast_ref().ok_or_else(|| PyTypeError::new_err("lists are needed"))
}

fn numbers(array: &ArrayRef) -> PyResult<&Int32Array> {
    array.as_any().downcast_ref().ok_or_else(|| PyTypeError::new_err("32-bit numbers are needed"))
}

/// The numbers of one list.
fn slice(numbers: &Int32Array, offsets: &OffsetBuffer<i32>, i: usize) -> Vec<i32> {
    (offsets[i]..offsets[i + 1]).map(|k| numbers.value(k as usize)).collect()
}

/// BrPred, row by row: lists of branches, of their points, and of the nodes that these are.
#[pyfunction]
fn branches_meet(
    py: Python<'_>,
    branches: &Bound<'_, PyAny>,
    points: &Bound<'_, PyAny>,
    nodes: &Bound<'_, PyAny>,
) -> PyResult<ArrowData> {
    let (branches, points, nodes) = (import(branches)?, import(points)?, import(nodes)?);
    let (branches, points, nodes) = (list(&branches)?, list(&points)?, list(&nodes)?);
    let branch = numbers(branches.values())?;
    let (point_lists, node_lists) = (list(points.values())?, list(nodes.values())?);
    let (point, node) = (numbers(point_lists.values())?, numbers(node_lists.values())?);
    if points.len() != branches.len() || nodes.len() != branches.len() {
        return Err(PyValueError::new_err("the columns differ in length"));
    }
    let found: Vec<bool> = py.detach(|| {
        let one = |row: usize| {
            let rows = branches.offsets()[row + 1] - branches.offsets()[row];
            let bound: Vec<_> = (0..rows)
                .map(|i| {
                    let at = |lists: &ListArray| (lists.offsets()[row] + i) as usize;
                    let points = slice(point, point_lists.offsets(), at(points));
                    let nodes = slice(node, node_lists.offsets(), at(nodes));
                    (branch.value(at(branches)), points, nodes)
                })
                .collect();
            meet(bound.iter().map(|(branch, points, nodes)| Binding { branch: *branch, points, nodes }))
        };
        (0..branches.len()).map(one).collect()
    });
    Ok(export(Arc::new(BooleanArray::from(found))))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Shredder>()?;
    m.add_function(wrap_pyfunction!(branches_meet, m)?)?;
    Ok(())
}
