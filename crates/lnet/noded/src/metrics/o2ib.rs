//! Metrics of the o2ib LND, of a node that has one.

use std::fmt::Debug;

use lnet_node::{Engine, reason_name};
use lnet_o2ib::{Counts, O2ibStats};

use super::family::{Family, Named, Quantity};

type O2ib = Family<O2ibNumbers>;

/// The counters of the o2ib LND.
#[derive(Debug)]
pub(super) struct O2ibNumbers {
    stats: O2ibStats,
    connections: u64,
    pinned: usize,
    registrations: usize,
}

impl O2ibNumbers {
    /// Copies the counters; `None` if the node has no o2ib LND.
    pub(super) fn of(engine: &Engine) -> Option<Self> {
        let stats = engine.o2iblnd_stats()?.clone();
        let connections = engine.o2ib_connections().filter(|conn| conn.is_open);
        Some(Self {
            stats,
            connections: connections.count() as u64,
            pinned: engine.pinned_bytes(),
            registrations: engine.registrations(),
        })
    }
}

/// Metrics of the o2ib LND.
pub(super) const O2IB: &[O2ib] = &[
    O2ib::counts(
        "o2iblnd_sent_messages",
        "Messages sent, by type.",
        "type",
        |o2ib| named(&o2ib.stats.sent),
    ),
    O2ib::counts(
        "o2iblnd_received_messages",
        "Messages received, by type.",
        "type",
        |o2ib| named(&o2ib.stats.received),
    ),
    O2ib::count(
        "o2iblnd_written",
        "Payload written to the memory of peers by RDMA.",
        |o2ib| o2ib.stats.bytes_written,
    )
    .in_unit(Quantity::Bytes),
    O2ib::count(
        "o2iblnd_landed",
        "Payload that peers wrote to this node's memory by RDMA.",
        |o2ib| o2ib.stats.bytes_landed,
    )
    .in_unit(Quantity::Bytes),
    O2ib::count(
        "o2iblnd_copied",
        "Payload copied into or out of messages, because it is short.",
        |o2ib| o2ib.stats.bytes_copied,
    )
    .in_unit(Quantity::Bytes),
    O2ib::count(
        "o2iblnd_credit_waits",
        "Messages that waited for a credit of their connection.",
        |o2ib| o2ib.stats.waited_for_credit,
    ),
    O2ib::level("o2iblnd_connections", "Open connections.", |o2ib| {
        i64::try_from(o2ib.connections).unwrap_or(i64::MAX)
    }),
    O2ib::count("o2iblnd_established", "Connections established.", |o2ib| {
        o2ib.stats.established
    }),
    O2ib::count(
        "o2iblnd_redials",
        "Attempts to connect again after a rejection that allows it.",
        |o2ib| o2ib.stats.retries,
    ),
    O2ib::counts(
        "o2iblnd_closed_connections",
        "Connections closed, by reason.",
        "reason",
        |o2ib| named(&o2ib.stats.closed),
    ),
    O2ib::counts(
        "o2iblnd_refused_connections",
        "Connection requests of peers that were rejected, by reason.",
        "reason",
        |o2ib| named(&o2ib.stats.rejected),
    ),
    O2ib::counts(
        "o2iblnd_rejections",
        "Connection requests that peers rejected, by reason.",
        "reason",
        |o2ib| named(&o2ib.stats.rejections),
    ),
    O2ib::counts(
        "o2iblnd_dial_failures",
        "Connections that could not be made, by reason.",
        "reason",
        |o2ib| named(&o2ib.stats.failed),
    ),
    O2ib::count(
        "o2iblnd_unregistered",
        "Payloads for which memory could not be registered, such as for the limit of locked memory.",
        |o2ib| o2ib.stats.unmapped,
    ),
    O2ib::level(
        "o2iblnd_pinned",
        "Memory that RDMA devices have pinned: message buffers, and payload under way.",
        |o2ib| i64::try_from(o2ib.pinned).unwrap_or(i64::MAX),
    )
    .in_unit(Quantity::Bytes),
    O2ib::level(
        "o2iblnd_registrations",
        "Payloads that are registered with RDMA devices: one for each transfer under way.",
        |o2ib| i64::try_from(o2ib.registrations).unwrap_or(i64::MAX),
    ),
];

fn named<K: Ord + Copy + Debug>(counts: &Counts<K>) -> Named {
    let counts = counts.iter();
    counts
        .map(|(what, count)| (reason_name(&what).into(), count))
        .collect()
}
