//! Connection types.

use std::fmt;

/// The purpose of a connection, named from the view of one side; the other side calls it the
/// [`inverse`](Self::inverse).
///
/// The set is open: undefined values survive decoding, and [`inverse`](Self::inverse) returns
/// `None` for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ctype(pub u32);

impl Ctype {
    /// Only in replies: the connection is rejected and may be tried again.
    pub const NONE: Self = Self(u32::MAX);
    /// Untyped: carries all messages. Never used with HELLO version 3 or 4.
    pub const ANY: Self = Self(0);
    /// Small messages.
    pub const CONTROL: Self = Self(1);
    /// Data flows into the side that uses this name; that side sends only acknowledgements on the
    /// connection.
    pub const BULK_IN: Self = Self(2);
    /// Data flows out of the side that uses this name.
    pub const BULK_OUT: Self = Self(3);

    /// The other side's name for a connection of this type. `None` for [`Ctype::NONE`] and
    /// undefined values, which no dialler may ask for.
    // [HELLO-9]
    #[must_use]
    pub const fn inverse(self) -> Option<Self> {
        match self {
            Self::ANY | Self::CONTROL => Some(self),
            Self::BULK_IN => Some(Self::BULK_OUT),
            Self::BULK_OUT => Some(Self::BULK_IN),
            _ => None,
        }
    }

    /// LNet's name of the type; `None` for an undefined value.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::NONE => Some("NONE"),
            Self::ANY => Some("ANY"),
            Self::CONTROL => Some("CONTROL"),
            Self::BULK_IN => Some("BULK_IN"),
            Self::BULK_OUT => Some("BULK_OUT"),
            _ => None,
        }
    }
}

impl fmt::Display for Ctype {
    /// `CONTROL`; an undefined value prints as `<7>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "<{}>", self.0),
        }
    }
}
