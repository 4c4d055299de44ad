//! Why a message takes its path.

use lnet_explain::{Question, Settings, Source};
use lnet_types::Nid;
use pyo3::prelude::*;

use crate::failure::{failed, invalid};
use crate::wait::{interruptible, object};

fn nid(text: &str) -> PyResult<Nid> {
    text.parse()
        .map_err(|error| invalid(format_args!("{text:?}: {error}")))
}

fn question(to: &str, from: Option<&str>, size: u32, sends: u32) -> PyResult<Question> {
    Ok(Question {
        to: nid(to)?,
        from: from.map(nid).transpose()?,
        size,
        sends,
    })
}

/// Explains the path from a node to a NID.
///
/// `outputs` are texts that `lnetctl` printed on the node, each with a name for errors: an export, or the outputs of
/// `net show -v 4`, `route show`, `peer show -v 4` and so on. The result has the keys of `finerail explain --json`.
///
/// >>> import finerail
/// >>> net = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]"
/// >>> finerail.explain("10.0.0.9@tcp", [("net.yaml", net)])["answer"]["path"]["source"]
/// '10.0.0.1@tcp'
#[pyfunction]
#[pyo3(signature = (to, outputs, *, source=None, size=0, sends=1000))]
pub(crate) fn explain<'py>(
    py: Python<'py>,
    to: &str,
    outputs: Vec<(String, String)>,
    source: Option<&str>,
    size: u32,
    sends: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let question = question(to, source, size, sends)?;
    let explanation = interruptible(py, move || {
        let sources: Vec<Source<'_>> = outputs
            .iter()
            .map(|(name, text)| Source { name, text })
            .collect();
        let imported = lnet_explain::import(&sources, &Settings::default());
        let node = imported.map_err(|error| error.to_string())?.node;
        lnet_explain::explain(&node, &question).map_err(|error| error.to_string())
    })?;
    object(py, &explanation.map_err(failed)?)
}

/// Explains the path from a node whose whole state is known: `Control.state()` returns it.
#[pyfunction]
#[pyo3(signature = (to, state, *, source=None, size=0, sends=1000))]
pub(crate) fn explain_state<'py>(
    py: Python<'py>,
    to: &str,
    state: String,
    source: Option<&str>,
    size: u32,
    sends: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let question = question(to, source, size, sends)?;
    let explanation = interruptible(py, move || {
        let node = lnet_explain::Node::from_json(&state).map_err(|error| error.to_string())?;
        lnet_explain::explain(&node, &question).map_err(|error| error.to_string())
    })?;
    object(py, &explanation.map_err(failed)?)
}
