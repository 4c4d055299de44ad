//! The configuration of a node, and the reasons to reject a configuration.

use std::time::Duration;

use lnet_types::{Net, Nid};
use smallvec::SmallVec;
use thiserror::Error;

use crate::ground::entropy::Entropy;
use crate::ground::event::Errno;
use crate::ground::globals::Globals;

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

impl Route {
    /// Returns a route without a hop count, of the priority that routes have by default.
    #[must_use]
    pub const fn new(net: Net, gateway: Nid) -> Self {
        Self {
            net,
            gateway,
            hops: None,
            priority: 0,
        }
    }
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
