//! C programs against a C library of the workspace: compiled by the system's compiler, linked, run, also under valgrind.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The standards of C in which a header must compile.
pub const C_MODES: [&str; 5] = ["-std=c89", "-std=c99", "-std=c11", "-std=c17", "-std=c2x"];

/// The standards of C++ in which a header must compile.
pub const CPP_MODES: [&str; 6] = [
    "-std=c++98",
    "-std=c++11",
    "-std=c++14",
    "-std=c++17",
    "-std=c++20",
    "-std=c++23",
];

/// POSIX beside the C of the standard, for programs with threads and signals.
pub const POSIX: &[&str] = &["-std=c99", "-D_DEFAULT_SOURCE"];

/// A shared library that cargo has built for the tests of its package, and a directory in which programs find it.
pub struct CLibrary {
    package: &'static Path,
    name: &'static str,
    built: PathBuf,
    directory: TempDir,
}

impl CLibrary {
    /// Returns the library with which programs link by `-lNAME`. The folder of the package has its headers in `include`;
    /// cargo's name of the library is `built`.
    ///
    /// # Panics
    ///
    /// If cargo has not built the library.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
    pub fn new(package: &'static str, name: &'static str, built: &str) -> Self {
        let test = env::current_exe().expect("a test has a path");
        let built = test.ancestors().skip(1).take(2).map(|at| at.join(built));
        let built = built.into_iter().find(|library| library.exists());
        let built = built.expect("cargo builds the library for its tests");
        let directory = tempfile::tempdir().expect("a directory");
        for ending in ["so", "so.0"] {
            let link = directory.path().join(format!("lib{name}.{ending}"));
            symlink(&built, link).expect("a link");
        }
        Self {
            package: Path::new(package),
            name,
            built,
            directory,
        }
    }

    /// Returns the directory in which programs find the library.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Compiles a program of the package with every warning as an error, and returns its path, which lasts as long as
    /// this library.
    ///
    /// # Panics
    ///
    /// If the compiler has a complaint.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
    pub fn compile(&self, compiler: &str, arguments: &[&str], source: impl AsRef<Path>) -> PathBuf {
        let source = self.package.join(source);
        let program = source.file_stem().expect("a source has a name");
        let program = self.directory().join(program);
        let mut command = Command::new(compiler);
        command
            .args(["-g", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread"])
            .args(arguments)
            .arg("-I")
            .arg(self.package.join("include"))
            .arg(source)
            .args([OsStr::new("-x"), OsStr::new("none"), OsStr::new("-o")])
            .arg(&program)
            .arg("-L")
            .arg(self.directory())
            .arg(format!("-l{}", self.name))
            // The run path then has priority over LD_LIBRARY_PATH.
            .arg("-Wl,--disable-new-dtags")
            .arg(format!("-Wl,-rpath,{}", self.directory().display()));
        succeed(command);
        program
    }

    /// Returns the functions that the library exports.
    #[must_use]
    pub fn exported(&self) -> BTreeSet<String> {
        let mut command = Command::new("nm");
        command.args(["-D", "--defined-only", "--format=just-symbols"]);
        command.arg(&self.built);
        succeed(command).lines().map(str::to_owned).collect()
    }

    /// Returns the soname of the library, under which programs look for it.
    #[must_use]
    pub fn soname(&self) -> String {
        let mut command = Command::new("readelf");
        command.arg("-d").arg(&self.built);
        let dynamic = succeed(command);
        let rest = dynamic.split("soname: [").nth(1).unwrap_or_default();
        rest.split(']').next().unwrap_or_default().to_owned()
    }
}

/// Returns the functions that a header declares: each begins its line with its type.
///
/// # Panics
///
/// If the header cannot be read.
#[must_use]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn declared(header: impl AsRef<Path>) -> BTreeSet<String> {
    const TYPES: [&str; 3] = ["int ", "void ", "const char *"];
    let header = std::fs::read_to_string(header).expect("a header");
    let begins = |line: &&str| TYPES.iter().any(|kind| line.starts_with(kind));
    let names = header.lines().filter(begins).filter_map(|line| {
        let name = line.split('(').next()?;
        name.rsplit([' ', '*']).next()
    });
    names.map(str::to_owned).collect()
}

/// Returns a command that runs a program under valgrind. Errors, and leaks of these kinds, make it fail.
#[must_use]
pub fn valgrind(program: &Path, leaks: &str) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .arg(format!("--errors-for-leak-kinds={leaks}"))
        .arg(program);
    command
}

/// Runs a command until its end, which must be a success. Returns what the command printed.
///
/// # Panics
///
/// If the command cannot be started or fails.
#[track_caller]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn succeed(mut command: Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program of a test starts");
    let complaints = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{complaints}");
    String::from_utf8_lossy(&stdout).into_owned()
}
