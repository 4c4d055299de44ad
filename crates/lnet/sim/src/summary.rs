//! The results of one run, and of many runs.

use lnet_core::{Core, Event, EventKind};
use serde::{Deserialize, Serialize};

use crate::check::Violation;
use crate::plan::Plan;

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

/// The figures of a run in progress.
#[derive(Debug)]
pub(crate) struct Tally(Summary);

impl Tally {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rails = plan.world.rails.iter().map(|name| Rail {
            name: name.clone(),
            ..Rail::default()
        });
        Self(Summary {
            runs: 1,
            rails: rails.collect(),
            ..Summary::default()
        })
    }

    pub(crate) fn started(&mut self) {
        self.0.operations += 1;
    }

    pub(crate) fn told(&mut self, event: &Event) {
        let failed = match event.kind {
            EventKind::Timeout => true,
            EventKind::Send => event.status.is_err() && event.unlinked,
            _ => false,
        };
        self.0.failed += u64::from(failed);
    }

    pub(crate) fn posted(&mut self, rail: u16, bytes: u64) {
        self.0.messages += 1;
        if let Some(rail) = self.0.rails.get_mut(usize::from(rail)) {
            rail.messages += 1;
            rail.bytes += bytes;
        }
    }

    pub(crate) fn delivered(&mut self, bytes: u32) {
        self.0.delivered += 1;
        self.0.delivered_bytes += u64::from(bytes);
    }

    pub(crate) fn lost(&mut self) {
        self.0.lost += 1;
    }

    pub(crate) fn dropped(&mut self) {
        self.0.dropped += 1;
    }

    pub(crate) fn recovered(&mut self, nanoseconds: u64) {
        self.0.worst_recovery_ns = nanoseconds;
    }

    /// Adds the counters of a core that is removed, or that exists at the end of the run.
    pub(crate) fn add_counters(&mut self, core: &Core) {
        self.0.resent += core.counters().resend_count;
    }

    pub(crate) fn close<'a>(&mut self, now: u64, cores: impl Iterator<Item = &'a Core>) {
        self.0.virtual_ns = now;
        for core in cores {
            self.add_counters(core);
        }
    }

    pub(crate) fn into_summary(self) -> Summary {
        self.0
    }
}
