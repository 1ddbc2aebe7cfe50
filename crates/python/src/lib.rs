//! `twigcast._kernel`: conversion between Python and the kernel, and nothing else.
use pyo3::prelude::*;

mod arrow;
mod chunk;
mod constants;
mod engine;
mod join;
mod locks;
mod papers;
mod pool;
mod results;
mod rows;
mod shred;
mod xml;

#[pymodule]
fn _kernel(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<engine::Engine>()?;
    m.add_class::<chunk::Check>()?;
    m.add_class::<chunk::Chunker>()?;
    m.add_class::<chunk::Pieces>()?;
    m.add_class::<chunk::Units>()?;
    m.add_class::<join::BlockShape>()?;
    m.add_class::<join::CorrelationShape>()?;
    m.add_class::<join::Correlator>()?;
    m.add_class::<join::Witness>()?;
    papers::register(m)?;
    shred::register(m)?;
    xml::register(m)?;
    Ok(())
}
