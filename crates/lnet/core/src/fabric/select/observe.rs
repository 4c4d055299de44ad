//! Reports how a path was selected.
//!
//! Selection is generic over an [`Observer`]. A node passes an observer that compiles to nothing. To
//! learn why a path was chosen, pass an observer that records these calls:
//!
//! ```text
//!  classified ─▶ per level:  candidate*  excluded*  eliminated*  chosen ─▶ (the path, or why there is none)
//! ```

use std::fmt;

use lnet_types::{Net, Nid};

use crate::ground::io::NiId;

/// An observer of one selection.
pub trait Observer {
    /// False if nothing is to be reported; selection then does not even prepare reports.
    const WATCHES: bool = true;

    /// Reports which of the eight cases the message belongs to, and why.
    fn classified(&mut self, classification: &Classification);

    /// Reports a candidate at this level. `values` are the values by which it is compared, in order.
    fn candidate(&mut self, level: Level, candidate: Subject, values: &[(Criterion, i64)]);

    /// Reports an item that cannot be chosen at this level.
    fn excluded(&mut self, level: Level, subject: Subject, why: Exclusion);

    /// Reports that a candidate lost against another one by this criterion.
    fn eliminated(&mut self, level: Level, loser: Subject, winner: Subject, by: Criterion);

    /// Reports the choice of a level, with the runner-up and the criterion by which the runner-up lost.
    fn chosen(&mut self, level: Level, winner: Subject, runner_up: Option<(Subject, Criterion)>);
}

/// An observer that reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const WATCHES: bool = false;

    fn classified(&mut self, _: &Classification) {}
    fn candidate(&mut self, _: Level, _: Subject, _: &[(Criterion, i64)]) {}
    fn excluded(&mut self, _: Level, _: Subject, _: Exclusion) {}
    fn eliminated(&mut self, _: Level, _: Subject, _: Subject, _: Criterion) {}
    fn chosen(&mut self, _: Level, _: Subject, _: Option<(Subject, Criterion)>) {}
}

/// The eight cases of a request.
// [PATH-1]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Case {
    /// Source given, destination local and Multi-Rail.
    A1C,
    /// Source given, destination local, not Multi-Rail.
    A1D,
    /// Source given, destination remote and Multi-Rail.
    A2C,
    /// Source given, destination remote, not Multi-Rail.
    A2D,
    /// Any source, destination local and Multi-Rail.
    B1C,
    /// Any source, destination local, not Multi-Rail.
    B1D,
    /// Any source, destination remote and Multi-Rail.
    B2C,
    /// Any source, destination remote, not Multi-Rail.
    B2D,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The case of a message, as the three facts that decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// The requested source; `None` for any.
    pub source: Option<Nid>,
    /// The location of the destination.
    pub locality: Locality,
    /// The kind of the destination.
    pub kind: TargetKind,
}

impl Classification {
    /// Returns the case.
    #[must_use]
    pub fn case(&self) -> Case {
        let local = matches!(self.locality, Locality::Local(_));
        let multi_rail = matches!(self.kind, TargetKind::MultiRail { .. });
        match (self.source.is_some(), local, multi_rail) {
            (true, true, true) => Case::A1C,
            (true, true, false) => Case::A1D,
            (true, false, true) => Case::A2C,
            (true, false, false) => Case::A2D,
            (false, true, true) => Case::B1C,
            (false, true, false) => Case::B1D,
            (false, false, true) => Case::B2C,
            (false, false, false) => Case::B2D,
        }
    }
}

/// The location of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// On the net of the requested source, or on a local net if no source was requested.
    Local(Net),
    /// On this net, which is not the net of the requested source or, without one, not a local net.
    Remote(Net),
}

/// The kind of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Its peer is known to be Multi-Rail.
    MultiRail {
        /// The peer's primary NID.
        primary: Nid,
    },
    /// Its peer is not known to be Multi-Rail.
    SingleRail,
    /// The NID may not be replaced, whatever its peer is: a recovery ping or a ping of the router checker.
    Pinned,
    /// The last hop of a forwarded message keeps the NID that the originator chose.
    LastHop,
}

/// The levels of a selection, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Among the peer's nets that are local.
    Net,
    /// Among the peer's nets that routes lead to.
    RemoteNet,
    /// Among the peer's interfaces on a remote net.
    FinalPeerNi,
    /// Among the routes to a net.
    Route,
    /// Among the interfaces of a gateway.
    GatewayNi,
    /// Among the local interfaces on a net.
    LocalNi,
    /// Among the peer's interfaces on a net.
    PeerNi,
}

/// A thing that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A net.
    Net(Net),
    /// A local interface.
    Ni(NiId, Nid),
    /// An interface of a peer.
    PeerNi(Nid),
    /// A route.
    Route {
        /// The net that the route leads to.
        net: Net,
        /// The gateway of the route.
        gateway: Nid,
    },
}

/// The criteria by which candidates are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// 1 if the LND reported a fatal error; lower is better.
    Fatal,
    /// Health; higher is better.
    Health,
    /// Health of the peer's net; higher is better.
    PeerNetHealth,
    /// Priority of the peer's net; lower is better.
    PeerNetPriority,
    /// Health of the local net; higher is better.
    LocalNetHealth,
    /// Priority of the local net; lower is better.
    LocalNetPriority,
    /// 1 if an earlier attempt used the interface; lower is better.
    Used,
    /// Priority by the rules; lower is better.
    Priority,
    /// Rank of the device for peer-to-peer memory; lower is better.
    Device,
    /// Distance from the payload's memory; lower is better.
    Distance,
    /// Rank of the local interface on the preferred list; lower is better.
    Preference,
    /// Transmit credits left; higher is better.
    Credits,
    /// Bytes queued; lower is better.
    QueuedBytes,
    /// 1 unless the gateway is on the preferred list; lower is better.
    PreferredGateway,
    /// Priority of the route; lower is better.
    RoutePriority,
    /// Hops of the route; lower is better.
    Hops,
    /// Stamp of the last use; lower is better.
    Sequence,
    /// Stamp of the last use of the local net; lower is better.
    LocalNetSequence,
    /// No criterion differs: the order in the list decides.
    Order,
}

impl Criterion {
    /// Returns whether the higher of two displayed numbers is better.
    #[must_use]
    pub fn is_higher_better(self) -> bool {
        self.shown(0) > self.shown(1)
    }

    /// Returns whether the criterion only takes turns among equal candidates.
    #[must_use]
    pub fn is_rotation(self) -> bool {
        matches!(self, Self::Sequence | Self::LocalNetSequence | Self::Order)
    }

    /// Returns the number to display for a key. In keys, lower is always better; the displayed number is the familiar
    /// one.
    pub(in crate::fabric) fn shown(self, key: u64) -> i64 {
        match self {
            Self::Health | Self::PeerNetHealth | Self::LocalNetHealth => {
                i64::from(crate::ground::health::Health::MAX.value()) - key.cast_signed()
            }
            Self::Credits => super::contest::credits_of(key),
            Self::Priority | Self::PeerNetPriority | Self::LocalNetPriority | Self::Preference
                if key == u64::from(u32::MAX) =>
            {
                -1
            }
            _ => key.cast_signed(),
        }
    }
}

/// The reason why something cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// A resend uses only interfaces that are in full health, up and without a fatal error.
    NotOptimal,
    /// An earlier attempt of this message used the item.
    Used,
    /// One end has a 4-byte address and the other a 16-byte address.
    OtherAddressSize,
    /// No interface at the other end can be used together with this item.
    NoCounterpart,
    /// The peer has no interface on this net.
    PeerNotOnNet,
    /// The node has no interface on this net.
    NetNotLocal,
    /// The route is dead.
    DeadRoute,
    /// The gateway cannot be reached from the source that was given.
    NotFromSource,
    /// The gateway sent the message to this node.
    CameFrom,
    /// Each local interface on the gateway's net has a fatal error, such as a link that is down, and there is another
    /// gateway.
    NoLink,
    /// Several consecutive messages through the gateway were not answered, and there is another gateway.
    Silent,
    /// The caller asked to avoid this gateway, and there is another one.
    Avoided,
}
