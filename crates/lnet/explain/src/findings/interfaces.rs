//! Findings about the machine's own interfaces.

use std::collections::BTreeMap;

use lnet_config::machine::{Lack, Machine, share_subnet};
use lnet_types::Nid;

use super::{Context, finding, listed};
use crate::finding::{Code, Finding, Severity};

/// Returns each local NID with the name of the interface under it.
fn named<'a>(context: &Context<'a>) -> Vec<(Nid, &'a str)> {
    let interfaces = context.node.facts.interfaces.iter();
    let named =
        interfaces.flat_map(|(&nid, names)| names.iter().map(move |name| (nid, name.as_str())));
    named.collect()
}

/// Reports each configured interface that the machine does not have. An import stops at such an interface.
pub(super) fn interface_missing(context: &Context<'_>) -> Vec<Finding> {
    let Some(machine) = &context.node.facts.machine else {
        return Vec::new();
    };
    let present = listed(machine.interfaces.iter().map(|one| &one.name));
    let missing = named(context)
        .into_iter()
        .filter(|(nid, name)| machine.lack(nid.net(), Some(*nid), name) == Some(Lack::Interface));
    let told = missing.map(|(nid, name)| {
        let text = format!(
            "the configuration names {name} for {}; the machine has {present}. An import stops there, \
             and the nets and routes after it are missing",
            nid.net()
        );
        let advice = machine.advice_for(Lack::Interface, name);
        finding(Code::InterfaceMissing, Severity::Error, name, text, advice)
    });
    told.collect()
}

/// Reports each local NI that the node itself prints as not working.
pub(super) fn ni_down(context: &Context<'_>) -> Vec<Finding> {
    let down = context.node.facts.down.iter().map(|(&nid, what)| {
        let label = context.node.label(nid);
        let text = format!(
            "the node prints {what} for NI {label}: it is selected only if there is no other NI, and peers learn \
             that it is down"
        );
        let advice = "check its carrier and its address (`ip addr`); the NI is up again when it has both";
        finding(Code::NiDown, Severity::Warning, nid, text, advice)
    });
    down.collect()
}

/// Reports each interface that exists but has no carrier or no IPv4 address.
pub(super) fn interface_down(context: &Context<'_>) -> Vec<Finding> {
    let Some(machine) = &context.node.facts.machine else {
        return Vec::new();
    };
    let down = named(context).into_iter().filter_map(|(nid, name)| {
        let lack = machine.lack(nid.net(), Some(nid), name)?;
        let what = match lack {
            Lack::Interface => return None,
            Lack::Link => "is down or has no carrier",
            Lack::Address if nid.is_large() => "has no IPv6 address, and this NI needs one",
            Lack::Address => "has no IPv4 address, and an NI needs one",
        };
        Some((nid, name, what, lack))
    });
    let told = down.map(|(nid, name, what, lack)| {
        let text = format!("{name}, under {nid}, {what}");
        let advice = machine.advice_for(lack, name);
        finding(Code::InterfaceDown, Severity::Error, name, text, advice)
    });
    told.collect()
}

/// Reports NIs that count as up although their device is down: an alias or a VLAN does not notice that its device
/// is down.
pub(super) fn shared_device_down(context: &Context<'_>) -> Vec<Finding> {
    let machine = context.node.facts.machine.as_ref();
    let named = named(context);
    let mut by_device: BTreeMap<String, Vec<(Nid, &str)>> = BTreeMap::new();
    for &(nid, name) in &named {
        by_device
            .entry(device(machine, name))
            .or_default()
            .push((nid, name));
    }
    let is_down = |nid: Nid| {
        let mut nis = context.state().nis.iter();
        nis.any(|ni| ni.nid == nid && (ni.fatal || !ni.up))
    };
    let mut found = Vec::new();
    for (device, nis) in by_device {
        let carrier = machine.and_then(|machine| machine.interface(&device));
        let dead = carrier.is_some_and(|interface| !interface.up);
        let Some(&(down, down_name)) = nis.iter().find(|(nid, _)| is_down(*nid) || dead) else {
            continue;
        };
        for &(up, up_name) in nis.iter().filter(|(nid, _)| *nid != down && !is_down(*nid)) {
            let text = format!(
                "NI {up} ({up_name}) counts as up and shares device {device} with NI {down} ({down_name}), \
                 which is down"
            );
            let advice = format!("remove it while the device is down: --fail {up_name}");
            found.push(finding(
                Code::SharedDeviceDown,
                Severity::Warning,
                up,
                text,
                advice,
            ));
        }
    }
    found
}

/// Returns the device under an interface: for an alias the part before the colon, for a VLAN its parent.
fn device(machine: Option<&Machine>, name: &str) -> String {
    let base = name.split([':', '.']).next().unwrap_or(name);
    let parent = machine.and_then(|machine| machine.interface(name)?.parent.clone());
    parent.unwrap_or_else(|| base.to_owned())
}

/// Reports local NIs in one subnet: their interfaces answer for each other, unless the system routes by source
/// address.
pub(super) fn one_subnet(context: &Context<'_>) -> Vec<Finding> {
    let Some(machine) = &context.node.facts.machine else {
        return Vec::new();
    };
    let nis: Vec<Nid> = context.state().nis.iter().map(|ni| ni.nid).collect();
    let together = |a: Nid, b: Nid| {
        let (Some(a), Some(b)) = (a.ip(), b.ip()) else {
            return false;
        };
        let prefix = machine.prefix_of(a).max(machine.prefix_of(b));
        prefix.is_some_and(|prefix| share_subnet(a, b, prefix))
    };
    let mut found = Vec::new();
    for (at, &first) in nis.iter().enumerate() {
        let others: Vec<Nid> = nis
            .iter()
            .skip(at + 1)
            .copied()
            .filter(|&b| together(first, b))
            .collect();
        let known = nis.iter().take(at).any(|&earlier| together(earlier, first));
        if others.is_empty() || known {
            continue;
        }
        let all = std::iter::once(first)
            .chain(others)
            .map(|nid| context.node.label(nid));
        let text = format!(
            "{} are in one subnet: the system answers ARP for any of them on all, sends over one of them, and \
             rp_filter drops what comes in on the other, so that rails are asymmetric",
            listed(all)
        );
        let advice = "one routing table and rule per address (ip rule from ADDRESS lookup TABLE), arp_ignore=1, \
                      arp_announce=2, rp_filter=2; `ip rule` shows whether that is done";
        found.push(finding(
            Code::OneSubnet,
            Severity::Warning,
            first,
            text,
            advice,
        ));
    }
    found
}

/// Reports address patterns: LNet matches a pattern against all addresses of the machine, not against the interface
/// that the entry names.
pub(super) fn ip2nets_host_match(context: &Context<'_>) -> Vec<Finding> {
    let facts = &context.node.facts;
    let told = facts.ip2nets.iter().filter(|entry| !entry.patterns.is_empty()).map(|entry| {
        let patterns = listed(&entry.patterns);
        let covered = |ip| entry.patterns.iter().any(|pattern| pattern.matches(ip));
        let machine = facts.machine.iter().flat_map(|machine| &machine.interfaces);
        let matching = machine.filter(|one| one.addresses.iter().any(|a| covered(a.ip)));
        let matching: Vec<&str> = matching.map(|one| one.name.as_str()).collect();
        let seen = match (facts.machine.is_some(), matching.is_empty()) {
            (false, _) => "which one matches is not known without the machine's addresses".to_owned(),
            (true, true) => "none matches here, so the entry configures nothing".to_owned(),
            (true, false) => format!("here that is {}", listed(&matching)),
        };
        let configures = if entry.interfaces.is_empty() {
            "the interfaces whose addresses match; kernels take the first interface that they find".to_owned()
        } else {
            format!("{}, even if that interface does not match", listed(&entry.interfaces))
        };
        let text = format!(
            "ip2nets {}: the pattern {patterns} compares all addresses of the host ({seen}), and then \
             configures {configures}",
            entry.net
        );
        let wrong = facts.machine.is_some()
            && (entry.interfaces.is_empty()
                || !entry.interfaces.iter().all(|name| matching.contains(&name.as_str())));
        let severity = if wrong { Severity::Warning } else { Severity::Note };
        let advice = "name the interface in a `net` section, which does not depend on the order of interfaces";
        finding(Code::Ip2netsHostMatch, severity, entry.net, text, advice)
    });
    told.collect()
}
