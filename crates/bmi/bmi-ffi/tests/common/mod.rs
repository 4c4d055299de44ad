//! Compiles and runs C programs against the library under test.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory with `libbmi.so`, against which programs link.
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
            // The run path then has priority over LD_LIBRARY_PATH.
            .arg("-Wl,--disable-new-dtags")
            .arg(format!("-Wl,-rpath,{}", self.directory.path().display()));
        let output = command.output().expect("a compiler");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{complaints}");
        program
    }
}

/// Returns the shared library in the directory of the test program.
fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    places
        .map(|place| place.join("libbmi_ffi.so"))
        .find(|library| library.exists())
        .expect("cargo builds the library for its tests")
}

fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
