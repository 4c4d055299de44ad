//! Upkeep: what the node does by itself. Pings of gateways and for recovery, discovery and pushes, the watch over quiet
//! nets, switching routing on and off; and changes of the configuration, from which such work follows.

pub(in crate::upkeep) mod checker;
pub(crate) mod configure;
pub(crate) mod discovery;
pub(in crate::upkeep) mod notify;
pub(in crate::upkeep) mod ping;
pub(in crate::upkeep) mod quiet;
pub(crate) mod recovery;
pub(in crate::upkeep) mod routing;
pub(in crate::upkeep) mod settle;
#[cfg(test)]
mod tests;
pub(in crate::upkeep) mod tick;

use lnet_types::Time;

use crate::ground::config::CoreConfig;
use crate::ground::counters::Counters;
use crate::ground::globals::Globals;
use crate::traffic::Traffic;
use crate::upkeep::discovery::claims::Claims;
use crate::upkeep::discovery::target::PushTarget;

/// What the node does by itself.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) traffic: Traffic,
    pub(crate) push_target: PushTarget,
    claims: Claims,
}

impl Upkeep {
    pub(crate) fn new(config: CoreConfig, now: Time) -> Self {
        let discovers = config.globals.discovery;
        let mut upkeep = Self {
            traffic: Traffic::new(config, now),
            push_target: PushTarget::default(),
            claims: Claims::default(),
        };
        upkeep.set_push_target(discovers, now);
        upkeep.traffic.open_ping_target();
        upkeep
    }

    /// Returns the parameters of the node.
    fn globals(&self) -> &Globals {
        self.traffic.globals()
    }

    /// Returns the counters of the node.
    fn counters(&mut self) -> &mut Counters {
        self.traffic.counters()
    }

    /// Does the same as [`Counters::broken`].
    #[cold]
    fn broken(&mut self, what: &'static str) {
        self.traffic.broken(what);
    }

    /// Notes the time of an input. Deadlines rely on a time that never goes back.
    fn note_time(&mut self, now: Time) {
        self.traffic.note_time(now);
    }
}
