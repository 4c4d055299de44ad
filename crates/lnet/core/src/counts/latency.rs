//! How long messages take, by interface and by peer interface.
//!
//! ```text
//!  commit ──── put egress ───▶ the LND is done      GET ──────── get rtt ───▶ REPLY arrived
//!     PUT ──────────────────── put ack ───────────▶ ACK arrived
//! ```
//!
//! For a resent message the last attempt counts, on the path that it took. For a descriptor with several operations
//! under way at once, only the departure of the last one is known.

use lnet_policy::Profile;
use lnet_types::Time;
use lnet_wire::MessageType;

use crate::Core;
use crate::counts::counters::MessageStats;
use crate::counts::histogram::{LatencyHistogram, LatencyHistograms};
use crate::event::{Event, EventKind};
use crate::health::value::NiHealthStats;
use crate::io::NiId;
use crate::peer::PeerNiId;
use crate::send::tx::Tx;

/// Times of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of samples.
    pub samples: u64,
    /// The shortest sample; 0 without samples.
    pub min: u64,
    /// The longest sample.
    pub max: u64,
    sum: u64,
}

impl Latency {
    /// Returns the mean; 0 without samples.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.sum.checked_div(self.samples).unwrap_or(0)
    }

    /// Returns the sum of all samples.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Adds the samples of another latency.
    pub fn merge(&mut self, other: &Self) {
        if other.samples == 0 {
            return;
        }
        self.min = if self.samples == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.samples = self.samples.saturating_add(other.samples);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn add(&mut self, nanos: u64) {
        self.min = if self.samples == 0 {
            nanos
        } else {
            self.min.min(nanos)
        };
        self.samples += 1;
        self.max = self.max.max(nanos);
        self.sum = self.sum.saturating_add(nanos);
    }
}

/// `put_egress_*`, `get_rtt_*` and `put_ack_*` of an interface or a peer interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats {
    /// From the choice of the path of a PUT until the LND reports its end.
    pub put_egress: Latency,
    /// From the choice of the path of a GET until its REPLY has arrived.
    pub get_rtt: Latency,
    /// From the choice of the path of a PUT until its ACK has arrived.
    pub put_ack: Latency,
}

impl LatencyStats {
    /// Adds the samples of other statistics, kind by kind.
    pub fn merge(&mut self, other: &Self) {
        self.put_egress.merge(&other.put_egress);
        self.get_rtt.merge(&other.get_rtt);
        self.put_ack.merge(&other.put_ack);
    }
}

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
pub(crate) struct Departure {
    at: Time,
    ni: NiId,
    peer: Option<PeerNiId>,
}

impl Departure {
    /// Returns the departure of a message whose path was chosen at this time.
    pub(crate) fn of(tx: &Tx, at: Time) -> Self {
        Self {
            at,
            ni: tx.ni,
            peer: tx.peer,
        }
    }
}

pub(crate) fn reset_stats(core: &mut Core) {
    core.counters.reset();
    let with_counts = core.config.globals.profile != Profile::Lustre;
    for ni in core.nis.all_mut() {
        ni.latency = LatencyStats::default();
        ni.histograms = LatencyHistograms::default();
        if with_counts {
            ni.stats = MessageStats::default();
            ni.health_stats = NiHealthStats::default();
        }
    }
    core.peers.reset_stats(with_counts);
}

impl Core {
    /// Measures the egress time of a PUT of this node that was sent.
    pub(crate) fn note_egress(&mut self, tx: &Tx, now: Time) {
        let is_put = tx.header.body.message_type() == MessageType::Put;
        if is_put && !tx.is_forwarded() {
            self.sample(Departure::of(tx, tx.begun), now, LatencyKind::PutEgress);
        }
    }

    /// Measures the time from a request to its response, which has arrived.
    pub(crate) fn note_response(&mut self, event: &Event, now: Time) {
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
        if let Some(ni) = self.nis.get_mut(departure.ni) {
            kind.of(&mut ni.latency).add(nanos);
            kind.spread(&mut ni.histograms).add(nanos);
        }
        if let Some(peer_ni) = departure.peer.and_then(|id| self.peers.get_mut(id)) {
            kind.of(peer_ni.latency.get_or_insert_default()).add(nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_knows_its_extremes_and_its_mean() {
        let mut latency = Latency::default();
        assert_eq!((latency.min, latency.average()), (0, 0));
        for nanos in [30, 10, 20] {
            latency.add(nanos);
        }
        let shown = (latency.samples, latency.min, latency.max, latency.average());
        assert_eq!(shown, (3, 10, 30, 20));
    }

    #[test]
    fn merging_is_as_if_all_samples_had_come_to_one() {
        let of = |samples: &[u64]| {
            let mut latency = Latency::default();
            samples.iter().for_each(|&nanos| latency.add(nanos));
            latency
        };
        let merged = |parts: [&[u64]; 2]| {
            let mut latency = of(parts[0]);
            latency.merge(&of(parts[1]));
            latency
        };
        assert_eq!(merged([&[30, 10], &[20, 5]]), of(&[30, 10, 20, 5]));
        assert_eq!(merged([&[], &[20]]), of(&[20]));
        assert_eq!(merged([&[20], &[]]), of(&[20]));
        assert_eq!(of(&[20, 22]).sum(), 42);
    }
}
