//! Histograms of latencies: how many latencies are in each range.
//!
//! ```text
//!  bounds   5 µs   10 µs   20 µs   50 µs  …  20 s   50 s     a value counts in the first range
//!  counts [ .. | ..    | ..    | ..    |  …  | ..   | .. ]   whose bound it does not exceed
//! ```
//!
//! The memory is fixed, and adding a value takes one search in a table, so that a value can be added for every
//! message. Local interfaces have histograms. Peer interfaces, of which there may be 100,000, have only
//! [`crate::LatencyStats`].

/// Upper bounds of all ranges but the last, in nanoseconds: 1, 2 and 5 of each decade, from the time to wake a thread
/// up to the usual transaction timeout.
pub const LATENCY_LIMITS: [u64; 22] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;
    const S: u64 = 1_000 * MS;
    [
        5 * US,
        10 * US,
        20 * US,
        50 * US,
        100 * US,
        200 * US,
        500 * US,
        MS,
        2 * MS,
        5 * MS,
        10 * MS,
        20 * MS,
        50 * MS,
        100 * MS,
        200 * MS,
        500 * MS,
        S,
        2 * S,
        5 * S,
        10 * S,
        20 * S,
        50 * S,
    ]
};

/// The numbers of latencies in each range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: [u64; LATENCY_LIMITS.len() + 1],
}

impl LatencyHistogram {
    /// Returns each range: its upper bound in nanoseconds, `None` for the last range, and the number of values in the
    /// range.
    pub fn ranges(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = LATENCY_LIMITS.iter().copied().map(Some);
        bounds
            .chain(std::iter::once(None))
            .zip(self.counts.iter().copied())
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        let at = LATENCY_LIMITS.partition_point(|bound| *bound < nanos);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }
}

/// The histograms of an interface, one for each latency of [`crate::LatencyStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistograms {
    /// From the choice of the path of a PUT until the LND reports its end.
    pub put_egress: LatencyHistogram,
    /// From the choice of the path of a GET until its REPLY has arrived.
    pub get_rtt: LatencyHistogram,
    /// From the choice of the path of a PUT until its ACK has arrived.
    pub put_ack: LatencyHistogram,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        values.iter().for_each(|&nanos| histogram.add(nanos));
        histogram
    }

    #[test]
    fn a_bound_belongs_to_its_own_range() {
        let counts: Vec<u64> = of(&[0, 5_000, 5_001, u64::MAX])
            .ranges()
            .map(|(_, count)| count)
            .collect();
        assert_eq!(counts.first(), Some(&2));
        assert_eq!(counts.get(1), Some(&1));
        assert_eq!(counts.last(), Some(&1));
    }

    #[test]
    fn bounds_rise() {
        assert!(LATENCY_LIMITS.is_sorted_by(|low, high| low < high));
    }

    proptest! {
        #[test]
        fn every_value_lies_in_one_range(values in proptest::collection::vec(any::<u64>(), 0..50)) {
            let histogram = of(&values);
            let mut below = 0;
            for (bound, count) in histogram.ranges() {
                below += count;
                let expected = values.iter().filter(|&&nanos| bound.is_none_or(|bound| nanos <= bound));
                prop_assert_eq!(below, expected.count() as u64);
            }
        }
    }
}
