//! Security flavors, and the way through a wrapper to the message inside.

use std::fmt;

use crate::message::{Message, MessageError};

/// The security flavor of a message, with the kind of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavor(pub u32);

/// The bits that name the flavor; the others name the sender.
const FLAVOR_BITS: u32 = 0xf_ffff;

/// The flavors that have names.
const NAMES: &[(u32, &str)] = &[
    (0, "null"),
    (0x2_1001, "plain"),
    (0x0_0002, "gssnull"),
    (0x0_0012, "krb5n"),
    (0x0_0112, "krb5a"),
    (0x2_0212, "krb5i"),
    (0x3_0312, "krb5p"),
    (0x0_0022, "skn"),
    (0x0_0122, "ska"),
    (0x2_0222, "ski"),
    (0x3_0322, "skpi"),
];

impl Flavor {
    /// Returns the policy: 0 null, 1 plain, 2 gss.
    #[must_use]
    pub const fn policy(self) -> u32 {
        self.0 & 0xf
    }

    /// Returns whether the message inside the wrapper is encrypted.
    #[must_use]
    pub const fn is_private(self) -> bool {
        self.policy() == 2 && (self.0 >> 8) & 0xf == 3
    }

    /// Returns the kind of the sender, as null flavors name it.
    #[must_use]
    pub const fn sender(self) -> Option<&'static str> {
        match self.0 >> 24 {
            0 => Some("client"),
            1 => Some("MDT"),
            2 => Some("OST"),
            3 => Some("MGC"),
            4 => Some("MGS"),
            _ => None,
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 & FLAVOR_BITS;
        match NAMES.iter().find(|(known, _)| *known == bits) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{bits:#07x}"),
        }
    }
}

/// A message behind its wrapper.
#[derive(Clone, Copy, Debug)]
pub enum Opened<'a> {
    /// A message that can be read, and its offset in the bytes of the LNet message.
    Clear(Message<'a>, usize),
    /// A message that only its receiver can read.
    Encrypted(Flavor),
}

/// Reads the message in the first bytes of an LNet message of `wire_len` bytes, through its wrapper.
///
/// # Errors
///
/// [`MessageError`] of the wrapper, or of the message inside.
// [PTLRPC-10]
pub fn open(bytes: &[u8], wire_len: usize) -> Result<Opened<'_>, MessageError> {
    let outer = Message::parse_head(bytes, wire_len)?;
    let flavor = outer.flavor();
    if flavor.is_private() {
        return Ok(Opened::Encrypted(flavor));
    }
    if flavor.policy() == 0 {
        return Ok(Opened::Clear(outer, 0));
    }
    let Some(inner) = outer.buffers().nth(1) else {
        return Ok(Opened::Encrypted(flavor));
    };
    let message = Message::parse_head(inner.view.bytes(), inner.len)?;
    Ok(Opened::Clear(message, inner.at))
}
