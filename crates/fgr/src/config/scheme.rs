//! Nets, addresses and names of the nodes that a plan numbers.

use std::net::Ipv4Addr;

use lnet_types::{Net, Nid};

use crate::config::{NodeRole, SiteError};
use crate::machine::Machine;

/// Which of several backups is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupPriority {
    /// 1, 2, … in the order of the plan.
    #[default]
    Ranked,
    /// All have priority 1 and share what the primary leaves (planning, section 3.4).
    Equal,
}

/// How a configuration ties a client to its routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Discovery off, and a net of clients for each slot: the net of a client's source NID names the
    /// router that servers answer through.
    #[default]
    SlotNets,
    /// Discovery on, and one net of clients: selection rules prefer a router, on clients for each net
    /// behind the routers, on servers for each client.
    MultiRail,
}

/// On the nets of which slots a client has an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// On all of them, so that another plan changes routes alone.
    #[default]
    All,
    /// On those that its own routes use.
    Used,
}

/// How nodes watch their gateways. LNet takes both values as module parameters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Seconds between two pings of a gateway: `alive_router_check_interval`.
    pub check_interval: u32,
    /// Seconds that a ping may take: `router_ping_timeout`.
    pub ping_timeout: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self::LNET
    }
}

impl Timing {
    /// What LNet uses where nothing is set (planning, section 3.2).
    pub const LNET: Self = Self {
        check_interval: 60,
        ping_timeout: 50,
    };

    /// What `fgr config` writes. A hung router costs half a minute, and a router of Titan answers about
    /// 230 pings a second.
    pub const PLANNED: Self = Self {
        check_interval: 20,
        ping_timeout: 10,
    };

    /// The same seconds, if gateways are checked at all and a ping ends before the next one is due.
    pub(super) fn checked(self) -> Result<Self, SiteError> {
        match self.ping_timeout {
            0 => Err(SiteError::Timing(self)),
            timeout if timeout > self.check_interval => Err(SiteError::Timing(self)),
            _ => Ok(self),
        }
    }
}

/// How nodes are addressed.
///
/// On nets with IP addresses a node's address is the first address plus its number; on nets whose
/// addresses are numbers, such as gni, it is the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The net before that of slot 1: `gni100` makes `gni101`, `gni102`, …; in the Multi-Rail form the
    /// one net of clients.
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
    /// How clients are tied to their routers.
    pub form: Form,
    /// Which nets clients have, where each slot has one.
    pub slots: Slots,
    /// How gateways are watched.
    pub timing: Timing,
}

impl Scheme {
    /// Most nets of a node: the interfaces that LNet takes beside the loopback one (`lnet_interfaces_max`
    /// is 200 up to version 2.17).
    pub const MAX_NETS: usize = 199;

    /// Whether clients of this machine can be configured in this way, before a plan is made.
    ///
    /// # Errors
    ///
    /// [`SiteError::TooManyNets`]: an interface on the net of each slot is more than LNet takes.
    pub fn check(&self, machine: &Machine) -> Result<(), SiteError> {
        match (self.form, self.slots) {
            (Form::SlotNets, Slots::All) => self.check_count(NodeRole::Client, slots(machine)),
            _ => Ok(()),
        }
    }

    /// Refuses nodes with so many nets.
    pub(super) fn check_count(&self, role: NodeRole, nets: usize) -> Result<(), SiteError> {
        match nets {
            0..=Self::MAX_NETS => Ok(()),
            nets => Err(SiteError::TooManyNets {
                role,
                nets,
                form: self.form,
                slots: self.slots,
            }),
        }
    }

    /// The nets of clients for so many slots.
    pub(super) fn client_nets(&self, slots: usize) -> Result<Vec<Net>, SiteError> {
        match self.form {
            Form::SlotNets => (1..=slots).map(|slot| self.slot_net(slot)).collect(),
            Form::MultiRail => Ok(vec![self.client_net]),
        }
    }

    /// The net of clients of a slot, from 1.
    fn slot_net(&self, slot: usize) -> Result<Net, SiteError> {
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

/// Slots of the routers of the net that has most of them.
pub(super) fn slots(machine: &Machine) -> usize {
    let routers = machine.nets.iter().map(|net| net.routers.len());
    routers.max().unwrap_or(0)
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
