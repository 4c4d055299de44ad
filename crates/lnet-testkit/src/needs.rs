//! What a test needs from its machine: tools, and data that is not part of the repository.
//!
//! Where a tool or the data is absent, the test skips and says so; in CI, where everything is installed, it
//! fails, because a test that never runs proves nothing.

use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Whether what is absent makes tests fail: `FINERAIL_REQUIRE=1`, or `CI=true` without `FINERAIL_REQUIRE=0`.
#[must_use]
pub fn is_required() -> bool {
    match env::var("FINERAIL_REQUIRE") {
        Ok(value) => value == "1",
        Err(_) => env::var("CI").is_ok_and(|value| value == "true"),
    }
}

/// Says that a test skips because `what` is absent.
///
/// # Panics
///
/// Where everything is installed ([`is_required`]).
#[track_caller]
pub fn absent(what: impl Display) {
    assert!(!is_required(), "everything is installed here, but {what}");
    eprintln!("skipped: {what}");
}

/// Whether there is a command of this name. Where it is false, the test returns: it has been said.
///
/// # Panics
///
/// As with [`absent`].
#[must_use]
#[track_caller]
pub fn require(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| directory.join(tool).is_file());
    if !found {
        absent(format_args!("'{tool}' is not installed"));
    }
    found
}

/// A file or directory of the shared data, which is in `FINERAIL_SHARED_DATA`, or in `../shared/data` beside
/// the workspace. Where it is `None`, the test returns: it has been said.
///
/// # Panics
///
/// As with [`absent`].
#[must_use]
#[track_caller]
pub fn shared_data(relative: impl AsRef<Path>) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = env::var_os("FINERAIL_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let path = root.join(relative);
    if path.exists() {
        return Some(path);
    }
    absent(format_args!(
        "there is no {} (set FINERAIL_SHARED_DATA)",
        path.display()
    ));
    None
}
