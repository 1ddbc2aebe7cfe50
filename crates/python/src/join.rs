//! Correlations for Python: blocks and queries in, messages in, results out.

use crate::arrow::{export, import, ArrowData};
use crate::engine::Engine;
use crate::locks::is_free;
use crate::results::by_number;
use crate::rows::{failures, Errors, Failure, Rows};
use crate::xml::{error, limits_of, Error, GivenLimits};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, LargeBinaryArray, ListArray, StructArray, UInt32Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twigcast_kernel::join::{Comparison, Form, Path, Place, Shape, Template, Tie};
use twigcast_kernel::join::{Correlator as Kernel, Input, Settings};
use twigcast_kernel::join::{Results, Time, Witness as Seen};
use twigcast_kernel::output::{Cut as WhyCut, Results as Selected};
use twigcast_kernel::shapes::Op;
use twigcast_kernel::xml::{Limits, XmlError};
use twigcast_kernel::Beside;
use twigcast_kernel::Seen as SeenBy;

#[pyclass(frozen, module = "twigcast._kernel")]
#[derive(Default)]
pub struct Correlator {
    kernel: Mutex<Kernel>,
}

/// A variable: number of its block in the query, number in the block.
type Ref = (u32, u32);
/// A result: places of its messages in the lists of these, nodes shown, subscribers, and their payloads by place; None
/// for those that do not get one. Tuples of Python from the beginning, for there may be very many.
type Found<'py> = [Bound<'py, PyTuple>; 4];
/// What results name: the labels of messages, and payloads.
type Named = (Vec<Py<PyBytes>>, Vec<Py<PyBytes>>);
/// Taken (or late), results and what they name, the subscribers that do not get all of theirs with the reason, and why the
/// message was refused if it was.
type Pushed<'py> = (bool, Bound<'py, PyList>, Named, Vec<Cut>, Option<Error>);
/// What came of a message, by its row: the subscriptions that match it, their results and those that failed; what it
/// completes, and the subscribers that do not get all of that; and the error if correlations cannot be tried with it.
type Row<'py> = (usize, Vec<u32>, Bound<'py, PyDict>, Vec<Failure>, Bound<'py, PyList>, Vec<Cut>, Option<Error>);
/// How many messages were taken in; the rows of which something came; what their results name; and why the next message
/// cannot be read if it cannot.
type Published<'py> = (usize, Vec<Row<'py>>, Named, Option<Error>);
/// A subscriber, and why it does not get all results.
type Cut = (u32, &'static str);

/// Rows, results, what these name, and (row, subscriber, reason) of those that do not get all of theirs.
type PushedColumn = (ArrowData, ArrowData, Named, Vec<(u32, u32, &'static str)>);

/// A path of a template: its variable as (block, place among those shown), the words of its query, and the strings in it.
type GivenPath = (u32, u32, Vec<u32>, Vec<String>);

/// The id of a message: a whole number, or as it is written in a label.
#[derive(FromPyObject)]
enum GivenId {
    Number(i64),
    Written(PyBackedBytes),
}

/// What came of a message, by its row: matches, what these select, failures, the ranges of results and cuts, and why
/// correlations cannot be tried.
type Told = (usize, Vec<u32>, Selected, Vec<Failure>, (usize, usize), (usize, usize), Option<XmlError>);

/// What blocks have in common that differ in their constants alone.
#[pyclass(frozen, module = "twigcast._kernel")]
pub struct BlockShape(pub(crate) twigcast_kernel::join::BlockShape);

/// What correlations have in common that differ in the constants of their blocks alone.
#[pyclass(frozen, module = "twigcast._kernel")]
pub struct CorrelationShape {
    shape: Arc<Shape>,
    window: Time,
    template: Template,
}

#[pymethods]
impl CorrelationShape {
    /// `followed` says for each block but the first whether it must be later; `windows` has their windows, None for no
    /// bound; comparisons are (variable, operator, variable). Payloads are made by a template, given as code, of what its
    /// paths lead to.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        blocks: Vec<PyRef<'_, BlockShape>>,
        followed: Vec<bool>,
        windows: Vec<Option<i64>>,
        comparisons: Vec<(Ref, String, Ref)>,
        shown: Vec<Ref>,
        template: &[u8],
        paths: Vec<GivenPath>,
    ) -> PyResult<CorrelationShape> {
        let place = |(block, variable): Ref| Place { block, variable };
        let comparison =
            |(left, op, right)| Ok(Comparison { left: place(left), op: operator(op)?, right: place(right) });
        let mut windows: Vec<Time> = windows.into_iter().map(|w| w.unwrap_or(Time::MAX)).collect();
        let window = windows.pop().unwrap_or(0);
        let form = Form {
            blocks: blocks.iter().map(|block| block.0.variables.clone()).collect(),
            ties: followed.into_iter().map(|f| if f { Tie::FollowedBy } else { Tie::Join }).collect(),
            windows: windows.into(),
            comparisons: comparisons.into_iter().map(comparison).collect::<PyResult<_>>()?,
            shown: shown.into_iter().map(place).collect(),
        };
        let shape = Arc::new(Shape::new(form).map_err(PyValueError::new_err)?);
        let path = |(block, shown, words, strings): GivenPath| Path {
            block,
            shown,
            words: words.into(),
            strings: strings.into(),
        };
        let paths = paths.into_iter().map(path).collect();
        let template = Template::new(template, paths).map_err(PyValueError::new_err)?;
        Ok(CorrelationShape { shape, window, template })
    }
}

/// What correlations see of a message: `Engine.process_one` finds it and `Correlator.push` takes it.
#[pyclass(frozen, module = "twigcast._kernel")]
pub struct Witness(pub(crate) Seen);

#[pymethods]
impl Witness {
    /// Of a message in which correlations see nothing.
    #[new]
    fn new() -> Witness {
        Witness(Seen::default())
    }
}

#[pymethods]
impl Correlator {
    #[new]
    fn new() -> Correlator {
        Correlator::default()
    }

    /// Whether no thread is using it. In a forked child, what another thread was using stays locked for ever.
    fn is_idle(&self) -> bool {
        is_free(self.kernel.try_lock())
    }

    /// Without `lateness` it is the longest window.
    #[pyo3(signature = (lateness, max_bytes))]
    fn configure(&self, py: Python<'_>, lateness: Option<i64>, max_bytes: usize) {
        py.detach(|| self.lock().settings = Settings { lateness, max_bytes });
    }

    /// The symbol of a name test in the paths of templates, as `Engine.symbol` gives it.
    #[pyo3(signature = (attribute, uri, local))]
    fn symbol(&self, py: Python<'_>, attribute: bool, uri: Option<&str>, local: Option<&str>) -> Option<u32> {
        let local = local.map(str::as_bytes);
        py.detach(|| self.lock().vocabulary_mut().names_mut().test(attribute, uri.map(str::as_bytes), local))
    }

    /// Subscribes to a query of a shape whose blocks have these numbers.
    fn subscribe(&self, py: Python<'_>, number: u32, shape: &CorrelationShape, blocks: Vec<u32>) -> PyResult<()> {
        let CorrelationShape { shape, window, template } = shape;
        py.detach(|| self.lock().subscribe(number, (shape, &blocks), *window, template)).map_err(PyValueError::new_err)
    }

    /// The blocks that no query uses any more.
    fn unsubscribe(&self, py: Python<'_>, number: u32) -> PyResult<Vec<u32>> {
        py.detach(|| self.lock().unsubscribe(number)).ok_or_else(|| PyKeyError::new_err(number))
    }

    /// A message that comes in, as correlations see it; `route` is the caller's name for its streams.
    #[pyo3(signature = (witness, route, time, label, xml, limits=None))]
    #[allow(clippy::too_many_arguments)]
    fn push<'py>(
        &self,
        py: Python<'py>,
        witness: &Witness,
        route: u32,
        time: i64,
        label: &[u8],
        xml: &[u8],
        limits: Option<GivenLimits<'py>>,
    ) -> PyResult<Pushed<'py>> {
        let limits = limits_of(limits)?;
        let mut out = Results::default();
        let input = Input { time, route, label, xml };
        let done: Result<bool, XmlError> = py.detach(|| {
            let mut kernel = self.lock();
            // a late message is nothing to correlations, whatever it would have been
            witness.0.check().or_else(|e| if kernel.is_late(time) { Ok(()) } else { Err(e) })?;
            Ok(kernel.push(input, &witness.0, &limits, &mut out))
        });
        let taken = done.as_ref().copied().unwrap_or(true);
        let found = found(py, &out, 0..out.len())?;
        Ok((taken, found, named(py, &mut out), codes(&out.cuts), done.err().map(error)))
    }

    /// Publishes messages one after the other: reads each, finds the subscriptions of an engine that match it, and takes it
    /// in as correlations see it, given the streams that it comes by. The message of row n has the time `time` + n and the
    /// label of a message with the whole number `id` + n, or the id as it is written. Ends before the first message that cannot be read, and
    /// after the one with which there are as many results, or bytes of these, as one message may have.
    #[pyo3(signature = (engine, xml, streams, selecting, route, time, id, limits=None))]
    #[allow(clippy::too_many_arguments)]
    fn publish<'py>(
        &self,
        py: Python<'py>,
        engine: &Engine,
        xml: Vec<PyBackedBytes>,
        streams: Vec<u32>,
        selecting: bool,
        route: u32,
        time: i64,
        id: GivenId,
        limits: Option<GivenLimits<'py>>,
    ) -> PyResult<Published<'py>> {
        let limits = limits_of(limits)?;
        let (mut out, mut told) = (Results::default(), vec![]);
        let (taken, refused) = py.detach(|| {
            let (mut witness, mut numbers, mut label) = (Seen::default(), vec![], vec![]);
            let (mut correlator, mut row, mut refused) = (self.lock(), 0, None);
            let (mut held, most) = (0, limits.max_message_result_bytes as usize); // bytes of what is in `told`
            while row < xml.len() && refused.is_none() && held < most && !is_full(&out, &limits) {
                engine.with_matcher(|engine, matcher| loop {
                    let (mut selected, from) = (Selected::default(), (out.len(), out.cuts.len()));
                    numbers.clear();
                    let results = selecting.then_some(&mut selected);
                    let seen = SeenBy { streams: &streams, witness: &mut witness };
                    refused = matcher
                        .process(
                            engine,
                            &xml[row],
                            &limits,
                            &mut numbers,
                            results,
                            Beside { seen: Some(seen), text: None },
                        )
                        .err();
                    if refused.is_some() {
                        break;
                    }
                    let time = time.saturating_add(row as i64);
                    label.clear();
                    let written: &[u8] = if let GivenId::Written(id) = &id { id } else { b"i" };
                    let _ = write!(label, "{time} ").and_then(|()| label.write_all(written));
                    if let GivenId::Number(id) = id {
                        let _ = write!(label, "{}", id + row as i64);
                    }
                    let input = Input { time, route, label: &label, xml: &xml[row] };
                    let checked = if correlator.is_late(time) { Ok(()) } else { witness.check() };
                    if checked.is_ok() {
                        correlator.push(input, &witness, &limits, &mut out);
                    }
                    let (failed, to) = (matcher.failed(), (out.len(), out.cuts.len()));
                    if !numbers.is_empty() || !failed.is_empty() || from != to || checked.is_err() {
                        let numbers = std::mem::take(&mut numbers);
                        held += selected.size() + 4 * numbers.len();
                        told.push((row, numbers, selected, failures(failed), from, to, checked.err()));
                    }
                    row += 1;
                    if row == xml.len() || held >= most || is_full(&out, &limits) || matcher.is_overworked(engine) {
                        break;
                    }
                });
            }
            (row, refused)
        });
        let row = |(row, numbers, selected, failed, from, to, error_): Told| {
            let by_number = if selecting { by_number(py, &numbers, &selected)? } else { PyDict::new(py) };
            let results = found(py, &out, from.0..to.0)?;
            Ok((row, numbers, by_number, failed, results, codes(&out.cuts[from.1..to.1]), error_.map(error)))
        };
        let rows = told.into_iter().map(row).collect::<PyResult<_>>()?;
        Ok((taken, rows, named(py, &mut out), refused.map(error)))
    }

    /// Reads messages with an engine and pushes them, as columns, from a row on: routes (which of the given lists of streams), times, labels, messages. Ends
    /// after the row with which there are `most` results. Answers a struct array (late, error), a struct array of results
    /// (row, messages, nodes, subscribers, payloads), what these name, and (row, subscriber, reason) of those that do not get all of theirs. Rows are counted from the first one that is pushed.
    /// Messages with a witness, as `Engine.process` has it, are not read, nor are those that are null: correlations see
    /// nothing in them.
    #[pyo3(signature = (engine, streams, routes, times, labels, xml, limits=None, start=0, most=usize::MAX, witnesses=None))]
    #[allow(clippy::too_many_arguments)]
    fn push_column(
        &self,
        py: Python<'_>,
        engine: &Engine,
        streams: Vec<Vec<u32>>,
        routes: &Bound<'_, PyAny>,
        times: &Bound<'_, PyAny>,
        labels: &Bound<'_, PyAny>,
        xml: &Bound<'_, PyAny>,
        limits: Option<GivenLimits<'_>>,
        start: usize,
        most: usize,
        witnesses: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PushedColumn> {
        let limits = limits_of(limits)?;
        let columns = Columns::new(routes, times, labels, xml)?;
        let witnesses = witnesses.map(import).transpose()?;
        let witnesses = witnesses.as_ref().map(Rows::new).transpose()?;
        if witnesses.as_ref().is_some_and(|w| w.len() != columns.xml.len()) {
            return Err(PyValueError::new_err("each message has a witness or null"));
        }
        py.detach(|| {
            let mut kernel = self.lock();
            let (mut out, mut errors, mut late, mut row_of) = (Results::default(), Errors::default(), vec![], vec![]);
            let (mut cuts, mut seen) = (vec![], Seen::default());
            columns.each(&streams, start, |row, streams, input| {
                let known = witnesses.as_ref().and_then(|all| all.get(row));
                let done = if kernel.is_late(input.time) {
                    Ok(())
                } else if columns.xml.is_null(row) && known.is_none() {
                    seen.clear();
                    Ok(())
                } else if known.is_some_and(|bytes| engine.read().blocks().read_witness(bytes, &mut seen)) {
                    seen.check()
                } else {
                    engine.witness(streams, input.xml, &limits, &mut seen)
                };
                let done = done.map(|()| kernel.push(input, &seen, &limits, &mut out));
                late.push(!done.as_ref().copied().unwrap_or(true));
                row_of.resize(out.len(), (row - start) as u32);
                cuts.extend(out.cuts.drain(..).map(|(sub, cut)| ((row - start) as u32, sub, cut.code())));
                errors.push(done.err());
                out.subscribers.len() < most && !is_full(&out, &limits)
            })?;
            let rows = structs(vec![("late", Arc::new(BooleanArray::from(late))), ("error", errors.finish())]);
            let names = Python::attach(|py| named(py, &mut out));
            let results = structs(vec![
                ("row", numbers(row_of)),
                ("messages", lists(numbers(out.messages), &out.message_ends)),
                ("nodes", lists(numbers(out.nodes), &out.node_ends)),
                ("subscribers", lists(numbers(out.subscribers), &out.subscriber_ends)),
                ("payloads", lists(Arc::new(UInt32Array::from(out.payloads.of)), &out.subscriber_ends)),
            ]);
            Ok((export(rows), export(results), names, cuts))
        })
    }

    /// Takes messages in that were in the state before, as `push_column` has them; nothing comes of them yet.
    #[pyo3(signature = (engine, streams, routes, times, labels, xml, limits=None))]
    #[allow(clippy::too_many_arguments)]
    fn restore(
        &self,
        py: Python<'_>,
        engine: &Engine,
        streams: Vec<Vec<u32>>,
        routes: &Bound<'_, PyAny>,
        times: &Bound<'_, PyAny>,
        labels: &Bound<'_, PyAny>,
        xml: &Bound<'_, PyAny>,
        limits: Option<GivenLimits<'_>>,
    ) -> PyResult<()> {
        let limits = limits_of(limits)?;
        let columns = Columns::new(routes, times, labels, xml)?;
        py.detach(|| {
            let mut kernel = self.lock();
            let (mut refused, mut seen) = (None, Seen::default());
            columns.each(&streams, 0, |_, streams, input| {
                match engine.witness(streams, input.xml, &limits, &mut seen) {
                    Ok(()) => kernel.restore(input, &seen),
                    Err(error) => refused = refused.take().or(Some(error)),
                }
                true
            })?;
            refused.map_or(Ok(()), |e| Err(PyValueError::new_err(e.message)))
        })
    }

    /// The messages in the state as they came, from a number on: a struct array (route, time, label, xml).
    #[pyo3(signature = (since=0))]
    fn state(&self, py: Python<'_>, since: u64) -> ArrowData {
        py.detach(|| {
            let kernel = self.lock();
            let state = kernel.state();
            let mut docs: Vec<_> = state.slots().map(|s| state.get(s)).filter(|d| d.number >= since).collect();
            docs.sort_unstable_by_key(|d| d.number);
            let times: ArrayRef = Arc::new(Int64Array::from_iter_values(docs.iter().map(|d| d.time)));
            let labels: ArrayRef = Arc::new(BinaryArray::from_iter_values(docs.iter().map(|d| &d.label[..])));
            let texts: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(docs.iter().map(|d| &d.xml[..])));
            let routes = numbers(docs.iter().map(|d| d.route).collect());
            export(structs(vec![("route", routes), ("time", times), ("label", labels), ("xml", texts)]))
        })
    }

    /// Time has come this far, whatever messages are there.
    fn reach(&self, py: Python<'_>, newest: i64) {
        py.detach(|| self.lock().reach(newest))
    }

    /// The number of the next message, the time of the newest one, and that of the oldest one in the state.
    fn position(&self, py: Python<'_>) -> (u64, Option<i64>, Option<i64>) {
        py.detach(|| {
            let kernel = self.lock();
            let (number, newest) = kernel.position();
            (number, newest, kernel.state().oldest().map(|o| o.0))
        })
    }

    fn is_late(&self, py: Python<'_>, time: i64) -> bool {
        py.detach(|| self.lock().is_late(time))
    }

    /// How many messages went before their time.
    fn evicted(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().counts.evicted)
    }

    /// Counts by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counts, messages, bytes, values, queries, watermark) = py.detach(|| {
            let kernel = self.lock();
            let state = kernel.state();
            (kernel.counts, state.len(), state.bytes(), state.values.len(), kernel.query_count(), kernel.watermark())
        });
        let stats = PyDict::new(py);
        stats.set_item("messages", counts.messages)?;
        stats.set_item("late", counts.late)?;
        stats.set_item("expired", counts.expired)?;
        stats.set_item("evicted", counts.evicted)?;
        stats.set_item("cut", counts.cut)?;
        stats.set_item("stored", messages)?;
        stats.set_item("bytes", bytes)?;
        stats.set_item("values", values)?;
        stats.set_item("queries", queries)?;
        stats.set_item("watermark", (watermark != Time::MIN).then_some(watermark))?;
        Ok(stats)
    }

    /// The subscriber that keeps messages longest, and how long; None for without end.
    fn widest(&self, py: Python<'_>) -> Option<(u32, Option<i64>)> {
        let (number, span) = py.detach(|| self.lock().widest())?;
        Some((number, (span != Time::MAX).then_some(span)))
    }
}

impl Correlator {
    fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn operator(op: String) -> PyResult<Op> {
    Ok(match op.as_str() {
        "=" => Op::Eq,
        "!=" => Op::Ne,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        other => return Err(PyValueError::new_err(format!("unknown operator {other}"))),
    })
}

fn part<'a, T>(all: &'a [T], ends: &[u32], i: usize) -> &'a [T] {
    let from = if i == 0 { 0 } else { ends[i - 1] as usize };
    &all[from..ends[i] as usize]
}

/// Returns a range of results.
fn found<'py>(py: Python<'py>, out: &Results, range: Range<usize>) -> PyResult<Bound<'py, PyList>> {
    let of = |i| -> PyResult<Found<'py>> {
        Ok([
            PyTuple::new(py, part(&out.messages, &out.message_ends, i))?,
            PyTuple::new(py, part(&out.nodes, &out.node_ends, i))?,
            PyTuple::new(py, part(&out.subscribers, &out.subscriber_ends, i))?,
            PyTuple::new(py, part(&out.payloads.of, &out.subscriber_ends, i))?,
        ])
    };
    let list = PyList::empty(py);
    range.map(of).try_for_each(|one| list.append(PyTuple::new(py, one?)?))?;
    Ok(list)
}

/// Takes out what results name. Payloads are freed one by one as they are copied, for they may be large.
fn named(py: Python<'_>, out: &mut Results) -> Named {
    let labels = out.labels.iter().map(|b| PyBytes::new(py, b).unbind()).collect();
    let made = std::mem::take(&mut out.payloads.made);
    (labels, made.into_iter().map(|b| PyBytes::new(py, &b).unbind()).collect())
}

/// Is there as much as one message may have?
fn is_full(out: &Results, limits: &Limits) -> bool {
    let bytes = out.payloads.size >= limits.max_message_result_bytes as usize;
    bytes || out.subscribers.len() >= limits.max_message_results as usize
}

fn codes(cuts: &[(u32, WhyCut)]) -> Vec<Cut> {
    cuts.iter().map(|&(subscriber, cut)| (subscriber, cut.code())).collect()
}

fn numbers(all: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::new(ScalarBuffer::from(all), None))
}

fn lists(all: ArrayRef, ends: &[u32]) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::UInt32, all.null_count() > 0));
    let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().map(|&e| e as i32)).collect();
    Arc::new(ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), all, None))
}

fn structs(columns: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let field = |(name, a): &(&str, ArrayRef)| Field::new(*name, a.data_type().clone(), a.null_count() > 0);
    let fields: Fields = columns.iter().map(field).collect();
    Arc::new(StructArray::new(fields, columns.into_iter().map(|c| c.1).collect(), None))
}

struct Columns {
    routes: ArrayRef,
    times: ArrayRef,
    labels: ArrayRef,
    xml: ArrayRef,
}

impl Columns {
    fn new(
        routes: &Bound<'_, PyAny>,
        times: &Bound<'_, PyAny>,
        labels: &Bound<'_, PyAny>,
        xml: &Bound<'_, PyAny>,
    ) -> PyResult<Columns> {
        let all =
            Columns { routes: import(routes)?, times: import(times)?, labels: import(labels)?, xml: import(xml)? };
        let fitting = all.routes.data_type() == &DataType::UInt32 && all.times.data_type() == &DataType::Int64;
        let len = all.xml.len();
        if !fitting || [&all.routes, &all.times, &all.labels].iter().any(|a| a.len() != len || a.null_count() > 0) {
            return Err(PyValueError::new_err("routes are uint32, times int64, and no column has nulls"));
        }
        Ok(all)
    }

    /// Calls `f` for the rows from one on, until it says that it is enough.
    fn each(
        &self,
        streams: &[Vec<u32>],
        start: usize,
        mut f: impl FnMut(usize, &[u32], Input<'_>) -> bool,
    ) -> PyResult<()> {
        let (labels, xml) = (Rows::new(&self.labels)?, Rows::new(&self.xml)?);
        let routes = self.routes.as_primitive::<UInt32Type>();
        let times = self.times.as_primitive::<Int64Type>();
        for row in start..xml.len() {
            let route = routes.value(row);
            let streams = streams.get(route as usize).ok_or_else(|| PyValueError::new_err("no such route"))?;
            let (label, xml) = (labels.get(row).unwrap_or_default(), xml.get(row).unwrap_or_default());
            if !f(row, streams, Input { time: times.value(row), route, label, xml }) {
                break;
            }
        }
        Ok(())
    }
}
