//! The connections of a check, written down before a server can have them, so that a later run ends what this one could
//! not.
//!
//! Each is a file of its own, locked by the run that made it: a locked file belongs to a run that is alive.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use lnet_ptlrpc::client::{Export, Service};
use serde::{Deserialize, Serialize};

use crate::common::complaint;

/// The most records that a run looks at.
const RECORDS_MAX: usize = 256;

/// The end of the name of a record that is not complete.
const UNFINISHED: &str = "new";

/// How often a record is written anew that another run has removed.
const TRIES: usize = 3;

/// The most bytes of a record.
const BYTES_MAX: u64 = 64 << 10;

/// The seconds after which a target ends a connection by itself, and some more. An MGS of a late release never does.
const TARGETS_FORGET: u64 = 300;

/// A connection on a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// A NID of the server.
    pub(super) server: String,
    /// The port.
    pub(super) port: u16,
    /// When it was made, in seconds since 1970.
    pub(super) time: u64,
    /// The connection.
    pub(super) export: Export,
}

/// The folder of the records.
pub(super) struct Records {
    folder: PathBuf,
}

/// The file of a record.
pub(super) struct Kept {
    path: PathBuf,
    /// The file, whose lock says that this run is alive.
    _locked: File,
}

impl Records {
    pub(super) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let folder = folder.map(Path::to_path_buf).or_else(default_folder);
        let folder = folder.context("neither HOME nor XDG_STATE_HOME is set: give --state")?;
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}; give --state", folder.display()))?;
        Ok(Self { folder })
    }

    /// Writes a connection down that is about to be made.
    pub(super) fn keep(&self, record: &Record) -> anyhow::Result<Kept> {
        let path = self.folder.join(format!("{}.json", record.export.uuid));
        let _locked = write(&path, record)?;
        Ok(Kept { path, _locked })
    }

    /// Returns the connections of earlier runs that have ended without them.
    pub(super) fn earlier(&self) -> Vec<(Kept, Record)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let of_kind = |kind: &'static str| {
            let files = files.iter();
            files.filter(move |path| path.extension().is_some_and(|end| end == kind))
        };
        of_kind(UNFINISHED).for_each(|path| remove_unfinished(path));
        let records = of_kind("json").cloned().filter_map(read);
        let mut found: Vec<(Kept, Record)> = records.take(RECORDS_MAX).collect();
        let old = now().saturating_sub(TARGETS_FORGET);
        let (gone, left) = found
            .drain(..)
            .partition(|(_, record)| record.export.service != Service::Mgs && record.time < old);
        let gone: Vec<(Kept, Record)> = gone;
        gone.into_iter().for_each(|(kept, _)| kept.remove());
        left
    }
}

/// Reads a record whose run has ended. A file that is no record stays where it is, and the user is told.
fn read(path: PathBuf) -> Option<(Kept, Record)> {
    match try_read(&path) {
        Ok(found) => found.map(|(_locked, record)| (Kept { path, _locked }, record)),
        Err(error) => {
            complaint(&format!(
                "{} may be the record of a connection, and cannot be read: {error:#}",
                path.display()
            ));
            None
        }
    }
}

/// Returns the record and its locked file; `None` if its run is alive, or has removed it just now.
fn try_read(path: &Path) -> anyhow::Result<Option<(File, Record)>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        locked => locked?,
    }
    let mut text = String::new();
    (&file).take(BYTES_MAX).read_to_string(&mut text)?;
    let record = serde_json::from_str(&text)?;
    Ok(Some((file, record)))
}

impl Kept {
    /// Writes the connection as it is now. The line before stays until the next one is complete.
    pub(super) fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        self._locked = write(&self.path, record)?;
        Ok(())
    }

    /// Removes the record: the connection has ended.
    pub(super) fn remove(self) {
        // Without it, the next run finds out that the server knows no such connection.
        let _kept = fs::remove_file(&self.path);
    }
}

/// Writes a record to a file beside its own, and puts it in its place when it is complete. Returns the locked file.
fn write(path: &Path, record: &Record) -> anyhow::Result<File> {
    let text = serde_json::to_vec(record)?;
    // A target forgets a connection before this machine is up again; an MGS may not.
    let must_last = record.export.service == Service::Mgs;
    let failed = || format!("cannot write {}", path.display());
    for _ in 0..TRIES {
        match place(path, &text, must_last) {
            // Another run took the file for that of a dead one before the file was locked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            placed => return placed.with_context(failed),
        }
    }
    place(path, &text, must_last).with_context(failed)
}

fn place(path: &Path, text: &[u8], must_last: bool) -> io::Result<File> {
    let beside = path.with_extension(UNFINISHED);
    let mut file = File::create(&beside)?;
    file.lock()?;
    file.write_all(text)?;
    if must_last {
        file.sync_all()?;
    }
    fs::rename(&beside, path)?;
    if let Some(folder) = path.parent().filter(|_| must_last) {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

/// Removes the file that a run left which ended while it wrote: nothing was sent by that record.
fn remove_unfinished(path: &Path) {
    let is_dead = File::open(path).is_ok_and(|file| file.try_lock().is_ok());
    if is_dead {
        // The next run tries again.
        let _removed = fs::remove_file(path);
    }
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn default_folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = of("XDG_STATE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(of("HOME")?).join(".local/state")));
    Some(base?.join("finerail/mount"))
}
