//! The interface.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::{
    AllocateMode, Attributes, Caller, Entry, Errno, Export, Handle, Listing, Node, Place,
    RenameMode, Reply, Request, SeekTarget, Segment, SetAttributes, Space, XattrMode,
};

/// The bytes of files that go with a request.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// What is written: as many bytes as the request says.
    Write(&'a [IoSlice<'a>]),
    /// Room for what is read: as many bytes as the request says. What is not read stays as it was, except
    /// that nobody may rely on the bytes behind a short segment.
    Read(&'a mut [IoSliceMut<'a>]),
}

impl Data<'_> {
    /// Checks that there is as much memory as `request` speaks of. Every implementation does first.
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

/// Carries out operations on files.
///
/// The errors of all methods are those of the operation, by the names of Linux. Besides them each may end
/// with `ESTALE` (the handle names nothing any longer; look the object up again), `EINVAL` (the request
/// breaks a rule that its documentation states), `ETIMEDOUT` or `EIO` (the server was not reached),
/// [`OUTCOME_UNKNOWN`](crate::OUTCOME_UNKNOWN) and `EPROTO` (the server answered something else than was
/// asked).
///
/// ```
/// # use files::{Caller, Data, Errno, FileSystem, Handle, Place, Reply, Request};
/// fn size_of(files: &dyn FileSystem, caller: &Caller, path: &[u8]) -> Result<u64, Errno> {
///     let entry = files.lookup(caller, Place::from_root(path)?)?;
///     Ok(entry.attributes.size)
/// }
/// ```
pub trait FileSystem: Send + Sync {
    /// Carries out one operation.
    ///
    /// # Errors
    ///
    /// Those of the operation.
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno>;

    /// A round trip: [`Request::Null`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn null(&self, caller: &Caller) -> Result<(), Errno> {
        self.call(caller, &Request::Null, Data::None)?.done()
    }

    /// What is known of an object: [`Request::GetAttr`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn getattr(&self, caller: &Caller, handle: Handle) -> Result<Attributes, Errno> {
        self.call(caller, &Request::GetAttr { handle }, Data::None)?
            .attributes()
    }

    /// Changes attributes, the size among them: [`Request::SetAttr`].
    ///
    /// # Errors
    ///
    /// As the trait says.
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
    /// As the trait says.
    fn lookup(&self, caller: &Caller, place: Place) -> Result<Entry, Errno> {
        self.call(caller, &Request::Lookup { place }, Data::None)?
            .entry()
    }

    /// The target of a symbolic link: [`Request::ReadLink`].
    ///
    /// # Errors
    ///
    /// As the trait says; `EINVAL` for anything else than a link.
    fn readlink(&self, caller: &Caller, handle: Handle) -> Result<Vec<u8>, Errno> {
        self.call(caller, &Request::ReadLink { handle }, Data::None)?
            .bytes()
    }

    /// Brings an object to the disk: [`Request::Commit`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn commit(&self, caller: &Caller, handle: Handle, data_only: bool) -> Result<(), Errno> {
        let request = Request::Commit { handle, data_only };
        self.call(caller, &request, Data::None)?.done()
    }

    /// Makes a regular file; whether it is new stands beside it: [`Request::Create`].
    ///
    /// # Errors
    ///
    /// As the trait says.
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

    /// Removes a name: [`Request::Remove`]. `directory`: `Some(true)` as `rmdir`, `Some(false)` as `unlink`.
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn remove(&self, caller: &Caller, place: Place, directory: Option<bool>) -> Result<(), Errno> {
        self.call(caller, &Request::Remove { place, directory }, Data::None)?
            .done()
    }

    /// Gives an object another name: [`Request::Rename`].
    ///
    /// # Errors
    ///
    /// As the trait says.
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

    /// Makes a symbolic link: [`Request::Symlink`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn symlink(&self, caller: &Caller, place: Place, target: &[u8]) -> Result<Entry, Errno> {
        let target = target.to_vec();
        self.call(caller, &Request::Symlink { place, target }, Data::None)?
            .entry()
    }

    /// Makes a directory: [`Request::Mkdir`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn mkdir(&self, caller: &Caller, place: Place, mode: u32) -> Result<Entry, Errno> {
        self.call(caller, &Request::Mkdir { place, mode }, Data::None)?
            .entry()
    }

    /// Lists a part of a directory: [`Request::ReadDir`].
    ///
    /// # Errors
    ///
    /// As the trait says.
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

    /// Writes one piece of a file: [`Request::Write`]. Gives the bytes written, less than all only where an
    /// error such as a full disk stopped it in the middle.
    ///
    /// # Errors
    ///
    /// As the trait says.
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

    /// Reads one piece of a file: [`Request::Read`]. Gives the bytes read, less than all only at the end of
    /// the file.
    ///
    /// # Errors
    ///
    /// As the trait says.
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

    /// Writes at the end of a file: [`Request::Append`]. Gives the offset and the number of bytes, which is less
    /// than all only where an error such as a full disk stopped it in the middle.
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn append(&self, caller: &Caller, handle: Handle, bytes: &[u8]) -> Result<(u64, u64), Errno> {
        let length = bytes.len() as u64;
        let memory = [IoSlice::new(bytes)];
        let request = Request::Append { handle, length };
        match self.call(caller, &request, Data::Write(&memory))? {
            Reply::Appended(offset, count) if count <= length => Ok((offset, count)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Gives an object one more name: [`Request::Link`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn link(&self, caller: &Caller, handle: Handle, place: Place) -> Result<Entry, Errno> {
        self.call(caller, &Request::Link { handle, place }, Data::None)?
            .entry()
    }

    /// How full the file system of an object is: [`Request::StatFs`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn statfs(&self, caller: &Caller, handle: Handle) -> Result<Space, Errno> {
        match self.call(caller, &Request::StatFs { handle }, Data::None)? {
            Reply::Space(space) => Ok(space),
            _ => Err(Errno::EPROTO),
        }
    }

    /// The value of an extended attribute: [`Request::GetXattr`].
    ///
    /// # Errors
    ///
    /// As the trait says; `ENODATA` where there is none.
    fn getxattr(&self, caller: &Caller, handle: Handle, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let name = name.to_vec();
        self.call(caller, &Request::GetXattr { handle, name }, Data::None)?
            .bytes()
    }

    /// The names of the extended attributes: [`Request::ListXattr`].
    ///
    /// # Errors
    ///
    /// As the trait says.
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
    /// As the trait says.
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
    /// As the trait says; `ENODATA` where there is none.
    fn removexattr(&self, caller: &Caller, handle: Handle, name: &[u8]) -> Result<(), Errno> {
        let name = name.to_vec();
        self.call(caller, &Request::RemoveXattr { handle, name }, Data::None)?
            .done()
    }

    /// Takes or gives back space of a file: [`Request::Allocate`].
    ///
    /// # Errors
    ///
    /// As the trait says; `EOPNOTSUPP` where the server's file system cannot.
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

    /// The next data or hole: [`Request::Seek`].
    ///
    /// # Errors
    ///
    /// As the trait says; `ENXIO` where there is none.
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

    /// What the server says of its directory: [`Request::Identify`].
    ///
    /// # Errors
    ///
    /// As the trait says; `EPROTO` from a server that does not know the question.
    fn identify(&self, caller: &Caller) -> Result<Export, Errno> {
        match self.call(caller, &Request::Identify, Data::None)? {
            Reply::Export(export) => Ok(export),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Makes a named pipe or a socket: [`Request::MakeNode`].
    ///
    /// # Errors
    ///
    /// As the trait says.
    fn mknod(&self, caller: &Caller, place: Place, node: Node, mode: u32) -> Result<Entry, Errno> {
        self.call(caller, &Request::MakeNode { place, node, mode }, Data::None)?
            .entry()
    }
}

/// A file system whose objects can be found again by their place below the root, when handles are void.
pub trait Located: FileSystem {
    /// The path from the root to where an object was seen last, nothing for the root itself. `None` where no place of
    /// the object is known.
    fn path_of(&self, handle: Handle) -> Option<Vec<u8>>;
}

impl<F: FileSystem + ?Sized> FileSystem for Arc<F> {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        (**self).call(caller, request, data)
    }
}

/// What the named methods expect; a server that answers anything else broke the protocol.
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
