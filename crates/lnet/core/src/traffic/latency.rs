//! Measures how long messages take, by interface and by peer interface.
//!
//! ```text
//!  commit ──── put egress ───▶ the LND is done      GET ──────── get rtt ───▶ REPLY arrived
//!     PUT ──────────────────── put ack ───────────▶ ACK arrived
//! ```
//!
//! For a resent message the last attempt counts, on the path that it took. For a descriptor with several operations
//! under way at once, only the departure of the last one is known.

use lnet_types::Time;
use lnet_wire::MessageType;

use crate::ground::event::{Event, EventKind};
use crate::ground::histogram::{LatencyHistogram, LatencyHistograms};
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;
use crate::ground::latency::{Latency, LatencyStats};
use crate::traffic::Traffic;
use crate::traffic::send::tx::Tx;

/// The kinds of latencies.
#[derive(Clone, Copy, Debug)]
enum LatencyKind {
    PutEgress,
    GetRtt,
    PutAck,
}

impl LatencyKind {
    fn of(self, stats: &mut LatencyStats) -> &mut Latency {
        match self {
            Self::PutEgress => &mut stats.put_egress,
            Self::GetRtt => &mut stats.get_rtt,
            Self::PutAck => &mut stats.put_ack,
        }
    }

    fn spread(self, histograms: &mut LatencyHistograms) -> &mut LatencyHistogram {
        match self {
            Self::PutEgress => &mut histograms.put_egress,
            Self::GetRtt => &mut histograms.get_rtt,
            Self::PutAck => &mut histograms.put_ack,
        }
    }
}

/// The time and the path of the last request of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(in crate::traffic) struct Departure {
    at: Time,
    ni: NiId,
    peer: Option<PeerNiId>,
}

impl Departure {
    /// Returns the departure of a message whose path was chosen at this time.
    pub(in crate::traffic) fn of(tx: &Tx, at: Time) -> Self {
        Self {
            at,
            ni: tx.ni,
            peer: tx.peer,
        }
    }
}

impl Traffic {
    /// Measures the egress time of a PUT of this node that was sent.
    pub(in crate::traffic) fn note_egress(&mut self, tx: &Tx, now: Time) {
        let is_put = tx.header.body.message_type() == MessageType::Put;
        if is_put && !tx.is_forwarded() {
            self.sample(Departure::of(tx, tx.begun), now, LatencyKind::PutEgress);
        }
    }

    /// Measures the time from a request to its response, which has arrived.
    pub(in crate::traffic) fn note_response(&mut self, event: &Event, now: Time) {
        let kind = match event.kind {
            EventKind::Reply => LatencyKind::GetRtt,
            EventKind::Ack => LatencyKind::PutAck,
            _ => return,
        };
        let md = self.mds.get_mut(event.md);
        if let Some(departure) = md.and_then(|md| md.departure.take()) {
            self.sample(departure, now, kind);
        }
    }

    fn sample(&mut self, departure: Departure, now: Time, kind: LatencyKind) {
        let span = now.saturating_since(departure.at).as_nanos();
        let nanos = u64::try_from(span).unwrap_or(u64::MAX);
        if let Some(ni) = self.fabric.nis.get_mut(departure.ni) {
            kind.of(&mut ni.latency).add(nanos);
            kind.spread(&mut ni.histograms).add(nanos);
        }
        if let Some(peer_ni) = departure.peer.and_then(|id| self.fabric.peers.get_mut(id)) {
            kind.of(peer_ni.latency.get_or_insert_default()).add(nanos);
        }
    }
}
