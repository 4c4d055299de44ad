//! Compiles and runs C programs against the library under test.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory with `libfinerail_lnet.so`, against which programs link.
pub(crate) struct Prefix {
    directory: TempDir,
}

impl Prefix {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["libfinerail_lnet.so", "libfinerail_lnet.so.0"] {
            symlink(library(), directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    /// Compiles a program with every warning as an error.
    pub(crate) fn compile(&self, compiler: &str, arguments: &[&str], source: &str) -> PathBuf {
        let source = crate_path(source);
        let name = source.file_stem().unwrap();
        let program = self.directory.path().join(name);
        let mut command = Command::new(compiler);
        command
            .args(["-g", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread"])
            .args(arguments)
            .args([OsStr::new("-I"), crate_path("include").as_os_str()])
            .arg(source)
            .args(["-x", "none", "-o"].map(OsStr::new))
            .arg(&program)
            .args([OsStr::new("-L"), self.directory.path().as_os_str()])
            .arg("-lfinerail_lnet")
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
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    places
        .map(|place| place.join("libfinerail_lnet.so"))
        .find(|library| library.exists())
        .expect("cargo builds the library for its tests")
}

pub(crate) fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
