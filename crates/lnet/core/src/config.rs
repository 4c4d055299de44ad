//! The configuration of a node, and the reasons to reject a configuration.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid};
use smallvec::SmallVec;
use thiserror::Error;

use crate::event::Errno;
use crate::health::value::Health;
use crate::portals::wire_handle::Entropy;

/// The configuration that a core is created with.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreConfig {
    /// Secret from which the core derives what no other node may guess: handles on the wire and the keys of hashes.
    pub entropy: Entropy,
    /// Seed of the random numbers that are not secret, such as those that decide which messages an injected fault
    /// hits.
    pub seed: u64,
    /// Parameters of the whole node.
    pub globals: Globals,
    /// Sizes of the router buffer pools.
    pub buffers: RouterBuffers,
    /// True if the node forwards messages between its nets.
    pub routing: bool,
    /// Process id in this node's messages; 12345 everywhere except in tests.
    pub pid: u32,
}

/// Parameters of the whole node. `docs/selection/configuration.md` has the values that they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Globals {
    /// How long this node waits for a response. Also how long a message may wait in the queues of this node.
    pub transaction_timeout: Duration,
    /// The most resends of one message.
    pub retry_count: u32,
    /// Which responses are tracked: 0 none, 1 those to GETs, 2 those to PUTs with ACK, 3 both.
    pub response_tracking: u8,
    /// The time between two pings of a gateway; zero switches the router checker off.
    pub alive_router_check_interval: Duration,
    /// How long a ping of the router checker may take. It is also part of the time after which a router calls a net
    /// quiet.
    pub router_ping_timeout: Duration,
    /// True if a gateway counts as dead until it has answered its first ping.
    pub check_routers_before_use: bool,
    /// True if a single-hop route is down while the gateway's interfaces on the remote net are down.
    pub avoid_asym_router_failure: bool,
    /// True if a message is dropped that came through a gateway which this node would not use towards the message's
    /// source.
    pub drop_asym_route: bool,
    /// The behaviour that the node follows: that of the design, or that of shipping kernels.
    pub profile: Profile,
    /// The used paths that a resend avoids (`design` profile only).
    pub used_paths: UsedPaths,
    /// By how much a failure lowers health and a success raises health, 0 to 1000; 0 switches health off.
    pub health_sensitivity: u16,
    /// By how much a failure lowers the health of an interface of a gateway.
    pub gateway_sensitivity: u16,
    /// How long a silent peer interface is pinged for its recovery; zero: without a limit.
    pub recovery_limit: Duration,
    /// The longest pause between two recovery pings.
    pub max_recovery_ping_interval: Duration,
    /// The share of each router pool that messages for one next hop may hold, in percent, and at least one buffer. 100
    /// allows the whole pool, as in the `lustre` profile.
    pub next_hop_share: u8,
    /// The distance below which all distances count as equal.
    pub numa_range: u32,
    /// True if a peer is discovered before the first message to it, and if changes of this node's interfaces are pushed
    /// to peers.
    pub discovery: bool,
    /// True if this node's own NIDs are at distance 0; otherwise they are at distance 1.
    pub local_nid_dist_zero: bool,
    /// True if messages to one of this node's own NIDs take the loopback interface. If false, they take the same path
    /// as messages to peers, and leave the node.
    pub own_nids_by_loopback: bool,
}

/// The paths of earlier attempts that a resend avoids.
// [RESEND-21] [RESEND-22]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UsedPaths {
    /// No pair of local and peer interface is used twice, and unused interfaces are preferred.
    #[default]
    Pair,
    /// No local interface and no peer interface is used twice.
    Literal,
}

/// The hardware behind a local interface, as far as selection uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NiDevice {
    /// Rank among devices for peer-to-peer memory, lower is better; 0 if devices do not differ.
    pub rank: u32,
    /// Distance from each NUMA node (CPT) to the device, indexed by the number of the NUMA node. A NUMA node that the
    /// list does not have is the farthest.
    pub distances: SmallVec<[u32; 4]>,
}

impl NiDevice {
    /// Returns the distance from memory at this NUMA node.
    // [PATH-33]
    pub(crate) fn distance(&self, cpt: u16) -> u32 {
        let known = self.distances.get(usize::from(cpt)).copied();
        known.unwrap_or(u32::MAX)
    }
}

impl Default for Globals {
    fn default() -> Self {
        Self {
            transaction_timeout: Duration::from_secs(150),
            retry_count: 2,
            response_tracking: 3,
            alive_router_check_interval: Duration::from_secs(60),
            router_ping_timeout: Duration::from_secs(50),
            check_routers_before_use: false,
            avoid_asym_router_failure: true,
            drop_asym_route: false,
            profile: Profile::Design,
            used_paths: UsedPaths::Pair,
            health_sensitivity: 100,
            gateway_sensitivity: 1,
            recovery_limit: Duration::ZERO,
            max_recovery_ping_interval: Duration::from_secs(900),
            next_hop_share: 75,
            numa_range: 0,
            discovery: false,
            local_nid_dist_zero: true,
            own_nids_by_loopback: true,
        }
    }
}

impl Globals {
    /// Returns how long an LND may take for one attempt: whole seconds, at least one.
    // [RESEND-30]
    #[must_use]
    pub fn lnd_timeout(&self) -> Duration {
        let attempts = u64::from(self.retry_count) + 1;
        let seconds = self.transaction_timeout.as_secs().saturating_sub(1) / attempts;
        Duration::from_secs(seconds.max(1))
    }

    /// Returns these parameters, if a node may begin with them: those to which a running node could be changed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::SensitivityOutOfRange`], [`ConfigError::RetryWithoutHealth`], [`ConfigError::TooManyRetries`].
    pub fn checked(self) -> Result<Self, ConfigError> {
        self.checked_change_of(&self)
    }

    /// Returns these parameters, if an administrator may change `before` to them. A
    /// change that switches health off sets `retry_count` to 0.
    // [CONF-40] [CONF-41] [CONF-43]
    pub(crate) fn checked_change_of(mut self, before: &Self) -> Result<Self, ConfigError> {
        if self.health_sensitivity > Health::MAX.value() {
            return Err(ConfigError::SensitivityOutOfRange(self.health_sensitivity));
        }
        if self.health_sensitivity == 0 && before.health_sensitivity != 0 {
            self.retry_count = 0;
        }
        if self.health_sensitivity == 0 && self.retry_count > 0 {
            return Err(ConfigError::RetryWithoutHealth);
        }
        let timeout = self.transaction_timeout.as_secs();
        let retries = u64::from(self.retry_count);
        if retries > timeout {
            return Err(ConfigError::TooManyRetries(self.retry_count));
        }
        // A retry count that equals the timeout is accepted. A changed timeout must be longer than the retry count.
        if self.transaction_timeout != before.transaction_timeout && timeout <= retries {
            return Err(ConfigError::TimeoutTooShort(self.transaction_timeout));
        }
        Ok(self)
    }

    /// Returns how long a router calls a net alive after the last ping that it received there.
    pub(crate) fn quiet_window(&self) -> Duration {
        self.router_ping_timeout
            .saturating_add(self.alive_router_check_interval)
    }
}

/// The number of buffers in each router pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterBuffers {
    /// For messages without payload.
    pub tiny: u32,
    /// For 1 to 4096 bytes.
    pub small: u32,
    /// For up to 1 MiB.
    pub large: u32,
}

impl Default for RouterBuffers {
    fn default() -> Self {
        Self {
            tiny: 2048,
            small: 16384,
            large: 1024,
        }
    }
}

/// The configuration of a local interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// The NID of the interface, which also names its net.
    pub nid: Nid,
    /// The limits of the interface.
    pub tunables: Tunables,
}

/// Limits of an interface. For a limit per peer NI, all interfaces of a net use the value of the net's
/// first interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// The limit of messages that the LND has at the same time.
    pub credits: u32,
    /// The limit of these messages for one peer NI.
    pub peer_credits: u32,
    /// The limit of router buffers that messages from one peer NI hold; 0 means `peer_credits`.
    pub peer_buffer_credits: u32,
    /// How long a router treats a peer NI as down after the LND reported it down; zero: never.
    pub peer_timeout: Duration,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            credits: 256,
            peer_credits: 8,
            peer_buffer_credits: 0,
            peer_timeout: Duration::from_secs(180),
        }
    }
}

impl Tunables {
    /// Returns the limit of router buffers that messages from one peer NI hold.
    pub(crate) fn router_credits(&self) -> u32 {
        match self.peer_buffer_credits {
            0 => self.peer_credits,
            credits => credits,
        }
    }
}

/// A static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The remote net.
    pub net: Net,
    /// The gateway's NID, which is on a local net.
    pub gateway: Nid,
    /// Hops to the net, 1 to 255; `None` counts as 1 in comparisons.
    pub hops: Option<u8>,
    /// Priority of the route; lower is preferred.
    pub priority: u32,
}

/// The reason to reject a change of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The NID is a wildcard or a loopback NID.
    #[error("{0} cannot be used here")]
    InvalidNid(Nid),
    /// A limit of an interface is zero but must be at least one.
    #[error("credits and peer_credits must be at least 1")]
    NoCredits,
    /// The node has this NID already.
    #[error("{0} is already a local NID")]
    DuplicateNid(Nid),
    /// The net is the remote net of a route; an interface on the net would make that route wrong.
    #[error("{0} is the target of a route")]
    NetIsRouted(Net),
    /// No interface has this id, or it is the loopback interface.
    #[error("no such local interface")]
    UnknownNi,
    /// The route's net is local, the loopback net or the wildcard.
    #[error("{0} is not a remote net")]
    NotRemote(Net),
    /// The gateway is on a net on which this node has no interface.
    #[error("gateway {0} is not on a local net")]
    GatewayNotLocal(Nid),
    /// The hop count of a route is 0.
    #[error("hops must be 1 to 255")]
    HopsOutOfRange,
    /// The gateway already has a route to the net.
    #[error("a route to {net} via {gateway} exists")]
    DuplicateRoute {
        /// The remote net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// There is no such route.
    #[error("no route to {net} via {gateway}")]
    UnknownRoute {
        /// The remote net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// The NID belongs to another configured peer.
    #[error("{0} belongs to another peer")]
    NidOfAnotherPeer(Nid),
    /// No peer has this primary NID.
    #[error("no peer {0}")]
    UnknownPeer(Nid),
    /// The peer is the gateway of a route.
    #[error("peer {0} is a gateway")]
    PeerIsGateway(Nid),
    /// `health_sensitivity` is more than full health.
    #[error("health_sensitivity {0} is not within 0 to 1000")]
    SensitivityOutOfRange(u16),
    /// `retry_count` is not 0 although `health_sensitivity` is 0. Resends need health.
    #[error("retry_count must be 0 while health_sensitivity is 0")]
    RetryWithoutHealth,
    /// `retry_count` is greater than the number of seconds in `transaction_timeout`.
    #[error("retry_count {0} is more than transaction_timeout has seconds")]
    TooManyRetries(u32),
    /// The number of seconds in `transaction_timeout` is not greater than `retry_count`.
    #[error("transaction_timeout {0:?} is not longer than retry_count seconds")]
    TimeoutTooShort(Duration),
    /// The table of peers is full ([`crate::MAX_PEER_NIS`]).
    #[error("the table of peers is full")]
    TooManyPeers,
}

impl ConfigError {
    /// Returns the errno that `lnetctl` reports for this error.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::InvalidNid(_)
            | Self::NoCredits
            | Self::HopsOutOfRange
            | Self::SensitivityOutOfRange(_)
            | Self::RetryWithoutHealth
            | Self::TooManyRetries(_)
            | Self::TimeoutTooShort(_) => Errno::EINVAL,
            Self::DuplicateNid(_) | Self::DuplicateRoute { .. } | Self::NotRemote(_) => {
                Errno::EEXIST
            }
            Self::NetIsRouted(_) => Errno::EUSERS,
            Self::UnknownNi | Self::UnknownRoute { .. } | Self::UnknownPeer(_) => Errno::ENOENT,
            Self::GatewayNotLocal(_) => Errno::EHOSTUNREACH,
            Self::NidOfAnotherPeer(_) => Errno::ENOTUNIQ,
            Self::PeerIsGateway(_) => Errno::EBUSY,
            Self::TooManyPeers => Errno::ENOMEM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lnd_timeout_divides_the_transaction_among_the_attempts() {
        let mut globals = Globals::default();
        assert_eq!(globals.lnd_timeout(), Duration::from_secs(49));
        globals.transaction_timeout = Duration::from_secs(50);
        assert_eq!(globals.lnd_timeout(), Duration::from_secs(16));
        globals.transaction_timeout = Duration::ZERO;
        assert_eq!(globals.lnd_timeout(), Duration::from_secs(1));
    }
}
