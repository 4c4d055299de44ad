//! The log as a file: a directory that belongs to one process, records that are appended, and the replacement
//! of the file by a new one.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};

use super::LogError;
use super::record::{Record, encode, head};

/// The name of the log, and of a new one until it is complete.
const LOG: &str = "replies.log";
const FRESH: &str = "replies.new";

/// The mode bits with which other users can write in the directory.
const OTHERS_WRITE: u32 = 0o022;

/// The limit of the log that is read, in bytes. A log with the most calls stays far below.
const LOG_MAX: u64 = 1 << 30;

/// The private directory of one gateway.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    salt: u64,
    _lock: Flock<File>,
}

/// An open log. Offsets count from the start of the file.
#[derive(Debug)]
pub(super) struct LogFile {
    file: Arc<File>,
    salt: u64,
    end: u64,
    /// The length of the file that is known to be on the disk, in bytes.
    durable: u64,
}

impl Home {
    /// Takes the directory and locks other processes out of it. Clients must not know `salt`.
    pub(super) fn lock(path: &Path, salt: u64) -> Result<Self, LogError> {
        let failed = |source| LogError::Directory {
            path: path.to_owned(),
            source,
        };
        sys::own_directory(path, OTHERS_WRITE).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false).mode(0o600);
        let lock = sys::without_following(&mut options)
            .open(path.join("lock"))
            .map_err(failed)?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    nix::errno::Errno::EWOULDBLOCK => LogError::InUse(path.to_owned()),
                    errno => failed(errno.into()),
                },
            )?;
        Ok(Self {
            path: path.to_owned(),
            salt,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Returns the bytes of the log; `None` if there is no log yet.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, LogError> {
        let path = self.path();
        let read = |mut file: File| {
            let found = file.metadata()?;
            if found.len() > LOG_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        let opened = sys::without_following(OpenOptions::new().read(true)).open(&path);
        let read = match opened {
            Ok(file) => read(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        read.map_err(|source| LogError::Read {
            path: path.clone(),
            source,
        })
    }

    /// Replaces the old log by a new one with these records. The new log is on the disk when this function
    /// returns.
    pub(super) fn replace(&self, records: &[Record]) -> io::Result<LogFile> {
        let mut bytes = head(self.salt);
        let append = |record| bytes.extend(encode(record, 0, self.salt));
        records.iter().for_each(append);
        // Checked again, because the directory may have been gone meanwhile.
        let directory = sys::own_directory(&self.path, OTHERS_WRITE)?;
        let mut file = sys::create_new(&directory, OsStr::new(FRESH), 0o600)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        nix::fcntl::renameat(&directory, FRESH, &directory, LOG)?;
        directory.sync_all()?;
        let end = bytes.len() as u64;
        Ok(LogFile {
            file: Arc::new(file),
            salt: self.salt,
            end,
            durable: end,
        })
    }

    /// Checks that the log is still at its path. A log that was removed, or is hidden below a mount, would be
    /// missing after a restart.
    pub(super) fn holds(&self, file: &File) -> io::Result<()> {
        let (there, ours) = (fs::metadata(self.path())?, file.metadata()?);
        if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) {
            Ok(())
        } else {
            Err(io::Error::other("the log was replaced by another file"))
        }
    }
}

impl LogFile {
    /// Appends a record. If a record cannot be written whole, the next record overwrites it.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let bytes = encode(record, self.durable, self.salt);
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Notes that the first `end` bytes of the file are on the disk.
    pub(super) fn synced(&mut self, end: u64) {
        self.durable = self.durable.max(end);
    }
}
