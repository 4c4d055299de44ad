//! Compiling and running C programs against the library that was just built.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A directory with `libbmi.so`, for programs.
pub(crate) struct Prefix {
    directory: TempDir,
}

impl Prefix {
    pub(crate) fn new() -> Prefix {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("libbmi.so");
        std::os::unix::fs::symlink(library(), name).unwrap();
        Prefix { directory }
    }

    /// Compiles a program with every warning as an error.
    pub(crate) fn compile(&self, compiler: &str, arguments: &[&str], source: &str) -> PathBuf {
        let source = crate_path(source);
        let program = self.directory.path().join("program");
        let mut command = Command::new(compiler);
        command
            .args(["-g", "-Wall", "-Wextra", "-pedantic", "-Werror"])
            .args(arguments)
            .arg("-I")
            .arg(crate_path("include"))
            .arg("-I")
            .arg(crate_path("examples"))
            .arg(source)
            .args([OsStr::new("-x"), OsStr::new("none"), OsStr::new("-o")])
            .arg(&program)
            .arg("-L")
            .arg(self.directory.path())
            .arg("-lbmi")
            .arg(format!("-Wl,-rpath,{}", self.directory.path().display()));
        let output = command.output().expect("a compiler");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{complaints}");
        program
    }
}

/// The shared library beside the test itself.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    places
        .map(|place| place.join("libbmi_ffi.so"))
        .find(|library| library.exists())
        .expect("cargo builds the library for its tests")
}

pub(crate) fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// How a program is run: as it is, or under valgrind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    Nothing,
    Valgrind,
}

impl Under {
    pub(crate) fn command(self, program: &Path) -> Command {
        match self {
            Under::Nothing => Command::new(program),
            Under::Valgrind => {
                let mut command = Command::new("valgrind");
                command
                    .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
                    .arg("--errors-for-leak-kinds=definite,indirect")
                    .arg(program);
                command
            }
        }
    }
}

pub(crate) fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// Runs a server and a client of one program to their ends.
pub(crate) fn run_pair(
    under: Under,
    program: &Path,
    listen: &str,
    client_arguments: &[&str],
) -> String {
    let mut server = Ended(
        under
            .command(program)
            .args(["server", listen])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut address = String::new();
    let stdout = server.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut address).unwrap();
    let client = under
        .command(program)
        .args(["client", address.trim()])
        .args(client_arguments)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&client.stderr);
    assert!(client.status.success(), "the client: {complaints}");
    assert!(server.0.wait().unwrap().success(), "the server");
    String::from_utf8(client.stdout).unwrap()
}

/// A process that does not outlive a failed test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
