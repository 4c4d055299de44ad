//! The workloads with their units and targets.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::foreign::Test;

/// The bytes of a large message: the limit of one PUT or GET.
pub(super) const LARGE: usize = 1 << 20;
/// The bytes of a small message: a page.
pub(super) const SMALL: usize = 4096;
/// The bytes of a message whose round trip is measured.
pub(super) const TINY: usize = 64;
/// The number of GETs of large messages in flight at once.
pub(super) const GETS_IN_FLIGHT: u64 = 8;
/// The number of GETs of small messages in flight at once.
pub(super) const SMALL_GETS_IN_FLIGHT: u64 = 16;
/// The number of senders that send at the same time.
pub(super) const SENDERS: usize = 4;
/// The number of buffers of the cold stream, each of [`LARGE`] bytes: together they exceed a cache.
pub(super) const COLD_BUFFERS: usize = 64;

/// The subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// PUTs of 1 MiB without ACK, one way.
    PutLarge,
    /// CPU time of both ends for PUTs of 1 MiB.
    PutLargeCpu,
    /// PUTs of 1 MiB from and to 64 buffers in turn.
    PutCold,
    /// PUTs of 4 KiB without ACK, beside a limit that writes each message by itself.
    PutSmall,
    /// The same, beside a limit that writes and reads many messages at once.
    PutSmallBatched,
    /// PUTs of 64 bytes without ACK, beside a limit that writes and reads many messages at once.
    PutTinyBatched,
    /// A PUT of 64 bytes and its ACK, one at a time.
    RoundTrip,
    /// The same, between ends that poll instead of sleeping.
    RoundTripSpinning,
    /// GETs of 1 MiB.
    GetLarge,
    /// GETs of 4 KiB, beside a limit that writes and reads many messages at once.
    GetSmall,
    /// PUTs of 1 MiB through one router.
    PutRouted,
    /// PUTs of 1 MiB from four senders to one node.
    FanIn,
    /// The same through a router of one I/O thread, which may use the CPUs of both sides.
    FanInRouted,
    /// The same through a router of two I/O threads.
    FanInRoutedByTwo,
    /// PUTs of 1 MiB through one router, beside a limit of one hop: of `finerail-bench router`.
    #[value(skip)]
    HopLarge,
    /// PUTs of 4 KiB through one router, beside a limit of one hop that writes each message by itself.
    #[value(skip)]
    HopSmall,
    /// The same, beside a limit of one hop that writes and reads many messages at once.
    #[value(skip)]
    HopSmallBatched,
}

/// A target for the ratio of Finerail to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// The ratio should be at least this value.
    AtLeast(f64),
    /// The ratio should be at most this value.
    AtMost(f64),
}

/// The method that computes a figure.
#[derive(Clone, Copy)]
enum Measure {
    /// Bytes in each second.
    Throughput,
    /// Messages in each second.
    Rate,
    /// The time of one message.
    Latency,
    /// The CPU time for a number of bytes.
    CpuTime,
}

impl Workload {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::PutLarge => "PUT 1 MiB, one way",
            Self::PutLargeCpu => "the same, CPU time of both ends",
            Self::PutCold => "PUT 1 MiB, 64 cold buffers",
            Self::PutSmall => "PUT 4 KiB, limit one a write",
            Self::PutSmallBatched => "PUT 4 KiB, limit batched",
            Self::PutTinyBatched => "PUT 64 B, limit batched",
            Self::RoundTrip => "PUT 64 B and ACK, round trip",
            Self::GetLarge => "GET 1 MiB, 8 in flight",
            Self::GetSmall => "GET 4 KiB, 16 in flight",
            Self::PutRouted => "PUT 1 MiB through a router",
            Self::RoundTripSpinning => "the same, both ends spin",
            Self::FanIn => "PUT 1 MiB, 4 senders",
            Self::FanInRouted => "the same, router of 1 thread",
            Self::FanInRoutedByTwo => "the same, router of 2 threads",
            Self::HopLarge => "PUT 1 MiB, router beside one hop",
            Self::HopSmall => "PUT 4 KiB, limit one a write",
            Self::HopSmallBatched => "PUT 4 KiB, limit batched",
        }
    }

    /// Returns the payload bytes of one message.
    pub(super) const fn message_len(self) -> usize {
        match self {
            Self::PutLarge
            | Self::PutLargeCpu
            | Self::PutCold
            | Self::GetLarge
            | Self::PutRouted
            | Self::FanIn
            | Self::FanInRouted
            | Self::FanInRoutedByTwo
            | Self::HopLarge => LARGE,
            Self::PutSmall
            | Self::PutSmallBatched
            | Self::GetSmall
            | Self::HopSmall
            | Self::HopSmallBatched => SMALL,
            Self::RoundTrip | Self::RoundTripSpinning | Self::PutTinyBatched => TINY,
        }
    }

    const fn measure(self) -> Measure {
        match self {
            Self::PutLarge
            | Self::PutCold
            | Self::GetLarge
            | Self::PutRouted
            | Self::FanIn
            | Self::FanInRouted
            | Self::FanInRoutedByTwo
            | Self::HopLarge => Measure::Throughput,
            Self::PutLargeCpu => Measure::CpuTime,
            Self::PutSmall
            | Self::PutSmallBatched
            | Self::PutTinyBatched
            | Self::GetSmall
            | Self::HopSmall
            | Self::HopSmallBatched => Measure::Rate,
            Self::RoundTrip | Self::RoundTripSpinning => Measure::Latency,
        }
    }

    /// Returns true if the CPU time of both ends is measured, not the elapsed time.
    pub(super) const fn takes_cpu_time(self) -> bool {
        matches!(self.measure(), Measure::CpuTime)
    }

    pub(super) const fn unit(self) -> &'static str {
        match self.measure() {
            Measure::Throughput => "GB/s",
            Measure::Rate => "k/s",
            Measure::Latency => "µs",
            Measure::CpuTime => "ms/GB",
        }
    }

    /// Returns the figure, in [`Self::unit`], for `count` messages that took `elapsed`.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(super) fn figure(self, count: u64, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        let count = count as f64;
        let gigabytes = count * self.message_len() as f64 / 1e9;
        match self.measure() {
            Measure::Throughput => gigabytes / seconds,
            Measure::Rate => count / seconds / 1e3,
            Measure::Latency => seconds / count * 1e6,
            Measure::CpuTime => seconds * 1e3 / gigabytes,
        }
    }

    /// Returns the test that another program must run for a comparison.
    pub(super) const fn test(self) -> Option<Test> {
        let bytes = self.message_len();
        match self {
            Self::PutLarge | Self::PutSmallBatched | Self::PutTinyBatched => {
                Some(Test::Stream(bytes))
            }
            Self::RoundTrip => Some(Test::RoundTrip(bytes)),
            Self::GetLarge => Some(Test::Fetch(bytes)),
            Self::PutLargeCpu
            | Self::PutCold
            | Self::PutSmall
            | Self::GetSmall
            | Self::RoundTripSpinning
            | Self::PutRouted
            | Self::FanIn
            | Self::FanInRouted
            | Self::FanInRoutedByTwo
            | Self::HopLarge
            | Self::HopSmall
            | Self::HopSmallBatched => None,
        }
    }

    /// Returns the target on two cores, or on one.
    pub(super) const fn target(self, on_one_core: bool) -> Option<Target> {
        let (two, one) = match self {
            Self::PutLarge => (Target::AtLeast(1.05), Target::AtLeast(1.0)),
            Self::PutLargeCpu => (Target::AtMost(1.1), Target::AtMost(1.1)),
            Self::PutSmallBatched => (Target::AtLeast(0.7), Target::AtLeast(0.6)),
            Self::PutTinyBatched | Self::GetSmall => (Target::AtLeast(0.6), Target::AtLeast(0.6)),
            Self::RoundTrip => (Target::AtMost(1.05), Target::AtMost(1.2)),
            Self::RoundTripSpinning => (Target::AtMost(1.15), Target::AtMost(1.15)),
            Self::GetLarge => (Target::AtLeast(1.0), Target::AtLeast(1.0)),
            Self::PutRouted => (Target::AtLeast(0.95), Target::AtLeast(1.1)),
            Self::HopLarge => (Target::AtLeast(0.45), Target::AtLeast(0.45)),
            Self::HopSmall | Self::HopSmallBatched => (Target::AtLeast(0.4), Target::AtLeast(0.4)),
            Self::PutCold
            | Self::PutSmall
            | Self::FanIn
            | Self::FanInRouted
            | Self::FanInRoutedByTwo => return None,
        };
        Some(if on_one_core { one } else { two })
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
    fn cpu_time_is_in_milliseconds_for_a_thousand_million_bytes() {
        let figure = Workload::PutLargeCpu.figure(1000, Duration::from_secs(1));
        assert!((figure - 953.674_316).abs() < 1e-3, "{figure}");
    }

    #[test]
    fn throughput_wants_a_high_ratio_and_latency_a_low_one() {
        let missed = [(Workload::PutLarge, 1.04), (Workload::RoundTrip, 1.06)];
        let met = [(Workload::PutLarge, 1.05), (Workload::RoundTrip, 1.05)];
        let target = |workload: Workload| workload.target(false).unwrap();
        for (workload, ratio) in missed {
            assert!(!target(workload).is_met_by(ratio), "{workload:?}");
        }
        for (workload, ratio) in met {
            assert!(target(workload).is_met_by(ratio), "{workload:?}");
        }
    }
}
