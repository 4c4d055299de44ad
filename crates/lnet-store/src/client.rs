//! The client: one method for each operation of the service, blocking, from any thread.

use std::time::Duration;

use bytes::Bytes;
use lnet_rpc::{
    Bulk, CallError, Client, Idempotence, REPLY_BODY_MAX, REQUEST_BODY_MAX, Request, Response,
};
use nix::errno::Errno;
use thiserror::Error;

use crate::digest::{self, CHUNK, ChunkHasher, Digest};
use crate::name::{NameError, Printable, StoreName};
use crate::proto::{self, Attributes, BodyError, Entry, READ_REPLY_LEN, Reader, Writer};
use crate::service::PAGE_MAX;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The service refused it.
    #[error("{name}: {message} (errno {errno})")]
    Refused {
        /// What it was about.
        name: Printable,
        /// The errno, as the operating system of the service has it.
        errno: i32,
        /// The service's sentence.
        message: String,
    },
    /// The call has no answer.
    #[error("{name}: {source}")]
    Call {
        /// What it was about.
        name: Printable,
        /// Why.
        source: CallError,
    },
    /// What arrived is not what the service read.
    #[error("{0}: the data was damaged on its way: the digests differ")]
    Damaged(Printable),
    /// The answer makes no sense.
    #[error("{name}: the service's answer makes no sense: {source}")]
    BadAnswer {
        /// What it was about.
        name: Printable,
        /// What is wrong.
        source: BodyError,
    },
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A local file failed.
    #[error("{path}: {source}")]
    Local {
        /// The file.
        path: Printable,
        /// Why.
        source: std::io::Error,
    },
    /// A local file changed while it was stored.
    #[error("{0}: the file changed while it was being stored")]
    Changed(Printable),
}

impl StoreError {
    /// True when nothing more can be expected of the service, whatever the file.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Call { .. })
    }

    /// True when the operation must begin again: the service restarted, or the file was replaced.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Refused { errno, .. } if *errno == Errno::ESTALE as i32)
    }

    /// The errno that the service answered with.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// A client of one storage service.
#[derive(Clone)]
pub struct Store {
    rpc: Client,
    deadline: Duration,
}

/// A chunk of a file that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What is known of the file.
    pub attributes: Attributes,
    /// The chunk.
    pub data: Vec<u8>,
    /// Its part in the file's digest.
    pub part: [u8; 32],
}

/// Bytes of data that fit into a `put` request besides a name of this length.
fn inline_max(name: &StoreName) -> usize {
    (REQUEST_BODY_MAX - PUT_HEADER_LEN).saturating_sub(name.as_bytes().len())
}

/// Bytes of the body of `put` besides name and data.
const PUT_HEADER_LEN: usize = 8 + 4 + 32 + 2;

impl Store {
    /// A client that makes its calls through `rpc`, each with this deadline.
    #[must_use]
    pub fn new(rpc: Client, deadline: Duration) -> Self {
        Self { rpc, deadline }
    }

    /// The RPC client underneath.
    #[must_use]
    pub fn rpc(&self) -> &Client {
        &self.rpc
    }

    /// Stores a file of at most [`CHUNK`] bytes, in one call; a file of that name is replaced.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. The name then stands for what it stood for before, unless the call has no
    /// answer.
    pub fn put(&self, name: &StoreName, mode: u32, data: Bytes) -> Result<Digest, StoreError> {
        let digest = Digest::of(&data);
        let body = Writer::default()
            .u64(data.len() as u64)
            .u32(mode)
            .bytes(&digest.0)
            .name(name.as_bytes());
        let (body, bulk) = if data.len() <= inline_max(name) {
            (body.bytes(&data), Bulk::None)
        } else {
            (body, Bulk::Send(data))
        };
        self.repeatable(name, proto::PUT, body, bulk)?;
        Ok(digest)
    }

    /// Begins to store a long file; the number of the upload.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn begin(&self, name: &StoreName, size: u64, mode: u32) -> Result<u64, StoreError> {
        let body = Writer::default().u64(size).u32(mode).name(name.as_bytes());
        let response = self.repeatable(name, proto::BEGIN, body, Bulk::None)?;
        Reader::new(&response.body)
            .u64()
            .map_err(|source| bad_answer(name, source))
    }

    /// Stores one chunk of a long file: all of its bytes.
    ///
    /// # Errors
    ///
    /// ESTALE when the service has restarted since [`Store::begin`]; else see [`StoreError`].
    pub fn write(
        &self,
        name: &StoreName,
        upload: u64,
        chunk: u64,
        data: Bytes,
    ) -> Result<(), StoreError> {
        let body = Writer::default().u64(upload).u64(chunk);
        self.repeatable(name, proto::WRITE, body, Bulk::Send(data))
            .map(drop)
    }

    /// Gives a long file its name, when all chunks are there and the digest agrees.
    ///
    /// # Errors
    ///
    /// ESTALE when the service has restarted since [`Store::begin`]; else see [`StoreError`].
    pub fn commit(&self, name: &StoreName, upload: u64, digest: Digest) -> Result<(), StoreError> {
        let body = Writer::default().u64(upload).bytes(&digest.0);
        self.repeatable(name, proto::COMMIT, body, Bulk::None)
            .map(drop)
    }

    /// Gives up storing a long file.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn abort(&self, name: &StoreName, upload: u64) -> Result<(), StoreError> {
        let body = Writer::default().u64(upload);
        self.repeatable(name, proto::ABORT, body, Bulk::None)
            .map(drop)
    }

    /// Reads one chunk of a file, at most `room` bytes, and checks its digest. `version` is that of the
    /// attributes seen before, or 0: a file that was replaced since is refused with ESTALE.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn read(
        &self,
        name: &StoreName,
        chunk: u64,
        version: u64,
        room: u32,
    ) -> Result<Chunk, StoreError> {
        let body = Writer::default()
            .u64(chunk)
            .u64(version)
            .name(name.as_bytes());
        // What fits into the reply needs no room of its own.
        let inline = room as usize <= REPLY_BODY_MAX - READ_REPLY_LEN;
        let bulk = if inline {
            Bulk::None
        } else {
            Bulk::Receive(room)
        };
        let response = self.repeatable(name, proto::READ, body, bulk)?;
        let found = chunk_of(response).map_err(|source| bad_answer(name, source))?;
        let expected = digest::chunk_len(found.attributes.size, chunk);
        let mut hasher = ChunkHasher::new(found.attributes.size, chunk);
        hasher.update(&found.data);
        if found.data.len() != expected as usize || (expected > 0 && hasher.finish() != found.part)
        {
            return Err(StoreError::Damaged(Printable::new(name.as_bytes())));
        }
        Ok(found)
    }

    /// Reads a file of at most [`CHUNK`] bytes; of a longer one its first chunk.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn get(&self, name: &StoreName) -> Result<Chunk, StoreError> {
        // A chunk's length fits.
        self.read(name, 0, 0, u32::try_from(CHUNK).unwrap_or(u32::MAX))
    }

    /// What is known of a file or directory.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn stat(&self, name: &StoreName) -> Result<Attributes, StoreError> {
        let body = Writer::default().name(name.as_bytes());
        let response = self.repeatable(name, proto::STAT, body, Bulk::None)?;
        Reader::new(&response.body)
            .attributes()
            .map_err(|source| bad_answer(name, source))
    }

    /// The entries of a directory (`None`: the root) after a name, in byte order, and whether there are
    /// more. Names that a hostile service might use to lead elsewhere are refused.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub fn list_page(
        &self,
        directory: Option<&StoreName>,
        after: &[u8],
    ) -> Result<(Vec<Entry>, bool), StoreError> {
        let name = directory.map_or(&b""[..], StoreName::as_bytes);
        let body = Writer::default().name(name).name(after);
        let room = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
        let shown = if name.is_empty() { b"." } else { name };
        let idempotence = Idempotence::Idempotent;
        let response = self.call(shown, proto::LIST, body, Bulk::Receive(room), idempotence)?;
        let bad = |source| StoreError::BadAnswer {
            name: Printable::new(shown),
            source,
        };
        let has_more = Reader::new(&response.body).u32().map_err(bad)? != 0;
        Ok((proto::read_page(&response.bulk).map_err(bad)?, has_more))
    }

    /// All entries of a directory, page after page.
    ///
    /// # Errors
    ///
    /// The iterator ends with the first error.
    pub fn list<'a>(
        &'a self,
        directory: Option<&'a StoreName>,
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + 'a {
        Listing {
            store: self,
            directory,
            page: Vec::new().into_iter(),
            after: Some(Vec::new()),
        }
    }

    /// Removes a file, or a directory that is empty.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. After a restart of the service in the middle it is not known whether the file
    /// is gone, and the error says so.
    pub fn remove(&self, name: &StoreName) -> Result<(), StoreError> {
        let body = Writer::default().name(name.as_bytes());
        let once = Idempotence::Once;
        self.call(name.as_bytes(), proto::REMOVE, body, Bulk::None, once)
            .map(drop)
    }

    /// Renames a file or directory; a file of the new name is replaced.
    ///
    /// # Errors
    ///
    /// As with [`Store::remove`].
    pub fn rename(&self, from: &StoreName, to: &StoreName) -> Result<(), StoreError> {
        let body = Writer::default().name(from.as_bytes()).name(to.as_bytes());
        let once = Idempotence::Once;
        self.call(from.as_bytes(), proto::RENAME, body, Bulk::None, once)
            .map(drop)
    }

    fn repeatable(
        &self,
        name: &StoreName,
        opcode: u32,
        body: Writer,
        bulk: Bulk,
    ) -> Result<Response, StoreError> {
        self.call(name.as_bytes(), opcode, body, bulk, Idempotence::Idempotent)
    }

    fn call(
        &self,
        name: &[u8],
        opcode: u32,
        body: Writer,
        bulk: Bulk,
        idempotence: Idempotence,
    ) -> Result<Response, StoreError> {
        let (body, deadline) = (body.finish(), self.deadline);
        let request = Request {
            opcode,
            body,
            bulk,
            idempotence,
            deadline,
        };
        let name = || Printable::new(name);
        self.rpc.call(request).map_err(|error| match error {
            CallError::Remote { errno, body } => StoreError::Refused {
                name: name(),
                errno,
                message: Printable::new(&body).to_string(),
            },
            source => StoreError::Call {
                name: name(),
                source,
            },
        })
    }
}

/// Walks through a directory page by page.
struct Listing<'a> {
    store: &'a Store,
    directory: Option<&'a StoreName>,
    page: std::vec::IntoIter<Entry>,
    /// Where the next page begins; `None` when there is none.
    after: Option<Vec<u8>>,
}

impl Iterator for Listing<'_> {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            let after = self.after.take()?;
            match self.store.list_page(self.directory, &after) {
                Ok((entries, has_more)) => {
                    // A page that does not go forward would never end.
                    let last = entries.last().map(|entry| entry.name.clone());
                    self.after = last.filter(|last| has_more && *last > after);
                    self.page = entries.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn chunk_of(response: Response) -> Result<Chunk, BodyError> {
    let mut reader = Reader::new(&response.body);
    let attributes = reader.attributes()?;
    let part = reader.array()?;
    let inline = reader.rest();
    let data = if response.bulk.is_empty() {
        inline.to_vec()
    } else {
        response.bulk
    };
    Ok(Chunk {
        attributes,
        data,
        part,
    })
}

fn bad_answer(name: &StoreName, source: BodyError) -> StoreError {
    StoreError::BadAnswer {
        name: Printable::new(name.as_bytes()),
        source,
    }
}
