//! Makes changes of the configuration, one at a time and without a delay for messages.
//!
//! ```text
//!  one change ── look: pages ── plan ── make ──────────── peers, in steps ── the next change
//!  engine's lock  ▂▁▂▁▂▁                ████ one hold      ▂▁▂▁▂▁▂▁▂▁
//! ```
//!
//! Only one change is in progress at a time, so the state that a change has read stays the same until the change is
//! made. Therefore reading and planning, which take long, need the engine's lock only for one page at a time. Only
//! the part that must be one step for messages is done under one hold of the lock.

use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lnet_types::Time;

use crate::managed::{Configured, ManagedNode};

/// The right to change the configuration. Other threads that want it wait until this value is dropped.
pub(crate) struct Changing<'n> {
    node: &'n ManagedNode,
    _turn: MutexGuard<'n, ()>,
}

/// Peer interfaces that get new rules under one lock, which takes some 100 µs.
const PEERS_PER_STEP: usize = 512;

/// The pause between two steps, so that threads that wait for the lock get it: if the lock were taken again at once,
/// no sleeping thread would get it. A wake-up takes some 50 µs.
const BETWEEN_STEPS: Duration = Duration::from_micros(50);

impl ManagedNode {
    /// Waits until no other thread changes the configuration.
    pub(crate) fn changing(&self) -> Changing<'_> {
        let turn = self.shared.turn.lock();
        Changing {
            node: self,
            _turn: turn.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Applies the rules to all peers. When this returns, all peers have the rules that were in force when it was
    /// called.
    pub(crate) fn bring_peers_up_to_date(&self) {
        while self.with_core(|core, _| core.apply_rules_step(PEERS_PER_STEP)) {
            self.pause_between_steps();
        }
    }

    /// Pauses a thread that takes the engine's lock many times in a row, so that other threads get the lock.
    pub(crate) fn pause_between_steps(&self) {
        thread::park_timeout(BETWEEN_STEPS);
    }
}

impl Changing<'_> {
    /// Makes changes in one step: a message sees the configuration before or after all of them.
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
