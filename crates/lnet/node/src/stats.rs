//! A node's counters as one document.

use std::collections::BTreeMap;
use std::fmt::Debug;

use lnet_core::{DropReason, MessageStatus, TypeCounts};
use lnet_tcp::Counts;
#[cfg(feature = "serde")]
use serde::Serialize;

use crate::engine::Engine;

/// Counters of a node since it started. Lengths are in bytes. Maps by reason contain only reasons that
/// occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct NodeStats {
    /// The node's NIDs; the first is the primary one.
    pub nids: Vec<String>,
    /// Messages sent, forwarded ones included.
    pub send_count: u64,
    /// Payload sent.
    pub send_length: u64,
    /// Messages received for this node.
    pub recv_count: u64,
    /// Payload received for this node.
    pub recv_length: u64,
    /// Messages forwarded.
    pub route_count: u64,
    /// Payload forwarded.
    pub route_length: u64,
    /// Messages dropped.
    pub drop_count: u64,
    /// Payload dropped.
    pub drop_length: u64,
    /// Messages dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Attempts to send that failed, by status class.
    pub send_failures: BTreeMap<String, u64>,
    /// ACKs and REPLYs that did not come in time.
    pub response_timeout_count: u64,
    /// Resends; a message counts once for each resend.
    pub resend_count: u64,
    /// Messages that succeeded after a resend.
    pub successful_resends: u64,
    /// Messages that reached the resend limit, or had no path left.
    pub failed_resends: u64,
    /// Events lost because a program did not take them from its queue.
    pub events_lost: u64,
    /// The most messages that were in flight at the same time.
    pub msgs_max: u64,
    /// Counters of each interface.
    pub nis: Vec<NiStats>,
    /// Router buffers allocated so far.
    pub router_buffer_bytes: u64,
    /// Counters of the socket LND.
    pub socklnd: SocklndStats,
}

/// Counters of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct NiStats {
    /// Its NID.
    pub nid: String,
    /// True if the interface counts as up; peers see the same state.
    pub up: bool,
    /// Its health, 0 to 1000.
    pub health: u16,
    /// Messages that left without error.
    pub sent: MessageTypes,
    /// Messages that arrived.
    pub received: MessageTypes,
    /// Messages dropped.
    pub dropped: MessageTypes,
}

/// Messages by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct MessageTypes {
    /// PUTs.
    pub put: u64,
    /// GETs.
    pub get: u64,
    /// REPLYs.
    pub reply: u64,
    /// ACKs.
    pub ack: u64,
}

/// Counters of the socket LND.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SocklndStats {
    /// Frames received.
    pub frames_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes read from connections.
    pub bytes_in: u64,
    /// Bytes written to connections.
    pub bytes_out: u64,
    /// Payload bytes copied between buffers of this process. The payload of small messages is copied because
    /// one read takes many of them; the beginning of a large message behind them is copied too. All other
    /// payload is read into its final memory.
    pub copied_payload_bytes: u64,
    /// Payload of large messages that went through a pipe of the kernel instead of a router buffer's memory.
    pub piped_payload_bytes: u64,
    /// Payload bytes read and dropped.
    pub discarded_payload_bytes: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections that peers dialled.
    pub accepted: u64,
    /// Connections that this node dialled.
    pub dialled: u64,
    /// Zero-copy acknowledgements sent.
    pub zc_acks: u64,
    /// Keepalive frames sent.
    pub keepalives_out: u64,
    /// Keepalive frames received.
    pub keepalives_in: u64,
    /// Dialling peers rejected, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Dials that failed, by reason.
    pub dial_failures: BTreeMap<String, u64>,
    /// Connections closed, by reason.
    pub closed: BTreeMap<String, u64>,
    /// Messages not sent, by reason.
    pub unsent: BTreeMap<String, u64>,
}

impl NodeStats {
    pub(crate) fn of(engine: &Engine) -> Self {
        let core = engine.core();
        let counters = core.counters();
        let drops = DropReason::ALL.map(|reason| (reason, counters.dropped(reason)));
        let failures = MessageStatus::ALL.map(|status| (status, counters.ended(status)));
        let failures = failures
            .into_iter()
            .filter(|(status, _)| *status != MessageStatus::Ok);
        Self {
            nids: core
                .nis()
                .map(|ni| ni.nid)
                .filter(|nid| !nid.is_loopback())
                .map(|nid| nid.to_string())
                .collect(),
            send_count: counters.send_count,
            send_length: counters.send_length,
            recv_count: counters.recv_count,
            recv_length: counters.recv_length,
            route_count: counters.route_count,
            route_length: counters.route_length,
            drop_count: counters.drop_count,
            drop_length: counters.drop_length,
            drops: by_name(drops),
            send_failures: by_name(failures),
            response_timeout_count: counters.response_timeout_count,
            resend_count: counters.resend_count,
            successful_resends: counters.successful_resends,
            failed_resends: counters.failed_resends,
            events_lost: engine.events_lost(),
            msgs_max: counters.msgs_max,
            nis: nis(engine),
            router_buffer_bytes: engine.router_buffer_bytes(),
            socklnd: socklnd(engine),
        }
    }
}

fn nis(engine: &Engine) -> Vec<NiStats> {
    let nis = engine.core().nis();
    nis.map(|ni| NiStats {
        nid: ni.nid.to_string(),
        up: ni.up,
        health: ni.health.health.value(),
        sent: ni.stats.sent.into(),
        received: ni.stats.received.into(),
        dropped: ni.stats.dropped.into(),
    })
    .collect()
}

fn socklnd(engine: &Engine) -> SocklndStats {
    let stats = engine.socklnd_stats();
    SocklndStats {
        frames_in: stats.frames_in,
        frames_out: stats.frames_out,
        bytes_in: stats.bytes_in,
        bytes_out: stats.bytes_out,
        copied_payload_bytes: stats.copied_payload_bytes,
        piped_payload_bytes: stats.piped_payload_bytes,
        discarded_payload_bytes: stats.discarded_payload_bytes,
        connections_open: stats.connections_open,
        accepted: stats.accepted,
        dialled: stats.dialled,
        zc_acks: stats.zc_acks,
        keepalives_out: stats.keepalives_out,
        keepalives_in: stats.keepalives_in,
        refused: of_counts(&stats.refused),
        dial_failures: of_counts(&stats.dial_failures),
        closed: of_counts(&stats.closed),
        unsent: of_counts(&stats.unsent),
    }
}

impl From<TypeCounts> for MessageTypes {
    fn from(counts: TypeCounts) -> Self {
        Self {
            put: counts.put,
            get: counts.get,
            reply: counts.reply,
            ack: counts.ack,
        }
    }
}

fn of_counts<K: Ord + Copy + Debug>(counts: &Counts<K>) -> BTreeMap<String, u64> {
    by_name(counts.iter())
}

fn by_name<K: Debug>(counts: impl IntoIterator<Item = (K, u64)>) -> BTreeMap<String, u64> {
    let occurred = counts.into_iter().filter(|(_, count)| *count > 0);
    occurred
        .map(|(reason, count)| (reason_name(&reason), count))
        .collect()
}

/// Returns the name of a reason in [`NodeStats`]: `Protocol(FrameType)` in the code is `protocol_frame_type`.
#[must_use]
pub fn reason_name(reason: &impl Debug) -> String {
    snake_case(&format!("{reason:?}"))
}

fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() && !text.ends_with('_') {
            text.push('_');
        }
        match letter {
            '(' => text.push('_'),
            ')' => {}
            _ => text.push(letter.to_ascii_lowercase()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::snake_case;

    #[test]
    fn reasons_are_named_in_snake_case() {
        assert_eq!(snake_case("NoMatch"), "no_match");
        assert_eq!(snake_case("Protocol(FrameType)"), "protocol_frame_type");
        assert_eq!(snake_case("HelloVersion1"), "hello_version1");
    }
}
