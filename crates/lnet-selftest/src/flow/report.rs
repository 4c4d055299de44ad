//! What a flow did: counts, bytes, latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Ended;

/// RPCs of one operation.
#[derive(Clone, Debug)]
pub struct Tally {
    done: u64,
    errors: u64,
    bytes: u64,
    /// Of those that succeeded, in microseconds.
    latency_us: Histogram<u64>,
}

/// The longest latency that is told apart: ten minutes.
const LATENCY_MAX_US: u64 = 600_000_000;

impl Default for Tally {
    #[expect(
        clippy::expect_used,
        reason = "the bounds are constants within the library's limits"
    )]
    fn default() -> Self {
        Self {
            done: 0,
            errors: 0,
            bytes: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("good bounds"),
        }
    }
}

impl Tally {
    /// Counts an RPC.
    pub fn count(&mut self, ended: &Ended) {
        if !ended.is_ok {
            self.errors += 1;
            return;
        }
        self.done += 1;
        self.bytes += u64::from(ended.work.len());
        let latency = u64::try_from(ended.latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.saturating_record(latency.max(1));
    }

    fn report(&self, seconds: f64) -> OperationReport {
        let rate = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        let at = |share| Duration::from_micros(self.latency_us.value_at_quantile(share));
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        OperationReport {
            done: self.done,
            errors: self.errors,
            bytes: self.bytes,
            rpcs_per_second: rate(self.done),
            bytes_per_second: rate(self.bytes),
            latency_us: (self.done > 0).then(|| Latency {
                p50: us(at(0.5)),
                p90: us(at(0.9)),
                p99: us(at(0.99)),
                p999: us(at(0.999)),
                max: self.latency_us.max(),
            }),
        }
    }
}

/// What one operation of a flow did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationReport {
    /// RPCs that succeeded.
    pub done: u64,
    /// RPCs that failed.
    pub errors: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// RPCs that succeeded, a second.
    pub rpcs_per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Of those that succeeded; absent where there are none.
    pub latency_us: Option<Latency>,
}

/// Quantiles of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// What a flow did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// From its first RPC until the end of its last.
    pub seconds: f64,
    /// Reads: the servers sent.
    pub read: OperationReport,
    /// Writes: the servers fetched.
    pub write: OperationReport,
    /// Pings.
    pub ping: OperationReport,
}

impl FlowReport {
    pub(super) fn new(name: &str, seconds: f64, [read, write, ping]: &[Tally; 3]) -> Self {
        Self {
            name: name.to_owned(),
            seconds,
            read: read.report(seconds),
            write: write.report(seconds),
            ping: ping.report(seconds),
        }
    }

    /// The three operations by their names.
    #[must_use]
    pub fn operations(&self) -> [(&'static str, &OperationReport); 3] {
        [
            ("read", &self.read),
            ("write", &self.write),
            ("ping", &self.ping),
        ]
    }

    /// RPCs that failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.operations().iter().map(|(_, it)| it.errors).sum()
    }
}
