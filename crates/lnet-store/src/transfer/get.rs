//! From the store into local files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Begun, Failed, Plan, Progress, run};
use crate::client::{Chunk, Store, StoreError};
use crate::digest::{self, CHUNK};
use crate::name::{Printable, StoreName, TEMPORARY_PREFIX};

/// A name in the store and the local file it is to become.
#[derive(Clone, Debug)]
pub struct GetItem {
    /// Its name in the store.
    pub name: StoreName,
    /// The local file; its directory must exist.
    pub local: PathBuf,
    /// Its size, where it is known: saves room for a whole chunk.
    pub size: Option<u64>,
}

/// Fetches files with `jobs` calls in flight; those that failed. A local file appears whole or not at
/// all.
#[must_use]
pub fn get(store: &Store, items: &[GetItem], jobs: usize, progress: &Progress) -> Vec<Failed> {
    let unique = AtomicU64::new(0);
    run(
        &Get {
            store,
            items,
            unique,
        },
        jobs,
        progress,
    )
}

struct Get<'a> {
    store: &'a Store,
    items: &'a [GetItem],
    unique: AtomicU64,
}

struct LongGet {
    file: File,
    temporary: PathBuf,
    size: u64,
    mode: u32,
    version: u64,
}

impl Plan for Get<'_> {
    type Long = LongGet;

    fn items(&self) -> usize {
        self.items.len()
    }

    fn begin(&self, item: usize) -> Result<Begun<LongGet>, StoreError> {
        let GetItem { name, size, .. } = &self.items[item];
        // One byte more than expected, so that a file that grew is noticed as longer and not refused.
        let room = size.map_or(CHUNK, |size| size.saturating_add(1).min(CHUNK));
        let Chunk {
            attributes, data, ..
        } = match self.store.read(name, 0, 0, room as u32) {
            Err(StoreError::Refused { errno: EINVAL, .. }) if room < CHUNK => {
                self.store.get(name)?
            }
            read => read?,
        };
        let (file, temporary) = self.create(item)?;
        let (size, mode, version) = (attributes.size, attributes.mode, attributes.version);
        let long = LongGet {
            file,
            temporary,
            size,
            mode,
            version,
        };
        let written = self.local(item, || long.file.write_all_at(&data, 0));
        let moved = data.len() as u64;
        if size > CHUNK && written.is_ok() {
            let chunks = digest::chunks(size) - 1;
            return Ok(Begun::Long {
                file: long,
                chunks,
                moved,
            });
        }
        let placed = written.and_then(|()| self.finish(item, &long));
        placed
            .map(|()| Begun::Done(moved))
            .inspect_err(|_| self.give_up(item, &long, true))
    }

    /// The first chunk came with the beginning.
    fn chunk(&self, item: usize, long: &LongGet, chunk: u64) -> Result<u64, StoreError> {
        let chunk = chunk + 1;
        let room = digest::chunk_len(long.size, chunk);
        let found = self
            .store
            .read(&self.items[item].name, chunk, long.version, room)?;
        self.local(item, || long.file.write_all_at(&found.data, chunk * CHUNK))?;
        Ok(found.data.len() as u64)
    }

    fn finish(&self, item: usize, long: &LongGet) -> Result<(), StoreError> {
        self.local(item, || {
            long.file
                .set_permissions(Permissions::from_mode(long.mode & 0o777))?;
            fs::rename(&long.temporary, &self.items[item].local)
        })
    }

    fn give_up(&self, item: usize, long: &LongGet, _is_reachable: bool) {
        if let Err(error) = fs::remove_file(&long.temporary) {
            let file = Printable::new(self.items[item].local.as_os_str().as_encoded_bytes());
            tracing::warn!(%file, %error, "a temporary file stays");
        }
    }
}

const EINVAL: i32 = 22;

impl Get<'_> {
    fn create(&self, item: usize) -> Result<(File, PathBuf), StoreError> {
        let local = &self.items[item].local;
        let parent = local
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        // What a killed process of the same number left behind has its name still: take the next one.
        loop {
            let count = self.unique.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{count}", std::process::id());
            let temporary = parent.unwrap_or(Path::new(".")).join(name);
            let created = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary);
            match created {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return self.local(item, || created).map(|file| (file, temporary)),
            }
        }
    }

    fn local<T>(
        &self,
        item: usize,
        action: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let path = || Printable::new(self.items[item].local.as_os_str().as_encoded_bytes());
        action().map_err(|source| StoreError::Local {
            path: path(),
            source,
        })
    }
}
