//! From local files into the store.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use nix::fcntl::OFlag;

use super::{Begun, Failed, Plan, Progress, lock, run};
use crate::client::{Store, StoreError};
use crate::digest::{self, CHUNK, ChunkHasher};
use crate::name::{Printable, StoreName};

/// A local file and the name it is to have.
#[derive(Clone, Debug)]
pub struct PutItem {
    /// The local file.
    pub local: PathBuf,
    /// Its name in the store.
    pub name: StoreName,
}

/// Stores local files with `jobs` calls in flight; those that failed.
#[must_use]
pub fn put(store: &Store, items: &[PutItem], jobs: usize, progress: &Progress) -> Vec<Failed> {
    let plan = Put {
        store,
        items,
        buffers: Mutex::new(Vec::new()),
    };
    run(&plan, jobs, progress)
}

struct Put<'a> {
    store: &'a Store,
    items: &'a [PutItem],
    /// Chunk buffers to be used again; no more than there are jobs.
    buffers: Mutex<Vec<Vec<u8>>>,
}

struct LongPut {
    file: File,
    /// What the file was when it was opened.
    seen: Seen,
    upload: u64,
    parts: Mutex<Vec<[u8; 32]>>,
}

/// What tells that a file was written to: its length, and when it last was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    size: u64,
    modified: (i64, i64),
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Plan for Put<'_> {
    type Long = LongPut;

    fn items(&self) -> usize {
        self.items.len()
    }

    fn begin(&self, item: usize) -> Result<Begun<LongPut>, StoreError> {
        let PutItem { name, .. } = &self.items[item];
        let file = self.local(item, |item| open(&item.local))?;
        let metadata = self.local(item, |_| file.metadata())?;
        if !metadata.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return self.local(item, |_| Err(error));
        }
        let (seen, mode) = (Seen::of(&metadata), metadata.permissions().mode());
        let size = seen.size;
        if size > CHUNK {
            let upload = self.store.begin(name, size, mode)?;
            let chunks = digest::chunks(size);
            let parts = Mutex::new(vec![[0; 32]; chunks as usize]);
            let file = LongPut {
                file,
                seen,
                upload,
                parts,
            };
            return Ok(Begun::Long {
                file,
                chunks,
                moved: 0,
            });
        }
        let data = self.read(item, &file, 0, size as usize)?;
        self.check_unchanged(item, &file, seen)?;
        self.store.put(name, mode, data.clone())?;
        self.give_back(data);
        Ok(Begun::Done(size))
    }

    fn chunk(&self, item: usize, long: &LongPut, chunk: u64) -> Result<u64, StoreError> {
        let length = digest::chunk_len(long.seen.size, chunk);
        let data = self.read(item, &long.file, chunk * CHUNK, length as usize)?;
        let mut hasher = ChunkHasher::new(long.seen.size, chunk);
        hasher.update(&data);
        if let Some(part) = lock(&long.parts).get_mut(chunk as usize) {
            *part = hasher.finish();
        }
        self.store
            .write(&self.items[item].name, long.upload, chunk, data.clone())?;
        self.give_back(data);
        Ok(u64::from(length))
    }

    fn finish(&self, item: usize, long: &LongPut) -> Result<(), StoreError> {
        let PutItem { local, name } = &self.items[item];
        self.check_unchanged(item, &long.file, long.seen)?;
        let digest = digest::merge(&lock(&long.parts));
        let digest = digest.ok_or_else(|| StoreError::Changed(shown(local)))?;
        self.store.commit(name, long.upload, digest)
    }

    fn give_up(&self, item: usize, long: &LongPut, is_reachable: bool) {
        if is_reachable {
            // A service that does not hear of it removes the upload when this client is gone.
            let _aborted = self.store.abort(&self.items[item].name, long.upload);
        }
    }
}

impl Put<'_> {
    fn local<T>(
        &self,
        item: usize,
        action: impl FnOnce(&PutItem) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let item = &self.items[item];
        let local = |source| StoreError::Local {
            path: shown(&item.local),
            source,
        };
        action(item).map_err(local)
    }

    /// What was read is one state of the file, and not a mixture of several.
    fn check_unchanged(&self, item: usize, file: &File, seen: Seen) -> Result<(), StoreError> {
        let now = self.local(item, |_| file.metadata())?;
        if Seen::of(&now) == seen {
            Ok(())
        } else {
            Err(StoreError::Changed(shown(&self.items[item].local)))
        }
    }

    fn read(&self, item: usize, file: &File, at: u64, length: usize) -> Result<Bytes, StoreError> {
        let mut buffer = lock(&self.buffers).pop().unwrap_or_default();
        buffer.resize(length, 0);
        match file.read_exact_at(&mut buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(StoreError::Changed(shown(&self.items[item].local)))
            }
            read => self.local(item, |_| read).map(|()| Bytes::from(buffer)),
        }
    }

    /// Keeps a buffer, unless the network still holds it.
    fn give_back(&self, data: Bytes) {
        if let Ok(buffer) = data.try_into_mut() {
            lock(&self.buffers).push(buffer.into());
        }
    }
}

/// Opens for reading without waiting: a named pipe would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn shown(path: &Path) -> Printable {
    Printable::new(path.as_os_str().as_encoded_bytes())
}
