//! Encoding of requests and replies.
//!
//! ```text
//! request   version 1, operation 1, caller, fields          reply   errno 2 (0: done), what 1, fields
//! ```
//!
//! Numbers are little-endian. A list is its length (4 bytes) followed by its elements. A byte string
//! is a list of bytes. An optional value is 0, or 1 followed by the value. A truth value is 0 or 1.
//! The tables in this file list the fields in order, and macros generate both directions from the
//! tables. A value has exactly one encoding, so decoded bytes encode to the same bytes. The contents
//! of files are not part of the encoding: the carrier moves them separately.
//!
//! Decoding cannot panic, and its use of memory is proportional to the message. The carrier limits
//! the length of messages to [`REQUEST_MAX`] and [`REPLY_MAX`].

use thiserror::Error;

use crate::{
    AllocateMode, Attributes, Caller, DirectoryEntry, Entry, Errno, Export, Handle, Kind, Listing,
    Lock, LockAction, LockOutcome, Node, Path, Place, RenameMode, Reply, Request, SeekTarget,
    Segment, SetAttributes, SetTime, Space, Timestamp, XattrMode,
};

/// The version of the protocol. A server with another version replies `EPROTONOSUPPORT`.
pub const VERSION: u8 = 3;
/// Limit of a request in bytes: enough for the longest value of an extended attribute with all other
/// fields, and more than two paths need.
pub const REQUEST_MAX: usize = 72 << 10;
/// Limit of a reply in bytes: a listing of [`ENTRIES_MAX`](crate::ENTRIES_MAX) objects with the
/// longest names.
pub const REPLY_MAX: usize = 512 << 10;

/// Why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The message ends too early.
    #[error("the message ends within a field")]
    Short,
    /// The message continues behind its last field.
    #[error("the message has bytes after its last field")]
    Long,
    /// A field has an invalid value.
    #[error("a field has an invalid value")]
    Field,
    /// The message has another version of the protocol.
    #[error("the message has version {0} of the protocol, not version {VERSION}")]
    Version(u8),
    /// A value breaks a rule that has an error of its own.
    #[error("{}", .0.desc())]
    Rule(Errno),
}

impl Malformed {
    /// Returns the error that a server replies.
    #[must_use]
    pub fn errno(self) -> Errno {
        match self {
            Self::Short | Self::Long | Self::Field => Errno::EPROTO,
            Self::Version(_) => Errno::EPROTONOSUPPORT,
            Self::Rule(errno) => errno,
        }
    }
}

/// Encodes a request.
#[must_use]
pub fn encode_request(caller: &Caller, request: &Request) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    request.put(&mut bytes);
    caller.put(&mut bytes);
    bytes
}

/// Decodes a request and checks everything that requires no file system.
///
/// # Errors
///
/// What is wrong with the message; [`Malformed::errno`] is the reply to the caller.
pub fn decode_request(bytes: &[u8]) -> Result<(Caller, Request), Malformed> {
    let mut rest = bytes;
    match u8::take(&mut rest)? {
        VERSION => {}
        other => return Err(Malformed::Version(other)),
    }
    let request = Request::take(&mut rest)?;
    let caller = Caller::take(&mut rest)?;
    end(rest)?;
    request.check().map_err(Malformed::Rule)?;
    caller.check().map_err(Malformed::Rule)?;
    Ok((caller, request))
}

/// Encodes a reply.
#[must_use]
pub fn encode_reply(reply: &Result<Reply, Errno>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match reply {
        Ok(reply) => {
            0_u16.put(&mut bytes);
            reply.put(&mut bytes);
        }
        // The error numbers of Linux have at most 12 bits.
        Err(errno) => (*errno as i32 as u16).put(&mut bytes),
    }
    bytes
}

/// Decodes a reply.
///
/// # Errors
///
/// What is wrong with the message.
pub fn decode_reply(bytes: &[u8]) -> Result<Result<Reply, Errno>, Malformed> {
    let mut rest = bytes;
    let reply = match u16::take(&mut rest)? {
        0 => Ok(Reply::take(&mut rest)?),
        // An error number that this system does not know is still an error: report `EIO`.
        number => match Errno::from_raw(i32::from(number)) {
            Errno::UnknownErrno => Err(Errno::EIO),
            errno => Err(errno),
        },
    };
    end(rest)?;
    Ok(reply)
}

/// Decodes arbitrary bytes as both kinds of message, and asserts that no decoder panics and that
/// decoded bytes encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_messages(bytes: &[u8]) {
    if let Ok((caller, request)) = decode_request(bytes) {
        assert_eq!(encode_request(&caller, &request), bytes);
    }
    if let Ok(reply) = decode_reply(bytes)
        && reply != Err(Errno::EIO)
    {
        assert_eq!(encode_reply(&reply), bytes);
    }
}

fn end(rest: &[u8]) -> Result<(), Malformed> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Malformed::Long)
    }
}

/// A type with an encoding.
trait Wire: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
                Ok(Self::from_le_bytes(take_array(rest)?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i64);

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (array, behind) = rest.split_first_chunk().ok_or(Malformed::Short)?;
    *rest = behind;
    Ok(*array)
}

impl Wire for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        u8::from(*self).put(bytes);
    }
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        match u8::take(rest)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Field),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.is_some().put(bytes);
        if let Some(value) = self {
            value.put(bytes);
        }
    }
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(if bool::take(rest)? {
            Some(T::take(rest)?)
        } else {
            None
        })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        // A list with more elements than 32 bits can count is longer than any message allows, so the
        // wrong length is never sent.
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(bytes);
        self.iter().for_each(|element| element.put(bytes));
    }
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::take(rest)? as usize;
        // Each element has at least one byte, so the list cannot fit.
        if length > rest.len() {
            return Err(Malformed::Short);
        }
        (0..length).map(|_| T::take(rest)).collect()
    }
}

impl Wire for Handle {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0);
    }
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(Self(take_array(rest)?))
    }
}

impl Wire for Path {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().to_vec().put(bytes);
    }
    fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        Path::new(&Vec::take(rest)?).map_err(Malformed::Rule)
    }
}

/// Generates the encoding of structures from their fields, in the order of the wire.
macro_rules! structures {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Wire for $name {
            fn put(&self, bytes: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(bytes);)*
            }
            fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
                $(let $field = Wire::take(rest)?;)*
                Ok(Self { $($field),* })
            }
        }
    )*};
}

/// Generates the encoding of enumerations: the number of each variant, and its fields in order.
macro_rules! choices {
    ($($name:ident { $($number:literal $variant:ident $({ $($field:ident),* })? $(( $($value:ident),* ))?)* })*) => {$(
        impl Wire for $name {
            fn put(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(( $($value),* ))? => {
                        ($number as u8).put(bytes);
                        $($($field.put(bytes);)*)?
                        $($($value.put(bytes);)*)?
                    })*
                }
            }
            fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
                match u8::take(rest)? {
                    $($number => {
                        $($(let $field = Wire::take(rest)?;)*)?
                        $($(let $value = Wire::take(rest)?;)*)?
                        Ok(Self::$variant $({ $($field),* })? $(( $($value),* ))?)
                    })*
                    _ => Err(Malformed::Field),
                }
            }
        }
    )*};
}

structures! {
    Caller { uid, gid, groups }
    Place { directory, path }
    Timestamp { seconds, nanoseconds }
    Attributes {
        kind, mode, links, uid, gid, size, blocks, block_size, device, filesystem, file, accessed, modified, changed,
        born, no_xattrs, is_settled
    }
    SetAttributes { mode, uid, gid, size, accessed, modified }
    Entry { handle, attributes }
    DirectoryEntry { name, cookie, file, kind, entry }
    Listing { entries, is_end }
    Segment { offset, length }
    Lock { owner, process, is_exclusive, first, last }
    Export { coherent, read_only, as_caller, remembers, boot }
    Space { block_size, blocks, blocks_free, blocks_available, files, files_free, name_max }
}

choices! {
    // Number 12, resize, is left out, because setattr includes it.
    Request {
        0 Null
        1 GetAttr { handle }
        2 SetAttr { handle, set }
        3 Lookup { place }
        4 ReadLink { handle }
        5 Commit { handle, data_only }
        6 Create { place, mode, exclusive }
        7 Remove { place, directory }
        8 Rename { from, to, mode }
        9 Symlink { place, target }
        10 Mkdir { place, mode }
        11 ReadDir { handle, cookie, entries, objects }
        13 Write { handle, segments }
        14 Read { handle, segments }
        15 Link { handle, place }
        16 StatFs { handle }
        17 GetXattr { handle, name }
        18 ListXattr { handle }
        19 SetXattr { handle, name, value, mode }
        20 RemoveXattr { handle, name }
        21 Allocate { handle, mode, segment }
        22 Seek { handle, offset, target }
        23 Append { handle, length }
        24 MakeNode { place, node, mode }
        25 Identify
        26 Hold { holder, handle }
        27 Renew { holder, held, released }
        28 Lock { holder, sequence, floor, handle, action, lock }
        29 KeepLocks { holder }
    }
    Reply {
        0 Done
        1 Attributes(attributes)
        2 Entry(entry)
        3 Created(entry, is_new)
        4 Bytes(bytes)
        5 Names(names)
        6 Listing(listing)
        7 Counts(counts)
        8 Appended(offset, length)
        9 Space(space)
        10 Offset(offset)
        11 Export(export)
        12 Lock(session, outcome)
    }
    Kind {
        1 File
        2 Directory
        3 Symlink
        4 CharacterDevice
        5 BlockDevice
        6 Fifo
        7 Socket
    }
    SetTime {
        0 Now
        1 To(time)
    }
    RenameMode {
        0 Replace
        1 Keep
        2 Exchange
    }
    XattrMode {
        0 Any
        1 Create
        2 Replace
    }
    AllocateMode {
        0 Extend
        1 KeepSize
        2 PunchHole
        3 Zero
        4 ZeroKeepSize
    }
    SeekTarget {
        0 Data
        1 Hole
    }
    Node {
        0 Fifo
        1 Socket
    }
    LockAction {
        0 Try
        1 Wait
        2 Reclaim
        3 Release
        4 Test
    }
    LockOutcome {
        0 Done
        1 Blocked(lock, is_own)
        2 Later
    }
}

#[cfg(test)]
mod tests;
