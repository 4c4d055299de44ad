//! The default path of a node's control socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// `finerail/control.sock` in `runtime_directory`, the value of `XDG_RUNTIME_DIR`; in `/run` if the
/// value is unset or empty.
#[must_use]
pub fn default_socket_path(runtime_directory: Option<&OsStr>) -> PathBuf {
    let given = runtime_directory.filter(|directory| !directory.is_empty());
    let base = given.map_or(Path::new("/run"), Path::new);
    base.join("finerail").join("control.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_or_empty_directory_is_run() {
        for unset in [None, Some(OsStr::new(""))] {
            let path = default_socket_path(unset);
            assert_eq!(path, Path::new("/run/finerail/control.sock"));
        }
        let given = default_socket_path(Some(OsStr::new("/run/user/7")));
        assert_eq!(given, Path::new("/run/user/7/finerail/control.sock"));
    }
}
