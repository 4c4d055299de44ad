//! The trait [`FileSystem`].

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::{
    AllocateMode, Attributes, Caller, Entry, Errno, Export, Handle, Listing, Node, Place,
    RenameMode, Reply, Request, SeekTarget, Segment, SetAttributes, Space, XattrMode,
};

/// The contents of files that accompany a request.
#[derive(Debug)]
pub enum Data<'a> {
    /// No contents.
    None,
    /// Bytes to write: as many as the request specifies.
    Write(&'a [IoSlice<'a>]),
    /// Memory for bytes to read: as many as the request specifies. Memory behind the last byte read
    /// keeps its contents. Memory behind a short segment has unspecified contents.
    Read(&'a mut [IoSliceMut<'a>]),
}

impl Data<'_> {
    /// Checks that there is exactly as much memory as `request` requires. Every implementation
    /// calls this method first.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub fn check(&self, request: &Request) -> Result<(), Errno> {
        let (written, read) = match self {
            Self::None => (0, 0),
            Self::Write(memory) => (memory.iter().map(|part| part.len() as u64).sum(), 0),
            Self::Read(memory) => (0, memory.iter().map(|part| part.len() as u64).sum()),
        };
        if written == request.write_length() && read == request.read_length() {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// Executes operations on files.
///
/// All errors are those of the operation, with their Linux names. In addition, each method may
/// return `ESTALE` (the handle is no longer valid; look the object up again), `EINVAL` (the request
/// breaks a rule of its documentation), `ETIMEDOUT` or `EIO` (the server was not reached),
/// [`OUTCOME_UNKNOWN`](crate::OUTCOME_UNKNOWN), and `EPROTO` (the server's reply does not match the
/// request).
///
/// ```
/// # use files::{Caller, Data, Errno, FileSystem, Handle, Place, Reply, Request};
/// fn size_of(files: &dyn FileSystem, caller: &Caller, path: &[u8]) -> Result<u64, Errno> {
///     let entry = files.lookup(caller, Place::from_root(path)?)?;
///     Ok(entry.attributes.size)
/// }
/// ```
pub trait FileSystem: Send + Sync {
    /// Executes one operation.
    ///
    /// # Errors
    ///
    /// Errors of the operation.
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno>;

    /// Makes a round trip: [`Request::Null`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn null(&self, caller: &Caller) -> Result<(), Errno> {
        self.call(caller, &Request::Null, Data::None)?.done()
    }

    /// Returns the attributes of an object: [`Request::GetAttr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn getattr(&self, caller: &Caller, handle: Handle) -> Result<Attributes, Errno> {
        self.call(caller, &Request::GetAttr { handle }, Data::None)?
            .attributes()
    }

    /// Changes attributes, including the size: [`Request::SetAttr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn setattr(
        &self,
        caller: &Caller,
        handle: Handle,
        set: SetAttributes,
    ) -> Result<Attributes, Errno> {
        self.call(caller, &Request::SetAttr { handle, set }, Data::None)?
            .attributes()
    }

    /// Finds an object by name: [`Request::Lookup`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn lookup(&self, caller: &Caller, place: Place) -> Result<Entry, Errno> {
        self.call(caller, &Request::Lookup { place }, Data::None)?
            .entry()
    }

    /// Returns the target of a symbolic link: [`Request::ReadLink`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `EINVAL` if the object is not a symbolic link.
    fn readlink(&self, caller: &Caller, handle: Handle) -> Result<Vec<u8>, Errno> {
        self.call(caller, &Request::ReadLink { handle }, Data::None)?
            .bytes()
    }

    /// Writes an object to stable storage: [`Request::Commit`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn commit(&self, caller: &Caller, handle: Handle, data_only: bool) -> Result<(), Errno> {
        let request = Request::Commit { handle, data_only };
        self.call(caller, &request, Data::None)?.done()
    }

    /// Creates a regular file and returns whether it is new: [`Request::Create`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn create(
        &self,
        caller: &Caller,
        place: Place,
        mode: u32,
        exclusive: bool,
    ) -> Result<(Entry, bool), Errno> {
        let request = Request::Create {
            place,
            mode,
            exclusive,
        };
        match self.call(caller, &request, Data::None)? {
            Reply::Created(entry, is_new) => Ok((entry, is_new)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Removes a name: [`Request::Remove`]. `Some(true)` as `directory` acts as `rmdir`,
    /// `Some(false)` as `unlink`.
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn remove(&self, caller: &Caller, place: Place, directory: Option<bool>) -> Result<(), Errno> {
        self.call(caller, &Request::Remove { place, directory }, Data::None)?
            .done()
    }

    /// Renames an object: [`Request::Rename`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn rename(
        &self,
        caller: &Caller,
        from: Place,
        to: Place,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        self.call(caller, &Request::Rename { from, to, mode }, Data::None)?
            .done()
    }

    /// Creates a symbolic link: [`Request::Symlink`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn symlink(&self, caller: &Caller, place: Place, target: &[u8]) -> Result<Entry, Errno> {
        let target = target.to_vec();
        self.call(caller, &Request::Symlink { place, target }, Data::None)?
            .entry()
    }

    /// Creates a directory: [`Request::Mkdir`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn mkdir(&self, caller: &Caller, place: Place, mode: u32) -> Result<Entry, Errno> {
        self.call(caller, &Request::Mkdir { place, mode }, Data::None)?
            .entry()
    }

    /// Lists a part of a directory: [`Request::ReadDir`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn readdir(
        &self,
        caller: &Caller,
        handle: Handle,
        cookie: u64,
        entries: u32,
        objects: bool,
    ) -> Result<Listing, Errno> {
        let request = Request::ReadDir {
            handle,
            cookie,
            entries,
            objects,
        };
        match self.call(caller, &request, Data::None)? {
            Reply::Listing(listing) => Ok(listing),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Writes one contiguous part of a file: [`Request::Write`]. Returns the number of bytes
    /// written. It is less than requested only if an error, such as a full disk, occurred in the
    /// middle.
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn write(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        let length = bytes.len() as u64;
        let segments = vec![Segment { offset, length }];
        let memory = [IoSlice::new(bytes)];
        let request = Request::Write { handle, segments };
        self.call(caller, &request, Data::Write(&memory))?
            .count(length)
    }

    /// Reads one contiguous part of a file: [`Request::Read`]. Returns the number of bytes read. It
    /// is less than requested only at the end of the file.
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn read(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        memory: &mut [u8],
    ) -> Result<usize, Errno> {
        let length = memory.len() as u64;
        let segments = vec![Segment { offset, length }];
        let mut memory = [IoSliceMut::new(memory)];
        let request = Request::Read { handle, segments };
        self.call(caller, &request, Data::Read(&mut memory))?
            .count(length)
    }

    /// Appends to a file: [`Request::Append`]. Returns the offset and the number of bytes. The
    /// number is less than requested only if an error, such as a full disk, occurred in the middle.
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn append(&self, caller: &Caller, handle: Handle, bytes: &[u8]) -> Result<(u64, u64), Errno> {
        let length = bytes.len() as u64;
        let memory = [IoSlice::new(bytes)];
        let request = Request::Append { handle, length };
        match self.call(caller, &request, Data::Write(&memory))? {
            Reply::Appended(offset, count) if count <= length => Ok((offset, count)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Gives an object an additional name: [`Request::Link`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn link(&self, caller: &Caller, handle: Handle, place: Place) -> Result<Entry, Errno> {
        self.call(caller, &Request::Link { handle, place }, Data::None)?
            .entry()
    }

    /// Returns the total and free space of the file system of an object: [`Request::StatFs`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn statfs(&self, caller: &Caller, handle: Handle) -> Result<Space, Errno> {
        match self.call(caller, &Request::StatFs { handle }, Data::None)? {
            Reply::Space(space) => Ok(space),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Returns the value of an extended attribute: [`Request::GetXattr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `ENODATA` if there is no such attribute.
    fn getxattr(&self, caller: &Caller, handle: Handle, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let name = name.to_vec();
        self.call(caller, &Request::GetXattr { handle, name }, Data::None)?
            .bytes()
    }

    /// Returns the names of the extended attributes: [`Request::ListXattr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn listxattr(&self, caller: &Caller, handle: Handle) -> Result<Vec<Vec<u8>>, Errno> {
        match self.call(caller, &Request::ListXattr { handle }, Data::None)? {
            Reply::Names(names) => Ok(names),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Sets an extended attribute: [`Request::SetXattr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn setxattr(
        &self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let request = Request::SetXattr {
            handle,
            name: name.to_vec(),
            value: value.to_vec(),
            mode,
        };
        self.call(caller, &request, Data::None)?.done()
    }

    /// Removes an extended attribute: [`Request::RemoveXattr`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `ENODATA` if there is no such attribute.
    fn removexattr(&self, caller: &Caller, handle: Handle, name: &[u8]) -> Result<(), Errno> {
        let name = name.to_vec();
        self.call(caller, &Request::RemoveXattr { handle, name }, Data::None)?
            .done()
    }

    /// Allocates or frees space of a file: [`Request::Allocate`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `EOPNOTSUPP` if the server's file system does not support it.
    fn allocate(
        &self,
        caller: &Caller,
        handle: Handle,
        mode: AllocateMode,
        segment: Segment,
    ) -> Result<(), Errno> {
        let request = Request::Allocate {
            handle,
            mode,
            segment,
        };
        self.call(caller, &request, Data::None)?.done()
    }

    /// Returns the offset of the next data or hole: [`Request::Seek`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `ENXIO` if there is no further data or hole.
    fn seek(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno> {
        let request = Request::Seek {
            handle,
            offset,
            target,
        };
        match self.call(caller, &request, Data::None)? {
            Reply::Offset(offset) => Ok(offset),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Returns the attributes of a file and holds it for a client: [`Request::Hold`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]. `ENFILE` if the server holds too many files already.
    fn hold(&self, caller: &Caller, holder: u64, handle: Handle) -> Result<Attributes, Errno> {
        self.call(caller, &Request::Hold { holder, handle }, Data::None)?
            .attributes()
    }

    /// Returns the properties of the exported directory: [`Request::Identify`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`]; `EPROTO` from a server that does not know the operation.
    fn identify(&self, caller: &Caller) -> Result<Export, Errno> {
        match self.call(caller, &Request::Identify, Data::None)? {
            Reply::Export(export) => Ok(export),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Creates a named pipe or a socket: [`Request::MakeNode`].
    ///
    /// # Errors
    ///
    /// See [`FileSystem`].
    fn mknod(&self, caller: &Caller, place: Place, node: Node, mode: u32) -> Result<Entry, Errno> {
        self.call(caller, &Request::MakeNode { place, node, mode }, Data::None)?
            .entry()
    }
}

/// A file system that can find its objects by path after their handles became invalid.
pub trait Located: FileSystem {
    /// Returns the last known path of an object from the root. The path of the root itself is
    /// empty. Returns `None` if no path is known.
    fn path_of(&self, handle: Handle) -> Option<Vec<u8>>;
}

impl<F: FileSystem + ?Sized> FileSystem for Arc<F> {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        (**self).call(caller, request, data)
    }
}

/// Conversions to the replies that the named methods expect. Any other reply breaks the protocol.
impl Reply {
    fn done(self) -> Result<(), Errno> {
        match self {
            Self::Done => Ok(()),
            _ => Err(Errno::EPROTO),
        }
    }

    fn attributes(self) -> Result<Attributes, Errno> {
        match self {
            Self::Attributes(attributes) => Ok(attributes),
            _ => Err(Errno::EPROTO),
        }
    }

    fn entry(self) -> Result<Entry, Errno> {
        match self {
            Self::Entry(entry) => Ok(entry),
            _ => Err(Errno::EPROTO),
        }
    }

    fn bytes(self) -> Result<Vec<u8>, Errno> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Errno::EPROTO),
        }
    }

    fn count(self, length: u64) -> Result<usize, Errno> {
        match self {
            Self::Counts(counts) => match counts[..] {
                [count] if count <= length => usize::try_from(count).map_err(|_| Errno::EPROTO),
                _ => Err(Errno::EPROTO),
            },
            _ => Err(Errno::EPROTO),
        }
    }
}
