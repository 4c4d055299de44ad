//! Lints of the places of NIDs: the interface under an NI, and its subnet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lnet_config::Step;
use lnet_config::machine::{Address, Machine, share_subnet};
use lnet_types::{Net, Nid};

use super::interfaces::{at_interfaces, prefix};
use super::site::usual;
use crate::lint::catalogue::{
    LOOPBACK_INTERFACE, NID_NOT_OF_INTERFACE, OUTSIDE_SUBNET, PREFIX_DIFFERS, VIRTUAL_INTERFACE,
    WRONG_INTERFACE,
};
use crate::lint::finding::Finding;
use crate::lint::node::{COMPARED_MAX, Ni, Node, listed};

/// The beginnings of the names that container runtimes and hypervisors give to their bridges and links.
const VIRTUAL: [&str; 14] = [
    "cali", "cbr", "cilium", "cni", "docker", "flannel", "kube-", "lxcbr", "lxdbr", "podman",
    "vboxnet", "virbr", "vmnet", "weave",
];

/// Decides whether an interface is a bridge or link of containers or virtual machines. Docker's networks are called
/// `br-` and 12 hexadecimal digits, and its links `veth` and 7.
#[must_use]
pub fn is_virtual(name: &str) -> bool {
    let of_docker = [("br-", 12), ("veth", 7)].iter().any(|(begin, digits)| {
        name.strip_prefix(begin).is_some_and(|rest| {
            rest.len() == *digits && rest.chars().all(|digit| digit.is_ascii_hexdigit())
        })
    });
    of_docker || VIRTUAL.iter().any(|begin| name.starts_with(begin))
}

/// Reports NIs that no other machine reaches, because they are on the loopback interface. Who writes the NID of a
/// loopback address, and no interface, wants a network within one machine.
pub(super) fn loopback_interface(node: &Node<'_>) -> Vec<Finding> {
    let nis = node.nis.iter();
    let on_lo = nis.filter(|ni| ni.interface.as_deref() == Some("lo"));
    let told = on_lo.map(|ni| {
        let reason = format!(
            "the NI of {} is on lo, the loopback interface: no other machine reaches it",
            ni.net
        );
        let fix = LOOPBACK_INTERFACE.helps.to_owned();
        node.finding(&LOOPBACK_INTERFACE, &at_interfaces(ni), reason, fix)
    });
    told.collect()
}

/// Reports NIs on interfaces that lead to containers or virtual machines of this machine only.
pub(super) fn virtual_interface(node: &Node<'_>) -> Vec<Finding> {
    let named = node.nis.iter().filter_map(|ni| {
        let name = ni.interface.as_deref()?;
        is_virtual(name).then_some((ni, name))
    });
    let told = named.map(|(ni, name)| {
        let reason = format!(
            "the NI of {} is on {name}, a bridge or link of containers or virtual machines: other machines do not reach \
             its address",
            ni.net
        );
        let fix = VIRTUAL_INTERFACE.helps.to_owned();
        node.finding(&VIRTUAL_INTERFACE, &at_interfaces(ni), reason, fix)
    });
    told.collect()
}

/// Reports NIs whose interface does not have the address in their NID.
pub(super) fn nid_not_of_interface(node: &Node<'_>) -> Vec<Finding> {
    let Some(machine) = node.machine() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for ni in &node.nis {
        let config = ni.show.map(|show| &show.config);
        let given = config.and_then(|config| Some((config, config.nid?.ip()?)));
        let Some((config, ip)) = given else { continue };
        let named = config.interfaces.iter();
        let addresses = named.filter_map(|name| Some(&machine.interface(name)?.addresses));
        let addresses: Vec<&Address> = addresses.flatten().collect();
        if addresses.is_empty() || addresses.iter().any(|address| address.ip == ip) {
            continue;
        }
        let has = addresses.iter().filter(|address| address.ip.is_ipv4());
        let has = listed(has.map(|address| address.ip));
        let owner = machine.named_addresses().find(|(_, other)| *other == ip);
        let owner = match owner {
            Some((name, _)) => format!("{ip} is the address of {name}"),
            None => format!("no interface of the machine has {ip}"),
        };
        let reason = format!("{} has {has}, and {owner}", listed(&config.interfaces));
        let fix = NID_NOT_OF_INTERFACE.helps.to_owned();
        found.push(node.finding(&NID_NOT_OF_INTERFACE, &at_interfaces(ni), reason, fix));
    }
    found
}

/// The addresses on a net, sorted, to count those of a subnet.
#[derive(Default)]
struct Addresses(BTreeSet<IpAddr>);

impl Addresses {
    /// Counts the addresses of the subnet in which an address is, without those in `own`.
    fn near(&self, address: &Address, own: &BTreeSet<IpAddr>) -> usize {
        let (first, last) = bounds(address);
        let all = self.0.range(first..=last).count();
        let mine = own.range(first..=last).filter(|ip| self.0.contains(ip));
        all - mine.count()
    }

    /// Counts the addresses without those in `own`.
    fn but(&self, own: &BTreeSet<IpAddr>) -> usize {
        self.0.len() - own.iter().filter(|ip| self.0.contains(ip)).count()
    }
}

/// Returns the first and the last address of a subnet.
fn bounds(address: &Address) -> (IpAddr, IpAddr) {
    match address.ip {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(u32::from(address.prefix)).unwrap_or(0);
            let first = ip.to_bits() & !host;
            (IpAddr::V4(first.into()), IpAddr::V4((first | host).into()))
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX
                .checked_shr(u32::from(address.prefix))
                .unwrap_or(0);
            let first = ip.to_bits() & !host;
            (IpAddr::V6(first.into()), IpAddr::V6((first | host).into()))
        }
    }
}

/// Reports NIs in whose subnet no other NID of the net is, while some are in the subnet of another interface of the
/// machine.
pub(super) fn wrong_interface(nodes: &[Node<'_>]) -> Vec<Finding> {
    let alone = alone(nodes).into_iter();
    let told = alone.filter_map(|Alone { node, ni, here, better, .. }| {
        let (name, address, count) = better?;
        let reason = format!(
            "no other NID of {} is in the subnet of {} ({}/{}), and {} in that of {name} ({}/{})",
            ni.net,
            here.0,
            here.1.ip,
            here.1.prefix,
            match count {
                1 => "one is".to_owned(),
                count => format!("{count} are"),
            },
            address.ip,
            address.prefix
        );
        let fix = format!("put the NI of {} on {name}", ni.net);
        Some(node.finding(&WRONG_INTERFACE, &at_interfaces(ni), reason, fix))
    });
    told.collect()
}

/// Reports NIs in whose subnet no other NID of the net is, nor in that of another interface: the others are reached by IP
/// routes only, or the prefix is wrong. An address without a subnet says nothing.
pub(super) fn outside_subnet(nodes: &[Node<'_>]) -> Vec<Finding> {
    let alone = alone(nodes).into_iter();
    let outside = alone.filter(|one| one.better.is_none() && one.others > 0);
    let told = outside.filter_map(|Alone { node, ni, here, others, .. }| {
        let Address { ip, prefix, .. } = here.1;
        let is_host = *prefix == if ip.is_ipv4() { 32 } else { 128 };
        let reason = format!(
            "none of the {others} other NIDs of {} that are known is in the subnet of {ip}/{prefix}: only IP routes lead \
             there, or the prefix is wrong",
            ni.net
        );
        let fix = OUTSIDE_SUBNET.helps.to_owned();
        (!is_host).then(|| node.finding(&OUTSIDE_SUBNET, &path_of(ni), reason, fix))
    });
    told.collect()
}

/// An NI in whose subnet no other NID of the net is.
struct Alone<'n> {
    node: &'n Node<'n>,
    ni: &'n Ni<'n>,
    /// The interface with the address of the NI.
    here: (&'n str, &'n Address),
    /// The number of other NIDs of the net that are known.
    others: usize,
    /// Another interface of the machine with some of them in its subnet, and their number.
    better: Option<(&'n str, &'n Address, usize)>,
}

fn alone<'n>(nodes: &'n [Node<'n>]) -> Vec<Alone<'n>> {
    let mut by_net: BTreeMap<Net, Addresses> = BTreeMap::new();
    for nid in nodes.iter().flat_map(Node::nids) {
        if let Some(ip) = nid.ip() {
            by_net.entry(nid.net()).or_default().0.insert(ip);
        }
    }
    let each = nodes
        .iter()
        .filter_map(|node| Some((node, node.machine()?)));
    let found = each.flat_map(|(node, machine)| {
        let nis = node.nis.iter().take(COMPARED_MAX);
        nis.filter_map(|ni| is_alone(node, machine, ni, by_net.get(&ni.net)))
            .collect::<Vec<_>>()
    });
    found.collect()
}

fn is_alone<'n>(
    node: &'n Node<'n>,
    machine: &'n Machine,
    ni: &'n Ni<'n>,
    of_nodes: Option<&Addresses>,
) -> Option<Alone<'n>> {
    let ip = ni.nid?.ip()?;
    let own: BTreeSet<IpAddr> = node.nids().filter_map(Nid::ip).collect();
    let named = Addresses(named(node, ni.net));
    let near = |address: &Address| {
        named.near(address, &own) + of_nodes.map_or(0, |others| others.near(address, &own))
    };
    let all = machine.interfaces.iter();
    let all = all.flat_map(|one| {
        one.addresses
            .iter()
            .map(move |address| (one.name.as_str(), address))
    });
    let here = all.clone().find(|(_, address)| address.ip == ip)?;
    if near(here.1) > 0 {
        return None;
    }
    // An interface under another NI of the net serves the others.
    let mut free =
        all.filter(|(_, address)| !own.contains(&address.ip) && !address.ip.is_loopback());
    let better = free.find(|(_, address)| near(address) > 0);
    let others = named.but(&own) + of_nodes.map_or(0, |others| others.but(&own));
    Some(Alone {
        node,
        ni,
        here,
        others,
        better: better.map(|(name, address)| (name, address, near(address))),
    })
}

/// Returns the addresses on a net that the node's own document names: gateways and peers.
fn named(node: &Node<'_>, net: Net) -> BTreeSet<IpAddr> {
    let gateways = node.routes.iter().map(|route| route.show.gateway);
    let peers = node.peers().flat_map(|(_, peer)| {
        let nids = peer.nis.iter().map(|ni| ni.nid);
        nids.chain([peer.primary])
    });
    let nids = gateways.chain(peers).filter(|nid| nid.net() == net);
    nids.filter_map(Nid::ip).collect()
}

/// Reports interfaces whose subnet has another length than those of most nodes of the net, although their address is
/// in the subnet of the others.
pub(super) fn prefix_differs(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut by_net: BTreeMap<Net, Vec<_>> = BTreeMap::new();
    for node in nodes {
        for ni in &node.nis {
            let ip = ni.nid.and_then(Nid::ip);
            if let Some((ip, prefix)) = ip.and_then(|ip| Some((ip, prefix(node, ip)?))) {
                by_net
                    .entry(ni.net)
                    .or_default()
                    .push((node, ni, ip, prefix));
            }
        }
    }
    let mut found = Vec::new();
    for (net, nis) in by_net {
        let Some(most) = usual(nis.iter().map(|&(node, _, _, prefix)| (prefix, node.count))) else {
            continue;
        };
        let model = nis.iter().find(|(_, _, _, prefix)| *prefix == most);
        let Some(&(other, _, near, _)) = model else {
            continue;
        };
        let wrong = nis
            .iter()
            .filter(|&&(_, _, ip, prefix)| prefix != most && share_subnet(ip, near, most));
        found.extend(wrong.map(|&(node, ni, ip, prefix)| {
            let reason = format!(
                "{ip} of {} has a prefix of {prefix} bits, and most addresses of {net} one of {most}, as on {}: this \
                 node and some of the others are not in one subnet",
                Node::label(ni),
                other.source.name
            );
            let fix = format!("ip addr replace {ip}/{most} dev {}, and the same in the system's configuration", name_of(ni));
            node.finding(&PREFIX_DIFFERS, &path_of(ni), reason, fix)
        }));
    }
    found
}

fn name_of<'n>(ni: &'n Ni<'_>) -> &'n str {
    ni.interface.as_deref().unwrap_or("INTERFACE")
}

fn path_of(ni: &Ni<'_>) -> Vec<Step<'static>> {
    if ni.interface.is_some() {
        at_interfaces(ni)
    } else {
        ni.path.clone()
    }
}
