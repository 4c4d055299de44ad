//! Runs programs, also under valgrind.

use std::path::Path;
use std::process::{Command, Output};

/// Returns a command that runs a program under valgrind.
pub(crate) fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .arg("--errors-for-leak-kinds=definite,indirect")
        .arg(program);
    command
}

/// Runs a program until its end, which must be a success. Returns what it printed.
pub(crate) fn succeed(mut command: Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{complaints}");
    String::from_utf8(stdout).unwrap()
}
