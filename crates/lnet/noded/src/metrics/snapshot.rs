//! A copy of all counters, made without a long hold of the node's lock.

use std::time::Instant;

use lnet_core::{Census, Counters, NiId, NiView, PeerNiView, Recorded, RouteView, RouterPoolView};
use lnet_node::{Engine, Node};
use lnet_tcp::SocklndStats;

use super::MetricsOptions;
use super::family::Series;
use super::o2ib::O2ibNumbers;
use super::peers::{PeerNis, Walk};

/// The state that a scrape shows. Its parts are copied at slightly different moments.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// One series: the node as a whole.
    pub(super) node: Vec<Series<NodeNumbers>>,
    /// One series if the node has the o2ib LND.
    pub(super) o2ib: Vec<Series<O2ibNumbers>>,
    pub(super) pools: Vec<Series<RouterPoolView>>,
    pub(super) nis: Vec<Series<NiView>>,
    pub(super) routes: Vec<Series<RouteView>>,
    pub(super) peer_nis: Vec<Series<PeerNiView>>,
}

/// The counters of the node as a whole.
#[derive(Debug)]
pub(super) struct NodeNumbers {
    pub(super) counters: Counters,
    pub(super) census: Census,
    pub(super) socklnd: SocklndStats,
    pub(super) events_lost: u64,
    /// Zeros while there is no record.
    pub(super) recorded: Recorded,
    pub(super) router_buffer_bytes: u64,
    pub(super) routes: u64,
    pub(super) routes_up: u64,
    pub(super) peer_nis: u64,
}

/// The part that is copied under the first lock.
struct Copied {
    node: NodeNumbers,
    o2ib: Option<O2ibNumbers>,
    pools: [RouterPoolView; 3],
    nis: Vec<NiView>,
    routes: Vec<RouteView>,
}

impl Snapshot {
    /// Copies all counters of `node`. Of the peers beyond the limit, reads only those whose turn it is.
    pub(super) fn of(node: &Node, options: &MetricsOptions, walk: &mut Walk, now: Instant) -> Self {
        let copied = node.look(|engine| Copied::of(engine, options.routes_max));
        copied.with(PeerNis::of(node, options.peer_nis_max, walk, now))
    }
}

impl Copied {
    fn of(engine: &Engine, routes_max: usize) -> Self {
        let core = engine.core();
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
                socklnd: engine.socklnd_stats().clone(),
                events_lost: engine.events_lost(),
                recorded: core.recorded().unwrap_or_default(),
                router_buffer_bytes: engine.router_buffer_bytes(),
                routes,
                routes_up: up,
                peer_nis: 0,
            },
            o2ib: O2ibNumbers::of(engine),
            pools: core.router_pools(),
            nis: core.nis().filter(|ni| ni.id != NiId::LOOPBACK).collect(),
            routes: shown,
        }
    }

    fn with(self, peer_nis: PeerNis) -> Snapshot {
        let node = NodeNumbers {
            peer_nis: peer_nis.count,
            ..self.node
        };
        Snapshot {
            node: vec![series([], node)],
            o2ib: self.o2ib.map(|o2ib| series([], o2ib)).into_iter().collect(),
            pools: self.pools.map(of_pool).into(),
            nis: self.nis.into_iter().map(of_ni).collect(),
            routes: self.routes.into_iter().map(of_route).collect(),
            peer_nis: peer_nis.series,
        }
    }
}

pub(super) fn series<V, const N: usize>(labels: [(&'static str, String); N], view: V) -> Series<V> {
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
