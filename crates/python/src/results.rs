//! Results for Python: one by one, or as Arrow columns.

use crate::arrow::structs;
use arrow_array::{new_null_array, Array, ArrayRef, BinaryArray, BooleanArray, ListArray, StringArray, UInt32Array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ops::Range;
use std::sync::Arc;
use twigcast_kernel::output::Cut;
use twigcast_kernel::output::Results;
use twigcast_kernel::shapes::Form;

/// What subscriptions get, as Python has a result: nodes, fragments, whether these are all, the new message of a
/// transform, and why something is missing. Those that get the match alone have no entry; equal payloads are one object.
pub(crate) fn by_number<'py>(py: Python<'py>, numbers: &[u32], results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let payload = |p| PyBytes::new(py, &results.payloads[range(&results.payload_ends, p)]);
    let payloads: Vec<Bound<'py, PyBytes>> = (0..results.payload_ends.len()).map(payload).collect();
    let mut payload_of = results.payload_of.iter();
    let selected = PyDict::new(py);
    for (i, number) in numbers.iter().enumerate() {
        let (form, cut) = (results.forms[i], results.cuts[i]);
        if form.is_none() && cut.is_none() {
            continue;
        }
        let nodes = (form == Some(Form::Nodes)).then(|| results.nodes[range(&results.node_ends, i)].to_vec());
        let fragment = |f| PyBytes::new(py, &results.bytes[range(&results.fragments, f)]);
        let fragments = || range(&results.fragment_ends, i).map(fragment).collect::<Vec<_>>();
        let fragments = (form == Some(Form::Fragments)).then(fragments);
        let payload = if form == Some(Form::Payload) { payload_of.next() } else { None };
        let payload = payload.filter(|_| cut.is_none()).map(|&p| &payloads[p as usize]);
        selected.set_item(number, (nodes, fragments, cut.is_none(), payload, cut.map(Cut::code)))?;
    }
    Ok(selected)
}

fn range(ends: &[u32], i: usize) -> Range<usize> {
    let start = if i == 0 { 0 } else { ends[i - 1] };
    start as usize..ends[i] as usize
}

/// One list of structs per message: subscription, nodes, fragments, complete, payload, reason.
pub(crate) fn lists(numbers: Vec<u32>, offsets: Vec<i32>, results: Results) -> ListArray {
    let of_form = |form| Some(NullBuffer::from_iter(results.forms.iter().map(|f| *f == Some(form))));
    let payloads = payloads(&results);
    let nodes = list(&results.node_ends, numbers_array(results.nodes), of_form(Form::Nodes));
    let fragments = BinaryArray::new(ends(&results.fragments), Buffer::from_vec(results.bytes), None);
    let fragments = list(&results.fragment_ends, Arc::new(fragments), of_form(Form::Fragments));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("subscription", numbers_array(numbers), false),
        ("nodes", Arc::new(nodes), true),
        ("fragments", Arc::new(fragments), true),
        ("complete", Arc::new(BooleanArray::from_iter(results.cuts.iter().map(|cut| Some(cut.is_none())))), false),
        ("payload", payloads, true),
        ("reason", reasons(&results.cuts), true),
    ];
    let matches = structs(columns, None);
    let item = Arc::new(Field::new("item", matches.data_type().clone(), false));
    ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), Arc::new(matches), None)
}

/// The new messages of transforms, null for filters and where there is a reason.
fn payloads(results: &Results) -> ArrayRef {
    if results.payload_of.is_empty() {
        return new_null_array(&DataType::Binary, results.len());
    }
    let mut payload_of = results.payload_of.iter();
    let mut each = |(form, cut): (&Option<Form>, &Option<Cut>)| {
        let payload = if *form == Some(Form::Payload) { payload_of.next() } else { None };
        let payload = payload.filter(|_| cut.is_none());
        payload.map(|&p| &results.payloads[range(&results.payload_ends, p as usize)])
    };
    Arc::new(results.forms.iter().zip(&results.cuts).map(&mut each).collect::<BinaryArray>())
}

/// Why results were left out, null where they were not.
pub(crate) fn reasons(cuts: &[Option<Cut>]) -> ArrayRef {
    if cuts.iter().all(Option::is_none) {
        return new_null_array(&DataType::Utf8, cuts.len());
    }
    Arc::new(StringArray::from_iter(cuts.iter().map(|cut| cut.map(Cut::code))))
}

fn numbers_array(numbers: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::new(ScalarBuffer::from(numbers), None))
}

fn list(list_ends: &[u32], values: ArrayRef, valid: Option<NullBuffer>) -> ListArray {
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    ListArray::new(item, ends(list_ends), values, valid)
}

/// The kernel's columns stay far below 2^31.
fn ends(ends: &[u32]) -> OffsetBuffer<i32> {
    OffsetBuffer::new(std::iter::once(0).chain(ends.iter().map(|&e| e as i32)).collect())
}
