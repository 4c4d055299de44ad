//! What keeps this machine from using a node.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lnet_conform::{Diagnosis, Examination, Subject, examine};
use lnet_types::Nid;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::failure::{failed, invalid};
use crate::wait::{interruptible, limit, object};

/// Examines a node step by step, as `finerail doctor` does: `steps` with what was seen, `findings` with what to do.
///
/// `source` is the address of this machine to dial from. With `privileged`, ports below 1024 are dialled from, which
/// kernel nodes want and which needs a privilege.
#[pyfunction]
#[pyo3(signature = (nid, source, *, port=988, privileged=false, timeout=5.0))]
pub(crate) fn doctor<'py>(
    py: Python<'py>,
    nid: &str,
    source: &str,
    port: u16,
    privileged: bool,
    timeout: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let nid: Nid = nid.parse().map_err(invalid)?;
    let source: IpAddr = source.parse().map_err(invalid)?;
    let Some(address) = nid.ip() else {
        return Err(invalid(format_args!("{nid} has no IP address")));
    };
    let examination = Examination {
        subject: Subject {
            nid,
            address: SocketAddr::new(address, port),
            source,
            privileged,
            timeout: limit(Some(timeout))?,
        },
        ports: Vec::new(),
        listen: false,
        lnd_timeout: Duration::from_secs(50),
    };
    let diagnosis = interruptible(py, move || examine(&examination, |_step| {}))?;
    object(py, &value(&diagnosis.map_err(failed)?))
}

fn value(diagnosis: &Diagnosis) -> Value {
    let steps = diagnosis
        .steps
        .iter()
        .map(|step| json!({"step": step.name, "tested": step.tested, "seen": step.seen}));
    let findings = diagnosis.findings.iter().map(|finding| {
        json!({
            "name": finding.kind.name,
            "severity": finding.kind.severity.to_string(),
            "seen": finding.seen,
            "means": finding.kind.finds,
            "to_do": finding.kind.helps,
        })
    });
    json!({"steps": steps.collect::<Value>(), "findings": findings.collect::<Value>()})
}
