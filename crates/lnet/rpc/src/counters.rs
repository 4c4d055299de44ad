//! The counters of clients and servers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lnet_types::Time;
use serde::Serialize;

/// A number that only rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time between two lines in the log about one kind of event: a flood must not fill a disk.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// A counter of events that go to the log.
#[derive(Debug, Default)]
pub(crate) struct LoggedCounter {
    counter: Counter,
    /// The time of the last line, and the count at that time.
    line: Mutex<Option<(Time, u64)>>,
}

impl LoggedCounter {
    /// Counts one. Returns the number of events since the last line, this one included, if a line is due.
    pub(crate) fn one(&self, now: Time) -> Option<u64> {
        self.counter.one();
        let count = self.counter.value();
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match *line {
            Some((at, _)) if now.saturating_since(at) < LINE_EVERY => return None,
            last => last.map_or(0, |(_, counted)| counted),
        };
        *line = Some((now, count));
        Some(count - counted)
    }

    fn value(&self) -> u64 {
        self.counter.value()
    }
}

#[derive(Debug, Default)]
pub(crate) struct ClientCounting {
    pub(crate) calls: Counter,
    pub(crate) attempts: Counter,
    pub(crate) retries: Counter,
    pub(crate) late_replies: Counter,
    pub(crate) bad_replies: Counter,
    pub(crate) busy: Counter,
    pub(crate) sessions: Counter,
    pub(crate) failed: Counter,
}

/// The counters of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientCounters {
    /// Calls begun.
    pub calls: u64,
    /// Requests sent, first attempts included.
    pub attempts: u64,
    /// Requests sent in second and further attempts.
    pub retries: u64,
    /// Replies that came to an attempt before the last.
    pub late_replies: u64,
    /// Replies that cannot be decoded, or that answer another call.
    pub bad_replies: u64,
    /// Replies that said "busy".
    pub busy: u64,
    /// Sessions opened: 1, and one more after every restart of the server.
    pub sessions: u64,
    /// Calls that ended without a reply of the handler.
    pub failed: u64,
}

impl ClientCounting {
    pub(crate) fn snapshot(&self) -> ClientCounters {
        ClientCounters {
            calls: self.calls.value(),
            attempts: self.attempts.value(),
            retries: self.retries.value(),
            late_replies: self.late_replies.value(),
            bad_replies: self.bad_replies.value(),
            busy: self.busy.value(),
            sessions: self.sessions.value(),
            failed: self.failed.value(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ServerCounting {
    pub(crate) requests: Counter,
    pub(crate) executed: Counter,
    pub(crate) repeated: Counter,
    pub(crate) replayed: Counter,
    pub(crate) ignored: Counter,
    pub(crate) malformed: LoggedCounter,
    pub(crate) busy: LoggedCounter,
    pub(crate) expired: Counter,
    pub(crate) late: Counter,
    pub(crate) crowded: LoggedCounter,
    pub(crate) full: LoggedCounter,
    pub(crate) displaced: LoggedCounter,
    pub(crate) unread: LoggedCounter,
    pub(crate) refused: LoggedCounter,
    pub(crate) voided: Counter,
    pub(crate) forgotten: Counter,
    pub(crate) replies_lost: Counter,
    pub(crate) bulk_read: Counter,
    pub(crate) bulk_written: Counter,
    pub(crate) bulk_restarts: Counter,
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerCounters {
    /// Requests that arrived and could be decoded.
    pub requests: u64,
    /// Requests executed.
    pub executed: u64,
    /// Requests for a call that was running: the addresses of the new attempt replaced the old ones.
    pub repeated: u64,
    /// Requests for a call that had been executed: its reply was resent.
    pub replayed: u64,
    /// Copies of requests that need no action.
    pub ignored: u64,
    /// Messages that are not requests.
    pub malformed: u64,
    /// Requests answered with "busy" because a limit was reached.
    pub busy: u64,
    /// Requests not executed, and answered with "busy", because their deadline was over or was not a time of this
    /// server's clock.
    pub expired: u64,
    /// Calls that ended after their deadline.
    pub late: u64,
    /// Requests for a session answered with "busy" because their NID, or the NID that brought them, has as many sessions
    /// as one NID may have.
    pub crowded: u64,
    /// Requests for a session answered with "busy" because there are as many sessions as there may be.
    pub full: u64,
    /// Sessions of clients that never began a call, ended to make room for a new client.
    pub displaced: u64,
    /// Requests dropped because their peer has not acknowledged too many answers.
    pub unread: u64,
    /// Requests that ask for more than this server accepts.
    pub refused: u64,
    /// Requests that name another incarnation, or a session that is over.
    pub voided: u64,
    /// Clients forgotten because they were silent.
    pub forgotten: u64,
    /// Replies whose ACK did not come.
    pub replies_lost: u64,
    /// Bytes fetched from clients.
    pub bulk_read: u64,
    /// Bytes sent to clients.
    pub bulk_written: u64,
    /// Times that bulk under way was begun anew at fresh match bits.
    pub bulk_restarts: u64,
}

impl ServerCounting {
    pub(crate) fn snapshot(&self) -> ServerCounters {
        ServerCounters {
            requests: self.requests.value(),
            executed: self.executed.value(),
            repeated: self.repeated.value(),
            replayed: self.replayed.value(),
            ignored: self.ignored.value(),
            malformed: self.malformed.value(),
            busy: self.busy.value(),
            expired: self.expired.value(),
            late: self.late.value(),
            crowded: self.crowded.value(),
            full: self.full.value(),
            displaced: self.displaced.value(),
            unread: self.unread.value(),
            refused: self.refused.value(),
            voided: self.voided.value(),
            forgotten: self.forgotten.value(),
            replies_lost: self.replies_lost.value(),
            bulk_read: self.bulk_read.value(),
            bulk_written: self.bulk_written.value(),
            bulk_restarts: self.bulk_restarts.value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flood_is_logged_and_none_fills_the_log() {
        let counter = LoggedCounter::default();
        let at = |second| Time::from_secs(second);
        assert_eq!(counter.one(at(100)), Some(1));
        assert!((0..500).all(|_| counter.one(at(159)).is_none()));
        assert_eq!(counter.one(at(160)), Some(501));
        assert_eq!(counter.one(at(7200)), Some(1));
        assert_eq!(counter.value(), 503);
    }
}
