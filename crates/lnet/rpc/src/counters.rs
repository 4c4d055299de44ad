//! The counters of clients and servers.

use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Counts one. Returns whether it is the first, which goes to the log: a flood must not fill a disk.
    pub(crate) fn is_first(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
    pub(crate) malformed: Counter,
    pub(crate) busy: Counter,
    pub(crate) expired: Counter,
    pub(crate) late: Counter,
    pub(crate) crowded: Counter,
    pub(crate) full: Counter,
    pub(crate) displaced: Counter,
    pub(crate) unread: Counter,
    pub(crate) refused: Counter,
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
