//! The messages of a packet capture.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lnet_capture::{LNET_PORT, decode_capture, render};
use pyo3::prelude::*;

use crate::failure::failed;
use crate::wait::of_json;

/// Messages that are decoded before they are asked for.
const AHEAD: usize = 1024;

/// How long a wait goes on between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

enum Line {
    Message(String),
    Failed(String),
}

/// An iterator of the messages of a capture: dictionaries with the keys of `finerail dump --json`.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Capture {
    lines: Mutex<Receiver<Line>>,
}

/// Opens a capture (pcap or pcapng) and returns an iterator of its LNet messages.
///
/// `ports` are those on which the nodes listen.
#[pyfunction]
#[pyo3(signature = (path, ports=vec![LNET_PORT]))]
pub(crate) fn capture(path: std::path::PathBuf, ports: Vec<u16>) -> PyResult<Capture> {
    let file = File::open(&path)?;
    let (tell, lines) = sync_channel(AHEAD);
    let begun = thread::Builder::new()
        .name("finerail-capture".to_owned())
        .spawn(move || decode(file, &ports, &tell));
    begun.map_err(failed)?;
    Ok(Capture {
        lines: Mutex::new(lines),
    })
}

/// Decodes a capture until its end, or until nobody asks for its messages any more.
fn decode(file: File, ports: &[u16], tell: &SyncSender<Line>) {
    let (_summary, result) = decode_capture(file, ports, |message| {
        let mut line = Vec::new();
        render::write_json(&mut line, message)?;
        let line = String::from_utf8(line).map_err(io::Error::other)?;
        tell.send(Line::Message(line)).map_err(io::Error::other)
    });
    if let Err(error) = result {
        // The iterator may have gone.
        let _unheard = tell.send(Line::Failed(error.to_string()));
    }
}

#[pymethods]
impl Capture {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let next = py.detach(|| {
                let lines = self
                    .lines
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                lines.recv_timeout(LOOK)
            });
            match next {
                Ok(Line::Message(line)) => return of_json(py, &line).map(Some),
                Ok(Line::Failed(text)) => return Err(failed(text)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}
