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

/// The file of a record, which is locked.
pub(super) struct Kept {
    path: PathBuf,
    file: File,
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
        let failed = || format!("cannot write {}", path.display());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(failed)?;
        file.lock().with_context(failed)?;
        let mut kept = Kept { path, file };
        if let Err(error) = kept.write(record) {
            // Nothing was sent: an empty file would be no record.
            kept.remove();
            return Err(error);
        }
        Ok(kept)
    }

    /// Returns the connections of earlier runs that have ended without them.
    pub(super) fn earlier(&self) -> Vec<(Kept, Record)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut found: Vec<(Kept, Record)> = files.filter_map(read).take(RECORDS_MAX).collect();
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
        Ok(found) => found.map(|(file, record)| (Kept { path, file }, record)),
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
    if text.is_empty() {
        // Its run has not sent anything yet.
        return Ok(None);
    }
    let record = serde_json::from_str(&text)?;
    Ok(Some((file, record)))
}

impl Kept {
    /// Writes the connection as it is now. The line before stays until the next one is complete.
    pub(super) fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        let text = serde_json::to_vec(record)?;
        let beside = self.path.with_extension("new");
        let failed = || format!("cannot write {}", beside.display());
        let mut file = File::create(&beside).with_context(failed)?;
        file.lock().with_context(failed)?;
        file.write_all(&text).with_context(failed)?;
        // A target forgets a connection before this machine is up again; an MGS may not.
        let must_last = record.export.service == Service::Mgs;
        if must_last {
            file.sync_all().with_context(failed)?;
        }
        fs::rename(&beside, &self.path).with_context(failed)?;
        if let Some(folder) = self.path.parent().filter(|_| must_last) {
            let folder = File::open(folder).with_context(failed)?;
            folder.sync_all().with_context(failed)?;
        }
        self.file = file;
        Ok(())
    }

    /// Removes the record: the connection has ended.
    pub(super) fn remove(self) {
        // Without it, the next run finds out that the server knows no such connection.
        let _kept = fs::remove_file(&self.path);
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
