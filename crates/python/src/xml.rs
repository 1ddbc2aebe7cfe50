//! The reader for Python: verdicts, events for tests, and bare parsing for benchmarks.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use twigcast_kernel::xml::{Limits, Reader, Sink, Tag, XmlError, CODES};

pub type Error = (&'static str, String, u32, u32, u64);

pub fn error(e: XmlError) -> Error {
    (e.code, e.message, e.line, e.column, e.offset)
}

/// The defaults, changed by what the dictionary names.
pub fn limits(given: Option<&Bound<'_, PyDict>>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    let Some(given) = given else {
        return Ok(limits);
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "max_bytes" => limits.max_bytes = value.extract()?,
            "max_depth" => limits.max_depth = value.extract()?,
            "max_attributes" => limits.max_attributes = value.extract()?,
            "max_name" => limits.max_name = value.extract()?,
            "max_expansion" => limits.max_expansion = value.extract()?,
            "max_amplification" => limits.max_amplification = value.extract()?,
            "max_entity_depth" => limits.max_entity_depth = value.extract()?,
            _ => return Err(PyKeyError::new_err(format!("unknown limit {key}"))),
        }
    }
    Ok(limits)
}

/// Counts elements, so that nothing is optimised away.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    #[inline(always)]
    fn start(&mut self, _: &Tag<'_>) {
        self.0 += 1;
    }
    #[inline(always)]
    fn end(&mut self, _: u32, _: u32) {}
}

/// None, or why the message is not well-formed: (code, message, line, column, offset).
#[pyfunction]
#[pyo3(signature = (data, limits=None))]
fn validate(
    py: Python<'_>,
    data: &[u8],
    limits: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<Error>> {
    let limits = self::limits(limits)?;
    let read = py.detach(|| Reader::new().read(data, &limits, &mut Count::default()));
    Ok(read.err().map(error))
}

/// Reads every message and answers how many elements there are; a bad message is skipped.
#[pyfunction]
fn parse_only(py: Python<'_>, messages: &Bound<'_, PyList>) -> PyResult<u64> {
    let mut held = Vec::with_capacity(messages.len());
    for message in messages {
        let message = message
            .cast_into::<PyBytes>()
            .map_err(|_| PyTypeError::new_err("a list of bytes is needed"))?;
        held.push(message);
    }
    let slices: Vec<&[u8]> = held.iter().map(|message| message.as_bytes()).collect();
    Ok(py.detach(|| {
        let mut reader = Reader::new();
        let mut count = Count::default();
        let limits = Limits::default();
        for message in slices {
            let _ = reader.read(message, &limits, &mut count);
        }
        count.0
    }))
}

/// Every error code with what it means.
#[pyfunction]
fn error_codes() -> Vec<(&'static str, &'static str)> {
    CODES.to_vec()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(validate, m)?)?;
    m.add_function(wrap_pyfunction!(parse_only, m)?)?;
    m.add_function(wrap_pyfunction!(error_codes, m)?)?;
    Ok(())
}
