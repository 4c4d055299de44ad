//! The directory that is served: every access starts at its open descriptor and goes down component by
//! component without following a symbolic link.
//!
//! So a link that leads out of the directory is refused wherever it stands, and no rename that happens
//! at the same moment can turn a checked path into another one: each step opens what the step before
//! holds open (`openat` with `O_NOFOLLOW`), and the last one works relative to its parent's descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use thiserror::Error;
use tracing::info;

use crate::listing::{Collector, NAMES_BYTES_MAX, Names};
use crate::name::{DEPTH_MAX, Printable, StoreName, TEMPORARY_PREFIX};
use crate::proto::{Attributes, ENTRY_LEN, Entry, Kind};

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// It cannot be opened.
    #[error("cannot open the directory: {0}")]
    Open(std::io::Error),
    /// Another process serves it.
    #[error("another storage service serves this directory: stop it, or choose another directory")]
    Busy,
    /// What an earlier service left behind cannot be removed.
    #[error("cannot clean up temporary files: {0}")]
    CleanUp(Errno),
}

/// The root of a store.
pub(crate) struct Directory {
    /// Locked, so that nobody else cleans up the temporary files of this service.
    root: Flock<File>,
}

/// A page of a directory, and whether there are names behind it.
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    pub(crate) has_more: bool,
}

const OPEN_DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

impl Directory {
    /// Opens and locks a directory, and removes the temporary files in it.
    pub(crate) fn open(path: &Path) -> Result<Self, DirectoryError> {
        let root = File::open(path).map_err(DirectoryError::Open)?;
        let root = Flock::lock(root, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, _)| DirectoryError::Busy)?;
        let directory = Self { root };
        let removed = clean(&directory.fd(None)?, 0).map_err(DirectoryError::CleanUp)?;
        if removed > 0 {
            info!(removed, "removed temporary files of an earlier service");
        }
        Ok(directory)
    }

    /// The parent directory of a name, made if need be, and the last component.
    pub(crate) fn parent_of<'n>(
        &self,
        name: &'n StoreName,
        create: bool,
    ) -> nix::Result<(OwnedFd, &'n OsStr)> {
        let (parents, last) = name.split_last();
        Ok((self.descend(&parents, create)?, last))
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, name: &StoreName) -> nix::Result<(File, Attributes)> {
        let (parent, last) = self.parent_of(name, false)?;
        // Without blocking, because opening a named pipe would wait for its writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&parent, last, flags, Mode::empty())?;
        let attributes = attributes(&fstat(&file)?);
        match attributes.kind {
            Kind::File => Ok((File::from(file), attributes)),
            Kind::Directory => Err(Errno::EISDIR),
            Kind::Other => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn stat(&self, name: &StoreName) -> nix::Result<Attributes> {
        let (parent, last) = self.parent_of(name, false)?;
        Ok(attributes(&fstatat(
            &parent,
            last,
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )?))
    }

    /// Removes a file, or a directory that is empty.
    pub(crate) fn remove(&self, name: &StoreName) -> nix::Result<()> {
        let (parent, last) = self.parent_of(name, false)?;
        match unlinkat(&parent, last, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => unlinkat(&parent, last, UnlinkatFlags::RemoveDir),
            other => other,
        }
    }

    /// Renames a file or directory; a file that has the new name is replaced.
    pub(crate) fn rename(&self, from: &StoreName, to: &StoreName) -> nix::Result<()> {
        let (old_parent, old) = self.parent_of(from, false)?;
        fstatat(&old_parent, old, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let (new_parent, new) = self.parent_of(to, true)?;
        renameat(&old_parent, old, &new_parent, new)
    }

    /// Reads the names of a directory behind `after`, as many as one listing keeps.
    pub(crate) fn names(&self, name: Option<&StoreName>, after: &[u8]) -> nix::Result<Names> {
        let mut names = Collector::new(after, NAMES_BYTES_MAX);
        for entry in Dir::from_fd(self.fd(name)?)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !is_hidden(name) {
                names.add(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names.finish())
    }

    /// The entries of these names that there still are, in their order, as many as take `room` bytes in a
    /// page.
    pub(crate) fn page(
        &self,
        name: Option<&StoreName>,
        names: &[OsString],
        room: usize,
    ) -> nix::Result<Page> {
        let directory = self.fd(name)?;
        let (mut used, mut entries) = (0, Vec::new());
        for name in names {
            used += ENTRY_LEN + name.len();
            if used > room {
                let has_more = true;
                return Ok(Page { entries, has_more });
            }
            match entry_of(&directory, name) {
                Some(entry) => entries.push(entry),
                None => used -= ENTRY_LEN + name.len(),
            }
        }
        let has_more = false;
        Ok(Page { entries, has_more })
    }

    /// Flushes to the disk the way to a name: the entries of its directory, and of every one above,
    /// which this or another call may just have made.
    pub(crate) fn sync(&self, name: &StoreName) -> nix::Result<()> {
        let (parents, _) = name.split_last();
        let mut at = openat(self.root.as_fd(), ".", OPEN_DIRECTORY, Mode::empty())?;
        nix::unistd::fsync(&at)?;
        for component in parents {
            at = openat(&at, component, OPEN_DIRECTORY, Mode::empty())?;
            nix::unistd::fsync(&at)?;
        }
        Ok(())
    }

    fn fd(&self, name: Option<&StoreName>) -> nix::Result<OwnedFd> {
        let components: Vec<&OsStr> = name.iter().flat_map(|name| name.components()).collect();
        self.descend(&components, false)
    }

    fn descend(&self, components: &[&OsStr], create: bool) -> nix::Result<OwnedFd> {
        let mut at = openat(self.root.as_fd(), ".", OPEN_DIRECTORY, Mode::empty())?;
        for &component in components {
            at = match openat(&at, component, OPEN_DIRECTORY, Mode::empty()) {
                Err(Errno::ENOENT) if create => make_directory(&at, component)?,
                opened => opened?,
            };
        }
        Ok(at)
    }
}

impl From<Errno> for DirectoryError {
    fn from(errno: Errno) -> Self {
        Self::Open(errno.into())
    }
}

/// What the operating system says of a file, as the protocol has it.
fn attributes(stat: &FileStat) -> Attributes {
    let kind = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Directory,
        _ => Kind::Other,
    };
    Attributes {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: stat.st_mtime,
        mtime_nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        kind,
        version: version(stat),
    }
}

/// A number that a replaced or rewritten file does not share. Never 0, which means "any".
fn version(stat: &FileStat) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&stat.st_dev.to_le_bytes());
    hasher.update(&stat.st_ino.to_le_bytes());
    hasher.update(&stat.st_size.to_le_bytes());
    hasher.update(&stat.st_mtime.to_le_bytes());
    hasher.update(&stat.st_mtime_nsec.to_le_bytes());
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
}

fn make_directory(parent: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::from_bits_truncate(0o777)) {
        // Somebody else was faster, or there is something that is no directory: opening it will tell.
        Ok(()) | Err(Errno::EEXIST) => openat(parent, name, OPEN_DIRECTORY, Mode::empty()),
        Err(error) => Err(error),
    }
}

/// An entry; `None` when it went meanwhile.
fn entry_of(directory: &OwnedFd, name: &OsStr) -> Option<Entry> {
    let stat = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    Some(Entry {
        name: name.as_bytes().to_vec(),
        attributes: attributes(&stat),
    })
}

fn is_hidden(name: &[u8]) -> bool {
    name == b"." || name == b".." || is_temporary(name)
}

fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(TEMPORARY_PREFIX.as_bytes())
}

/// Removes temporary files here and below; how many. Directories that may not be looked into, such as
/// `lost+found`, hold none: nothing can be stored there either.
fn clean(directory: &OwnedFd, depth: usize) -> nix::Result<u64> {
    let mut removed = 0;
    for entry in Dir::from_fd(directory.try_clone().map_err(errno)?)?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        match entry.file_type() {
            Some(Type::File) if is_temporary(name.to_bytes()) => {
                unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)?;
                removed += 1;
            }
            Some(Type::Directory) if !is_hidden(name.to_bytes()) && depth < DEPTH_MAX => {
                match openat(directory, name, OPEN_DIRECTORY, Mode::empty()) {
                    Ok(below) => removed += clean(&below, depth + 1)?,
                    Err(Errno::EACCES) => {
                        let name = Printable::new(name.to_bytes());
                        info!(%name, "not looked into: no permission");
                    }
                    Err(error) => return Err(error),
                }
            }
            _ => {}
        }
    }
    Ok(removed)
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
