//! What a node is configured with, and why a configuration is refused.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid};
use smallvec::SmallVec;
use thiserror::Error;

use crate::event::Errno;
use crate::health::value::Health;
use crate::portals::wire_handle::Entropy;

/// What a core is created with.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreConfig {
    /// What nobody outside may guess is made of this: the handles on the wire and the keys of hashes.
    pub entropy: Entropy,
    /// Seed of everything that is drawn and no secret, such as what an injected fault strikes.
    pub seed: u64,
    /// Parameters of the whole node.
    pub globals: Globals,
    /// Sizes of the router buffer pools.
    pub buffers: RouterBuffers,
    /// Whether the node forwards messages between its networks.
    pub routing: bool,
    /// Process id of this node's messages, 12345 everywhere but in tests.
    pub pid: u32,
}

/// Parameters of the whole node (sections 8.2 and 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Globals {
    /// How long a response, and a message in our queues, is waited for.
    pub transaction_timeout: Duration,
    /// How often a message is sent again at most.
    pub retry_count: u32,
    /// Which responses are tracked: 0 none, 1 of GETs, 2 of PUTs with ACK, 3 both.
    pub response_tracking: u8,
    /// How often gateways are pinged; zero switches the checker off.
    pub alive_router_check_interval: Duration,
    /// How long a checker ping may take, and part of a router's own liveness window.
    pub router_ping_timeout: Duration,
    /// A gateway counts as dead until its first ping is answered.
    pub check_routers_before_use: bool,
    /// A single-hop route is down while its gateway's far side is.
    pub avoid_asym_router_failure: bool,
    /// Drop what comes through a gateway that we would not use towards its source.
    pub drop_asym_route: bool,
    /// Which of two behaviours: that of the design, or that of shipping kernels.
    pub profile: Profile,
    /// What a resend may not use again (`design` profile).
    pub used_paths: UsedPaths,
    /// By how much a failure lowers and a success raises health, 0 to 1000; 0 switches health off.
    pub health_sensitivity: u16,
    /// By how much a failure lowers the health of a gateway's interface (lnet-selection, section
    /// 10.1).
    pub gateway_sensitivity: u16,
    /// A peer interface that was silent for longer is not pinged any more; zero: for ever.
    pub recovery_limit: Duration,
    /// The longest pause between two recovery pings.
    pub max_recovery_ping_interval: Duration,
    /// The percentage of each router pool that messages for one next hop may hold, at least one buffer; 100: all, as
    /// in the `lustre` profile.
    pub next_hop_share: u8,
    /// Distances below this count as equal.
    pub numa_range: u32,
    /// Peers are discovered before the first message to them, and told what this node has.
    pub discovery: bool,
    /// Our own NIDs are at distance 0, not 1.
    pub local_nid_dist_zero: bool,
    /// Messages to one of our own NIDs take the loopback interface. Without it they take the way
    /// that messages to peers take, and leave the node.
    pub own_nids_by_loopback: bool,
}

/// What a resend remembers of the paths that a message has travelled (lnet-selection, section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UsedPaths {
    /// No pair of local and peer interface is used twice, and unused interfaces are preferred.
    #[default]
    Pair,
    /// No local interface and no peer interface is used twice.
    Literal,
}

/// The hardware behind a local interface, as far as selection looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NiDevice {
    /// Rank among devices for peer-to-peer memory, lower is better; 0 where there is no difference.
    pub rank: u32,
    /// Distance from each NUMA node (CPT), by its number, to the device; what is missing is farthest.
    pub distances: SmallVec<[u32; 4]>,
}

impl NiDevice {
    /// The distance from memory at this NUMA node.
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
    /// The time that an LND has for one attempt: whole seconds, at least one (section 9.3).
    #[must_use]
    pub fn lnd_timeout(&self) -> Duration {
        let attempts = u64::from(self.retry_count) + 1;
        let seconds = self.transaction_timeout.as_secs().saturating_sub(1) / attempts;
        Duration::from_secs(seconds.max(1))
    }

    /// These parameters, if a node may begin with them: those to which a running node could be changed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::SensitivityOutOfRange`], [`ConfigError::RetryWithoutHealth`], [`ConfigError::TooManyRetries`].
    pub fn checked(self) -> Result<Self, ConfigError> {
        self.checked_change_of(&self)
    }

    /// These parameters, if an administrator may change `before` to them (section 3.1 of
    /// lnet-selection).
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
        // A retry count that equals the timeout is accepted, such a timeout is not.
        if self.transaction_timeout != before.transaction_timeout && timeout <= retries {
            return Err(ConfigError::TimeoutTooShort(self.transaction_timeout));
        }
        Ok(self)
    }

    /// How long a router calls a net alive after the last ping it saw there (section 8.3).
    pub(crate) fn quiet_window(&self) -> Duration {
        self.router_ping_timeout
            .saturating_add(self.alive_router_check_interval)
    }
}

/// Numbers of buffers in the router pools (section 8.6).
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

/// A local interface to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID; also names its net.
    pub nid: Nid,
    /// Its limits.
    pub tunables: Tunables,
}

/// Limits of an interface (section 8.7). All interfaces of a net use those of its first one where a
/// limit is per peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Messages that may be with the LND at once.
    pub credits: u32,
    /// Of these, messages to one peer NI.
    pub peer_credits: u32,
    /// Routed messages held for one sending peer NI; 0 means `peer_credits`.
    pub peer_buffer_credits: u32,
    /// How long a router believes that a peer NI is down; zero: never.
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
    /// Routed messages held for one sending peer NI.
    pub(crate) fn router_credits(&self) -> u32 {
        match self.peer_buffer_credits {
            0 => self.peer_credits,
            credits => credits,
        }
    }
}

/// A static route (section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The remote net.
    pub net: Net,
    /// The gateway's NID on one of our nets.
    pub gateway: Nid,
    /// Hops to the net, 1 to 255; undefined counts as 1 in comparisons.
    pub hops: Option<u8>,
    /// Lower is preferred.
    pub priority: u32,
}

/// Why a change of the configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The NID is a wildcard or a loopback NID.
    #[error("{0} cannot be used here")]
    InvalidNid(Nid),
    /// A limit of an interface is zero where at least one is needed.
    #[error("credits and peer_credits must be at least 1")]
    NoCredits,
    /// The node has this NID already.
    #[error("{0} is already a local NID")]
    DuplicateNid(Nid),
    /// A route leads to this net; adding an interface on it would make that route wrong.
    #[error("{0} is the target of a route")]
    NetIsRouted(Net),
    /// No interface has this id, or it is the loopback interface.
    #[error("no such local interface")]
    UnknownNi,
    /// The route's net is local, the loopback net or the wildcard.
    #[error("{0} is not a remote net")]
    NotRemote(Net),
    /// The gateway is on a net on which we have no interface.
    #[error("gateway {0} is not on a local net")]
    GatewayNotLocal(Nid),
    /// A hop count of 0.
    #[error("hops must be 1 to 255")]
    HopsOutOfRange,
    /// The gateway has a route to the net already.
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
    /// Resends need health: with `health_sensitivity` 0 there are none.
    #[error("retry_count must be 0 while health_sensitivity is 0")]
    RetryWithoutHealth,
    /// `retry_count` is more than the seconds of `transaction_timeout`.
    #[error("retry_count {0} is more than transaction_timeout has seconds")]
    TooManyRetries(u32),
    /// `transaction_timeout` has no more seconds than `retry_count`.
    #[error("transaction_timeout {0:?} is not longer than retry_count seconds")]
    TimeoutTooShort(Duration),
    /// The table of peers is full ([`crate::MAX_PEER_NIS`]).
    #[error("the table of peers is full")]
    TooManyPeers,
}

impl ConfigError {
    /// The errno that `lnetctl` reports for it.
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
