//! Makes the documents that show a node's state, as `lnetctl` prints them.
//!
//! Each function copies its values under the engine's lock; the text is made after the lock is released.

use std::collections::BTreeMap;

use lnet_config::{
    Buffers, CptPools, DerivedGlobals, Document, Globals, Latency, MessageStats, NetShow, NiHealth,
    NiShow, NodeStats, PARAMETERS, PeerCredits, PeerNiHealth, PeerNiShow, PeerShow, Pool, Reply,
    RouteShow, RouteType, Status, Traffic, Tunables, UdspEntry, UdspInfo,
};
use lnet_core::{
    Core, LatencyStats, MessageStatus, NiId, NiView, PeerCursor, PeerNiView, PeerState, PeerView,
    RouteView, RouterPoolView, TypeCounts,
};
use lnet_node::O2ibTuning;
use lnet_policy::{Effective, Preferred, Profile};
use lnet_types::{LndType, Net, Nid, Time};

use crate::managed::Configured;

/// Returns the local nets in the order of their creation, loopback first; only the net `only`, if given.
pub(super) fn nets(node: &Configured<'_>, only: Option<Net>) -> Document {
    let core = node.core();
    let mut nets: Vec<NetShow> = Vec::new();
    for view in core.nis() {
        let net = view.nid.net();
        if only.is_some_and(|only| only != net) {
            continue;
        }
        let ni = ni(node, &view);
        match nets.iter_mut().find(|known| known.net == net) {
            Some(known) => known.nis.push(ni),
            None => nets.push(NetShow { net, nis: vec![ni] }),
        }
    }
    Document {
        nets,
        ..Document::default()
    }
}

/// Adds the name of the system interface to interfaces that were given by a NID, as kernels show them. Not for a
/// document that is read back as a configuration: the name would give another NID.
pub(super) fn labelled(node: &Configured<'_>, mut document: Document) -> Document {
    for ni in document.nets.iter_mut().flat_map(|net| &mut net.nis) {
        if !ni.config.interfaces.is_empty() {
            continue;
        }
        let view = node
            .core()
            .nis()
            .find(|view| Some(view.nid) == ni.config.nid);
        let label = view.and_then(|view| node.kept.labels.get(&view.id));
        ni.config.interfaces.extend(label.cloned());
    }
    document
}

/// The routes to show: those that have all given properties.
#[derive(Clone, Copy, Default)]
pub(super) struct RouteFilter {
    pub(super) net: Option<Net>,
    pub(super) gateway: Option<Nid>,
    pub(super) hop: Option<u8>,
    pub(super) priority: Option<u32>,
}

impl RouteFilter {
    fn takes(&self, view: &RouteView) -> bool {
        let route = &view.route;
        self.net.is_none_or(|net| net == route.net)
            && self.gateway.is_none_or(|gateway| gateway == route.gateway)
            && self.hop.is_none_or(|hop| Some(hop) == route.hops)
            && self.priority.is_none_or(|value| value == route.priority)
    }
}

/// Returns the routes that the filter accepts.
pub(super) fn routes(core: &Core, filter: RouteFilter) -> Document {
    let sensitivity = core.globals().gateway_sensitivity;
    Document {
        routes: core
            .routes()
            .filter(|view| filter.takes(view))
            .map(|view| route(&view, sensitivity))
            .collect(),
        ..Document::default()
    }
}

/// Returns the peer that has this NID.
pub(super) fn peer_of(core: &Core, nid: Nid) -> Document {
    let found = core.peer_with(nid);
    Document {
        peers: found.iter().map(|view| peer(core, view)).collect(),
        ..Document::default()
    }
}

/// Returns a page of all peers, and where the next page begins.
pub(super) fn peer_page(
    core: &Core,
    from: PeerCursor,
    count: usize,
) -> (Document, Option<PeerCursor>) {
    let (page, next) = core.peer_page(from, count);
    let document = Document {
        peers: page.iter().map(|view| peer(core, view)).collect(),
        ..Document::default()
    };
    (document, next)
}

/// Returns the router buffers; nothing if the node is not a router. A router that stops is off already, and has buffers
/// until it has stopped.
pub(super) fn routing(core: &Core) -> Document {
    if !core.is_router() {
        return Document::default();
    }
    let [tiny, small, large] = core.router_pools();
    let pages = |view: RouterPoolView, pages| Pool {
        pages,
        buffers: view.buffers.into(),
        credits: view.credits,
        min_credits: view.min_credits,
    };
    Document {
        routing: Some(core.is_routing_on()),
        pools: vec![CptPools {
            cpt: 0,
            tiny: pages(tiny, 0),
            small: pages(small, 1),
            large: pages(large, PAGES_OF_LARGE),
        }],
        buffers: buffers(core),
        ..Document::default()
    }
}

/// Returns the node-wide parameters. Those that `lnetctl` does not print are shown only if they differ from every
/// kernel's values.
pub(super) fn globals(node: &Configured<'_>) -> Document {
    let (own, kept) = (node.core().globals(), node.kept.globals);
    let usual = lnet_core::Globals::default();
    let mut globals = Globals {
        profile: (own.profile != usual.profile).then_some(own.profile),
        ..Globals::default()
    };
    for parameter in PARAMETERS {
        let of_core = own.number(parameter.name);
        let is_usual = of_core.is_some() && of_core == usual.number(parameter.name);
        let value = of_core.or_else(|| kept.number(parameter.name));
        if let Some(value) = value.filter(|_| parameter.is_printed || !is_usual) {
            parameter.set(&mut globals, value);
        }
    }
    let lnd_timeout = own.lnd_timeout().as_secs();
    Document {
        globals,
        derived: DerivedGlobals {
            recovery_interval: Some(1),
            lnd_timeout: u32::try_from(lnd_timeout).ok(),
        },
        ..Document::default()
    }
}

/// Returns the selection rules; only the rule at `idx`, if given.
pub(super) fn rules(core: &Core, idx: Option<u32>) -> Document {
    let mut udsp = UdspEntry::list(core.rules());
    udsp.retain(|entry| idx.is_none() || entry.idx == idx);
    Document {
        udsp,
        ..Document::default()
    }
}

/// Returns the node's counters.
pub(super) fn statistics(core: &Core) -> Document {
    let counters = core.counters();
    let ended = |status| counters.ended(status);
    let statistics = NodeStats {
        msgs_alloc: counters.msgs_alloc,
        msgs_max: counters.msgs_max,
        rst_alloc: counters.rst_alloc,
        errors: counters.errors,
        send_count: counters.send_count,
        resend_count: counters.resend_count,
        response_timeout_count: counters.response_timeout_count,
        local_interrupt_count: ended(MessageStatus::LocalInterrupt),
        local_dropped_count: ended(MessageStatus::LocalDropped),
        local_aborted_count: ended(MessageStatus::LocalAborted),
        local_no_route_count: ended(MessageStatus::LocalNoRoute),
        local_timeout_count: ended(MessageStatus::LocalTimeout),
        local_error_count: ended(MessageStatus::LocalError),
        remote_dropped_count: ended(MessageStatus::RemoteDropped),
        remote_error_count: ended(MessageStatus::RemoteError),
        remote_timeout_count: ended(MessageStatus::RemoteTimeout),
        network_timeout_count: ended(MessageStatus::NetworkTimeout),
        failed_resends: Some(counters.failed_resends),
        successful_resends: Some(counters.successful_resends),
        recv_count: counters.recv_count,
        route_count: counters.route_count,
        drop_count: counters.drop_count,
        send_length: counters.send_length,
        recv_length: counters.recv_length,
        route_length: counters.route_length,
        drop_length: counters.drop_length,
    };
    Document {
        statistics: Some(statistics),
        ..Document::default()
    }
}

/// Returns the local interfaces in recovery.
pub(super) fn local_recovery(core: &Core) -> Document {
    let ill = core.nis().filter(|ni| ni.health.in_recovery);
    reply(Reply::LocalRecovery(ill.map(|ni| ni.nid).collect()))
}

/// Returns the interfaces in recovery of a page of peers.
pub(super) fn peer_recovery(page: &[PeerView]) -> Vec<Nid> {
    let peer_nis = page.iter().flat_map(|peer| &peer.nis);
    let ill = peer_nis.filter(|peer_ni| peer_ni.health.in_recovery);
    ill.map(|peer_ni| peer_ni.nid).collect()
}

/// Returns the primary NIDs of a page of peers.
pub(super) fn peer_list(page: Document) -> Document {
    let primaries = page.peers.iter().map(|peer| peer.primary);
    reply(Reply::PeerList(primaries.collect()))
}

/// Returns the document from which an import would make a node like this one, without peers and rules.
pub(super) fn without_peers(node: &Configured<'_>) -> Document {
    let core = node.core();
    Document {
        nets: nets(node, None).nets,
        routes: routes(core, RouteFilter::default()).routes,
        routing: Some(core.is_routing_on()),
        buffers: buffers(core),
        globals: globals(node).globals,
        ..Document::default()
    }
}

/// The number of pages of a buffer of 1 MiB.
const PAGES_OF_LARGE: u64 = 256;

fn reply(reply: Reply) -> Document {
    Document {
        replies: vec![reply],
        ..Document::default()
    }
}

fn buffers(core: &Core) -> Buffers {
    let [tiny, small, large] = core.router_pools().map(|view| Some(view.buffers));
    Buffers { tiny, small, large }
}

fn ni(node: &Configured<'_>, view: &NiView) -> NiShow {
    let loopback = view.id == NiId::LOOPBACK;
    let kept = node.kept.interfaces.get(&view.id);
    let mut config = kept.cloned().unwrap_or_default();
    config.nid = Some(view.nid);
    config.tunables = Tunables {
        peer_timeout: u32::try_from(view.tunables.peer_timeout.as_secs()).ok(),
        peer_credits: Some(view.tunables.peer_credits),
        peer_buffer_credits: Some(view.tunables.peer_buffer_credits),
        credits: Some(view.tunables.credits),
    };
    if config.cpts.is_empty() {
        config.cpts.push(0);
    }
    if loopback {
        // Loopback cannot become silent.
        config.tunables.peer_timeout = Some(0);
    } else {
        let lnd = &mut config.lnd_tunables;
        // 0 means that the LND chooses, and this LND chooses 1.
        lnd.conns_per_peer = Some(lnd.conns_per_peer.unwrap_or(1).max(1));
        lnd.timeout = u32::try_from(view.lnd_timeout.as_secs()).ok();
        if view.nid.net().lnd == LndType::O2IB {
            o2ib_tunables(&mut lnd.other, view.tunables.peer_credits);
        }
    }
    NiShow {
        config,
        status: Some(up_or_down(view.up)),
        statistics: Some(traffic(&view.stats, latencies(node.core(), &view.latency))),
        udsp: Some(udsp(view.net_priority, view.health.priority)),
        sent: Some(messages(view.stats.sent)),
        received: Some(messages(view.stats.received)),
        dropped: Some(messages(view.stats.dropped)),
        health: Some(ni_health(view, loopback)),
        dev_cpt: Some(if loopback { 0 } else { -1 }),
    }
}

/// Adds the settings of the o2ib LND that the configuration does not give.
fn o2ib_tunables(other: &mut BTreeMap<String, String>, peer_credits: u32) {
    let defaults = [
        ("peercredits_hiw", peer_credits.div_ceil(2)),
        ("map_on_demand", 1),
        ("concurrent_sends", peer_credits),
        ("fmr_pool_size", 512),
        ("fmr_flush_trigger", 384),
        ("fmr_cache", 1),
        ("ntx", 512),
    ];
    for (key, default) in defaults {
        let shown = other.entry(key.to_owned()).or_default();
        if shown.is_empty() || shown == "-1" {
            *shown = default.to_string();
        }
    }
    if let Some(mark) = other.get_mut("peercredits_hiw") {
        let tuning = O2ibTuning {
            peer_credits: u8::try_from(peer_credits).unwrap_or(u8::MAX),
            peer_credits_hiw: mark.parse().unwrap_or(u8::MAX),
            ..O2ibTuning::default()
        };
        // The mark in force, which the LND keeps within its limits.
        *mark = tuning.high_water(tuning.depth()).to_string();
    }
}

fn ni_health(view: &NiView, loopback: bool) -> NiHealth {
    let failed = view.health_stats;
    NiHealth {
        fatal_error: view.fatal.into(),
        // Loopback has no health.
        health_value: if loopback {
            0
        } else {
            view.health.health.value().into()
        },
        interrupts: failed.interrupts,
        dropped: failed.dropped,
        aborted: failed.aborted,
        no_route: failed.no_route,
        timeouts: failed.timeouts,
        error: failed.error,
        ping_count: view.health.ping_count.into(),
        next_ping: uptime(view.health.last_planned),
    }
}

fn peer(core: &Core, view: &PeerView) -> PeerShow {
    let watched = view.gateway || core.is_router();
    PeerShow {
        primary: view.primary,
        multi_rail: view.multi_rail,
        state: Some(peer_state(core, view).bits().into()),
        nis: view
            .nis
            .iter()
            .map(|peer_ni| self::peer_ni(core, peer_ni, watched))
            .collect(),
    }
}

/// Returns the bits of a peer's state.
// [PEER-20]
pub(super) fn peer_state(core: &Core, view: &PeerView) -> PeerState {
    let mut state = core
        .discovery(view.primary)
        .map_or(PeerState::empty(), |discovery| discovery.state);
    state.set(PeerState::MULTI_RAIL, view.multi_rail);
    state.set(PeerState::CONFIGURED, view.configured);
    state.set(PeerState::LOCK_PRIMARY, view.locked);
    state
}

fn peer_ni(core: &Core, view: &PeerNiView, watched: bool) -> PeerNiShow {
    let failed = view.health_stats;
    let local = view.max_tx_credits > 0;
    PeerNiShow {
        nid: view.nid,
        udsp: Some(UdspInfo {
            gateways: nids(core.preferred_gateways(view.nid)),
            sources: nids(core.preferred_sources(view.nid)),
            ..udsp(view.net_priority, view.health.priority)
        }),
        state: Some(if watched {
            up_or_down(view.up && view.advertised_up)
        } else {
            Status::NotWatched
        }),
        credits: Some(PeerCredits {
            max_tx: view.max_tx_credits.into(),
            available_tx: view.tx_credits,
            min_tx: view.min_tx_credits,
            tx_queued: view.queued_bytes,
            available_router: view.router_credits,
            min_router: view.min_router_credits,
            refcount: if local { 1 } else { 2 },
        }),
        statistics: Some(traffic(&view.stats, latencies(core, &view.latency))),
        sent: Some(messages(view.stats.sent)),
        received: Some(messages(view.stats.received)),
        dropped: Some(messages(view.stats.dropped)),
        health: Some(PeerNiHealth {
            health_value: view.health.health.value().into(),
            dropped: failed.dropped,
            timeout: failed.timeout,
            error: failed.error,
            network_timeout: failed.network_timeout,
            ping_count: view.health.ping_count.into(),
            next_ping: uptime(view.health.last_planned),
        }),
    }
}

fn route(view: &RouteView, sensitivity: u16) -> RouteShow {
    RouteShow {
        net: view.route.net,
        gateway: view.route.gateway,
        hop: view.route.hops,
        priority: Some(view.route.priority),
        health_sensitivity: Some(sensitivity.into()),
        state: Some(up_or_down(view.alive)),
        kind: Some(if view.single_hop {
            RouteType::SingleHop
        } else {
            RouteType::MultiHop
        }),
    }
}

fn udsp(net: Effective, nid: Effective) -> UdspInfo {
    let value = |effective: Effective| {
        let priority = effective.priority;
        (!priority.is_none()).then(|| priority.value())
    };
    UdspInfo {
        net_priority: value(net),
        nid_priority: value(nid),
        ..UdspInfo::default()
    }
}

fn nids(preferred: &[Preferred]) -> Vec<Nid> {
    preferred.iter().map(|preferred| preferred.nid).collect()
}

/// Returns the traffic, with latencies if they are given.
fn traffic(stats: &lnet_core::MessageStats, latencies: Option<&LatencyStats>) -> Traffic {
    let latency = |of: fn(&LatencyStats) -> &lnet_core::Latency| {
        latencies.map_or_else(Latency::default, |all| latency(of(all)))
    };
    Traffic {
        send_count: stats.sent.total(),
        recv_count: stats.received.total(),
        drop_count: stats.dropped.total(),
        put_egress: latency(|all| &all.put_egress),
        get_rtt: latency(|all| &all.get_rtt),
        put_ack: latency(|all| &all.put_ack),
    }
}

/// Returns the latencies, unless the profile is that of kernels up to 2.16, which print none.
fn latencies<'a>(core: &Core, of: &'a LatencyStats) -> Option<&'a LatencyStats> {
    (core.globals().profile != Profile::Lustre).then_some(of)
}

fn latency(of: &lnet_core::Latency) -> Latency {
    Latency {
        samples: Some(of.samples),
        min_nsec: Some(of.min),
        max_nsec: Some(of.max),
        avg_nsec: Some(of.average()),
    }
}

fn messages(counts: TypeCounts) -> MessageStats {
    MessageStats {
        put: counts.put,
        get: counts.get,
        reply: counts.reply,
        ack: counts.ack,
        hello: 0,
    }
}

const fn up_or_down(up: bool) -> Status {
    if up { Status::Up } else { Status::Down }
}

/// Returns seconds since the node started; 0 if there is no such time.
fn uptime(at: Option<Time>) -> u64 {
    at.map_or(0, |at| at.as_nanos() / 1_000_000_000)
}
