//! Makes the LNet configuration of every node from a plan.
//!
//! ```text
//!   client ─ tcp101, tcp102, … ─▶ router of slot 3: tcp103, and the nets of slots it backs up
//!              one net per slot       └─ o2ib201 ─▶ server
//!
//!   client:  o2ib201 by slot 3's router on tcp103, priority 0; its backups also on tcp103, 1 and 2
//!   server:  tcp103 by slot 3's router on o2ib201, priority 0; the same backups, 1 and 2
//! ```
//!
//! The slot of a router is its position among the routers of its net. A client has an interface on
//! the net of every slot. The net of its source NID therefore says which router brought the
//! message, and the response takes the same router. A backup is used on the slot net of the
//! primary: the client's source NID stays the same if the primary dies, so that servers still reach
//! the client. In the Multi-Rail form all clients are on one net, and
//! selection rules choose the router. Nodes with equal configurations share one [`Class`]; a
//! [`SiteNode`] holds what differs: name, blade and NIDs.
//!
//! This module opens no file: it returns texts.

mod beside;
mod build;
mod files;
mod gather;
mod interfaces;
mod join;
mod nids;
mod rules;
mod scheme;
mod siblings;
mod slot_routers;
mod text;
mod tunables;

use lnet_config::{Config, NiConfig};
use lnet_policy::Rule;
use lnet_types::Net;
use thiserror::Error;

use siblings::Siblings;

pub use files::{ClassFiles, NodeLine, read_nodes, read_servers};
pub use gather::{ClassText, Shared, nids, read_timing};
pub use join::JoinError;
pub use nids::Nids;
pub use rules::read_udsp;
pub use scheme::{AfterReturn, BackupPriority, Form, Scheme, Server, Slots, Timing};
pub use text::ModprobeRefusal;
pub use tunables::NetTunables;

pub(crate) use interfaces::numbered;
pub(crate) use nids::address;

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRole {
    /// The node uses the file systems.
    Client,
    /// The node forwards messages.
    Router,
    /// The node serves file systems.
    Server,
}

impl NodeRole {
    /// The role as written in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Router => "router",
            Self::Server => "server",
        }
    }

    /// Returns the role with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Client, Self::Router, Self::Server]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// Nodes with the same configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the class and of its files: `client-001`.
    pub name: String,
    /// The role of its nodes.
    pub role: NodeRole,
    /// The configuration of its nodes, with names of interfaces and without NIDs.
    pub config: Config,
    /// Selection rules, if rules choose between routes of equal priority.
    pub rules: Vec<Rule>,
}

impl Class {
    /// Returns the configuration of the class together with its selection rules.
    #[must_use]
    pub fn document(&self) -> Config {
        let mut config = self.config.clone();
        for rule in &self.rules {
            // A full list and a rule that occurs twice add nothing.
            let _added = config.rules.add(rule.clone(), None);
        }
        config
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteNode {
    /// Its name.
    pub name: String,
    /// Index of the class of the node.
    pub class: usize,
    /// What fails together with the node: the blade of a router.
    pub blade: Option<String>,
    /// The NIDs of the node, in the order of the nets and interfaces of its class.
    pub nids: Nids,
}

/// The configuration of every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The different configurations: clients, routers, servers.
    pub classes: Vec<Class>,
    /// The nodes.
    pub nodes: Vec<SiteNode>,
    /// How all nodes watch their gateways.
    pub timing: Timing,
}

impl Site {
    /// Returns the class of a node.
    #[must_use]
    pub fn class_of(&self, node: &SiteNode) -> &Class {
        &self.classes[node.class]
    }

    /// Returns the configuration of one node with its rules and the intervals between pings of its
    /// gateways, with NIDs instead of names of interfaces, and for a router with other routers as
    /// peers. For nodes whose addresses already
    /// exist, such as user-space nodes.
    #[must_use]
    pub fn node_config(&self, node: &SiteNode) -> Config {
        self.config_among(node, &Siblings::new(self))
    }

    /// Returns what a running node is compared with: as [`Site::node_config`], also with the names of
    /// interfaces, and with peers only if `with_peers`. The documents of classes have no peers.
    #[must_use]
    pub fn plan_of(&self, node: &SiteNode, with_peers: bool) -> Config {
        let mut config = self.class_of(node).document();
        config.globals.alive_router_check_interval = Some(self.timing.check_interval);
        config.globals.router_ping_timeout = Some(self.timing.ping_timeout);
        if with_peers && self.class_of(node).role == NodeRole::Router {
            config.peers = Siblings::new(self).peers_of(node);
        }
        for net in &mut config.nets {
            net.nis = net.nis.iter().flat_map(one_by_one).collect();
        }
        let nis = config.nets.iter_mut().flat_map(|net| &mut net.nis);
        for (ni, nid) in nis.zip(node.nids.iter()) {
            ni.nid = Some(nid);
        }
        config
    }

    fn config_among(&self, node: &SiteNode, siblings: &Siblings<'_>) -> Config {
        let mut config = self.plan_of(node, false);
        config.peers = siblings.peers_of(node);
        for ni in config.nets.iter_mut().flat_map(|net| &mut net.nis) {
            if ni.nid.is_some() {
                ni.interfaces.clear();
            }
        }
        config
    }
}

/// Returns an entry of each interface that an entry names.
fn one_by_one(ni: &NiConfig) -> Vec<NiConfig> {
    let of = |name: &String| NiConfig {
        interfaces: vec![name.clone()],
        ..ni.clone()
    };
    match ni.interfaces.len() {
        0 | 1 => vec![ni.clone()],
        _ => ni.interfaces.iter().map(of).collect(),
    }
}

/// Why a plan cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The first address plus the number of a node is not an address.
    #[error("node {node} has no IPv4 address counted from {first}")]
    NoAddress {
        /// The node's number.
        node: u32,
        /// Address of node 0.
        first: std::net::Ipv4Addr,
    },
    /// The scheme gives a node the address that the machine describes for another one.
    #[error(
        "node {} would have {address}, which is the address of node {}: describe its interfaces, or count \
         addresses from another one",
        nodes[0], nodes[1]
    )]
    AddressTwice {
        /// The address.
        address: std::net::Ipv4Addr,
        /// The number of the node whose address is counted, and of the node that has the address.
        nodes: [u32; 2],
    },
    /// There are more slots than net numbers.
    #[error("no net number is left for slot {slot} counted from {first}")]
    NoNetNumber {
        /// The slot, from 1.
        slot: usize,
        /// The net before the net of slot 1.
        first: Net,
    },
    /// Nodes would have more nets than LNet accepts.
    #[error(
        "{role}s would have interfaces on {nets} nets, and LNet takes {max}: {way}",
        role = .role.name(), max = Scheme::MAX_NETS,
        way = match (.form, .slots) {
            (Form::SlotNets, Slots::All) => {
                "give clients the nets of the slots that they use (--slots used), or one net \
                 (--form multi-rail)"
            }
            (Form::SlotNets, Slots::Used) => "give clients one net (--form multi-rail)",
            (Form::MultiRail, _) => "divide the nets among more routers",
        }
    )]
    TooManyNets {
        /// The role of the nodes.
        role: NodeRole,
        /// Number of nets.
        nets: usize,
        /// The form of the configuration.
        form: Form,
        /// Which client nets a client has.
        slots: Slots,
    },
    /// A server would need more selection rules than a node keeps.
    #[error(
        "servers would have {rules} selection rules, and a node keeps {max}: choose routers by the net of \
         the source instead (--form slot-nets)",
        max = lnet_policy::RuleList::MAX_LEN
    )]
    TooManyRules {
        /// Number of rules.
        rules: usize,
    },
    /// A net has clients and is also behind the routers.
    #[error("{0} would be a net of clients and of servers")]
    NetTwice(Net),
    /// A server is on a net that the machine does not have.
    #[error("server {server}: no router leads to {net}")]
    UnknownNet {
        /// The server.
        server: String,
        /// The net of the server.
        net: Net,
    },
    /// A net has no server.
    #[error("{0} has no server")]
    NoServer(Net),
    /// A name has characters other than letters, digits, `-`, `_` and `.`, or begins with `.`. It
    /// could leave its directory or its column. Names of interfaces may also contain `:`.
    #[error("{what} '{name}': write letters, digits, '-', '_' and '.'")]
    BadName {
        /// What has the name.
        what: &'static str,
        /// The name, cut after 60 characters.
        name: String,
    },
    /// The nets of a router contradict each other.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Two nodes have the same name.
    #[error("two nodes have the name {0}")]
    NameTwice(String),
    /// Gateways are never checked, or a ping may take longer than the interval between two pings.
    #[error(
        "gateways every {} s, a ping within {} s: a ping takes 1 s at least, and ends before the next one",
        .0.check_interval, .0.ping_timeout
    )]
    Timing(Timing),
    /// A net does not have a tunable, or not with this value.
    #[error("tunables of {net}: {reason}")]
    Tunables {
        /// The net.
        net: Net,
        /// Why the value is refused.
        reason: String,
    },
    /// An LND type has no written form, so that no file can hold it.
    #[error("{0} cannot be written into a configuration")]
    NoName(Net),
}
