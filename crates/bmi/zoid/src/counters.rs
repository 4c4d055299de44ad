//! The counters of the method.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zoid_proto::ServerStatistics;

/// Declares the counters once, as atomics and as a snapshot.
macro_rules! counters {
    ($($(#[doc = $documentation:literal])* $name:ident,)*) => {
        /// Counters that only increase, or hold a maximum. Shared with the running method.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($name: Counter,)*
            post_to_end: Latency,
        }

        /// A snapshot of the counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $documentation])* pub $name: u64,)*
        }

        impl Counters {
            /// Returns the current values.
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

        impl Counts {
            /// Returns every counter with its name and meaning, in the order of the documentation.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((
                    stringify!($name),
                    concat!($($documentation),*).trim_ascii(),
                    self.$name,
                ),)*]
                .into_iter()
            }
        }
    };
}

counters! {
    /// Frames that a client sent to the daemon.
    frames_sent,
    /// Frames that a client received from the daemon.
    frames_received,
    /// Bytes of frames that a client sent, payload included.
    bytes_sent,
    /// Bytes of frames that a client received, payload included.
    bytes_received,
    /// Operations that the program posted.
    posts,
    /// Of these, the ones that completed in their post.
    posts_immediate,
    /// Forwarded calls: sends, receives and tests that a client sent to the daemon.
    exchanges,
    /// Of these, tests.
    tests,
    /// Sends and receives that found no counterpart and may succeed later.
    not_now,
    /// Tests that slept for a fixed time, because nothing signals the change they wait for.
    fixed_pauses,
    /// Messages whose memory a client let the daemon copy.
    memory_shown,
    /// PING frames that a client sent.
    pings_sent,
    /// Connections to the daemon after the first.
    reconnects,
    /// Of these, connections over which a client's operations continued.
    sessions_resumed,
    /// Of these, connections to a daemon that no longer knew the client.
    sessions_lost,
    /// Invalid frames or replies; each was dropped or ended a connection.
    protocol_errors,
    /// Commands that a server sent to the plugin.
    commands,
    /// Copies of payload that a server made between external memory and the segment.
    copies,
    /// Pieces of the segment that a server allocated to stand for external memory.
    temporary_buffers,
    /// Server operations that waited for memory of the pool.
    waited_for_memory,
    /// Of these waits, the ones that ended.
    memory_waits_over,
    /// The longest of these, in microseconds.
    longest_memory_wait_us,
    /// Allocations of a server's program rejected in favour of operations that wait for memory.
    allocations_held_back,
    /// Bytes of the segment that a server allocated for programs and temporary buffers, rounded up.
    memory_taken,
    /// Bytes of these that were freed.
    memory_returned,
    /// Reply queues that a server created.
    reply_queues,
    /// Unexpected messages that a server received.
    unexpected_received,
}

impl Counters {
    /// The time of a client's operations from post to completion, including those that completed in their
    /// post, without failed ones. The daemon's metrics have the times of a server.
    pub(crate) fn post_to_end(&self) -> &Latency {
        &self.post_to_end
    }

    /// Returns all counters in the text format of Prometheus.
    // [WATCH-3]
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for (name, help, value) in self.read().named() {
            // Writing to a String does not fail.
            let _infallible = writeln!(text, "# HELP zoid_{name} {help}");
            let _infallible = writeln!(text, "# TYPE zoid_{name} counter\nzoid_{name} {value}");
        }
        self.post_to_end.write(&mut text);
        text
    }
}

/// A histogram of durations, by powers of two of a microsecond.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    buckets: [AtomicU64; Self::BUCKETS],
    sum_us: AtomicU64,
}

impl Latency {
    /// The number of buckets; the last one has no upper limit.
    const BUCKETS: usize = 32;

    pub(crate) fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bits = (u64::BITS - micros.leading_zeros()) as usize;
        if let Some(bucket) = self.buckets.get(bits.min(Self::BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, text: &mut String) {
        let name = "zoid_post_to_end_seconds";
        let help = "Time of a client's operations from post to success.";
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut below = 0;
        for (exponent, bucket) in self.buckets.iter().enumerate() {
            below += bucket.load(Ordering::Relaxed);
            let limit = match exponent + 1 == Self::BUCKETS {
                true => "+Inf".to_owned(),
                // The exponent is below 32, so the result is exact.
                false => ((1_u64 << exponent) as f64 / 1e6).to_string(),
            };
            let _infallible = writeln!(text, "{name}_bucket{{le=\"{limit}\"}} {below}");
        }
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        let _infallible = writeln!(text, "{name}_sum {}", sum.as_secs_f64());
        let _infallible = writeln!(text, "{name}_count {below}");
    }
}

impl Counts {
    /// Returns the statistics that a server reports to the daemon.
    pub(crate) fn statistics(&self) -> ServerStatistics {
        let waits = self.waited_for_memory;
        ServerStatistics {
            copies: self.copies,
            temporary_buffers: self.temporary_buffers,
            memory_waits: waits,
            // The two counters are read one after the other while other threads count.
            waiting_for_memory: waits.saturating_sub(self.memory_waits_over),
            longest_memory_wait_us: self.longest_memory_wait_us,
            allocations_held_back: self.allocations_held_back,
            memory_used: self.memory_taken.saturating_sub(self.memory_returned),
            protocol_errors: self.protocol_errors,
        }
    }
}

/// A number that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn up(&self) {
        self.add(1);
    }

    /// Raises it to at least this value.
    pub(crate) fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [WATCH-3]
    #[test]
    fn everything_is_explained_in_the_text() {
        let counters = Counters::default();
        counters.posts().add(3);
        counters.longest_memory_wait_us().raise(9);
        counters.longest_memory_wait_us().raise(7);
        counters.post_to_end().add(Duration::from_micros(5));
        counters.post_to_end().add(Duration::MAX);
        let text = counters.exposition();
        for line in [
            "# HELP zoid_posts Operations that the program posted.",
            "zoid_posts 3",
            "zoid_longest_memory_wait_us 9",
            "zoid_post_to_end_seconds_bucket{le=\"0.000004\"} 0",
            "zoid_post_to_end_seconds_bucket{le=\"0.000008\"} 1",
            "zoid_post_to_end_seconds_bucket{le=\"+Inf\"} 2",
            "zoid_post_to_end_seconds_count 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        for line in text.lines().filter(|line| line.starts_with("# HELP")) {
            assert!(line.ends_with('.'), "{line}");
        }
    }
}
