//! Limits the log: a line of each kind at most once a second, with the number of suppressed lines. A peer that
//! connects again and again cannot fill the log; the counters count every event.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long further lines of a kind are suppressed.
const SILENCE: Duration = Duration::from_secs(1);

/// When each kind was written last, and how many lines were suppressed since. Kinds are constants of this
/// program, so there are few.
#[derive(Debug, Default)]
pub(crate) struct Quiet(BTreeMap<&'static str, (Instant, u64)>);

impl Quiet {
    /// Returns whether a line of this kind is to be written: the number of lines suppressed since the last
    /// one, or `None`.
    // [TCP-25]
    pub(crate) fn admit(&mut self, kind: &'static str, now: Instant) -> Option<u64> {
        let Some((written, suppressed)) = self.0.get_mut(kind) else {
            self.0.insert(kind, (now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*written) < SILENCE {
            *suppressed = suppressed.saturating_add(1);
            return None;
        }
        *written = now;
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [TCP-25]
    #[test]
    fn a_flood_is_one_line_a_second_that_counts_the_others() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        let mut at =
            |kind, milliseconds| quiet.admit(kind, start + Duration::from_millis(milliseconds));
        let lines: Vec<u64> = (0..2500).filter_map(|time| at("a", time)).collect();
        assert_eq!(lines, [0, 999, 999]);
        assert_eq!(at("b", 2500), Some(0));
    }
}
