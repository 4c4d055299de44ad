//! NIDs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::net::{AddressForm, LndType, Net, ParseNetError};

/// A network identifier: an address on an LNet network.
///
/// The value holds the 20-byte wire form. NIDs are ordered by these bytes, because
/// kernels compare them if two nodes dial each other at once.
///
/// ```text
///  0      1      2       4                              20
///  +------+------+-------+------------------------------+
///  | size | type | net # | address, network order, 0-pad|
///  +------+------+-------+------------------------------+
///  size = used bytes - 8: 0 for 4-byte addresses, 12 for 16-byte ones
/// ```
///
/// A `Nid` has one of these two sizes. No LND has addresses of another length, and a NID with
/// another size would have no text form. [`Nid::from_wire`] rejects such a NID; a reader of a list
/// of NIDs skips the record by its length. All wildcards equal [`Nid::ANY`].
// [TYPE-2]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nid([u8; 20]);

/// Hashes the NID as three words. The derived implementation would hash a slice of bytes, and every message looks up
/// several NIDs.
impl Hash for Nid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        state.write_u64(u64::from_ne_bytes([i, j, k, l, m, n, o, p]));
        state.write_u32(u32::from_ne_bytes([q, r, s, t]));
    }
}

impl Nid {
    /// The wildcard, which matches every NID.
    // [TYPE-2]
    pub const ANY: Self = Self([0xFF; 20]);
    /// `0@lo`.
    pub const LOOPBACK: Self = Self::from_number(Net::LO, 0);
    /// Bytes of the wire form.
    pub const WIRE_LEN: usize = 20;

    /// The NID with a 4-byte address, given as a number (for IPv4, in host order). If the type of
    /// `net` is [`LndType::ANY`], the NID is the wildcard.
    #[must_use]
    pub const fn from_number(net: Net, address: u32) -> Self {
        if net.lnd.0 == LndType::ANY.0 {
            return Self::ANY;
        }
        let [n0, n1] = net.number.to_be_bytes();
        let [a0, a1, a2, a3] = address.to_be_bytes();
        Self([
            0, net.lnd.0, n0, n1, a0, a1, a2, a3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ])
    }

    /// The NID of an IP address. If the type of `net` is [`LndType::ANY`], the NID is the wildcard.
    #[must_use]
    pub fn from_ip(net: Net, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::from_number(net, v4.to_bits()),
            IpAddr::V6(_) if net.lnd == LndType::ANY => Self::ANY,
            IpAddr::V6(v6) => {
                let mut bytes = Self::from_number(net, 0).0;
                bytes[0] = 12;
                bytes[4..].copy_from_slice(&v6.octets());
                Self(bytes)
            }
        }
    }

    /// Decodes the 8-byte form, `(type << 16 | number) << 32 | address`. All ones, or
    /// a type byte of 0xFF, is the wildcard. Returns `None` if bits that must be zero are not.
    // [TYPE-1] [TYPE-2]
    #[must_use]
    pub const fn from_nid4(value: u64) -> Option<Self> {
        if value == u64::MAX {
            return Some(Self::ANY);
        }
        let [zero, lnd, n0, n1, a0, a1, a2, a3] = value.to_be_bytes();
        if zero != 0 {
            return None;
        }
        let net = Net::new(LndType(lnd), u16::from_be_bytes([n0, n1]));
        Some(Self::from_number(net, u32::from_be_bytes([a0, a1, a2, a3])))
    }

    /// The 8-byte form; `None` for a 16-byte address, which has no such form.
    // [LARGE-4]
    #[must_use]
    pub const fn to_nid4(self) -> Option<u64> {
        if self.is_any() {
            return Some(u64::MAX);
        }
        let [size, b1, b2, b3, b4, b5, b6, b7, ..] = self.0;
        if size != 0 {
            return None;
        }
        Some(u64::from_be_bytes([0, b1, b2, b3, b4, b5, b6, b7]))
    }

    /// Decodes the 20-byte wire form. A type byte of 0xFF is the wildcard, whatever the other bytes
    /// are. Returns `None` if the size is neither 0 nor 12, or if the padding is not zero.
    // [LARGE-3] [LARGE-5] [TYPE-3]
    #[must_use]
    pub fn from_wire(bytes: [u8; 20]) -> Option<Self> {
        if bytes[1] == LndType::ANY.0 {
            return Some(Self::ANY);
        }
        let padding_is_zero = bytes[8..].iter().all(|&byte| byte == 0);
        match bytes[0] {
            0 if padding_is_zero => Some(Self(bytes)),
            12 => Some(Self(bytes)),
            _ => None,
        }
    }

    /// The 20-byte wire form.
    // [LARGE-1] [LARGE-2]
    #[must_use]
    pub const fn to_wire(self) -> [u8; 20] {
        self.0
    }

    /// Returns true for the wildcard.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0[1] == LndType::ANY.0
    }

    /// Returns true for `0@lo`.
    // [TYPE-4]
    #[must_use]
    pub fn is_loopback(self) -> bool {
        self == Self::LOOPBACK
    }

    /// Returns true for an address of 16 bytes.
    #[must_use]
    pub const fn is_large(self) -> bool {
        !self.is_any() && self.0[0] != 0
    }

    /// The network.
    #[must_use]
    pub const fn net(self) -> Net {
        let [_, lnd, n0, n1, ..] = self.0;
        Net::new(LndType(lnd), u16::from_be_bytes([n0, n1]))
    }

    /// The first four address bytes as a number: the whole address of a 4-byte NID.
    #[must_use]
    pub const fn number(self) -> u32 {
        let [_, _, _, _, a0, a1, a2, a3, ..] = self.0;
        u32::from_be_bytes([a0, a1, a2, a3])
    }

    /// The IP address of a NID on a network with IP addresses (`tcp`, `o2ib`, …); `None` on other
    /// networks.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        if self.is_any() || self.net().lnd.address_form() != AddressForm::Ip {
            return None;
        }
        match self.large_address() {
            Some(address) => Some(IpAddr::V6(address)),
            None => Some(IpAddr::V4(Ipv4Addr::from_bits(self.number()))),
        }
    }

    /// The address of a NID with 16 bytes, on any type of network.
    pub(crate) fn large_address(self) -> Option<Ipv6Addr> {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.0[4..]);
        self.is_large().then(|| Ipv6Addr::from(octets))
    }
}

impl fmt::Display for Nid {
    /// `10.0.0.1@tcp5`, `27@gni`; a 16-byte address is IPv6 text on every network, `fd00::1@tcp`. The
    /// wildcard is `<?>`, as kernels print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("<?>");
        }
        match (self.large_address(), self.ip()) {
            (Some(address), _) => write!(f, "{address}@{}", self.net()),
            (None, Some(address)) => write!(f, "{address}@{}", self.net()),
            (None, None) => write!(f, "{}@{}", self.number(), self.net()),
        }
    }
}

impl fmt::Debug for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a NID.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseNidError {
    /// There is no `@` between address and network.
    #[error("'{0}' has no '@': a NID is ADDRESS@NETWORK, such as 10.0.0.1@tcp")]
    MissingAt(String),
    /// The network is wrong.
    #[error(transparent)]
    Net(#[from] ParseNetError),
    /// The address does not fit the network's type.
    #[error("'{address}' is not an address on a {lnd} network, {}", address_hint(*.lnd))]
    BadAddress {
        /// The text before the `@`.
        address: String,
        /// The network's LND type.
        lnd: LndType,
    },
    /// The network is the wildcard, the address is not.
    #[error("'{0}' has an address on every network: the wildcard is '*' alone")]
    AddressOnAnyNet(String),
}

fn address_hint(lnd: LndType) -> &'static str {
    match lnd.address_form() {
        AddressForm::Ip => "which has IP addresses such as 10.0.0.1 or fd00::1",
        AddressForm::Number => "which has numbers from 0 to 4294967295",
    }
}

impl FromStr for Nid {
    type Err = ParseNidError;

    /// Parses one concrete NID; `*` and `<?>` are the wildcard.
    fn from_str(text: &str) -> Result<Self, ParseNidError> {
        if text == "*" || text == "<?>" {
            return Ok(Self::ANY);
        }
        let (address, net) = text
            .rsplit_once('@')
            .ok_or_else(|| ParseNidError::MissingAt(text.to_owned()))?;
        let net: Net = net.parse()?;
        if net == Net::ANY {
            return Err(ParseNidError::AddressOnAnyNet(text.to_owned()));
        }
        parse_address(net, address).ok_or_else(|| ParseNidError::BadAddress {
            address: address.to_owned(),
            lnd: net.lnd,
        })
    }
}

fn parse_address(net: Net, address: &str) -> Option<Nid> {
    // Addresses of 16 bytes have the same text form on every network.
    if address.contains(':') {
        return Some(Nid::from_ip(net, IpAddr::V6(address.parse().ok()?)));
    }
    match net.lnd.address_form() {
        AddressForm::Ip => Some(Nid::from_ip(net, IpAddr::V4(address.parse().ok()?))),
        AddressForm::Number if address.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Nid::from_number(net, address.parse().ok()?))
        }
        AddressForm::Number => None,
    }
}
