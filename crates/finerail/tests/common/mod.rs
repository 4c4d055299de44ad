//! Shared parts of the tests of the real binary: processes that end with their test, free ports, and waits for
//! conditions. No test sleeps for a fixed time: every wait is for a condition, with a generous limit.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

pub(crate) mod capture;
pub(crate) mod lab;
pub(crate) mod lustre;
pub(crate) mod netns;
pub(crate) mod process;
pub(crate) mod site;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two checks of a condition that has no notification.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Returns the program under test, without the environment of the user who runs the tests.
pub(crate) fn finerail<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    through(Command::new(env!("CARGO_BIN_EXE_finerail")), args)
}

/// Returns the program under test, started by a command that takes a program and its arguments.
pub(crate) fn finerail_by<S: AsRef<std::ffi::OsStr>>(
    launcher: &[&str],
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]);
    command.arg(env!("CARGO_BIN_EXE_finerail"));
    through(command, args)
}

fn through<S: AsRef<std::ffi::OsStr>>(
    mut command: Command,
    args: impl IntoIterator<Item = S>,
) -> Command {
    command.args(args).stdin(Stdio::null());
    for name in [
        "FINERAIL_LOG",
        "FINERAIL_CONTROL",
        "NOTIFY_SOCKET",
        "COLUMNS",
    ] {
        command.env_remove(name);
    }
    command
}

/// Returns the first `Some` of `look`.
///
/// # Panics
///
/// `look` returns only `None` within [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Returns `usual` for ordinary runs, and `long` for the long suites (`FINERAIL_LONG=1`).
pub(crate) fn scaled(usual: usize, long: usize) -> usize {
    if std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1") {
        long
    } else {
        usual
    }
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns whether a program can be started and succeeds with these arguments.
pub(crate) fn can_run(program: &str, args: &[&str]) -> bool {
    let tried = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Returns bytes without a repetition at a short distance.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(step)
        .take(length.div_ceil(8))
        .flatten()
        .collect();
    bytes.truncate(length);
    bytes
}
