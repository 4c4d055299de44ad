//! Opens, creates and replaces files at paths where other users may have put links, pipes or files.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat, renameat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, getegid, geteuid, unlinkat};

/// Makes opening fail with `ELOOP` if the last part of the path is a symbolic link, and not block
/// if it is a pipe.
pub fn without_following(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    options.custom_flags(flags.bits())
}

/// Opens a directory that belongs to this user alone: no other user can put a link, a pipe or a file
/// in it, or another directory in its place.
///
/// `forbidden` are the mode bits that the directory must not have, for example 0o022 (others cannot
/// write) or 0o077 (others cannot enter).
///
/// # Errors
///
/// [`ErrorKind::NotADirectory`] for anything else, also for a link to a directory;
/// [`ErrorKind::PermissionDenied`] if the directory belongs to another user, has forbidden mode bits,
/// or is in a directory in which others can replace it. The text says which. Also errors of `open(2)`.
pub fn own_directory(path: &Path, forbidden: u32) -> io::Result<File> {
    // A path with a slash at its end would lead through a link.
    let path: PathBuf = path.components().collect();
    let (parent, name) = parent_of(&path)?;
    if let Some(name) = name {
        require_trusted(&parent)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(&parent, name, flags, Mode::empty()).map(File::from);
        return require_own(opened.map_err(io::Error::from)?, forbidden);
    }
    require_own(parent, forbidden)
}

fn require_own(directory: File, forbidden: u32) -> io::Result<File> {
    let found = directory.metadata()?;
    let problem = if found.uid() != geteuid().as_raw() {
        // Root may not use it either: its owner could make root change files that the owner may not.
        "the directory belongs to another user (only that user can use it)"
    } else if found.mode() & forbidden != 0 {
        match forbidden & 0o055 {
            0 => "the directory is writable by other users",
            _ => "other users can access the directory",
        }
    } else {
        return Ok(directory);
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, problem))
}

/// Checks the directory of a path: other users can neither remove nor replace what this user creates
/// at the path.
///
/// This is so if the directory belongs to this user or to the system's administrator, and if others
/// cannot write in it or may only remove their own files (as in `/tmp`).
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] with a text that says why not; errors of `open(2)`.
pub fn require_trusted_parent(path: &Path) -> io::Result<()> {
    require_trusted(&parent_of(path)?.0)
}

/// Creates a file that a user named, or empties the one that is there, for writing.
///
/// A link is followed if nobody but this user or the system's administrator can have put it there, as
/// `/dev/stdout`. A pipe or socket of another user is not opened.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] for a link or pipe of another user; errors of `open(2)`.
pub fn create_file(path: &Path) -> io::Result<File> {
    let (parent, name) = parent_of(path)?;
    let Some(name) = name else {
        return Err(ErrorKind::IsADirectory.into());
    };
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_CLOEXEC;
    let flags = flags | OFlag::O_NOCTTY;
    let mode = Mode::from_bits_truncate(0o666);
    let refused = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match openat(&parent, name, flags | refused, mode) {
        Err(Errno::ELOOP) => {
            let link = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            if !is_trusted(link.st_uid) || require_trusted(&parent).is_err() {
                return Err(denied("it is a link that another user can have put there"));
            }
            return Ok(openat(&parent, name, flags, mode)?.into());
        }
        opened => File::from(opened?),
    };
    let found = file.metadata()?;
    if found.file_type().is_fifo() && !is_trusted(found.uid()) {
        return Err(denied("it is a pipe of another user"));
    }
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Writes a file that a user named: [`create_file`], and then all bytes.
///
/// # Errors
///
/// Errors of [`create_file`] and of `write(2)`.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create_file(path)?.write_all(bytes.as_ref())
}

/// Replaces the file at `path` in one step, by way of a new file with the ending `.new` beside it. A
/// crash leaves the old or the new file. A link, or whatever else is at one of the two paths, is
/// replaced and not followed.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if somebody creates the same new file meanwhile; errors of `open(2)`,
/// `write(2)` and `rename(2)`.
pub fn replace_file(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let (parent, name) = parent_of(path)?;
    let name = name.ok_or(ErrorKind::IsADirectory)?;
    let mut fresh = name.to_owned();
    fresh.push(".new");
    create_new(&parent, &fresh, 0o666)?.write_all(bytes.as_ref())?;
    Ok(renameat(&parent, fresh.as_os_str(), &parent, name)?)
}

/// Creates a file in an open directory, in place of whatever has its name; a link is not followed.
/// `mode` has the permissions before the umask.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if somebody creates the same name meanwhile; errors of `open(2)` and
/// `unlink(2)`.
pub fn create_new(directory: impl AsFd, name: &OsStr, mode: u32) -> io::Result<File> {
    match unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(mode);
    Ok(openat(&directory, name, flags, mode)?.into())
}

/// Returns the directory of a path, open, and the last part of the path; no last part if the path ends
/// with a directory (`/`, `..`).
fn parent_of(path: &Path) -> io::Result<(File, Option<&OsStr>)> {
    let name = path.file_name();
    let parent = match name {
        Some(_) => path.parent().unwrap_or(Path::new("")),
        None => path,
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let mut options = OpenOptions::new();
    // O_PATH needs no permission to read the directory.
    let flags = match name {
        Some(_) => OFlag::O_DIRECTORY | OFlag::O_PATH,
        None => OFlag::O_DIRECTORY,
    };
    options.read(true).custom_flags(flags.bits());
    Ok((options.open(parent)?, name))
}

fn require_trusted(directory: &File) -> io::Result<()> {
    let found = directory.metadata()?;
    let is_sticky = found.mode() & 0o1000 != 0;
    let by_group = found.mode() & 0o020 != 0 && found.gid() != getegid().as_raw();
    let by_others = found.mode() & 0o002 != 0;
    if !is_trusted(found.uid()) {
        return Err(denied(
            "the directory that holds it belongs to another user",
        ));
    }
    if (by_group || by_others) && !is_sticky {
        return Err(denied(
            "the directory that holds it is writable by other users",
        ));
    }
    Ok(())
}

/// Returns whether a file's owner is this user or the system's administrator: the owner of `/`, because
/// in a user namespace the administrator is not user 0.
fn is_trusted(owner: u32) -> bool {
    owner == geteuid().as_raw() || fs::metadata("/").is_ok_and(|root| root.uid() == owner)
}

fn denied(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
