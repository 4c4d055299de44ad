//! The results of one run, and of many runs.

use serde::{Deserialize, Serialize};

use crate::invariant::Violation;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures of the run.
    pub summary: Summary,
    /// The violated invariant, if there is one.
    pub violation: Option<Violation>,
    /// The indices of operations that began and expect a response but did not get one.
    pub unanswered: Vec<u32>,
    /// The trace, one line for each event, if it was requested.
    pub trace: Option<String>,
}

/// The figures of one run, or the sum over many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of runs.
    pub runs: u64,
    /// Operations that programs began.
    pub operations: u64,
    /// Operations that failed: the SEND event reported a failure, or the response did not arrive.
    pub failed: u64,
    /// Messages that drivers put on the wire, including responses and pings.
    pub messages: u64,
    /// Messages whose payload reached its place.
    pub delivered: u64,
    /// The payload bytes of the delivered messages.
    pub delivered_bytes: u64,
    /// Resends. A message counts once for each resend.
    pub resent: u64,
    /// Messages that were on the wire and did not arrive.
    pub lost: u64,
    /// Messages that arrived and that the node dropped.
    pub dropped: u64,
    /// The longest time from the end of a run's last fault until all nodes were at rest, in nanoseconds.
    pub worst_recovery_ns: u64,
    /// The total virtual time, in nanoseconds.
    pub virtual_ns: u64,
    /// The traffic of each rail.
    pub rails: Vec<Rail>,
}

/// The traffic of one rail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// The name.
    pub name: String,
    /// Messages put on the rail.
    pub messages: u64,
    /// The bytes of these messages, including headers.
    pub bytes: u64,
}

impl Summary {
    /// Adds the figures of other runs of the same scenario.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.operations += other.operations;
        self.failed += other.failed;
        self.messages += other.messages;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.resent += other.resent;
        self.lost += other.lost;
        self.dropped += other.dropped;
        self.worst_recovery_ns = self.worst_recovery_ns.max(other.worst_recovery_ns);
        self.virtual_ns += other.virtual_ns;
        for rail in &other.rails {
            match self.rails.iter_mut().find(|known| known.name == rail.name) {
                Some(known) => {
                    known.messages += rail.messages;
                    known.bytes += rail.bytes;
                }
                None => self.rails.push(rail.clone()),
            }
        }
    }
}
