//! Mirrors of the core's types for serde. A field that is added to or removed from the core does
//! not compile until its mirror follows.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::text;
use crate::{
    CoreConfig, DiscoveryView, Entropy, Errno, GatewaySelection, Globals, Health, Heard,
    NetSelection, NiDevice, NiHealthStats, NiSelection, PeerHealthStats, PeerNiSelection,
    PeerSelection, PeerState, RecoverySelection, Route, RouteFault, RouteSelection, RouterBuffers,
    Tunables, UsedPaths,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "CoreConfig", deny_unknown_fields)]
pub(super) struct ConfigDef {
    #[serde(skip, default = "Entropy::withheld")]
    entropy: Entropy,
    seed: u64,
    globals: Globals,
    #[serde(with = "BuffersDef")]
    buffers: RouterBuffers,
    routing: bool,
    pid: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RouterBuffers", deny_unknown_fields)]
struct BuffersDef {
    tiny: u32,
    small: u32,
    large: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Tunables", deny_unknown_fields)]
struct TunablesDef {
    credits: u32,
    peer_credits: u32,
    peer_buffer_credits: u32,
    #[serde(with = "text::span")]
    peer_timeout: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NiDevice", deny_unknown_fields)]
struct DeviceDef {
    rank: u32,
    #[serde(with = "distances")]
    distances: SmallVec<[u32; 4]>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RecoverySelection", deny_unknown_fields)]
struct RecoveryDef {
    ping_count: u32,
    #[serde(with = "text::maybe_time")]
    next_ping: Option<Time>,
    failed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NiHealthStats", deny_unknown_fields)]
struct NiFailuresDef {
    interrupts: u64,
    dropped: u64,
    aborted: u64,
    no_route: u64,
    timeouts: u64,
    error: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PeerHealthStats", deny_unknown_fields)]
struct PeerFailuresDef {
    dropped: u64,
    timeout: u64,
    error: u64,
    network_timeout: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Route", deny_unknown_fields)]
struct RouteOfDef {
    #[serde(with = "text::one")]
    net: Net,
    #[serde(with = "text::one")]
    gateway: Nid,
    hops: Option<u8>,
    priority: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NetSelection", deny_unknown_fields)]
struct NetDef {
    #[serde(with = "text::one")]
    net: Net,
    sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct NetJson(#[serde(with = "NetDef")] pub(super) NetSelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "NiSelection", deny_unknown_fields)]
struct NiDef {
    #[serde(with = "text::one")]
    nid: Nid,
    #[serde(with = "TunablesDef")]
    tunables: Tunables,
    #[serde(with = "DeviceDef")]
    device: NiDevice,
    #[serde(with = "text::maybe_span")]
    lnd_timeout: Option<Duration>,
    fatal: bool,
    up: bool,
    #[serde(with = "text::health")]
    health: Health,
    #[serde(with = "RecoveryDef")]
    recovery: RecoverySelection,
    #[serde(with = "NiFailuresDef")]
    failures: NiHealthStats,
    in_flight: u32,
    sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct NiJson(#[serde(with = "NiDef")] pub(super) NiSelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PeerNiSelection", deny_unknown_fields)]
struct PeerNiDef {
    #[serde(with = "text::one")]
    nid: Nid,
    #[serde(with = "text::health")]
    health: Health,
    up: bool,
    #[serde(with = "RecoveryDef")]
    recovery: RecoverySelection,
    #[serde(with = "PeerFailuresDef")]
    failures: PeerHealthStats,
    in_flight: u32,
    queued_bytes: u64,
    sequence: u64,
    #[serde(with = "text::maybe")]
    pinned: Option<Nid>,
    #[serde(with = "text::maybe_time")]
    last_alive: Option<Time>,
    #[serde(with = "text::time")]
    last_used: Time,
    #[serde(default, with = "discovery")]
    discovery: Option<DiscoveryView>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DiscoveryView", deny_unknown_fields)]
struct DiscoveryDef {
    #[serde(with = "text::peer_state")]
    state: PeerState,
    #[serde(with = "text::maybe_time")]
    finished: Option<Time>,
    #[serde(with = "text::maybe_errno")]
    failure: Option<Errno>,
    #[serde(with = "heard")]
    heard: Option<Heard>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Heard", deny_unknown_fields)]
struct HeardDef {
    pushed: bool,
    #[serde(with = "text::time")]
    at: Time,
    features: u32,
    nids: u32,
}

/// An optional value whose type has a mirror.
macro_rules! maybe_mirrored {
    ($name:ident, $type:ty, $mirror:literal) => {
        mod $name {
            use super::*;

            #[derive(Serialize, Deserialize)]
            #[serde(transparent)]
            struct Json(#[serde(with = $mirror)] $type);

            pub(super) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                value.map(Json).serialize(to)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                Ok(Option::<Json>::deserialize(from)?.map(|Json(value)| value))
            }
        }
    };
}

maybe_mirrored!(discovery, DiscoveryView, "DiscoveryDef");
maybe_mirrored!(heard, Heard, "HeardDef");
maybe_mirrored!(fault, RouteFault, "FaultDef");

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PeerNiJson(#[serde(with = "PeerNiDef")] pub(super) PeerNiSelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PeerSelection", deny_unknown_fields)]
struct PeerDef {
    #[serde(with = "text::many")]
    nids: Vec<Nid>,
    multi_rail: bool,
    configured: bool,
    #[serde(default)]
    silent: u32,
    sequence: u64,
    #[serde(with = "nets")]
    nets: Vec<NetSelection>,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PeerJson(#[serde(with = "PeerDef")] pub(super) PeerSelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "RouteSelection", deny_unknown_fields)]
struct RouteDef {
    #[serde(with = "RouteOfDef")]
    route: Route,
    up: bool,
    #[serde(default, with = "fault")]
    fault: Option<RouteFault>,
    single_hop: bool,
    sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RouteFault", rename_all = "snake_case")]
enum FaultDef {
    NotAnswered,
    Silent,
    NotRouting,
    NiDown(#[serde(with = "text::one")] Net),
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RouteJson(#[serde(with = "RouteDef")] pub(super) RouteSelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "GatewaySelection", deny_unknown_fields)]
struct GatewayDef {
    #[serde(with = "text::one")]
    nid: Nid,
    alive: bool,
    #[serde(with = "text::maybe_time")]
    next_check: Option<Time>,
    #[serde(with = "text::time")]
    last_check: Time,
    failures: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct GatewayJson(#[serde(with = "GatewayDef")] pub(super) GatewaySelection);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Profile", rename_all = "lowercase")]
pub(crate) enum ProfileDef {
    Design,
    Lustre,
    #[serde(rename = "lustre-2.17")]
    Lustre217,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "UsedPaths", rename_all = "lowercase")]
pub(crate) enum UsedPathsDef {
    Pair,
    Literal,
}

/// Distances as a list.
mod distances {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use smallvec::SmallVec;

    pub(super) fn serialize<S: Serializer>(
        values: &SmallVec<[u32; 4]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        values.as_slice().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<SmallVec<[u32; 4]>, D::Error> {
        Ok(Vec::deserialize(from)?.into())
    }
}

/// The nets of a peer.
mod nets {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::NetJson;
    use crate::NetSelection;

    pub(super) fn serialize<S: Serializer>(
        values: &[NetSelection],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|&net| NetJson(net)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<NetSelection>, D::Error> {
        let nets = Vec::<NetJson>::deserialize(from)?;
        Ok(nets.into_iter().map(|NetJson(net)| net).collect())
    }
}
