//! Arrow arrays in and out through the PyCapsule interface, without copying.

use arrow_array::ffi::{from_ffi, to_ffi, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{make_array, Array, ArrayRef, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// An array on its way to Python: anything that speaks the Arrow PyCapsule interface can take it.
#[pyclass(frozen, module = "twigcast._kernel")]
pub struct ArrowData(ArrayRef);

#[pymethods]
impl ArrowData {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // the interface leaves honouring it to the producer
        let (array, schema) = to_ffi(&self.0.to_data()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
        let array = PyCapsule::new_with_value(py, array, ARRAY)?;
        PyTuple::new(py, [schema, array])
    }
}

/// Columns as one array of structs; each has a name and may have nulls.
pub(crate) fn structs(columns: Vec<(&str, ArrayRef, bool)>, valid: Option<NullBuffer>) -> StructArray {
    let fields: Fields = columns.iter().map(|(n, a, null)| Field::new(*n, a.data_type().clone(), *null)).collect();
    StructArray::new(fields, columns.into_iter().map(|c| c.1).collect(), valid)
}

pub(crate) fn export(array: ArrayRef) -> ArrowData {
    ArrowData(array)
}

/// Takes an array from a Python object with `__arrow_c_array__`.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let pair = object
        .call_method0("__arrow_c_array__")
        .map_err(|_| PyTypeError::new_err("an Arrow array is needed (__arrow_c_array__)"))?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the capsules carry these names, so by the PyCapsule interface they hold these structures. Moving the
    // array out leaves a released one behind, which is how a consumer takes ownership.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let data = data.map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(make_array(data))
}
