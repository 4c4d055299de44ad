//! Limits the log: each kind of line is written at most once a second, with the number of suppressed lines. A
//! hostile client cannot fill the log. The events themselves are counted elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::zbmi::Time;

/// How long further lines of a kind are suppressed.
const SILENCE: Duration = Duration::from_secs(1);

/// When each kind was written last. Kinds are constants of this program, so there are few.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter(BTreeMap<&'static str, Line>);

#[derive(Debug)]
struct Line {
    written: Time,
    left_out: u64,
}

impl LogLimiter {
    /// Returns whether a line of this kind is to be written now: the number of lines suppressed since the
    /// last one, or `None`.
    // [SAFE-6]
    pub(crate) fn admit(&mut self, kind: &'static str, now: Time) -> Option<u64> {
        let Some(line) = self.0.get_mut(kind) else {
            let (written, left_out) = (now, 0);
            self.0.insert(kind, Line { written, left_out });
            return Some(0);
        };
        if now.since(line.written) < SILENCE {
            line.left_out = line.left_out.saturating_add(1);
            return None;
        }
        line.written = now;
        Some(std::mem::take(&mut line.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::after(Duration::from_millis(milliseconds))
    }

    // [SAFE-6]
    #[test]
    fn a_flood_is_one_line_a_second_that_says_how_many_were_left_out() {
        let mut log_limiter = LogLimiter::default();
        let lines: Vec<u64> = (0..3500)
            .filter_map(|milliseconds| log_limiter.admit("order", at(milliseconds)))
            .collect();
        assert_eq!(lines, [0, 999, 999, 999]);
    }

    // [SAFE-6]
    #[test]
    fn another_kind_is_heard_amid_a_flood() {
        let mut log_limiter = LogLimiter::default();
        assert_eq!(log_limiter.admit("order", at(0)), Some(0));
        assert_eq!(log_limiter.admit("order", at(1)), None);
        assert_eq!(log_limiter.admit("silent", at(1)), Some(0));
    }
}
