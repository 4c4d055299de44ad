//! What the method has done, for tests and for whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};

use zoid_proto::ServerStatistics;

/// Declares the counters once: as atomics and as a snapshot.
macro_rules! counters {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// Counters that only grow. Shared with the method that counts.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($name: Counter,)*
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$documentation])* pub $name: u64,)*
        }

        impl Counters {
            /// Their values now.
            #[must_use]
            pub fn read(&self) -> Counts {
                Counts {
                    $($name: self.$name.0.load(Ordering::Relaxed),)*
                }
            }

            $(pub(crate) fn $name(&self) -> &Counter {
                &self.$name
            })*
        }
    };
}

counters! {
    /// Frames that a client sent to the daemon, of whatever type.
    frames_sent,
    /// Frames that a client received from the daemon.
    frames_received,
    /// Bytes of frames that a client sent, payload included.
    bytes_sent,
    /// Bytes of frames that a client received, payload included.
    bytes_received,
    /// Operations that the program posted.
    posts,
    /// Of these, the ones that finished in their post.
    posts_immediate,
    /// Forwarded calls: sends, receives and tests that a client asked the daemon for.
    exchanges,
    /// Forwarded tests among them.
    tests,
    /// Refusals of sends and receives that may succeed later.
    not_now,
    /// PING frames that a client sent.
    pings_sent,
    /// Connections to the daemon after the first.
    reconnects,
    /// Frames or replies that made no sense and were dropped, or ended a connection.
    protocol_errors,
    /// Commands that a server sent to the plugin.
    commands,
    /// Payload copies that a server made between external memory and the segment.
    copies,
    /// Pieces of the segment that a server took for external memory.
    temporary_buffers,
    /// Server operations that had to wait for memory of the pool.
    waited_for_memory,
    /// Such waits that are over.
    memory_waits_over,
    /// The longest of these, in microseconds.
    longest_memory_wait_us,
    /// Allocations of a server's program refused in favour of operations that wait for memory.
    allocations_held_back,
    /// Bytes of the segment that a server took for programs and temporary buffers, rounded up.
    memory_taken,
    /// Bytes of these that it gave back.
    memory_returned,
    /// Reply queues that a server made.
    reply_queues,
    /// Guards around a server's memory that were found overwritten.
    broken_guards,
    /// Unexpected messages that a server received.
    unexpected_received,
}

impl Counts {
    /// What a server tells the daemon.
    pub(crate) fn statistics(&self) -> ServerStatistics {
        let waits = self.waited_for_memory;
        ServerStatistics {
            copies: self.copies,
            temporary_buffers: self.temporary_buffers,
            memory_waits: waits,
            // Read one after the other while others count.
            waiting_for_memory: waits.saturating_sub(self.memory_waits_over),
            longest_memory_wait_us: self.longest_memory_wait_us,
            allocations_held_back: self.allocations_held_back,
            memory_used: self.memory_taken.saturating_sub(self.memory_returned),
            protocol_errors: self.protocol_errors,
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn up(&self) {
        self.add(1);
    }

    /// Makes it at least so large.
    pub(crate) fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}
