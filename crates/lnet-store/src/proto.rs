//! The bodies of the store's requests and replies.
//!
//! All numbers are little-endian; a name is its length (2 bytes) and its bytes; a digest has 32 bytes.
//!
//! ```text
//! opcode      request body                          bulk          reply body
//! 1 put       size 8, mode 4, digest, name, data    (file, read)  -
//! 2 begin     size 8, mode 4, name                                upload 8
//! 3 write     upload 8, chunk 8                     chunk, read   -
//! 4 commit    upload 8, digest                                    -
//! 5 abort     upload 8                                            -
//! 6 read      chunk 8, version 8, name              chunk, write  attributes, part 32, data
//! 7 list      directory name, after name            page, write   more 4
//! 8 stat      name                                                attributes
//! 9 remove    name                                                -
//! 10 rename   from name, to name                                  -
//!
//! attributes  size 8, mtime s 8, mtime ns 4, mode 4, kind 1, version 8          33 bytes
//! list entry  attributes, name                                                  in the page
//! ```
//!
//! The data of `put` and of the reply to `read` is the rest of the body when the file is short enough,
//! else it is bulk. A reply of failure has a sentence for people as its body.

use serde::Serialize;
use thiserror::Error;

use crate::digest::Digest;
use crate::name::{NameError, StoreName};

pub(crate) const PUT: u32 = 1;
pub(crate) const BEGIN: u32 = 2;
pub(crate) const WRITE: u32 = 3;
pub(crate) const COMMIT: u32 = 4;
pub(crate) const ABORT: u32 = 5;
pub(crate) const READ: u32 = 6;
pub(crate) const LIST: u32 = 7;
pub(crate) const STAT: u32 = 8;
pub(crate) const REMOVE: u32 = 9;
pub(crate) const RENAME: u32 = 10;

/// Bytes of the reply to `read` before its data.
pub(crate) const READ_REPLY_LEN: usize = ATTRIBUTES_LEN + 32;
/// Bytes of an entry in a page besides its name.
pub(crate) const ENTRY_LEN: usize = ATTRIBUTES_LEN + 2;

const ATTRIBUTES_LEN: usize = 33;

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else, which the store does not touch: symbolic links, devices, sockets, pipes.
    Other,
}

/// What is known of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Attributes {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content: seconds since 1970.
    pub mtime: i64,
    /// The nanoseconds of it.
    pub mtime_nanos: u32,
    /// Permission bits.
    pub mode: u32,
    /// What it is.
    pub kind: Kind,
    /// Differs when the file was replaced or written to.
    #[serde(skip)]
    pub version: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory: one component.
    pub name: Vec<u8>,
    /// What is known of it.
    pub attributes: Attributes,
}

/// Why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// It ends too early.
    #[error("the body ends within a field")]
    Short,
    /// It goes on behind its last field.
    #[error("the body has bytes behind its last field")]
    Long,
    /// A field holds what it may not.
    #[error("a field holds what it may not")]
    Field,
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Writes a body.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A name; an empty one is the root, or "from the beginning".
    pub(crate) fn name(mut self, name: &[u8]) -> Self {
        // Names have at most `NAME_MAX` bytes.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.bytes(name)
    }

    pub(crate) fn attributes(self, attributes: &Attributes) -> Self {
        let kind = match attributes.kind {
            Kind::File => 0,
            Kind::Directory => 1,
            Kind::Other => 2,
        };
        self.u64(attributes.size)
            .u64(attributes.mtime.cast_unsigned())
            .u32(attributes.mtime_nanos)
            .u32(attributes.mode)
            .bytes(&[kind])
            .u64(attributes.version)
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a body field by field. Never panics.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], BodyError> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(BodyError::Short)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BodyError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(BodyError::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BodyError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BodyError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest, BodyError> {
        self.array().map(Digest)
    }

    pub(crate) fn name(&mut self) -> Result<StoreName, BodyError> {
        Ok(StoreName::new(self.name_bytes()?)?)
    }

    /// A name that may be empty.
    pub(crate) fn directory(&mut self) -> Result<Option<StoreName>, BodyError> {
        match self.name_bytes()? {
            [] => Ok(None),
            bytes => Ok(Some(StoreName::new(bytes)?)),
        }
    }

    pub(crate) fn name_bytes(&mut self) -> Result<&'a [u8], BodyError> {
        let length = u16::from_le_bytes(self.array()?);
        self.take(usize::from(length))
    }

    pub(crate) fn attributes(&mut self) -> Result<Attributes, BodyError> {
        let size = self.u64()?;
        let mtime = self.u64()?.cast_signed();
        let mtime_nanos = self.u32()?;
        let mode = self.u32()?;
        let kind = match self.array()? {
            [0] => Kind::File,
            [1] => Kind::Directory,
            [2] => Kind::Other,
            _ => return Err(BodyError::Field),
        };
        let version = self.u64()?;
        Ok(Attributes {
            size,
            mtime,
            mtime_nanos,
            mode,
            kind,
            version,
        })
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn end(self) -> Result<(), BodyError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BodyError::Long)
        }
    }
}

/// Reads a page of a directory.
pub(crate) fn read_page(page: &[u8]) -> Result<Vec<Entry>, BodyError> {
    let mut reader = Reader::new(page);
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let attributes = reader.attributes()?;
        let name = reader.name()?;
        if name.components().count() != 1 {
            return Err(BodyError::Field);
        }
        entries.push(Entry {
            name: name.as_bytes().to_vec(),
            attributes,
        });
    }
    Ok(entries)
}

/// The fuzz target of everything that is read from bodies.
#[doc(hidden)]
pub fn fuzz_bodies(bytes: &[u8]) {
    let _page = read_page(bytes);
    let mut reader = Reader::new(bytes);
    let _fields = (
        reader.attributes(),
        reader.name(),
        reader.directory(),
        reader.digest(),
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let kind = prop_oneof![Just(Kind::File), Just(Kind::Directory), Just(Kind::Other)];
        let numbers = (
            any::<u64>(),
            any::<i64>(),
            any::<u32>(),
            any::<u32>(),
            any::<u64>(),
        );
        ("[a-z]{1,20}", kind, numbers).prop_map(|(name, kind, numbers)| {
            let (size, mtime, mtime_nanos, mode, version) = numbers;
            let attributes = Attributes {
                size,
                mtime,
                mtime_nanos,
                mode,
                kind,
                version,
            };
            Entry {
                name: name.into_bytes(),
                attributes,
            }
        })
    }

    proptest! {
        #[test]
        fn a_page_reads_back(entries in prop::collection::vec(entry(), 0..20)) {
            let page = entries.iter().fold(Writer::default(), |page, entry| {
                page.attributes(&entry.attributes).name(&entry.name)
            });
            prop_assert_eq!(read_page(&page.finish()), Ok(entries));
        }

        #[test]
        fn arbitrary_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..4096)) {
            fuzz_bodies(&body);
        }
    }

    #[test]
    fn a_page_whose_entry_is_a_path_is_refused() {
        let attributes = Attributes {
            size: 0,
            mtime: 0,
            mtime_nanos: 0,
            mode: 0,
            kind: Kind::File,
            version: 0,
        };
        let page = Writer::default()
            .attributes(&attributes)
            .name(b"a/b")
            .finish();
        assert_eq!(read_page(&page), Err(BodyError::Field));
    }
}
