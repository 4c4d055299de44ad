//! What requests and replies are made of.

use std::fmt;

/// Names an object at a server: 32 bytes (bmi-zoid specification, section 6.1), opaque to everyone else.
///
/// The first 4 bytes are reserved for whoever distributes requests among servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 32]);

impl Handle {
    /// The root of what a server exports. Valid at every server, always.
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

/// Most supplementary groups of a caller.
pub const GROUPS_MAX: usize = 256;

/// On whose behalf an operation is made. What a server makes of it is the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups, at most [`GROUPS_MAX`].
    pub groups: Vec<u32>,
}

/// What kind of thing a name stands for.
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

/// A time since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds behind them, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What is known of an object. All fields are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, with set-user-id, set-group-id and sticky: `0o7777` at most.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred size of a transfer in bytes.
    pub block_size: u32,
    /// Which device a device node stands for, as Linux numbers devices; 0 for all else.
    pub device: u64,
    /// The file system that it is in.
    pub filesystem: u64,
    /// Its number there.
    pub file: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of content or attributes.
    pub changed: Timestamp,
    /// When it was made. Tells it from an object that had the same number before. All 0 where the server's file
    /// system does not say.
    pub born: Timestamp,
}

/// What a time is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetTime {
    /// The server's clock.
    Now,
    /// This.
    To(Timestamp),
}

/// Attributes to be changed; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetAttributes {
    /// Permission bits, `0o7777` at most.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: a regular file is cut or extended by a hole.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the content.
    pub modified: Option<SetTime>,
}

/// An object that was looked up or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its handle.
    pub handle: Handle,
    /// What is known of it.
    pub attributes: Attributes,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// One component; `.` and `..` are listed too.
    pub name: Vec<u8>,
    /// Where to go on behind this entry. Never 0, which is the beginning.
    pub cookie: u64,
    /// The number of the file in its file system.
    pub file: u64,
    /// What it is; `None` where the server's file system does not say without a look at it.
    pub kind: Option<Kind>,
    /// The object itself, where that was asked for: never with `.` and `..`, nor where it went meanwhile.
    pub entry: Option<Entry>,
}

/// A part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the directory's own order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether the directory ends here.
    pub is_end: bool,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Where it begins.
    pub offset: u64,
    /// Bytes in it.
    pub length: u64,
}

/// What a server says of the directory that it serves. Each field is the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Export {
    /// The name of the file system that several servers show coherently: what one has changed, the others show at
    /// once. Servers with the same name may take each other's place. Empty where the server does not say so;
    /// else at most [`COHERENT_MAX`] bytes.
    pub coherent: Vec<u8>,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Operations run as the caller, so that permissions hold for each user of a client.
    pub as_caller: bool,
    /// What is not idempotent runs once, also where the server is restarted before it has answered.
    pub remembers: bool,
    /// Which start of the server's machine this is: another one has lost what was not committed. Servers on one machine
    /// have the same. 0 where the server does not say.
    pub boot: u64,
}

/// Longest name of a coherent file system in bytes.
pub const COHERENT_MAX: usize = 255;

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block: the unit of the three below.
    pub block_size: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that an ordinary user may take.
    pub blocks_available: u64,
    /// Files that there can be in all.
    pub files: u64,
    /// Files that there can still be.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}
