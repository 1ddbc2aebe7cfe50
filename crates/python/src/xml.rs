//! The reader for Python: verdicts, events for tests, and bare parsing for benchmarks.

use std::cell::RefCell;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use twigcast_kernel::output::places as start_places;
use twigcast_kernel::output::plain as plain_form;
use twigcast_kernel::transform::Elements;
use twigcast_kernel::xml::{
    decode_attribute, decode_line_ends, Limits, NsId, Reader, Sink, Stream, Tag, Text, XmlError, CODES,
};

pub(crate) type Error = (&'static str, String, u32, u32, u64);

/// What was made of a message, and why it could not be read.
type Read<T> = (T, Option<Error>);

type LineColumnOffset = (u32, u32, u64);

pub(crate) fn error(e: XmlError) -> Error {
    (e.code, e.message, e.line, e.column, e.offset)
}

/// Limits that were read once, for calls where reading a dictionary would cost more than a small message does.
#[pyclass(frozen, name = "Limits", module = "twigcast._kernel")]
pub(crate) struct HeldLimits(Limits);

#[pymethods]
impl HeldLimits {
    #[new]
    fn new(limits: &Bound<'_, PyDict>) -> PyResult<HeldLimits> {
        Ok(HeldLimits(self::limits(Some(limits))?))
    }
}

/// The limits of a call: a dictionary of those that differ from the defaults, or limits that were read before.
#[derive(FromPyObject)]
pub(crate) enum GivenLimits<'py> {
    Held(Bound<'py, HeldLimits>),
    Named(Bound<'py, PyDict>),
}

pub(crate) fn limits_of(given: Option<GivenLimits<'_>>) -> PyResult<Limits> {
    match given {
        Some(GivenLimits::Held(held)) => Ok(held.get().0),
        Some(GivenLimits::Named(named)) => limits(Some(&named)),
        None => Ok(Limits::default()),
    }
}

/// The defaults, changed by what the dictionary names.
pub(crate) fn limits(given: Option<&Bound<'_, PyDict>>) -> PyResult<Limits> {
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
            "max_result_nodes" => limits.max_result_nodes = value.extract()?,
            "max_result_bytes" => limits.max_result_bytes = value.extract()?,
            "max_message_results" => limits.max_message_results = value.extract()?,
            "max_message_result_bytes" => limits.max_message_result_bytes = value.extract()?,
            "max_query_steps" => limits.max_query_steps = value.extract()?,
            "max_query_bytes" => limits.max_query_bytes = value.extract()?,
            _ => return Err(PyKeyError::new_err(format!("unknown limit {key}"))),
        }
    }
    Ok(limits)
}

thread_local! {
    /// Keeps its working memory from one call to the next.
    static READER: RefCell<Reader> = RefCell::new(Reader::new());
    static ELEMENTS: RefCell<Elements> = RefCell::default();
}

/// Counts elements, so that nothing is optimised away.
#[derive(Default)]
pub(crate) struct Count(pub(crate) u64);

impl Sink for Count {
    #[inline(always)]
    fn start(&mut self, _: &Tag<'_>) {
        self.0 += 1;
    }
    #[inline(always)]
    fn end(&mut self, _: &[u8], _: u32, _: u32) {}
}

/// Collects what a document says, for comparison with another parser; numbers every namespace, since the tests want
/// their names back.
struct Collect<'py> {
    events: Bound<'py, PyList>,
    /// Why an event could not be made.
    failed: PyResult<()>,
    uris: Vec<String>,
    text: Vec<u8>,
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    decode_line_ends(bytes, &mut out);
    string(&out)
}

impl<'py> Collect<'py> {
    fn push(&mut self, event: impl IntoPyObject<'py>) {
        if let Err(error) = self.events.append(event) {
            self.failed = Err(error);
        }
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.push(("text", string(&self.text)));
            self.text.clear();
        }
    }
}

impl Sink for Collect<'_> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        let uri = string(uri);
        let id = self.uris.iter().position(|known| *known == uri).unwrap_or_else(|| {
            self.uris.push(uri);
            self.uris.len() - 1
        });
        NsId(id as u32)
    }
    fn start(&mut self, tag: &Tag<'_>) {
        self.flush();
        let attributes = tag.attrs.iter().map(|attr| {
            let raw = &tag.src[attr.value as usize..attr.value_end as usize];
            let mut value = Vec::new();
            if attr.plain {
                value.extend_from_slice(raw);
            } else {
                decode_attribute(raw, &mut value);
            }
            let local = &tag.src[attr.local as usize..attr.name_end as usize];
            (self.uris[attr.ns.0 as usize].clone(), string(local), string(&value))
        });
        let attributes: Vec<_> = attributes.collect();
        self.push(("start", self.uris[tag.ns.0 as usize].clone(), string(tag.local()), attributes));
    }
    fn end(&mut self, _: &[u8], _: u32, _: u32) {
        self.flush();
        self.push(("end",));
    }
    fn text(&mut self, text: &Text<'_>) {
        text.decode(&mut self.text);
    }
    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.flush();
        self.push(("comment", lines(&src[start as usize + 4..end as usize - 3])));
    }
    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.flush();
        let whole = lines(&src[start as usize + 2..end as usize - 2]);
        let (target, data) = whole.split_once([' ', '\t', '\n']).unwrap_or((&whole, ""));
        self.push(("pi", target, data.trim_start_matches([' ', '\t', '\n'])));
    }
}

/// The events of a message, or the error as `validate` gives it. `portable`: without SIMD. `window`: read in parts.
#[pyfunction]
#[pyo3(signature = (data, limits=None, *, portable=false, window=None))]
fn events<'py>(
    py: Python<'py>,
    data: &[u8],
    limits: Option<&Bound<'py, PyDict>>,
    portable: bool,
    window: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let limits = self::limits(limits)?;
    let mut sink = Collect { events: PyList::empty(py), failed: Ok(()), uris: vec![String::new()], text: Vec::new() };
    let read = match window {
        Some(window) => {
            let mut stream = Stream::new(limits, window, u64::MAX);
            stream.push(data, &mut sink).and_then(|()| stream.finish(&mut sink))
        }
        None if portable => Reader::portable().read(data, &limits, &mut sink),
        None => Reader::new().read(data, &limits, &mut sink),
    };
    if let Err(e) = read {
        return Ok(error(e).into_pyobject(py)?.into_any());
    }
    sink.failed?;
    Ok(sink.events.into_any())
}

/// None, or why the message is not well-formed: (code, message, line, column, offset).
#[pyfunction]
#[pyo3(signature = (data, limits=None))]
fn validate(py: Python<'_>, data: &[u8], limits: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Error>> {
    let limits = self::limits(limits)?;
    let read = py.detach(|| READER.with_borrow_mut(|reader| reader.read(data, &limits, &mut Count::default())));
    Ok(read.err().map(error))
}

/// The elements of these numbers, each as a message of its own; the root element where the document is asked for; None
/// for what is no element. With an error if the message cannot be read.
#[pyfunction]
fn elements(
    py: Python<'_>,
    data: &[u8],
    nodes: Vec<u32>,
    limits: &Bound<'_, PyDict>,
) -> PyResult<Read<Vec<Option<Py<PyBytes>>>>> {
    let limits = self::limits(Some(limits))?;
    let mut found = Vec::with_capacity(nodes.len());
    let each = |bytes: Option<&[u8]>| {
        found.push(bytes.map(|bytes| PyBytes::new(py, bytes).unbind()));
        true
    };
    match ELEMENTS.with_borrow_mut(|elements| elements.get(data, &limits, &nodes, each)) {
        Ok(()) => Ok((found, None)),
        Err(e) => Ok((Vec::new(), Some(error(e)))),
    }
}

/// A message as UTF-8 without XML declaration and DTD, entities and default attributes in place. With an error if the
/// message cannot be read. `ids`: with a DTD that declares the attributes which are IDs, if there are any.
#[pyfunction]
#[pyo3(signature = (data, limits, *, ids=false))]
fn plain<'py>(
    py: Python<'py>,
    data: &[u8],
    limits: &Bound<'py, PyDict>,
    ids: bool,
) -> PyResult<Read<Bound<'py, PyBytes>>> {
    let limits = self::limits(Some(limits))?;
    let made = py.detach(|| READER.with_borrow_mut(|reader| plain_form(reader, data, &limits, ids)));
    match made {
        Ok(bytes) => Ok((PyBytes::new(py, &bytes), None)),
        Err(e) => Ok((PyBytes::new(py, b""), Some(error(e)))),
    }
}

/// Line, column and offset of the start tags of these elements, numbered from 0 in document order; None for a number
/// that no element has. With an error if the message cannot be read.
#[pyfunction]
fn places(
    py: Python<'_>,
    data: &[u8],
    elements: Vec<u32>,
    limits: &Bound<'_, PyDict>,
) -> PyResult<Read<Vec<Option<LineColumnOffset>>>> {
    let limits = self::limits(Some(limits))?;
    match py.detach(|| READER.with_borrow_mut(|reader| start_places(reader, data, &limits, &elements))) {
        Ok(found) => Ok((found.into_iter().map(|p| p.map(|p| (p.line, p.column, p.offset))).collect(), None)),
        Err(e) => Ok((Vec::new(), Some(error(e)))),
    }
}

/// Reads every message and answers how many elements there are; a bad message is skipped.
#[pyfunction]
fn parse_only(py: Python<'_>, messages: &Bound<'_, PyList>, limits: &Bound<'_, PyDict>) -> PyResult<u64> {
    let limits = self::limits(Some(limits))?;
    let mut held = Vec::with_capacity(messages.len());
    for message in messages {
        let message = message.cast_into::<PyBytes>().map_err(|_| PyTypeError::new_err("a list of bytes is needed"))?;
        held.push(message);
    }
    let slices: Vec<&[u8]> = held.iter().map(|message| message.as_bytes()).collect();
    Ok(py.detach(|| {
        let mut reader = Reader::new();
        let mut count = Count::default();
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

/// How many messages this process has read into a table of nodes.
#[pyfunction]
fn documents_built() -> u64 {
    twigcast_kernel::documents_built()
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<HeldLimits>()?;
    m.add_function(wrap_pyfunction!(validate, m)?)?;
    m.add_function(wrap_pyfunction!(events, m)?)?;
    m.add_function(wrap_pyfunction!(elements, m)?)?;
    m.add_function(wrap_pyfunction!(plain, m)?)?;
    m.add_function(wrap_pyfunction!(places, m)?)?;
    m.add_function(wrap_pyfunction!(parse_only, m)?)?;
    m.add_function(wrap_pyfunction!(error_codes, m)?)?;
    m.add_function(wrap_pyfunction!(documents_built, m)?)?;
    Ok(())
}
