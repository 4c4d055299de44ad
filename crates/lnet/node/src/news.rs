//! Limits the news in the log, so that a frequent change does not flood it.

use std::time::Duration;

use lnet_types::Time;

/// The most lines in one [`WINDOW`], so that a link that flaps, or a fabric that fails, fills no disk.
const LINES_MAX: u32 = 30;
const WINDOW: Duration = Duration::from_secs(60);

/// The number of news lines written, and of those left out.
#[derive(Debug, Default)]
pub struct NewsLimit {
    begun: Time,
    lines: u32,
    left_out: u64,
}

impl NewsLimit {
    /// Counts news that were left out elsewhere.
    pub(crate) fn leave_out(&mut self, count: u64) {
        self.left_out += count;
    }

    /// Decides whether a line may be written now. Returns the number of news left out since the last line;
    /// `None` if the limit is reached.
    pub fn admit(&mut self, now: Time) -> Option<u64> {
        if now.saturating_since(self.begun) >= WINDOW {
            self.begun = now;
            self.lines = 0;
        }
        if self.lines >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_limited_and_those_left_out_are_counted() {
        let mut limit = NewsLimit::default();
        let at = Time::from_secs(100);
        let written = (0..50).filter(|_| limit.admit(at).is_some()).count();
        assert_eq!(written, 30);
        assert_eq!(limit.admit(Time::from_secs(161)), Some(20));
        assert_eq!(limit.admit(Time::from_secs(161)), Some(0));
    }
}
