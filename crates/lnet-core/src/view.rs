//! What a core shows of itself: for `net show`, `peer show`, `route show`, metrics.
//!
//! Everything is a copy; no caller keeps a reference into the core.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_policy::{Effective, Preferred, PreferredList};
use lnet_types::{Nid, Time};
use lnet_wire::NiStatus;

use crate::Core;
use crate::config::{Globals, Route, Tunables};
use crate::counts::counters::{Counters, MessageStats};
use crate::counts::histogram::LatencyHistograms;
use crate::counts::latency::LatencyStats;
use crate::discovery::table::DiscoveryView;
use crate::gateways::route::RouteStats;
use crate::health::recovery::Recovery;
use crate::health::value::{Health, HealthView, NiHealthStats, PeerHealthStats};
use crate::io::{NiId, RouterPool};
use crate::ni::Ni;
use crate::peer::{Peer, PeerNi};
use crate::send::tx::{Tx, Work};

/// A local interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiView {
    /// Its id.
    pub id: NiId,
    /// Its NID.
    pub nid: Nid,
    /// As advertised in ping information; loopback is always up.
    pub up: bool,
    /// The LND reported a fatal error.
    pub fatal: bool,
    /// Its limits; all zero for loopback.
    pub tunables: Tunables,
    /// Transmit credits left; negative by the number of messages that wait.
    pub tx_credits: i64,
    /// The fewest there ever were.
    pub min_tx_credits: i64,
    /// Messages by type.
    pub stats: MessageStats,
    /// Health, recovery, and what the rules say.
    pub health: HealthView,
    /// What the rules say of its net.
    pub net_priority: Effective,
    /// Failed attempts by class.
    pub health_stats: NiHealthStats,
    /// How long one attempt may take: what the LND says, else the node's `lnd_timeout`.
    pub lnd_timeout: Duration,
    /// How long its messages take.
    pub latency: LatencyStats,
    /// How these times are spread.
    pub histograms: LatencyHistograms,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// As configured.
    pub route: Route,
    /// Messages may be sent along it now.
    pub alive: bool,
    /// The gateway has an interface on the remote net, as its last ping information showed.
    pub single_hop: bool,
    /// What went along it.
    pub stats: RouteStats,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Its primary NID.
    pub primary: Nid,
    /// It is known to be Multi-Rail.
    pub multi_rail: bool,
    /// Given by configuration, not found by traffic.
    pub configured: bool,
    /// Discovery may not change its primary NID.
    pub locked: bool,
    /// It is the gateway of a route.
    pub gateway: bool,
    /// Messages in a row that were not answered through it, as a gateway.
    pub silent: u32,
    /// Its interfaces, primary first, those of one net together, as kernels list them.
    pub nis: Vec<PeerNiView>,
}

/// An interface of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNiView {
    /// Its NID.
    pub nid: Nid,
    /// Not reported down since it was last heard of.
    pub up: bool,
    /// `max_ni_tx_credits`; 0 when its net is not local.
    pub max_tx_credits: u32,
    /// `available_tx_credits`; negative by the number of messages that wait.
    pub tx_credits: i64,
    /// `min_tx_credits`: the fewest there ever were.
    pub min_tx_credits: i64,
    /// Bytes queued and in flight.
    pub queued_bytes: u64,
    /// `available_rtr_credits`: buffers that messages from it may still hold; negative by those that
    /// wait.
    pub router_credits: i64,
    /// `min_rtr_credits`: the fewest there ever were.
    pub min_router_credits: i64,
    /// Messages by type.
    pub stats: MessageStats,
    /// As its node last said of it in ping information.
    pub advertised_up: bool,
    /// When it was last heard of.
    pub last_alive: Option<Time>,
    /// Health, recovery, and what the rules say.
    pub health: HealthView,
    /// What the rules say of its net.
    pub net_priority: Effective,
    /// Failed attempts by class.
    pub health_stats: PeerHealthStats,
    /// How long messages to it take.
    pub latency: LatencyStats,
}

/// Where a walk over the peers stands, page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerCursor {
    /// Among those that are configured or gateways, after this primary NID.
    Kept(Option<Nid>),
    /// Among those found by traffic, from this slot on.
    Found(usize),
}

impl PeerCursor {
    /// Before the first peer.
    pub const START: Self = Self::Kept(None);
}

/// A router buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterPoolView {
    /// Which.
    pub pool: RouterPool,
    /// `nbuffers`.
    pub buffers: u32,
    /// `credits`: free buffers; negative by the number of messages that wait.
    pub credits: i64,
    /// `mincredits`: the fewest there ever were.
    pub min_credits: i64,
}

impl Core {
    /// The local interfaces, loopback first, then in the order of their creation.
    pub fn nis(&self) -> impl Iterator<Item = NiView> {
        self.nis.all().iter().map(|ni| self.ni_view(ni))
    }

    fn ni_view(&self, ni: &Ni) -> NiView {
        let state = self.nis.net(ni.nid.net());
        NiView {
            id: ni.id,
            nid: ni.nid,
            up: ni.id == NiId::LOOPBACK || self.advertised_status(ni) == NiStatus::UP,
            fatal: ni.fatal,
            tunables: ni.tunables,
            tx_credits: ni.tx_credits(),
            min_tx_credits: ni.credits.fewest_left(ni.tunables.credits),
            stats: ni.stats,
            health: health_view(ni.health, &ni.recovery, ni.priority),
            net_priority: state.map_or(Effective::NONE, |state| state.priority),
            health_stats: ni.health_stats,
            lnd_timeout: ni.lnd_timeout.unwrap_or(self.config.globals.lnd_timeout()),
            latency: ni.latency,
            histograms: ni.histograms,
        }
    }

    /// The node-wide parameters in force.
    #[must_use]
    pub fn globals(&self) -> &Globals {
        &self.config.globals
    }

    /// Whether this node forwards messages for others.
    #[must_use]
    pub fn is_router(&self) -> bool {
        self.config.routing
    }

    /// The routes, by net.
    pub fn routes(&self) -> impl Iterator<Item = RouteView> {
        self.routes.all().map(|state| RouteView {
            route: state.route,
            alive: self.routes.is_alive(state),
            single_hop: state.single_hop,
            stats: state.stats,
        })
    }

    /// The peers: those that are configured or gateways by primary NID, then those found by traffic.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> {
        let kept = self.peers.kept();
        let found = self.peers.iter();
        kept.map(|(primary, peer)| self.kept_view(primary, peer))
            .chain(found.filter_map(|peer_ni| self.found_view(peer_ni)))
    }

    /// The peer that has an interface with this NID.
    #[must_use]
    pub fn peer_with(&self, nid: Nid) -> Option<PeerView> {
        let peer_ni = self.peers.by_nid(nid)?;
        let owner = self.peers.peer(peer_ni.primary);
        owner.map_or_else(
            || self.found_view(peer_ni),
            |peer| Some(self.kept_view(peer_ni.primary, peer)),
        )
    }

    /// About `count` of the peers in the order of [`Core::peers`], and where the next ones begin; `None`
    /// after the last. What comes or goes between two pages may be missing or be there; all others
    /// are there once. A page costs in proportion to `count`, whatever the number of peers.
    #[must_use]
    pub fn peer_page(&self, from: PeerCursor, count: usize) -> (Vec<PeerView>, Option<PeerCursor>) {
        match from {
            PeerCursor::Kept(after) => self.kept_page(after, count),
            PeerCursor::Found(slot) => {
                let end = slot.saturating_add(count.max(1));
                let Some(found) = self.peers.in_slots(slot..end) else {
                    return (Vec::new(), None);
                };
                let page = found.filter_map(|peer_ni| self.found_view(peer_ni));
                (page.collect(), Some(PeerCursor::Found(end)))
            }
        }
    }

    fn kept_page(&self, after: Option<Nid>, count: usize) -> (Vec<PeerView>, Option<PeerCursor>) {
        let kept = self.peers.kept_after(after).take(count.max(1));
        let page: Vec<PeerView> = kept
            .map(|(primary, peer)| self.kept_view(primary, peer))
            .collect();
        let next = page.last().map_or(PeerCursor::Found(0), |last| {
            PeerCursor::Kept(Some(last.primary))
        });
        (page, Some(next))
    }

    fn kept_view(&self, primary: Nid, peer: &Peer) -> PeerView {
        let nis = peer.nids.iter().filter_map(|&nid| self.peers.by_nid(nid));
        PeerView {
            primary,
            multi_rail: peer.multi_rail,
            configured: peer.configured,
            locked: peer.lock.is_some(),
            gateway: peer.routes > 0,
            silent: peer.silent,
            nis: by_net(nis.map(|peer_ni| self.peer_ni_view(peer_ni)).collect()),
        }
    }

    /// A peer NI that is a peer of its own; `None` for one of a peer that is kept.
    fn found_view(&self, peer_ni: &PeerNi) -> Option<PeerView> {
        if self.peers.peer(peer_ni.primary).is_some() {
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
        let tunables = self.nis.net_tunables(peer_ni.nid.net());
        let max_tx_credits = tunables.map_or(0, |tunables| tunables.peer_credits);
        let max_router = tunables.map_or(0, |tunables| tunables.router_credits());
        PeerNiView {
            nid: peer_ni.nid,
            up: peer_ni.down_since.is_none(),
            max_tx_credits,
            tx_credits: self.view().peer_credits(peer_ni.nid),
            min_tx_credits: peer_ni.credits.fewest_left(max_tx_credits),
            queued_bytes: peer_ni.queued_bytes(),
            router_credits: peer_ni.router_credits.left(max_router),
            min_router_credits: peer_ni.router_credits.fewest_left(max_router),
            stats: peer_ni.stats,
            advertised_up: peer_ni.status_up,
            last_alive: peer_ni.last_alive,
            health: health_view(peer_ni.health, &peer_ni.recovery, peer_ni.priority),
            net_priority: self.effective_of_peer_net(peer_ni),
            health_stats: peer_ni.health_stats,
            latency: peer_ni.latency.as_deref().copied().unwrap_or_default(),
        }
    }

    /// The local NIDs that the rules prefer for a peer NI, best first.
    #[must_use]
    pub fn preferred_sources(&self, peer_ni: Nid) -> &[Preferred] {
        let list = self
            .peers
            .by_nid(peer_ni)
            .and_then(|peer_ni| self.policies.list(peer_ni.sources));
        list.map_or(&[], PreferredList::entries)
    }

    /// The gateways that the rules prefer on the way to a peer NI, by primary NID.
    #[must_use]
    pub fn preferred_gateways(&self, peer_ni: Nid) -> &[Preferred] {
        let list = self
            .peers
            .by_nid(peer_ni)
            .and_then(|peer_ni| peer_ni.gateways.as_ref());
        list.map_or(&[], PreferredList::entries)
    }

    /// The node's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The router buffer pools: tiny, small, large.
    #[must_use]
    pub fn router_pools(&self) -> [RouterPoolView; 3] {
        RouterPool::ALL.map(|pool| {
            let state = self.pools.get(pool);
            RouterPoolView {
                pool,
                buffers: state.total(),
                credits: state.credits_left(),
                min_credits: state.fewest_credits_left(),
            }
        })
    }

    /// How far the discovery of the peer with this NID is; `None` for a peer that this node has never tried to discover.
    #[must_use]
    pub fn discovery(&self, nid: Nid) -> Option<DiscoveryView> {
        let peer_ni = self.peers.by_nid(self.peers.primary_of(nid))?;
        Some(peer_ni.discovery.as_ref()?.view())
    }

    /// True when no message is under way but our own pings of gateways and for recovery: a clean shutdown waits for it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.rx.is_empty() && self.tx.iter().all(|(_, tx)| self.is_check(tx))
    }

    fn is_check(&self, tx: &Tx) -> bool {
        let Work::Operation(event) = &tx.work else {
            return false;
        };
        self.mds
            .get(event.md)
            .is_some_and(|md| md.owner.is_started_here())
    }
}

/// Interfaces of one net together; the nets in the order of the first of each.
fn by_net(mut nis: Vec<PeerNiView>) -> Vec<PeerNiView> {
    if nis.len() > 2 {
        let mut first = BTreeMap::new();
        for (at, ni) in nis.iter().enumerate() {
            first.entry(ni.nid.net()).or_insert(at);
        }
        nis.sort_by_key(|ni| first.get(&ni.nid.net()).copied());
    }
    nis
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
