//! The complete state of selection as plain data. It can be taken from a running core and sent anywhere. A core made
//! from the state selects, message by message, the same paths that the running core selects next.
//!
//! ```text
//!  running core ── selection_state ──▶ SelectionState ── from_selection_state ──▶ core that predicts
//!                                       │ configuration  globals, interfaces, peers, routes, rules
//!                                       │ learnt         health, statuses, pins, what gateways said
//!                                       └ load           credits in use, bytes queued, sequences
//! ```
//!
//! The state leaves out what no selection depends on: match entries and descriptors, router buffers, the messages
//! themselves, injected faults. A message that waits for a credit counts as a message that has one, which makes no
//! difference for later messages. A message that waits for a resend is not in the state; take the state after
//! [`Core::tick`], which sends such messages.
//!
//! The state names interfaces and peers by their NIDs, not by the numbers that one core gave them. It also leaves out
//! the effective values of the rules, which are computed from the rules again.

#[cfg(feature = "state-json")]
pub mod json;

use std::time::Duration;

use lnet_policy::RuleList;
use lnet_types::{Net, Nid, Time};
use thiserror::Error;

use crate::Core;
use crate::fabric::Fabric;
use crate::fabric::discovery::{Discovery, DiscoveryView};
use crate::fabric::gateways::obstacle::RouteFault;
use crate::fabric::health::recovery::Recovery;
use crate::fabric::peer::PeerNi;
use crate::ground::config::{ConfigError, CoreConfig, NiConfig, NiDevice, Route, Tunables};
use crate::ground::entropy::Entropy;
use crate::ground::health::{Health, NiHealthStats, PeerHealthStats};
use crate::ground::io::NiId;
use crate::ground::timer::RecoveryTarget;
use crate::upkeep::Upkeep;

/// Everything that the selection of a path depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionState {
    /// The configuration that the core was created with, with its present parameters.
    pub config: CoreConfig,
    /// Round-robin stamp of the node.
    pub sequence: u64,
    /// The local nets.
    pub nets: Vec<NetSelection>,
    /// The local interfaces except loopback, in the order of their creation.
    pub nis: Vec<NiSelection>,
    /// All interfaces of peers, whether or not the peer is among `peers`.
    pub peer_nis: Vec<PeerNiSelection>,
    /// The peers that are configured or gateways.
    pub peers: Vec<PeerSelection>,
    /// The routes. Routes to one net are in the order in which selection looks at them.
    pub routes: Vec<RouteSelection>,
    /// The gateways of these routes.
    pub gateways: Vec<GatewaySelection>,
    /// The selection rules.
    pub rules: RuleList,
}

/// A local net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSelection {
    /// The net.
    pub net: Net,
    /// Round-robin stamp of its last use.
    pub sequence: u64,
}

/// A local interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiSelection {
    /// The NID of the interface.
    pub nid: Nid,
    /// The limits of the interface.
    pub tunables: Tunables,
    /// The hardware behind it.
    pub device: NiDevice,
    /// How long the LND may take for one attempt; `None` means the value from the node's parameters.
    pub lnd_timeout: Option<Duration>,
    /// True if the LND reported a fatal error.
    pub fatal: bool,
    /// True if the interface is advertised as up as far as its health decides this.
    pub up: bool,
    /// The health of the interface.
    pub health: Health,
    /// The state of its recovery.
    pub recovery: RecoverySelection,
    /// Failed attempts by class.
    pub failures: NiHealthStats,
    /// Messages that hold one of the interface's credits or wait for one.
    pub in_flight: u32,
    /// Round-robin stamp of its last use.
    pub sequence: u64,
}

/// The state of the recovery of an interface or a peer interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverySelection {
    /// Recovery pings since the last message arrived from the interface.
    pub ping_count: u32,
    /// When the next ping is due; `None` if the interface is not being recovered.
    pub next_ping: Option<Time>,
    /// True if the last ping failed.
    pub failed: bool,
}

/// An interface of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNiSelection {
    /// The NID of the interface.
    pub nid: Nid,
    /// The health of the interface.
    pub health: Health,
    /// True if the interface is up according to the last ping information of its node.
    pub up: bool,
    /// The state of its recovery.
    pub recovery: RecoverySelection,
    /// Failed attempts by class.
    pub failures: PeerHealthStats,
    /// Messages that hold one of the interface's credits or wait for one.
    pub in_flight: u32,
    /// Bytes queued and in flight, headers included.
    pub queued_bytes: u64,
    /// Round-robin stamp of its last use.
    pub sequence: u64,
    /// The local interface that the peer interface always sees, if its peer is not Multi-Rail.
    pub pinned: Option<Nid>,
    /// When the last message arrived from the interface; `None` if none did.
    pub last_alive: Option<Time>,
    /// When a message was last received from the interface or sent to it.
    pub last_used: Time,
    /// The state of the peer's discovery, present only for a primary NID. No selection depends on it.
    pub discovery: Option<DiscoveryView>,
}

/// A peer that is configured or a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSelection {
    /// The NIDs of the peer, the primary NID first. All of them are among [`SelectionState::peer_nis`].
    pub nids: Vec<Nid>,
    /// True if the peer is known to be Multi-Rail.
    pub multi_rail: bool,
    /// True if the peer was configured; false if it is only a gateway or was discovered.
    pub configured: bool,
    /// Number of consecutive messages through the peer, as a gateway, that were not answered.
    pub silent: u32,
    /// The counter that the stamps of the peer's nets and interfaces are taken from.
    pub sequence: u64,
    /// The nets of the peer.
    pub nets: Vec<NetSelection>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSelection {
    /// The route as configured.
    pub route: Route,
    /// True if the route is up according to what the gateway last said.
    pub up: bool,
    /// The reason why the route is down; `None` if the route is up.
    pub fault: Option<RouteFault>,
    /// True if the gateway has an interface on the remote net.
    pub single_hop: bool,
    /// Round-robin stamp of its last use.
    pub sequence: u64,
}

/// A gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySelection {
    /// The NID by which routes name the gateway.
    pub nid: Nid,
    /// True if the gateway answered its last ping, or if a message has come through it since.
    pub alive: bool,
    /// When the next ping is due; `None` while the checker does not run.
    pub next_check: Option<Time>,
    /// When the last ping was due.
    pub last_check: Time,
    /// Number of consecutive pings after which a route was down.
    pub failures: u32,
}

/// The reason why no core can be made from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// A node cannot have this configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A counter is larger than the count of any core.
    #[error("a sequence, load, failure or byte count of {0} is too large")]
    TooLarge(Nid),
    /// A peer has no NIDs.
    #[error("a peer has no NID")]
    NoNids,
}

/// The limit of a counter: far more than a core counts in its life, and far below an overflow.
const COUNT_MAX: u64 = 1 << 62;

/// The limit of messages in flight: more than can be under way.
const IN_FLIGHT_MAX: u32 = 1 << 30;

impl RecoverySelection {
    fn of(recovery: &Recovery) -> Self {
        Self {
            ping_count: recovery.ping_count,
            next_ping: recovery.at,
            failed: recovery.failed,
        }
    }
}

impl SelectionState {
    /// Checks that no counter is so large that counting further could overflow it.
    fn check(&self) -> Result<(), StateError> {
        let of_nodes = self.nets.iter().map(|net| net.sequence);
        if of_nodes
            .chain([self.sequence])
            .any(|value| value > COUNT_MAX)
        {
            return Err(StateError::TooLarge(Nid::ANY));
        }
        for ni in &self.nis {
            let failures = ni.failures.counts();
            check_counts(
                ni.nid,
                ni.in_flight,
                failures.into_iter().chain([ni.sequence]),
            )?;
        }
        for ni in &self.peer_nis {
            let failures = ni.failures.counts();
            let stamps = [ni.sequence, ni.queued_bytes];
            check_counts(ni.nid, ni.in_flight, failures.into_iter().chain(stamps))?;
        }
        for peer in &self.peers {
            let primary = *peer.nids.first().ok_or(StateError::NoNids)?;
            check_counts(primary, 0, [peer.sequence])?;
            for net in &peer.nets {
                check_counts(primary, 0, [net.sequence])?;
            }
        }
        for route in &self.routes {
            check_counts(route.route.gateway, 0, [route.sequence])?;
        }
        for gateway in &self.gateways {
            check_counts(gateway.nid, gateway.failures, [])?;
        }
        Ok(())
    }
}

fn check_counts(
    nid: Nid,
    in_flight: u32,
    counts: impl IntoIterator<Item = u64>,
) -> Result<(), StateError> {
    let too_large = |count| count > COUNT_MAX;
    if in_flight > IN_FLIGHT_MAX || counts.into_iter().any(too_large) {
        return Err(StateError::TooLarge(nid));
    }
    Ok(())
}

impl Fabric {
    fn ni_selections(&self) -> Vec<NiSelection> {
        let nis = self.nis.real().iter().map(|ni| NiSelection {
            nid: ni.nid,
            tunables: ni.tunables,
            device: ni.device.clone(),
            lnd_timeout: ni.lnd_timeout,
            fatal: ni.fatal,
            up: ni.status_up,
            health: ni.health,
            recovery: RecoverySelection::of(&ni.recovery),
            failures: ni.health_stats,
            in_flight: ni.credits.demand(),
            sequence: ni.seq,
        });
        nis.collect()
    }

    fn peer_ni_selections(&self) -> Vec<PeerNiSelection> {
        let nid_of = |ni: NiId| self.nis.get(ni).map(|ni| ni.nid);
        let nis = self.peers.iter().map(|peer_ni: &PeerNi| PeerNiSelection {
            nid: peer_ni.nid,
            health: peer_ni.health,
            up: peer_ni.status_up,
            recovery: RecoverySelection::of(&peer_ni.recovery),
            failures: peer_ni.health_stats,
            in_flight: peer_ni.credits.demand(),
            queued_bytes: peer_ni.queued_bytes(),
            sequence: peer_ni.seq,
            pinned: peer_ni.pinned.and_then(nid_of),
            last_alive: peer_ni.last_alive,
            last_used: peer_ni.last_used,
            discovery: peer_ni.discovery.as_ref().map(|known| known.view()),
        });
        nis.collect()
    }

    fn peer_selections(&self) -> Vec<PeerSelection> {
        let peers = self.peers.kept().map(|(_, peer)| PeerSelection {
            nids: peer.nids.to_vec(),
            multi_rail: peer.multi_rail,
            configured: peer.configured,
            silent: peer.silent,
            sequence: peer.send_seq,
            nets: peer
                .nets
                .iter()
                .map(|on| NetSelection {
                    net: on.net,
                    sequence: on.seq,
                })
                .collect(),
        });
        peers.collect()
    }

    fn route_selections(&self) -> Vec<RouteSelection> {
        let routes = self.routes.all().map(|state| RouteSelection {
            route: state.route,
            up: state.is_up(),
            fault: state.fault,
            single_hop: state.single_hop,
            sequence: state.seq,
        });
        routes.collect()
    }

    fn gateway_selections(&self) -> Vec<GatewaySelection> {
        let known = self.routes.gateways();
        let gateways = known.filter_map(|nid| Some((nid, self.routes.gateway(nid)?)));
        gateways
            .map(|(nid, gateway)| GatewaySelection {
                nid,
                alive: gateway.alive,
                next_check: gateway.next_check,
                last_check: gateway.last_check,
                failures: gateway.failures,
            })
            .collect()
    }

    fn restore_ni(&mut self, from: &NiSelection, now: Time) -> Result<(), StateError> {
        let NiSelection { nid, tunables, .. } = *from;
        let id = self.insert_ni(NiConfig { nid, tunables }, now)?;
        let Some(ni) = self.nis.get_mut(id) else {
            return Err(ConfigError::UnknownNi.into());
        };
        ni.device = from.device.clone();
        ni.lnd_timeout = from.lnd_timeout;
        (ni.fatal, ni.status_up, ni.health) = (from.fatal, from.up, from.health);
        ni.health_stats = from.failures;
        ni.credits.set_held(from.in_flight);
        ni.seq = from.sequence;
        self.restore_recovery(RecoveryTarget::Ni(id), &from.recovery);
        Ok(())
    }

    fn restore_peer_ni(&mut self, from: &PeerNiSelection) -> Result<(), StateError> {
        let id = self
            .peer_ni(from.nid, from.last_used)
            .ok_or(ConfigError::TooManyPeers)?;
        if let Some(peer_ni) = self.peers.get_mut(id) {
            peer_ni.status_up = from.up;
            peer_ni.health_stats = from.failures;
            peer_ni.credits.set_held(from.in_flight);
            peer_ni.add_queued(from.queued_bytes);
            peer_ni.seq = from.sequence;
            peer_ni.last_alive = from.last_alive;
            let discovery = from.discovery.map(Discovery::restored);
            peer_ni.discovery = discovery.map(Box::new);
        }
        self.restore_recovery(RecoveryTarget::Peer(id), &from.recovery);
        Ok(())
    }

    fn restore_recovery(&mut self, target: RecoveryTarget, from: &RecoverySelection) {
        let recovery = match target {
            RecoveryTarget::Ni(id) => self.nis.get_mut(id).map(|ni| &mut ni.recovery),
            RecoveryTarget::Peer(id) => self.peers.get_mut(id).map(|ni| &mut ni.recovery),
        };
        if let Some(recovery) = recovery {
            recovery.ping_count = from.ping_count;
            recovery.failed = from.failed;
        }
        if let Some(at) = from.next_ping {
            self.begin_recovery_at(target, at);
        }
    }

    /// Restores a route with fewer checks than for a new route: since the route was added, interfaces may have been
    /// removed and gateways may have become one peer.
    fn restore_route(&mut self, from: &RouteSelection) -> Result<(), StateError> {
        let Route {
            net, gateway, hops, ..
        } = from.route;
        if net == Net::LO || net == Net::ANY || self.nis.has_net(net) {
            return Err(ConfigError::NotRemote(net).into());
        }
        if gateway.is_any() || gateway.net() == Net::LO || self.nis.by_nid(gateway).is_some() {
            return Err(ConfigError::InvalidNid(gateway).into());
        }
        if hops == Some(0) {
            return Err(ConfigError::HopsOutOfRange.into());
        }
        self.peer_ni(gateway, Time::ZERO)
            .ok_or(ConfigError::TooManyPeers)?;
        self.routes.add(from.route, from.up)?;
        self.peers.add_gateway(gateway);
        for state in self.routes.via_mut(gateway) {
            if state.route.net == net {
                state.fault = (!from.up).then(|| from.fault.unwrap_or(RouteFault::Silent));
                state.single_hop = from.single_hop;
                state.seq = from.sequence;
            }
        }
        Ok(())
    }

    fn restore_gateway(&mut self, from: &GatewaySelection) {
        if let Some(gateway) = self.routes.gateway_mut(from.nid) {
            gateway.alive = from.alive;
            gateway.last_check = from.last_check;
            gateway.failures = from.failures;
        }
        self.plan_check(
            from.nid,
            from.next_check.unwrap_or(Time::from_nanos(u64::MAX)),
        );
    }

    fn restore_stamps(&mut self, from: &PeerSelection) {
        let id = from.nids.first().and_then(|&nid| self.peers.id_of(nid));
        let Some(peer) = id.and_then(|id| self.peers.owner_mut(id)) else {
            return;
        };
        (peer.send_seq, peer.silent) = (from.sequence, from.silent);
        for of_net in &from.nets {
            if let Some(on) = peer.nets.iter_mut().find(|on| on.net == of_net.net) {
                on.seq = of_net.sequence;
            }
        }
    }
}

impl Upkeep {
    /// Restores peers before routes, because a route is counted at the peer that owns its gateway. Restores stamps
    /// after both, because only then the peer that holds them exists.
    fn restore_peers(&mut self, state: &SelectionState) -> Result<(), StateError> {
        for from in &state.peer_nis {
            self.traffic.fabric.restore_peer_ni(from)?;
        }
        for from in state.peers.iter().filter(|from| from.configured) {
            let (&primary, others) = from.nids.split_first().ok_or(StateError::NoNids)?;
            self.add_peer(primary, others, from.multi_rail)?;
        }
        let is_discovered = |from: &&PeerSelection| from.multi_rail && !from.configured;
        for from in state.peers.iter().filter(is_discovered) {
            let &primary = from.nids.first().ok_or(StateError::NoNids)?;
            self.traffic
                .fabric
                .peers
                .learn(primary, primary, &from.nids);
        }
        for from in &state.routes {
            self.traffic.fabric.restore_route(from)?;
        }
        for from in &state.gateways {
            self.traffic.fabric.restore_gateway(from);
        }
        for from in &state.peers {
            self.traffic.fabric.restore_stamps(from);
        }
        // A peer that becomes Multi-Rail, and a peer NI that joins a peer, lose the values that are set here.
        for from in &state.peer_nis {
            let pinned = from
                .pinned
                .and_then(|nid| self.traffic.fabric.nis.by_nid(nid));
            let pinned = pinned.map(|ni| ni.id);
            if let Some(peer_ni) = self.traffic.fabric.peers.by_nid_mut(from.nid) {
                peer_ni.pinned = pinned;
                peer_ni.seq = from.sequence;
                peer_ni.last_used = from.last_used;
            }
            if let Some(id) = self.traffic.fabric.peers.id_of(from.nid) {
                self.traffic.fabric.peers.set_health(id, from.health);
            }
        }
        Ok(())
    }
}

impl Core {
    /// Returns everything that the selection of a path depends on now.
    #[must_use]
    pub fn selection_state(&self) -> SelectionState {
        let nets = self
            .upkeep
            .traffic
            .fabric
            .nis
            .nets()
            .iter()
            .map(|state| NetSelection {
                net: state.net,
                sequence: state.seq,
            });
        SelectionState {
            config: CoreConfig {
                entropy: Entropy::withheld(),
                ..self.upkeep.traffic.fabric.ground.config.clone()
            },
            sequence: self.upkeep.traffic.fabric.nis.net_seq,
            nets: nets.filter(|state| state.net != Net::LO).collect(),
            nis: self.upkeep.traffic.fabric.ni_selections(),
            peer_nis: self.upkeep.traffic.fabric.peer_ni_selections(),
            peers: self.upkeep.traffic.fabric.peer_selections(),
            routes: self.upkeep.traffic.fabric.route_selections(),
            gateways: self.upkeep.traffic.fabric.gateway_selections(),
            rules: self.rules().clone(),
        }
    }

    /// Creates a core that selects the same paths as the core that `state` was taken from. The new core has no
    /// descriptors and no messages. It continues the schedule of pings of the other core.
    ///
    /// # Errors
    ///
    /// If no core can be in this state.
    pub fn from_selection_state(state: &SelectionState, now: Time) -> Result<Self, StateError> {
        state.check()?;
        if now.as_nanos() > COUNT_MAX {
            return Err(StateError::TooLarge(Nid::ANY));
        }
        let mut core = Self::new(state.config.clone(), now);
        core.upkeep.traffic.fabric.ground.is_copy = true;
        for ni in &state.nis {
            core.upkeep.traffic.fabric.restore_ni(ni, now)?;
        }
        core.upkeep.traffic.fabric.nis.net_seq = state.sequence;
        for of_net in &state.nets {
            if let Some(net) = core.upkeep.traffic.fabric.nis.net_mut(of_net.net) {
                net.seq = of_net.sequence;
            }
        }
        core.upkeep.restore_peers(state)?;
        core.set_rules(state.rules.clone());
        core.upkeep.traffic.rebuild_ping_info();
        Ok(core)
    }
}
