//! A document about a node: its configuration and its observed state.
//!
//! A [`Document`] has the form in which `lnetctl` prints a running node, at any verbosity. Fields
//! that a document lacks are `None` or empty, and such fields are not printed.
//! [`Config`](crate::Config) is the part that can be imported.

use lnet_policy::{PolicyError, Profile, RuleList};
use lnet_types::{Net, Nid};

use crate::ip2nets::Ip2Nets;
use crate::model::{Buffers, Config, NetConfig, NiConfig, PeerConfig, RouteConfig};
use crate::parameters::Globals;
use crate::reply::Reply;
use crate::stats::{MessageStats, NiHealth, NodeStats, PeerCredits, PeerNiHealth, Pool, Traffic};
use crate::udsp::UdspEntry;

/// Configuration and observed state of a node, or a part of both.
///
/// ```
/// let text = "peer:\n-     primary nid: 10.1.0.2@tcp\n      Multi-Rail: true\n      peer ni:\n      \
///             -     nid: 10.1.0.2@tcp\n            state: NA\n";
/// let reading = lnet_config::read(text)?;
/// assert!(reading.warnings.is_empty());
/// assert_eq!(reading.document.to_yaml(), text);
/// # Ok::<(), lnet_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Local networks in the order of the document, with loopback if it is shown.
    pub nets: Vec<NetShow>,
    /// Networks by the node's addresses. Only imports have them.
    pub ip2nets: Vec<Ip2Nets>,
    /// Routes, one for each gateway.
    pub routes: Vec<RouteShow>,
    /// Peers.
    pub peers: Vec<PeerShow>,
    /// Whether this node forwards messages for others.
    pub routing: Option<bool>,
    /// The state of the router's buffer pools, by CPU partition.
    pub pools: Vec<CptPools>,
    /// Sizes of the router's buffer pools.
    pub buffers: Buffers,
    /// Node-wide parameters.
    pub globals: Globals,
    /// Node-wide values that no import sets.
    pub derived: DerivedGlobals,
    /// Selection rules as printed, with those that have no effect.
    pub udsp: Vec<UdspEntry>,
    /// The node's counters.
    pub statistics: Option<NodeStats>,
    /// Answers to requests, and errors.
    pub replies: Vec<Reply>,
}

/// A local network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetShow {
    /// The network.
    pub net: Net,
    /// Its interfaces.
    pub nis: Vec<NiShow>,
}

/// A local network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NiShow {
    /// What can be configured of it.
    pub config: NiConfig,
    /// `up` or `down`.
    pub status: Option<Status>,
    /// Messages.
    pub statistics: Option<Traffic>,
    /// Values that the selection rules give to the interface.
    pub udsp: Option<UdspInfo>,
    /// Messages sent, by type.
    pub sent: Option<MessageStats>,
    /// Messages received, by type.
    pub received: Option<MessageStats>,
    /// Messages dropped, by type.
    pub dropped: Option<MessageStats>,
    /// Health, and counts of failures.
    pub health: Option<NiHealth>,
    /// The CPU partition of its device; -1 for unknown.
    pub dev_cpt: Option<i64>,
}

/// The state of an interface or a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In working order.
    Up,
    /// Not working.
    Down,
    /// Not monitored: the interface of a peer that is not a gateway. Printed as `NA`.
    NotWatched,
}

/// The values that the selection rules give to an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdspInfo {
    /// Priority of its network, 0 is best; `None`, printed as -1, if no rule sets one.
    pub net_priority: Option<u32>,
    /// Priority of the interface, in the same form.
    pub nid_priority: Option<u32>,
    /// The gateways that rules prefer for messages to the interface.
    pub gateways: Vec<Nid>,
    /// The local interfaces that rules prefer for messages to the interface.
    pub sources: Vec<Nid>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteShow {
    /// The remote network.
    pub net: Net,
    /// The gateway's NID on a local network.
    pub gateway: Nid,
    /// Hops to the remote network, at least 1; `None` for undefined, printed as -1 if the priority
    /// is printed.
    pub hop: Option<u8>,
    /// A route with a lower number is used first; `None` if the document has no priority.
    pub priority: Option<u32>,
    /// The health that one failure takes from the gateway's interface.
    pub health_sensitivity: Option<u32>,
    /// `up` or `down`.
    pub state: Option<Status>,
    /// Whether the gateway was found to be on the remote network.
    pub kind: Option<RouteType>,
}

/// Whether a gateway is on the remote network itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteType {
    /// The gateway has an interface there.
    SingleHop,
    /// The gateway has none, or has not been asked.
    MultiHop,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerShow {
    /// Its primary NID.
    pub primary: Nid,
    /// Whether its NIDs may be used side by side.
    pub multi_rail: bool,
    /// The state of the peer, as bits: [PEER-20].
    pub state: Option<u64>,
    /// Its interfaces, in the order of the document.
    pub nis: Vec<PeerNiShow>,
}

/// An interface of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNiShow {
    /// Its NID.
    pub nid: Nid,
    /// Values that the selection rules give to the interface.
    pub udsp: Option<UdspInfo>,
    /// `up`, `down` or `NA`.
    pub state: Option<Status>,
    /// Credits, and the messages that wait for them.
    pub credits: Option<PeerCredits>,
    /// Messages.
    pub statistics: Option<Traffic>,
    /// Messages sent, by type.
    pub sent: Option<MessageStats>,
    /// Messages received, by type.
    pub received: Option<MessageStats>,
    /// Messages dropped, by type.
    pub dropped: Option<MessageStats>,
    /// Health, and counts of failures.
    pub health: Option<PeerNiHealth>,
}

/// The router's buffer pools on one CPU partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CptPools {
    /// The CPU partition.
    pub cpt: u32,
    /// Buffers for messages without payload.
    pub tiny: Pool,
    /// Buffers of one page.
    pub small: Pool,
    /// Buffers of 1 MiB.
    pub large: Pool,
}

/// Node-wide values that `global show` prints and no import sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DerivedGlobals {
    /// Deprecated: always 1.
    pub recovery_interval: Option<u32>,
    /// Seconds that an LND has for one transmission.
    pub lnd_timeout: Option<u32>,
}

/// A rule of a document that cannot take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadRule {
    /// Its place among the document's rules, counted from 0.
    pub index: usize,
    /// Why.
    pub error: PolicyError,
}

impl Document {
    /// The part that can be imported, and the rules that cannot: kernels store and print some rules
    /// without effect.
    #[must_use]
    pub fn config(&self) -> (Config, Vec<DeadRule>) {
        let (rules, dead) = self.rules(Profile::Design);
        let config = Config {
            nets: self
                .nets
                .iter()
                .filter(|net| net.net != Net::LO)
                .map(NetShow::config)
                .collect(),
            ip2nets: self.ip2nets.clone(),
            routes: self.routes.iter().map(RouteShow::config).collect(),
            peers: self.peers.iter().map(PeerShow::config).collect(),
            routing: self.routing,
            buffers: self.buffers,
            globals: self.globals,
            rules,
        };
        (config, dead)
    }

    /// The rules that take effect, in their order, and those that cannot.
    #[must_use]
    pub fn rules(&self, profile: Profile) -> (RuleList, Vec<DeadRule>) {
        let mut rules = RuleList::new();
        let mut dead = Vec::new();
        for (index, entry) in self.udsp.iter().enumerate() {
            let added = entry
                .rule(profile)
                .and_then(|rule| rules.add(rule, entry.position()));
            if let Err(error) = added {
                dead.push(DeadRule { index, error });
            }
        }
        (rules, dead)
    }
}

impl From<&Config> for Document {
    fn from(config: &Config) -> Self {
        Self {
            nets: config.nets.iter().map(NetShow::from).collect(),
            ip2nets: config.ip2nets.clone(),
            routes: config.routes.iter().map(RouteShow::from).collect(),
            peers: config.peers.iter().map(PeerShow::from).collect(),
            routing: config.routing,
            buffers: config.buffers,
            globals: config.globals,
            udsp: UdspEntry::list(&config.rules),
            ..Self::default()
        }
    }
}

impl NetShow {
    fn config(&self) -> NetConfig {
        NetConfig {
            net: self.net,
            nis: self.nis.iter().map(|ni| ni.config.clone()).collect(),
        }
    }
}

impl From<&NetConfig> for NetShow {
    fn from(config: &NetConfig) -> Self {
        let ni = |config: &NiConfig| NiShow {
            config: config.clone(),
            ..NiShow::default()
        };
        Self {
            net: config.net,
            nis: config.nis.iter().map(ni).collect(),
        }
    }
}

impl RouteShow {
    /// The part that can be configured.
    #[must_use]
    pub fn config(&self) -> RouteConfig {
        RouteConfig {
            net: self.net,
            gateway: self.gateway,
            hop: self.hop,
            priority: self.priority.unwrap_or(0),
        }
    }
}

impl From<&RouteConfig> for RouteShow {
    fn from(config: &RouteConfig) -> Self {
        Self {
            net: config.net,
            gateway: config.gateway,
            hop: config.hop,
            priority: Some(config.priority),
            health_sensitivity: None,
            state: None,
            kind: None,
        }
    }
}

impl PeerShow {
    /// The part that can be configured; the primary NID comes first.
    #[must_use]
    pub fn config(&self) -> PeerConfig {
        let others = self.nis.iter().map(|ni| ni.nid);
        let others = others.filter(|nid| *nid != self.primary);
        PeerConfig {
            nids: std::iter::once(self.primary).chain(others).collect(),
            multi_rail: self.multi_rail,
        }
    }
}

impl From<&PeerConfig> for PeerShow {
    fn from(config: &PeerConfig) -> Self {
        Self {
            // A peer has at least one NID.
            primary: config.nids.first().copied().unwrap_or(Nid::LOOPBACK),
            multi_rail: config.multi_rail,
            state: None,
            nis: config
                .nids
                .iter()
                .map(|&nid| PeerNiShow::new(nid))
                .collect(),
        }
    }
}

impl PeerNiShow {
    /// An interface that is known only by its NID.
    #[must_use]
    pub const fn new(nid: Nid) -> Self {
        Self {
            nid,
            udsp: None,
            state: None,
            credits: None,
            statistics: None,
            sent: None,
            received: None,
            dropped: None,
            health: None,
        }
    }
}
