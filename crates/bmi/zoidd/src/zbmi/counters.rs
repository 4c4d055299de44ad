//! The counters of the engine. Counters never decrease; [`Gauges`] give the current state.

use std::time::Duration;

/// The counters since the engine was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Expected messages from clients that reached the server's buffers.
    pub expected_in: Traffic,
    /// Expected messages of the server that clients acknowledged.
    pub expected_out: Traffic,
    /// Unexpected messages that reached the unexpected region.
    pub unexpected_in: Traffic,
    /// Unexpected messages among these that came inline, against a credit.
    pub unexpected_inline: u64,
    /// Unexpected messages handed to the server.
    pub unexpected_delivered: u64,
    /// Unexpected messages freed by the server.
    pub unexpected_freed: u64,
    /// The largest number of bytes of the unexpected region in use at once.
    pub pool_high_water: u64,
    /// Clients that attached, without reattachments.
    pub clients_attached: u64,
    /// Clients that came back to their pid.
    pub clients_reattached: u64,
    /// Clients that left with BYE, or were disconnected by the server.
    pub clients_left: u64,
    /// Clients whose connection broke.
    pub clients_lost: u64,
    /// Servers that attached.
    pub servers_attached: u64,
    /// Servers that left or died.
    pub servers_lost: u64,
    /// Sends and receives answered "not now", at once or at their timeout.
    pub not_now: u64,
    /// Sends and receives that began to wait.
    pub waits: u64,
    /// Of these, the ones that found a counterpart or memory.
    pub waits_satisfied: u64,
    /// Repeated sends answered from stored results, after a lost connection.
    pub repeated_sends: u64,
    /// Tests of clients.
    pub client_tests: u64,
    /// Of these, the ones that slept until their timeout.
    pub client_tests_timed_out: u64,
    /// Operations that the server posted, without rejected ones.
    pub posts: u64,
    /// Of these, the ones answered "immediate".
    pub posts_immediate: u64,
    /// Posts held for the call that follows a client's test.
    pub holds: u64,
    /// Of these, the ones whose call came in time.
    pub holds_used: u64,
    /// Of these, the ones that ended at their deadline.
    pub holds_expired: u64,
    /// Cancels that ended an operation.
    pub cancels_honoured: u64,
    /// Cancels of operations that were claimed or complete.
    pub cancels_ignored: u64,
    /// Cancels of operations that do not exist.
    pub cancels_unknown: u64,
    /// Tests of the server.
    pub server_tests: u64,
    /// Of these, the ones that slept until their timeout.
    pub server_tests_timed_out: u64,
    /// Operations of the server that succeeded.
    pub posts_completed: u64,
    /// Operations of the server that failed, including cancelled ones.
    pub posts_failed: u64,
    /// Pairs whose message was larger than the buffer; both sides fail.
    pub size_mismatches: u64,
    /// Transfers that made no progress for too long.
    pub stalls: u64,
    /// Transfers that were stopped, including stalled ones.
    pub transfers_stopped: u64,
    /// Inbound transfers that waited for a bulk slot.
    pub bulk_waits: u64,
    /// Answers that could not be delivered and were taken back.
    pub answers_returned: u64,
    /// What was rejected or ignored, by reason.
    refusals: [u64; Rejection::ALL.len()],
    /// The time of the server's sends from post to completion.
    pub send_to_end: Histogram,
    /// The time of its receives from post to completion.
    pub receive_to_end: Histogram,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// What one client moved since it attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTraffic {
    /// Messages that it sent.
    pub sent: Traffic,
    /// Messages that it received.
    pub received: Traffic,
    /// The number of "not now" answers it received.
    pub not_now: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// Why something was rejected or ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A request of a client that is not attached.
    UnknownPeer,
    /// A request with the number of an outstanding one.
    DuplicateRequest,
    /// A client has too many requests, or a test too many entries.
    RequestLimit,
    /// A message above the limit of its kind.
    TooLong,
    /// An inline payload without a credit.
    NoCredit,
    /// A client tried to attach while the table was full.
    ClientLimit,
    /// A request while the daemon drains.
    Draining,
    /// A second server tried to attach.
    SecondServer,
    /// A command of a session that is not the server's.
    UnknownSession,
    /// A command whose call id is in use, or one too many.
    CallLimit,
    /// A post with segments outside the expected region, a wrong sum, or above a limit.
    BadPost,
    /// A post for a client that is not attached.
    PeerGone,
    /// A post while the table was full.
    PostLimit,
    /// A test that asks for nothing, for too much, or only for operations that do not exist.
    BadTest,
    /// UNEXP_FREE of a message that the server does not hold: freed before, or never delivered.
    BadFree,
    /// A report on a transfer that is not running.
    StaleReport,
    /// A wake-up of something that does not sleep.
    StaleWake,
}

impl Rejection {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 17] = [
        Self::UnknownPeer,
        Self::DuplicateRequest,
        Self::RequestLimit,
        Self::TooLong,
        Self::NoCredit,
        Self::ClientLimit,
        Self::Draining,
        Self::SecondServer,
        Self::UnknownSession,
        Self::CallLimit,
        Self::BadPost,
        Self::PeerGone,
        Self::PostLimit,
        Self::BadTest,
        Self::BadFree,
        Self::StaleReport,
        Self::StaleWake,
    ];

    /// Returns the name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownPeer => "unknown_peer",
            Self::DuplicateRequest => "duplicate_request",
            Self::RequestLimit => "request_limit",
            Self::TooLong => "too_long",
            Self::NoCredit => "no_credit",
            Self::ClientLimit => "client_limit",
            Self::Draining => "draining",
            Self::SecondServer => "second_server",
            Self::UnknownSession => "unknown_session",
            Self::CallLimit => "call_limit",
            Self::BadPost => "bad_post",
            Self::PeerGone => "peer_gone",
            Self::PostLimit => "post_limit",
            Self::BadTest => "bad_test",
            Self::BadFree => "bad_free",
            Self::StaleReport => "stale_report",
            Self::StaleWake => "stale_wake",
        }
    }
}

impl Counters {
    /// Returns the number of rejections with this reason.
    #[must_use]
    pub fn rejections(&self, reason: Rejection) -> u64 {
        self.refusals[reason as usize]
    }

    pub(crate) fn reject(&mut self, reason: Rejection) {
        self.refusals[reason as usize] += 1;
    }
}

/// The current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Attached clients.
    pub clients: usize,
    /// Clients that may reattach.
    pub clients_away: usize,
    /// Outstanding requests of all clients.
    pub requests: usize,
    /// Of these, sends and receives that wait for a counterpart or for memory.
    pub waiting: usize,
    /// Client tests that sleep.
    pub client_tests: usize,
    /// Operations of the server in any state.
    pub posts: usize,
    /// Of these, the ones that are complete and not collected.
    pub posts_done: usize,
    /// Running transfers, including those that wait for a bulk slot.
    pub transfers: usize,
    /// Transfers that wait for a bulk slot.
    pub bulk_waiting: usize,
    /// Unanswered commands of the server.
    pub calls: usize,
    /// Bytes of the unexpected region in use: slots of messages and reserved slots.
    pub pool_used: u64,
    /// Unexpected messages in the region: arriving, waiting to be fetched, and held by the server.
    pub unexpected: usize,
    /// Of these, the ones waiting to be fetched.
    pub unexpected_ready: usize,
}

/// A histogram of durations, by powers of two of a microsecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; Self::BUCKETS],
    sum: Duration,
}

impl Histogram {
    /// Buckets; the last one has no upper limit.
    pub const BUCKETS: usize = 32;

    /// Returns the counts: bucket `i` holds the durations below 2^`i` microseconds and not below half of
    /// that.
    #[must_use]
    pub fn buckets(&self) -> &[u64; Self::BUCKETS] {
        &self.buckets
    }

    /// Returns the sum of all durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bits = (u64::BITS - micros.leading_zeros()) as usize;
        self.buckets[bits.min(Self::BUCKETS - 1)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}
