//! Counts what happens in a run.

use lnet_core::{Core, Event, EventKind};

use crate::cores::plan::Plan;
use crate::summary::{Rail, Summary};

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
