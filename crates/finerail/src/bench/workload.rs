//! What is measured, in which unit, and what the first targets are.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// Bytes of the large messages: the most that one PUT or GET carries.
pub(super) const LARGE: usize = 1 << 20;
/// Bytes of the small messages: a page.
pub(super) const SMALL: usize = 4096;
/// Bytes of the messages whose round trip is measured.
pub(super) const TINY: usize = 64;
/// GETs under way at once.
pub(super) const GETS_IN_FLIGHT: u64 = 8;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// PUTs of 1 MiB without ACK, one way.
    PutLarge,
    /// PUTs of 4 KiB without ACK, beside a limit that writes each message by itself.
    PutSmall,
    /// The same, beside a limit that writes and reads many messages at once.
    PutSmallBatched,
    /// A PUT of 64 bytes and its ACK, one at a time.
    RoundTrip,
    /// GETs of 1 MiB.
    GetLarge,
    /// PUTs of 1 MiB through one router.
    PutRouted,
}

/// A goal for the ratio of Finerail to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// The ratio should be this or more.
    AtLeast(f64),
    /// The ratio should be this or less.
    AtMost(f64),
}

impl Workload {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::PutLarge => "PUT 1 MiB, one way",
            Self::PutSmall => "PUT 4 KiB, limit one a write",
            Self::PutSmallBatched => "PUT 4 KiB, limit batched",
            Self::RoundTrip => "PUT 64 B and ACK, round trip",
            Self::GetLarge => "GET 1 MiB, 8 in flight",
            Self::PutRouted => "PUT 1 MiB through a router",
        }
    }

    /// Payload bytes of one message.
    pub(super) const fn message_len(self) -> usize {
        match self {
            Self::PutLarge | Self::GetLarge | Self::PutRouted => LARGE,
            Self::PutSmall | Self::PutSmallBatched => SMALL,
            Self::RoundTrip => TINY,
        }
    }

    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::PutLarge | Self::GetLarge | Self::PutRouted => "GB/s",
            Self::PutSmall | Self::PutSmallBatched => "k/s",
            Self::RoundTrip => "µs",
        }
    }

    /// The figure, in [`Self::unit`], of `count` messages that took `elapsed`.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(super) fn figure(self, count: u64, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        let count = count as f64;
        match self {
            Self::PutLarge | Self::GetLarge | Self::PutRouted => {
                count * self.message_len() as f64 / seconds / 1e9
            }
            Self::PutSmall | Self::PutSmallBatched => count / seconds / 1e3,
            Self::RoundTrip => seconds / count * 1e6,
        }
    }

    /// The first target; message rates have none.
    pub(super) const fn target(self) -> Option<Target> {
        match self {
            Self::PutLarge | Self::GetLarge | Self::PutRouted => Some(Target::AtLeast(0.80)),
            Self::PutSmall | Self::PutSmallBatched => None,
            Self::RoundTrip => Some(Target::AtMost(1.5)),
        }
    }
}

impl Target {
    pub(super) fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(goal) => ratio >= goal,
            Self::AtMost(goal) => ratio <= goal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_in_units_of_a_thousand_million_bytes() {
        let figure = Workload::PutLarge.figure(1000, Duration::from_secs(1));
        assert!((figure - 1.048_576).abs() < 1e-9, "{figure}");
    }

    #[test]
    fn a_round_trip_is_the_time_of_one() {
        let figure = Workload::RoundTrip.figure(1000, Duration::from_millis(6));
        assert!((figure - 6.0).abs() < 1e-9, "{figure}");
    }

    #[test]
    fn throughput_wants_a_high_ratio_and_latency_a_low_one() {
        let missed = [(Workload::PutLarge, 0.79), (Workload::RoundTrip, 1.51)];
        let met = [(Workload::PutLarge, 0.80), (Workload::RoundTrip, 1.5)];
        for (workload, ratio) in missed {
            assert!(!workload.target().unwrap().is_met_by(ratio), "{workload:?}");
        }
        for (workload, ratio) in met {
            assert!(workload.target().unwrap().is_met_by(ratio), "{workload:?}");
        }
    }
}
