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
        "Messages sent, including forwarded ones.",
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
        "Attempts to send that failed, by class; the class decides whether health is lowered and the message is resent.",
        "class",
        failures,
    ),
    Node::count(
        "errors",
        "Messages that failed to be sent or received.",
        |node| node.counters.errors,
    ),
    Node::counts(
        "resends",
        "Resends, by the class of the failure before the resend.",
        "class",
        resends,
    ),
    Node::count(
        "resends_succeeded",
        "Messages that succeeded after at least one resend.",
        |node| node.counters.successful_resends,
    ),
    Node::count(
        "resends_failed",
        "Messages that failed because no resend or no path was left.",
        |node| node.counters.failed_resends,
    ),
    Node::count(
        "response_timeouts",
        "ACKs and REPLYs that did not arrive in time.",
        |node| node.counters.response_timeout_count,
    ),
    Node::count(
        "late_failures",
        "Failures reported after the message's deadline.",
        |node| node.counters.late_count,
    ),
    Node::count(
        "late_failures",
        "Total time by which these failures were late.",
        |node| node.counters.late_nanoseconds,
    )
    .in_unit(Quantity::Time),
    Node::count(
        "stale_answers",
        "Completions that the LND reported for messages that were no longer in flight.",
        |node| node.counters.stale_answers,
    ),
    Node::count(
        "next_hop_waits",
        "Forwarded messages that waited because other messages for the same next hop used its share of the router buffers.",
        |node| node.counters.next_hop_waits,
    ),
    Node::count(
        "invariants_broken",
        "Internal errors: inconsistencies in the node's own tables. Please report them.",
        |node| node.counters.invariants_broken + node.socklnd.invariants_broken,
    ),
    Node::count(
        "protocol_violations",
        "Messages rejected because the peer violated the protocol.",
        |node| node.counters.refused,
    ),
    Node::count(
        "events_lost",
        "Events lost because a program did not read its event queue in time.",
        |node| node.events_lost,
    ),
    Node::level(
        "recorded_events",
        "Events in the record of this node; 0 without a record.",
        |node| level(node.recorded.events),
    ),
    Node::level(
        "recorded_bytes",
        "Bytes of the record of this node.",
        |node| level(node.recorded.bytes),
    ),
    Node::level(
        "unrecorded_events",
        "Events after the end of a record that is full or cannot be written.",
        |node| level(node.recorded.missing),
    ),
    Node::level(
        "messages_under_way",
        "Messages in flight, in both directions.",
        |node| level(node.counters.msgs_alloc),
    ),
    Node::level(
        "messages_under_way_max",
        "Highest number of messages in flight at the same time.",
        |node| level(node.counters.msgs_max),
    ),
    Node::level(
        "responses_awaited",
        "ACKs and REPLYs that are still expected.",
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
        "Messages that wait for a resend.",
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
        "Known interfaces of peers, with or without their own series.",
        |node| level(node.peer_nis),
    ),
    Node::level(
        "routes",
        "Routes, with or without their own series.",
        |node| level(node.routes),
    ),
    Node::level("routes_up", "Routes that can be used.", |node| {
        level(node.routes_up)
    }),
];

/// Metrics of the socket LND.
pub(super) const SOCKLND: &[Node] = &[
    Node::count("socklnd_received_frames", "Frames received.", |node| {
        node.socklnd.frames_in
    }),
    Node::count("socklnd_sent_frames", "Frames sent.", |node| {
        node.socklnd.frames_out
    }),
    Node::count("socklnd_received", "Bytes read from connections.", |node| {
        node.socklnd.bytes_in
    })
    .in_unit(Quantity::Bytes),
    Node::count("socklnd_sent", "Bytes written to connections.", |node| {
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
        "Payload of messages that the router forwarded without copying it.",
        |node| node.socklnd.piped_payload_bytes,
    )
    .in_unit(Quantity::Bytes),
    Node::count(
        "socklnd_discarded_payload",
        "Payload read only to be dropped.",
        |node| node.socklnd.discarded_payload_bytes,
    )
    .in_unit(Quantity::Bytes),
    Node::level("socklnd_connections", "Open connections.", |node| {
        level(node.socklnd.connections_open)
    }),
    Node::level(
        "socklnd_handshakes",
        "Accepted connections whose handshake is in progress.",
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
        "Connections not accepted because descriptors or memory were missing.",
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
        "Rejected connections of dialling peers, by reason; only reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.refused),
    ),
    Node::counts(
        "socklnd_dial_failures",
        "Failed dials, by reason; only reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.dial_failures),
    ),
    Node::counts(
        "socklnd_closed_connections",
        "Closed connections, by reason; only reasons that occurred.",
        "reason",
        |node| occurred(&node.socklnd.closed),
    ),
    Node::counts(
        "socklnd_unsent_messages",
        "Messages that the LND failed to send, by reason; only reasons that occurred.",
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
        "Free buffers; a negative value is the number of messages that wait.",
        |pool| pool.credits,
    ),
    Pool::level("router_pool_credits_min", "Lowest value so far.", |pool| {
        pool.min_credits
    }),
];

/// Metrics of each interface of this node except loopback.
pub(super) const NI: &[Ni] = &[
    Ni::level("ni_up", "1 if the interface counts as up.", |ni| {
        ni.up.into()
    }),
    Ni::level(
        "ni_fatal",
        "1 if the LND reports that the interface cannot be used, for example without a link.",
        |ni| ni.fatal.into(),
    ),
    Ni::level(
        "ni_health",
        "Health of the interface, 0 to 1000 (full health).",
        |ni| ni.health.health.value().into(),
    ),
    Ni::level(
        "ni_in_recovery",
        "1 while the interface is in recovery.",
        |ni| ni.health.in_recovery.into(),
    ),
    Ni::level(
        "ni_tx_credits_max",
        "Limit of messages in the LND at the same time.",
        |ni| ni.tunables.credits.into(),
    ),
    Ni::level(
        "ni_tx_credits",
        "Available transmit credits; a negative value is the number of messages that wait.",
        |ni| ni.tx_credits,
    ),
    Ni::level(
        "ni_tx_queue_messages",
        "Messages that wait for a transmit credit.",
        |ni| waiting(ni.tx_credits),
    ),
    Ni::counts(
        "ni_sent_messages",
        "Messages sent without error, by type.",
        "type",
        |ni| types(ni.stats.sent),
    ),
    Ni::counts(
        "ni_received_messages",
        "Messages received, by type.",
        "type",
        |ni| types(ni.stats.received),
    ),
    Ni::count("ni_sent", "Payload sent without error.", |ni| {
        ni.stats.sent_length
    })
    .in_unit(Quantity::Bytes),
    Ni::count("ni_received", "Payload received.", |ni| {
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
        "Failed attempts that count against the interface, by class.",
        "class",
        ni_failures,
    ),
    Ni::spreads(
        "ni_latency",
        "Latencies of messages: put_egress of a PUT until the LND has sent it, get_rtt of a GET until \
         its data arrived, put_ack of a PUT until its ACK arrived.",
        "kind",
        latencies,
    ),
    Ni::levels("ni_latency_min", "Shortest latency.", "kind", |ni| {
        shortest(&ni.latency)
    })
    .in_unit(Quantity::Time),
    Ni::levels("ni_latency_max", "Longest latency.", "kind", |ni| {
        longest(&ni.latency)
    })
    .in_unit(Quantity::Time),
];

/// Metrics of each route.
pub(super) const ROUTE: &[Route] = &[
    Route::level("route_up", "1 if the route can be used.", |route| {
        route.alive.into()
    }),
    Route::level(
        "route_hops",
        "Hops to the net; 0 if not configured.",
        |route| route.route.hops.unwrap_or(0).into(),
    ),
    Route::level(
        "route_priority",
        "Priority of the route; lower values are preferred.",
        |route| route.route.priority.into(),
    ),
    Route::level(
        "route_single_hop",
        "1 if the gateway has an interface on the remote net.",
        |route| route.single_hop.into(),
    ),
    Route::count(
        "route_sent_messages",
        "Messages sent to the gateway by this route, including forwarded ones. Responses take the path of their \
         requests back, and are counted by peer.",
        |route| route.stats.sent,
    ),
    Route::count("route_sent", "Payload of these messages.", |route| {
        route.stats.sent_length
    })
    .in_unit(Quantity::Bytes),
    Route::count(
        "route_dropped_messages",
        "Failed attempts by this route, and messages that expired while they waited; including messages that were \
         then resent by another path.",
        |route| route.stats.dropped,
    ),
];

/// Metrics of each interface of a peer, and of `others`: the sum or the worst value of the rest.
pub(super) const PEER_NI: &[PeerNi] = &[
    PeerNi::level(
        "peer_ni_up",
        "1 unless the interface was reported down after its last message.",
        |peer_ni| peer_ni.up.into(),
    ),
    PeerNi::level(
        "peer_ni_health",
        "Health of the peer interface, 0 to 1000 (full health); for others the lowest.",
        |peer_ni| peer_ni.health.health.value().into(),
    ),
    PeerNi::level(
        "peer_ni_in_recovery",
        "1 while the peer interface is in recovery.",
        |peer_ni| peer_ni.health.in_recovery.into(),
    ),
    PeerNi::level(
        "peer_ni_tx_credits_max",
        "Limit of messages to the peer interface in the LND at the same time; 0 if its net is not local.",
        |peer_ni| peer_ni.max_tx_credits.into(),
    ),
    PeerNi::level(
        "peer_ni_tx_credits",
        "Available transmit credits; a negative value is the number of messages that wait.",
        |peer_ni| peer_ni.tx_credits,
    ),
    PeerNi::level(
        "peer_ni_tx_credits_min",
        "Lowest value so far.",
        |peer_ni| peer_ni.min_tx_credits,
    ),
    PeerNi::level(
        "peer_ni_tx_queue",
        "Bytes queued for the peer interface and in flight to it.",
        |peer_ni| level(peer_ni.queued_bytes),
    )
    .in_unit(Quantity::Bytes),
    PeerNi::level(
        "peer_ni_router_credits",
        "Router buffers still available for messages from the peer interface; a negative value is the number of messages \
         that wait.",
        |peer_ni| peer_ni.router_credits,
    ),
    PeerNi::level(
        "peer_ni_router_credits_min",
        "Lowest value so far.",
        |peer_ni| peer_ni.min_router_credits,
    ),
    PeerNi::count(
        "peer_ni_sent_messages",
        "Messages sent to the peer interface without error.",
        |peer_ni| peer_ni.stats.sent.total(),
    ),
    PeerNi::count(
        "peer_ni_received_messages",
        "Messages received from the peer interface.",
        |peer_ni| peer_ni.stats.received.total(),
    ),
    PeerNi::count(
        "peer_ni_sent",
        "Payload sent to the peer interface without error.",
        |peer_ni| peer_ni.stats.sent_length,
    )
    .in_unit(Quantity::Bytes),
    PeerNi::count(
        "peer_ni_received",
        "Payload received from the peer interface.",
        |peer_ni| peer_ni.stats.received_length,
    )
    .in_unit(Quantity::Bytes),
    PeerNi::count(
        "peer_ni_dropped_messages",
        "Messages from the peer interface that were dropped.",
        |peer_ni| peer_ni.stats.dropped.total(),
    ),
    PeerNi::counts(
        "peer_ni_failures",
        "Failed attempts that count against the peer interface, by class.",
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
        "Longest latency.",
        "kind",
        |peer_ni| longest(&peer_ni.latency),
    )
    .in_unit(Quantity::Time),
];

const SAMPLES: &str = "Number of latency samples: put_egress of a PUT until the LND has sent it, get_rtt of a GET until its data arrived, \
     put_ack of a PUT until its ACK arrived.";

const SUM: &str = "Sum of the latencies; its increase divided by that of the samples is the mean.";

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
