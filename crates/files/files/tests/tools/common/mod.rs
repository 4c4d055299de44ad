//! Two directories, and file systems that behave wrongly.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use files::dir::LocalDirectory;
use files::tools::{Failures, Item, Options, Progress, Tree, copy};
use files::{Caller, Data, Errno, FileSystem, Path, Reply, Request};
use tempfile::TempDir;

/// Executes one call, or does something else instead.
pub(crate) type Rule =
    dyn Fn(&LocalDirectory, &Caller, &Request, Data<'_>) -> Result<Reply, Errno> + Send + Sync;

/// A directory whose server follows a rule.
pub(crate) struct Odd {
    pub(crate) files: LocalDirectory,
    pub(crate) rule: Box<Rule>,
}

impl FileSystem for Odd {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        (self.rule)(&self.files, caller, request, data)
    }
}

/// A source and a target.
pub(crate) struct Lab {
    directory: TempDir,
    pub(crate) caller: Caller,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        for name in ["from", "to"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let caller = Caller::default();
        Self { directory, caller }
    }

    pub(crate) fn from(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory.path().join("from").join(name.as_ref())
    }

    pub(crate) fn to(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory.path().join("to").join(name.as_ref())
    }

    pub(crate) fn source(&self) -> LocalDirectory {
        open(self.from(""))
    }

    pub(crate) fn target(&self) -> LocalDirectory {
        open(self.to(""))
    }

    /// Returns the target, served by a server that follows a rule.
    pub(crate) fn odd_target(
        &self,
        rule: impl Fn(&LocalDirectory, &Caller, &Request, Data<'_>) -> Result<Reply, Errno>
        + Send
        + Sync
        + 'static,
    ) -> Odd {
        Odd {
            files: self.target(),
            rule: Box::new(rule),
        }
    }

    /// Returns the source, served by a server that follows a rule.
    pub(crate) fn odd_source(
        &self,
        rule: impl Fn(&LocalDirectory, &Caller, &Request, Data<'_>) -> Result<Reply, Errno>
        + Send
        + Sync
        + 'static,
    ) -> Odd {
        Odd {
            files: self.source(),
            rule: Box::new(rule),
        }
    }

    pub(crate) fn tree<'a>(&'a self, files: &'a dyn FileSystem, name: &'a str) -> Tree<'a> {
        Tree {
            files,
            caller: &self.caller,
            name,
        }
    }

    /// Copies the whole source.
    pub(crate) fn copy(
        &self,
        from: &dyn FileSystem,
        to: &dyn FileSystem,
        options: &Options,
    ) -> (Progress, Failures) {
        let progress = Progress::default();
        let (from, to) = (self.tree(from, "from"), self.tree(to, "to"));
        let failures = copy(from, to, &[everything()], options, &progress);
        (progress, failures)
    }

    /// Returns the paths in the target whose names are those of parts.
    pub(crate) fn parts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.to("")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_part = |path: &PathBuf| files::tools::is_part(path.file_name().unwrap().as_bytes());
        paths.filter(is_part).collect()
    }
}

fn open(path: PathBuf) -> LocalDirectory {
    LocalDirectory::open(&path, files::dir::Options::default()).unwrap()
}

pub(crate) fn everything() -> Item {
    Item {
        from: None,
        to: None,
    }
}

pub(crate) fn path(text: &str) -> Path {
    Path::new(text.as_bytes()).unwrap()
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
    let bytes = std::iter::repeat_with(step)
        .take(length.div_ceil(8))
        .flatten();
    bytes.take(length).collect()
}

/// Returns the texts of all failures.
pub(crate) fn texts(failures: &Failures) -> Vec<String> {
    failures.list.iter().map(ToString::to_string).collect()
}
