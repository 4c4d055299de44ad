//! Where a node is controlled when nobody says where.

use std::env;
use std::path::PathBuf;

/// `$XDG_RUNTIME_DIR/finerail/control.sock`, or `/run/finerail/control.sock` where that is not set.
#[must_use]
pub fn default_socket_path() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty());
    let base = runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    base.join("finerail").join("control.sock")
}
