//! Lints of the machine's own interfaces.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lnet_config::machine::{Lack, Machine, share_subnet};
use lnet_config::{Ip2Nets, Status, Step};
use lnet_types::{LndType, Net, Nid};

use crate::lint::catalogue::{
    HOST_PREFIXES, INTERFACE_DOWN, INTERFACE_MISSING, INTERFACE_SHARED, IP2NETS_HOST_MATCH,
    IP2NETS_PASSED_OVER, NI_DOWN, ONE_SUBNET, RDMA_DEVICE_MISSING, SHARED_DEVICE_DOWN,
    SUBNETS_APART, Severity,
};
use crate::lint::finding::Finding;
use crate::lint::node::{COMPARED_MAX, Ni, Node, listed};

/// The length of the subnet prefix if the machine's own is not known: most clusters use it for their rails.
pub(super) const USUAL_PREFIX: u8 = 24;

/// Returns the NIs whose interface lacks what an NI needs, each with the name of the interface.
fn lacking<'n>(
    node: &'n Node<'_>,
    machine: &'n Machine,
) -> impl Iterator<Item = (&'n Ni<'n>, &'n str, Lack)> {
    node.nis.iter().filter_map(|ni| {
        let name = ni.interface.as_deref()?;
        Some((ni, name, machine.lack(ni.net, ni.nid, name)?))
    })
}

/// Reports each configured interface that the machine does not have. An import stops at such an interface.
pub(super) fn interface_missing(node: &Node<'_>) -> Vec<Finding> {
    let Some(machine) = node.machine() else {
        return Vec::new();
    };
    let present = listed(machine.interfaces.iter().map(|one| &one.name));
    let missing = lacking(node, machine).filter(|(_, _, lack)| *lack == Lack::Interface);
    let told = missing.map(|(ni, name, _)| {
        let reason = format!(
            "{name} is named for {} and the machine has {present}: an import stops there, and the nets and routes \
             after it are missing",
            ni.net
        );
        let fix = machine.advice_for(Lack::Interface, name);
        node.finding(&INTERFACE_MISSING, &at_interfaces(ni), reason, fix)
    });
    told.collect()
}

/// Reports each interface that exists but has no carrier, or no address that its NI can use.
pub(super) fn interface_down(node: &Node<'_>) -> Vec<Finding> {
    let Some(machine) = node.machine() else {
        return Vec::new();
    };
    let down = lacking(node, machine).filter_map(|(ni, name, lack)| {
        let what = match (lack, ni.nid.and_then(Nid::ip)) {
            (Lack::Interface, _) => return None,
            (Lack::Link, _) => "is down or has no carrier",
            (Lack::Address, Some(IpAddr::V6(_))) => "has no IPv6 address, and this NI needs one",
            (Lack::Address, _) => "has no IPv4 address, and an NI needs one",
        };
        Some((ni, name, what, lack))
    });
    let told = down.map(|(ni, name, what, lack)| {
        let reason = format!("{name}, under an NI of {}, {what}", ni.net);
        let fix = machine.advice_for(lack, name);
        node.finding(&INTERFACE_DOWN, &at_interfaces(ni), reason, fix)
    });
    told.collect()
}

/// Reports each o2ib NI on an interface that has no RDMA device. Without the output of `rdma link` that is not known.
pub(super) fn rdma_device_missing(node: &Node<'_>) -> Vec<Finding> {
    let Some(machine) = node.machine() else {
        return Vec::new();
    };
    let names = machine.interfaces.iter().map(|one| &one.name);
    let devices = listed(names.filter(|name| !machine.lacks_rdma(name)));
    let over_rdma = node.nis.iter().filter(|ni| ni.net.lnd == LndType::O2IB);
    let told = over_rdma.filter_map(|ni| {
        let name = ni.interface.as_deref()?;
        if !machine.lacks_rdma(name) {
            return None;
        }
        let reason = match devices.as_str() {
            "" => format!("{name} has no RDMA device, and no other interface has one"),
            _ => format!("{name} has no RDMA device; interfaces with one: {devices}"),
        };
        let fix = format!("name an interface with a device, or load the driver of {name}");
        Some(node.finding(&RDMA_DEVICE_MISSING, &at_interfaces(ni), reason, fix))
    });
    told.collect()
}

pub(super) fn at_interfaces(ni: &Ni<'_>) -> Vec<Step<'static>> {
    [ni.path.as_slice(), &[Step::Key("interfaces")]].concat()
}

/// Reports NIs that share a device. If the device is down, all these NIs are down, but an alias or a VLAN does not
/// notice.
pub(super) fn shared_device(node: &Node<'_>) -> Vec<Finding> {
    let mut by_device: BTreeMap<String, Vec<&Ni<'_>>> = BTreeMap::new();
    for ni in &node.nis {
        // The interface of a network that names none is the first, or made up.
        let is_named = !node.source.unnamed.contains(&ni.net);
        if let Some(name) = ni.interface.as_ref().filter(|_| is_named) {
            let device = device(node.machine(), name);
            by_device.entry(device).or_default().push(ni);
        }
    }
    let shared = by_device.iter().filter(|(_, nis)| nis.len() > 1);
    shared
        .flat_map(|(device, nis)| on_one_device(node, device, nis))
        .collect()
}

fn on_one_device(node: &Node<'_>, device: &str, nis: &[&Ni<'_>]) -> Vec<Finding> {
    let machine = node.machine().and_then(|machine| machine.interface(device));
    let dead = machine.is_some_and(|interface| !interface.up);
    let Some(down) = nis.iter().find(|ni| is_down(ni) || dead) else {
        let labels = listed(nis.iter().map(|ni| Node::label(ni)));
        let reason = format!("{labels} share {device}: they share its rate, and fail together");
        let fix = INTERFACE_SHARED.helps.to_owned();
        let last = nis.last().into_iter();
        return last
            .map(|ni| node.finding(&INTERFACE_SHARED, &ni.path, reason.clone(), fix.clone()))
            .collect();
    };
    let others = nis.iter().filter(|ni| ni.path != down.path && !is_down(ni));
    let told = others.map(|ni| {
        let reason = format!(
            "NI {} counts as up and shares device {device} with NI {}, which is down",
            Node::label(ni),
            Node::label(down)
        );
        let fix = format!("lnetctl net del --net {} while the device is down", ni.net);
        node.finding(&SHARED_DEVICE_DOWN, &ni.path, reason, fix)
    });
    told.collect()
}

/// Reports each local NI that the document itself shows as not working.
pub(super) fn ni_down(node: &Node<'_>) -> Vec<Finding> {
    let down = node.nis.iter().filter_map(|ni| {
        let show = ni.show?;
        let fatal = show.health.is_some_and(|health| health.fatal_error != 0);
        let (key, what) = match (fatal, show.status == Some(Status::Down)) {
            (true, _) => (
                "health stats",
                "has a fatal error: its link or its address is missing, and it is selected only if there is no other interface",
            ),
            (false, true) => (
                "status",
                "has the status down, which peers learn: they send to it only if there is no other interface",
            ),
            (false, false) => return None,
        };
        let path = [ni.path.as_slice(), &[Step::Key(key)]].concat();
        let reason = format!("local NI {} {what}", Node::label(ni));
        let interface = ni.interface.as_deref().unwrap_or("INTERFACE");
        let fix = format!("ip addr show {interface}: check its carrier and its address");
        Some(node.finding(&NI_DOWN, &path, reason, fix))
    });
    down.collect()
}

fn is_down(ni: &Ni<'_>) -> bool {
    let fatal = |show: &lnet_config::NiShow| show.health.is_some_and(|one| one.fatal_error != 0);
    ni.show
        .is_some_and(|show| show.status == Some(Status::Down) || fatal(show))
}

/// Returns the device under an interface: for an alias the part before the colon, for a VLAN its parent.
fn device(machine: Option<&Machine>, name: &str) -> String {
    let base = name.split([':', '.']).next().unwrap_or(name);
    let parent = machine.and_then(|machine| machine.interface(name)?.parent.clone());
    parent.unwrap_or_else(|| base.to_owned())
}

/// Returns the prefix of a local address's subnet, if the machine's interfaces are known.
pub(super) fn prefix(node: &Node<'_>, ip: IpAddr) -> Option<u8> {
    node.machine().and_then(|machine| machine.prefix_of(ip))
}

/// Reports NIs in one subnet: their interfaces answer for each other, unless the system routes by source address.
pub(super) fn one_subnet(node: &Node<'_>) -> Vec<Finding> {
    let with_ip = node.nis.iter().filter_map(|ni| Some((ni, ni.nid?.ip()?)));
    // No node asks for loopback addresses by ARP.
    let with_ip = with_ip.filter(|(_, ip)| !ip.is_loopback());
    let with_ip = with_ip.take(COMPARED_MAX);
    let nis: Vec<(&Ni<'_>, IpAddr)> = with_ip.collect();
    // One address on several nets is a single interface.
    let together = |a: IpAddr, b: IpAddr| {
        let prefix = prefix(node, a).max(prefix(node, b));
        a != b && share_subnet(a, b, prefix.unwrap_or(USUAL_PREFIX))
    };
    let mut found = Vec::new();
    for (at, &(first, ip)) in nis.iter().enumerate() {
        let others = nis.iter().skip(at + 1).filter(|(_, b)| together(ip, *b));
        let others: Vec<_> = others.collect();
        let told = nis
            .iter()
            .take(at)
            .any(|&(_, earlier)| together(earlier, ip));
        if others.is_empty() || told {
            continue;
        }
        let known = prefix(node, ip).is_some();
        let guess = if known {
            ""
        } else {
            " if its prefix has 24 bits"
        };
        let all = std::iter::once(Node::label(first));
        let all = all.chain(others.iter().map(|(ni, _)| Node::label(ni)));
        let reason = format!(
            "{} are in one subnet{guess}: the system answers ARP for any of them on all and sends over one, and \
             rp_filter drops what comes in on the other, unless it routes by source address",
            listed(all)
        );
        let fix = ONE_SUBNET.helps.to_owned();
        let made = node.finding(&ONE_SUBNET, &first.path, reason, fix);
        let severity = if known { made.severity } else { Severity::Note };
        found.push(made.with_severity(severity));
    }
    found
}

/// Returns true if an address has no subnet, as in clouds that route each address on its own.
pub(super) fn is_host_prefix(ip: IpAddr, prefix: Option<u8>) -> bool {
    prefix == Some(if ip.is_ipv4() { 32 } else { 128 })
}

/// Reports several NIs without subnets: everything leaves through the interface of the default route, unless the system
/// routes by source address.
pub(super) fn host_prefixes(node: &Node<'_>) -> Vec<Finding> {
    let with_ip = node.nis.iter().filter_map(|ni| Some((ni, ni.nid?.ip()?)));
    let alone =
        with_ip.filter(|(_, ip)| !ip.is_loopback() && is_host_prefix(*ip, prefix(node, *ip)));
    let nis: Vec<&Ni<'_>> = alone.map(|(ni, _)| ni).take(COMPARED_MAX).collect();
    let [_, second, ..] = nis[..] else {
        return Vec::new();
    };
    let reason = format!(
        "{} have addresses without subnets (/32), as in clouds: without routes by source address, everything leaves \
         through the interface of the default route, and the network drops what has another interface's address",
        listed(nis.iter().map(|ni| Node::label(ni)))
    );
    let fix = HOST_PREFIXES.helps.to_owned();
    vec![node.finding(&HOST_PREFIXES, &second.path, reason, fix)]
}

/// Reports rails of one net that are in several subnets: LNet pairs any local NI of a net with any NID on the net.
pub(super) fn subnets_apart(node: &Node<'_>) -> Vec<Finding> {
    let mut by_net: BTreeMap<Net, Vec<(&Ni<'_>, IpAddr)>> = BTreeMap::new();
    for ni in node.nis.iter().take(COMPARED_MAX) {
        if let Some(ip) = ni.nid.and_then(Nid::ip) {
            by_net.entry(ni.net).or_default().push((ni, ip));
        }
    }
    let told = by_net.into_iter().filter_map(|(net, nis)| {
        let &(first, ip) = nis.first()?;
        let known = prefix(node, ip);
        if is_host_prefix(ip, known) {
            return None;
        }
        let apart = |other: IpAddr| !share_subnet(ip, other, known.unwrap_or(USUAL_PREFIX));
        let &(other, _) = nis.iter().find(|(_, other)| apart(*other))?;
        let guess = if known.is_some() {
            ""
        } else {
            " if their prefix has 24 bits"
        };
        let reason = format!(
            "{} and {} are rails of {net} in different subnets{guess}: LNet sends from any NI of a net to any NID of \
             it, and between subnets that no IP route joins every such pair fails",
            Node::label(first),
            Node::label(other)
        );
        let made = node.finding(&SUBNETS_APART, &other.path, reason, SUBNETS_APART.helps.to_owned());
        let severity = if known.is_some() {
            made.severity
        } else {
            Severity::Note
        };
        Some(made.with_severity(severity))
    });
    told.collect()
}

/// Reports address patterns: LNet matches a pattern against all addresses of the machine, not against the interface
/// that the entry names.
pub(super) fn ip2nets_host_match(node: &Node<'_>) -> Vec<Finding> {
    let entries = node.document().ip2nets.iter().enumerate();
    let told = entries
        .filter(|(_, entry)| !entry.patterns.is_empty())
        .filter_map(|(at, entry)| {
            let patterns = listed(&entry.patterns);
            let covered = |ip| entry.patterns.iter().any(|pattern| pattern.matches(ip));
            let matching = node.machine().map(|machine| {
                let addresses = machine.named_addresses();
                let matching = addresses.filter(|(_, ip)| covered(*ip));
                matching.map(|(name, _)| name).collect::<Vec<_>>()
            });
            let named = &entry.interfaces;
            let (severity, seen) = match &matching {
                Some(matching) if !named.is_empty() && named.iter().all(|name| matching.contains(&name.as_str())) => {
                    return None;
                }
                None if named.is_empty() => return None,
                None => (Severity::Note, "which one matches is not known without --interfaces".to_owned()),
                Some(matching) if matching.is_empty() => {
                    (Severity::Warning, "none matches here, so the entry configures nothing".to_owned())
                }
                Some(matching) => (Severity::Warning, format!("here that is {}", listed(matching))),
            };
            let configures = if named.is_empty() {
                "the first interface that kernels find".to_owned()
            } else {
                format!("{}, even if that interface does not match", listed(named))
            };
            let reason = format!(
                "the pattern {patterns} compares all addresses of the host ({seen}), and then configures for {} \
                 {configures}",
                entry.net
            );
            let fix = "name the interface in a net section, which does not depend on the order of interfaces";
            let path = [Step::Key("ip2nets"), Step::Item(at), Step::Key("ip-range")];
            let made = node.finding(&IP2NETS_HOST_MATCH, &path, reason, fix.to_owned());
            Some(made.with_severity(severity))
        });
    told.collect()
}

/// Reports rules that have no effect because an earlier rule of the same net covers an address of the machine: only
/// the first such rule counts.
// [CONF-25]
pub(super) fn ip2nets_passed_over(node: &Node<'_>) -> Vec<Finding> {
    let rules = &node.document().ip2nets;
    let local = node
        .machine()
        .map(|machine| machine.named_addresses().collect::<Vec<_>>());
    let (passed_over, severity, when) = match &local {
        Some(local) => (
            Ip2Nets::passed_over(rules, local),
            Severity::Warning,
            "here",
        ),
        None => (
            Ip2Nets::may_be_passed_over(rules),
            Severity::Note,
            "on a machine with addresses for both",
        ),
    };
    let told = passed_over.into_iter().map(|(at, rule, earlier)| {
        let (rule, earlier) = (rule.spec(), earlier.spec());
        // [CONF-25] is about documents. Modules up to 2.17 take the interfaces of all rules that cover an address.
        let reason = match node.source.is_options {
            true => format!(
                "{earlier} and {rule} both cover an address {when}: the module takes the interfaces of both, and an import \
                 of the converted YAML takes those of {earlier} only"
            ),
            false => format!(
                "{rule} is ignored {when}: the rule for {earlier} comes first, and a network gets the interfaces of the \
                 first rule that covers an address"
            ),
        };
        let path = [Step::Key("ip2nets"), Step::Item(at)];
        let fix = IP2NETS_PASSED_OVER.helps.to_owned();
        node.finding(&IP2NETS_PASSED_OVER, &path, reason, fix).with_severity(severity)
    });
    told.collect()
}
