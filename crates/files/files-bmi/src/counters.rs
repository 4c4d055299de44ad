//! The counters of clients and forwarders.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines counters that are incremented by name and read together.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident, $(#[$about_counts:meta])* $counts:ident { $($(#[doc = $doc:literal])* $field:ident)* }) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub struct $name {
            $(pub(crate) $field: Counter,)*
        }

        $(#[$about_counts])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $counts {
            $($(#[doc = $doc])* pub $field: u64,)*
        }

        impl $name {
            /// All of them now.
            #[must_use]
            pub fn snapshot(&self) -> $counts {
                $counts { $($field: self.$field.value(),)* }
            }
        }

        impl $counts {
            /// Names, what they count, and the numbers.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), concat!($($doc),*).trim_ascii(), self.$field),)*]
            }
        }
    };
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn up(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Counters of a client.
    ClientCounters,
    /// Values of [`ClientCounters`] at one time.
    ClientCounts {
        /// Calls that were made.
        calls
        /// Attempts of calls: messages that begin an exchange.
        attempts
        /// Posted messages, sends and receives.
        messages
        /// Attempts lost because the daemon, the forwarder or the connection failed.
        lost
        /// Calls that expired.
        timed_out
        /// Calls with an unknown outcome.
        outcome_unknown
        /// Answers that violated the protocol.
        bad_answers
        /// Bytes copied between the memory of callers and that of messages.
        copied_bytes
    }
}

counters! {
    /// Counters of a forwarder.
    Counters,
    /// Values of [`Counters`] at one time.
    Counts {
        /// Exchanges that began.
        exchanges
        /// Operations that the file system executed.
        operations
        /// Operations that merged several adjacent ones.
        merged_operations
        /// Reads and writes that were merged into another one.
        merged_pieces
        /// Posted messages, sends and receives.
        messages
        /// Bytes that clients wrote.
        written_bytes
        /// Bytes that clients read.
        read_bytes
        /// Answers that were stored and sent once more.
        answers_repeated
        /// Attempts that waited for an earlier attempt of the same slot.
        attempts_waited
        /// Operations that ended with "outcome unknown", because this forwarder does not know their outcome.
        outcome_unknown
        /// Clients whose state was removed, because there were too many clients.
        clients_forgotten
        /// Highest number of bytes in buffers at the same time.
        memory_high_bytes
        /// Buffers that were taken from clients without progress, because other clients waited.
        buffers_taken_back
        /// Buffers allocated on the heap, because the method had no memory.
        buffers_of_the_heap
        /// Dropped messages: they were not calls.
        dropped_garbage
        /// Dropped messages: the peer had too many exchanges in flight.
        dropped_too_many
        /// Dropped messages: a later attempt or call had already arrived.
        dropped_late
        /// Dropped messages: the slot does not exist.
        dropped_bad_slot
        /// Exchanges ended with an error: the request was malformed.
        bad_requests
        /// Exchanges ended with an error: a message did not have the announced length.
        bad_lengths
        /// Exchanges cancelled: the daemon, the client or its connection was lost.
        exchanges_lost
        /// Exchanges cancelled: no progress for too long.
        exchanges_stalled
        /// Answers that did not reach their client.
        answers_lost
        /// Addresses of clients that were removed after their clients had ended.
        addresses_forgotten
    }
}

/// Why a message of a client was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The message was not a call.
    Garbage,
    /// The peer had too many exchanges in flight.
    TooMany,
    /// A later attempt or call had arrived before.
    Late,
    /// The slot does not exist.
    BadSlot,
}

impl Counters {
    pub(crate) fn dropped(&self, why: Dropped) {
        match why {
            Dropped::Garbage => self.dropped_garbage.up(),
            Dropped::TooMany => self.dropped_too_many.up(),
            Dropped::Late => self.dropped_late.up(),
            Dropped::BadSlot => self.dropped_bad_slot.up(),
        }
    }
}
