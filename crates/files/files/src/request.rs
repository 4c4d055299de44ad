//! Requests to a file system and their replies.

use std::time::Duration;

use crate::wire::REPLY_MAX;
use crate::{
    Attributes, Caller, Entry, Errno, Export, GROUPS_MAX, Handle, Kind, Listing, Lock, LockAction,
    LockOutcome, PATH_MAX, Place, Segment, SetAttributes, SetTime, Space, Timestamp,
};

/// Limit of the number of segments of a read or write.
pub const SEGMENTS_MAX: usize = 1024;
/// Limit of one read or write in bytes: the most that BMI carries in one message.
pub const TRANSFER_MAX: u64 = 128 << 20;
/// Limit of one append in bytes. Every server holds all bytes in memory to write them at once.
pub const APPEND_MAX: u64 = 4 << 20;
/// Limit of the number of entries of one listing.
pub const ENTRIES_MAX: u32 = 1024;
/// Limit of the number of handles in each list of [`Request::Renew`].
pub const HANDLES_MAX: usize = 64;
/// How long a server holds files for a client that sends neither [`Request::Hold`] nor [`Request::Renew`].
pub const HOLD_TIME: Duration = Duration::from_secs(120);
/// Limit in bytes of the value of an extended attribute, and of the list of attribute names, as in Linux.
pub const XATTR_MAX: usize = 65536;

/// Limit in bytes of an encoded reply without its variable part.
const HEAD_BYTES: usize = 16;
/// Limit in bytes of an encoded entry of a listing. A test encodes the longest one.
const ENTRY_BYTES: usize = REPLY_MAX / ENTRIES_MAX as usize;
/// Limit in bytes of replies without a variable part. The longest of them are an entry and the properties of an export.
const SMALL_REPLY: usize = 512;

/// An operation.
///
/// A file is resized by [`Request::SetAttr`] with a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes a round trip. → [`Reply::Done`]
    Null,
    /// Returns the attributes of an object. Does not follow a symbolic link. →
    /// [`Reply::Attributes`]
    GetAttr {
        /// The object.
        handle: Handle,
    },
    /// Changes attributes in the order size, owner and group, permission bits, times. If one change
    /// fails, earlier changes remain. → [`Reply::Attributes`]
    SetAttr {
        /// The object.
        handle: Handle,
        /// The attributes to change.
        set: SetAttributes,
    },
    /// Finds an object by name. → [`Reply::Entry`]
    Lookup {
        /// The place of the object.
        place: Place,
    },
    /// Returns the target of a symbolic link. → [`Reply::Bytes`]
    ReadLink {
        /// The link.
        handle: Handle,
    },
    /// Writes a file or directory to stable storage. → [`Reply::Done`]
    Commit {
        /// The object.
        handle: Handle,
        /// Whether to omit attributes that are not needed to read the contents back.
        data_only: bool,
    },
    /// Creates a regular file. If a file exists already and `exclusive` is not set, returns that
    /// file. → [`Reply::Created`]
    Create {
        /// The place of the file.
        place: Place,
        /// Permission bits of a new file.
        mode: u32,
        /// Whether an existing file gives `EEXIST`.
        exclusive: bool,
    },
    /// Removes the name of an empty directory or of any other object. → [`Reply::Done`]
    Remove {
        /// The place of the name.
        place: Place,
        /// The expected object: `true` for a directory (otherwise `ENOTDIR`), `false` for anything
        /// else (otherwise `EISDIR`), `None` for either.
        directory: Option<bool>,
    },
    /// Renames an object. → [`Reply::Done`]
    Rename {
        /// The old place.
        from: Place,
        /// The new place.
        to: Place,
        /// What happens to an object that already has the new name.
        mode: RenameMode,
    },
    /// Creates a symbolic link. → [`Reply::Entry`]
    Symlink {
        /// The place of the link.
        place: Place,
        /// The target: 1 to 4095 bytes without NUL. Servers do not interpret it.
        target: Vec<u8>,
    },
    /// Creates a directory. → [`Reply::Entry`]
    Mkdir {
        /// The place of the directory.
        place: Place,
        /// Permission bits.
        mode: u32,
    },
    /// Lists a part of a directory. → [`Reply::Listing`]
    ReadDir {
        /// The directory.
        handle: Handle,
        /// 0 to start, or the cookie of the entry after which the listing continues.
        cookie: u64,
        /// Most entries to return, 1 to [`ENTRIES_MAX`].
        entries: u32,
        /// Whether entries include the objects, not only their names.
        objects: bool,
    },
    /// Writes to a file. The bytes are in [`crate::Data::Write`]. → [`Reply::Counts`]
    Write {
        /// The file.
        handle: Handle,
        /// The parts of the file to write.
        segments: Vec<Segment>,
    },
    /// Reads from a file into [`crate::Data::Read`]. → [`Reply::Counts`]
    Read {
        /// The file.
        handle: Handle,
        /// The parts of the file to read.
        segments: Vec<Segment>,
    },
    /// Gives an object that is not a directory an additional name. → [`Reply::Entry`]
    Link {
        /// The object.
        handle: Handle,
        /// The place of the new name.
        place: Place,
    },
    /// Returns the total and free space of the file system of an object. → [`Reply::Space`]
    StatFs {
        /// The object.
        handle: Handle,
    },
    /// Returns the value of an extended attribute. → [`Reply::Bytes`]
    GetXattr {
        /// The object.
        handle: Handle,
        /// Name of the attribute, including its namespace: `user.mime_type`.
        name: Vec<u8>,
    },
    /// Returns the names of the extended attributes. → [`Reply::Names`]
    ListXattr {
        /// The object.
        handle: Handle,
    },
    /// Sets an extended attribute. → [`Reply::Done`]
    SetXattr {
        /// The object.
        handle: Handle,
        /// Name of the attribute.
        name: Vec<u8>,
        /// The value, at most [`XATTR_MAX`] bytes.
        value: Vec<u8>,
        /// Whether the attribute may or must exist.
        mode: XattrMode,
    },
    /// Removes an extended attribute. → [`Reply::Done`]
    RemoveXattr {
        /// The object.
        handle: Handle,
        /// Name of the attribute.
        name: Vec<u8>,
    },
    /// Allocates or frees space of a file. → [`Reply::Done`]
    Allocate {
        /// The file.
        handle: Handle,
        /// What to do with the part of the file.
        mode: AllocateMode,
        /// The part of the file, which must not be empty.
        segment: Segment,
    },
    /// Finds the next data or hole of a file. → [`Reply::Offset`]
    Seek {
        /// The file.
        handle: Handle,
        /// The offset at which the search starts.
        offset: u64,
        /// What to find. The reply is `ENXIO` if there is none, or if `offset` is not below the end of
        /// the file.
        target: SeekTarget,
    },
    /// Appends to a file. The server chooses the offset: the end of the file at the time of execution.
    /// The bytes are in [`crate::Data::Write`]. → [`Reply::Appended`]
    Append {
        /// The file.
        handle: Handle,
        /// Number of bytes, at most [`APPEND_MAX`].
        length: u64,
    },
    /// Creates a named pipe or a socket. → [`Reply::Entry`]
    MakeNode {
        /// The place of the node.
        place: Place,
        /// The type of the node.
        node: Node,
        /// Permission bits.
        mode: u32,
    },
    /// Returns the properties of the exported directory. → [`Reply::Export`]
    Identify,
    /// Returns the attributes of a file and holds it for a client that has it open: the handle stays valid after the
    /// last name of the file is removed. The hold ends with [`Request::Renew`], or [`HOLD_TIME`] after the last
    /// request of the holder. `ENFILE` if the server holds too many files already. → [`Reply::Attributes`]
    Hold {
        /// A random number that the client chose.
        holder: u64,
        /// The file.
        handle: Handle,
    },
    /// Renews all holds of a client, begins and ends some. Handles that the server does not know have no effect. →
    /// [`Reply::Done`]
    Renew {
        /// The number of the client.
        holder: u64,
        /// Files to hold, at most [`HANDLES_MAX`]. A file that is held already stays held.
        held: Vec<Handle>,
        /// Files whose hold ends, at most [`HANDLES_MAX`].
        released: Vec<Handle>,
    },
    /// Locks or unlocks bytes of a file for a client. The locks end with [`LockAction::Release`], or [`HOLD_TIME`]
    /// after the last request of the client for locks. `EDEADLK` if the owner would wait for itself, `ENOLCK` if there
    /// are too many locks, `EALREADY` if the number of the request is below `floor`. → [`Reply::Lock`]
    Lock {
        /// A random number that the client chose.
        holder: u64,
        /// The number of the request. Requests of one client have numbers of their own, and later requests have higher
        /// numbers.
        sequence: u64,
        /// All requests with lower numbers have ended: the server drops late copies of them.
        floor: u64,
        /// The file.
        handle: Handle,
        /// What to do.
        action: LockAction,
        /// The lock, or the bytes to unlock.
        lock: Lock,
    },
    /// Renews the locks of a client. → [`Reply::Lock`]
    KeepLocks {
        /// The number of the client.
        holder: u64,
    },
}

/// What a rename does if another object has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenameMode {
    /// Replaces the object, if its type permits (an empty directory for a directory).
    Replace,
    /// Keeps the object and returns `EEXIST`.
    Keep,
    /// Exchanges the names of both objects. The other object must exist.
    Exchange,
}

/// Whether an extended attribute may or must exist before a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XattrMode {
    /// The attribute may exist.
    Any,
    /// The attribute must not exist, otherwise `EEXIST`.
    Create,
    /// The attribute must exist, otherwise `ENODATA`.
    Replace,
}

/// Checks that requests may name an extended attribute: one of users, or an access control list. All
/// other namespaces belong to the server's machine, so a client need not ask for them.
///
/// # Errors
///
/// `EOPNOTSUPP`.
pub fn check_xattr_name(name: &[u8]) -> Result<(), Errno> {
    let is_acl = matches!(
        name,
        b"system.posix_acl_access" | b"system.posix_acl_default"
    );
    if name.starts_with(b"user.") || is_acl {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

/// What [`Request::Allocate`] does with a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocateMode {
    /// Allocates space, and extends the file if needed.
    Extend,
    /// Allocates space without changing the length.
    KeepSize,
    /// Makes a hole without changing the length.
    PunchHole,
    /// Writes zeros, and extends the file if needed.
    Zero,
    /// Writes zeros without changing the length.
    ZeroKeepSize,
}

/// What [`Request::Seek`] searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeekTarget {
    /// Data.
    Data,
    /// A hole. Every file has a hole at its end.
    Hole,
}

/// A node without contents that can be created. Devices are excluded, because they would give access
/// to the server's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without further information.
    Done,
    /// The attributes of an object.
    Attributes(Attributes),
    /// An object.
    Entry(Entry),
    /// A file, and whether the request created it.
    Created(Entry, bool),
    /// The target of a link, or the value of an extended attribute.
    Bytes(Vec<u8>),
    /// Names of extended attributes.
    Names(Vec<Vec<u8>>),
    /// A part of a directory.
    Listing(Listing),
    /// Number of bytes per segment. A read is short only at the end of the file. A short segment does
    /// not move the following segments in memory: each segment has a fixed place.
    Counts(Vec<u64>),
    /// Offset of the appended bytes in the file, and their number. The number is less than
    /// requested only if an error, such as a full disk, occurred in the middle.
    Appended(u64, u64),
    /// The total and free space of a file system.
    Space(Space),
    /// A position in a file.
    Offset(u64),
    /// The properties of an exported directory.
    Export(Export),
    /// The outcome for a lock. The first value is the number of the client's session. A session with another number
    /// has none of the locks of earlier sessions: the client locks them again with [`LockAction::Reclaim`].
    Lock(u64, LockOutcome),
}

impl Request {
    /// Returns the name of the operation, for people and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::GetAttr { .. } => "getattr",
            Self::SetAttr { .. } => "setattr",
            Self::Lookup { .. } => "lookup",
            Self::ReadLink { .. } => "readlink",
            Self::Commit { .. } => "commit",
            Self::Create { .. } => "create",
            Self::Remove { .. } => "remove",
            Self::Rename { .. } => "rename",
            Self::Symlink { .. } => "symlink",
            Self::Mkdir { .. } => "mkdir",
            Self::ReadDir { .. } => "readdir",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Link { .. } => "link",
            Self::StatFs { .. } => "statfs",
            Self::GetXattr { .. } => "getxattr",
            Self::ListXattr { .. } => "listxattr",
            Self::SetXattr { .. } => "setxattr",
            Self::RemoveXattr { .. } => "removexattr",
            Self::Allocate { .. } => "allocate",
            Self::Seek { .. } => "seek",
            Self::Append { .. } => "append",
            Self::MakeNode { .. } => "mknod",
            Self::Identify => "identify",
            Self::Hold { .. } => "hold",
            Self::Renew { .. } => "renew",
            Self::Lock { .. } => "lock",
            Self::KeepLocks { .. } => "keeplocks",
        }
    }

    /// Returns whether executing the request twice in a row gives the same reply and the same
    /// files.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Create { exclusive, .. } => !exclusive,
            Self::SetXattr { mode, .. } => *mode != XattrMode::Create,
            Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Symlink { .. }
            | Self::Mkdir { .. }
            | Self::Link { .. }
            | Self::RemoveXattr { .. }
            | Self::Append { .. }
            | Self::MakeNode { .. } => false,
            _ => true,
        }
    }

    /// Returns the handle of the object on which the request acts.
    pub fn handle_mut(&mut self) -> Option<&mut Handle> {
        match self {
            Self::GetAttr { handle }
            | Self::SetAttr { handle, .. }
            | Self::ReadLink { handle }
            | Self::Commit { handle, .. }
            | Self::ReadDir { handle, .. }
            | Self::Write { handle, .. }
            | Self::Read { handle, .. }
            | Self::Link { handle, .. }
            | Self::StatFs { handle }
            | Self::GetXattr { handle, .. }
            | Self::ListXattr { handle }
            | Self::SetXattr { handle, .. }
            | Self::RemoveXattr { handle, .. }
            | Self::Allocate { handle, .. }
            | Self::Seek { handle, .. }
            | Self::Append { handle, .. }
            | Self::Hold { handle, .. }
            | Self::Lock { handle, .. } => Some(handle),
            _ => None,
        }
    }

    /// Returns the places that the request names.
    pub fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Self::Rename { from, to, .. } => vec![from, to],
            Self::Link { place, .. }
            | Self::Lookup { place }
            | Self::Create { place, .. }
            | Self::Remove { place, .. }
            | Self::Symlink { place, .. }
            | Self::Mkdir { place, .. }
            | Self::MakeNode { place, .. } => vec![place],
            _ => Vec::new(),
        }
    }

    /// Returns all handles of the request: the handle of its object, and those of the directories of its places.
    pub fn handles_mut(&mut self) -> Vec<&mut Handle> {
        let is_by_handle = self.handle_mut().is_some();
        match self {
            Self::Link { handle, place } => vec![handle, &mut place.directory],
            Self::Renew { held, released, .. } => held.iter_mut().chain(released).collect(),
            request if is_by_handle => request.handle_mut().into_iter().collect(),
            request => {
                let places = request.places_mut().into_iter();
                places.map(|place| &mut place.directory).collect()
            }
        }
    }

    /// Returns whether the request changes files. A change of access times by a read does not count.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Null
                | Self::GetAttr { .. }
                | Self::Lookup { .. }
                | Self::ReadLink { .. }
                | Self::Commit { .. }
                | Self::ReadDir { .. }
                | Self::Read { .. }
                | Self::StatFs { .. }
                | Self::GetXattr { .. }
                | Self::ListXattr { .. }
                | Self::Seek { .. }
                | Self::Identify
                | Self::Hold { .. }
                | Self::Renew { .. }
                | Self::Lock { .. }
                | Self::KeepLocks { .. }
        )
    }

    /// Returns whether the request is about locks. One server has all locks of a file system.
    #[must_use]
    pub fn is_of_locks(&self) -> bool {
        matches!(self, Self::Lock { .. } | Self::KeepLocks { .. })
    }

    /// Returns the number of bytes that the caller writes with this request, if the request is valid.
    #[must_use]
    pub fn write_length(&self) -> u64 {
        match self {
            Self::Write { segments, .. } => total(segments).unwrap_or(0),
            Self::Append { length, .. } => *length,
            _ => 0,
        }
    }

    /// Returns the number of bytes of memory that the caller provides for this request, if the request
    /// is valid.
    #[must_use]
    pub fn read_length(&self) -> u64 {
        match self {
            Self::Read { segments, .. } => total(segments).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns the limit of the encoded reply in bytes: how much memory a carrier provides for it.
    #[must_use]
    pub fn reply_max(&self) -> usize {
        match self {
            Self::ReadDir { entries, .. } => {
                REPLY_MAX.min(HEAD_BYTES + *entries as usize * ENTRY_BYTES)
            }
            Self::ReadLink { .. } => HEAD_BYTES + PATH_MAX,
            Self::GetXattr { .. } => HEAD_BYTES + XATTR_MAX,
            // Linux ends each name by one byte, the encoding begins each with four.
            Self::ListXattr { .. } => HEAD_BYTES + 4 * XATTR_MAX,
            Self::Read { segments, .. } | Self::Write { segments, .. } => {
                HEAD_BYTES + 8 * segments.len()
            }
            _ => SMALL_REPLY,
        }
    }

    /// Checks everything that requires no file system. Every server calls this before it executes a
    /// request.
    ///
    /// # Errors
    ///
    /// `EINVAL` for invalid requests, `EFBIG` for a write or an allocation beyond the longest
    /// possible file, `E2BIG` or `ERANGE` for attributes that are too long.
    pub fn check(&self) -> Result<(), Errno> {
        match self {
            Self::SetAttr { set, .. } => check_attributes(set),
            Self::Create { mode, .. } | Self::Mkdir { mode, .. } | Self::MakeNode { mode, .. } => {
                check_mode(*mode)
            }
            Self::Symlink { target, .. } => check_target(target),
            Self::ReadDir { entries, .. } => require((1..=ENTRIES_MAX).contains(entries)),
            Self::Read { segments, .. } => check_segments(segments, Errno::EINVAL),
            Self::Write { segments, .. } => check_segments(segments, Errno::EFBIG),
            Self::Append { length, .. } => require(*length <= APPEND_MAX),
            Self::Allocate { segment, .. } => {
                require(segment.length > 0)?;
                check_end(*segment, Errno::EFBIG)
            }
            Self::Seek { offset, .. } => check_end(
                Segment {
                    offset: *offset,
                    length: 0,
                },
                Errno::ENXIO,
            ),
            Self::SetXattr { name, value, .. } => {
                if value.len() > XATTR_MAX {
                    return Err(Errno::E2BIG);
                }
                check_xattr(name)
            }
            Self::GetXattr { name, .. } | Self::RemoveXattr { name, .. } => check_xattr(name),
            Self::Lock {
                sequence,
                floor,
                lock,
                ..
            } => require(lock.first <= lock.last && floor <= sequence),
            Self::Renew { held, released, .. } => {
                require(held.len() <= HANDLES_MAX && released.len() <= HANDLES_MAX)
            }
            _ => Ok(()),
        }
    }
}

impl Caller {
    /// Checks the number of groups.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more than [`GROUPS_MAX`].
    pub fn check(&self) -> Result<(), Errno> {
        require(self.groups.len() <= GROUPS_MAX)
    }
}

impl Attributes {
    /// Attributes of nothing.
    #[cfg(feature = "mount")]
    pub(crate) const NONE: Self = {
        let zero = Timestamp {
            seconds: 0,
            nanoseconds: 0,
        };
        Self {
            kind: Kind::File,
            mode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            device: 0,
            filesystem: 0,
            file: 0,
            accessed: zero,
            modified: zero,
            changed: zero,
            born: zero,
            no_xattrs: false,
            is_settled: false,
        }
    };

    /// Returns whether the object is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// Returns the sum of the lengths; `None` if it does not fit in 64 bits.
fn total(segments: &[Segment]) -> Option<u64> {
    let mut lengths = segments.iter().map(|segment| segment.length);
    lengths.try_fold(0_u64, u64::checked_add)
}

fn require(holds: bool) -> Result<(), Errno> {
    if holds { Ok(()) } else { Err(Errno::EINVAL) }
}

fn check_mode(mode: u32) -> Result<(), Errno> {
    require(mode <= 0o7777)
}

fn check_attributes(set: &SetAttributes) -> Result<(), Errno> {
    let is_time = |time: Option<SetTime>| match time {
        Some(SetTime::To(Timestamp { nanoseconds, .. })) => nanoseconds < 1_000_000_000,
        _ => true,
    };
    require(is_time(set.accessed) && is_time(set.modified))?;
    // System calls interpret the highest id as "leave unchanged".
    require(set.uid != Some(u32::MAX) && set.gid != Some(u32::MAX))?;
    if let Some(size) = set.size {
        check_end(
            Segment {
                offset: 0,
                length: size,
            },
            Errno::EFBIG,
        )?;
    }
    set.mode.map_or(Ok(()), check_mode)
}

fn check_target(target: &[u8]) -> Result<(), Errno> {
    match target.len() {
        0 => Err(Errno::ENOENT),
        1..=4095 => require(!target.contains(&0)),
        _ => Err(Errno::ENAMETOOLONG),
    }
}

fn check_segments(segments: &[Segment], beyond: Errno) -> Result<(), Errno> {
    require(segments.len() <= SEGMENTS_MAX)?;
    require(total(segments).is_some_and(|total| total <= TRANSFER_MAX))?;
    segments
        .iter()
        .try_for_each(|&segment| check_end(segment, beyond))
}

/// Checks that the segment ends within 63 bits, the size of file offsets in Linux.
fn check_end(segment: Segment, beyond: Errno) -> Result<(), Errno> {
    match segment.offset.checked_add(segment.length) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(beyond),
    }
}

/// Checks the name of an extended attribute. The limit of 255 bytes is that of Linux.
fn check_xattr(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=255 => require(!name.contains(&0)),
        _ => Err(Errno::ERANGE),
    }
}
