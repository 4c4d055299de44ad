//! Sends the node's counters in pages, for `finerail top`.
//!
//! The lock is held for one page at a time, and not while text is made.

use std::io;
use std::time::Duration;

use lnet_core::{
    Core, MessageStats, MessageStatus, NiId, NiView, PeerCursor, PeerNiView, PeerView, RouteView,
};
use lnet_dlc::protocol::{
    Condition, ConnectionNumbers, NiNumbers, NodeNumbers, Part, PeerNiNumbers, PoolNumbers, Reply,
    RouteNumbers, RoutingChange, ServiceNumber, Traffic,
};
use lnet_node::{ConnectionView, Engine};
use lnet_types::{Nid, Time};

use super::connection::Pieces;
use crate::managed::ManagedNode;
use crate::metrics::ServiceMetric;

/// Peers that are read under one lock, which takes some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// Connections that are read under one lock; each takes two system calls, all some 100 µs.
const CONNECTIONS_PER_PAGE: usize = 256;

/// Interfaces of peers in one piece.
const PEER_NIS_PER_PIECE: usize = 4096;

/// Routes in one piece; some 200 bytes each.
const ROUTES_PER_PIECE: usize = 4096;

/// Sends the counters of the node, its interfaces, its routes and its peers.
pub(super) fn tell(node: &ManagedNode, send: Pieces<'_>) -> io::Result<Reply> {
    let (whole, nis, routes, o2ib) = node.node().with_engine(|engine, now| {
        let core = engine.core();
        let nis: Vec<NiView> = core.nis().filter(|ni| ni.id != NiId::LOOPBACK).collect();
        let routes: Vec<RouteView> = core.routes().collect();
        (
            whole(engine, now),
            nis,
            routes,
            super::o2ib::numbers(engine),
        )
    });
    send(piece(&Part::Node(Box::new(whole)))?)?;
    send(piece(&Part::Nis(nis.iter().map(of_ni).collect()))?)?;
    for page in routes.chunks(ROUTES_PER_PIECE) {
        send(piece(&Part::Routes(page.iter().map(of_route).collect()))?)?;
    }
    if let Some(metrics) = node.service() {
        send(piece(&Part::Service(
            metrics.iter().map(of_metric).collect(),
        ))?)?;
    }
    if let Some(o2ib) = o2ib {
        send(piece(&Part::O2ib(o2ib))?)?;
    }
    peers(node, send)?;
    Ok(Reply::Done)
}

fn of_metric(metric: &ServiceMetric) -> ServiceNumber {
    ServiceNumber {
        name: metric.name.to_owned(),
        value: metric.value,
        is_counter: metric.is_counter,
    }
}

fn peers(node: &ManagedNode, send: Pieces<'_>) -> io::Result<()> {
    let mut told = Vec::new();
    let mut from = Some(PeerCursor::START);
    while let Some(cursor) = from {
        let (page, next) = node.with_core(|core, _| core.peer_page(cursor, PEERS_PER_PAGE));
        told.extend(page.iter().flat_map(of_peer));
        from = next;
        if told.len() >= PEER_NIS_PER_PIECE || from.is_none() {
            send(piece(&Part::PeerNis(std::mem::take(&mut told)))?)?;
        }
    }
    Ok(())
}

/// Sends the connections of the socket LND.
pub(super) fn connections(node: &ManagedNode, send: Pieces<'_>) -> io::Result<Reply> {
    let mut told = 0;
    loop {
        let page: Vec<ConnectionNumbers> = node.node().with_engine(|engine, _| {
            let nid = |id: NiId| engine.core().nis().find(|ni| ni.id == id).map(|ni| ni.nid);
            let page = engine.connections().skip(told).take(CONNECTIONS_PER_PAGE);
            page.map(|open| of_connection(&open, nid(open.ni)))
                .collect()
        });
        if page.is_empty() {
            return Ok(Reply::Done);
        }
        told += page.len();
        send(piece(&Part::Connections(page))?)?;
    }
}

fn of_connection(open: &ConnectionView, ni: Option<Nid>) -> ConnectionNumbers {
    ConnectionNumbers {
        ni: ni.map(|nid| nid.to_string()).unwrap_or_default(),
        peer: open.peer.nid.to_string(),
        pid: open.peer.pid,
        ctype: open.ctype.0,
        local: open.local.to_string(),
        remote: open.remote.to_string(),
        dialled: open.dialled,
        send_buffer: open.send_buffer as u64,
        receive_buffer: open.receive_buffer as u64,
        queued_bytes: open.queued_bytes,
    }
}

fn piece(part: &Part) -> io::Result<Reply> {
    Ok(Reply::Text(part.to_text()?))
}

fn whole(engine: &Engine, now: Time) -> NodeNumbers {
    let core = engine.core();
    let counters = core.counters();
    let failed = MessageStatus::ALL
        .into_iter()
        .filter(|status| *status != MessageStatus::Ok);
    let nids = core.nis().filter(|ni| ni.id != NiId::LOOPBACK);
    NodeNumbers {
        uptime_nanos: nanos(now),
        nids: nids.map(|ni| ni.nid.to_string()).collect(),
        routing: core.is_router(),
        routing_change: routing_change(core, now),
        sent: counters.send_count,
        sent_bytes: counters.send_length,
        received: counters.recv_count,
        received_bytes: counters.recv_length,
        routed: counters.route_count,
        routed_bytes: counters.route_length,
        dropped: counters.drop_count,
        resends: counters.resend_count,
        resends_failed: counters.failed_resends,
        response_timeouts: counters.response_timeout_count,
        failures: failed.map(|status| counters.ended(status)).sum(),
        events_lost: engine.events_lost(),
        under_way: counters.msgs_alloc,
        resend_queue: core.census().resending as u64,
        connections: engine.socklnd_stats().connections_open,
        pools: core.router_pools().map(of_pool).into(),
    }
}

fn routing_change(core: &Core, now: Time) -> Option<RoutingChange> {
    let (soonest, latest) = core.routing_change_left(now)?;
    let nanos = |left: Duration| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    Some(RoutingChange {
        stops: !core.is_routing_on(),
        soonest_nanos: nanos(soonest),
        latest_nanos: nanos(latest),
    })
}

fn nanos(now: Time) -> u64 {
    let since = now.saturating_since(Time::ZERO).as_nanos();
    u64::try_from(since).unwrap_or(u64::MAX)
}

fn of_pool(pool: lnet_core::RouterPoolView) -> PoolNumbers {
    PoolNumbers {
        buffers: pool.buffers,
        credits: pool.credits,
        min_credits: pool.min_credits,
    }
}

fn of_ni(ni: &NiView) -> NiNumbers {
    let failed = &ni.health_stats;
    let failures = [
        failed.interrupts,
        failed.dropped,
        failed.aborted,
        failed.no_route,
        failed.timeouts,
        failed.error,
    ];
    let (get, put) = (&ni.histograms.get_rtt, &ni.histograms.put_ack);
    let both = get.ranges().zip(put.ranges());
    NiNumbers {
        nid: ni.nid.to_string(),
        condition: Condition {
            up: ni.up && !ni.fatal,
            health: ni.health.health.value(),
            recovering: ni.health.in_recovery,
            credits: ni.tx_credits,
            credits_max: ni.tunables.credits.into(),
        },
        traffic: traffic(&ni.stats, &failures),
        round_trips: both
            .map(|((bound, gets), (_, puts))| (bound.unwrap_or(0), gets + puts))
            .collect(),
    }
}

fn of_route(view: &RouteView) -> RouteNumbers {
    RouteNumbers {
        net: view.route.net.to_string(),
        gateway: view.route.gateway.to_string(),
        up: view.alive,
        hops: view.route.hops.map(u32::from),
        priority: view.route.priority,
        sent: view.stats.sent,
        sent_bytes: view.stats.sent_length,
        dropped: view.stats.dropped,
    }
}

fn of_peer(peer: &PeerView) -> impl Iterator<Item = PeerNiNumbers> + '_ {
    peer.nis.iter().map(|ni| of_peer_ni(peer.primary, ni))
}

fn of_peer_ni(primary: Nid, ni: &PeerNiView) -> PeerNiNumbers {
    let failed = &ni.health_stats;
    let failures = [
        failed.dropped,
        failed.timeout,
        failed.error,
        failed.network_timeout,
    ];
    PeerNiNumbers {
        nid: ni.nid.to_string(),
        primary: (ni.nid != primary).then(|| primary.to_string()),
        condition: Condition {
            up: ni.up,
            health: ni.health.health.value(),
            recovering: ni.health.in_recovery,
            credits: ni.tx_credits,
            credits_max: ni.max_tx_credits.into(),
        },
        traffic: traffic(&ni.stats, &failures),
        queued_bytes: ni.queued_bytes,
    }
}

fn traffic(stats: &MessageStats, failures: &[u64]) -> Traffic {
    Traffic {
        sent: stats.sent.total(),
        sent_bytes: stats.sent_length,
        received: stats.received.total(),
        received_bytes: stats.received_length,
        dropped: stats.dropped.total(),
        failures: failures.iter().sum(),
    }
}
