//! Network and NID expressions.

use std::fmt;
use std::str::FromStr;

use super::address::AddressExpr;
use super::number::NumberExpr;
use super::parse::{self, ParseExprError};
use super::{ExpandError, check_limit};
use crate::net::{AddressForm, LndType, Net};
use crate::nid::Nid;

/// An expression that matches networks: `tcp`, `tcp3`, `tcp*`, `o2ib[0-8/2]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetExpr {
    lnd: LndType,
    numbers: Option<NumberExpr>,
}

impl NetExpr {
    /// Networks of type `lnd` with these numbers. `None` for `numbers` is the bare name, which is
    /// number 0.
    ///
    /// Returns `None` for networks that the grammar cannot write: the wildcard type, numbers of
    /// loopback, and numbers whose maximum is not [`NumberExpr::NET_MAX`].
    #[must_use]
    pub fn new(lnd: LndType, numbers: Option<NumberExpr>) -> Option<Self> {
        let fits = match &numbers {
            None => lnd != LndType::ANY,
            Some(numbers) => {
                lnd != LndType::ANY && lnd != LndType::LO && numbers.max() == NumberExpr::NET_MAX
            }
        };
        fits.then_some(Self { lnd, numbers })
    }

    /// The LND type that the expression names.
    #[must_use]
    pub const fn lnd(&self) -> LndType {
        self.lnd
    }

    /// The network numbers; `None` for the bare name, which is number 0.
    #[must_use]
    pub const fn numbers(&self) -> Option<&NumberExpr> {
        self.numbers.as_ref()
    }

    /// Returns true if the expression covers `net`. No expression covers the wildcard network.
    #[must_use]
    pub fn matches(&self, net: Net) -> bool {
        let number = u32::from(net.number);
        net.lnd == self.lnd
            && self
                .numbers
                .as_ref()
                .map_or(number == 0, |numbers| numbers.contains(number))
    }

    /// The covered networks in ascending order, each once.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] if there are more than `limit`.
    pub fn expand(&self, limit: usize) -> Result<Vec<Net>, ExpandError> {
        check_limit(self.count(), limit)?;
        Ok(self.nets().collect())
    }

    fn count(&self) -> u128 {
        self.numbers.as_ref().map_or(1, NumberExpr::count)
    }

    /// The covered networks. The caller has checked [`Self::count`].
    fn nets(&self) -> impl Iterator<Item = Net> {
        let numbers = self
            .numbers
            .as_ref()
            .map_or_else(|| vec![0], NumberExpr::members);
        numbers
            .into_iter()
            .filter_map(|number| u16::try_from(number).ok())
            .map(|number| Net::new(self.lnd, number))
    }
}

impl FromStr for NetExpr {
    type Err = ParseExprError;

    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        parse::net_expr(text)
    }
}

// [UDSP-22] [UDSP-24]
impl fmt::Display for NetExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.numbers {
            None => write!(f, "{}", self.lnd),
            Some(numbers) => write!(f, "{}{numbers}", self.lnd),
        }
    }
}

/// An expression that matches NIDs: `10.0.0.[1-10/2]@o2ib1`, `*@gni`, `fd00::/64@tcp`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NidExpr {
    address: AddressExpr,
    net: NetExpr,
}

impl NidExpr {
    /// NIDs with these addresses on these networks. Returns `None` if the networks' type has
    /// addresses of another form, or if the maximum of a number is not that of its place.
    #[must_use]
    pub fn new(address: AddressExpr, net: NetExpr) -> Option<Self> {
        let fits = match (&address, net.lnd.address_form()) {
            (AddressExpr::V6 { .. }, _) => true,
            (AddressExpr::Quad(octets), AddressForm::Ip) => octets
                .iter()
                .all(|octet| octet.max() == NumberExpr::OCTET_MAX),
            (AddressExpr::Number(numbers), AddressForm::Number) => {
                numbers.max() == NumberExpr::ADDRESS_MAX
            }
            (AddressExpr::Quad(_), AddressForm::Number)
            | (AddressExpr::Number(_), AddressForm::Ip) => false,
        };
        fits.then_some(Self { address, net })
    }

    /// The part before the `@`.
    #[must_use]
    pub const fn address(&self) -> &AddressExpr {
        &self.address
    }

    /// The part after the `@`.
    #[must_use]
    pub const fn net(&self) -> &NetExpr {
        &self.net
    }

    /// Returns true if the expression covers `nid`. No expression covers the wildcard NID.
    #[must_use]
    pub fn matches(&self, nid: Nid) -> bool {
        self.net.matches(nid.net()) && self.address.matches(nid)
    }

    /// The covered NIDs, by network and then by address, each once.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] if there are more than `limit`.
    pub fn expand(&self, limit: usize) -> Result<Vec<Nid>, ExpandError> {
        check_limit(self.net.count().saturating_mul(self.address.count()), limit)?;
        let mut nids = Vec::new();
        for net in self.net.nets() {
            nids.extend(self.address.expand(net, limit)?);
        }
        Ok(nids)
    }
}

impl FromStr for NidExpr {
    type Err = ParseExprError;

    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        parse::nid_expr(text)
    }
}

impl fmt::Display for NidExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.address, self.net)
    }
}

/// The descriptor of a policy: networks, or NIDs. A network descriptor does not match the network's
/// NIDs.
// [UDSP-23]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Descriptor {
    /// Networks: `tcp3`.
    Net(NetExpr),
    /// NIDs: `10.0.0.[1-4]@tcp`.
    Nid(NidExpr),
}

impl FromStr for Descriptor {
    type Err = ParseExprError;

    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        if text.contains('@') {
            return text.parse().map(Self::Nid);
        }
        text.parse().map(Self::Net)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Nid(nid) => nid.fmt(f),
        }
    }
}
