//! What can be asked of a file system, and what comes back.

use crate::{
    Attributes, Caller, Entry, Errno, Export, GROUPS_MAX, Handle, Kind, Listing, Place, Segment,
    SetAttributes, SetTime, Space, Timestamp,
};

/// Most segments of a read or write.
pub const SEGMENTS_MAX: usize = 1024;
/// Most bytes of one read or write: what BMI carries in one message (bmi-zoid specification, section 1.6).
pub const TRANSFER_MAX: u64 = 128 << 20;
/// Most bytes of one append, which every server must hold in memory to write them in one go.
pub const APPEND_MAX: u64 = 4 << 20;
/// Most entries of one listing.
pub const ENTRIES_MAX: u32 = 1024;
/// Longest value of an extended attribute, and longest list of their names, as in Linux.
pub const XATTR_MAX: usize = 65536;

/// An operation.
///
/// The numbers of the operations are those of the bmi-zoid specification, section 6.1, as far as there are
/// any; `resize` is [`Request::SetAttr`] with a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A round trip. → [`Reply::Done`]
    Null,
    /// What is known of an object; a symbolic link is not followed. → [`Reply::Attributes`]
    GetAttr {
        /// The object.
        handle: Handle,
    },
    /// Changes attributes, in the order size, owner and group, permission bits, times. Where one is refused,
    /// those before it may have changed. → [`Reply::Attributes`]
    SetAttr {
        /// The object.
        handle: Handle,
        /// What to change.
        set: SetAttributes,
    },
    /// Finds an object by name. → [`Reply::Entry`]
    Lookup {
        /// Where it is.
        place: Place,
    },
    /// The target of a symbolic link. → [`Reply::Bytes`]
    ReadLink {
        /// The link.
        handle: Handle,
    },
    /// Brings a file or directory to the disk. → [`Reply::Done`]
    Commit {
        /// The object.
        handle: Handle,
        /// Without the attributes that are not needed to read the content back.
        data_only: bool,
    },
    /// Makes a regular file. Where there is one already and `exclusive` is not set, that is the result.
    /// → [`Reply::Created`]
    Create {
        /// Where.
        place: Place,
        /// Permission bits of a new file.
        mode: u32,
        /// An existing file is `EEXIST`.
        exclusive: bool,
    },
    /// Removes a name: that of an empty directory, or of anything else. → [`Reply::Done`]
    Remove {
        /// The name.
        place: Place,
        /// What is expected there: `true` for a directory (else `ENOTDIR`), `false` for anything else
        /// (else `EISDIR`), `None` for either.
        directory: Option<bool>,
    },
    /// Gives an object another name. → [`Reply::Done`]
    Rename {
        /// Its name.
        from: Place,
        /// Its new name.
        to: Place,
        /// What happens to an object that has the new name.
        mode: RenameMode,
    },
    /// Makes a symbolic link. → [`Reply::Entry`]
    Symlink {
        /// Where.
        place: Place,
        /// What it holds: 1 to 4095 bytes without NUL, which no server interprets.
        target: Vec<u8>,
    },
    /// Makes a directory. → [`Reply::Entry`]
    Mkdir {
        /// Where.
        place: Place,
        /// Permission bits.
        mode: u32,
    },
    /// Lists a part of a directory. → [`Reply::Listing`]
    ReadDir {
        /// The directory.
        handle: Handle,
        /// 0, or the cookie of the entry to go on behind.
        cookie: u64,
        /// Most entries, 1 to [`ENTRIES_MAX`].
        entries: u32,
        /// Whether the objects come with their names.
        objects: bool,
    },
    /// Writes to a file; the bytes come as [`crate::Data::Write`]. → [`Reply::Counts`]
    Write {
        /// The file.
        handle: Handle,
        /// Where to.
        segments: Vec<Segment>,
    },
    /// Reads from a file into [`crate::Data::Read`]. → [`Reply::Counts`]
    Read {
        /// The file.
        handle: Handle,
        /// Where from.
        segments: Vec<Segment>,
    },
    /// Gives an object that is no directory one more name. → [`Reply::Entry`]
    Link {
        /// The object.
        handle: Handle,
        /// The name.
        place: Place,
    },
    /// How full the file system of an object is. → [`Reply::Space`]
    StatFs {
        /// The object.
        handle: Handle,
    },
    /// The value of an extended attribute. → [`Reply::Bytes`]
    GetXattr {
        /// The object.
        handle: Handle,
        /// Name of the attribute with its namespace: `user.mime_type`.
        name: Vec<u8>,
    },
    /// The names of the extended attributes. → [`Reply::Names`]
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
        /// Its value, at most [`XATTR_MAX`] bytes.
        value: Vec<u8>,
        /// Whether it may or must exist.
        mode: XattrMode,
    },
    /// Removes an extended attribute. → [`Reply::Done`]
    RemoveXattr {
        /// The object.
        handle: Handle,
        /// Name of the attribute.
        name: Vec<u8>,
    },
    /// Takes or gives back space of a file. → [`Reply::Done`]
    Allocate {
        /// The file.
        handle: Handle,
        /// What to do.
        mode: AllocateMode,
        /// The part of the file; not empty.
        segment: Segment,
    },
    /// The next data or hole of a file. → [`Reply::Offset`]
    Seek {
        /// The file.
        handle: Handle,
        /// Where to begin.
        offset: u64,
        /// What to look for; `ENXIO` where there is none, or at and behind the end of the file.
        target: SeekTarget,
    },
    /// Writes at the end of a file, wherever that is by then; the bytes come as [`crate::Data::Write`].
    /// → [`Reply::Appended`]
    Append {
        /// The file.
        handle: Handle,
        /// How many bytes, at most [`APPEND_MAX`].
        length: u64,
    },
    /// Makes a named pipe or a socket. → [`Reply::Entry`]
    MakeNode {
        /// Where.
        place: Place,
        /// Which of the two.
        node: Node,
        /// Permission bits.
        mode: u32,
    },
    /// What the server says of the directory that it serves. → [`Reply::Export`]
    Identify,
}

/// What happens to an object that has the new name of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenameMode {
    /// It goes, where it is of the same kind (an empty directory for a directory).
    Replace,
    /// It stays, and renaming ends with `EEXIST`.
    Keep,
    /// It takes the old name; it must exist.
    Exchange,
}

/// Whether an extended attribute may or must exist before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XattrMode {
    /// Either.
    Any,
    /// It must not: `EEXIST`.
    Create,
    /// It must: `ENODATA`.
    Replace,
}

/// What becomes of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocateMode {
    /// It gets space, and the file becomes as long as needed.
    Extend,
    /// It gets space; the length stays.
    KeepSize,
    /// It becomes a hole; the length stays.
    PunchHole,
    /// It becomes zeros, and the file as long as needed.
    Zero,
    /// It becomes zeros; the length stays.
    ZeroKeepSize,
}

/// What to look for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeekTarget {
    /// Data.
    Data,
    /// A hole; there is one at the end of every file.
    Hole,
}

/// Nodes without content that can be made. Devices cannot: they would give access to the server's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// What comes back from a request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to say.
    Done,
    /// What is known of an object.
    Attributes(Attributes),
    /// An object.
    Entry(Entry),
    /// A file, and whether it is new.
    Created(Entry, bool),
    /// The target of a link, or the value of an attribute.
    Bytes(Vec<u8>),
    /// Names of attributes.
    Names(Vec<Vec<u8>>),
    /// A part of a directory.
    Listing(Listing),
    /// Bytes done of each segment. A read is short at the end of the file only; each segment has its own
    /// place in memory, which a short segment before it does not move.
    Counts(Vec<u64>),
    /// Where in the file the appended bytes begin, and how many they are: less than all only where an error
    /// such as a full disk stopped it in the middle.
    Appended(u64, u64),
    /// How full a file system is.
    Space(Space),
    /// A position in a file.
    Offset(u64),
    /// What a server says of its directory.
    Export(Export),
}

impl Request {
    /// The name of the operation, for people and for metrics.
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
        }
    }

    /// Whether carrying the request out twice in a row gives the same reply and leaves the same files.
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

    /// Whether the request changes files. Reading changes times of access only.
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
        )
    }

    /// Bytes that the caller writes with this request, as far as the request is valid.
    #[must_use]
    pub fn write_length(&self) -> u64 {
        match self {
            Self::Write { segments, .. } => total(segments).unwrap_or(0),
            Self::Append { length, .. } => *length,
            _ => 0,
        }
    }

    /// Bytes that the caller has room for with this request, as far as the request is valid.
    #[must_use]
    pub fn read_length(&self) -> u64 {
        match self {
            Self::Read { segments, .. } => total(segments).unwrap_or(0),
            _ => 0,
        }
    }

    /// Checks what needs no file system to be checked. Every server does before it carries a request out.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what is never valid, `EFBIG` for a write or an allocation that would end behind the
    /// longest file that there can be, `E2BIG` or `ERANGE` for attributes that are too long.
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
            _ => Ok(()),
        }
    }
}

impl Caller {
    /// Checks the number of groups.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are more than [`GROUPS_MAX`].
    pub fn check(&self) -> Result<(), Errno> {
        require(self.groups.len() <= GROUPS_MAX)
    }
}

impl Attributes {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// The sum of the lengths; `None` where it has no 64 bits.
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
    // The highest id means "leave it" to the system calls.
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

/// File offsets have 63 bits in Linux.
fn check_end(segment: Segment, beyond: Errno) -> Result<(), Errno> {
    match segment.offset.checked_add(segment.length) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(beyond),
    }
}

/// 255 bytes is the limit of Linux.
fn check_xattr(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=255 => require(!name.contains(&0)),
        _ => Err(Errno::ERANGE),
    }
}
