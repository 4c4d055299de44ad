//! The typed contents of a configuration.

use std::collections::BTreeMap;

use lnet_policy::RuleList;
use lnet_types::{Net, Nid};

use crate::ip2nets::Ip2Nets;
use crate::parameters::Globals;

/// A configuration, or a part of one. Fields that the document does not set are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Local networks, each once and without loopback, in the order of the document.
    pub nets: Vec<NetConfig>,
    /// Networks by the node's addresses; see [`Ip2Nets::nets`].
    pub ip2nets: Vec<Ip2Nets>,
    /// Static routes, one for each gateway.
    pub routes: Vec<RouteConfig>,
    /// Static peers.
    pub peers: Vec<PeerConfig>,
    /// Whether this node forwards messages for others.
    pub routing: Option<bool>,
    /// Sizes of the router's buffer pools.
    pub buffers: Buffers,
    /// Node-wide parameters.
    pub globals: Globals,
    /// Selection rules, all of which can take effect.
    pub rules: RuleList,
}

/// A local network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// The network.
    pub net: Net,
    /// Its interfaces, at least one. Each includes the tunables that the document gives for the
    /// whole network.
    pub nis: Vec<NiConfig>,
}

/// A local network interface (NI), named by a system interface, by its NID, or by both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NiConfig {
    /// The NID, if the document gives one; on the network of the entry.
    pub nid: Option<Nid>,
    /// Names of system interfaces, each of which becomes an NI with these settings. At most one if
    /// `nid` is set; empty only if `nid` is set.
    pub interfaces: Vec<String>,
    /// Credits and timeouts.
    pub tunables: Tunables,
    /// Settings of the LND.
    pub lnd_tunables: LndTunables,
    /// The CPU partitions that serve this interface, in ascending order; empty for all.
    pub cpts: Vec<u32>,
}

/// Settings that every LND has. `None`, in a document -1 or absent, means the default of the LND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunables {
    /// Seconds without a message after which a peer counts as dead; 0 disables the check.
    pub peer_timeout: Option<u32>,
    /// The most messages in flight to one peer.
    pub peer_credits: Option<u32>,
    /// The most router buffers that one peer may hold; 0 for the value of `peer_credits`.
    pub peer_buffer_credits: Option<u32>,
    /// The most messages in flight on the interface.
    pub credits: Option<u32>,
}

/// Settings of one LND. `None`, in a document -1 or absent, means the default of the LND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LndTunables {
    /// Connections of each type to one peer, 0 (the LND's default) to 127.
    pub conns_per_peer: Option<u8>,
    /// Seconds until a transmission fails. Kernel nodes derive it from the transaction timeout and
    /// ignore an imported value.
    pub timeout: Option<u32>,
    /// IP type of service, 0 to 255.
    pub tos: Option<u8>,
    /// Settings of LNDs other than `tcp`, as key and uninterpreted text. Empty on `tcp` networks.
    pub other: BTreeMap<String, String>,
}

/// A static route: messages for `net` go through `gateway`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// The remote network.
    pub net: Net,
    /// The gateway's NID on a local network.
    pub gateway: Nid,
    /// Hops to the remote network, at least 1; `None` for undefined, -1 in a document.
    pub hop: Option<u8>,
    /// Routes with a lower number are used first; 0 is best.
    pub priority: u32,
}

/// A static peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// All NIDs of the peer, each once. There is at least one, and the first is the primary NID.
    pub nids: Vec<Nid>,
    /// Whether its NIDs may be used side by side.
    pub multi_rail: bool,
}

/// Buffers in each of the router's pools, over all CPU partitions; 0 for the default size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Buffers for messages without payload.
    pub tiny: Option<u32>,
    /// Buffers of one page.
    pub small: Option<u32>,
    /// Buffers of 1 MiB.
    pub large: Option<u32>,
}

impl Buffers {
    /// These sizes, overridden by those that `other` sets.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            tiny: other.tiny.or(self.tiny),
            small: other.small.or(self.small),
            large: other.large.or(self.large),
        }
    }
}
