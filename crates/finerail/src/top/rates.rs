//! Computes rates of counters from two samples.
//!
//! A counter that is smaller than before was zeroed, or its owner is new; it counts as grown from zero. A node
//! whose uptime is shorter than before was restarted, so there are no rates until the next sample.

/// The time between two samples of the same run of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    seconds: f64,
}

impl Span {
    /// Returns the time between two uptimes; `None` if it is zero, or if the node was restarted in between.
    pub(super) fn between(before_nanos: u64, after_nanos: u64) -> Option<Self> {
        let nanos = after_nanos.checked_sub(before_nanos)?;
        (nanos > 0).then(|| Self {
            seconds: nanos as f64 / 1e9,
        })
    }

    /// Returns the growth of a counter per second.
    pub(super) fn rate(self, before: u64, after: u64) -> f64 {
        growth(before, after) as f64 / self.seconds
    }
}

/// Returns how much a counter has grown.
pub(super) fn growth(before: u64, after: u64) -> u64 {
    after.checked_sub(before).unwrap_or(after)
}

/// Returns the quantile `share` of the values that were counted between two samples of a histogram, in
/// nanoseconds: the upper limit of the bucket that contains it. `None` without values. Values above the last
/// limit count as that limit.
pub(super) fn quantile(before: &[(u64, u64)], after: &[(u64, u64)], share: f64) -> Option<u64> {
    let grown = |(at, (bound, count)): (usize, &(u64, u64))| {
        let before = before.get(at).map_or(0, |(_, count)| *count);
        (*bound, growth(before, *count))
    };
    let grown: Vec<(u64, u64)> = after.iter().enumerate().map(grown).collect();
    let total: u64 = grown.iter().map(|(_, count)| count).sum();
    let mut left = (total as f64 * share).ceil().max(1.0) as u64;
    let mut highest = 0;
    for (bound, count) in grown {
        highest = highest.max(bound);
        if count >= left {
            return Some(highest);
        }
        left -= count;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_rate_is_growth_over_time() {
        let span = Span::between(3 * SECOND, 5 * SECOND).unwrap();
        assert_eq!(span.rate(100, 150), 25.0);
    }

    #[test]
    fn a_count_that_was_zeroed_has_grown_from_zero() {
        let span = Span::between(0, SECOND).unwrap();
        assert_eq!(span.rate(1000, 7), 7.0);
    }

    #[test]
    fn a_node_that_started_anew_has_no_rates_yet() {
        assert_eq!(Span::between(9 * SECOND, SECOND), None);
        assert_eq!(Span::between(SECOND, SECOND), None);
    }

    #[test]
    fn a_quantile_is_of_what_came_between_the_looks() {
        let before = [(10, 100), (20, 0), (0, 0)];
        let after = [(10, 101), (20, 98), (0, 1)];
        assert_eq!(quantile(&before, &after, 0.5), Some(20));
        assert_eq!(quantile(&before, &after, 0.001), Some(10));
        assert_eq!(quantile(&before, &after, 1.0), Some(20), "the last bound");
        assert_eq!(quantile(&after, &after, 0.5), None);
        assert_eq!(quantile(&[], &[(5, 1)], 0.99), Some(5));
    }

    proptest! {
        #[test]
        fn no_counts_make_a_rate_that_is_no_number(
            before: u64, after: u64, early: u64, late: u64,
        ) {
            if let Some(span) = Span::between(early, late) {
                let rate = span.rate(before, after);
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }
}
