//! Converts a node's text into a document in which every NI has a NID.

use std::net::IpAddr;

use lnet_config::machine::{Machine, is_by_ip};
use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions, is_options};
use lnet_config::{Document, Ip2Nets, NetShow, NiShow, Status};
use lnet_types::{Net, Nid};

use crate::gather::NodeText;

/// A generator of made-up NIDs for interfaces whose NIDs are not known. Their addresses belong to no host
/// (0.0.0.0/8, RFC 1122 section 3.2.1.3).
#[derive(Debug, Default)]
pub(crate) struct StandIns(u32);

/// The largest address of 0.0.0.0/8.
const STAND_IN_MAX: u32 = 0x00FF_FFFF;

impl StandIns {
    fn next(&mut self, net: Net) -> Nid {
        self.0 = (self.0 + 1).min(STAND_IN_MAX);
        Nid::from_number(net, self.0)
    }
}

/// Converts the options of the kernel module into a document; returns `None` if they make no configuration.
pub(crate) fn of_options(text: &str, machine: Option<&Machine>) -> Option<Document> {
    let (options, _, _) = ModuleOptions::survey(text, Dialect::Kernel);
    let interface = machine.and_then(Machine::first).unwrap_or("eth0");
    let defaults = ConvertDefaults {
        hop: None,
        interface: Some(interface.to_owned()),
    };
    // The networks are good without routes that cannot be read.
    let without_routes = || {
        let routes = Vec::new();
        ModuleOptions {
            routes,
            ..options.clone()
        }
        .to_config(&defaults)
    };
    let converted = options.to_config(&defaults).or_else(|_| without_routes());
    let (mut config, _) = converted.ok()?;
    if let Some(machine) = machine {
        machine.resolve_as_module(&mut config);
    }
    Some(Document::from(&config))
}

/// Returns the port of a node that options of the module configure; `None` if a document does, which names no port.
pub(crate) fn port(text: &str) -> Option<u16> {
    if !is_options(text) {
        return None;
    }
    let (options, _, _) = ModuleOptions::survey(text, Dialect::Kernel);
    Some(options.port("accept_port").unwrap_or(PORT))
}

/// The port of LNet where no option says another.
// [CONN-1]
pub(crate) const PORT: u16 = 988;

/// Reads as much as possible of a node's document; returns `None` if the text is neither YAML nor options of the
/// module.
pub(crate) fn read(node: &NodeText, machine: Option<&Machine>) -> Option<Document> {
    if is_options(&node.text) {
        return of_options(&node.text, machine);
    }
    let survey = lnet_config::survey(&node.text);
    survey.ok().map(|survey| survey.document)
}

/// Gives every NI its NID, or a made-up NID if the NID is not known. Returns the made-up NIDs.
pub(crate) fn resolve(
    document: &mut Document,
    machine: Option<&Machine>,
    free: &mut StandIns,
) -> Vec<(Nid, String)> {
    document.nets.retain(|net| net.net != Net::LO);
    if document.nets.is_empty() {
        document.nets = by_address(&document.ip2nets, machine);
    }
    document.ip2nets.clear();
    let mut invented = Vec::new();
    for net in &mut document.nets {
        let shown = std::mem::take(&mut net.nis);
        let each = shown.into_iter().flat_map(expanded);
        net.nis = each.collect();
        for ni in &mut net.nis {
            if ni.config.nid.is_some() {
                continue;
            }
            let interface = ni.config.interfaces.first().cloned().unwrap_or_default();
            let nid = known(net.net, &interface, machine).unwrap_or_else(|| {
                let nid = free.next(net.net);
                invented.push((nid, interface));
                nid
            });
            ni.config.nid = Some(nid);
        }
    }
    invented
}

/// Marks NIs as down whose interfaces the machine does not have, or has without carrier or address.
pub(crate) fn mark_dead(document: &mut Document, machine: &Machine) {
    for net in &mut document.nets {
        for ni in &mut net.nis {
            let nid = ni.config.nid;
            let works = |name: &String| machine.lack(net.net, nid, name).is_none();
            let named = &ni.config.interfaces;
            if named.is_empty() || named.iter().any(works) {
                continue;
            }
            ni.status = Some(Status::Down);
            let health = ni.health.get_or_insert_default();
            health.fatal_error = 1;
        }
    }
}

/// Splits an NI with several interfaces into one NI for each interface.
fn expanded(ni: NiShow) -> Vec<NiShow> {
    if ni.config.nid.is_some() || ni.config.interfaces.len() < 2 {
        return vec![ni];
    }
    let names = ni.config.interfaces.clone();
    let one = |name: String| {
        let mut one = ni.clone();
        one.config.interfaces = vec![name];
        one
    };
    names.into_iter().map(one).collect()
}

fn known(net: Net, interface: &str, machine: Option<&Machine>) -> Option<Nid> {
    let address = machine.filter(|_| is_by_ip(net))?.address(interface)?;
    Some(Nid::from_ip(net, address.ip))
}

/// Returns the nets that the address patterns configure. Without the machine's addresses, each pattern's net gets
/// one NI.
fn by_address(rules: &[Ip2Nets], machine: Option<&Machine>) -> Vec<NetShow> {
    if let Some(machine) = machine {
        let local: Vec<(&str, IpAddr)> = machine.named_addresses().collect();
        let nets = Ip2Nets::nets(rules, &local).unwrap_or_default();
        return nets.iter().map(NetShow::from).collect();
    }
    let mut nets: Vec<NetShow> = Vec::new();
    for rule in rules {
        if nets.iter().all(|known| known.net != rule.net) {
            let mut ni = NiShow::default();
            ni.config.interfaces.clone_from(&rule.interfaces);
            nets.push(NetShow {
                net: rule.net,
                nis: vec![ni],
            });
        }
    }
    nets
}
