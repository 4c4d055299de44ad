//! Fault injection: rules that drop or delay messages on purpose. The rules are in
//! `docs/selection/configuration.md`.
//!
//! ```text
//!  sending    credits ─▶ drop rule with classes? ─▶ fails with one of them ─▶ health, resend
//!                     ─▶ delay rule? ─────────────▶ waits, then is handed to the LND
//!  receiving  header  ─▶ drop rule without classes? ─▶ dropped silently
//!                     ─▶ delay rule? ─────────────▶ held, then received
//! ```
//!
//! The rules are checked from the newest to the oldest, and the first rule that takes effect ends the search. Random
//! numbers come from the node's seed, so that a run with faults can be repeated.

pub(in crate::traffic) mod inject;
mod pace;
mod rule;

use std::collections::BTreeMap;

use lnet_types::Nid;
use lnet_wire::{Header, MessageType};

use self::pace::Beat;
pub(in crate::traffic) use self::pace::Draw;
pub use self::pace::Pace;
pub use self::rule::{
    DelayRule, DropRule, FaultError, FaultFilter, FaultStats, FaultTypes, NidFilter,
};
use crate::ground::io::TxId;
use crate::ground::status::MessageStatus;

/// A rule with its present state and counts.
#[derive(Debug)]
struct Active<R> {
    rule: R,
    beat: Beat,
    stats: FaultStats,
}

/// All rules, newest first, and the messages that they hold.
#[derive(Debug)]
pub(crate) struct Faults {
    drops: Vec<Active<DropRule>>,
    delays: Vec<Active<DelayRule>>,
    draw: Draw,
    failing: BTreeMap<TxId, MessageStatus>,
}

impl Faults {
    /// Creates an empty set of rules. The seed determines the random numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            drops: Vec::new(),
            delays: Vec::new(),
            draw: Draw::new(seed),
            failing: BTreeMap::new(),
        }
    }

    /// Returns whether there are no rules. In a node without rules, this check is all that fault injection costs.
    pub(in crate::traffic) fn are_none(&self) -> bool {
        self.drops.is_empty() && self.delays.is_empty()
    }
}

/// A message as the rules see it.
#[derive(Clone, Copy, Debug)]
struct Sighting<'a> {
    header: &'a Header,
    /// The interface that the message arrived on; `None` for a message being sent, and for delay rules.
    local: Option<Nid>,
}

impl Sighting<'_> {
    fn message_type(&self) -> MessageType {
        self.header.body.message_type()
    }
}
