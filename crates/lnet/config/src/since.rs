//! The difference of the counters of a node between two readings.

use crate::document::{Document, NetShow, NiShow, PeerNiShow, PeerShow};
use crate::model::NiConfig;
use crate::stats::{Block, Latency, Slot, Traffic};

/// The counts of a node between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The node's counters, and those of local and peer interfaces that carried messages.
    pub document: Document,
    /// True if a count is lower than before, because the node was restarted or its counters were
    /// zeroed. Lower counts then count from zero.
    pub zeroed: bool,
}

impl Document {
    /// The counts since an earlier reading of the same node. Counts that the earlier reading lacks
    /// count from zero. Numbers that are not counts, such as messages in existence, stay as they
    /// are. A latency has the samples in between and their average; its minimum and maximum are not
    /// known.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Since {
        let mut zeroed = false;
        let statistics = self.statistics.map(|now| {
            let then = earlier.statistics.unwrap_or_default();
            between(now, then, &LEVELS, &mut zeroed)
        });
        let nets = self.nets.iter().map(|net| NetShow {
            net: net.net,
            nis: nis_since(&net.nis, earlier, &mut zeroed),
        });
        let nets = nets.filter(|net| !net.nis.is_empty()).collect();
        let peers = self.peers.iter().map(|peer| PeerShow {
            nis: peer_nis_since(&peer.nis, earlier, &mut zeroed),
            state: None,
            ..peer.clone()
        });
        let peers = peers.filter(|peer| !peer.nis.is_empty()).collect();
        let document = Self {
            nets,
            peers,
            statistics,
            ..Self::default()
        };
        Since { document, zeroed }
    }
}

fn nis_since(nis: &[NiShow], earlier: &Document, zeroed: &mut bool) -> Vec<NiShow> {
    let then = |nid| {
        let mut nis = earlier.nets.iter().flat_map(|net| &net.nis);
        nis.find(|ni| ni.config.nid == nid)?.statistics
    };
    let since = nis.iter().filter_map(|ni| {
        let statistics = traffic(ni.statistics?, then(ni.config.nid), zeroed)?;
        Some(NiShow {
            config: NiConfig {
                nid: ni.config.nid,
                interfaces: ni.config.interfaces.clone(),
                ..NiConfig::default()
            },
            statistics: Some(statistics),
            ..NiShow::default()
        })
    });
    since.collect()
}

fn peer_nis_since(nis: &[PeerNiShow], earlier: &Document, zeroed: &mut bool) -> Vec<PeerNiShow> {
    let then = |nid| {
        let mut nis = earlier.peers.iter().flat_map(|peer| &peer.nis);
        nis.find(|ni| ni.nid == nid)?.statistics
    };
    let since = nis.iter().filter_map(|ni| {
        let statistics = traffic(ni.statistics?, then(ni.nid), zeroed)?;
        Some(PeerNiShow {
            nid: ni.nid,
            udsp: None,
            state: None,
            credits: None,
            statistics: Some(statistics),
            sent: None,
            received: None,
            dropped: None,
            health: None,
        })
    });
    since.collect()
}

/// The difference of traffic; `None` if no message was counted.
fn traffic(now: Traffic, then: Option<Traffic>, zeroed: &mut bool) -> Option<Traffic> {
    let then = then.unwrap_or_default();
    let mut since = between(now, then, &[], zeroed);
    // A count that is lower than before counts from zero; of a latency, all its values do.
    since.put_egress = latency(now.put_egress, then.put_egress);
    since.get_rtt = latency(now.get_rtt, then.get_rtt);
    since.put_ack = latency(now.put_ack, then.put_ack);
    (since.send_count + since.recv_count + since.drop_count > 0).then_some(since)
}

/// Numbers that are not counts.
const LEVELS: [&str; 3] = ["msgs_alloc", "msgs_max", "rst_alloc"];

fn between<B: Block>(mut now: B, mut then: B, levels: &[&str], zeroed: &mut bool) -> B {
    let mut pairs = Vec::new();
    for ((key, now), (_, then)) in now.slots().into_iter().zip(then.slots()) {
        match (now, then) {
            (Slot::Count(now), Slot::Count(then)) if !levels.contains(&key) => {
                pairs.push((now, *then));
            }
            (Slot::Optional(Some(now)), Slot::Optional(Some(then))) if !key.ends_with("_nsec") => {
                pairs.push((now, *then));
            }
            _ => {}
        }
    }
    let lower = pairs.iter().any(|(now, then)| **now < *then);
    *zeroed |= lower;
    for (now, then) in pairs {
        *now = if lower { *now } else { *now - then };
    }
    now
}

fn latency(now: Latency, then: Latency) -> Latency {
    let (Some(samples), Some(average)) = (now.samples, now.avg_nsec) else {
        return now;
    };
    let before = then.samples.filter(|&before| before <= samples);
    let Some(before) = before.filter(|&before| before > 0) else {
        return now;
    };
    let taken = samples - before;
    let sum = |samples: u64, average: u64| u128::from(samples) * u128::from(average);
    let sum = sum(samples, average).saturating_sub(sum(before, then.avg_nsec.unwrap_or(0)));
    let average = sum.checked_div(taken.into());
    Latency {
        samples: Some(taken),
        min_nsec: None,
        max_nsec: None,
        avg_nsec: average.map(|average| u64::try_from(average).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::NodeStats;

    fn read(text: &str) -> Document {
        crate::read(text).unwrap().document
    }

    const THEN: &str = "\
net:
-     net type: tcp
      local NI(s):
      -     nid: 10.0.0.1@tcp
            statistics:
                  send_count: 10
                  recv_count: 10
                  drop_count: 0
                  put_egress_samples: 4
                  put_egress_min_nsec: 50
                  put_egress_max_nsec: 200
                  put_egress_avg_nsec: 100
      -     nid: 10.0.0.2@tcp
            statistics:
                  send_count: 7
                  recv_count: 7
                  drop_count: 0
statistics:
    msgs_alloc: 3
    msgs_max: 9
    send_count: 100
    recv_count: 50
";

    const NOW: &str = "\
net:
-     net type: tcp
      local NI(s):
      -     nid: 10.0.0.1@tcp
            statistics:
                  send_count: 15
                  recv_count: 11
                  drop_count: 1
                  put_egress_samples: 6
                  put_egress_min_nsec: 40
                  put_egress_max_nsec: 500
                  put_egress_avg_nsec: 200
      -     nid: 10.0.0.2@tcp
            statistics:
                  send_count: 7
                  recv_count: 7
                  drop_count: 0
statistics:
    msgs_alloc: 1
    msgs_max: 12
    send_count: 130
    recv_count: 70
";

    #[test]
    fn counts_are_subtracted_and_levels_are_not() {
        let since = read(NOW).since(&read(THEN));
        assert!(!since.zeroed);
        let statistics = since.document.statistics.unwrap();
        let NodeStats {
            msgs_alloc,
            msgs_max,
            send_count,
            recv_count,
            ..
        } = statistics;
        assert_eq!(
            [msgs_alloc, msgs_max, send_count, recv_count],
            [1, 12, 30, 20]
        );
    }

    #[test]
    fn interfaces_without_traffic_are_left_out_and_averages_are_of_the_span() {
        let since = read(NOW).since(&read(THEN)).document;
        assert_eq!(since.nets[0].nis.len(), 1);
        let traffic = since.nets[0].nis[0].statistics.unwrap();
        assert_eq!((traffic.send_count, traffic.drop_count), (5, 1));
        let Latency {
            samples, avg_nsec, ..
        } = traffic.put_egress;
        // Six samples of 200 are 1200, of which the four earlier samples of 100 are 400.
        assert_eq!((samples, avg_nsec), (Some(2), Some(400)));
        assert_eq!(traffic.put_egress.max_nsec, None);
    }

    #[test]
    fn counters_that_were_zeroed_count_from_there() {
        let since = read(THEN).since(&read(NOW));
        assert!(since.zeroed);
        assert_eq!(since.document.statistics.unwrap().send_count, 100);
    }

    #[test]
    fn what_was_not_there_counts_from_zero() {
        let since = read(NOW).since(&Document::default());
        assert!(!since.zeroed);
        assert_eq!(since.document.statistics.unwrap().send_count, 130);
        assert_eq!(since.document.nets[0].nis.len(), 2);
    }
}
