//! NIDs and process ids.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::net::{AddressForm, LndType, Net, ParseNetError};

/// A network identifier: an address on an LNet network.
///
/// Kept in its 20-byte wire form (lnet-wire specification, section 1.2), which is also its order:
/// kernels compare the bytes when two nodes dial each other at once (section 2.7).
///
/// ```text
///  0      1      2       4                              20
///  +------+------+-------+------------------------------+
///  | size | type | net # | address, network order, 0-pad|
///  +------+------+-------+------------------------------+
///  size = used bytes - 8: 0 for 4-byte addresses, 12 for 16-byte ones
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid([u8; 20]);

impl Nid {
    /// The wildcard: matches every NID.
    pub const ANY: Self = Self([0xFF; 20]);
    /// `0@lo`.
    pub const LOOPBACK: Self = Self::from_number(Net::LO, 0);
    /// Bytes of the wire form.
    pub const WIRE_LEN: usize = 20;

    /// The NID with a 4-byte address, given as a number (for IPv4, in host order).
    #[must_use]
    pub const fn from_number(net: Net, address: u32) -> Self {
        let [n0, n1] = net.number.to_be_bytes();
        let [a0, a1, a2, a3] = address.to_be_bytes();
        Self([0, net.lnd.0, n0, n1, a0, a1, a2, a3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// The NID of an IP address.
    #[must_use]
    pub fn from_ip(net: Net, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::from_number(net, v4.to_bits()),
            IpAddr::V6(v6) => {
                let mut bytes = Self::from_number(net, 0).0;
                bytes[0] = 12;
                bytes[4..].copy_from_slice(&v6.octets());
                Self(bytes)
            }
        }
    }

    /// Takes the 8-byte form, `(type << 16 | number) << 32 | address` (section 1.1); all ones is the
    /// wildcard. `None` when the bits that must be zero are not.
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

    /// The 8-byte form; `None` for a 16-byte address, which has none.
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

    /// Takes the 20-byte wire form. A type byte of 0xFF is the wildcard whatever follows. `None` when
    /// the size is neither 0 nor 12 or the padding is not zero.
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
    #[must_use]
    pub const fn to_wire(self) -> [u8; 20] {
        self.0
    }

    /// True for the wildcard.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0[1] == LndType::ANY.0
    }

    /// True for `0@lo`.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        self == Self::LOOPBACK
    }

    /// True for an address of 16 bytes.
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

    /// The address of a NID on a network with IP addresses (`tcp`, `o2ib`, …).
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        if self.is_any() || self.net().lnd.address_form() != AddressForm::Ip {
            return None;
        }
        if !self.is_large() {
            return Some(IpAddr::V4(Ipv4Addr::from_bits(self.number())));
        }
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.0[4..]);
        Some(IpAddr::V6(Ipv6Addr::from(octets)))
    }
}

impl fmt::Display for Nid {
    /// `10.0.0.1@tcp5`, `fd00::1@tcp`, `27@gni`; the wildcard is `<?>`, as kernels print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("<?>");
        }
        match self.ip() {
            Some(IpAddr::V4(address)) => write!(f, "{address}@{}", self.net()),
            Some(IpAddr::V6(address)) => write!(f, "{address}@{}", self.net()),
            None => write!(f, "{}@{}", self.number(), self.net()),
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
    #[error("'{0}' has no '@' between address and network")]
    MissingAt(String),
    /// The network is wrong.
    #[error(transparent)]
    Net(#[from] ParseNetError),
    /// The address does not fit the network's type.
    #[error("'{address}' is not an address on a {lnd} network")]
    BadAddress {
        /// The text before the `@`.
        address: String,
        /// The network's LND type.
        lnd: LndType,
    },
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
        parse_address(net, address).ok_or_else(|| ParseNidError::BadAddress {
            address: address.to_owned(),
            lnd: net.lnd,
        })
    }
}

fn parse_address(net: Net, address: &str) -> Option<Nid> {
    match net.lnd.address_form() {
        AddressForm::Ip => Some(Nid::from_ip(net, address.parse().ok()?)),
        AddressForm::Number if address.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Nid::from_number(net, address.parse().ok()?))
        }
        AddressForm::Number => None,
    }
}

/// A process on the network: a NID and a process id (section 1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The node's NID, or [`Nid::ANY`] in a match entry.
    pub nid: Nid,
    /// The process id, or [`ProcessId::ANY_PID`] in a match entry.
    pub pid: u32,
}

impl ProcessId {
    /// The process id of every kernel node.
    pub const LUSTRE_PID: u32 = 12345;
    /// Matches every process id.
    pub const ANY_PID: u32 = 0xFFFF_FFFF;
    /// Set in the process id of a peer that dialled from an unprivileged port (section 2.11).
    pub const USER_FLAG: u32 = 0x8000_0000;
    /// Matches every process.
    pub const ANY: Self = Self { nid: Nid::ANY, pid: Self::ANY_PID };

    /// The ordinary LNet process of a node.
    #[must_use]
    pub const fn lustre(nid: Nid) -> Self {
        Self { nid, pid: Self::LUSTRE_PID }
    }

    /// True for a peer that is reached only over the connections it dialled itself.
    #[must_use]
    pub const fn is_userspace(self) -> bool {
        self.pid & Self::USER_FLAG != 0 && self.pid != Self::ANY_PID
    }
}

impl fmt::Display for ProcessId {
    /// `12345-10.0.0.1@tcp`, as LNet logs print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.nid)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
