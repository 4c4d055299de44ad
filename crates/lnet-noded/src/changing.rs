//! Changes of the configuration: one at a time, and none of them in the way of messages.
//!
//! ```text
//!  one change ── look: pages ── plan ── make ──────────── peers, in steps ── the next change
//!  engine's lock  ▂▁▂▁▂▁                ████ one hold      ▂▁▂▁▂▁▂▁▂▁
//! ```
//!
//! What a change looked at is still so when it is made, because no other one is made meanwhile. So the long part,
//! looking and planning, needs the engine's lock a page at a time; under one hold of it is only what must be one
//! step for a message.

use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lnet_types::Time;

use crate::managed::{Configured, ManagedNode};

/// The right to change the configuration. Others that want it wait until this is dropped.
pub(crate) struct Changing<'n> {
    node: &'n ManagedNode,
    _turn: MutexGuard<'n, ()>,
}

/// Peer interfaces that learn of new rules under one lock: some 100 µs.
const PEERS_PER_STEP: usize = 512;

/// Between two steps whoever waits for the lock gets it: a lock that is taken again at once would be given to
/// nobody who sleeps. A wake-up takes some 50 µs.
const BETWEEN_STEPS: Duration = Duration::from_micros(50);

impl ManagedNode {
    /// Waits until nobody else changes the configuration.
    pub(crate) fn changing(&self) -> Changing<'_> {
        let turn = self.shared.turn.lock();
        Changing {
            node: self,
            _turn: turn.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// When this returns, all peers know the rules that were in force when it was called.
    pub(crate) fn bring_peers_up_to_date(&self) {
        while self.with_core(|core, _| core.apply_rules_step(PEERS_PER_STEP)) {
            self.let_others_in();
        }
    }

    /// For whoever takes the engine's lock many times in a row.
    pub(crate) fn let_others_in(&self) {
        thread::park_timeout(BETWEEN_STEPS);
    }
}

impl Changing<'_> {
    /// Makes changes in one step: a message sees the configuration before it or after.
    pub(crate) fn make<R>(&self, change: impl FnOnce(&mut Configured<'_>, Time) -> R) -> R {
        let made = self.node.with(|node, now| {
            node.core_mut().hold_rules();
            let made = change(node, now);
            node.core_mut().release_rules_in_steps();
            made
        });
        self.node.bring_peers_up_to_date();
        made
    }
}
