//! Mounting, serving, ending.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use files::{Caller, Errno, FileSystem, Handle};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::mount::UnmountFlags;
use thiserror::Error;
use tracing::debug;

use crate::adapter::Adapter;
use crate::callers::Callers;
use crate::tree::Tree;

/// Most threads of a mount. Each has a buffer of 16 MiB, whose pages are taken as they are used.
pub const THREADS_MAX: usize = 256;

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What stands in the list of mounts as the source.
    pub source: String,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Other users may use the mount too, as far as permission bits let them.
    pub allow_other: bool,
    /// Set-user-id bits of programs count, which needs root.
    pub suid: bool,
    /// Programs may be run.
    pub exec: bool,
    /// Reading leaves the time of access.
    pub no_access_time: bool,
    /// How long names and attributes are believed before the server is asked again.
    pub cache: Duration,
    /// Operations at the same time, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Whether `write` may return before the server has a large piece. Three of four threads carry such pieces at most.
    pub write_behind: bool,
    /// Whether callers come with all their groups: for a file system that acts as its callers.
    pub groups: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source: "finerail".to_owned(),
            read_only: false,
            allow_other: false,
            suid: false,
            exec: true,
            no_access_time: false,
            cache: Duration::from_secs(1),
            threads: 16,
            write_behind: true,
            groups: true,
        }
    }
}

/// Why a file system cannot be mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The file system does not answer, or its root is no directory.
    #[error("the file system's root cannot be used: {}", .0.desc())]
    Root(Errno),
    /// The place to mount at cannot be used.
    #[error("{}: {error}", .directory.display())]
    Directory {
        /// The place.
        directory: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The kernel does not mount it.
    #[error("cannot mount at {}: {error}; {}", .directory.display(), advice(.error))]
    Mount {
        /// The place.
        directory: PathBuf,
        /// What the kernel, or the program `fusermount3`, says.
        error: io::Error,
    },
    /// There is no randomness for hidden names.
    #[error("no random number: {0}")]
    Random(getrandom::Error),
}

/// What helps against an error of mounting.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "this needs /dev/fuse (`modprobe fuse`), and without root the program fusermount3 (Debian: fuse3)"
        }
        io::ErrorKind::PermissionDenied => {
            "this needs read and write access to /dev/fuse; allow_other without root needs user_allow_other in \
             /etc/fuse.conf"
        }
        _ => "`dmesg` may say more",
    }
}

/// A mounted file system, which is served until it is unmounted. Dropping it unmounts.
pub struct Mounted {
    session: BackgroundSession,
    directory: PathBuf,
}

/// Ends a mount, from any thread.
#[derive(Clone, Debug)]
pub struct Ender {
    directory: PathBuf,
}

impl Mounted {
    /// Mounts `files` at `directory` and begins to serve.
    ///
    /// # Errors
    ///
    /// The file system does not answer, the place cannot be used, or the kernel does not mount.
    pub fn open(
        files: Arc<dyn FileSystem>,
        directory: &Path,
        options: &Options,
    ) -> Result<Self, MountError> {
        let root = files.getattr(&Caller::default(), Handle::ROOT);
        let root = root.map_err(MountError::Root)?;
        if !root.is_directory() {
            return Err(MountError::Root(Errno::ENOTDIR));
        }
        let place = |error| MountError::Directory {
            directory: directory.to_owned(),
            error,
        };
        let directory = directory.canonicalize().map_err(place)?;
        if !directory.is_dir() {
            return Err(place(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(MountError::Random)?;
        let notifier = Arc::new(OnceLock::new());
        let behind = if options.write_behind {
            options.threads * 3 / 4
        } else {
            0
        };
        let tree = Tree::new(files, &root, u64::from_le_bytes(salt), behind);
        let adapter = Adapter {
            tree: Arc::new(tree),
            callers: Callers::new(options.groups),
            cache: options.cache,
            notifier: Arc::clone(&notifier),
        };
        let session = Session::new(adapter, &directory, &config(options));
        let session = session
            .and_then(Session::spawn)
            .map_err(|error| MountError::Mount {
                directory: directory.clone(),
                error,
            })?;
        read_ahead(&directory);
        // Nobody else sets it.
        let _set = notifier.set(session.notifier());
        Ok(Self { session, directory })
    }

    /// Where it is mounted: the whole path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What ends it.
    #[must_use]
    pub fn ender(&self) -> Ender {
        let directory = self.directory.clone();
        Ender { directory }
    }

    /// Serves until the file system is unmounted and nothing in it is in use any longer.
    ///
    /// # Errors
    ///
    /// The kernel ended the connection with an error.
    pub fn wait(self) -> io::Result<()> {
        let aborted = rustix::io::Errno::CONNABORTED.raw_os_error();
        match self.session.join() {
            // The kernel took back a request that a thread was reading while the last file was closed.
            Err(error) if error.raw_os_error() == Some(aborted) => Ok(()),
            ended => ended,
        }
    }
}

impl Ender {
    /// Writes what the kernel still holds to the server and unmounts. Where files are in use, the mount goes from its
    /// place at once and its service goes on until they are closed.
    ///
    /// # Errors
    ///
    /// Unmounting is refused. A mount that is gone already is none.
    pub fn end(&self) -> io::Result<()> {
        self.flush();
        for flags in [UnmountFlags::empty(), UnmountFlags::DETACH] {
            match rustix::mount::unmount(&self.directory, flags) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => return Ok(()),
                // Whoever mounted by fusermount3 unmounts by it.
                Err(rustix::io::Errno::PERM) => return self.unmount_by_program(),
                Err(rustix::io::Errno::BUSY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Data of maps is all that the kernel holds back. What went behind is at the server once its file is closed.
    fn flush(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.directory, flags, Mode::empty());
        if let Err(error) = root.and_then(|root| rustix::fs::syncfs(&root)) {
            debug!(%error, "not flushed");
        }
    }

    fn unmount_by_program(&self) -> io::Result<()> {
        let status = Command::new("fusermount3")
            .args(["-u", "-q", "-z", "--"])
            .arg(&self.directory)
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    }
}

/// How far the kernel reads ahead of a program that reads a file from its beginning, in KiB: several reads of the most
/// that one request has are under way then. The kernel's own value is 128.
const READ_AHEAD: &str = "4096";

/// Sets how far the kernel reads ahead of programs, where this process may.
fn read_ahead(directory: &Path) {
    // Without a look at the file system, which this process may have to serve first.
    let flags = AtFlags::from_bits_retain(AT_STATX_DONT_SYNC);
    let status = rustix::fs::statx(rustix::fs::CWD, directory, flags, StatxFlags::MNT_ID);
    let Ok(status) = status else { return };
    let (major, minor) = (status.stx_dev_major, status.stx_dev_minor);
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&path, READ_AHEAD) {
        debug!(%error, path, "the kernel reads ahead as far as it does by itself");
    }
}

/// statx(2).
const AT_STATX_DONT_SYNC: u32 = 0x4000;

fn config(options: &Options) -> Config {
    let mut mount = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("finerail".to_owned()),
        MountOption::DefaultPermissions,
    ];
    mount.extend(
        [
            (options.read_only, MountOption::RO),
            (options.suid, MountOption::Suid),
            (!options.exec, MountOption::NoExec),
            (options.no_access_time, MountOption::NoAtime),
        ]
        .into_iter()
        .filter_map(|(is_set, option)| is_set.then_some(option)),
    );
    let mut config = Config::default();
    config.mount_options = mount;
    config.acl = if options.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.clamp(1, THREADS_MAX));
    config.clone_fd = true;
    config
}
