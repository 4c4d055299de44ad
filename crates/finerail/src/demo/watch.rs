//! Samples the nodes ten times a second while the demo runs: the bytes each router forwards, the state of the
//! I/O node.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::top::{Feed, Sample};

/// The time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// The timeout of a sample. A node that is stopped does not answer in time.
const ANSWER: Duration = Duration::from_millis(300);

/// How long the nodes are observed after a fault ends, in milliseconds.
const AFTER_FAULT: u64 = 3000;

/// Up to this number of bytes between two samples does not count as progress. Pings of gateways and reads of
/// attributes move less.
const NO_PROGRESS: u64 = 64 << 10;

/// Less than this share of what moves on average between two samples does not count as progress either: in the graph,
/// the node stands still.
const LEAST_SHARE: u64 = 20;

/// A node to sample.
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) control: PathBuf,
}

/// One sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Point {
    /// Milliseconds since the work began.
    pub(super) at_ms: u64,
    /// Whether the node answered.
    pub(super) answered: bool,
    /// The payload that the node has sent, received and forwarded since its start, in bytes.
    pub(super) bytes: u64,
    /// The lowest health of the node's interfaces, 0 to 1000.
    pub(super) health: u16,
    /// The number of routes that are up, and of all routes.
    pub(super) routes_up: usize,
    pub(super) routes: usize,
    /// The number of interfaces that are up, and of all interfaces.
    pub(super) nis_up: usize,
    pub(super) nis: usize,
}

impl Point {
    fn of(at_ms: u64, sample: &Sample) -> Self {
        let node = &sample.node;
        Self {
            at_ms,
            answered: true,
            bytes: node.sent_bytes + node.received_bytes + node.routed_bytes,
            health: sample
                .nis
                .iter()
                .map(|ni| ni.condition.health)
                .min()
                .unwrap_or(1000),
            routes_up: sample.routes.iter().filter(|route| route.up).count(),
            routes: sample.routes.len(),
            nis_up: sample.nis.iter().filter(|ni| ni.condition.up).count(),
            nis: sample.nis.len(),
        }
    }
}

/// All samples of one node.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Track {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

impl Track {
    /// Returns the bytes a second in each step of `step_ms` up to `end_ms`. A node that was restarted counts
    /// from zero.
    #[expect(clippy::cast_precision_loss, reason = "shown in MB/s")]
    pub(super) fn rates(&self, step_ms: u64, end_ms: u64) -> Vec<f64> {
        let mut moved = vec![0_u64; (end_ms / step_ms + 1) as usize];
        for pair in self.points.windows(2) {
            let bytes = pair[1]
                .bytes
                .checked_sub(pair[0].bytes)
                .unwrap_or(pair[1].bytes);
            if let Some(cell) = moved.get_mut((pair[1].at_ms / step_ms) as usize) {
                *cell += bytes;
            }
        }
        moved
            .iter()
            .map(|&bytes| bytes as f64 * 1000.0 / step_ms as f64)
            .collect()
    }

    /// Returns the times at which more than `least` bytes had moved since the sample before.
    fn progress(&self, least: u64) -> impl Iterator<Item = u64> {
        let mut bytes = None;
        self.points.iter().filter_map(move |point| {
            let before = bytes;
            bytes = point.answered.then_some(point.bytes).or(bytes);
            let has_moved = before.is_some_and(|before| point.bytes.abs_diff(before) > least);
            has_moved.then_some(point.at_ms)
        })
    }
}

/// The times at which payload passed the routers. What the I/O node sends is no progress by itself: it sends a message
/// again while a router hangs.
pub(super) struct Flow {
    /// In order.
    times: Vec<u64>,
    end: u64,
}

impl Flow {
    /// Returns the flow through some routers.
    pub(super) fn through(routers: &[Track]) -> Self {
        let ends = || routers.iter().filter_map(|track| track.points.last());
        let end = ends().map(|point| point.at_ms).max().unwrap_or(0);
        let samples = (end / INTERVAL.as_millis() as u64).max(1);
        let mean = ends().map(|point| point.bytes).sum::<u64>() / samples;
        let least = NO_PROGRESS.max(mean / LEAST_SHARE);
        let progress = routers.iter().flat_map(|track| track.progress(least));
        let mut times: Vec<u64> = progress.collect();
        times.sort_unstable();
        Self { times, end }
    }

    /// Returns the time of the last progress in milliseconds, 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// Returns the longest time without progress that begins between `from_ms` and `to_ms`, in milliseconds.
    pub(super) fn longest_pause(&self, from_ms: u64, to_ms: u64) -> u64 {
        let mut longest = 0;
        let mut last = from_ms;
        let later = self.times.iter().filter(|&&time| time >= from_ms);
        for &time in later.chain([&self.end]) {
            if last <= to_ms {
                longest = longest.max(time.saturating_sub(last));
            }
            last = time;
        }
        longest
    }
}

/// Returns until when a pause that begins belongs to a fault that ended at `until_ms`. A pause that begins with the next
/// fault, or after the last sample before that fault, belongs to the next fault.
pub(super) fn counts_until(until_ms: u64, next_at_ms: Option<u64>) -> u64 {
    let after = until_ms + AFTER_FAULT;
    let before_next = next_at_ms.map(|at| at.saturating_sub(2 * INTERVAL.as_millis() as u64));
    before_next.map_or(after, |before| after.min(before))
}

/// Samples `node` until `stop` is set, and stores the samples in `track`.
pub(super) fn follow(node: &Watched, begun: Instant, stop: &AtomicBool, track: &Mutex<Track>) {
    let mut feed = Feed::new(&node.control, ANSWER);
    let mut last = Point::default();
    while !stop.load(Ordering::Relaxed) {
        let look = feed.look();
        let at_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        last = match look {
            Ok(sample) => Point::of(at_ms, &sample),
            Err(_) => Point {
                at_ms,
                answered: false,
                ..last
            },
        };
        // Code that holds this lock cannot panic, so the lock is not poisoned.
        if let Ok(mut track) = track.lock() {
            track.points.push(last.clone());
        }
        let next = INTERVAL * (u32::try_from(at_ms / 100).unwrap_or(u32::MAX) + 1);
        std::thread::sleep(next.saturating_sub(begun.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(megabytes: &[u64]) -> Track {
        let point = |(index, &megabytes): (usize, &u64)| Point {
            at_ms: index as u64 * 100,
            answered: true,
            bytes: megabytes * 1_000_000,
            ..Point::default()
        };
        Track {
            name: "node".to_owned(),
            points: megabytes.iter().enumerate().map(point).collect(),
        }
    }

    fn flow(megabytes: &[u64]) -> Flow {
        Flow::through(&[track(megabytes)])
    }

    #[test]
    fn either_router_makes_progress_and_a_pause_is_one_of_both() {
        let both = [
            track(&[0, 10, 10, 10, 10, 10, 20]),
            track(&[0, 0, 10, 10, 10, 10, 10]),
        ];
        let flow = Flow::through(&both);
        assert_eq!(flow.longest_pause(0, 600), 400);
        assert_eq!(flow.last(), 600);
    }

    #[test]
    fn a_pause_lasts_from_one_progress_to_the_next() {
        let track = flow(&[0, 10, 20, 20, 20, 20, 30, 40]);
        assert_eq!(track.longest_pause(0, 700), 400);
        assert_eq!(
            track.longest_pause(300, 700),
            300,
            "a pause is counted from the fault"
        );
        assert_eq!(
            track.longest_pause(0, 100),
            100,
            "later pauses are not of this fault"
        );
    }

    #[test]
    fn a_pause_that_begins_with_the_next_fault_is_not_one_of_the_fault_before() {
        let track = flow(&[0, 10, 20, 30, 40, 40, 40, 40, 50]);
        assert_eq!(track.longest_pause(100, counts_until(200, Some(500))), 100);
        assert_eq!(track.longest_pause(500, counts_until(600, None)), 300);
        assert_eq!(counts_until(2000, Some(9000)), 5000);
    }

    #[test]
    fn a_trickle_is_no_progress() {
        let mut flow = [0, 100, 200, 201, 202, 203, 300].to_vec();
        assert_eq!(self::flow(&flow).longest_pause(0, 600), 400);
        flow[4] += 20;
        flow[5] += 20;
        assert_eq!(self::flow(&flow).longest_pause(0, 600), 200);
    }

    #[test]
    fn a_pause_that_does_not_end_lasts_to_the_last_look() {
        assert_eq!(flow(&[0, 10, 10, 10]).longest_pause(100, 200), 200);
    }

    #[test]
    fn rates_are_bytes_a_second_and_survive_a_restart() {
        let track = track(&[0, 10, 20, 5]);
        assert_eq!(track.rates(100, 300), [0.0, 1e8, 1e8, 5e7]);
    }
}
