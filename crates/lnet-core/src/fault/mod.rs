//! Fault injection: rules that drop or delay messages on purpose (section 10 of lnet-wire, 6.9 of
//! lnet-selection).
//!
//! ```text
//!  sending    credits ─▶ drop rule with classes? ─▶ fails with one of them ─▶ health, resend
//!                     ─▶ delay rule? ─────────────▶ waits, then goes to the LND
//!  receiving  header  ─▶ drop rule without classes? ─▶ gone, silently
//!                     ─▶ delay rule? ─────────────▶ held, then received
//! ```
//!
//! Newer rules are asked first, and the first that strikes ends the search. What is random is drawn
//! from the node's seed, so a run with faults can be repeated.

mod inject;
mod pace;
mod rule;

use std::collections::BTreeMap;

use lnet_types::Nid;
use lnet_wire::{Header, MessageType};

pub(crate) use pace::Draw;
pub use pace::Pace;
pub use rule::{DelayRule, DropRule, FaultError, FaultFilter, FaultStats, FaultTypes, NidFilter};

use crate::io::{RxId, TxId};
use crate::status::MessageStatus;
use pace::Beat;

/// What waits for an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// A message about to be reported as failed.
    Failing(TxId),
    /// A message that goes to the LND later.
    Sending(TxId),
    /// A message that is received later.
    Receiving(RxId),
}

/// A rule at work.
#[derive(Debug)]
struct Active<R> {
    rule: R,
    beat: Beat,
    stats: FaultStats,
}

/// All rules, newest first, and what they hold.
#[derive(Debug)]
pub(crate) struct Faults {
    drops: Vec<Active<DropRule>>,
    delays: Vec<Active<DelayRule>>,
    draw: Draw,
    failing: BTreeMap<TxId, MessageStatus>,
}

impl Faults {
    /// No rules. The seed decides what is drawn.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            drops: Vec::new(),
            delays: Vec::new(),
            draw: Draw::new(seed),
            failing: BTreeMap::new(),
        }
    }

    /// True in a node without rules, which this is all that they cost.
    pub(crate) fn are_none(&self) -> bool {
        self.drops.is_empty() && self.delays.is_empty()
    }
}

/// A message as rules see it.
#[derive(Clone, Copy, Debug)]
struct Sighting<'a> {
    header: &'a Header,
    /// The interface it arrived on, where that is known.
    local: Option<Nid>,
}

impl Sighting<'_> {
    fn message_type(&self) -> MessageType {
        self.header.body.message_type()
    }
}
