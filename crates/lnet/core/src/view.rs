//! Views of a core's state: for `net show`, `peer show`, `route show` and metrics.
//!
//! Everything is a copy; no caller keeps a reference into the core.

use std::time::Duration;

use lnet_policy::{Effective, Preferred, PreferredList};
use lnet_types::{Nid, Time};
use lnet_wire::NiStatus;

use crate::Core;
use crate::fabric::gateways::route::RouteStats;
use crate::fabric::health::recovery::Recovery;
use crate::fabric::ni::Ni;
use crate::fabric::peer::{Peer, PeerNi};
use crate::ground::config::{Route, Tunables};
use crate::ground::counters::MessageStats;
use crate::ground::health::{Health, HealthView, NiHealthStats, PeerHealthStats};
use crate::ground::histogram::LatencyHistograms;
use crate::ground::io::{NiId, RouterPool};
use crate::ground::latency::LatencyStats;

/// A local interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiView {
    /// The id of the interface.
    pub id: NiId,
    /// The NID of the interface.
    pub nid: Nid,
    /// True if ping information advertises the interface as up; always true for loopback.
    pub up: bool,
    /// True if the LND reported a fatal error.
    pub fatal: bool,
    /// The limits of the interface; `credits` and `peer_credits` are 0 for loopback.
    pub tunables: Tunables,
    /// Transmit credits left; negative by the number of messages that wait for one.
    pub tx_credits: i64,
    /// The lowest value that `tx_credits` ever had.
    pub min_tx_credits: i64,
    /// Messages by type.
    pub stats: MessageStats,
    /// Health, recovery, and the effective values of the selection rules.
    pub health: HealthView,
    /// The effective values of the selection rules for the net of the interface.
    pub net_priority: Effective,
    /// Failed attempts by class.
    pub health_stats: NiHealthStats,
    /// How long one attempt may take: the value of the LND, or the node's `lnd_timeout` if the LND gave none.
    pub lnd_timeout: Duration,
    /// How long the messages of the interface take.
    pub latency: LatencyStats,
    /// The distribution of these times.
    pub histograms: LatencyHistograms,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// The route as configured.
    pub route: Route,
    /// True if messages may take the route now.
    pub alive: bool,
    /// True if the gateway has an interface on the remote net, as its last ping information showed.
    pub single_hop: bool,
    /// Counts of the messages that took the route.
    pub stats: RouteStats,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The primary NID of the peer.
    pub primary: Nid,
    /// True if the peer is known to be Multi-Rail.
    pub multi_rail: bool,
    /// True if the peer was configured; false if traffic created it.
    pub configured: bool,
    /// True if discovery may not change the primary NID.
    pub locked: bool,
    /// True if the peer is the gateway of a route.
    pub gateway: bool,
    /// Number of consecutive messages through this gateway that were not answered through it; 0 for other peers.
    pub silent: u32,
    /// The interfaces of the peer: the primary one first, and interfaces of one net together, as kernels list them.
    pub nis: Vec<PeerNiView>,
}

/// An interface of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNiView {
    /// The NID of the interface.
    pub nid: Nid,
    /// False from the report that the interface is down until a message arrives from it.
    pub up: bool,
    /// `max_ni_tx_credits`; 0 if the net of the interface is not local.
    pub max_tx_credits: u32,
    /// `available_tx_credits`; negative by the number of messages that wait for one.
    pub tx_credits: i64,
    /// `min_tx_credits`: the lowest value that `tx_credits` ever had.
    pub min_tx_credits: i64,
    /// Bytes queued and in flight, headers included.
    pub queued_bytes: u64,
    /// `available_rtr_credits`: router buffers that messages from the interface may still hold; negative by the number
    /// of messages that wait for one.
    pub router_credits: i64,
    /// `min_rtr_credits`: the lowest value that `router_credits` ever had.
    pub min_router_credits: i64,
    /// Messages by type.
    pub stats: MessageStats,
    /// True if the interface is up according to the last ping information of its node.
    pub advertised_up: bool,
    /// When the last message arrived from the interface; `None` if none did.
    pub last_alive: Option<Time>,
    /// Health, recovery, and the effective values of the selection rules.
    pub health: HealthView,
    /// The effective values of the selection rules for the net of the interface.
    pub net_priority: Effective,
    /// Failed attempts by class.
    pub health_stats: PeerHealthStats,
    /// How long messages to the interface take.
    pub latency: LatencyStats,
}

/// The position of a walk over the peers, page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerCursor {
    /// Among the peers that are configured or gateways, after this primary NID; `None` is before the first of them.
    Kept(Option<Nid>),
    /// Among the peers that traffic created, from this slot of the table on.
    Found(usize),
}

impl PeerCursor {
    /// The position before the first peer.
    pub const START: Self = Self::Kept(None);
}

/// A router buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterPoolView {
    /// The pool.
    pub pool: RouterPool,
    /// `nbuffers`.
    pub buffers: u32,
    /// `credits`: free buffers; negative by the number of messages that wait for one.
    pub credits: i64,
    /// `mincredits`: the lowest value that `credits` ever had.
    pub min_credits: i64,
}

fn health_view(health: Health, recovery: &Recovery, priority: Effective) -> HealthView {
    HealthView {
        health,
        ping_count: recovery.ping_count,
        next_ping: recovery.at,
        last_planned: recovery.planned,
        in_recovery: recovery.at.is_some(),
        ping_failed: recovery.failed,
        priority,
    }
}

impl Core {
    /// Returns the local interfaces: loopback first, then the others in the order of their creation.
    pub fn nis(&self) -> impl Iterator<Item = NiView> {
        self.fabric().nis.all().iter().map(|ni| self.ni_view(ni))
    }

    fn ni_view(&self, ni: &Ni) -> NiView {
        let state = self.fabric().nis.net(ni.nid.net());
        NiView {
            id: ni.id,
            nid: ni.nid,
            up: ni.id == NiId::LOOPBACK || self.fabric().advertised_status(ni) == NiStatus::UP,
            fatal: ni.fatal,
            tunables: ni.tunables,
            tx_credits: ni.tx_credits(),
            min_tx_credits: ni.credits.fewest_left(ni.tunables.credits),
            stats: ni.stats,
            health: health_view(ni.health, &ni.recovery, ni.priority),
            net_priority: state.map_or(Effective::NONE, |state| state.priority),
            health_stats: ni.health_stats,
            lnd_timeout: ni
                .lnd_timeout
                .unwrap_or(self.ground().config.globals.lnd_timeout()),
            latency: ni.latency,
            histograms: ni.histograms,
        }
    }

    /// Returns the routes, ordered by net.
    pub fn routes(&self) -> impl Iterator<Item = RouteView> {
        self.fabric().routes.all().map(|state| RouteView {
            route: state.route,
            alive: self.fabric().routes.is_alive(state),
            single_hop: state.single_hop,
            stats: state.stats,
        })
    }

    /// Returns the peers: first those that are configured or gateways, by primary NID, then those that traffic
    /// created.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> {
        let kept = self.fabric().peers.kept();
        let found = self.fabric().peers.iter();
        kept.map(|(primary, peer)| self.kept_view(primary, peer))
            .chain(found.filter_map(|peer_ni| self.found_view(peer_ni)))
    }

    /// Returns the peer that has an interface with this NID.
    #[must_use]
    pub fn peer_with(&self, nid: Nid) -> Option<PeerView> {
        let peer_ni = self.fabric().peers.by_nid(nid)?;
        let owner = self.fabric().peers.peer(peer_ni.primary);
        owner.map_or_else(
            || self.found_view(peer_ni),
            |peer| Some(self.kept_view(peer_ni.primary, peer)),
        )
    }

    /// Returns about `count` of the peers, in the order of [`Core::peers`], and the position of the next page; `None`
    /// after the last page. A peer that is created or removed between two pages may be missing. All others appear
    /// exactly once. The cost of a page grows with `count`, not with the number of peers.
    #[must_use]
    pub fn peer_page(&self, from: PeerCursor, count: usize) -> (Vec<PeerView>, Option<PeerCursor>) {
        match from {
            PeerCursor::Kept(after) => self.kept_page(after, count),
            PeerCursor::Found(slot) => {
                let end = slot.saturating_add(count.max(1));
                let Some(found) = self.fabric().peers.in_slots(slot..end) else {
                    return (Vec::new(), None);
                };
                let page = found.filter_map(|peer_ni| self.found_view(peer_ni));
                (page.collect(), Some(PeerCursor::Found(end)))
            }
        }
    }

    fn kept_page(&self, after: Option<Nid>, count: usize) -> (Vec<PeerView>, Option<PeerCursor>) {
        let kept = self.fabric().peers.kept_after(after).take(count.max(1));
        let page: Vec<PeerView> = kept
            .map(|(primary, peer)| self.kept_view(primary, peer))
            .collect();
        let next = page.last().map_or(PeerCursor::Found(0), |last| {
            PeerCursor::Kept(Some(last.primary))
        });
        (page, Some(next))
    }

    fn kept_view(&self, primary: Nid, peer: &Peer) -> PeerView {
        let nis = peer.nets.iter().flat_map(|on| &on.nis);
        let nis = nis.filter_map(|&id| self.fabric().peers.get(id));
        PeerView {
            primary,
            multi_rail: peer.multi_rail,
            configured: peer.configured,
            locked: peer.lock.is_some(),
            gateway: peer.routes > 0,
            silent: peer.silent,
            nis: nis.map(|peer_ni| self.peer_ni_view(peer_ni)).collect(),
        }
    }

    /// Returns the view of a peer NI that is a peer of its own; `None` if it belongs to a [`Peer`].
    fn found_view(&self, peer_ni: &PeerNi) -> Option<PeerView> {
        if self.fabric().peers.peer(peer_ni.primary).is_some() {
            return None;
        }
        Some(PeerView {
            primary: peer_ni.nid,
            multi_rail: false,
            configured: false,
            locked: false,
            gateway: false,
            silent: 0,
            nis: vec![self.peer_ni_view(peer_ni)],
        })
    }

    fn peer_ni_view(&self, peer_ni: &PeerNi) -> PeerNiView {
        let tunables = self.fabric().nis.net_tunables(peer_ni.nid.net());
        let max_tx_credits = tunables.map_or(0, |tunables| tunables.peer_credits);
        let max_router = tunables.map_or(0, |tunables| tunables.router_credits());
        PeerNiView {
            nid: peer_ni.nid,
            up: peer_ni.down_since.is_none(),
            max_tx_credits,
            tx_credits: self.fabric().view().peer_credits(peer_ni.nid),
            min_tx_credits: peer_ni.credits.fewest_left(max_tx_credits),
            queued_bytes: peer_ni.queued_bytes(),
            router_credits: peer_ni.router_credits.left(max_router),
            min_router_credits: peer_ni.router_credits.fewest_left(max_router),
            stats: peer_ni.stats,
            advertised_up: peer_ni.status_up,
            last_alive: peer_ni.last_alive,
            health: health_view(peer_ni.health, &peer_ni.recovery, peer_ni.priority),
            net_priority: self.fabric().effective_of_peer_net(peer_ni),
            health_stats: peer_ni.health_stats,
            latency: peer_ni.latency.as_deref().copied().unwrap_or_default(),
        }
    }

    /// Returns the local NIDs that the selection rules prefer for a peer NI, best first.
    #[must_use]
    pub fn preferred_sources(&self, peer_ni: Nid) -> &[Preferred] {
        let list = self
            .fabric()
            .peers
            .by_nid(peer_ni)
            .and_then(|peer_ni| self.fabric().policies.list(peer_ni.sources));
        list.map_or(&[], PreferredList::entries)
    }

    /// Returns the gateways that the selection rules prefer for a peer NI, by primary NID.
    #[must_use]
    pub fn preferred_gateways(&self, peer_ni: Nid) -> &[Preferred] {
        let list = self
            .fabric()
            .peers
            .by_nid(peer_ni)
            .and_then(|peer_ni| peer_ni.gateways.as_ref());
        list.map_or(&[], PreferredList::entries)
    }

    /// Returns the router buffer pools: tiny, small, large.
    #[must_use]
    pub fn router_pools(&self) -> [RouterPoolView; 3] {
        RouterPool::ALL.map(|pool| {
            let state = self.traffic().pools.get(pool);
            RouterPoolView {
                pool,
                buffers: state.total(),
                credits: state.credits_left(),
                min_credits: state.fewest_credits_left(),
            }
        })
    }
}
