//! The rows: each is a task beside a limit.

use std::cmp::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::limits::Limit;
use super::task::{Done, Method, Origin, Pattern, Task};
use crate::foreign::{Program, Test};
use crate::workload::Target;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Microseconds of one message. The figures of a limit are those of a round trip.
    OneWay,
    /// 10⁹ bytes in each second.
    Bandwidth,
}

/// A task beside a limit.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) method: Method,
    /// The task. The measurement chooses its count.
    pub(super) task: Task,
    pub(super) limit: Limit,
    pub(super) target: Option<Target>,
}

/// The bytes of the smallest message that a program would send for its content.
const WORD: usize = 8;
const MIB: usize = 1 << 20;
/// The bytes of the largest unexpected message.
const UNEXPECTED_MAX: usize = 8192;
/// The number of messages in flight if they are not large.
const IN_FLIGHT: u32 = 8;
/// The number of messages in flight of a client with many small ones.
const MANY_IN_FLIGHT: u32 = 64;
/// The limit on the bytes in flight of larger messages.
const BYTES_IN_FLIGHT: usize = 128 << 20;

/// The sizes of the long form.
const SIZES: [usize; 9] = [
    1,
    WORD,
    64,
    1024,
    UNEXPECTED_MAX,
    64 << 10,
    MIB,
    16 * MIB,
    128 * MIB,
];
/// More sizes of the long form for tcp, on both sides of the limit up to which tcp sends without a handshake.
const TCP_SIZES: [usize; 4] = [32 << 10, 256 << 10, 2 * MIB, 4 * MIB];
/// The sizes whose bandwidth the short form measures.
const SHORT_SIZES: [usize; 2] = [MIB, 128 * MIB];

impl Subject {
    fn exchange(method: Method, pattern: Pattern, bytes: usize) -> Self {
        let expected = pattern == Pattern::Exchange;
        let aimed = method != Method::Tcp && bytes == WORD && expected;
        Self {
            method,
            task: task(pattern, Origin::Pre, bytes, 1),
            limit: match method {
                Method::Tcp => Limit::TcpRoundTrip,
                _ => Limit::QueueAndSocket,
            },
            target: aimed.then_some(Target::AtMost(1.5)),
        }
    }

    fn stream(method: Method, pattern: Pattern, origin: Origin, bytes: usize) -> Self {
        let fitting = u32::try_from(BYTES_IN_FLIGHT / bytes.max(1)).unwrap_or(u32::MAX);
        let goal = match method {
            Method::Zoid | Method::ProcessCopy => Some(0.9),
            Method::Spinning | Method::Tcp => None,
        };
        let aimed = bytes >= MIB && origin == Origin::Pre;
        Self {
            method,
            task: task(pattern, origin, bytes, fitting.clamp(1, IN_FLIGHT)),
            limit: match method {
                Method::Zoid | Method::Spinning => Limit::UnixStream,
                Method::ProcessCopy => Limit::Ring,
                Method::Tcp => Limit::TcpStream,
            },
            target: goal.filter(|_| aimed).map(Target::AtLeast),
        }
    }

    /// Returns an exchange in which all processes spin, beside a queue whose ends spin.
    fn spinning() -> Self {
        Self {
            limit: Limit::Queue,
            // 8 µs, if the queue takes 2.2 µs.
            target: Some(Target::AtMost(3.6)),
            ..Self::exchange(Method::Spinning, Pattern::Exchange, WORD)
        }
    }

    /// Returns a stream with many small messages of one client in flight.
    fn crowded(method: Method) -> Self {
        let subject = Self::stream(method, Pattern::Stream, Origin::Pre, WORD);
        Self {
            task: task(Pattern::Stream, Origin::Pre, WORD, MANY_IN_FLIGHT),
            target: Some(Target::AtLeast(0.7)),
            ..subject
        }
    }

    /// Returns the limit of the hardware: copies of as many bytes, or one round trip of a message queue.
    pub(super) const fn physical(&self) -> Limit {
        match self.unit() {
            Unit::OneWay => Limit::Queue,
            Unit::Bandwidth => Limit::Memcpy,
        }
    }

    /// Returns all subjects in the order of the table. On one core there are no spinning subjects, because a
    /// spinning process would wait for itself.
    pub(super) fn all(short: bool, one_core: bool) -> Vec<Self> {
        let mut subjects = Vec::new();
        for method in [Method::Zoid, Method::Tcp] {
            let latencies: &[usize] = if short { &[WORD] } else { &SIZES };
            for &bytes in latencies {
                subjects.push(Self::exchange(method, Pattern::Exchange, bytes));
                if bytes <= UNEXPECTED_MAX {
                    let pattern = Pattern::UnexpectedExchange;
                    subjects.push(Self::exchange(method, pattern, bytes));
                }
            }
            let bandwidths: &[usize] = if short { &SHORT_SIZES } else { &SIZES };
            let more: &[usize] = match method {
                Method::Tcp if !short => &TCP_SIZES,
                _ => &[],
            };
            for &bytes in bandwidths.iter().chain(more) {
                if bytes <= UNEXPECTED_MAX {
                    let pattern = Pattern::UnexpectedStream;
                    subjects.push(Self::stream(method, pattern, Origin::Pre, bytes));
                }
                subjects.push(Self::stream(method, Pattern::Stream, Origin::Pre, bytes));
                // The origin makes no difference to tcp, and the short form measures one size.
                if method != Method::Tcp && (bytes == MIB || !short) {
                    subjects.push(Self::stream(method, Pattern::Stream, Origin::Ext, bytes));
                }
            }
        }
        subjects.push(Self::crowded(Method::Zoid));
        if !one_core {
            subjects.push(Self::spinning());
        }
        // Shorter messages use the stream with this method, too.
        for bytes in SHORT_SIZES {
            let (method, pattern) = (Method::ProcessCopy, Pattern::Stream);
            subjects.push(Self::stream(method, pattern, Origin::Pre, bytes));
        }
        subjects
    }

    pub(super) fn label(&self) -> String {
        let Task {
            pattern, in_flight, ..
        } = self.task;
        let size = size(self.task.bytes);
        let method = self.method;
        let origin = match (self.task.origin, method) {
            (_, Method::Tcp) => "",
            (Origin::Pre, _) => ", PRE_ALLOC",
            (Origin::Ext, _) => ", EXT_ALLOC",
        };
        match pattern {
            Pattern::Exchange => format!("{method} {size}, one way"),
            Pattern::UnexpectedExchange => format!("{method} {size} unexpected, one way"),
            Pattern::UnexpectedStream => {
                format!("{method} {size} unexpected, {in_flight} in flight")
            }
            _ => format!("{method} {size}{origin}, {in_flight} in flight"),
        }
    }

    pub(super) const fn unit(&self) -> Unit {
        match self.task.pattern {
            Pattern::Exchange | Pattern::UnexpectedExchange => Unit::OneWay,
            _ => Unit::Bandwidth,
        }
    }

    /// Returns the other programs that can run the same test, and the test. One size is enough for a comparison.
    pub(super) const fn test(&self) -> Option<(&'static [Program], Test)> {
        let carriers: &[Program] = match self.method {
            Method::Tcp => &[Program::UcxTcp, Program::Libfabric, Program::Iperf],
            _ => &[Program::UcxMemory],
        };
        let test = match (self.task.pattern, self.task.bytes) {
            (Pattern::Exchange, WORD) => Test::RoundTrip(WORD),
            (Pattern::Stream, MIB) if matches!(self.task.origin, Origin::Pre) => Test::Stream(MIB),
            (Pattern::Stream, WORD) => Test::Stream(WORD),
            _ => return None,
        };
        Some((carriers, test))
    }

    /// Returns the figure for `count` messages of the task.
    pub(super) fn figure(&self, count: u64, done: Done) -> f64 {
        let took = Duration::from_nanos(done.nanoseconds);
        match self.unit() {
            // An exchange has two messages.
            Unit::OneWay => microseconds(count, took) / 2.0,
            Unit::Bandwidth => bandwidth(self.task.bytes, count, took),
        }
    }
}

impl Unit {
    /// Orders figures with the best first.
    pub(super) fn order(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::OneWay => a.total_cmp(&b),
            Self::Bandwidth => b.total_cmp(&a),
        }
    }

    /// Formats a figure with its unit.
    pub(super) fn show(self, value: f64) -> String {
        let unit = self.name();
        match value {
            value if value >= 100.0 => format!("{value:.0} {unit}"),
            value if value >= 0.1 => format!("{value:.2} {unit}"),
            value => format!("{value:.5} {unit}"),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OneWay => "µs",
            Self::Bandwidth => "GB/s",
        }
    }
}

/// Returns a task of one client, without a count.
pub(super) const fn task(pattern: Pattern, origin: Origin, bytes: usize, in_flight: u32) -> Task {
    Task {
        pattern,
        origin,
        bytes,
        count: 0,
        in_flight,
        buffers: in_flight,
        client: 0,
    }
}

/// Formats a size.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
        bytes if bytes >= 1024 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} B"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(super) fn microseconds(count: u64, took: Duration) -> f64 {
    took.as_secs_f64() * 1e6 / count as f64
}

/// Returns the bandwidth in 10⁹ bytes in each second.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(super) fn bandwidth(bytes: usize, count: u64, took: Duration) -> f64 {
    bytes as f64 * count as f64 / took.as_secs_f64().max(1e-9) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_one_client_has_a_row_in_the_short_form_too() {
        for short in [true, false] {
            let aimed: Vec<String> = Subject::all(short, false)
                .iter()
                .filter(|subject| subject.target.is_some())
                .map(Subject::label)
                .collect();
            for wanted in [
                "zoid 8 B, one way",
                "zoid 1 MiB, PRE_ALLOC, 8 in flight",
                "zoid 128 MiB, PRE_ALLOC, 1 in flight",
                "process-copy 1 MiB, PRE_ALLOC, 8 in flight",
                "zoid 8 B, PRE_ALLOC, 64 in flight",
            ] {
                assert!(
                    aimed.iter().any(|label| label == wanted),
                    "{wanted}: {aimed:?}"
                );
            }
        }
    }

    #[test]
    fn a_one_way_latency_is_half_of_an_exchange() {
        let subject = Subject::exchange(Method::Zoid, Pattern::Exchange, WORD);
        let done = Done {
            nanoseconds: 8_000_000,
            ..Done::default()
        };
        assert!((subject.figure(100, done) - 40.0).abs() < 1e-9);
    }
}
