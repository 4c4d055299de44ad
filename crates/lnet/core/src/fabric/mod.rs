//! The fabric: what this node knows of itself and of others, and what it decides from that. Interfaces, peers and their
//! health, routes and gateways, selection rules, the choice of a path.
//!
//! The fabric has no messages. Traffic tells it what messages showed, and asks it for paths.

pub(in crate::fabric) mod admission;
pub(in crate::fabric) mod counts;
pub(crate) mod discovery;
pub(crate) mod gateways;
pub(crate) mod health;
pub(in crate::fabric) mod info;
pub(crate) mod nets;
pub(crate) mod news;
pub(crate) mod ni;
pub(crate) mod own;
pub(in crate::fabric) mod paths;
pub(crate) mod peer;
pub(in crate::fabric) mod policies;
pub(crate) mod said;
pub(crate) mod select;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use lnet_types::Time;

use crate::fabric::gateways::route::Routes;
use crate::fabric::news::Pending;
use crate::fabric::ni::Nis;
use crate::fabric::own::Own;
use crate::fabric::peer::{MAX_PEER_NIS, Peers};
use crate::fabric::policies::Policies;
use crate::fabric::select::kept::Kept;
use crate::fabric::watch::Watch;
use crate::ground::Ground;
use crate::ground::config::CoreConfig;
use crate::ground::counters::Counters;
use crate::ground::globals::Globals;

/// What this node knows of itself and of others.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) ground: Ground,
    pub(crate) nis: Nis,
    pub(crate) peers: Peers,
    pub(crate) routes: Routes,
    pub(crate) policies: Policies,
    pub(crate) own: Own,
    pub(crate) news: Pending,
    pub(crate) watch: Watch,
    pub(crate) kept: Kept,
    /// How often an interface went down, or a gateway lost its last connection.
    pub(crate) paths_lost: u64,
}

impl Fabric {
    pub(crate) fn new(config: CoreConfig, now: Time) -> Self {
        Self {
            nis: Nis::new(),
            peers: Peers::new(config.entropy.hash_key(), MAX_PEER_NIS),
            routes: Routes::default(),
            policies: Policies::new(config.globals.profile),
            own: Own::default(),
            news: Pending::default(),
            watch: Watch::default(),
            kept: Kept::default(),
            paths_lost: 0,
            ground: Ground::new(config, now),
        }
    }

    /// Returns the parameters of the node.
    pub(crate) fn globals(&self) -> &Globals {
        &self.ground.config.globals
    }

    /// Returns the counters of the node.
    pub(crate) fn counters(&mut self) -> &mut Counters {
        &mut self.ground.counters
    }

    /// Does the same as [`Counters::broken`].
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        self.ground.broken(what);
    }

    /// Notes the time of an input. Deadlines rely on a time that never goes back.
    pub(crate) fn note_time(&mut self, now: Time) {
        self.ground.note_time(now);
    }
}
