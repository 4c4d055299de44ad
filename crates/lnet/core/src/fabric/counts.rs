//! Counts of messages by interface and by peer interface.

use lnet_policy::Profile;

use crate::fabric::Fabric;
use crate::fabric::watch::Watched;
use crate::ground::counters::{Arrival, MessageStats};
use crate::ground::health::NiHealthStats;
use crate::ground::histogram::LatencyHistograms;
use crate::ground::io::Verdict;
use crate::ground::latency::LatencyStats;
use crate::ground::status::DropReason;

impl Fabric {
    /// Counts an arriving message as dropped, and returns the verdict that drops it.
    pub(crate) fn drop_arrival(&mut self, arrival: Arrival, reason: DropReason) -> Verdict {
        self.count_drop(arrival, reason);
        Verdict::Drop(reason)
    }

    /// Counts an arriving message as dropped.
    pub(crate) fn count_drop(&mut self, arrival: Arrival, reason: DropReason) {
        self.counters().count_drop(reason, arrival.length);
        self.happened(Watched::Dropped {
            ni: self.nis.get(arrival.ni).map(|ni| ni.nid),
            sender: arrival.sender,
            message: arrival.kind,
            length: arrival.length,
            reason,
        });
        if let Some(ni) = self.nis.get_mut(arrival.ni) {
            ni.stats.dropped.count(arrival.kind);
        }
        if let Some(peer_ni) = self.peers.by_nid_mut(arrival.sender) {
            peer_ni.stats.dropped.count(arrival.kind);
        }
    }

    /// Counts a message as received by its interface and from its sender.
    pub(crate) fn count_received(&mut self, arrival: Arrival) {
        if let Some(ni) = self.nis.get_mut(arrival.ni) {
            ni.stats.count_received(arrival);
        }
        if let Some(peer_ni) = self.peers.by_nid_mut(arrival.sender) {
            peer_ni.stats.count_received(arrival);
        }
    }

    pub(crate) fn reset_stats(&mut self) {
        self.counters().reset();
        let with_counts = self.globals().profile != Profile::Lustre;
        for ni in self.nis.all_mut() {
            ni.latency = LatencyStats::default();
            ni.histograms = LatencyHistograms::default();
            if with_counts {
                ni.stats = MessageStats::default();
                ni.health_stats = NiHealthStats::default();
            }
        }
        self.peers.reset_stats(with_counts);
    }
}
