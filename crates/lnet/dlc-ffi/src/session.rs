//! The connection of the process, and the last error of each thread.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::cell::RefCell;
use std::env;
use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lnet_dlc::{Dlc, DlcError};

use crate::arguments;

/// Why a call failed: the return value and the text.
#[derive(Debug)]
pub(crate) struct Failed {
    errno: c_int,
    text: String,
}

impl Failed {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { errno, text }
    }
}

impl From<DlcError> for Failed {
    fn from(error: DlcError) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

impl From<lnet_policy::BlockError> for Failed {
    fn from(error: lnet_policy::BlockError) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

/// The node that the process controls.
struct Partner {
    /// The path of the last connection; `None` for the default path.
    path: Option<PathBuf>,
    dlc: Option<Dlc>,
}

static PARTNER: Mutex<Partner> = Mutex::new(Partner {
    path: None,
    dlc: None,
});

fn partner() -> MutexGuard<'static, Partner> {
    PARTNER.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs a call with the connection, and connects first if there is none. A broken connection is
/// dropped, so that the next call connects again to the same node.
pub(crate) fn with_node<R>(
    call: impl FnOnce(&mut Dlc) -> Result<R, DlcError>,
) -> Result<R, Failed> {
    let mut partner = partner();
    let mut dlc = match partner.dlc.take() {
        Some(dlc) => dlc,
        None => Dlc::connect(partner.path.clone().unwrap_or_else(default_path))?,
    };
    let result = call(&mut dlc);
    let usable = match &result {
        Err(error) => !matches!(
            error,
            DlcError::Io(_) | DlcError::Frame(_) | DlcError::Answer(_)
        ),
        Ok(_) => true,
    };
    partner.dlc = usable.then_some(dlc);
    Ok(result?)
}

/// The return value of a call for C. Keeps the text of a failure for [`finerail_dlc_last_error`].
pub(crate) fn returned(result: Result<c_int, Failed>) -> c_int {
    result.unwrap_or_else(|failed| {
        // A zero byte would truncate the text.
        let text = CString::new(failed.text.replace('\0', " ")).unwrap_or_default();
        LAST_ERROR.with(|last| last.replace(text));
        failed.errno
    })
}

fn default_path() -> PathBuf {
    lnet_dlc::protocol::default_socket_path(env::var_os("XDG_RUNTIME_DIR").as_deref())
}

/// See the header.
///
/// # Safety
///
/// `path` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finerail_dlc_connect(path: *const c_char) -> c_int {
    // SAFETY: the caller promises the same.
    let path = unsafe { arguments::optional(path) };
    returned(path.and_then(|path| {
        let path = path.map(PathBuf::from);
        let dlc = Dlc::connect(path.clone().unwrap_or_else(default_path))?;
        *partner() = Partner {
            path,
            dlc: Some(dlc),
        };
        Ok(0)
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn finerail_dlc_close() {
    *partner() = Partner {
        path: None,
        dlc: None,
    };
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn finerail_dlc_last_error() -> *const c_char {
    // The string stays in the thread's slot until the next failure replaces it.
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}
