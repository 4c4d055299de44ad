//! Networks by the addresses that a machine has: the `ip2nets` section: [CONF-25].
//!
//! Rules are tried in their order. The first rule that covers an address of this machine configures
//! its network. Later rules for the same network are ignored; rules for other networks add those.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use lnet_types::Net;
use lnet_types::expr::{AddressExpr, NumberExpr, ParseExprError};
use thiserror::Error;

use crate::model::{LndTunables, NetConfig, NiConfig, Tunables};

/// A rule: nodes with a matching address have this network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip2Nets {
    /// The network.
    pub net: Net,
    /// The interfaces that carry it; empty for those with a covered address.
    pub interfaces: Vec<String>,
    /// The patterns of addresses; empty for any address.
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
    /// A rule without patterns covers every machine. A rule with interfaces configures those
    /// interfaces if any address of the machine is covered, on any interface. A rule without
    /// interfaces configures the interfaces whose addresses are covered.
    ///
    /// # Errors
    ///
    /// [`NoRuleApplies`], also if there are no rules.
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

    /// The networks that the module gives a machine by these rules: as [`Ip2Nets::nets`], but a later rule that covers an
    /// address adds its interfaces to the network.
    ///
    /// # Errors
    ///
    /// [`NoRuleApplies`], also if there are no rules.
    // [CONF-55]
    pub fn nets_of_module(
        rules: &[Self],
        local: &[(&str, IpAddr)],
    ) -> Result<Vec<NetConfig>, NoRuleApplies> {
        let mut nets: Vec<NetConfig> = Vec::new();
        for net in rules.iter().filter_map(|rule| rule.net(local)) {
            let Some(known) = nets.iter_mut().find(|known| known.net == net.net) else {
                nets.push(net);
                continue;
            };
            for mut ni in net.nis {
                let is_new = |name: &String| {
                    let mut nis = known.nis.iter();
                    nis.all(|other| !other.interfaces.contains(name))
                };
                ni.interfaces.retain(is_new);
                if !ni.interfaces.is_empty() {
                    known.nis.push(ni);
                }
            }
        }
        if nets.is_empty() {
            return Err(NoRuleApplies);
        }
        Ok(nets)
    }

    /// The rules that cover an address of this machine and are ignored, because an earlier rule
    /// configures their network without an interface that they name. Each is returned with the
    /// earlier rule.
    #[must_use]
    pub fn passed_over<'r>(
        rules: &'r [Self],
        local: &[(&str, IpAddr)],
    ) -> Vec<(usize, &'r Self, &'r Self)> {
        let covering = rules.iter().enumerate();
        let covering = covering.filter_map(|(at, rule)| Some((at, rule, rule.net(local)?)));
        let covering: Vec<_> = covering.collect();
        let hidden = covering.iter().enumerate().filter_map(|(at, later)| {
            let mut earlier = covering.iter().take(at);
            let first = earlier.find(|(_, rule, _)| rule.net == later.1.net)?;
            let has = |name: &String| first.2.nis.iter().any(|ni| ni.interfaces.contains(name));
            let lost = later.1.interfaces.iter().any(|name| !has(name));
            lost.then_some((later.0, later.1, first.1))
        });
        hidden.collect()
    }

    /// The rules that are ignored on a machine that an earlier rule for their network covers too,
    /// and that name an interface that the earlier rule does not name. Each is returned with the
    /// first such earlier rule.
    #[must_use]
    pub fn may_be_passed_over(rules: &[Self]) -> Vec<(usize, &Self, &Self)> {
        // Of rules with the same interfaces the first stands for all.
        let mut known = BTreeSet::new();
        let mut of_nets: BTreeMap<Net, Vec<&Self>> = BTreeMap::new();
        let mut hidden = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let earlier = of_nets.entry(rule.net).or_default();
            let adds = |one: &&&Self| {
                let mut names = rule.interfaces.iter();
                names.any(|name| !one.interfaces.contains(name))
            };
            if let Some(first) = earlier.iter().find(adds) {
                hidden.push((at, rule, *first));
            }
            if known.insert((rule.net, &rule.interfaces)) {
                earlier.push(rule);
            }
        }
        hidden
    }

    /// The network with its interfaces, in the form of the module options `networks` and `ip2nets`.
    #[must_use]
    pub fn spec(&self) -> String {
        if self.interfaces.is_empty() {
            return self.net.to_string();
        }
        format!("{}({})", self.net, self.interfaces.join(","))
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

    /// Returns true for a pattern of IPv4 addresses.
    pub(crate) const fn is_quad(&self) -> bool {
        matches!(self.0, AddressExpr::Quad(_))
    }

    /// Returns true if the pattern covers `address`.
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
            // The dot makes the parser expect a quad, so that its error names four elements.
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
