//! Flows: RPCs of this node as a file system would make them, described in a YAML file.
//!
//! ```yaml
//! seconds: 30                        # of every flow that says nothing else; or count
//! flows:
//!   - name: checkpoint
//!     to: 192.168.10.[8-11]@tcp      # an expression, or a list of them
//!     mix: { read: 20, write: 75, ping: 5 }   # weights
//!     sizes: { 1M: 90, 64K: 10 }     # weights; or one size
//!     check: simple                  # none, simple, full, discard
//!     concurrency: 8                 # RPCs under way at each server
//!     rate: 2000                     # RPCs a second, of the flow; without it, as fast as they go
//!     on_error: count                # or stop
//! ```
//!
//! This module does no I/O: [`Flow`] is a [`Generator`], which draws its RPCs from a seed.

mod document;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use lnet_types::{Nid, ProcessId, SplitMix64, Time};

use crate::load::{Ended, Generator, Next, Shot, Work};
use crate::pattern::Check;
use crate::wire::FEATURE_BULK_LEN;

pub use self::document::{FlowError, parse};
pub use self::report::{FlowReport, Latency, OperationReport, Tally};

/// The description of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The name of the flow.
    pub name: String,
    /// The servers that the flow loads.
    pub servers: Vec<Nid>,
    /// Weights of read, write and ping.
    pub mix: [u32; 3],
    /// The sizes of an RPC in bytes, each with its weight.
    pub sizes: Vec<(u32, u32)>,
    /// How data is checked.
    pub check: Check,
    /// The limit of RPCs under way at each server.
    pub concurrency: u32,
    /// RPCs a second; `None` means as fast as the network allows.
    pub rate: Option<u32>,
    /// RPCs in all; `None` means without end.
    pub count: Option<u64>,
    /// How long the flow lasts; `None` means without end.
    pub duration: Option<Duration>,
    /// True if the first error ends the flow.
    pub stop_on_error: bool,
    /// The timeout of an RPC.
    pub timeout: Duration,
}

/// A flow that runs.
pub struct Flow {
    spec: FlowSpec,
    random: SplitMix64,
    /// Units that may send. A unit has at most one RPC under way.
    free: Vec<u32>,
    sent: u64,
    begun: Option<Time>,
    last: Time,
    is_stopped: bool,
    tallies: [Tally; 3],
}

impl Flow {
    /// Makes a flow. Its time begins when it is first asked for an RPC.
    #[must_use]
    pub fn new(spec: FlowSpec, seed: u64) -> Self {
        // The document limits both numbers.
        let units = u32::try_from(spec.servers.len())
            .unwrap_or(u32::MAX)
            .saturating_mul(spec.concurrency);
        Self {
            spec,
            random: SplitMix64::new(seed),
            // Units are taken from the back, so that the first RPCs go to different servers.
            free: (0..units).rev().collect(),
            sent: 0,
            begun: None,
            last: Time::ZERO,
            is_stopped: false,
            tallies: [Tally::default(), Tally::default(), Tally::default()],
        }
    }

    fn has_ended(&self, now: Time) -> bool {
        let age = self.begun.map(|begun| now.saturating_since(begun));
        self.is_stopped
            || self.spec.count.is_some_and(|count| self.sent >= count)
            || self
                .spec
                .duration
                .is_some_and(|limit| age.is_some_and(|age| age >= limit))
    }

    /// Returns when the next RPC is due by the rate; `None` without a rate.
    fn due(&self, begun: Time) -> Option<Time> {
        let rate = self.spec.rate?;
        let nanoseconds = u128::from(self.sent) * 1_000_000_000 / u128::from(rate);
        Some(begun + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    fn work(&mut self) -> Work {
        let operation = weighted(&mut self.random, &self.spec.mix);
        if operation == PING {
            return Work::Ping;
        }
        let weights: Vec<u32> = self.spec.sizes.iter().map(|(_, weight)| *weight).collect();
        let at = weighted(&mut self.random, &weights);
        let size = self.spec.sizes.get(at).map_or(1, |(size, _)| *size);
        match operation {
            READ => Work::Read(size, self.spec.check),
            _ => Work::Write(size, self.spec.check),
        }
    }
}

/// Indexes into mixes and tallies.
const READ: usize = 0;
const PING: usize = 2;

fn place(work: Work) -> usize {
    match work {
        Work::Read(..) => READ,
        Work::Write(..) => 1,
        Work::Ping => PING,
    }
}

impl Generator for Flow {
    fn next(&mut self, now: Time) -> Next {
        let begun = *self.begun.get_or_insert(now);
        if self.has_ended(now) {
            return Next::Wait;
        }
        if let Some(due) = self.due(begun).filter(|due| *due > now) {
            return Next::At(due);
        }
        let servers = self.spec.servers.len();
        let Some(unit) = self.free.pop() else {
            return Next::Wait;
        };
        let Some(&server) = self.spec.servers.get(unit as usize % servers.max(1)) else {
            return Next::Wait;
        };
        self.sent += 1;
        Next::Send(Shot {
            unit,
            target: ProcessId::lustre(server),
            work: self.work(),
            features: FEATURE_BULK_LEN,
        })
    }

    fn ended(&mut self, ended: &Ended, now: Time) {
        self.free.push(ended.unit);
        self.last = now;
        self.tallies[place(ended.work)].count(ended);
        if !ended.is_ok && self.spec.stop_on_error {
            self.is_stopped = true;
        }
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }

    fn is_over(&self, now: Time) -> bool {
        self.has_ended(now)
    }

    fn report(&self) -> Option<FlowReport> {
        let seconds = self
            .begun
            .map(|begun| self.last.saturating_since(begun).as_secs_f64());
        Some(FlowReport::new(
            &self.spec.name,
            seconds.unwrap_or(0.0),
            &self.tallies,
        ))
    }
}

/// Draws an index, with a probability proportional to its weight.
fn weighted(random: &mut SplitMix64, weights: &[u32]) -> usize {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut left = random.number() % total.max(1);
    for (at, weight) in weights.iter().enumerate() {
        match left.checked_sub(u64::from(*weight)) {
            None => return at,
            Some(rest) => left = rest,
        }
    }
    0
}
