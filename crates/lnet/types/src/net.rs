//! LND types and networks: `tcp`, `o2ib3`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The type of a network, named after the LNet network driver (LND) that serves it, as its number
/// on the wire.
///
/// The set is open: numbers that this build does not know survive decoding, print as `<N>` and
/// parse from that form ([TYPE-3]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LndType(pub u8);

/// How the LNDs of one type write their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// Dotted quad.
    Ip,
    /// One unsigned integer.
    Number,
}

/// Number, name and address form of every LND type. The table keeps removed types,
/// because old nodes and captures may still name them.
const LND_TYPES: [(LndType, &str, AddressForm); 19] = [
    (LndType(1), "elan", AddressForm::Number),
    (LndType::TCP, "tcp", AddressForm::Ip),
    (LndType(3), "gm", AddressForm::Number),
    (LndType(4), "ptl", AddressForm::Number),
    (LndType::O2IB, "o2ib", AddressForm::Ip),
    (LndType(6), "cib", AddressForm::Ip),
    (LndType(7), "openib", AddressForm::Ip),
    (LndType(8), "iib", AddressForm::Ip),
    (LndType::LO, "lo", AddressForm::Number),
    (LndType(10), "ra", AddressForm::Ip),
    (LndType(11), "vib", AddressForm::Ip),
    (LndType(12), "mx", AddressForm::Ip),
    (LndType(13), "gni", AddressForm::Number),
    (LndType(14), "gip", AddressForm::Ip),
    (LndType(15), "ptlf", AddressForm::Number),
    (LndType(16), "kfi", AddressForm::Number),
    (LndType(17), "tofu", AddressForm::Number),
    (LndType(18), "efa", AddressForm::Ip),
    (LndType(19), "bxi3f", AddressForm::Number),
];

impl LndType {
    /// The socket LND, `tcp`.
    pub const TCP: Self = Self(2);
    /// The InfiniBand verbs LND, `o2ib`.
    pub const O2IB: Self = Self(5);
    /// Loopback, `lo`.
    pub const LO: Self = Self(9);
    /// The type byte of the wildcard NID.
    pub const ANY: Self = Self(0xFF);

    /// The name as it appears in NIDs, or `None` for a number that this build does not know.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        LND_TYPES.iter().find(|row| row.0 == self).map(|row| row.1)
    }

    /// The type with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        LND_TYPES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// How addresses of this type are written; unknown types use plain numbers.
    pub(crate) fn address_form(self) -> AddressForm {
        LND_TYPES
            .iter()
            .find(|row| row.0 == self)
            .map_or(AddressForm::Number, |row| row.2)
    }
}

impl fmt::Display for LndType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "<{}>", self.0),
        }
    }
}

/// An LNet network: an LND type and a number, written `tcp`, `tcp1`, `o2ib204`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    /// The LND type.
    pub lnd: LndType,
    /// The network number; 0 is not printed.
    pub number: u16,
}

impl Net {
    /// The loopback network.
    pub const LO: Self = Self::new(LndType::LO, 0);
    /// The wildcard network (0xFFFFFFFF), written `*`.
    pub const ANY: Self = Self::new(LndType::ANY, 0xFFFF);

    /// The network with this type and number.
    #[must_use]
    pub const fn new(lnd: LndType, number: u16) -> Self {
        Self { lnd, number }
    }

    /// The socket network with this number: `tcp3` is `Net::tcp(3)`.
    #[must_use]
    pub const fn tcp(number: u16) -> Self {
        Self::new(LndType::TCP, number)
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ANY {
            return f.write_str("*");
        }
        match self.number {
            0 => write!(f, "{}", self.lnd),
            number => write!(f, "{}{number}", self.lnd),
        }
    }
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseNetError {
    /// No LND type has this name.
    #[error("unknown network type '{0}'; a network is a type and a number, such as tcp or o2ib3")]
    UnknownType(String),
    /// The number is not decimal or above 65535.
    #[error("'{0}' is not a network number (0 to 65535)")]
    BadNumber(String),
    /// Loopback takes no number.
    #[error("the loopback network takes no number")]
    NumberedLoopback,
}

impl FromStr for Net {
    type Err = ParseNetError;

    /// Parses a type name and an optional decimal number. A type without a name has the form
    /// `<23>5`; `*` is the wildcard.
    fn from_str(text: &str) -> Result<Self, ParseNetError> {
        if text == "*" {
            return Ok(Self::ANY);
        }
        let (lnd, digits) =
            split_lnd(text).ok_or_else(|| ParseNetError::UnknownType(text.to_owned()))?;
        match digits {
            "" => Ok(Self::new(lnd, 0)),
            _ if lnd == LndType::LO => Err(ParseNetError::NumberedLoopback),
            digits => Ok(Self::new(lnd, parse_number(digits)?)),
        }
    }
}

/// Splits `o2ib3` into the type and the rest of the text; `None` if the text begins with no type.
pub(crate) fn split_lnd(text: &str) -> Option<(LndType, &str)> {
    if let Some(rest) = text.strip_prefix('<') {
        let (number, rest) = rest.split_once('>')?;
        let lnd = LndType(u8::try_from(parse_number(number).ok()?).ok()?);
        return (lnd != LndType::ANY).then_some((lnd, rest));
    }
    // "ptlf" begins with "ptl": the longest name wins.
    let row = LND_TYPES
        .iter()
        .filter(|row| text.starts_with(row.1))
        .max_by_key(|row| row.1.len())?;
    Some((row.0, &text[row.1.len()..]))
}

fn parse_number(digits: &str) -> Result<u16, ParseNetError> {
    let bad = || ParseNetError::BadNumber(digits.to_owned());
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    digits.parse().map_err(|_| bad())
}
