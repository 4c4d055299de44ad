//! What people read: names that cannot harm a terminal, FIDs, errors by name.

use std::fmt::{self, Write as _};

use crate::view::View;

/// The most characters of a name that are printed.
pub const NAME_MAX: usize = 255;

/// A NUL-terminated name as it came from the wire. It prints escaped, and at most [`NAME_MAX`] bytes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Returns the name in these bytes, up to the first NUL.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0);
        Self(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
    }

    /// Returns the bytes without the NUL.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns whether the name is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..NAME_MAX).unwrap_or(self.0);
        for chunk in shown.utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| escaped(f, c))?;
            chunk
                .invalid()
                .iter()
                .try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        match shown.len() < self.0.len() {
            true => f.write_char('…'),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Writes a character; control characters and those that change the direction of text are escaped.
fn escaped(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    match c {
        '\\' => f.write_str("\\\\"),
        c if c.is_control() || turns => write!(f, "{}", c.escape_default()),
        c => f.write_char(c),
    }
}

/// The identifier of an object or of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fid {
    /// The sequence.
    pub seq: u64,
    /// The object in the sequence.
    pub oid: u32,
    /// The version; 0 for files.
    pub ver: u32,
}

impl Fid {
    /// Reads a FID at an offset.
    #[must_use]
    pub fn read(view: View<'_>, at: usize) -> Option<Self> {
        Some(Self {
            seq: view.u64(at)?,
            oid: view.u32(at + 8)?,
            ver: view.u32(at + 12)?,
        })
    }

    /// Returns whether every part is 0, which names nothing.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.seq == 0 && self.oid == 0 && self.ver == 0
    }
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.seq, self.oid, self.ver)
    }
}

/// The identifier of an object of an OST, in one of its three readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// An object from before FIDs: its number.
    Old(u64),
    /// An old object inside a FID.
    Indexed {
        /// The index of the OST.
        ost: u16,
        /// The number of the object.
        object: u64,
    },
    /// A FID.
    Fid(Fid),
}

impl ObjectId {
    /// Reads an identifier at an offset.
    // [PTLRPC-9]
    #[must_use]
    pub fn read(view: View<'_>, at: usize) -> Option<Self> {
        let (first, second) = (view.u64(at)?, view.u64(at + 8)?);
        let fid = Fid::read(view, at)?;
        Some(match first {
            _ if second == 0 => Self::Old(first),
            0x1_0000_0000..=0x1_ffff_ffff => Self::Indexed {
                ost: (first >> 16) as u16,
                object: (first & 0xffff) << 32 | u64::from(fid.oid),
            },
            _ => Self::Fid(fid),
        })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(object) => write!(f, "object {object}"),
            Self::Indexed { ost, object } => write!(f, "object {object} of OST{ost:04x}"),
            Self::Fid(fid) => write!(f, "{fid}"),
        }
    }
}

/// The error numbers of Linux on x86, which Lustre sends whatever the machine.
const ERRORS: &[(u32, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLK"),
    (36, "ENAMETOOLONG"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (52, "EBADE"),
    (53, "EBADR"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (70, "ECOMM"),
    (71, "EPROTO"),
    (74, "EBADMSG"),
    (75, "EOVERFLOW"),
    (84, "EILSEQ"),
    (86, "ESTRPIPE"),
    (87, "EUSERS"),
    (95, "EOPNOTSUPP"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (107, "ENOTCONN"),
    (108, "ESHUTDOWN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (125, "ECANCELED"),
    (126, "ENOKEY"),
    (127, "EKEYEXPIRED"),
    (128, "EKEYREVOKED"),
    (129, "EKEYREJECTED"),
];

/// Returns the name of an error number, which may be negative as on the wire.
#[must_use]
pub fn errno_name(errno: i32) -> Option<&'static str> {
    let number = errno.unsigned_abs();
    let known = ERRORS.iter().find(|(known, _)| *known == number);
    known.map(|(_, name)| *name)
}

/// The status of a reply: 0, an error, a code of locks, or a count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub i32);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, errno_name(self.0)) {
            (0, _) => f.write_str("ok"),
            (status, Some(name)) if status < 0 => f.write_str(name),
            (status, _) => write!(f, "{status}"),
        }
    }
}

/// A release of Lustre as connect data names it: major, minor, patch and fix, one byte each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [fix, patch, minor, major] = self.0.to_le_bytes();
        write!(f, "{major}.{minor}.{patch}")?;
        match fix {
            0 => Ok(()),
            fix => write!(f, ".{fix}"),
        }
    }
}
