//! Networks by the addresses that a machine has: the `ip2nets` section (selection, section 6.2).
//!
//! Rules are tried in their order. The first that covers an address of this machine configures its
//! network, later rules for that network are passed over, and other networks are added.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use lnet_types::Net;
use lnet_types::expr::{AddressExpr, NumberExpr, ParseExprError};
use thiserror::Error;

use crate::model::{LndTunables, NetConfig, NiConfig, Tunables};

/// A rule: nodes with such an address have this network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip2Nets {
    /// The network.
    pub net: Net,
    /// The interfaces that carry it; empty for those whose address is covered.
    pub interfaces: Vec<String>,
    /// What an address of the node must look like; empty for any.
    pub patterns: Vec<IpPattern>,
    /// Credits and timeouts of the interfaces.
    pub tunables: Tunables,
    /// Settings of the LND.
    pub lnd_tunables: LndTunables,
    /// The CPU partitions that serve the interfaces; empty for all.
    pub cpts: Vec<u32>,
}

/// IP addresses: `192.168.[1-2].*`, `fd00::/64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IpPattern(AddressExpr);

/// No rule covers an address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("No ip2nets rules applied: no rule covers an address of this machine")]
pub struct NoRuleApplies;

impl Ip2Nets {
    /// The networks of a machine with these interfaces and addresses, in the order of the rules.
    ///
    /// A rule without patterns covers every machine. One that names interfaces configures those, if
    /// any address of the machine is covered, whichever interface has it; one that names none
    /// configures the interfaces whose addresses are covered.
    ///
    /// # Errors
    ///
    /// [`NoRuleApplies`], also when there are no rules.
    ///
    /// ```
    /// use lnet_config::Ip2Nets;
    ///
    /// let config = lnet_config::parse("ip2nets: [{net-spec: tcp, ip-range: {0: '192.168.[1-2].*'}}]")?;
    /// let nets = Ip2Nets::nets(&config.ip2nets, &[("eth0", [10, 0, 0, 1].into()), ("eth1", [192, 168, 2, 7].into())])?;
    /// assert_eq!(nets[0].nis[0].interfaces, ["eth1"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nets(rules: &[Self], local: &[(&str, IpAddr)]) -> Result<Vec<NetConfig>, NoRuleApplies> {
        let mut done = BTreeSet::new();
        let mut nets = Vec::new();
        for rule in rules {
            if done.contains(&rule.net) {
                continue;
            }
            if let Some(net) = rule.net(local) {
                done.insert(rule.net);
                nets.push(net);
            }
        }
        if nets.is_empty() {
            return Err(NoRuleApplies);
        }
        Ok(nets)
    }

    fn net(&self, local: &[(&str, IpAddr)]) -> Option<NetConfig> {
        let covers = |address: IpAddr| {
            self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(address))
        };
        let mut covered: Vec<&str> = Vec::new();
        for (name, _) in local.iter().filter(|(_, address)| covers(*address)) {
            if !covered.contains(name) {
                covered.push(name);
            }
        }
        if covered.is_empty() {
            return None;
        }
        let interfaces = if self.interfaces.is_empty() {
            covered.into_iter().map(str::to_owned).collect()
        } else {
            self.interfaces.clone()
        };
        let ni = NiConfig {
            nid: None,
            interfaces,
            tunables: self.tunables.clone(),
            lnd_tunables: self.lnd_tunables.clone(),
            cpts: self.cpts.clone(),
        };
        Some(NetConfig {
            net: self.net,
            nis: vec![ni],
        })
    }
}

impl IpPattern {
    /// Every IPv4 address.
    pub(crate) fn any_v4() -> Self {
        let octets = std::array::from_fn(|_| NumberExpr::any(NumberExpr::OCTET_MAX));
        Self(AddressExpr::Quad(octets))
    }

    /// True for a pattern of IPv4 addresses.
    pub(crate) const fn is_quad(&self) -> bool {
        matches!(self.0, AddressExpr::Quad(_))
    }

    /// True when the pattern covers `address`.
    #[must_use]
    pub fn matches(&self, address: IpAddr) -> bool {
        self.0.matches_ip(address)
    }
}

impl FromStr for IpPattern {
    type Err = ParseExprError;

    /// Four expressions with dots between them, or an IPv6 address or prefix.
    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        if !text.contains(['.', ':']) {
            // Four expressions are expected, and the error of a quad with too few says so.
            return format!("{text}.").parse().map(Self);
        }
        text.parse().map(Self)
    }
}

impl fmt::Display for IpPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
