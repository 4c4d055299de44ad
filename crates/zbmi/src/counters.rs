//! What the engine counts (section 4.9). Everything counts up; nothing is ever taken back, except in
//! [`Gauges`], which say how things stand now.

use std::time::Duration;

/// Counters of an engine since it was built.
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
    /// The most bytes of the unexpected region that were ever in use at once.
    pub pool_high_water: u64,
    /// Clients that attached, reattachments not among them.
    pub clients_attached: u64,
    /// Clients that came back to their pid.
    pub clients_reattached: u64,
    /// Clients that left with a farewell, or were sent away by the server.
    pub clients_left: u64,
    /// Clients whose link broke.
    pub clients_lost: u64,
    /// Servers that attached.
    pub servers_attached: u64,
    /// Servers that left, with a farewell or without.
    pub servers_lost: u64,
    /// Sends and receives answered "not now" at once, or because they waited in vain.
    pub not_now: u64,
    /// Sends and receives that began to wait.
    pub waits: u64,
    /// Of these, the ones that got what they waited for.
    pub waits_satisfied: u64,
    /// Sends answered from the memory of completed ones, after a broken link.
    pub repeated_sends: u64,
    /// Tests of clients.
    pub client_tests: u64,
    /// Of these, the ones that slept until their timeout.
    pub client_tests_timed_out: u64,
    /// Operations that the server posted, refused ones not among them.
    pub posts: u64,
    /// Of these, the ones answered "immediate".
    pub posts_immediate: u64,
    /// Posts held for the follow-up of a client's test.
    pub holds: u64,
    /// Of these, the ones whose follow-up came in time.
    pub holds_used: u64,
    /// Of these, the ones that ended at their deadline.
    pub holds_expired: u64,
    /// Cancels that took an operation back.
    pub cancels_honoured: u64,
    /// Cancels of operations that were claimed or complete.
    pub cancels_ignored: u64,
    /// Cancels of operations that do not exist (any more).
    pub cancels_unknown: u64,
    /// Tests of the server.
    pub server_tests: u64,
    /// Of these, the ones that slept until their timeout.
    pub server_tests_timed_out: u64,
    /// Operations of the server that ended well.
    pub posts_completed: u64,
    /// Operations of the server that ended with an error, cancelled ones among them.
    pub posts_failed: u64,
    /// Pairs whose message was larger than the buffer (both ends fail).
    pub size_mismatches: u64,
    /// Transfers that made no progress for too long.
    pub stalls: u64,
    /// Transfers that were stopped, stalled ones among them.
    pub transfers_stopped: u64,
    /// Inbound transfers that waited for a bulk slot.
    pub bulk_waits: u64,
    /// Answers that could not be delivered and were taken back.
    pub answers_returned: u64,
    /// What was refused or ignored, by reason.
    refusals: [u64; Refusal::ALL.len()],
    /// How long the server's sends took from post to end.
    pub send_to_end: Histogram,
    /// How long its receives took.
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
    /// How often it was told "not now".
    pub not_now: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// Why something was refused or ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A client that is not attached (any more) asked for something.
    UnknownPeer,
    /// A client used the number of an outstanding request again.
    DuplicateRequest,
    /// A client has too many requests, or a test too many entries.
    RequestLimit,
    /// A message above the limit of its kind.
    TooLong,
    /// An inline payload without a credit.
    NoCredit,
    /// A client wanted to attach and the table was full.
    ClientLimit,
    /// Something came while the daemon drains.
    Draining,
    /// A second server wanted to attach.
    SecondServer,
    /// A command of a session that is not the server's.
    UnknownSession,
    /// A command whose name is in use, or one too many.
    CallLimit,
    /// A post with segments outside the expected region, a wrong sum, or above a limit.
    BadPost,
    /// A post for a client that is not attached.
    PeerGone,
    /// A post when the table was full.
    PostLimit,
    /// A test that asks for nothing, for too much, or only for operations that do not exist.
    BadTest,
    /// UNEXP_FREE of something that is not the server's to free: freed before, or never delivered.
    BadFree,
    /// A report on a transfer that is not running (any more).
    StaleReport,
    /// A wake-up of something that does not sleep (any more).
    StaleWake,
}

impl Refusal {
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

    /// Its name in metrics.
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
    /// How often this was the reason of a refusal.
    #[must_use]
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refusals[reason as usize]
    }

    pub(crate) fn refuse(&mut self, reason: Refusal) {
        self.refusals[reason as usize] += 1;
    }
}

/// How things stand now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Attached clients.
    pub clients: usize,
    /// Clients that may reattach.
    pub clients_away: usize,
    /// Outstanding requests of all clients.
    pub requests: usize,
    /// Sends and receives among these that wait for a counterpart or for memory.
    pub waiting: usize,
    /// Client tests that sleep.
    pub client_tests: usize,
    /// Operations of the server, in whatever state.
    pub posts: usize,
    /// Of these, the ones that are complete and not collected.
    pub posts_done: usize,
    /// Running transfers, those that wait for a bulk slot among them.
    pub transfers: usize,
    /// Transfers that wait for a bulk slot.
    pub bulk_waiting: usize,
    /// Unanswered commands of the server.
    pub calls: usize,
    /// Bytes of the unexpected region in use: slots of messages and reserved ones.
    pub pool_used: u64,
    /// Unexpected messages in the region: arriving, to be fetched, and to be freed.
    pub unexpected: usize,
    /// Of these, the ones to be fetched.
    pub unexpected_ready: usize,
}

/// How often a duration fell between two powers of two of a microsecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; Self::BUCKETS],
    sum: Duration,
}

impl Histogram {
    /// Buckets; the last one has no upper limit.
    pub const BUCKETS: usize = 32;

    /// How many durations were below 2^`i` microseconds and not below half of that, by `i`.
    #[must_use]
    pub fn buckets(&self) -> &[u64; Self::BUCKETS] {
        &self.buckets
    }

    /// All durations together.
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
