//! A mount for one test: a directory, its mount point, and the mount namespace of the test's thread.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use super::process::{Process, run};
use super::{finerail, is_root};

/// A directory and its mount point.
pub(crate) struct Lab {
    pub(crate) directory: TempDir,
    pub(crate) service: Option<Process>,
}

impl Lab {
    /// Mounts a directory. If that is not possible, prints the reason and returns `None`.
    pub(crate) fn new(options: &str) -> Option<Self> {
        let lab = Self::unmounted()?;
        Some(lab.mounted(options))
    }

    pub(crate) fn unmounted() -> Option<Self> {
        if !is_root() {
            testkit::absent("mount namespaces of threads need root");
            return None;
        }
        if !Path::new("/dev/fuse").exists() {
            testkit::absent("there is no /dev/fuse");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        done("mount", &["--make-rprivate", "/"]);
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["kept", "seen", "other"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let service = None;
        Some(Self { directory, service })
    }

    pub(crate) fn mounted(mut self, options: &str) -> Self {
        self.service = Some(self.mount("seen", options));
        self
    }

    pub(crate) fn mount(&self, at: &str, options: &str) -> Process {
        let process = Process::start(self.command(at, options));
        process.wait_for_output("ready: ");
        process
    }

    pub(crate) fn command(&self, at: &str, options: &str) -> Command {
        let address = format!("dir:{}", self.kept("").display());
        let at = self.directory.path().join(at);
        let words = [OsStr::new("mount"), OsStr::new("-o"), OsStr::new(options)];
        finerail(
            words
                .into_iter()
                .chain([OsStr::new(&address), at.as_os_str()]),
        )
    }

    /// Returns the path of a name in the directory that is mounted.
    pub(crate) fn kept(&self, name: &str) -> PathBuf {
        self.directory.path().join("kept").join(name)
    }

    /// Returns the path of the same name in the mount.
    pub(crate) fn seen(&self, name: &str) -> PathBuf {
        self.directory.path().join("seen").join(name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for at in ["seen", "other"] {
            // There may be no mount.
            let _unmounted = run_quietly(
                "umount",
                &["-l", self.directory.path().join(at).to_str().unwrap()],
            );
        }
    }
}

pub(crate) fn run_quietly(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words);
    run(command).status.success()
}

#[track_caller]
pub(crate) fn done(program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    command.args(words);
    run(command).expect_code(0);
}

#[track_caller]
pub(crate) fn script(directory: &Path, text: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", text]).current_dir(directory);
    run(command).expect_code(0).out
}
