//! The exported directory, and the conversion of handles and names to descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use thiserror::Error;

use crate::dir::attributes;
use crate::dir::identity::{Acting, Identity, errno};
use crate::dir::locks::{Asked, Locks};
use crate::dir::table::{self, Access, Id, Object, Open, Table};
use crate::{
    Caller, Data, Entry, Errno, Export, FileSystem, Handle, Kind, Located, Place, Reply, Request,
};

/// Options of an exported directory.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The identity with which operations are executed.
    pub identity: Identity,
    /// Whether changes are rejected (`EROFS`).
    pub read_only: bool,
    /// Limit of the number of objects in the table, about 200 bytes each.
    pub objects_max: usize,
    /// Limit of the open descriptors. At most half of the number that the process may open.
    pub descriptors_max: usize,
    /// Limit of the files that are held for clients, of which each client may have an eighth. At most a quarter of the
    /// number of descriptors that the process may open.
    pub held_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            identity: Identity::Server,
            read_only: false,
            objects_max: 1 << 20,
            descriptors_max: 4096,
            held_max: 32_768,
        }
    }
}

/// Why a directory cannot be exported.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The path cannot be opened, or it is not a directory.
    #[error("{0}: {1}", .path.display(), io::Error::from(*.errno))]
    Open {
        /// The directory.
        path: PathBuf,
        /// The error.
        errno: Errno,
    },
    /// `/proc` does not show this process's descriptors.
    #[error("/proc/self/fd: {}; mount /proc, which is needed to reopen files", .0.desc())]
    Proc(Errno),
    /// This process may not act as other users.
    #[error(
        "this process may not act as its callers: it lacks CAP_SETUID and CAP_SETGID; run it as root or let all \
         operations run as this user"
    )]
    Identity,
    /// The system provides no random number to distinguish this start from others.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
}

/// A directory of this machine as a file system.
pub struct LocalDirectory {
    table: Mutex<Table>,
    pub(crate) locks: Mutex<Locks>,
    options: Options,
    boot: u64,
}

/// An open directory and a name in it.
pub(crate) struct Target {
    pub(crate) directory: Id,
    pub(crate) open: Arc<Open>,
    pub(crate) name: Box<[u8]>,
}

const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

impl LocalDirectory {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened, or the system lacks a feature that the export needs.
    pub fn open(path: &FilePath, options: Options) -> Result<Self, DirectoryError> {
        let failed = |errno| DirectoryError::Open {
            path: path.to_owned(),
            errno,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(errno(e)))?;
        let status = status(fd.as_fd(), b"").map_err(failed)?;
        // Check that openat2 exists before the first operation needs it.
        reopen_directory(fd.as_fd()).map_err(failed)?;
        rustix::fs::stat(proc_path(fd.as_fd())).map_err(|e| DirectoryError::Proc(errno(e)))?;
        if let Identity::Caller { uid, gid, .. } = options.identity {
            let groups = Vec::new();
            let anonymous = Acting::As(Arc::new(Caller { uid, gid, groups }));
            anonymous
                .run(|| Ok(()))
                .map_err(|_| DirectoryError::Identity)?;
        }
        let mut start = [0; 8];
        getrandom::fill(&mut start).map_err(DirectoryError::Random)?;
        let root = Open {
            fd,
            access: Access::Path,
            acting: Acting::Server,
        };
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let allowed = limit.map_or(usize::MAX, |limit| limit as usize / 2);
        let descriptors = options.descriptors_max.min(allowed).max(1);
        let identity = attributes::identity(&status);
        let table = Table::new(
            start,
            root,
            identity,
            options.objects_max.max(1),
            descriptors,
            options.held_max.min(allowed / 2),
        );
        Ok(Self {
            table: Mutex::new(table),
            locks: Mutex::new(Locks::new(u64::from_le_bytes(start))),
            options,
            boot: boot(),
        })
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the object that a handle names.
    pub(crate) fn object(&self, handle: Handle) -> Result<Object, Errno> {
        let mut table = self.table();
        table.expire(Instant::now());
        table.find(handle)
    }

    /// Returns an object and a descriptor of it, which permits at least [`Access::Path`].
    pub(crate) fn resolve(&self, handle: Handle) -> Result<(Object, Arc<Open>), Errno> {
        let object = self.object(handle)?;
        let open = self.path_of(&object)?;
        Ok((object, open))
    }

    pub(crate) fn path_of(&self, object: &Object) -> Result<Arc<Open>, Errno> {
        let way = {
            let mut table = self.table();
            if let Some(open) = table.open(object.id) {
                return Ok(open);
            }
            table.way(object.id).ok_or(Errno::ESTALE)?
        };
        let fd = walk(way.from.fd.as_fd(), &way.names)?;
        if attributes::identity(&status(fd.as_fd(), b"")?) != object.identity {
            return Err(Errno::ESTALE);
        }
        let open = Arc::new(Open {
            fd,
            access: Access::Path,
            acting: Acting::Server,
        });
        self.table().keep(object.id, Arc::clone(&open));
        Ok(open)
    }

    /// Returns the directory of a place's last name, and this name.
    pub(crate) fn target(&self, place: &Place, acting: &Acting) -> Result<Target, Errno> {
        let (mut object, mut open) = self.resolve(place.directory)?;
        let (parents, name) = place.path.split_last();
        for component in parents.iter().flat_map(crate::Path::components) {
            require_directory(object.kind)?;
            let (entry, next) = self.look_up(object.id, &open, component, acting)?;
            object = self.object(entry.handle)?;
            open = next;
        }
        require_directory(object.kind)?;
        Ok(Target {
            directory: object.id,
            open,
            name: name.into(),
        })
    }

    /// Looks up a name in a directory.
    pub(crate) fn look_up(
        &self,
        directory: Id,
        open: &Open,
        name: &[u8],
        acting: &Acting,
    ) -> Result<(Entry, Arc<Open>), Errno> {
        let fd = acting.run(|| open_path(open.fd.as_fd(), name))?;
        let found = Arc::new(Open {
            fd,
            access: Access::Path,
            acting: Acting::Server,
        });
        let entry = self.note(directory, name, Arc::clone(&found))?;
        Ok((entry, found))
    }

    /// Records an open object under the name by which it was opened.
    pub(crate) fn note(&self, directory: Id, name: &[u8], open: Arc<Open>) -> Result<Entry, Errno> {
        let (identity, attributes) = attributes::attributes_at(open.fd.as_fd(), b"")?;
        let spot = (directory, name.into());
        let mut table = self.table();
        let (object, handle) = table.note(identity, attributes.kind, spot);
        table.keep(object.id, open);
        Ok(Entry { handle, attributes })
    }

    fn export(&self) -> Export {
        Export {
            read_only: self.options.read_only,
            as_caller: self.options.identity != Identity::Server,
            boot: self.boot,
            ..Export::default()
        }
    }

    fn carry_out(
        &self,
        acting: &Acting,
        request: &Request,
        data: Data<'_>,
    ) -> Result<Reply, Errno> {
        match (request, data) {
            (Request::Null, _) => Ok(Reply::Done),
            (Request::Identify, _) => Ok(Reply::Export(self.export())),
            (Request::Hold { holder, handle }, _) => self.hold_file(*holder, *handle),
            (
                Request::Renew {
                    holder,
                    held,
                    released,
                },
                _,
            ) => Ok(self.renew_holds(*holder, held, released)),
            (
                Request::Lock {
                    holder,
                    sequence,
                    floor,
                    handle,
                    action,
                    lock,
                },
                _,
            ) => {
                let asked = Asked {
                    holder: *holder,
                    sequence: *sequence,
                    floor: *floor,
                    action: *action,
                    lock: *lock,
                };
                self.lock_file(*handle, &asked)
            }
            (Request::KeepLocks { holder }, _) => self.keep_locks(*holder),
            (Request::Read { handle, segments }, Data::Read(memory)) => {
                self.read(acting, *handle, segments, memory)
            }
            (Request::Read { handle, segments }, _) => {
                self.read(acting, *handle, segments, &mut [])
            }
            (Request::Write { handle, segments }, Data::Write(memory)) => {
                self.write(acting, *handle, segments, memory)
            }
            (Request::Write { handle, segments }, _) => self.write(acting, *handle, segments, &[]),
            (Request::Append { handle, .. }, Data::Write(memory)) => {
                self.append(acting, *handle, memory)
            }
            (Request::Append { handle, .. }, _) => self.append(acting, *handle, &[]),
            (request, _) => self.without_data(acting, request),
        }
    }

    fn without_data(&self, acting: &Acting, request: &Request) -> Result<Reply, Errno> {
        match request {
            Request::Lookup { place } => self.lookup_at(acting, place),
            Request::Create {
                place,
                mode,
                exclusive,
            } => self.create_at(acting, place, *mode, *exclusive),
            Request::Remove { place, directory } => self.remove_at(acting, place, *directory),
            Request::Rename { from, to, mode } => self.rename_to(acting, from, to, *mode),
            Request::Symlink { place, target } => self.symlink_at(acting, place, target),
            Request::Mkdir { place, mode } => self.mkdir_at(acting, place, *mode),
            Request::Link { handle, place } => self.link_at(acting, *handle, place),
            Request::MakeNode { place, node, mode } => self.mknod_at(acting, place, *node, *mode),
            Request::ReadDir {
                handle,
                cookie,
                entries,
                objects,
            } => self.list(acting, *handle, *cookie, *entries, *objects),
            Request::Commit { handle, data_only } => self.flush(*handle, *data_only),
            Request::Allocate {
                handle,
                mode,
                segment,
            } => self.allocate_in(acting, *handle, *mode, *segment),
            Request::Seek {
                handle,
                offset,
                target,
            } => self.seek_in(acting, *handle, *offset, *target),
            other => self.on_attributes(acting, other),
        }
    }
}

impl FileSystem for LocalDirectory {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        request.check()?;
        caller.check()?;
        data.check(request)?;
        if self.options.read_only && request.is_change() {
            return Err(Errno::EROFS);
        }
        self.carry_out(&self.options.identity.of(caller), request, data)
    }
}

impl Located for LocalDirectory {
    fn path_of(&self, handle: Handle) -> Option<Vec<u8>> {
        let object = self.object(handle).ok()?;
        self.table().path(object.id)
    }
}

/// Returns a number for the current boot of this machine from the kernel; 0 if the kernel does not report one.
fn boot() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.chars().filter(char::is_ascii_hexdigit);
    // 64 of the 128 bits suffice to distinguish boots.
    let digits: String = digits.take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Opens a name in a directory without following it, and without access to the content.
pub(crate) fn open_path(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_confined(directory, name, flags, 0)
}

/// Opens a name in a directory. The result is never outside of the directory.
pub(crate) fn open_confined(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(mode);
    // The kernel returns EAGAIN if a rename interferes and the kernel cannot tell whether the result is confined.
    for _ in 0..64 {
        match rustix::fs::openat2(directory, name, flags, mode, CONFINED) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            opened => return opened.map_err(errno),
        }
    }
    Err(Errno::EAGAIN)
}

/// Returns a new descriptor of the same directory, with a position of its own.
pub(crate) fn reopen_directory(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_confined(directory, b".", flags, 0)
}

/// Returns the status of a name in a directory. With an empty name, returns the status of the descriptor itself.
pub(crate) fn status(at: BorrowedFd<'_>, name: &[u8]) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(at, name, flags, wanted).map_err(errno)
}

/// Returns the path through which an open object can be reopened.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(crate) fn require_directory(kind: Kind) -> Result<(), Errno> {
    match kind {
        Kind::Directory => Ok(()),
        Kind::Symlink => Err(Errno::ELOOP),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Opens the object at the end of some names. A name that no longer exists gives `ESTALE`.
fn walk(from: BorrowedFd<'_>, names: &[Box<[u8]>]) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    for name in names {
        let directory = at.as_ref().map_or(from, AsFd::as_fd);
        at = Some(open_path(directory, name).map_err(|errno| match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => Errno::ESTALE,
            other => other,
        })?);
    }
    at.ok_or(Errno::ESTALE)
}

/// The id of the root in the table, where `..` leads no further.
pub(crate) const ROOT: Id = table::ROOT;
