//! How long messages take: counts, extremes and sums.

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

    pub(crate) fn add(&mut self, nanos: u64) {
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
