//! Parts of requests and replies.

use std::fmt;

use crate::Path;

/// The name of an object at a server: 32 bytes that only the
/// server interprets.
///
/// The first 4 bytes are reserved for a layer that distributes requests among servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 32]);

impl Handle {
    /// The root of the exported directory. Always valid at every server.
    pub const ROOT: Self = Self([0; 32]);
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ROOT {
            return f.write_str("root");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Limit of the number of supplementary groups of a caller.
pub const GROUPS_MAX: usize = 256;

/// The user on whose behalf an operation is executed. The server's configuration decides how these
/// ids are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups, at most [`GROUPS_MAX`].
    pub groups: Vec<u32>,
}

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A time, relative to the start of 1970 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds to add to `seconds`, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The attributes of an object. All fields are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Type of the object.
    pub kind: Kind,
    /// Permission bits, including set-user-id, set-group-id and sticky: at most `0o7777`.
    pub mode: u32,
    /// Number of names (hard links).
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred size of a transfer in bytes.
    pub block_size: u32,
    /// The device number of a device node, as Linux numbers devices; 0 for other objects.
    pub device: u64,
    /// The number of the file system of the object.
    pub filesystem: u64,
    /// The number of the object in its file system.
    pub file: u64,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of the contents.
    pub modified: Timestamp,
    /// Time of the last change of contents or attributes.
    pub changed: Timestamp,
    /// Time of creation, which distinguishes the object from an earlier object with the same
    /// number. All zeros if the server's file system does not have it.
    pub born: Timestamp,
    /// True if the object has no extended attribute that requests may name
    /// ([`check_xattr_name`](crate::check_xattr_name)), and so no access control list. False if it
    /// may have some.
    pub no_xattrs: bool,
    /// True if the object did not change lately. Any later change then has another time of change.
    /// False if a second change may have the same time: file systems take times from a clock that
    /// moves in steps.
    pub is_settled: bool,
}

/// The new value of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetTime {
    /// The time of the server's clock.
    Now,
    /// The given time.
    To(Timestamp),
}

/// Changes of attributes; `None` leaves an attribute unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetAttributes {
    /// Permission bits, at most `0o7777`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes. A regular file is truncated, or extended by a hole.
    pub size: Option<u64>,
    /// Time of the last read.
    pub accessed: Option<SetTime>,
    /// Time of the last change of the contents.
    pub modified: Option<SetTime>,
}

/// An object that was looked up or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The handle.
    pub handle: Handle,
    /// The attributes.
    pub attributes: Attributes,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name: one component. Listings include `.` and `..`.
    pub name: Vec<u8>,
    /// Position behind this entry, from which a listing continues. Never 0, which starts a listing.
    pub cookie: u64,
    /// The number of the file in its file system.
    pub file: u64,
    /// Type of the object; `None` if the server's file system does not list it.
    pub kind: Option<Kind>,
    /// Handle and attributes of the object, if requested. `None` for `.` and `..`, and if the
    /// object was removed before the server looked it up.
    pub entry: Option<Entry>,
}

/// A part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the directory's own order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether this is the end of the directory.
    pub is_end: bool,
}

impl Listing {
    /// Removes entries whose names are not valid: empty, too long, or with a slash or a NUL byte. Returns their
    /// number. No program could use such a name, and the kernel rejects a whole listing with one.
    pub fn remove_invalid(&mut self) -> usize {
        let before = self.entries.len();
        self.entries.retain(|entry| match entry.name.as_slice() {
            b"." | b".." => true,
            name => Path::name(name).is_ok(),
        });
        before - self.entries.len()
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Start of the segment in the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// The properties of an exported directory, from the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Export {
    /// Name of the file system, which several servers may export coherently: changes through one
    /// server are visible at the others at once. A client may use any server with the same name in
    /// place of another. Empty if the server does not report a name; at most [`COHERENT_MAX`]
    /// bytes.
    pub coherent: Vec<u8>,
    /// Whether the server rejects changes.
    pub read_only: bool,
    /// Whether operations run as the caller, so that permissions apply to each user of a client.
    pub as_caller: bool,
    /// Whether an operation that is not idempotent runs only once, even if the server restarts
    /// before it replies.
    pub remembers: bool,
    /// A number that identifies the current boot of the server's machine. A reboot changes the
    /// number and loses uncommitted changes. Servers on one machine have the same number. 0 if the
    /// server does not report a number.
    pub boot: u64,
}

/// Limit of the name of a coherent file system, in bytes.
pub const COHERENT_MAX: usize = 255;

/// The total and free space of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of a block in bytes. A block is the unit of the next three fields.
    pub block_size: u64,
    /// Total number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that are available to ordinary users.
    pub blocks_available: u64,
    /// Total number of files.
    pub files: u64,
    /// Number of files that can still be created.
    pub files_free: u64,
    /// Limit of a name in bytes.
    pub name_max: u32,
}
