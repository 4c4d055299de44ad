//! Nets, addresses and names that nodes get from their numbers in a plan.

use std::net::Ipv4Addr;

use lnet_types::{Net, Nid};

use crate::config::{NodeRole, SiteError};
use crate::machine::Machine;

/// How several backups are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupPriority {
    /// Priorities 1, 2, … in the order of the plan.
    #[default]
    Ranked,
    /// All have priority 1 and share the messages of a dead primary.
    Equal,
}

/// How a configuration binds a client to its routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Discovery is off, and clients have one net per slot. The net of a client's source NID
    /// determines the router of the responses.
    #[default]
    SlotNets,
    /// Discovery is on, and clients have one net. Selection rules prefer a router: on clients for
    /// each net behind the routers, on servers for each client.
    MultiRail,
}

/// The slots on whose nets a client has interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// All slots. Another plan then changes routes only.
    #[default]
    All,
    /// The slots that the client's own routes use.
    Used,
}

/// How nodes watch their gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Seconds between two pings of a gateway: `alive_router_check_interval`, a module parameter
    /// only.
    pub check_interval: u32,
    /// Timeout of a ping in seconds: `router_ping_timeout`, a module parameter only. Nodes of
    /// Finerail wait this long for a gateway; kernel nodes use the value only as routers.
    pub ping_timeout: u32,
    /// Seconds until a message and all its attempts have failed: `transaction_timeout`. Kernel nodes
    /// wait this long for a gateway that hangs.
    pub transaction_timeout: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self::LNET
    }
}

/// How long messages may be late or lost after the return of an adapter that was silent, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfterReturn {
    /// With nodes of Finerail on Linux 6.15 and later, which can limit the pauses of TCP.
    pub finerail: u32,
    /// With nodes of Finerail on older kernels, where the timeout of the LND ends a connection that stands still.
    pub finerail_unlimited: u32,
}

impl Timing {
    /// LNet's defaults.
    pub const LNET: Self = Self {
        check_interval: 60,
        ping_timeout: 50,
        transaction_timeout: 150,
    };

    /// The values that `fgr config` writes. A router that hangs costs kernel nodes 50 s and nodes of
    /// Finerail 30 s, and a router of Titan answers about 230 pings a second.
    pub const PLANNED: Self = Self {
        check_interval: 20,
        ping_timeout: 10,
        transaction_timeout: 30,
    };

    /// The shortest transaction timeout that leaves each of LNet's three attempts 5 s.
    pub const TRANSACTION_TIMEOUT_MIN: u32 = 16;

    /// Returns the time in seconds after which a kernel node gives up a connection on which nothing
    /// is acknowledged, in the release that waits longest: release 2.17.0 waits 50 s, earlier
    /// releases wait the share of an attempt of three. A transaction that ends earlier ends the wait.
    #[must_use]
    pub fn lnd_timeout(self) -> u32 {
        const RELEASE_2_17: u32 = 50;
        const ATTEMPTS: u32 = 3;
        let share = self.transaction_timeout.saturating_sub(1) / ATTEMPTS;
        share.max(RELEASE_2_17).min(self.transaction_timeout)
    }

    /// Returns for how many seconds after the return of an adapter that was silent messages may be late or lost.
    ///
    /// ```text
    ///   connection still stands:  TCP's next attempt        after the pause that TCP has reached: 2 s at most, or
    ///                                                       until the LND ends the connection
    ///   connection has ended:     the next one is dialled   5 s after the last failure at most
    /// ```
    #[must_use]
    pub fn after_return(self) -> AfterReturn {
        /// The longest pause of a node of Finerail between two attempts to connect; pauses of TCP are shorter.
        const RECONNECT: u32 = 5;
        const ATTEMPTS: u32 = 3;
        let attempt = (self.transaction_timeout.saturating_sub(1) / ATTEMPTS).max(1);
        AfterReturn {
            finerail: RECONNECT,
            finerail_unlimited: attempt.max(RECONNECT),
        }
    }

    /// Checks that gateways are pinged at all, and that a ping ends before the next one is due.
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
/// On nets with IP addresses the address of a node is the first address plus the number of the
/// node. On nets whose addresses are numbers, such as gni, the address is the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The net before that of slot 1: `gni100` makes `gni101`, `gni102`, …. In the Multi-Rail form,
    /// the only net of clients.
    pub client_net: Net,
    /// The interface of clients, and of routers towards clients.
    pub client_interface: String,
    /// The interface of servers, and of routers towards servers.
    pub server_interface: String,
    /// Address of node 0 on client nets.
    pub client_addresses: Ipv4Addr,
    /// Address of node 0 on server nets.
    pub server_addresses: Ipv4Addr,
    /// How several backups are ordered.
    pub backups: BackupPriority,
    /// How clients are bound to their routers.
    pub form: Form,
    /// On the nets of which slots clients are, if each slot has a net.
    pub slots: Slots,
    /// How nodes watch their gateways.
    pub timing: Timing,
}

impl Scheme {
    /// Most nets of a node: as many interfaces as LNet accepts besides the loopback
    /// (`lnet_interfaces_max` is 200 up to version 2.17).
    pub const MAX_NETS: usize = 199;

    /// Checks before a plan is made that clients of this machine can be configured with this
    /// scheme.
    ///
    /// # Errors
    ///
    /// [`SiteError::TooManyNets`] if an interface per slot is more than LNet accepts.
    pub fn check(&self, machine: &Machine) -> Result<(), SiteError> {
        match (self.form, self.slots) {
            (Form::SlotNets, Slots::All) => self.check_count(NodeRole::Client, slots(machine)),
            _ => Ok(()),
        }
    }

    /// Rejects nodes with too many nets.
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

    /// Returns the client nets of this number of slots.
    pub(super) fn client_nets(&self, slots: usize) -> Result<Vec<Net>, SiteError> {
        match self.form {
            Form::SlotNets => (1..=slots).map(|slot| self.slot_net(slot)).collect(),
            Form::MultiRail => Ok(vec![self.client_net]),
        }
    }

    /// Returns the client net of a slot; slots start from 1.
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

    /// The NID of a node on a client net.
    pub(super) fn client_nid(&self, net: Net, node: u32) -> Result<Nid, SiteError> {
        nid(net, node, self.client_addresses)
    }

    /// The NID of a node on a server net.
    pub(super) fn server_nid(&self, net: Net, node: u32) -> Result<Nid, SiteError> {
        nid(net, node, self.server_addresses)
    }
}

/// Number of slots: the routers of the net with most routers.
pub(super) fn slots(machine: &Machine) -> usize {
    let routers = machine.nets.iter().map(|net| net.routers.len());
    routers.max().unwrap_or(0)
}

fn nid(net: Net, node: u32, first: Ipv4Addr) -> Result<Nid, SiteError> {
    let number = Nid::from_number(net, node);
    // Only nets with IP addresses can hold an address.
    if number.ip().is_none() {
        return Ok(number);
    }
    match first.to_bits().checked_add(node) {
        Some(address) => Ok(Nid::from_number(net, address)),
        None => Err(SiteError::NoAddress { node, first }),
    }
}

/// A server, with its NIDs on nets behind the routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its NIDs.
    pub nids: Vec<Nid>,
}

impl Server {
    /// Makes the same number of servers on each net, named `oss-NET-N`, with addresses counted from
    /// the one after `first`. For machines whose servers are not described.
    ///
    /// # Errors
    ///
    /// [`SiteError::NoAddress`] if there are not enough addresses.
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
