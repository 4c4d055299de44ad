//! Waits that let other threads of Python run, and that Ctrl-C ends.
//!
//! A call that may wait runs in a thread of its own. The thread of Python waits for the result without the
//! interpreter's lock, and looks for signals in between. After Ctrl-C the call goes on without anybody who hears of its
//! end; each call has a time limit.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use serde::Serialize;

use crate::failure::failed;

/// How long a wait goes on between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a call that may wait. The value is dropped in the call's thread if Ctrl-C came first.
pub(crate) fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    let (tell, mut told) = mpsc::sync_channel(1);
    let begun = thread::Builder::new()
        .name("finerail".to_owned())
        .spawn(move || {
            // Without a receiver, Ctrl-C came first.
            let _unheard = tell.send(call());
        });
    begun.map_err(failed)?;
    loop {
        let result;
        (told, result) = py.detach(move || {
            let result = told.recv_timeout(LOOK);
            (told, result)
        });
        match result {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(failed("the call has panicked")),
        }
    }
}

/// Returns a time of Python in seconds; `None` for no limit.
///
/// # Errors
///
/// A negative time, or none that a clock can count.
pub(crate) fn time(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let time = seconds.map(Duration::try_from_secs_f64).transpose();
    time.map_err(crate::failure::invalid)
}

/// Returns a limit of Python in seconds, and the longest one for `None`.
pub(crate) fn limit(seconds: Option<f64>) -> PyResult<Duration> {
    Ok(time(seconds)?.unwrap_or(Duration::from_secs(u32::MAX.into())))
}

/// Returns a value as the dictionaries, lists, texts and numbers that its JSON stands for.
pub(crate) fn object<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(failed)?;
    of_json(py, &text)
}

/// Returns what a JSON text stands for.
pub(crate) fn of_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
