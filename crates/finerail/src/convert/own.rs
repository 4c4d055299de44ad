//! `finerail convert --for NID`: the configuration that this machine needs to reach a node, from its interfaces and
//! routes.

use std::net::IpAddr;

use anyhow::bail;
use lnet_config::machine::{Interface, Machine, is_by_ip, share_subnet};
use lnet_config::{Config, NetConfig, NiConfig};
use lnet_site::lint::is_virtual;
use lnet_types::Nid;

use crate::common::Negative;
use crate::ctl::hosts::nids_of;
use crate::{ip, rails};

/// The interfaces of this machine that lead to a node.
pub(super) struct Own {
    nid: Nid,
    /// The name that stood for the NID.
    name: Option<String>,
    /// The names of the interfaces, that of the system's own route first.
    interfaces: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Own {
    /// Finds the interfaces that lead to a NID, or to the first address of a host name that this machine reaches.
    pub(super) fn find(target: &str) -> anyhow::Result<Self> {
        let nids = nids_of(target)?;
        let machine = Machine::parse(&ip::addresses()?)?;
        let own = first_reached(target, nids, |nid| Self::of(nid, &machine))?;
        let is_nid = target.parse::<Nid>().is_ok();
        let name = (!is_nid).then(|| target.to_owned());
        Ok(Self { name, ..own })
    }

    /// Finds the interfaces. Several of them count if each reaches the node as the first one does: in one subnet, or
    /// with an address without a subnet.
    fn of(nid: Nid, machine: &Machine) -> anyhow::Result<Self> {
        let address = nid.ip().filter(|_| is_by_ip(nid.net()));
        let Some(address) = address else {
            bail!("{nid}: only NIDs of tcp and o2ib are addresses that the system has routes to");
        };
        if machine.named_addresses().any(|(_, own)| own == address) {
            bail!(Negative(format!("{address} is an address of this machine")));
        }
        let route = ip::route_to(address, None).map_err(|error| Negative(format!("{error:#}")))?;
        let first = machine.interface(&route.dev);
        let Some((first, own)) = first.and_then(|one| Some((one, source(one, address)?))) else {
            bail!(Negative(format!(
                "{address} is reached over {}, which has no address of its kind: bring it up first",
                route.dev
            )));
        };
        let prefix = machine.prefix_of(own).unwrap_or(0);
        let is_rail = |other: &&Interface| {
            let other_address =
                source(other, address).filter(|_| other.up && is_usable(&other.name));
            other_address.is_some_and(|ip| {
                let same = machine.prefix_of(ip) == Some(prefix);
                let is_host = prefix == if ip.is_ipv4() { 32 } else { 128 };
                same && (is_host || share_subnet(ip, own, prefix))
            })
        };
        let others = machine
            .interfaces
            .iter()
            .filter(|one| one.name != first.name);
        let rails: Vec<&Interface> = std::iter::once(first)
            .chain(others.filter(is_rail))
            .collect();
        Ok(Self {
            nid,
            name: None,
            interfaces: rails.iter().map(|one| one.name.clone()).collect(),
            addresses: rails
                .iter()
                .filter_map(|one| source(one, address))
                .collect(),
        })
    }

    /// Returns the configuration as YAML.
    pub(super) fn yaml(&self) -> String {
        let net = self.nid.net();
        let by_address = |&address: &IpAddr| NiConfig {
            nid: Some(Nid::from_ip(net, address)),
            ..NiConfig::default()
        };
        let by_name = NiConfig {
            interfaces: self.interfaces.clone(),
            ..NiConfig::default()
        };
        // The name of an interface stands for its IPv4 address.
        let nis = match self.is_large() {
            true => self.addresses.iter().map(by_address).collect(),
            false => vec![by_name],
        };
        let net = NetConfig { net, nis };
        let config = Config {
            nets: vec![net],
            ..Config::default()
        };
        config.to_yaml()
    }

    fn is_large(&self) -> bool {
        self.nid.ip().is_some_and(|address| address.is_ipv6())
    }

    /// Returns what the system needs so that each interface sends for its own address, as commands.
    pub(super) fn routes(&self) -> anyhow::Result<String> {
        let rails = rails::of_addresses(&self.addresses)?;
        Ok(rails::commands(&rails, &rails::running))
    }

    /// Returns what the user should know about the result.
    pub(super) fn notes(&self) -> Vec<String> {
        let name = self.name.iter();
        let mut notes: Vec<String> = name.map(|name| format!("{name} is {}", self.nid)).collect();
        if self.is_large() {
            notes.push(
                "IPv6 NIDs need release 2.16 or later; its kernel nodes take them with `lnetctl lnet configure --large` \
                 and the names of the interfaces"
                    .to_owned(),
            );
        }
        if self.interfaces.len() > 1 {
            notes.push(format!(
                "{} reach {}: the system needs routes by source address, which `finerail convert --for {} --to routes` \
                 prints",
                self.interfaces.join(", "),
                self.nid,
                self.nid
            ));
        }
        if self.interfaces.iter().any(|name| !is_usable(name)) {
            notes.push(format!(
                "{} is an interface of containers or virtual machines: does the node reach it?",
                self.interfaces.join(", ")
            ));
        }
        notes
    }
}

/// Returns what is found for the first NID of a name for which something is found. If nothing is, the error has the reason
/// for each NID.
fn first_reached<T>(
    target: &str,
    nids: Vec<Nid>,
    find: impl Fn(Nid) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut refused = Vec::new();
    for nid in nids {
        match find(nid) {
            Ok(found) => return Ok(found),
            Err(error) => refused.push(error),
        }
    }
    if refused.len() == 1
        && let Some(error) = refused.pop()
    {
        return Err(error);
    }
    let reasons: Vec<String> = refused.iter().map(|error| format!("{error:#}")).collect();
    bail!(Negative(format!(
        "no address of {target} is reached: {}",
        reasons.join("; ")
    )));
}

/// Returns the address of an interface from which an address of the same kind is reached.
fn source(interface: &Interface, to: IpAddr) -> Option<IpAddr> {
    let mut addresses = interface.addresses.iter().map(|address| address.ip);
    let is_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    addresses.find(|ip| ip.is_ipv4() == to.is_ipv4() && !is_local(ip))
}

fn is_usable(name: &str) -> bool {
    name != "lo" && !is_virtual(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_name_is_tried() {
        let nids = || -> Vec<Nid> {
            let texts = ["10.0.0.1@tcp", "10.0.0.2@tcp", "fd00::1@tcp"];
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let only = |good: &'static str| {
            first_reached("mgs@tcp", nids(), move |nid| match nid.to_string() {
                text if text == good => Ok(text),
                text => bail!("no route to {text}"),
            })
        };
        assert_eq!(only("fd00::1@tcp").unwrap(), "fd00::1@tcp");
        let error = only("none").unwrap_err();
        assert!(error.is::<Negative>());
        assert_eq!(
            error.to_string(),
            "no address of mgs@tcp is reached: no route to 10.0.0.1@tcp; no route to 10.0.0.2@tcp; no route to fd00::1@tcp"
        );
        let one = vec!["10.0.0.9@tcp".parse().unwrap()];
        let error = first_reached("mgs@tcp", one, |_| -> anyhow::Result<()> { bail!("down") });
        assert_eq!(error.unwrap_err().to_string(), "down");
    }
}
