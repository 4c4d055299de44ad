//! Address expressions: the part before the `@`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::number::NumberExpr;
use super::parse::{self, ParseExprError};
use super::{ExpandError, check_limit};
use crate::net::Net;
use crate::nid::Nid;

/// An expression that matches addresses: `10.0.[1-2].*`, `[5-7]`, `fd00::/64`.
///
/// Parsed on its own, text with a `:` is IPv6, text with a `.` is a quad, anything else a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddressExpr {
    /// The four elements of an IPv4 address.
    Quad([NumberExpr; 4]),
    /// An address that is one number.
    Number(NumberExpr),
    /// The IPv6 addresses with a common prefix.
    V6 {
        /// The prefix; the bits behind it are zero.
        network: Ipv6Addr,
        /// Bits of the prefix, 0 to 128.
        prefix: u8,
    },
}

impl AddressExpr {
    /// The IPv6 addresses whose first `prefix` bits are those of `address`; `None` above 128 bits.
    #[must_use]
    pub fn v6(address: Ipv6Addr, prefix: u8) -> Option<Self> {
        let network = Ipv6Addr::from_bits(address.to_bits() & v6_mask(prefix)?);
        Some(Self::V6 { network, prefix })
    }

    /// Returns true if the expression covers the address of `nid`, on any net. No expression covers
    /// the wildcard NID.
    #[must_use]
    pub fn matches(&self, nid: Nid) -> bool {
        if nid.is_any() {
            return false;
        }
        match (self, nid.large_address()) {
            (Self::V6 { .. }, Some(address)) => self.matches_ip(IpAddr::V6(address)),
            (Self::Quad(octets), None) => matches_quad(octets, nid.number()),
            (Self::Number(numbers), None) => numbers.contains(nid.number()),
            (_, Some(_)) | (Self::V6 { .. }, None) => false,
        }
    }

    /// Returns true if the expression covers an IP address. IPv6 prefixes cover no IPv4 address,
    /// and single numbers cover no IP address.
    #[must_use]
    pub fn matches_ip(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Quad(octets), IpAddr::V4(address)) => matches_quad(octets, address.to_bits()),
            (Self::V6 { network, prefix }, IpAddr::V6(address)) => {
                v6_mask(*prefix).is_some_and(|mask| address.to_bits() & mask == network.to_bits())
            }
            _ => false,
        }
    }

    /// Counts the addresses; addresses of overlapping ranges count twice. Saturates.
    pub(super) fn count(&self) -> u128 {
        match self {
            Self::Quad(octets) => octets
                .iter()
                .map(NumberExpr::count)
                .fold(1, u128::saturating_mul),
            Self::Number(numbers) => numbers.count(),
            Self::V6 { prefix, .. } => 1u128
                .checked_shl(128u32.saturating_sub(u32::from(*prefix)))
                .unwrap_or(u128::MAX),
        }
    }

    /// The NIDs on `net` whose addresses are covered, in ascending order, each once.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] when there are more than `limit`.
    pub(super) fn expand(&self, net: Net, limit: usize) -> Result<Vec<Nid>, ExpandError> {
        let count = self.count();
        check_limit(count, limit)?;
        Ok(match self {
            Self::Quad(octets) => expand_quad(octets)
                .into_iter()
                .map(|address| Nid::from_number(net, address))
                .collect(),
            Self::Number(numbers) => numbers
                .members()
                .into_iter()
                .map(|address| Nid::from_number(net, address))
                .collect(),
            Self::V6 { network, .. } => (0..count)
                .map(|host| Ipv6Addr::from_bits(network.to_bits() | host))
                .map(|address| Nid::from_ip(net, IpAddr::V6(address)))
                .collect(),
        })
    }
}

/// The bits of a prefix; `None` if the prefix is longer than an address.
const fn v6_mask(prefix: u8) -> Option<u128> {
    match prefix {
        0 => Some(0),
        1..=128 => Some(u128::MAX << (128 - prefix)),
        _ => None,
    }
}

fn matches_quad(octets: &[NumberExpr; 4], address: u32) -> bool {
    octets
        .iter()
        .zip(address.to_be_bytes())
        .all(|(expr, octet)| expr.contains(u32::from(octet)))
}

fn expand_quad(octets: &[NumberExpr; 4]) -> Vec<u32> {
    octets.iter().fold(vec![0], |prefixes, octet| {
        let members = octet.members();
        prefixes
            .into_iter()
            .flat_map(|prefix| members.iter().map(move |member| prefix << 8 | member))
            .collect()
    })
}

impl FromStr for AddressExpr {
    type Err = ParseExprError;

    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        parse::bare_address(text)
    }
}

impl fmt::Display for AddressExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quad([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::V6 {
                network,
                prefix: 128,
            } => write!(f, "{network}"),
            Self::V6 { network, prefix } => write!(f, "{network}/{prefix}"),
        }
    }
}
