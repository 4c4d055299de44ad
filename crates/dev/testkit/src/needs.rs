//! Requirements of tests on their machine: tools, and data outside the repository.
//!
//! If a tool or the data is missing, the test reports that and skips. In CI, where everything is
//! installed, the test fails, because a test that never runs proves nothing.

use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Returns whether a missing requirement makes tests fail: with `FINERAIL_REQUIRE=1`, or with
/// `CI=true` unless `FINERAIL_REQUIRE=0`.
#[must_use]
pub fn is_required() -> bool {
    match env::var("FINERAIL_REQUIRE") {
        Ok(value) => value == "1",
        Err(_) => env::var("CI").is_ok_and(|value| value == "true"),
    }
}

/// Reports that a test skips because `what` is missing.
///
/// # Panics
///
/// If everything must be installed ([`is_required`]).
#[track_caller]
pub fn absent(what: impl Display) {
    assert!(!is_required(), "everything is installed here, but {what}");
    eprintln!("skipped: {what}");
}

/// Returns whether a command exists. If it returns false, the reason was reported and the test
/// returns.
///
/// # Panics
///
/// As for [`absent`].
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

/// Returns a file or directory of the shared data, which is in `FINERAIL_SHARED_DATA` or in
/// `../shared/data` beside the workspace. If it returns `None`, the reason was reported and the
/// test returns.
///
/// # Panics
///
/// As for [`absent`].
#[must_use]
#[track_caller]
pub fn shared_data(relative: impl AsRef<Path>) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data");
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
