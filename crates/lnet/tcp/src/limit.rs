//! Limits log lines so that a hostile peer cannot fill the log. Each reason and peer is logged
//! once, then at most once a minute together with the number of lines left out. Counters elsewhere
//! count everything.

use std::net::IpAddr;
use std::time::Duration;

use lnet_types::Time;
use rustc_hash::FxHashMap;

/// How long further lines about the same reason and peer are left out.
const SILENCE: Duration = Duration::from_secs(60);

/// The most pairs of reason and peer remembered. Beyond that, the lines of a flood count as one
/// entry per reason.
const ENTRIES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Entry {
    written_at: Time,
    left_out: u64,
}

/// Remembers when which lines were logged.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    entries: FxHashMap<(&'static str, Option<IpAddr>), Entry>,
}

impl LogLimiter {
    /// Decides whether a line about `topic` and `peer` is logged now. If so, returns how many such
    /// lines were left out before it.
    pub(crate) fn admit(&mut self, topic: &'static str, peer: IpAddr, now: Time) -> Option<u64> {
        let mut key = (topic, Some(peer));
        if !self.entries.contains_key(&key) && self.entries.len() >= ENTRIES_MAX {
            self.entries
                .retain(|_, entry| now - entry.written_at < SILENCE);
            if self.entries.len() >= ENTRIES_MAX {
                // There are few topics, so this adds few entries.
                key = (topic, None);
            }
        }
        match self.entries.get_mut(&key) {
            Some(entry) if now - entry.written_at < SILENCE => {
                entry.left_out += 1;
                None
            }
            Some(entry) => {
                entry.written_at = now;
                Some(std::mem::take(&mut entry.left_out))
            }
            None => {
                self.entries.insert(
                    key,
                    Entry {
                        written_at: now,
                        left_out: 0,
                    },
                );
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_line_is_written_once_and_counted_until_the_silence_is_over() {
        let mut log = LogLimiter::default();
        assert_eq!(log.admit("bad", PEER, Time::from_secs(1)), Some(0));
        assert_eq!(log.admit("bad", PEER, Time::from_secs(2)), None);
        assert_eq!(log.admit("bad", PEER, Time::from_secs(60)), None);
        assert_eq!(log.admit("bad", PEER, Time::from_secs(61)), Some(2));
        assert_eq!(log.admit("bad", PEER, Time::from_secs(122)), Some(0));
    }

    #[test]
    fn another_reason_or_peer_has_its_own_line() {
        let mut log = LogLimiter::default();
        assert_eq!(log.admit("bad", PEER, Time::ZERO), Some(0));
        assert_eq!(log.admit("worse", PEER, Time::ZERO), Some(0));
        assert_eq!(log.admit("bad", OTHER, Time::ZERO), Some(0));
    }

    #[test]
    fn a_flood_of_peers_does_not_grow_the_memory() {
        let mut log = LogLimiter::default();
        let written = (0..10_000_u32)
            .filter(|&n| {
                log.admit("bad", Ipv4Addr::from_bits(n).into(), Time::ZERO)
                    .is_some()
            })
            .count();
        assert_eq!(written, ENTRIES_MAX + 1);
        assert!(log.entries.len() <= ENTRIES_MAX + 1);
    }
}
