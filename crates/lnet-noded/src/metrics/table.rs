//! Every metric: its name without prefix, unit and `_total`, its meaning, and where its value is read.

use std::borrow::Cow;
use std::fmt::Debug;

use lnet_core::{
    DropReason, Latency, LatencyHistogram, LatencyStats, MessageStatus, NiView, PeerNiView,
    RouteView, RouterPoolView, TypeCounts,
};
use lnet_node::reason_name;
use lnet_tcp::Counts;

use super::family::{Family, Named, Quantity, Spread, Spreads, seconds};
use super::snapshot::NodeNumbers;

type Node = Family<NodeNumbers>;
type Ni = Family<NiView>;
type PeerNi = Family<PeerNiView>;
type Route = Family<RouteView>;
type Pool = Family<RouterPoolView>;

/// Metrics of the node as a whole.
pub(super) const NODE: &[Node] = &[
    Node::count(
        "sent_messages",
        "Messages sent, forwarded ones included.",
        |node| node.counters.send_count,
    ),
    Node::count("sent", "Payload sent.", |node| node.counters.send_length).in_unit(Quantity::Bytes),
    Node::count(
        "received_messages",
        "Messages received for this node.",
        |node| node.counters.recv_count,
    ),
    Node::count("received", "Payload received for this node.", |node| {
        node.counters.recv_length
    })
    .in_unit(Quantity::Bytes),
    Node::count("routed_messages", "Messages forwarded.", |node| {
        node.counters.route_count
    }),
    Node::count("routed", "Payload forwarded.", |node| {
        node.counters.route_length
    })
    .in_unit(Quantity::Bytes),
    Node::counts(
        "dropped_messages",
        "Messages dropped, by reason.",
        "reason",
        drops,
    ),
    Node::count("dropped", "Payload of dropped messages.", |node| {
        node.counters.drop_length
    })
    .in_unit(Quantity::Bytes),
    Node::counts(
        "send_failures",
        "Attempts to send that failed, by class; the class decides about health and resends.",
        "class",
        failures,
    ),
    Node::count(
        "errors",
        "Messages whose sending or receiving failed.",
        |node| node.counters.errors,
    ),
    Node::counts(
        "resends",
        "Messages sent again, each time, by the class of the failure before.",
        "class",
        resends,
    ),
    Node::count(
        "resends_succeeded",
        "Messages that succeeded after they had been sent again.",
        |node| node.counters.successful_resends,
    ),
    Node::count(
        "resends_failed",
        "Messages sent as often as allowed, or without a path left.",
        |node| node.counters.failed_resends,
    ),
    Node::count(
        "response_timeouts",
        "ACKs and REPLYs that did not come in time.",
        |node| node.counters.response_timeout_count,
    ),
    Node::count(
        "late_failures",
        "Failures reported after the message's deadline.",
        |node| node.counters.late_count,
    ),
    Node::count("late_failures", "How late these were in all.", |node| {
        node.counters.late_nanoseconds
    })
    .in_unit(Quantity::Time),
    Node::count(
        "stale_answers",
        "Answers of the LND to messages that were not under way any more.",
        |node| node.counters.stale_answers,
    ),
    Node::count(
        "next_hop_waits",
        "Routed messages that waited because others for the same next hop held its share of the router buffers.",
        |node| node.counters.next_hop_waits,
    ),
    Node::count(
        "invariants_broken",
        "Errors of the node itself: something that its own tables name is not there. Report them.",
        |node| node.counters.invariants_broken + node.socklnd.invariants_broken,
    ),
    Node::count(
        "protocol_violations",
        "Messages refused because the peer broke the protocol.",
        |node| node.counters.refused,
    ),
    Node::count(
        "events_lost",
        "Events lost because a program did not take them from its queue.",
        |node| node.events_lost,
    ),
    Node::level(
        "recorded_events",
        "Events in the record of this node; 0 while nothing is recorded.",
        |node| level(node.recorded.events),
    ),
    Node::level(
        "recorded_bytes",
        "Bytes of the record of this node.",
        |node| level(node.recorded.bytes),
    ),
    Node::level(
        "unrecorded_events",
        "Events behind the end of the record, which is full or cannot be written.",
        |node| level(node.recorded.missing),
    ),
    Node::level(
        "messages_under_way",
        "Messages under way, in either direction.",
        |node| level(node.counters.msgs_alloc),
    ),
    Node::level(
        "messages_under_way_max",
        "The most messages that were under way at once.",
        |node| level(node.counters.msgs_max),
    ),
    Node::level(
        "responses_awaited",
        "ACKs and REPLYs that are waited for.",
        |node| level(node.counters.rst_alloc),
    ),
    Node::level("sending_messages", "Messages being sent.", |node| {
        size(node.census.sending)
    }),
    Node::level("receiving_messages", "Messages being received.", |node| {
        size(node.census.receiving)
    }),
    Node::level(
        "resend_queue_messages",
        "Messages that wait to be sent again.",
        |node| size(node.census.resending),
    ),
    Node::level(
        "router_buffers_allocated",
        "Memory of router buffers.",
        |node| level(node.router_buffer_bytes),
    )
    .in_unit(Quantity::Bytes),
    Node::level(
        "peer_nis",
        "Interfaces of peers that are known, with or without series of their own.",
        |node| level(node.peer_nis),
    ),
    Node::level(
        "routes",
        "Routes, with or without series of their own.",
        |node| level(node.routes),
    ),
    Node::level(
        "routes_up",
        "Routes along which messages may be sent.",
        |node| level(node.routes_up),
    ),
];

/// Metrics of the socket LND.
pub(super) const SOCKLND: &[Node] = &[
    Node::count("socklnd_received_frames", "Frames received.", |node| {
        node.socklnd.frames_in
    }),
    Node::count("socklnd_sent_frames", "Frames sent.", |node| {
        node.socklnd.frames_out
    }),
    Node::count("socklnd_received", "Read from connections.", |node| {
        node.socklnd.bytes_in
    })
    .in_unit(Quantity::Bytes),
    Node::count("socklnd_sent", "Written to connections.", |node| {
        node.socklnd.bytes_out
    })
    .in_unit(Quantity::Bytes),
    Node::count(
        "socklnd_reads",
        "System calls that read from connections.",
        |node| node.socklnd.reads,
    ),
    Node::count(
        "socklnd_writes",
        "System calls that write to connections.",
        |node| node.socklnd.writes,
    ),
    Node::count(
        "socklnd_piped_payload",
        "Payload of forwarded messages that was not copied in the router.",
        |node| node.socklnd.piped_payload_bytes,
    )
    .in_unit(Quantity::Bytes),
    Node::count(
        "socklnd_discarded_payload",
        "Payload read to be thrown away.",
        |node| node.socklnd.discarded_payload_bytes,
    )
    .in_unit(Quantity::Bytes),
    Node::level("socklnd_connections", "Connections open.", |node| {
        level(node.socklnd.connections_open)
    }),
    Node::level(
        "socklnd_handshakes",
        "Accepted connections whose handshake is under way.",
        |node| level(node.socklnd.handshakes_open),
    ),
    Node::count(
        "socklnd_accepted",
        "Connections that peers dialled.",
        |node| node.socklnd.accepted,
    ),
    Node::count(
        "socklnd_dialled",
        "Connections that this node dialled.",
        |node| node.socklnd.dialled,
    ),
    Node::count(
        "socklnd_accept_errors",
        "Connections not accepted for want of descriptors or memory.",
        |node| node.socklnd.accept_errors,
    ),
    Node::count(
        "socklnd_zc_acks",
        "Zero-copy acknowledgements sent.",
        |node| node.socklnd.zc_acks,
    ),
    Node::count("socklnd_sent_keepalives", "Keepalives sent.", |node| {
        node.socklnd.keepalives_out
    }),
    Node::count(
        "socklnd_received_keepalives",
        "Keepalives received.",
        |node| node.socklnd.keepalives_in,
    ),
    Node::counts(
        "socklnd_refused_connections",
        "Dialling peers refused, by reason; reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.refused),
    ),
    Node::counts(
        "socklnd_dial_failures",
        "Dials without a connection, by reason; reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.dial_failures),
    ),
    Node::counts(
        "socklnd_closed_connections",
        "Connections closed, by reason; reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.closed),
    ),
    Node::counts(
        "socklnd_unsent_messages",
        "Messages that the LND did not send, by reason; reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.unsent),
    ),
];

/// Metrics of each router buffer pool.
pub(super) const POOL: &[Pool] = &[
    Pool::level("router_pool_buffers", "Buffers of the pool.", |pool| {
        pool.buffers.into()
    }),
    Pool::level(
        "router_pool_credits",
        "Free buffers; negative by the number of messages that wait.",
        |pool| pool.credits,
    ),
    Pool::level(
        "router_pool_credits_min",
        "The fewest that there ever were.",
        |pool| pool.min_credits,
    ),
];

/// Metrics of each interface of this node except loopback.
pub(super) const NI: &[Ni] = &[
    Ni::level("ni_up", "1 when peers are told that it is up.", |ni| {
        ni.up.into()
    }),
    Ni::level(
        "ni_fatal",
        "1 when the LND says that it cannot be used, as without a link.",
        |ni| ni.fatal.into(),
    ),
    Ni::level("ni_health", "0 to 1000, which is full health.", |ni| {
        ni.health.health.value().into()
    }),
    Ni::level("ni_in_recovery", "1 while it is being recovered.", |ni| {
        ni.health.in_recovery.into()
    }),
    Ni::level(
        "ni_tx_credits_max",
        "Messages that may be with the LND at once.",
        |ni| ni.tunables.credits.into(),
    ),
    Ni::level(
        "ni_tx_credits",
        "Transmit credits left; negative by the number of messages that wait.",
        |ni| ni.tx_credits,
    ),
    Ni::level(
        "ni_tx_queue_messages",
        "Messages that wait for a transmit credit.",
        |ni| waiting(ni.tx_credits),
    ),
    Ni::counts(
        "ni_sent_messages",
        "Messages that left without error, by type.",
        "type",
        |ni| types(ni.stats.sent),
    ),
    Ni::counts(
        "ni_received_messages",
        "Messages that arrived, by type.",
        "type",
        |ni| types(ni.stats.received),
    ),
    Ni::count("ni_sent", "Payload of what left without error.", |ni| {
        ni.stats.sent_length
    })
    .in_unit(Quantity::Bytes),
    Ni::count("ni_received", "Payload of what arrived.", |ni| {
        ni.stats.received_length
    })
    .in_unit(Quantity::Bytes),
    Ni::counts(
        "ni_dropped_messages",
        "Messages dropped, by type.",
        "type",
        |ni| types(ni.stats.dropped),
    ),
    Ni::counts(
        "ni_failures",
        "Attempts that failed for which it is blamed, by class.",
        "class",
        ni_failures,
    ),
    Ni::spreads(
        "ni_latency",
        "How long its messages take: put_egress of a PUT until the LND is done, get_rtt of a GET until \
         its data is here, put_ack of a PUT until its ACK is here.",
        "kind",
        latencies,
    ),
    Ni::levels("ni_latency_min", "The shortest time.", "kind", |ni| {
        shortest(&ni.latency)
    })
    .in_unit(Quantity::Time),
    Ni::levels("ni_latency_max", "The longest time.", "kind", |ni| {
        longest(&ni.latency)
    })
    .in_unit(Quantity::Time),
];

/// Metrics of each route.
pub(super) const ROUTE: &[Route] = &[
    Route::level(
        "route_up",
        "1 when messages may be sent along it.",
        |route| route.alive.into(),
    ),
    Route::level(
        "route_hops",
        "Hops to the net; 0 when not configured.",
        |route| route.route.hops.unwrap_or(0).into(),
    ),
    Route::level("route_priority", "Lower is preferred.", |route| {
        route.route.priority.into()
    }),
    Route::level(
        "route_single_hop",
        "1 when the gateway has an interface on the remote net.",
        |route| route.single_hop.into(),
    ),
    Route::count(
        "route_sent_messages",
        "Messages that left for its gateway along it, forwarded ones included. Answers go back as their \
         requests came, and are counted by peer.",
        |route| route.stats.sent,
    ),
    Route::count("route_sent", "Their payload.", |route| {
        route.stats.sent_length
    })
    .in_unit(Quantity::Bytes),
    Route::count(
        "route_dropped_messages",
        "Attempts along it that failed, and messages given up while they waited; what was sent again \
         elsewhere counts, too.",
        |route| route.stats.dropped,
    ),
];

/// Metrics of each interface of a peer, and of `others`: the sum or the worst value of the rest.
pub(super) const PEER_NI: &[PeerNi] = &[
    PeerNi::level(
        "peer_ni_up",
        "1 unless it was reported down since it was last heard of.",
        |peer_ni| peer_ni.up.into(),
    ),
    PeerNi::level(
        "peer_ni_health",
        "0 to 1000, which is full health; the lowest of others.",
        |peer_ni| peer_ni.health.health.value().into(),
    ),
    PeerNi::level(
        "peer_ni_in_recovery",
        "1 while it is being recovered.",
        |peer_ni| peer_ni.health.in_recovery.into(),
    ),
    PeerNi::level(
        "peer_ni_tx_credits_max",
        "Messages to it that may be with the LND at once; 0 when its net is not local.",
        |peer_ni| peer_ni.max_tx_credits.into(),
    ),
    PeerNi::level(
        "peer_ni_tx_credits",
        "Transmit credits left; negative by the number of messages that wait.",
        |peer_ni| peer_ni.tx_credits,
    ),
    PeerNi::level(
        "peer_ni_tx_credits_min",
        "The fewest that there ever were.",
        |peer_ni| peer_ni.min_tx_credits,
    ),
    PeerNi::level(
        "peer_ni_tx_queue",
        "Queued for it and in flight to it.",
        |peer_ni| level(peer_ni.queued_bytes),
    )
    .in_unit(Quantity::Bytes),
    PeerNi::level(
        "peer_ni_router_credits",
        "Router buffers that messages from it may still hold; negative by those that wait.",
        |peer_ni| peer_ni.router_credits,
    ),
    PeerNi::level(
        "peer_ni_router_credits_min",
        "The fewest that there ever were.",
        |peer_ni| peer_ni.min_router_credits,
    ),
    PeerNi::count(
        "peer_ni_sent_messages",
        "Messages that left for it without error.",
        |peer_ni| peer_ni.stats.sent.total(),
    ),
    PeerNi::count(
        "peer_ni_received_messages",
        "Messages that arrived from it.",
        |peer_ni| peer_ni.stats.received.total(),
    ),
    PeerNi::count(
        "peer_ni_sent",
        "Payload of what left for it without error.",
        |peer_ni| peer_ni.stats.sent_length,
    )
    .in_unit(Quantity::Bytes),
    PeerNi::count(
        "peer_ni_received",
        "Payload of what arrived from it.",
        |peer_ni| peer_ni.stats.received_length,
    )
    .in_unit(Quantity::Bytes),
    PeerNi::count(
        "peer_ni_dropped_messages",
        "Messages from it that were dropped.",
        |peer_ni| peer_ni.stats.dropped.total(),
    ),
    PeerNi::counts(
        "peer_ni_failures",
        "Attempts that failed for which it is blamed, by class.",
        "class",
        peer_failures,
    ),
    PeerNi::counts("peer_ni_latency_samples", SAMPLES, "kind", |peer_ni| {
        samples(&peer_ni.latency)
    }),
    PeerNi::counts("peer_ni_latency", SUM, "kind", |peer_ni| {
        sums(&peer_ni.latency)
    })
    .in_unit(Quantity::Time),
    PeerNi::levels(
        "peer_ni_latency_max",
        "The longest time.",
        "kind",
        |peer_ni| longest(&peer_ni.latency),
    )
    .in_unit(Quantity::Time),
];

const SAMPLES: &str = "Times taken: put_egress of a PUT until the LND is done, get_rtt of a GET until its data is here, \
     put_ack of a PUT until its ACK is here.";

const SUM: &str =
    "Sum of the times taken; divide its increase by that of the samples for the mean.";

/// Converts a number; a number beyond the range is written as the largest one, but no number gets there.
fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn size(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the number of waiting messages: credits below zero count them.
fn waiting(credits: i64) -> i64 {
    credits.saturating_neg().max(0)
}

fn named<const N: usize>(values: [(&'static str, u64); N]) -> Named {
    values
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
}

fn reason(reason: impl Debug) -> Cow<'static, str> {
    reason_name(&reason).into()
}

fn drops(node: &NodeNumbers) -> Named {
    let drops = DropReason::ALL.into_iter();
    drops
        .map(|why| (reason(why), node.counters.dropped(why)))
        .collect()
}

fn failures(node: &NodeNumbers) -> Named {
    let failures = MessageStatus::ALL
        .into_iter()
        .filter(|status| *status != MessageStatus::Ok);
    failures
        .map(|status| (reason(status), node.counters.ended(status)))
        .collect()
}

fn resends(node: &NodeNumbers) -> Named {
    let classes = MessageStatus::ALL
        .into_iter()
        .filter(|status| *status != MessageStatus::Ok);
    classes
        .map(|status| (reason(status), node.counters.resent_after(status)))
        .collect()
}

fn occurred<K: Ord + Copy + Debug>(counts: &Counts<K>) -> Named {
    counts
        .iter()
        .map(|(why, count)| (reason(why), count))
        .collect()
}

fn types(counts: TypeCounts) -> Named {
    named([
        ("put", counts.put),
        ("get", counts.get),
        ("reply", counts.reply),
        ("ack", counts.ack),
    ])
}

fn ni_failures(ni: &NiView) -> Named {
    let failed = ni.health_stats;
    named([
        ("local_interrupt", failed.interrupts),
        ("local_dropped", failed.dropped),
        ("local_aborted", failed.aborted),
        ("local_no_route", failed.no_route),
        ("local_timeout", failed.timeouts),
        ("local_error", failed.error),
    ])
}

fn peer_failures(peer_ni: &PeerNiView) -> Named {
    let failed = peer_ni.health_stats;
    named([
        ("remote_dropped", failed.dropped),
        ("remote_timeout", failed.timeout),
        ("remote_error", failed.error),
        ("network_timeout", failed.network_timeout),
    ])
}

fn latencies(ni: &NiView) -> Spreads {
    let (times, spread) = (&ni.latency, &ni.histograms);
    vec![
        ("put_egress", of_kind(&times.put_egress, &spread.put_egress)),
        ("get_rtt", of_kind(&times.get_rtt, &spread.get_rtt)),
        ("put_ack", of_kind(&times.put_ack, &spread.put_ack)),
    ]
}

fn of_kind(times: &Latency, histogram: &LatencyHistogram) -> Spread {
    let bound = |bound: Option<u64>| bound.map_or(f64::INFINITY, seconds);
    let ranges = histogram.ranges();
    Spread {
        sum: times.sum(),
        count: times.samples,
        ranges: ranges.map(|(to, count)| (bound(to), count)).collect(),
    }
}

fn samples(latency: &LatencyStats) -> Named {
    by_kind(latency, |latency| latency.samples)
}

fn sums(latency: &LatencyStats) -> Named {
    by_kind(latency, Latency::sum)
}

fn shortest(latency: &LatencyStats) -> Named {
    by_kind(latency, |latency| latency.min)
}

fn longest(latency: &LatencyStats) -> Named {
    by_kind(latency, |latency| latency.max)
}

fn by_kind(latency: &LatencyStats, of: fn(&Latency) -> u64) -> Named {
    named([
        ("put_egress", of(&latency.put_egress)),
        ("get_rtt", of(&latency.get_rtt)),
        ("put_ack", of(&latency.put_ack)),
    ])
}
