//! A mount for one test: a directory, its mount point, and the mount namespace of the test's thread.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;
use testkit::QueueTurn;

use super::process::{Process, run};
use super::{finerail, is_root};

/// A directory and its mount point.
pub(crate) struct Lab {
    pub(crate) directory: TempDir,
    pub(crate) service: Option<Process>,
    carriers: Option<Carriers>,
}

/// An I/O node between the mount and the directory. The fields are in the order in which the processes end.
struct Carriers {
    instance: String,
    forwarder: Option<Process>,
    daemon: Option<Process>,
    _turn: QueueTurn,
}

impl Lab {
    /// Mounts a directory. If that is not possible, prints the reason and returns `None`.
    pub(crate) fn new(options: &str) -> Option<Self> {
        let lab = Self::unmounted()?;
        Some(lab.mounted(options))
    }

    /// Mounts the directory through the daemon and the forwarder of an I/O node.
    pub(crate) fn over_zoid(options: &str) -> Option<Self> {
        let mut lab = Self::unmounted()?;
        lab.carry();
        Some(lab.mounted(options))
    }

    fn carry(&mut self) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = QueueTurn::share();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = format!("lab{}-{number}", std::process::id());
        let directory = self.zoid();
        fs::create_dir(&directory).unwrap();
        let start = |words: &[&OsStr]| {
            let own = ["--instance", &instance, "--directory"].map(OsStr::new);
            let zoid = [OsStr::new("zoid")];
            let words = zoid.into_iter().chain(words.iter().copied()).chain(own);
            let process = Process::start(finerail(words.chain([directory.as_os_str()])));
            process.wait_for_output("ready: ");
            process
        };
        let export = format!("dir:{}", self.kept("").display());
        let daemon = start(&["daemon", "--total", "96M"].map(OsStr::new));
        let forward = ["forward", &export, "--identity", "caller-or-root"];
        let forwarder = start(&forward.map(OsStr::new));
        self.carriers = Some(Carriers {
            forwarder: Some(forwarder),
            daemon: Some(daemon),
            instance,
            _turn: turn,
        });
    }

    /// Returns the forwarder.
    pub(crate) fn forwarder(&self) -> &Process {
        let carriers = self.carriers.as_ref().unwrap();
        carriers.forwarder.as_ref().unwrap()
    }

    fn zoid(&self) -> PathBuf {
        self.directory.path().join("zoid")
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
        Some(Self {
            directory,
            service: None,
            carriers: None,
        })
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
        let address = match &self.carriers {
            None => format!("dir:{}", self.kept("").display()),
            Some(_) => "zoid:/".to_owned(),
        };
        let at = self.directory.path().join(at);
        let words = [OsStr::new("mount"), OsStr::new("-o"), OsStr::new(options)];
        let mut command = finerail(
            words
                .into_iter()
                .chain([OsStr::new(&address), at.as_os_str()]),
        );
        if let Some(Carriers { instance, .. }) = &self.carriers {
            let socket = self.zoid().join(format!("zbmi.{instance}.sock"));
            command.env("ZOID_INSTANCE", instance);
            command.env("ZOID_SOCKET", socket);
        }
        command
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
        drop(self.service.take());
        if let Some(mut carriers) = self.carriers.take() {
            drop((carriers.forwarder.take(), carriers.daemon.take()));
            // A daemon that was killed leaves its queues, of which a user has few.
            let directory = self.zoid();
            let words = ["zoid", "daemon", "--cleanup", "--instance"].map(OsStr::new);
            let own = [
                OsStr::new(&carriers.instance),
                OsStr::new("--directory"),
                directory.as_os_str(),
            ];
            run(finerail(words.into_iter().chain(own))).expect_code(0);
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
