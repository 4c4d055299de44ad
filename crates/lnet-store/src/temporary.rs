//! A file in the making: written under a temporary name in its own directory, then renamed into place.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, unlinkat};
use tracing::warn;

use crate::directory::Directory;
use crate::name::{StoreName, TEMPORARY_PREFIX};
use crate::service::Sync;

/// A temporary file; dropping it removes it.
pub(crate) struct Temporary {
    pub(crate) file: File,
    parent: OwnedFd,
    temporary: String,
    last: OsString,
    is_placed: bool,
}

impl Temporary {
    /// Makes a temporary file beside `name`. `unique` must not be predictable, so that nobody can be
    /// there first.
    pub(crate) fn create(
        directory: &Directory,
        name: &StoreName,
        unique: u128,
    ) -> nix::Result<Self> {
        let (parent, last) = directory.parent_of(name, true)?;
        let temporary = format!("{TEMPORARY_PREFIX}{unique:032x}");
        let flags =
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(
            &parent,
            temporary.as_str(),
            flags,
            Mode::from_bits_truncate(0o600),
        )?;
        let (file, last) = (File::from(fd), last.to_owned());
        Ok(Self {
            file,
            parent,
            temporary,
            last,
            is_placed: false,
        })
    }

    /// Gives the file its permissions and its name, replacing what had it. The way to the name is the
    /// caller's to flush.
    pub(crate) fn place(mut self, mode: u32, sync: Sync) -> nix::Result<()> {
        // Never set-user-id or the like: who may run what is not a client's to say.
        fchmod(&self.file, Mode::from_bits_truncate(mode & 0o777))?;
        if sync != Sync::None {
            self.file
                .sync_all()
                .map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
        }
        renameat(
            &self.parent,
            self.temporary.as_str(),
            &self.parent,
            self.last.as_os_str(),
        )?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        let removed = unlinkat(
            &self.parent,
            self.temporary.as_str(),
            UnlinkatFlags::NoRemoveDir,
        );
        if let Err(error) = removed {
            warn!(file = self.temporary, %error, "a temporary file stays until the next start");
        }
    }
}
