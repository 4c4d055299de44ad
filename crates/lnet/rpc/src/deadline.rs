//! The deadline of a request by the server's clock: keeps a server from executing requests whose clients have
//! stopped waiting.
//!
//! A server that stood still, or a router before it, may hold a request for any length of time. Meanwhile the
//! client may have gone to another server of the same files. If the first server then executed the request, it
//! would undo what the client did at the other server. So each request says when its client stops waiting, by
//! the server's clock.
//!
//! ```text
//!   server   ──── said T ────────────────────────── deadline ≤ D ───▶ refuses to begin
//!                      ╲ reply                    ╱ request: T + (D − received)
//!   client   ──────────── heard ─────────────────────── D: gives up
//! ```
//!
//! The two clocks need not agree; they must only run at the same rate to within one part in 1024. The deadline
//! that the server reads is never later than the client's deadline. It is earlier by the delay of the quickest
//! recent reply, because a reply takes time, and by 1/1024 of the time from that reply to the deadline.

use std::time::Duration;

use lnet_types::Time;

/// The clock of one life of a server, in milliseconds. The clock begins at a random number. So a time by the
/// clock of another life reads as over, or as so far in the future that no client waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    begin: u64,
}

/// The clocks of client and server run at the same rate to within one part in this number.
const DRIFT: u64 = 1024;
/// The longest time that a client waits, in milliseconds.
const WAIT_MAX: u64 = u32::MAX as u64;

impl ServerClock {
    pub(crate) fn begin(begin: u64) -> Self {
        Self { begin }
    }

    /// Returns what the clock shows at `now`.
    pub(crate) fn show(self, now: Time) -> u64 {
        self.begin.wrapping_add(now.as_nanos() / 1_000_000)
    }

    /// Converts `deadline` to the server's own time. Returns `now` if the deadline is over, or was made by the
    /// clock of another life.
    pub(crate) fn read(self, deadline: u64, now: Time) -> Time {
        match deadline.wrapping_sub(self.show(now)) {
            left @ 1..=WAIT_MAX => now + Duration::from_millis(left),
            _ => now,
        }
    }
}

/// What a client knows of its server's clock: the time that a reply reported, and when the reply came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    clock: u64,
    received: Time,
}

impl ClockReading {
    pub(crate) fn new(clock: u64, received: Time) -> Self {
        Self { clock, received }
    }

    /// Returns the earliest time that the server's clock can show at `time` of the client's clock.
    pub(crate) fn at(self, time: Time) -> u64 {
        let since = time.saturating_since(self.received).as_millis();
        let since = u64::try_from(since).unwrap_or(WAIT_MAX).min(WAIT_MAX);
        self.clock.wrapping_add(since - since.div_ceil(DRIFT))
    }

    /// Returns the better of two readings: the one that puts the server's clock further ahead, or the newer one
    /// if the two are from different lives of the server.
    pub(crate) fn or_newer(self, newer: Self) -> Self {
        let behind = self.at(newer.received).wrapping_sub(newer.clock);
        if (1..=WAIT_MAX).contains(&behind) {
            self
        } else {
            newer
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    proptest! {
        #[test]
        fn a_request_expires_before_its_client_gives_up_and_earlier_by_the_way_of_the_reply_only(
            begin in any::<u64>(),
            told in 0..1_000_000_u64,
            way in 0..10_000_u64,
            // The offset of the client's clock, which began at another time.
            ahead in 0..1_000_000_u64,
            asked in 0..1_000_000_u64,
            patience in 1..100_000_u64,
            early in 0..100_000_u64,
        ) {
            let clock = ServerClock::begin(begin);
            let known = ClockReading::new(clock.show(at(told)), at(told + way + ahead));
            let gives_up = told + way + asked + patience;
            let deadline = known.at(at(gives_up + ahead));
            prop_assert!(clock.read(deadline, at(gives_up)) <= at(gives_up));
            let now = gives_up.saturating_sub(early).max(told + way);
            let drift = (asked + patience).div_ceil(DRIFT);
            let expected = at(gives_up - way - drift).max(at(now));
            prop_assert_eq!(clock.read(deadline, at(now)), expected);
        }

        #[test]
        fn a_reply_that_took_long_tells_nothing_new(begin in any::<u64>(), quick in 0..100_u64, slow in 1000..20_000_u64) {
            let clock = ServerClock::begin(begin);
            let known = ClockReading::new(clock.show(at(1000)), at(1000 + quick));
            let late = ClockReading::new(clock.show(at(2000)), at(2000 + slow));
            prop_assert_eq!(known.or_newer(late), known);
            prop_assert_eq!(late.or_newer(ClockReading::new(clock.show(at(50_000)), at(50_000))).received, at(50_000));
        }

        #[test]
        fn a_time_of_another_life_is_over(begin in any::<u64>(), apart in 1 << 40..u64::MAX / 2, told in 0..1_000_000_u64) {
            let (old, new) = (ServerClock::begin(begin), ServerClock::begin(begin.wrapping_sub(apart)));
            let deadline = ClockReading::new(old.show(at(told)), at(0)).at(at(60_000));
            prop_assert_eq!(new.read(deadline, at(1000)), at(1000));
            let (of_old, of_new) = (ClockReading::new(old.show(at(told)), at(0)), ClockReading::new(new.show(at(0)), at(1000)));
            prop_assert_eq!(of_old.or_newer(of_new), of_new);
        }
    }
}
