//! Advice to a client's user, logged once per client.

use std::time::Duration;

use crate::zbmi::Time;

/// Counts the short tests of one client within the current second.
///
/// Each test of a client costs an exchange with the I/O node, so long timeouts are better; a second is short.
/// A client with more than 100 unsuccessful tests a second was probably written without knowing this.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TestRate {
    since: Time,
    count: u32,
    said: bool,
}

/// The number of tests a second above which advice is due.
const MANY: u32 = 100;

/// Timeouts below this are short.
const SHORT: Duration = Duration::from_millis(1000);

impl TestRate {
    /// Records a test with this timeout. Returns whether advice is due.
    // [WATCH-4]
    pub(crate) fn test(&mut self, now: Time, timeout: Duration) -> bool {
        if timeout >= SHORT || self.said {
            return false;
        }
        if now.since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.count = 0;
        }
        self.count += 1;
        self.said = self.count > MANY;
        self.said
    }

    /// Records that a test found something.
    pub(crate) fn found(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::after(Duration::from_millis(milliseconds))
    }

    // [WATCH-4]
    #[test]
    fn advice_is_given_once_after_a_hundred_short_tests_in_a_second() {
        let mut rate = TestRate::default();
        let short = Duration::from_millis(10);
        let said = (0..1000).filter(|i| rate.test(at(*i), short)).count();
        assert_eq!(said, 1);
    }

    // [WATCH-4]
    #[test]
    fn long_few_or_fruitful_tests_need_no_advice() {
        let mut rate = TestRate::default();
        assert!(!(0..1000).any(|i| rate.test(at(i), Duration::from_secs(1))));
        assert!(!(0..1000).any(|i| rate.test(at(i * 10), Duration::ZERO)));
        let mut rate = TestRate::default();
        for i in 0..1000 {
            assert!(!rate.test(at(i), Duration::ZERO));
            rate.found();
        }
    }
}
