//! The service: executes the store's calls on a directory.
//!
//! ```text
//!   short file    put ───────────────────────────▶ temporary ── length, digest agree ──▶ name
//!   long file     begin ──▶ upload ◀── write × chunks, in any order, several at once
//!                              └────── commit ───▶ all there, digest agrees ───────────▶ name
//!                              └── abort, client gone, end of service ──▶ removed
//! ```
//!
//! A name either does not exist, or stands for a whole file whose digest was checked: nothing is ever
//! written under a name that can be read.
//!
//! **What survives.** By default a stored file survives the end of the service in whatever way, as with
//! `cp`; whether it survives a loss of power is up to the file system's own write-back. [`Sync::File`]
//! flushes a file before it gets its name, so that a name never stands for a half-written file even
//! then; [`Sync::All`] flushes the directories on the way too, so that what was acknowledged, be it a
//! file, a removal or a new name, holds. Both cost disk flushes for each file.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lnet_rpc::{BulkError, BulkKind, Call, ClientId, Entropy, Handler, REPLY_BODY_MAX, Reply};
use nix::errno::Errno;
use rustc_hash::FxHashMap;
use thiserror::Error;
use tracing::debug;

use crate::digest::{self, CHUNK, ChunkHasher, Digest};
use crate::directory::{Directory, DirectoryError, Page};
use crate::listing::Listings;
use crate::name::StoreName;
use crate::proto::{self, Attributes, BodyError, READ_REPLY_LEN, Reader, Writer};
use crate::temporary::Temporary;

/// What is flushed to the disk before a file counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Nothing: the operating system writes back when it likes.
    #[default]
    None,
    /// The file.
    File,
    /// The file, and the directories on the way to it.
    All,
}

/// Options of the service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceOptions {
    /// What is flushed.
    pub sync: Sync,
    /// Longest file in bytes.
    pub file_max: u64,
    /// Long files in the making, of one client.
    pub uploads_per_client_max: usize,
    /// The same, of all clients.
    pub uploads_max: usize,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            sync: Sync::None,
            file_max: 1 << 40,
            uploads_per_client_max: 64,
            uploads_max: 512,
        }
    }
}

/// The service; give it to [`lnet_rpc::Server::start`].
pub struct Service {
    directory: Directory,
    options: ServiceOptions,
    entropy: Entropy,
    drawn: AtomicU64,
    uploads: Mutex<FxHashMap<u64, Arc<Upload>>>,
    listings: Listings,
}

/// A long file in the making.
struct Upload {
    client: ClientId,
    name: StoreName,
    temporary: Temporary,
    size: u64,
    mode: u32,
    /// The digests of the chunks that were written.
    parts: Mutex<FxHashMap<u64, [u8; 32]>>,
}

/// Why a call fails; the client gets the errno and the sentence.
#[derive(Debug, Error)]
enum Failure {
    #[error("{}", .0.desc())]
    System(#[from] Errno),
    #[error("{0}")]
    Body(#[from] BodyError),
    #[error("{0}")]
    Bulk(#[from] BulkError),
    #[error("{1}")]
    Rule(Errno, &'static str),
}

impl Failure {
    fn errno(&self) -> i32 {
        match self {
            Self::System(errno) | Self::Rule(errno, _) => *errno as i32,
            Self::Body(BodyError::Name(_)) => Errno::EPERM as i32,
            Self::Body(_) => Errno::EPROTO as i32,
            Self::Bulk(error) => error.errno(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::System(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    }
}

impl Service {
    /// Serves the directory at `path`. What an earlier service left unfinished there is removed.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened or cleaned, or another process serves it.
    pub fn open(
        path: &Path,
        entropy: Entropy,
        options: ServiceOptions,
    ) -> Result<Self, DirectoryError> {
        let directory = Directory::open(path)?;
        let uploads = Mutex::new(FxHashMap::default());
        Ok(Self {
            directory,
            options,
            entropy,
            drawn: AtomicU64::new(0),
            uploads,
            listings: Listings::default(),
        })
    }

    fn execute(&self, call: &mut Call<'_>) -> Result<Vec<u8>, Failure> {
        let mut body = Reader::new(call.body());
        match call.opcode() {
            proto::PUT => self.put(call, body),
            proto::BEGIN => self.begin(call.client(), body),
            proto::WRITE => self.write(call, body),
            proto::COMMIT => self.commit(call.client(), body),
            proto::ABORT => {
                let upload = body.u64()?;
                body.end()?;
                self.take_upload(call.client(), upload).map(|_| Vec::new())
            }
            proto::READ => self.read(call, body),
            proto::LIST => self.list(call, body),
            proto::STAT => {
                let name = only_name(body)?;
                Ok(Writer::default()
                    .attributes(&self.directory.stat(&name)?)
                    .finish())
            }
            proto::REMOVE => {
                let name = only_name(body)?;
                self.directory.remove(&name)?;
                self.sync(&name)?;
                Ok(Vec::new())
            }
            proto::RENAME => {
                let (from, to) = (body.name()?, body.name()?);
                body.end()?;
                self.directory.rename(&from, &to)?;
                // The new name first: a loss of power in between leaves two names, not none.
                self.sync(&to)?;
                self.sync(&from)?;
                Ok(Vec::new())
            }
            _ => Err(Failure::Rule(
                Errno::ENOSYS,
                "this storage service has no such operation",
            )),
        }
    }

    /// Flushes what was done to a name, if that is wanted.
    fn sync(&self, name: &StoreName) -> Result<(), Failure> {
        match self.options.sync {
            Sync::All => Ok(self.directory.sync(name)?),
            Sync::None | Sync::File => Ok(()),
        }
    }

    /// A short file in one call.
    fn put(&self, call: &mut Call<'_>, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let (size, mode, digest) = (body.u64()?, body.u32()?, body.digest()?);
        let name = body.name()?;
        let data = body.rest();
        let is_inline = call.bulk() == BulkKind::None;
        let given = if is_inline {
            data.len() as u64
        } else {
            u64::from(call.bulk_len())
        };
        if given != size || size > CHUNK || (!is_inline && !data.is_empty()) {
            return Err(Failure::Rule(
                Errno::EPROTO,
                "the data is not as long as the request says",
            ));
        }
        let temporary = Temporary::create(&self.directory, &name, self.draw())?;
        let mut hasher = ChunkHasher::new(size, 0);
        if is_inline {
            hasher.update(data);
            temporary.file.write_all_at(data, 0)?;
        } else {
            store_bulk(call, &temporary.file, 0, &mut hasher)?;
        }
        check(Digest(hasher.finish()), digest)?;
        temporary.place(mode, self.options.sync)?;
        self.sync(&name)?;
        Ok(Vec::new())
    }

    fn begin(&self, client: ClientId, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let (size, mode) = (body.u64()?, body.u32()?);
        let name = only_name(body)?;
        if size > self.options.file_max {
            return Err(Failure::Rule(
                Errno::EFBIG,
                "the file is longer than this service takes",
            ));
        }
        self.check_room(&self.uploads(), client)?;
        let temporary = Temporary::create(&self.directory, &name, self.draw())?;
        temporary.file.set_len(size)?;
        let id = self.draw() as u64;
        let parts = Mutex::new(FxHashMap::default());
        let upload = Upload {
            client,
            name,
            temporary,
            size,
            mode,
            parts,
        };
        let mut uploads = self.uploads();
        self.check_room(&uploads, client)?;
        uploads.insert(id, Arc::new(upload));
        Ok(Writer::default().u64(id).finish())
    }

    fn check_room(
        &self,
        uploads: &FxHashMap<u64, Arc<Upload>>,
        client: ClientId,
    ) -> Result<(), Failure> {
        let own = uploads
            .values()
            .filter(|upload| upload.client == client)
            .count();
        if own >= self.options.uploads_per_client_max || uploads.len() >= self.options.uploads_max {
            return Err(Failure::Rule(
                Errno::EMFILE,
                "too many files are being stored at once",
            ));
        }
        Ok(())
    }

    fn write(&self, call: &mut Call<'_>, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let (id, chunk) = (body.u64()?, body.u64()?);
        body.end()?;
        let upload = self.upload(call.client(), id)?;
        let length = digest::chunk_len(upload.size, chunk);
        if chunk >= digest::chunks(upload.size) || call.bulk_len() != length {
            return Err(Failure::Rule(
                Errno::EPROTO,
                "the chunk is not one of this file",
            ));
        }
        let mut hasher = ChunkHasher::new(upload.size, chunk);
        store_bulk(call, &upload.temporary.file, chunk * CHUNK, &mut hasher)?;
        let mut parts = upload.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.insert(chunk, hasher.finish());
        Ok(Vec::new())
    }

    fn commit(&self, client: ClientId, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let (id, digest) = (body.u64()?, body.digest()?);
        body.end()?;
        let upload = self.take_idle_upload(client, id)?;
        let parts = upload
            .parts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let in_order: Option<Vec<[u8; 32]>> = (0..digest::chunks(upload.size))
            .map(|chunk| parts.get(&chunk).copied())
            .collect();
        let Some(found) = in_order.and_then(|parts| digest::merge(&parts)) else {
            return Err(Failure::Rule(
                Errno::EINVAL,
                "a chunk of this file was never written",
            ));
        };
        check(found, digest)?;
        upload.temporary.place(upload.mode, self.options.sync)?;
        self.sync(&upload.name)?;
        Ok(Vec::new())
    }

    fn read(&self, call: &mut Call<'_>, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let (chunk, version) = (body.u64()?, body.u64()?);
        let name = only_name(body)?;
        let (file, attributes) = self.directory.open_file(&name)?;
        if version != 0 && version != attributes.version {
            return Err(Failure::Rule(
                Errno::ESTALE,
                "the file was replaced meanwhile",
            ));
        }
        let length = digest::chunk_len(attributes.size, chunk);
        let mut hasher = ChunkHasher::new(attributes.size, chunk);
        let reply = |part: [u8; 32]| Writer::default().attributes(&attributes).bytes(&part);
        if length as usize <= REPLY_BODY_MAX - READ_REPLY_LEN {
            let mut data = vec![0; length as usize];
            file.read_exact_at(&mut data, chunk.saturating_mul(CHUNK))
                .map_err(shrunk)?;
            hasher.update(&data);
            let is_behind = length == 0 && attributes.size > 0;
            let part = if is_behind { [0; 32] } else { hasher.finish() };
            return Ok(reply(part).bytes(&data).finish());
        }
        call.write_bulk::<Failure>(length, |offset, piece| {
            file.read_exact_at(piece, chunk * CHUNK + u64::from(offset))
                .map_err(shrunk)?;
            hasher.update(piece);
            Ok(())
        })?;
        Ok(reply(hasher.finish()).finish())
    }

    fn list(&self, call: &mut Call<'_>, mut body: Reader<'_>) -> Result<Vec<u8>, Failure> {
        let directory = body.directory()?;
        let after = body.name_bytes()?;
        body.end()?;
        let room = (call.bulk_len() as usize).min(PAGE_MAX);
        let page = self.page(call.client(), directory.as_ref(), after, room)?;
        if page.entries.is_empty() && page.has_more {
            return Err(Failure::Rule(
                Errno::EOVERFLOW,
                "the room for a page is less than one entry",
            ));
        }
        let write = |writer: Writer, (attributes, name): (&Attributes, &[u8])| {
            writer.attributes(attributes).name(name)
        };
        let entries = page
            .entries
            .iter()
            .map(|entry| (&entry.attributes, &entry.name[..]));
        let bytes = entries.fold(Writer::default(), write).finish();
        // As long as the names that were counted against the room, or shorter.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        call.write_bulk::<Failure>(length, |offset, piece| {
            let start = offset as usize;
            piece.copy_from_slice(&bytes[start..start + piece.len()]);
            Ok(())
        })?;
        Ok(Writer::default().u32(u32::from(page.has_more)).finish())
    }

    fn page(
        &self,
        client: ClientId,
        directory: Option<&StoreName>,
        after: &[u8],
        room: usize,
    ) -> Result<Page, Failure> {
        let mut after = after.to_vec();
        loop {
            let read = || self.directory.names(directory, &after);
            let names = self.listings.names(client, directory, &after, read)?;
            let behind = names.behind(&after);
            let page = self.directory.page(directory, behind, room)?;
            let has_more = page.has_more || !names.is_complete();
            let all_removed = page.entries.is_empty() && !page.has_more && has_more;
            match behind.last() {
                Some(last) if all_removed => after = last.as_bytes().to_vec(),
                _ => {
                    if !has_more {
                        self.listings.end(client, directory);
                    }
                    return Ok(Page { has_more, ..page });
                }
            }
        }
    }

    fn upload(&self, client: ClientId, id: u64) -> Result<Arc<Upload>, Failure> {
        let uploads = self.uploads();
        let upload = uploads.get(&id).filter(|upload| upload.client == client);
        upload.cloned().ok_or(UNKNOWN_UPLOAD)
    }

    fn take_upload(&self, client: ClientId, id: u64) -> Result<Arc<Upload>, Failure> {
        let mut uploads = self.uploads();
        match uploads.get(&id) {
            Some(upload) if upload.client == client => uploads.remove(&id).ok_or(UNKNOWN_UPLOAD),
            _ => Err(UNKNOWN_UPLOAD),
        }
    }

    /// Takes an upload out, unless a call works on it: then it stays, so that the client may ask again.
    fn take_idle_upload(&self, client: ClientId, id: u64) -> Result<Upload, Failure> {
        let mut uploads = self.uploads();
        let Some(upload) = uploads.remove(&id) else {
            return Err(UNKNOWN_UPLOAD);
        };
        if upload.client != client {
            uploads.insert(id, upload);
            return Err(UNKNOWN_UPLOAD);
        }
        Arc::try_unwrap(upload).map_err(|upload| {
            uploads.insert(id, upload);
            Failure::Rule(Errno::EBUSY, "a chunk of this file is still being written")
        })
    }

    fn uploads(&self) -> MutexGuard<'_, FxHashMap<u64, Arc<Upload>>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that was not drawn before and cannot be guessed.
    fn draw(&self) -> u128 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        u128::from_le_bytes(self.entropy.bytes(&format!("store {count}")))
    }
}

impl Handler for Service {
    fn call(&self, call: &mut Call<'_>) -> Reply {
        match self.execute(call) {
            Ok(body) => Reply::ok(body),
            Err(failure) => {
                debug!(client = %call.client(), opcode = call.opcode(), %failure, "refused");
                let mut sentence = failure.to_string().into_bytes();
                sentence.truncate(REPLY_BODY_MAX);
                Reply::error(failure.errno(), sentence)
            }
        }
    }

    fn client_gone(&self, client: ClientId) {
        self.uploads().retain(|_, upload| upload.client != client);
        self.listings.forget(client);
    }
}

/// Most bytes of a page of a directory.
pub(crate) const PAGE_MAX: usize = 256 << 10;

const UNKNOWN_UPLOAD: Failure = Failure::Rule(
    Errno::ESTALE,
    "the storing of this file was interrupted; begin again",
);

fn only_name(mut body: Reader<'_>) -> Result<StoreName, Failure> {
    let name = body.name()?;
    body.end()?;
    Ok(name)
}

/// Fetches a call's bulk into a file.
fn store_bulk(
    call: &mut Call<'_>,
    file: &File,
    start: u64,
    hasher: &mut ChunkHasher,
) -> Result<(), Failure> {
    call.read_bulk::<Failure>(|offset, piece| {
        hasher.update(piece);
        Ok(file.write_all_at(piece, start + u64::from(offset))?)
    })
}

fn check(found: Digest, wanted: Digest) -> Result<(), Failure> {
    if found == wanted {
        Ok(())
    } else {
        Err(Failure::Rule(
            Errno::EBADMSG,
            "the digest of what arrived is not the digest that was promised",
        ))
    }
}

/// A file that became shorter while it was read.
fn shrunk(error: std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        Failure::Rule(Errno::ESTALE, "the file was cut while it was read")
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId([1; 16]);

    #[test]
    fn a_commit_that_comes_while_a_chunk_is_written_may_be_repeated() {
        let served = tempfile::tempdir().unwrap();
        let options = ServiceOptions::default();
        let service = Service::open(served.path(), Entropy::new([1; 32]), options).unwrap();
        let begin = Writer::default().u64(1).u32(0o600).name(b"file").finish();
        let begun = service.begin(CLIENT, Reader::new(&begin)).unwrap();
        let id = Reader::new(&begun).u64().unwrap();
        let commit = Writer::default()
            .u64(id)
            .bytes(&Digest::of(b"x").0)
            .finish();

        // A call that writes a chunk holds the upload for as long.
        let writing = service.upload(CLIENT, id).unwrap();
        let early = service.commit(CLIENT, Reader::new(&commit));
        assert!(
            matches!(early, Err(Failure::Rule(Errno::EBUSY, _))),
            "{early:?}"
        );
        writing.temporary.file.write_all_at(b"x", 0).unwrap();
        let mut hasher = ChunkHasher::new(1, 0);
        hasher.update(b"x");
        writing.parts.lock().unwrap().insert(0, hasher.finish());
        drop(writing);

        let other = service.commit(ClientId([2; 16]), Reader::new(&commit));
        assert!(
            matches!(other, Err(Failure::Rule(Errno::ESTALE, _))),
            "{other:?}"
        );
        service.commit(CLIENT, Reader::new(&commit)).unwrap();
        assert_eq!(std::fs::read(served.path().join("file")).unwrap(), b"x");
    }
}
