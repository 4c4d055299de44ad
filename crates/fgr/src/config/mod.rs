//! From a plan to the LNet configuration of every node.
//!
//! ```text
//!   client ─ tcp101, tcp102, … ─▶ router of slot 3: tcp103, and the nets of slots it backs up
//!              one net a slot         └─ o2ib201 ─▶ server
//!
//!   client:  o2ib201 by slot 3's router on tcp103, priority 0; its backups on tcp103, too, 1 and 2
//!   server:  tcp103 by slot 3's router on o2ib201, priority 0; the same backups, 1 and 2
//! ```
//!
//! The slot of a router is its place among the routers of its net. A client has an interface on the
//! net of every slot, so that the net of its source NID says which router brought the message, and the
//! reply takes the same one. A backup is used on the slot net of the primary: the client's source NID
//! stays the same when the primary dies, so that servers still reach it (planning, section 3.1). In the
//! Multi-Rail form there is one net of clients, and selection rules choose the router. Nodes with equal
//! configurations are one [`Class`]; what differs between them is only who they are ([`SiteNode`]).
//!
//! Nothing here opens a file: the texts are returned.

mod build;
mod files;
mod gather;
mod join;
mod nids;
mod rules;
mod scheme;
mod text;
mod ways;

use lnet_config::Config;
use lnet_policy::Rule;
use lnet_types::Net;
use thiserror::Error;

pub use files::{ClassFiles, NodeLine, read_nodes, read_servers};
pub use gather::{ClassText, nids, read_timing};
pub use join::JoinError;
pub use nids::Nids;
pub use rules::read_udsp;
pub use scheme::{BackupPriority, Form, Scheme, Server, Slots, Timing};
pub use text::ModprobeRefusal;

pub(crate) use nids::address;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRole {
    /// It uses the file systems.
    Client,
    /// It forwards.
    Router,
    /// It serves.
    Server,
}

impl NodeRole {
    /// The role as files name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Router => "router",
            Self::Server => "server",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Client, Self::Router, Self::Server]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// Nodes that are configured alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name, that of its files: `client-001`.
    pub name: String,
    /// What its nodes do.
    pub role: NodeRole,
    /// Their configuration; interfaces by name, without NIDs.
    pub config: Config,
    /// Router rules, where they choose between routes of equal priority.
    pub rules: Vec<Rule>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteNode {
    /// Its name.
    pub name: String,
    /// Index of its class.
    pub class: usize,
    /// What fails together with it: the blade of a router.
    pub blade: Option<String>,
    /// Its NIDs, in the order of its class's nets.
    pub nids: Nids,
}

/// The configuration of every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The distinct configurations: clients, routers, servers.
    pub classes: Vec<Class>,
    /// The nodes.
    pub nodes: Vec<SiteNode>,
    /// How all of them watch their gateways.
    pub timing: Timing,
}

impl Site {
    /// The class of a node.
    #[must_use]
    pub fn class_of(&self, node: &SiteNode) -> &Class {
        &self.classes[node.class]
    }

    /// The configuration of one node with its NIDs instead of the names of interfaces, as a node
    /// takes it whose addresses exist already, a user-space one for instance, and with its rules.
    #[must_use]
    pub fn node_config(&self, node: &SiteNode) -> Config {
        let mut config = self.class_of(node).config.clone();
        for (net, nid) in config.nets.iter_mut().zip(node.nids.iter()) {
            for ni in &mut net.nis {
                ni.nid = Some(nid);
                ni.interfaces.clear();
            }
        }
        for rule in &self.class_of(node).rules {
            // A list that is full, and a rule that is there twice, add nothing.
            let _added = config.rules.add(rule.clone(), None);
        }
        config
    }
}

/// Why a plan cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A node's number added to the first address gives none.
    #[error("node {node} has no IPv4 address counted from {first}")]
    NoAddress {
        /// The node's number.
        node: u32,
        /// Address of number 0.
        first: std::net::Ipv4Addr,
    },
    /// More slots than net numbers are left.
    #[error("no net number is left for slot {slot} counted from {first}")]
    NoNetNumber {
        /// The slot, from 1.
        slot: usize,
        /// The net before that of slot 1.
        first: Net,
    },
    /// Nodes with more nets than LNet takes.
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
        /// What they do.
        role: NodeRole,
        /// How many nets.
        nets: usize,
        /// The form of the configuration.
        form: Form,
        /// Which nets clients have.
        slots: Slots,
    },
    /// A server that needs more selection rules than a node keeps.
    #[error(
        "servers would have {rules} selection rules, and a node keeps {max}: choose routers by the net of \
         the source instead (--form slot-nets)",
        max = lnet_policy::RuleList::MAX_LEN
    )]
    TooManyRules {
        /// How many rules.
        rules: usize,
    },
    /// A net both of clients and behind the routers.
    #[error("{0} would be a net of clients and of servers")]
    NetTwice(Net),
    /// A server on a net that the machine does not have.
    #[error("server {server}: no router leads to {net}")]
    UnknownNet {
        /// The server.
        server: String,
        /// Its net.
        net: Net,
    },
    /// A net without a server.
    #[error("{0} has no server")]
    NoServer(Net),
    /// A name with other characters than letters, digits, `-`, `_` and `.`, or with a leading `.`: it
    /// could leave its file or its column. Interfaces may have `:` as well.
    #[error("{what} '{name}': write letters, digits, '-', '_' and '.'")]
    BadName {
        /// What has the name.
        what: &'static str,
        /// The name, cut to 60 characters.
        name: String,
    },
    /// A router whose nets contradict each other.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Two nodes with one name.
    #[error("two nodes have the name {0}")]
    NameTwice(String),
    /// Gateways that are not checked, or a ping that may take longer than the time between two.
    #[error(
        "gateways every {} s, a ping within {} s: a ping takes 1 s at least, and ends before the next one",
        .0.check_interval, .0.ping_timeout
    )]
    Timing(Timing),
    /// An LND type without a written form, which no file could hold.
    #[error("{0} cannot be written into a configuration")]
    NoName(Net),
}
