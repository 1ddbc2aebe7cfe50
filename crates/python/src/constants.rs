//! The constants of subscriptions, as Python has them.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString};
use twigcast_kernel::shapes::Slot;
use twigcast_kernel::Engine as Kernel;

/// A constant of a subscription.
pub(crate) enum Constant {
    Text(PyBackedStr),
    Number(f64),
}

impl FromPyObject<'_, '_> for Constant {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Constant> {
        match value.cast::<PyString>() {
            Ok(text) => Ok(Constant::Text(text.extract()?)),
            Err(_) => Ok(Constant::Number(value.extract()?)),
        }
    }
}

/// The constants of one slot, row by row.
pub(crate) enum Column {
    Texts(Vec<PyBackedStr>),
    Numbers(Vec<f64>),
}

impl FromPyObject<'_, '_> for Column {
    type Error = PyErr;

    /// From texts, and whether these are numbers as they are written.
    fn extract(column: Borrowed<'_, '_, PyAny>) -> PyResult<Column> {
        let (are_numbers, texts): (bool, Bound<'_, PyList>) = column.extract()?;
        if !are_numbers {
            return texts.extract().map(Column::Texts);
        }
        let number = |t: Bound<'_, PyAny>| Ok(t.cast::<PyString>()?.to_str()?.parse::<f64>()?);
        texts.iter().map(number).collect::<PyResult<_>>().map(Column::Numbers)
    }
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Texts(texts) => texts.len(),
            Column::Numbers(numbers) => numbers.len(),
        }
    }

    pub(crate) fn slot(&self) -> Slot {
        match self {
            Column::Texts(_) => Slot::Str,
            Column::Numbers(_) => Slot::Num,
        }
    }
}

/// The numbers of constants, those that `number` gives to strings in place of these.
pub(crate) fn numbered(constants: Vec<Constant>, mut number: impl FnMut(&[u8]) -> u32) -> Vec<f64> {
    let each = |c| match c {
        Constant::Text(text) => number(text.as_bytes()) as f64,
        Constant::Number(x) => x,
    };
    constants.into_iter().map(each).collect()
}

/// Columns as rows, one after the other, as many as the shortest column has.
pub(crate) fn rows_of(kernel: &mut Kernel, columns: &[Column]) -> Vec<f64> {
    let count = columns.iter().map(Column::len).min().unwrap_or(0);
    let mut rows = vec![0.0; columns.len() * count];
    for (i, column) in columns.iter().enumerate() {
        let places = rows.iter_mut().skip(i).step_by(columns.len());
        match column {
            Column::Texts(texts) => places.zip(texts).for_each(|(x, text)| *x = kernel.string(text.as_bytes()) as f64),
            Column::Numbers(numbers) => places.zip(numbers).for_each(|(x, number)| *x = *number),
        }
    }
    rows
}
