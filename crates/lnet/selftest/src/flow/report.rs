//! Reports of flows: counts, bytes, latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::Ended;

/// The counts of one operation of a flow.
#[derive(Clone, Debug)]
pub struct Tally {
    done: u64,
    errors: u64,
    bytes: u64,
    /// Latencies of the RPCs that succeeded, in microseconds.
    latency_us: Histogram<u64>,
}

/// The limit of latencies that are told apart: ten minutes. A longer latency counts as this one.
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
    /// Counts an RPC that has ended.
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

/// The report of one operation of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationReport {
    /// RPCs that succeeded.
    pub done: u64,
    /// RPCs that failed.
    pub errors: u64,
    /// Bytes of the RPCs that succeeded.
    pub bytes: u64,
    /// RPCs that succeeded, a second.
    pub rpcs_per_second: f64,
    /// Bytes of the RPCs that succeeded, a second.
    pub bytes_per_second: f64,
    /// Latencies of the RPCs that succeeded; absent if there are none.
    pub latency_us: Option<Latency>,
}

/// Quantiles of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// The 90 % quantile.
    pub p90: u64,
    /// The 99 % quantile.
    pub p99: u64,
    /// The 99.9 % quantile.
    pub p999: u64,
    /// The longest latency.
    pub max: u64,
}

/// The report of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// The name of the flow.
    pub name: String,
    /// Seconds from the first RPC until the end of the last.
    pub seconds: f64,
    /// Reads, in which the servers sent.
    pub read: OperationReport,
    /// Writes, in which the servers fetched.
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

    /// Returns the three operations with their names.
    #[must_use]
    pub fn operations(&self) -> [(&'static str, &OperationReport); 3] {
        [
            ("read", &self.read),
            ("write", &self.write),
            ("ping", &self.ping),
        ]
    }

    /// Returns how many RPCs failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.operations()
            .iter()
            .map(|(_, operation)| operation.errors)
            .sum()
    }
}
