//! Explains why a message takes its path, and what a change of the node would alter.
//!
//! Tags in comments cite the rules of path selection, health and policies in `docs/selection`.
//!
//! ```text
//!  export, show outputs ─ import ─┐
//!                                 ├─▶ Node ──▶ explain ──▶ Explanation ──▶ a terminal, JSON
//!  state of a running core ───────┘    │         │
//!                                      │         └─ a core made from the state chooses, sends, fails
//!                                      └─▶ what_if ──▶ Difference
//! ```
//!
//! Selection itself produces every explanation: [`lnet_core::Core::explain`] chose every path that is named here,
//! or a core that was made from the state chose the path when it sent a message. This crate holds no second
//! implementation of path selection, and must never get one. The crate adds words, and it searches for causes of
//! trouble that the tables alone do not show ([`Code`]).
//!
//! With the complete state of a running core ([`Node::exact`]), every statement is exact. Printed outputs do not
//! hold the complete state: the missing values are assumed, and each assumption is reported with the path that
//! another value would lead to ([`Assumption`]).
//!
//! This crate opens no file and no socket, and has no clock.

mod assumed;
mod decided;
mod difference;
mod discovery;
mod drive;
mod explanation;
mod finding;
mod findings;
mod forecast;
mod health;
mod import;
mod node;
mod policies;
mod recovery;
mod resend;
mod reverse;
mod selection;
mod watch;
mod whatif;

use std::collections::BTreeSet;

use lnet_core::{StateError, UsedPaths};
use lnet_types::Nid;

pub use decided::{Decision, decision};
pub use explanation::{
    Answer, Asked, Assumption, Branch, CaseFacts, Difference, Explanation, Forecast, HealthReport,
    LevelTable, Path, Pick, Policies, PolicyValue, ResendTree, Row, RuleReport, Share, Try,
};
pub use finding::{Code, Finding, Severity};
pub use forecast::{Way, ways};
pub use import::{ImportError, Imported, Settings, Source, from_document, import};
pub use node::{Assumed, Facts, Node, ShownPriority};
pub use reverse::{Reverse, reverse};
pub use whatif::{Change, ChangeError, Parameter, Switch, Target, new_peer, new_peer_ni};

/// A question about the messages from a node to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The destination NID.
    pub to: Nid,
    /// The source NID that the sender demands; `None` if any local NI may be chosen.
    pub from: Option<Nid>,
    /// The payload of each message in bytes. The size matters only when queued bytes are compared.
    pub size: u32,
    /// The number of sends that the forecast simulates.
    pub sends: u32,
}

/// Explains the path of the next message, and forecasts the messages after it.
///
/// # Errors
///
/// Returns an error if no node can be in this state.
pub fn explain(node: &Node, question: &Question) -> Result<Explanation, StateError> {
    let near = node.about(question.to);
    let drive = drive::Drive::new(&near)?;
    let told = selection::tell(node, &drive.core, question, |choice| drive.path(choice));
    let policies = policies::policies(node, question.to);
    let context = findings::Context {
        node,
        question,
        told: &told,
        policies: &policies,
    };
    let findings = findings::findings(&context);
    Ok(Explanation {
        question: asked(node, question),
        health: health::reports(node, &concerned(node, question))?,
        forecast: forecast::forecast(&near, question)?,
        resends: resend::trees(&near, question)?,
        assumed: assumed::assumptions(&near, question)?,
        answer: told.answer,
        classification: told.classification,
        levels: told.levels,
        policies,
        findings,
    })
}

/// Applies `changes` in their order, and explains how the answer differs afterwards.
///
/// # Errors
///
/// [`WhatIfError::Change`] for the first change that cannot be made; [`WhatIfError::State`] if no node can be in
/// the state before or after the changes.
pub fn what_if(
    node: &Node,
    question: &Question,
    changes: &[Change],
) -> Result<Difference, WhatIfError> {
    let before = explain(node, question)?;
    let mut changed = node.clone();
    for change in changes {
        change.apply(&mut changed, question.to)?;
    }
    let after = explain(&changed, question)?;
    let told = changes.iter().map(ToString::to_string).collect();
    Ok(difference::difference(&before, after, told))
}

/// The reason why a change cannot be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// The change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// No node can be in the state that results.
    #[error(transparent)]
    State(#[from] StateError),
}

fn asked(node: &Node, question: &Question) -> Asked {
    let globals = &node.state.config.globals;
    Asked {
        to: question.to.to_string(),
        from: question.from.map(|from| from.to_string()),
        size: question.size,
        profile: globals.profile.name(),
        used_paths: match globals.used_paths {
            UsedPaths::Pair => "pair",
            UsedPaths::Literal => "literal",
        },
    }
}

/// Returns the peer NIs whose health may matter: the NIs of the destination's peer, and the gateways.
fn concerned(node: &Node, question: &Question) -> BTreeSet<Nid> {
    let peers = node.state.peers.iter();
    let peer = peers.filter(|peer| peer.nids.contains(&question.to));
    let of_peer = peer.flat_map(|peer| peer.nids.iter().copied());
    let gateways = node.state.gateways.iter().map(|gateway| gateway.nid);
    of_peer.chain(gateways).chain([question.to]).collect()
}
