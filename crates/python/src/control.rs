//! Control of a running node.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lnet_dlc::protocol::{Request, default_socket_path};
use lnet_dlc::{Dlc, DlcError};
use pyo3::prelude::*;

use crate::failure::{failed, invalid};
use crate::wait::{interruptible, limit};

/// A connection to the control socket of a node on this machine.
///
/// Without a path, that of the node that `finerail node` started for this user. A connection that broke is made again
/// by the next call.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Control {
    path: PathBuf,
    timeout: Duration,
    dlc: Mutex<Option<Dlc>>,
}

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (path=None, *, timeout=30.0))]
    fn new(path: Option<PathBuf>, timeout: f64) -> PyResult<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR");
        Ok(Self {
            path: path.unwrap_or_else(|| default_socket_path(runtime.as_deref())),
            timeout: limit(Some(timeout))?,
            dlc: Mutex::default(),
        })
    }

    /// Sends a request, given as JSON, and returns the answer: YAML as `lnetctl` prints it, or JSON.
    fn request(&self, py: Python<'_>, json: &str) -> PyResult<String> {
        let request: Request = serde_json::from_str(json).map_err(invalid)?;
        let (path, timeout) = (self.path.clone(), self.timeout);
        let known = self.kept().take();
        let (dlc, answer) = interruptible(py, move || {
            let mut dlc = match known.map_or_else(|| Dlc::connect_within(&path, timeout), Ok) {
                Ok(dlc) => dlc,
                Err(error) => return (None, Err(error)),
            };
            let answer = answer(&mut dlc, &request);
            let is_usable = matches!(&answer, Ok(_) | Err(DlcError::Rejected(_)));
            (is_usable.then_some(dlc), answer)
        })?;
        *self.kept() = dlc;
        answer.map_err(failed)
    }
}

impl Control {
    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Dlc>> {
        self.dlc.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns all pieces of an answer as one text.
fn answer(dlc: &mut Dlc, request: &Request) -> Result<String, DlcError> {
    let mut text = String::new();
    dlc.request_pieces(request, |piece| text.push_str(piece))?;
    Ok(text)
}
