//! A copy of all that is counted, taken without holding the node for long.

use lnet_core::{
    Census, Counters, NiId, NiView, PeerCursor, PeerNiView, RouteView, RouterPoolView, TypeCounts,
};
use lnet_tcp::SocklndStats;

use super::MetricsOptions;
use super::family::Series;
use crate::engine::Engine;
use crate::node::Node;

/// What a scrape sees. The parts are of slightly different moments.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// One: the node as a whole.
    pub(super) node: Vec<Series<NodeNumbers>>,
    pub(super) pools: Vec<Series<RouterPoolView>>,
    pub(super) nis: Vec<Series<NiView>>,
    pub(super) routes: Vec<Series<RouteView>>,
    pub(super) peer_nis: Vec<Series<PeerNiView>>,
}

/// What the node counts as a whole.
#[derive(Debug)]
pub(super) struct NodeNumbers {
    pub(super) counters: Counters,
    pub(super) census: Census,
    pub(super) socklnd: SocklndStats,
    pub(super) events_lost: u64,
    pub(super) router_buffer_bytes: u64,
    pub(super) routes: u64,
    pub(super) routes_up: u64,
    pub(super) peer_nis: u64,
}

/// The label value of what has no series of its own.
pub(super) const OTHERS: &str = "others";

/// Peers that are looked at under one lock: some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// What is copied under the first lock.
struct Copied {
    node: NodeNumbers,
    pools: [RouterPoolView; 3],
    nis: Vec<NiView>,
    routes: Vec<RouteView>,
}

impl Snapshot {
    /// Looks at everything that `node` counts.
    pub(super) fn of(node: &Node, options: &MetricsOptions) -> Self {
        let copied = Copied::of(&node.shared.engine(), options.routes_max);
        let mut peer_nis = PeerNis::new(options.peer_nis_max);
        let mut from = Some(PeerCursor::START);
        while let Some(cursor) = from {
            let (page, next) = {
                let engine = node.shared.engine();
                engine.side.core.peer_page(cursor, PEERS_PER_PAGE)
            };
            page.iter()
                .flat_map(|peer| &peer.nis)
                .for_each(|peer_ni| peer_nis.add(peer_ni));
            from = next;
        }
        copied.with(peer_nis)
    }
}

impl Copied {
    fn of(engine: &Engine, routes_max: usize) -> Self {
        let core = &engine.side.core;
        let (mut routes, mut up) = (0, 0);
        let mut shown = Vec::new();
        for route in core.routes() {
            routes += 1;
            up += u64::from(route.alive);
            if shown.len() < routes_max {
                shown.push(route);
            }
        }
        Self {
            node: NodeNumbers {
                counters: core.counters().clone(),
                census: core.census(),
                socklnd: engine.lnd.stats().clone(),
                events_lost: engine.side.events_lost,
                router_buffer_bytes: engine.side.memory.router_bytes(),
                routes,
                routes_up: up,
                peer_nis: 0,
            },
            pools: core.router_pools(),
            nis: core.nis().filter(|ni| ni.id != NiId::LOOPBACK).collect(),
            routes: shown,
        }
    }

    fn with(self, peer_nis: PeerNis) -> Snapshot {
        let node = NodeNumbers {
            peer_nis: peer_nis.seen,
            ..self.node
        };
        Snapshot {
            node: vec![series([], node)],
            pools: self.pools.map(of_pool).into(),
            nis: self.nis.into_iter().map(of_ni).collect(),
            routes: self.routes.into_iter().map(of_route).collect(),
            peer_nis: peer_nis.into_series(),
        }
    }
}

/// Interfaces of peers: some by themselves, all others in one.
pub(super) struct PeerNis {
    max: usize,
    seen: u64,
    own: Vec<Series<PeerNiView>>,
    others: Option<PeerNiView>,
}

impl PeerNis {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            seen: 0,
            own: Vec::new(),
            others: None,
        }
    }

    pub(super) fn add(&mut self, peer_ni: &PeerNiView) {
        self.seen += 1;
        if self.own.len() < self.max {
            let label = ("peer", peer_ni.nid.to_string());
            self.own.push(series([label], *peer_ni));
            return;
        }
        match &mut self.others {
            Some(others) => merge(others, peer_ni),
            None => self.others = Some(*peer_ni),
        }
    }

    pub(super) fn into_series(self) -> Vec<Series<PeerNiView>> {
        let others = self
            .others
            .map(|view| series([("peer", OTHERS.to_owned())], view));
        self.own.into_iter().chain(others).collect()
    }
}

/// Takes another one in: counts and credits are summed, of health and of the fewest credits it is the
/// lowest that matters, and together they are up when all are.
fn merge(into: &mut PeerNiView, other: &PeerNiView) {
    into.up &= other.up;
    into.max_tx_credits = into.max_tx_credits.saturating_add(other.max_tx_credits);
    into.tx_credits = into.tx_credits.saturating_add(other.tx_credits);
    into.min_tx_credits = into.min_tx_credits.min(other.min_tx_credits);
    into.queued_bytes = into.queued_bytes.saturating_add(other.queued_bytes);
    into.router_credits = into.router_credits.saturating_add(other.router_credits);
    into.min_router_credits = into.min_router_credits.min(other.min_router_credits);
    add_types(&mut into.stats.sent, other.stats.sent);
    add_types(&mut into.stats.received, other.stats.received);
    add_types(&mut into.stats.dropped, other.stats.dropped);
    let (stats, more) = (&mut into.stats, &other.stats);
    stats.sent_length = stats.sent_length.saturating_add(more.sent_length);
    stats.received_length = stats.received_length.saturating_add(more.received_length);
    into.health.health = into.health.health.min(other.health.health);
    into.health.in_recovery |= other.health.in_recovery;
    let (failed, more) = (&mut into.health_stats, &other.health_stats);
    failed.dropped = failed.dropped.saturating_add(more.dropped);
    failed.timeout = failed.timeout.saturating_add(more.timeout);
    failed.error = failed.error.saturating_add(more.error);
    failed.network_timeout = failed.network_timeout.saturating_add(more.network_timeout);
    into.latency.merge(&other.latency);
}

fn add_types(into: &mut TypeCounts, other: TypeCounts) {
    into.put = into.put.saturating_add(other.put);
    into.get = into.get.saturating_add(other.get);
    into.reply = into.reply.saturating_add(other.reply);
    into.ack = into.ack.saturating_add(other.ack);
}

fn series<V, const N: usize>(labels: [(&'static str, String); N], view: V) -> Series<V> {
    Series {
        labels: labels.into(),
        view,
    }
}

fn of_ni(view: NiView) -> Series<NiView> {
    series([("nid", view.nid.to_string())], view)
}

fn of_route(view: RouteView) -> Series<RouteView> {
    let route = view.route;
    let labels = [
        ("net", route.net.to_string()),
        ("gateway", route.gateway.to_string()),
    ];
    series(labels, view)
}

fn of_pool(view: RouterPoolView) -> Series<RouterPoolView> {
    let name = format!("{:?}", view.pool).to_ascii_lowercase();
    series([("pool", name)], view)
}
