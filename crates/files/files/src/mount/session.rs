//! Mounts, serves, and ends a mount.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use thiserror::Error;
use tracing::{debug, warn};

use crate::mount::adapter::Adapter;
use crate::mount::callers::Callers;
use crate::mount::interrupt::Waits;
use crate::mount::tree::Tree;
use crate::{Caller, Errno, FileSystem, Handle};

/// Limit of the threads of a mount. Each has a buffer of 16 MiB, whose pages are allocated when they are used.
pub const THREADS_MAX: usize = 256;

/// Among whom locks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Among the programs of all clients of the server.
    #[default]
    Gateway,
    /// Among the programs of this mount.
    Local,
    /// Among nobody: locks are rejected with `ENOLCK`.
    Refuse,
}

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// Source in the list of mounts.
    pub source: String,
    /// Whether changes are rejected.
    pub read_only: bool,
    /// Whether other users may use the mount too, as far as permission bits permit.
    pub allow_other: bool,
    /// Whether set-user-id bits of programs have an effect, which needs root.
    pub suid: bool,
    /// Whether programs may be executed.
    pub exec: bool,
    /// Whether reads leave the time of access unchanged.
    pub no_access_time: bool,
    /// How long the kernel may cache the attributes of files and other objects than directories.
    pub file_attributes: Duration,
    /// How long the kernel may cache names, also those that do not exist, and the attributes of directories.
    pub directory_attributes: Duration,
    /// Number of operations at the same time, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Whether `write` may return before the server has a large piece. At most three of four threads carry such
    /// pieces.
    pub write_behind: bool,
    /// Among whom locks (flock(2), fcntl(2)) hold.
    pub locks: Locking,
    /// Whether requests carry all groups of their callers. For a file system that acts as its callers.
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
            file_attributes: Duration::from_secs(1),
            directory_attributes: Duration::from_secs(1),
            threads: 16,
            write_behind: true,
            locks: Locking::Gateway,
            groups: true,
        }
    }
}

/// Why a file system cannot be mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The file system does not answer, or its root is not a directory.
    #[error("the file system's root cannot be used: {}", .0.desc())]
    Root(Errno),
    /// The mount point cannot be used.
    #[error("{}: {error}", .directory.display())]
    Directory {
        /// The mount point.
        directory: PathBuf,
        /// Why it cannot be used.
        error: io::Error,
    },
    /// A mount is there whose process has ended.
    #[error(
        "{directory}: a mount is here whose process has ended; unmount it first: `umount {directory}`, or without root \
         `fusermount3 -u {directory}`", directory = .0.display()
    )]
    Dead(PathBuf),
    /// The kernel rejects the mount.
    #[error("cannot mount at {}: {error}; {}", .directory.display(), advice(.error))]
    Mount {
        /// The mount point.
        directory: PathBuf,
        /// The error of the kernel or of the program `fusermount3`.
        error: io::Error,
    },
    /// The system provides no random number for hidden names.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
}

/// Returns advice for an error of a mount.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "this needs /dev/fuse (`modprobe fuse`), and without root the program fusermount3 (Debian: fuse3)"
        }
        io::ErrorKind::PermissionDenied => {
            "this needs read and write access to /dev/fuse; allow_other without root needs user_allow_other in \
             /etc/fuse.conf"
        }
        _ => "`dmesg` may show the reason",
    }
}

/// A mounted file system, which is served until it is unmounted. Dropping this value unmounts it.
pub struct Mounted {
    /// `None` once the mount has ended.
    session: Option<BackgroundSession>,
    directory: PathBuf,
    tree: Arc<Tree>,
    waits: Arc<Waits>,
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
    /// The file system does not answer, the mount point cannot be used, or the kernel rejects the mount.
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
        let is_dead = |error: &io::Error| error.kind() == io::ErrorKind::NotConnected;
        let found = directory.canonicalize();
        let found = found.and_then(|whole| Ok((whole.metadata()?.is_dir(), whole)));
        let directory = match found {
            Ok((true, whole)) => whole,
            Ok((false, _)) => return Err(place(io::Error::from(io::ErrorKind::NotADirectory))),
            Err(error) if is_dead(&error) => return Err(MountError::Dead(directory.to_owned())),
            Err(error) => return Err(place(error)),
        };
        let (salt, holder) = (random()?, random()?);
        let notifier = Arc::new(OnceLock::new());
        let behind = if options.write_behind {
            options.threads * 3 / 4
        } else {
            0
        };
        let tree = Arc::new(Tree::new(files, &root, salt, holder, behind));
        let waits = Arc::<Waits>::default();
        let adapter = Adapter {
            tree: Arc::clone(&tree),
            callers: Callers::new(options.groups),
            file_attributes: options.file_attributes,
            directory_attributes: options.directory_attributes,
            notifier: Arc::clone(&notifier),
            waits: Arc::clone(&waits),
            locks: options.locks,
            lock_threads: Arc::default(),
        };
        let session = attach(adapter, &directory, options)
            .and_then(Session::spawn)
            .map_err(|error| MountError::Mount {
                directory: directory.clone(),
                error,
            })?;
        tree.holds.start();
        if options.locks == Locking::Gateway {
            tree.locks.start();
        }
        waits.start();
        read_ahead(&directory);
        // This is the only place that sets the notifier.
        let _set = notifier.set(session.notifier());
        Ok(Self {
            session: Some(session),
            directory,
            tree,
            waits,
        })
    }

    /// Returns the whole path of the mount point.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns an [`Ender`] for this mount.
    #[must_use]
    pub fn ender(&self) -> Ender {
        let directory = self.directory.clone();
        Ender { directory }
    }

    /// Serves until the file system is unmounted and no longer in use.
    ///
    /// # Errors
    ///
    /// The kernel ended the connection with an error.
    pub fn wait(mut self) -> io::Result<()> {
        let aborted = rustix::io::Errno::CONNABORTED.raw_os_error();
        let ended = self.session.take().map_or(Ok(()), BackgroundSession::join);
        match ended {
            // At the unmount, the kernel withdrew a request while a thread was reading the request.
            Err(error) if error.raw_os_error() == Some(aborted) => Ok(()),
            ended => ended,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.tree.holds.end();
        self.tree.locks.end();
        self.waits.end();
        if self.session.is_some()
            && let Err(error) = self.ender().end()
        {
            warn!(%error, "not unmounted");
        }
    }
}

fn random() -> Result<u64, MountError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(MountError::Random)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The type of the file system in the list of mounts, with the one that `fusermount3` gives it.
const KIND: &str = "fuse.finerail";

/// Mounts: by a system call if this process may, otherwise by `fusermount3`. (`fuser` leaves the subtype out of its own
/// system call.)
fn attach(adapter: Adapter, directory: &Path, options: &Options) -> io::Result<Session<Adapter>> {
    let config = config(options);
    let device = match File::options().read(true).write(true).open("/dev/fuse") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Session::new(adapter, directory, &config);
        }
        device => device?,
    };
    let kind = rustix::fs::stat(directory)?.st_mode & 0o170_000;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode={kind:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        uid.as_raw(),
        gid.as_raw()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let source = options.source.as_str();
    let data = CString::new(data)?;
    match rustix::mount::mount(source, directory, KIND, flags(options), data.as_c_str()) {
        Ok(()) => {}
        Err(rustix::io::Errno::PERM) => return Session::new(adapter, directory, &config),
        Err(error) => return Err(error.into()),
    }
    let session = Session::from_fd(adapter, device.into(), config.acl, config);
    if session.is_err() {
        // The error of the session is reported.
        let _unmounted = rustix::mount::unmount(directory, UnmountFlags::DETACH);
    }
    session
}

fn flags(options: &Options) -> MountFlags {
    let mut flags = MountFlags::NODEV;
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOEXEC, !options.exec);
    flags.set(MountFlags::NOATIME, options.no_access_time);
    flags
}

impl Ender {
    /// Sends the data that the kernel still keeps to the server, and unmounts. If files are in use, the mount point
    /// becomes free at once, and the file system is served until the files are closed.
    ///
    /// # Errors
    ///
    /// The system call or `fusermount3` failed. A mount that has ended already is not an error.
    pub fn end(&self) -> io::Result<()> {
        self.flush();
        for flags in [UnmountFlags::empty(), UnmountFlags::DETACH] {
            match rustix::mount::unmount(&self.directory, flags) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => return Ok(()),
                // A user without the right to unmount used fusermount3 to mount.
                Err(rustix::io::Errno::PERM) => return self.unmount_by_program(),
                Err(rustix::io::Errno::BUSY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Flushes the mount. The kernel keeps only data of maps back; pieces written behind wait for the close of their
    /// file.
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

/// How far the kernel reads ahead of a program that reads a file sequentially, in KiB: several read requests of the
/// greatest length are in flight then. The kernel's own value is 128.
const READ_AHEAD: &str = "4096";

/// Sets how far the kernel reads ahead of programs, if this process may.
fn read_ahead(directory: &Path) {
    // Do not ask the file system for attributes: this process may have to answer the request itself.
    let flags = AtFlags::from_bits_retain(AT_STATX_DONT_SYNC);
    let status = rustix::fs::statx(rustix::fs::CWD, directory, flags, StatxFlags::MNT_ID);
    let Ok(status) = status else { return };
    let (major, minor) = (status.stx_dev_major, status.stx_dev_minor);
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&path, READ_AHEAD) {
        debug!(%error, path, "the read-ahead of the kernel keeps its default");
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
