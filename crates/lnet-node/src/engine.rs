//! What stands behind the node's one lock: the stack, and what a running node knows beside it.

use std::collections::BTreeMap;
use std::sync::Weak;

use lnet_config::NiConfig;
use lnet_core::{Core, NiId};
use lnet_stack::Stack;
use lnet_tcp::{Sockets, Socklnd};
use lnet_types::Time;

use crate::clock::Clock;
use crate::links::Links;
use crate::options::NodeOptions;
use crate::queue::QueueState;
use crate::setup::KeptGlobals;

/// The stack over real sockets, its clock, and what the configuration says beyond the core.
pub(crate) struct Engine {
    pub(crate) stack: Stack<Sockets, QueueState>,
    pub(crate) links: Links,
    /// The queues of programs, to be told of the end.
    pub(crate) queues: Vec<Weak<QueueState>>,
    /// What the configuration says of each interface that the core does not keep.
    pub(crate) configured: BTreeMap<NiId, NiConfig>,
    /// What it says of the node that nothing consults.
    pub(crate) kept: KeptGlobals,
    /// By what peers tell this life of the node from an earlier one.
    pub(crate) incarnation: u64,
    pub(crate) options: NodeOptions,
    clock: Clock,
    latest: Time,
}

impl Engine {
    pub(crate) fn new(
        lnd: Socklnd,
        core: Core,
        incarnation: u64,
        options: NodeOptions,
        clock: Clock,
    ) -> Self {
        Self {
            stack: Stack::new(lnd, core),
            links: Links::default(),
            queues: Vec::new(),
            configured: BTreeMap::new(),
            kept: KeptGlobals::default(),
            incarnation,
            options,
            clock,
            latest: Time::ZERO,
        }
    }

    /// The time, which is read where it is used: under the node's lock, so that it never goes back.
    pub(crate) fn now(&mut self) -> Time {
        let now = self.clock.now();
        debug_assert!(now >= self.latest, "time went back");
        self.latest = now;
        now
    }

    /// The links under the interfaces changed.
    pub(crate) fn links_changed(&mut self, now: Time) {
        self.links.ready(&mut self.stack.side.core, now);
    }
}
