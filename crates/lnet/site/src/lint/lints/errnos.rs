//! The numbers of errors in messages, by their number and by their text, with their meaning for LNet.

/// An error number.
struct Errno {
    number: u32,
    /// The text that programs print for it.
    text: &'static str,
    /// Its name, with the meaning for LNet.
    means: &'static str,
}

const fn errno(number: u32, text: &'static str, means: &'static str) -> Errno {
    Errno {
        number,
        text,
        means,
    }
}

const ERRNOS: [Errno; 34] = [
    errno(
        1,
        "Operation not permitted",
        "EPERM: not permitted to this user",
    ),
    errno(
        2,
        "No such file or directory",
        "ENOENT: the name is not known there",
    ),
    errno(5, "Input/output error", "EIO: the transfer failed"),
    errno(
        6,
        "No such device or address",
        "ENXIO: the device or address is not there",
    ),
    errno(8, "Exec format error", "ENOEXEC: built for another kernel"),
    errno(11, "Resource temporarily unavailable", "EAGAIN: try again"),
    errno(
        12,
        "Cannot allocate memory",
        "ENOMEM: no memory, or none that may be pinned",
    ),
    errno(13, "Permission denied", "EACCES: not allowed"),
    errno(16, "Device or resource busy", "EBUSY: in use"),
    errno(17, "File exists", "EEXIST: it is there already"),
    errno(
        19,
        "No such device",
        "ENODEV: the device or target is not there",
    ),
    errno(22, "Invalid argument", "EINVAL: an invalid value"),
    errno(
        25,
        "Inappropriate ioctl for device",
        "ENOTTY: the module does not know the request",
    ),
    errno(28, "No space left on device", "ENOSPC: no space"),
    errno(30, "Read-only file system", "EROFS: read-only"),
    errno(34, "Numerical result out of range", "ERANGE: out of range"),
    errno(
        38,
        "Function not implemented",
        "ENOSYS: not known to this kernel",
    ),
    errno(61, "No data available", "ENODATA: nothing is there"),
    errno(
        71,
        "Protocol error",
        "EPROTO: the other end speaks otherwise",
    ),
    errno(
        95,
        "Operation not supported",
        "EOPNOTSUPP: not supported there",
    ),
    errno(
        98,
        "Address already in use",
        "EADDRINUSE: the port is taken",
    ),
    errno(
        99,
        "Cannot assign requested address",
        "EADDRNOTAVAIL: the address is not this machine's",
    ),
    errno(
        100,
        "Network is down",
        "ENETDOWN: LNet or the interface is down",
    ),
    errno(
        101,
        "Network is unreachable",
        "ENETUNREACH: no path to the network",
    ),
    errno(
        104,
        "Connection reset by peer",
        "ECONNRESET: the other end closed",
    ),
    errno(
        107,
        "Transport endpoint is not connected",
        "ENOTCONN: not connected; the server does not know this client any more",
    ),
    errno(
        108,
        "Cannot send after transport endpoint shutdown",
        "ESHUTDOWN: the other end or this one stops",
    ),
    errno(110, "Connection timed out", "ETIMEDOUT: no answer in time"),
    errno(
        111,
        "Connection refused",
        "ECONNREFUSED: nothing listens there",
    ),
    errno(113, "No route to host", "EHOSTUNREACH: no path"),
    errno(
        114,
        "Operation already in progress",
        "EALREADY: it is under way already",
    ),
    errno(
        115,
        "Operation now in progress",
        "EINPROGRESS: under way; repeat it later",
    ),
    errno(
        126,
        "Required key not available",
        "ENOKEY: the key of the signature is not known",
    ),
    errno(
        129,
        "Key was rejected by service",
        "EKEYREJECTED: the key of the signature is not accepted",
    ),
];

/// The largest number of an error.
pub(super) const MAX: u32 = 4095;

/// Returns true for the number of an error of the list.
pub(super) fn is_known(number: u32) -> bool {
    ERRNOS.iter().any(|errno| errno.number == number)
}

/// Returns the number, name and meaning of an error, in parentheses.
pub(super) fn text(number: u32) -> String {
    let known = ERRNOS.iter().find(|errno| errno.number == number);
    known.map_or(format!(" (-{number})"), |errno| {
        format!(" (-{number} {})", errno.means)
    })
}

/// Returns the number of the error whose text a line ends with.
pub(super) fn at_end(line: &str) -> Option<u32> {
    let line = line.trim_end().trim_end_matches(['"', '.']);
    let mut known = ERRNOS.iter();
    let errno = known.find(|errno| line.ends_with(errno.text))?;
    Some(errno.number)
}

/// Returns true if a line is the text of an error, and nothing else.
pub(super) fn is_text(line: &str) -> bool {
    ERRNOS.iter().any(|errno| errno.text == line)
}
