//! From local files into the store.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Mutex;

use bytes::Bytes;

use super::{Failed, Plan, Progress, lock, run};
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
        progress,
        buffers: Mutex::new(Vec::new()),
    };
    run(&plan, jobs, progress)
}

struct Put<'a> {
    store: &'a Store,
    items: &'a [PutItem],
    progress: &'a Progress,
    /// Chunk buffers to be used again; no more than there are jobs.
    buffers: Mutex<Vec<Vec<u8>>>,
}

struct LongPut {
    file: File,
    size: u64,
    upload: u64,
    parts: Mutex<Vec<[u8; 32]>>,
}

impl Plan for Put<'_> {
    type Long = LongPut;

    fn items(&self) -> usize {
        self.items.len()
    }

    fn begin(&self, item: usize) -> Result<Option<(LongPut, u64)>, StoreError> {
        let PutItem { name, .. } = &self.items[item];
        let file = self.local(item, |item| File::open(&item.local))?;
        let metadata = self.local(item, |_| file.metadata())?;
        if !metadata.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return self.local(item, |_| Err(error));
        }
        let (size, mode) = (metadata.len(), metadata.permissions().mode());
        if size > CHUNK {
            let upload = self.store.begin(name, size, mode)?;
            let chunks = digest::chunks(size);
            let parts = Mutex::new(vec![[0; 32]; chunks as usize]);
            return Ok(Some((
                LongPut {
                    file,
                    size,
                    upload,
                    parts,
                },
                chunks,
            )));
        }
        let data = self.read(item, &file, 0, size as usize)?;
        self.store.put(name, mode, data.clone())?;
        self.give_back(data);
        self.progress.moved(size);
        Ok(None)
    }

    fn chunk(&self, item: usize, long: &LongPut, chunk: u64) -> Result<(), StoreError> {
        let length = digest::chunk_len(long.size, chunk);
        let data = self.read(item, &long.file, chunk * CHUNK, length as usize)?;
        let mut hasher = ChunkHasher::new(long.size, chunk);
        hasher.update(&data);
        if let Some(part) = lock(&long.parts).get_mut(chunk as usize) {
            *part = hasher.finish();
        }
        self.store
            .write(&self.items[item].name, long.upload, chunk, data.clone())?;
        self.give_back(data);
        self.progress.moved(u64::from(length));
        Ok(())
    }

    fn finish(&self, item: usize, long: &LongPut) -> Result<(), StoreError> {
        let PutItem { local, name } = &self.items[item];
        let now = self.local(item, |_| long.file.metadata())?.len();
        match digest::merge(&lock(&long.parts)) {
            Some(digest) if now == long.size => self.store.commit(name, long.upload, digest),
            _ => Err(StoreError::Changed(shown(local))),
        }
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

fn shown(path: &std::path::Path) -> Printable {
    Printable::new(path.as_os_str().as_encoded_bytes())
}
