//! Nets, addresses and names of the nodes that a plan numbers.

use std::net::Ipv4Addr;

use lnet_types::{Net, Nid};

use crate::config::SiteError;

/// Which of several backups is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupPriority {
    /// All have priority 1 and share what the primary leaves (planning, section 3.4).
    #[default]
    Equal,
    /// 1, 2, … in the order of the plan.
    Ranked,
}

/// What makes a route the primary one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Its priority.
    #[default]
    Priority,
    /// A user-defined selection rule; all routes have priority 0.
    Rule,
}

/// How nodes are addressed.
///
/// On nets with IP addresses a node's address is the first address plus its number; on nets whose
/// addresses are numbers, such as gni, it is the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The net before that of slot 1: `gni100` makes `gni101`, `gni102`, …
    pub client_net: Net,
    /// The interface of clients, and of routers towards them.
    pub client_interface: String,
    /// The interface of servers, and of routers towards them.
    pub server_interface: String,
    /// Address of node 0 on the nets of clients.
    pub client_addresses: Ipv4Addr,
    /// Address of node 0 on the nets of servers.
    pub server_addresses: Ipv4Addr,
    /// Which backup is next.
    pub backups: BackupPriority,
    /// What makes a route the primary one.
    pub preference: Preference,
}

impl Scheme {
    /// The net of clients of a slot, from 1.
    pub(super) fn slot_net(&self, slot: usize) -> Result<Net, SiteError> {
        let number = u16::try_from(slot).ok();
        let number = number.and_then(|slot| self.client_net.number.checked_add(slot));
        match number {
            Some(number) => Ok(Net::new(self.client_net.lnd, number)),
            None => Err(SiteError::NoNetNumber {
                slot,
                first: self.client_net,
            }),
        }
    }

    /// A node's NID on a net of clients.
    pub(super) fn client_nid(&self, net: Net, node: u32) -> Result<Nid, SiteError> {
        nid(net, node, self.client_addresses)
    }

    /// A node's NID on a net of servers.
    pub(super) fn server_nid(&self, net: Net, node: u32) -> Result<Nid, SiteError> {
        nid(net, node, self.server_addresses)
    }
}

fn nid(net: Net, node: u32, first: Ipv4Addr) -> Result<Nid, SiteError> {
    let number = Nid::from_number(net, node);
    // Only nets with IP addresses see an address in it.
    if number.ip().is_none() {
        return Ok(number);
    }
    match first.to_bits().checked_add(node) {
        Some(address) => Ok(Nid::from_number(net, address)),
        None => Err(SiteError::NoAddress { node, first }),
    }
}

/// A server: its name and its NIDs on nets behind the routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its NIDs.
    pub nids: Vec<Nid>,
}

impl Server {
    /// As many servers on each net, named `oss-NET-N`, their addresses counted from that after
    /// `first`: for a machine whose servers are not described.
    ///
    /// # Errors
    ///
    /// [`SiteError::NoAddress`] when there are more than addresses.
    pub fn synthetic(
        nets: impl IntoIterator<Item = Net>,
        each: u16,
        first: Ipv4Addr,
    ) -> Result<Vec<Self>, SiteError> {
        let names = nets
            .into_iter()
            .flat_map(|net| (1..=each).map(move |n| (net, n)));
        let numbered = (1_u32..).zip(names);
        let made = numbered.map(|(node, (net, n))| {
            Ok(Self {
                name: format!("oss-{net}-{n}"),
                nids: vec![nid(net, node, first)?],
            })
        });
        made.collect()
    }
}
