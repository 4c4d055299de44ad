//! What came of a run, and of many.

use lnet_core::{Core, Event, EventKind};
use serde::{Deserialize, Serialize};

use crate::check::Violation;
use crate::plan::Plan;

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its figures.
    pub summary: Summary,
    /// The invariant that did not hold.
    pub violation: Option<Violation>,
    /// Operations that were begun and wait for an answer that did not come, by index.
    pub unanswered: Vec<u32>,
    /// What happened, line by line, if it was asked for.
    pub trace: Option<String>,
}

/// Figures of one run or of many together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Runs.
    pub runs: u64,
    /// Operations that programs began.
    pub operations: u64,
    /// Of these, those that failed: their SEND event says so, or the response did not come.
    pub failed: u64,
    /// Messages that drivers put on the wire, responses and pings among them.
    pub messages: u64,
    /// Messages that arrived in their place.
    pub delivered: u64,
    /// Payload bytes of these.
    pub delivered_bytes: u64,
    /// Messages that were sent again, each time.
    pub resent: u64,
    /// Messages that were on the wire and did not arrive.
    pub lost: u64,
    /// Messages that arrived and were dropped by their node.
    pub dropped: u64,
    /// The longest time from the end of the last fault until all were well again, in nanoseconds.
    pub worst_recovery_ns: u64,
    /// Virtual time in all, in nanoseconds.
    pub virtual_ns: u64,
    /// What each rail carried.
    pub rails: Vec<Rail>,
}

/// What a rail carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// Its name.
    pub name: String,
    /// Messages put on it.
    pub messages: u64,
    /// Bytes of these, headers included.
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

/// Counts while a run goes on.
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

    pub(crate) fn discarded(&mut self) {
        self.0.dropped += 1;
    }

    pub(crate) fn recovered(&mut self, nanoseconds: u64) {
        self.0.worst_recovery_ns = nanoseconds;
    }

    /// A core goes, or the run ends.
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
