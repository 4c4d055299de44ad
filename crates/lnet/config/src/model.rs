//! The typed contents of a configuration.

use std::collections::BTreeMap;

use lnet_policy::{Profile, RuleList};
use lnet_types::{Net, Nid};

use crate::ip2nets::Ip2Nets;

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

/// Node-wide parameters. A document may contain `recovery_interval` and
/// `lnd_timeout`; they have no effect and are not among these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    /// Distances up to this one count as equal in the selection of an interface.
    pub numa_range: Option<u32>,
    /// The most interfaces in the ping information of a node; below 16 means the default.
    pub max_interfaces: Option<u32>,
    /// Whether peers are discovered.
    pub discovery: Option<bool>,
    /// Whether a message from a gateway is dropped if no route back leads through that gateway.
    pub drop_asym_route: Option<bool>,
    /// Resends of one message; at most `transaction_timeout`, and 0 when `health_sensitivity` is 0.
    pub retry_count: Option<u32>,
    /// Seconds until a message or its response expires; at least 1.
    pub transaction_timeout: Option<u32>,
    /// The health that one failure takes, 0 to 1000.
    pub health_sensitivity: Option<u32>,
    /// Percent, 0 to 100. Deprecated: read and printed, without effect.
    pub router_sensitivity: Option<u32>,
    /// Messages with tracked responses: 0 only LNet's own, 1 GET, 2 PUT, 3 both.
    pub response_tracking: Option<u32>,
    /// Seconds after which recovery of a silent peer interface ends; 0 for never.
    pub recovery_limit: Option<u32>,
    /// The most seconds between recovery pings; at least 1.
    pub max_recovery_ping_interval: Option<u32>,
    /// Seconds between two pings of a gateway; 0 for none. In kernels, this and the next three
    /// parameters are module parameters.
    pub alive_router_check_interval: Option<u32>,
    /// Seconds until a ping of a gateway expires; at least 1.
    pub router_ping_timeout: Option<u32>,
    /// Whether a gateway counts as dead until it has answered a ping.
    pub check_routers_before_use: Option<bool>,
    /// Whether a single-hop route is down while the gateway's interface on the remote network is.
    pub avoid_asym_router_failure: Option<bool>,
    /// The profile of path selection. No kernel has this parameter.
    pub profile: Option<Profile>,
    /// Whether a peer is accepted only if it connects from the address of its NID. No kernel has
    /// this parameter.
    pub match_addresses: Option<bool>,
}

impl Globals {
    /// These parameters, overridden by those that `other` sets.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            numa_range: other.numa_range.or(self.numa_range),
            max_interfaces: other.max_interfaces.or(self.max_interfaces),
            discovery: other.discovery.or(self.discovery),
            drop_asym_route: other.drop_asym_route.or(self.drop_asym_route),
            retry_count: other.retry_count.or(self.retry_count),
            transaction_timeout: other.transaction_timeout.or(self.transaction_timeout),
            health_sensitivity: other.health_sensitivity.or(self.health_sensitivity),
            router_sensitivity: other.router_sensitivity.or(self.router_sensitivity),
            response_tracking: other.response_tracking.or(self.response_tracking),
            recovery_limit: other.recovery_limit.or(self.recovery_limit),
            max_recovery_ping_interval: other
                .max_recovery_ping_interval
                .or(self.max_recovery_ping_interval),
            alive_router_check_interval: other
                .alive_router_check_interval
                .or(self.alive_router_check_interval),
            router_ping_timeout: other.router_ping_timeout.or(self.router_ping_timeout),
            check_routers_before_use: other
                .check_routers_before_use
                .or(self.check_routers_before_use),
            avoid_asym_router_failure: other
                .avoid_asym_router_failure
                .or(self.avoid_asym_router_failure),
            profile: other.profile.or(self.profile),
            match_addresses: other.match_addresses.or(self.match_addresses),
        }
    }

    /// These parameters, restricted to those that `other` sets.
    #[must_use]
    pub fn only(self, other: &Self) -> Self {
        Self {
            numa_range: other.numa_range.and(self.numa_range),
            max_interfaces: other.max_interfaces.and(self.max_interfaces),
            discovery: other.discovery.and(self.discovery),
            drop_asym_route: other.drop_asym_route.and(self.drop_asym_route),
            retry_count: other.retry_count.and(self.retry_count),
            transaction_timeout: other.transaction_timeout.and(self.transaction_timeout),
            health_sensitivity: other.health_sensitivity.and(self.health_sensitivity),
            router_sensitivity: other.router_sensitivity.and(self.router_sensitivity),
            response_tracking: other.response_tracking.and(self.response_tracking),
            recovery_limit: other.recovery_limit.and(self.recovery_limit),
            max_recovery_ping_interval: other
                .max_recovery_ping_interval
                .and(self.max_recovery_ping_interval),
            alive_router_check_interval: other
                .alive_router_check_interval
                .and(self.alive_router_check_interval),
            router_ping_timeout: other.router_ping_timeout.and(self.router_ping_timeout),
            check_routers_before_use: other
                .check_routers_before_use
                .and(self.check_routers_before_use),
            avoid_asym_router_failure: other
                .avoid_asym_router_failure
                .and(self.avoid_asym_router_failure),
            profile: other.profile.and(self.profile),
            match_addresses: other.match_addresses.and(self.match_addresses),
        }
    }
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
