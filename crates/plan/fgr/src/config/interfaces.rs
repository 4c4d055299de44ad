//! Interfaces and NIDs of a node on a net: those that the machine describes, or those of the scheme.
//!
//! ```text
//!   nics: [{interface: hsn0, address: 10.1.0.9}, {interface: hsn1, address: 10.1.1.9}]
//!      ─▶ tcp101: hsn0 10.1.0.9@tcp101, hsn1 10.1.1.9@tcp101
//!   no nics ─▶ tcp101: the client interface, the first client address plus the number
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use lnet_config::{NetConfig, NiConfig};
use lnet_types::{Net, Nid};

use crate::config::SiteError;
use crate::config::scheme::Scheme;
use crate::machine::Machine;

/// A net of a node, with the names of its interfaces there.
pub(super) type OnNet = (Net, Vec<String>);

/// Returns the nets of a configuration.
pub(super) fn nets(on: &[OnNet]) -> Vec<NetConfig> {
    let ni = |interface: &String| NiConfig {
        interfaces: vec![interface.clone()],
        ..NiConfig::default()
    };
    let net = |(net, interfaces): &OnNet| NetConfig {
        net: *net,
        nis: interfaces.iter().map(ni).collect(),
    };
    on.iter().map(net).collect()
}

/// The side of a router on which an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Clients,
    Servers,
}

/// Looks up the interfaces of nodes.
pub(super) struct Interfaces<'a> {
    machine: &'a Machine,
    scheme: &'a Scheme,
    /// The node of each address that the machine describes.
    given: BTreeMap<(Side, Ipv4Addr), u32>,
}

impl<'a> Interfaces<'a> {
    pub(super) fn new(machine: &'a Machine, scheme: &'a Scheme) -> Self {
        let nics = machine.details.nics.iter().flat_map(|(&id, nics)| {
            nics.iter().filter_map(move |nic| {
                let side = if nic.net.is_some() {
                    Side::Servers
                } else {
                    Side::Clients
                };
                Some(((side, nic.address?), id))
            })
        });
        Self {
            given: nics.collect(),
            machine,
            scheme,
        }
    }

    /// Interfaces and NIDs of a node on a client net.
    pub(super) fn towards_clients(
        &self,
        net: Net,
        id: u32,
    ) -> Result<Vec<(String, Nid)>, SiteError> {
        let first = self.scheme.client_nid(net, id)?;
        self.on(net, id, Side::Clients, &self.scheme.client_interface, first)
    }

    /// Interfaces and NIDs of a router on a net behind the routers.
    pub(super) fn behind(&self, net: Net, id: u32) -> Result<Vec<(String, Nid)>, SiteError> {
        let first = self.scheme.server_nid(net, id)?;
        self.on(net, id, Side::Servers, &self.scheme.server_interface, first)
    }

    /// Names of interfaces and NIDs of a server, net by net.
    pub(super) fn of_server(&self, nids: &[Nid]) -> (Vec<OnNet>, Vec<Nid>) {
        let mut found: Vec<(Net, Vec<Nid>)> = Vec::new();
        for &nid in nids {
            match found.iter_mut().find(|(net, _)| *net == nid.net()) {
                Some((_, nids)) => nids.push(nid),
                None => found.push((nid.net(), vec![nid])),
            }
        }
        let name = |at| numbered(&self.scheme.server_interface, at);
        let nets = found
            .iter()
            .map(|(net, nids)| (*net, (0..nids.len()).map(name).collect()));
        let nets = nets.collect();
        (nets, found.into_iter().flat_map(|(_, nids)| nids).collect())
    }

    fn on(
        &self,
        net: Net,
        id: u32,
        side: Side,
        interface: &str,
        first: Nid,
    ) -> Result<Vec<(String, Nid)>, SiteError> {
        let wanted = (side == Side::Servers).then_some(net);
        let nics = self.machine.details.nics_of(id).iter();
        let nics = nics.filter(|nic| nic.net == wanted).enumerate();
        // Numbers, not addresses, name the nodes of nets such as gni.
        let has_addresses = first.ip().is_some();
        let mut found: Vec<(String, Nid)> = Vec::new();
        for (at, nic) in nics {
            let name = nic
                .interface
                .clone()
                .unwrap_or_else(|| numbered(interface, at));
            match nic.address.filter(|_| has_addresses) {
                Some(address) => found.push((name, Nid::from_number(net, address.to_bits()))),
                // A further interface without an address cannot be told from the first one.
                None if at == 0 => found.push((name, self.free(side, id, first)?)),
                None => {}
            }
        }
        if found.is_empty() {
            found.push((interface.to_owned(), self.free(side, id, first)?));
        }
        Ok(found)
    }

    /// Returns the NID that the scheme gives a node, unless the address is another node's.
    fn free(&self, side: Side, id: u32, nid: Nid) -> Result<Nid, SiteError> {
        let address = nid.ip().map(|_| Ipv4Addr::from_bits(nid.number()));
        match address.and_then(|address| Some((address, *self.given.get(&(side, address))?))) {
            Some((address, other)) if other != id => Err(SiteError::AddressTwice {
                address,
                nodes: [id, other],
            }),
            _ => Ok(nid),
        }
    }
}

/// Returns the name of a further interface: `ib1` after `ib0`.
pub(crate) fn numbered(first: &str, at: usize) -> String {
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    match (at, first[stem.len()..].parse::<usize>()) {
        (0, _) => first.to_owned(),
        (_, Ok(number)) => format!("{stem}{}", number.saturating_add(at)),
        (_, Err(_)) => format!("{first}{at}"),
    }
}
