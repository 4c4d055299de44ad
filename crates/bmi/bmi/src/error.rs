//! BMI's errors and their numbers.
//!
//! ```text
//!  bit   31   30    29   28 ....... 8   7   6 ... 0
//!       sign  BMI  not                BMI    number     errno-like: 1 to 59, bits 30 and 7
//!             bit  errno              bit               others:     1 to 7, bit 29 too
//! ```
//!
//! The numbers are not those of the operating system: EINVAL is 15 here. Rust code uses values of [`Error`].
//! The C interface uses negative numbers, as the results of calls and as the error codes of operations.

use std::fmt;
use std::io;

/// Why a call or an operation failed. The names are BMI's.
///
/// ```
/// use bmi::Error;
///
/// assert_eq!(Error::Inval.number(), 15 | 1 << 30 | 1 << 7);
/// assert_eq!(Error::from_number(Error::Inval.code()), Some(Error::Inval));
/// assert_eq!(Error::Inval.name(), "BMI_EINVAL");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum Error {
    /// `BMI_EPERM`: operation not permitted.
    Perm = errno(1),
    /// `BMI_ENOENT`: no such entry.
    NoEnt = errno(2),
    /// `BMI_EINTR`: interrupted.
    Intr = errno(3),
    /// `BMI_EIO`: input or output failed.
    Io = errno(4),
    /// `BMI_ENXIO`: no such device or address.
    Nxio = errno(5),
    /// `BMI_EBADF`: bad descriptor.
    BadF = errno(6),
    /// `BMI_EAGAIN`: try again.
    Again = errno(7),
    /// `BMI_ENOMEM`: out of memory.
    NoMem = errno(8),
    /// `BMI_EFAULT`: bad memory address.
    Fault = errno(9),
    /// `BMI_EBUSY`: busy.
    Busy = errno(10),
    /// `BMI_EEXIST`: exists already.
    Exist = errno(11),
    /// `BMI_ENODEV`: no such device.
    NoDev = errno(12),
    /// `BMI_ENOTDIR`: not a directory.
    NotDir = errno(13),
    /// `BMI_EISDIR`: is a directory.
    IsDir = errno(14),
    /// `BMI_EINVAL`: invalid argument.
    Inval = errno(15),
    /// `BMI_EMFILE`: too many open files.
    MFile = errno(16),
    /// `BMI_EFBIG`: file too large.
    FBig = errno(17),
    /// `BMI_ENOSPC`: no space left.
    NoSpc = errno(18),
    /// `BMI_EROFS`: read-only file system.
    RoFs = errno(19),
    /// `BMI_EMLINK`: too many links.
    MLink = errno(20),
    /// `BMI_EPIPE`: broken pipe.
    Pipe = errno(21),
    /// `BMI_EDEADLK`: would deadlock.
    DeadLk = errno(22),
    /// `BMI_ENAMETOOLONG`: name too long.
    NameTooLong = errno(23),
    /// `BMI_ENOLCK`: no locks available.
    NoLck = errno(24),
    /// `BMI_ENOSYS`: not implemented.
    NoSys = errno(25),
    /// `BMI_ENOTEMPTY`: not empty.
    NotEmpty = errno(26),
    /// `BMI_ELOOP`: too many symbolic links.
    Loop = errno(27),
    /// `BMI_EWOULDBLOCK`: would block.
    WouldBlock = errno(28),
    /// `BMI_ENOMSG`: no such message.
    NoMsg = errno(29),
    /// `BMI_EUNATCH`: protocol driver not attached.
    Unatch = errno(30),
    /// `BMI_EBADR`: bad request descriptor.
    BadR = errno(31),
    /// `BMI_EDEADLOCK`: deadlock.
    DeadLock = errno(32),
    /// `BMI_ENODATA`: no data.
    NoData = errno(33),
    /// `BMI_ETIME`: timer expired.
    Time = errno(34),
    /// `BMI_ENONET`: not on the network.
    NoNet = errno(35),
    /// `BMI_EREMOTE`: is remote.
    Remote = errno(36),
    /// `BMI_ECOMM`: communication failed on send.
    Comm = errno(37),
    /// `BMI_EPROTO`: protocol error.
    Proto = errno(38),
    /// `BMI_EBADMSG`: bad message.
    BadMsg = errno(39),
    /// `BMI_EOVERFLOW`: value too large.
    Overflow = errno(40),
    /// `BMI_ERESTART`: restart the call.
    Restart = errno(41),
    /// `BMI_EMSGSIZE`: message size exceeds the limit or the buffer.
    MsgSize = errno(42),
    /// `BMI_EPROTOTYPE`: wrong protocol type.
    Prototype = errno(43),
    /// `BMI_ENOPROTOOPT`: protocol not available.
    NoProtoOpt = errno(44),
    /// `BMI_EPROTONOSUPPORT`: protocol not supported.
    ProtoNoSupport = errno(45),
    /// `BMI_EOPNOTSUPP`: operation not supported.
    OpNotSupp = errno(46),
    /// `BMI_EADDRINUSE`: address in use.
    AddrInUse = errno(47),
    /// `BMI_EADDRNOTAVAIL`: address not available.
    AddrNotAvail = errno(48),
    /// `BMI_ENETDOWN`: the interface is not initialised or was finalized.
    NetDown = errno(49),
    /// `BMI_ENETUNREACH`: network unreachable.
    NetUnreach = errno(50),
    /// `BMI_ENETRESET`: connection reset by the network.
    NetReset = errno(51),
    /// `BMI_ENOBUFS`: no buffer space.
    NoBufs = errno(52),
    /// `BMI_ETIMEDOUT`: timed out.
    TimedOut = errno(53),
    /// `BMI_ECONNREFUSED`: connection refused.
    ConnRefused = errno(54),
    /// `BMI_EHOSTDOWN`: host is down.
    HostDown = errno(55),
    /// `BMI_EHOSTUNREACH`: host unreachable.
    HostUnreach = errno(56),
    /// `BMI_EALREADY`: in progress already.
    Already = errno(57),
    /// `BMI_EACCES`: permission denied.
    Acces = errno(58),
    /// `BMI_ECONNRESET`: connection reset by the peer.
    ConnReset = errno(59),
    /// `BMI_ECANCEL`: cancelled.
    Cancel = other(1),
    /// `BMI_EDEVINIT`: device initialisation failed.
    DevInit = other(2),
    /// `BMI_EDETAIL`: see the detailed error.
    Detail = other(3),
    /// `BMI_EHOSTNTFD`: host not found.
    HostNtFd = other(4),
    /// `BMI_EADDRNTFD`: address not found.
    AddrNtFd = other(5),
    /// `BMI_ENORECVR`: no receiver.
    NoRecvr = other(6),
    /// `BMI_ETRYAGAIN`: try again later.
    TryAgain = other(7),
}

/// The bits that every BMI error number has.
const ERROR_BITS: i32 = 1 << 30 | 1 << 7;
/// The additional bit of errors that the operating system does not have.
const NON_ERRNO_BIT: i32 = 1 << 29;

const fn errno(number: i32) -> i32 {
    number | ERROR_BITS
}

const fn other(number: i32) -> i32 {
    number | ERROR_BITS | NON_ERRNO_BIT
}

// [BMI-29]
impl Error {
    /// Every error, in the order of the numbers.
    pub const ALL: [Error; 66] = [
        Error::Perm,
        Error::NoEnt,
        Error::Intr,
        Error::Io,
        Error::Nxio,
        Error::BadF,
        Error::Again,
        Error::NoMem,
        Error::Fault,
        Error::Busy,
        Error::Exist,
        Error::NoDev,
        Error::NotDir,
        Error::IsDir,
        Error::Inval,
        Error::MFile,
        Error::FBig,
        Error::NoSpc,
        Error::RoFs,
        Error::MLink,
        Error::Pipe,
        Error::DeadLk,
        Error::NameTooLong,
        Error::NoLck,
        Error::NoSys,
        Error::NotEmpty,
        Error::Loop,
        Error::WouldBlock,
        Error::NoMsg,
        Error::Unatch,
        Error::BadR,
        Error::DeadLock,
        Error::NoData,
        Error::Time,
        Error::NoNet,
        Error::Remote,
        Error::Comm,
        Error::Proto,
        Error::BadMsg,
        Error::Overflow,
        Error::Restart,
        Error::MsgSize,
        Error::Prototype,
        Error::NoProtoOpt,
        Error::ProtoNoSupport,
        Error::OpNotSupp,
        Error::AddrInUse,
        Error::AddrNotAvail,
        Error::NetDown,
        Error::NetUnreach,
        Error::NetReset,
        Error::NoBufs,
        Error::TimedOut,
        Error::ConnRefused,
        Error::HostDown,
        Error::HostUnreach,
        Error::Already,
        Error::Acces,
        Error::ConnReset,
        Error::Cancel,
        Error::DevInit,
        Error::Detail,
        Error::HostNtFd,
        Error::AddrNtFd,
        Error::NoRecvr,
        Error::TryAgain,
    ];

    /// Returns the number as the C macro of this name has it: positive.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Returns the number as functions and operations of the C interface return it: negative.
    #[must_use]
    pub const fn code(self) -> i32 {
        -self.number()
    }

    /// Returns the error of a number of either sign.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Error> {
        let positive = number.checked_abs()?;
        Error::ALL
            .into_iter()
            .find(|error| error.number() == positive)
    }

    /// Returns the name of the C macro.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the BMI error for an errno number of the operating system, if BMI has one.
    ///
    /// Numbers that Linux gives to two names (EWOULDBLOCK, EDEADLOCK) map to the first. Five BMI errors
    /// (EUNATCH, EBADR, ENONET, ECOMM, ERESTART) are the image of no errno number.
    #[must_use]
    pub fn from_errno(number: i32) -> Option<Error> {
        ERRNO
            .iter()
            .find(|(host, _)| *host == number)
            .map(|&(_, error)| error)
    }

    /// Returns the macro and its meaning.
    const fn words(self) -> (&'static str, &'static str) {
        let number = self.number();
        let first = if number & NON_ERRNO_BIT == 0 {
            0
        } else {
            ERRNO_COUNT
        };
        WORDS[first + (number & 0x7f) as usize - 1]
    }
}

/// The number of errno-like errors.
const ERRNO_COUNT: usize = 59;

/// The macro of each error and its meaning, in the order of [`Error::ALL`].
const WORDS: [(&str, &str); 66] = [
    ("BMI_EPERM", "operation not permitted"),
    ("BMI_ENOENT", "no such entry"),
    ("BMI_EINTR", "interrupted"),
    ("BMI_EIO", "input or output failed"),
    ("BMI_ENXIO", "no such device or address"),
    ("BMI_EBADF", "bad descriptor"),
    ("BMI_EAGAIN", "try again"),
    ("BMI_ENOMEM", "out of memory"),
    ("BMI_EFAULT", "bad memory address"),
    ("BMI_EBUSY", "busy"),
    ("BMI_EEXIST", "exists already"),
    ("BMI_ENODEV", "no such device"),
    ("BMI_ENOTDIR", "not a directory"),
    ("BMI_EISDIR", "is a directory"),
    ("BMI_EINVAL", "invalid argument"),
    ("BMI_EMFILE", "too many open files"),
    ("BMI_EFBIG", "file too large"),
    ("BMI_ENOSPC", "no space left"),
    ("BMI_EROFS", "read-only file system"),
    ("BMI_EMLINK", "too many links"),
    ("BMI_EPIPE", "broken pipe"),
    ("BMI_EDEADLK", "would deadlock"),
    ("BMI_ENAMETOOLONG", "name too long"),
    ("BMI_ENOLCK", "no locks available"),
    ("BMI_ENOSYS", "not implemented"),
    ("BMI_ENOTEMPTY", "not empty"),
    ("BMI_ELOOP", "too many symbolic links"),
    ("BMI_EWOULDBLOCK", "would block"),
    ("BMI_ENOMSG", "no such message"),
    ("BMI_EUNATCH", "protocol driver not attached"),
    ("BMI_EBADR", "bad request descriptor"),
    ("BMI_EDEADLOCK", "deadlock"),
    ("BMI_ENODATA", "no data"),
    ("BMI_ETIME", "timer expired"),
    ("BMI_ENONET", "not on the network"),
    ("BMI_EREMOTE", "is remote"),
    ("BMI_ECOMM", "communication failed on send"),
    ("BMI_EPROTO", "protocol error"),
    ("BMI_EBADMSG", "bad message"),
    ("BMI_EOVERFLOW", "value too large"),
    ("BMI_ERESTART", "restart the call"),
    (
        "BMI_EMSGSIZE",
        "message size exceeds the limit or the buffer",
    ),
    ("BMI_EPROTOTYPE", "wrong protocol type"),
    ("BMI_ENOPROTOOPT", "protocol not available"),
    ("BMI_EPROTONOSUPPORT", "protocol not supported"),
    ("BMI_EOPNOTSUPP", "operation not supported"),
    ("BMI_EADDRINUSE", "address in use"),
    ("BMI_EADDRNOTAVAIL", "address not available"),
    (
        "BMI_ENETDOWN",
        "the interface is not initialised or was finalized",
    ),
    ("BMI_ENETUNREACH", "network unreachable"),
    ("BMI_ENETRESET", "connection reset by the network"),
    ("BMI_ENOBUFS", "no buffer space"),
    ("BMI_ETIMEDOUT", "timed out"),
    ("BMI_ECONNREFUSED", "connection refused"),
    ("BMI_EHOSTDOWN", "host is down"),
    ("BMI_EHOSTUNREACH", "host unreachable"),
    ("BMI_EALREADY", "in progress already"),
    ("BMI_EACCES", "permission denied"),
    ("BMI_ECONNRESET", "connection reset by the peer"),
    ("BMI_ECANCEL", "cancelled"),
    ("BMI_EDEVINIT", "device initialisation failed"),
    ("BMI_EDETAIL", "see the detailed error"),
    ("BMI_EHOSTNTFD", "host not found"),
    ("BMI_EADDRNTFD", "address not found"),
    ("BMI_ENORECVR", "no receiver"),
    ("BMI_ETRYAGAIN", "try again later"),
];

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, meaning) = self.words();
        write!(f, "{meaning} ({name})")
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    /// Converts an error of the operating system; [`Error::Io`] if BMI has no name for the number.
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Error::NoMem,
            io::ErrorKind::UnexpectedEof => Error::ConnReset,
            _ => error
                .raw_os_error()
                .and_then(Error::from_errno)
                .unwrap_or(Error::Io),
        }
    }
}

/// Linux errno numbers. They are the same on all architectures that this crate is built for; only Alpha,
/// MIPS, SPARC and PA-RISC differ.
const ERRNO: [(i32, Error); 52] = [
    (1, Error::Perm),
    (2, Error::NoEnt),
    (4, Error::Intr),
    (5, Error::Io),
    (6, Error::Nxio),
    (9, Error::BadF),
    (11, Error::Again),
    (12, Error::NoMem),
    (14, Error::Fault),
    (16, Error::Busy),
    (17, Error::Exist),
    (19, Error::NoDev),
    (20, Error::NotDir),
    (21, Error::IsDir),
    (22, Error::Inval),
    (24, Error::MFile),
    (27, Error::FBig),
    (28, Error::NoSpc),
    (30, Error::RoFs),
    (31, Error::MLink),
    (32, Error::Pipe),
    (35, Error::DeadLk),
    (36, Error::NameTooLong),
    (37, Error::NoLck),
    (38, Error::NoSys),
    (39, Error::NotEmpty),
    (40, Error::Loop),
    (42, Error::NoMsg),
    (61, Error::NoData),
    (62, Error::Time),
    (66, Error::Remote),
    (71, Error::Proto),
    (74, Error::BadMsg),
    (75, Error::Overflow),
    (90, Error::MsgSize),
    (91, Error::Prototype),
    (92, Error::NoProtoOpt),
    (93, Error::ProtoNoSupport),
    (95, Error::OpNotSupp),
    (98, Error::AddrInUse),
    (99, Error::AddrNotAvail),
    (100, Error::NetDown),
    (101, Error::NetUnreach),
    (102, Error::NetReset),
    (105, Error::NoBufs),
    (110, Error::TimedOut),
    (111, Error::ConnRefused),
    (112, Error::HostDown),
    (113, Error::HostUnreach),
    (114, Error::Already),
    (13, Error::Acces),
    (104, Error::ConnReset),
];

#[cfg(test)]
mod tests {
    use super::*;

    // [BMI-29]
    #[test]
    fn numbers_are_the_documented_ones() {
        assert_eq!(Error::Perm.number(), 0x4000_0081);
        assert_eq!(Error::Inval.number(), 15 | 1 << 30 | 1 << 7);
        assert_eq!(Error::ConnReset.number(), 59 | 1 << 30 | 1 << 7);
        assert_eq!(Error::Cancel.number(), 0x6000_0081);
        assert_eq!(Error::TryAgain.number(), 0x6000_0087);
    }

    // [BMI-29]
    #[test]
    fn every_error_is_found_again_by_either_sign_and_has_its_own_number_and_name() {
        for (index, error) in Error::ALL.into_iter().enumerate() {
            assert_eq!(Error::from_number(error.number()), Some(error));
            assert_eq!(Error::from_number(error.code()), Some(error));
            for later in &Error::ALL[index + 1..] {
                assert_ne!(error.number(), later.number());
                assert_ne!(error.name(), later.name());
            }
        }
        assert_eq!(Error::from_number(0), None);
        assert_eq!(Error::from_number(i32::MIN), None);
    }

    #[test]
    fn names_go_with_the_numbers() {
        assert_eq!(Error::Perm.name(), "BMI_EPERM");
        assert_eq!(Error::ConnReset.name(), "BMI_ECONNRESET");
        assert_eq!(Error::Cancel.name(), "BMI_ECANCEL");
        assert_eq!(Error::TryAgain.name(), "BMI_ETRYAGAIN");
    }

    #[test]
    fn numbers_of_the_system_are_not_bmis() {
        assert_eq!(Error::from_errno(22), Some(Error::Inval));
        assert_eq!(Error::from_errno(11), Some(Error::Again));
        assert_eq!(Error::from_errno(35), Some(Error::DeadLk));
        for unmapped in [49, 53, 64, 70, 85, 0, -22, 4000] {
            assert_eq!(Error::from_errno(unmapped), None, "{unmapped}");
        }
    }

    // [CABI-24]
    #[test]
    fn an_error_of_the_system_keeps_its_meaning() {
        let reset = io::Error::from_raw_os_error(104);
        assert_eq!(Error::from(reset), Error::ConnReset);
        assert_eq!(Error::from(io::Error::other("x")), Error::Io);
    }
}
