//! Results on the wire: 1, 0, or a negative BMI error.

use std::fmt;

/// The bits that every BMI error number has.
const ERROR_BITS: i32 = 1 << 30 | 1 << 7;

/// The additional bit of errors that the operating system does not have.
const OTHER_BIT: i32 = 1 << 29;

/// The result of a command or frame. Unknown values are kept and printed as numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub i32);

// [BMI-29]
impl Status {
    /// No result: in requests, and in replies to a receive without a match.
    pub const NONE: Self = Self(0);
    /// A message was moved.
    pub const DONE: Self = Self(1);
    /// No buffer for the message yet. The caller keeps the message and retries later.
    pub const NO_MEMORY: Self = errno(8);
    /// A client named memory that it does not have.
    pub const FAULT: Self = errno(9);
    /// Another server is attached, or there are too many clients.
    pub const BUSY: Self = errno(10);
    /// An argument is invalid.
    pub const INVALID: Self = errno(15);
    /// The function or option does not exist.
    pub const NO_SYSTEM: Self = errno(25);
    /// The bytes violate the protocol.
    pub const PROTOCOL: Self = errno(38);
    /// The message is longer than a limit or than its receiver's buffer.
    pub const MESSAGE_SIZE: Self = errno(42);
    /// The role does not support this call.
    pub const NOT_SUPPORTED: Self = errno(46);
    /// The daemon shuts down or is gone.
    pub const NET_DOWN: Self = errno(49);
    /// The daemon restarted: sessions and registered operations are gone.
    pub const NET_RESET: Self = errno(51);
    /// The peer has been silent for too long.
    pub const TIMED_OUT: Self = errno(53);
    /// No daemon accepts connections.
    pub const CONNECTION_REFUSED: Self = errno(54);
    /// The peer, the server or the daemon died.
    pub const CONNECTION_RESET: Self = errno(59);
    /// The operation was cancelled.
    pub const CANCELLED: Self = other(1);
    /// The daemon drains; clients treat this as [`NO_MEMORY`](Self::NO_MEMORY).
    pub const TRY_AGAIN: Self = other(7);

    /// Returns whether the value is negative.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 0
    }

    /// Returns whether the message should be kept and the send retried.
    // [FWD-6]
    #[must_use]
    pub const fn is_not_now(self) -> bool {
        self.0 == Self::NO_MEMORY.0 || self.0 == Self::TRY_AGAIN.0
    }

    /// Returns the name of a value that this protocol uses.
    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "NONE",
            Self::DONE => "DONE",
            Self::NO_MEMORY => "ENOMEM",
            Self::FAULT => "EFAULT",
            Self::BUSY => "EBUSY",
            Self::INVALID => "EINVAL",
            Self::NO_SYSTEM => "ENOSYS",
            Self::PROTOCOL => "EPROTO",
            Self::MESSAGE_SIZE => "EMSGSIZE",
            Self::NOT_SUPPORTED => "EOPNOTSUPP",
            Self::NET_DOWN => "ENETDOWN",
            Self::NET_RESET => "ENETRESET",
            Self::TIMED_OUT => "ETIMEDOUT",
            Self::CONNECTION_REFUSED => "ECONNREFUSED",
            Self::CONNECTION_RESET => "ECONNRESET",
            Self::CANCELLED => "ECANCEL",
            Self::TRY_AGAIN => "ETRYAGAIN",
            _ => return None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const fn errno(number: i32) -> Status {
    Status(-(number | ERROR_BITS))
}

const fn other(number: i32) -> Status {
    Status(-(number | OTHER_BIT | ERROR_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [BMI-29]
    #[test]
    fn an_error_is_the_negated_number_with_its_family_s_bits() {
        assert_eq!(Status::NO_MEMORY.0, -0x4000_0088);
        assert_eq!(Status::CONNECTION_RESET.0, -0x4000_00BB);
        assert_eq!(Status::CANCELLED.0, -0x6000_0081);
        assert_eq!(Status::TRY_AGAIN.0, -0x6000_0087);
    }

    // [FWD-6]
    #[test]
    fn only_two_refusals_ask_for_another_attempt() {
        assert!(Status::NO_MEMORY.is_not_now() && Status::TRY_AGAIN.is_not_now());
        assert!(!Status::MESSAGE_SIZE.is_not_now() && !Status::NONE.is_not_now());
    }

    #[test]
    fn an_unknown_value_prints_as_a_number() {
        assert_eq!(Status::MESSAGE_SIZE.to_string(), "EMSGSIZE");
        assert_eq!(Status(-77).to_string(), "status -77");
        assert!(Status(-77).is_error());
    }
}
