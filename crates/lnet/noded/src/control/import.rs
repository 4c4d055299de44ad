//! `import`: makes a document's changes to the node in one step, all of them or none.
//!
//! ```text
//!  document ─▶ plan: changes in an order that a node can make
//!                 │ one after the other, under one lock
//!                 ├─ all made ─▶ done
//!                 └─ one rejected ─▶ back to the configuration before, unless `partial`
//! ```

use std::fmt::Display;

use lnet_config::{Change, Config, diff};
use lnet_core::PeerCursor;
use lnet_dlc::protocol::{Failure, ImportMode, Reply};
use lnet_policy::{Profile, RuleList};
use lnet_types::Time;
use thiserror::Error;
use tracing::{debug, warn};

use super::before::{self, Before, Concerned, PEERS_PER_PAGE};
use super::plan::{Wanted, replacement, with_defaults};
use super::request::failure;
use super::show;
use crate::change;
use crate::changing::Changing;
use crate::managed::{Configured, ManagedNode};
use crate::setup;

const ENOENT: i32 = 2;

/// How to import a document.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) mode: ImportMode,
    pub(super) partial: bool,
    pub(super) dry_run: bool,
}

pub(super) fn import(node: &ManagedNode, yaml: &str, how: How) -> Reply {
    let mut wanted = match Wanted::read(yaml, how.mode) {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    let changing = node.changing();
    let before = Before::look(node, &wanted.concerns());
    let shares = node.with_core(|core, _| core.globals().profile) == Profile::Lustre217;
    let warnings = match shares {
        true => wanted.share_tunables(&before.config),
        false => String::new(),
    };
    let planned = wanted.plan(&before).and_then(|(changes, report)| {
        if how.dry_run {
            rehearse(node, &before, &changes)?;
        } else {
            carry_out(&changing, &before, &changes, how.partial)?;
        }
        Ok(warnings + &report)
    });
    match planned {
        Ok(report) if report.is_empty() => Reply::Done,
        Ok(report) => Reply::Text(report),
        Err(failure) => Reply::Failed(vec![failure]),
    }
}

/// Configures a node as `lctl network up` and `lnetctl lnet configure --all` do: a node without a net gets the nets
/// of its document.
pub(super) fn configure(node: &ManagedNode) -> Reply {
    let changing = node.changing();
    let before = Before::look(node, &Concerned::All);
    if !before.config.nets.is_empty() {
        return Reply::Done;
    }
    let document = node.networks_of_document();
    if document.nets.is_empty() && document.ip2nets.is_empty() {
        let descr =
            "the node's document names no network: add one with net add, or to the document";
        return failure("configure", "lnet", -ENOENT, descr);
    }
    let wanted = Config {
        peers: before.config.peers.clone(),
        rules: before.config.rules.clone(),
        ..document
    };
    let changes = replacement(&before, &wanted);
    match carry_out(&changing, &before, &changes, false) {
        Ok(()) => Reply::Done,
        Err(failure) => Reply::Failed(vec![failure]),
    }
}

/// Removes the configuration as `lnetctl lnet unconfigure` does.
pub(super) fn unconfigure(node: &ManagedNode) -> Reply {
    let wanted = Config {
        routing: Some(false),
        ..Config::default()
    };
    let changing = node.changing();
    let before = Before::look(node, &Concerned::All);
    let changes = replacement(&before, &wanted);
    match carry_out(&changing, &before, &changes, false) {
        Ok(()) => {
            node.with(|node, _| node.kept.large = false);
            remove_found_peers(node);
            Reply::Done
        }
        Err(failure) => Reply::Failed(vec![failure]),
    }
}

/// Removes the peers that exist only because of traffic. Without interfaces, traffic makes no new peers.
fn remove_found_peers(node: &ManagedNode) {
    let mut at = Some(PeerCursor::START);
    while let Some(from) = at {
        at = node.with_core(|core, _| {
            let (page, next) = core.peer_page(from, PEERS_PER_PAGE);
            for peer in page {
                // A peer that is configured by now was configured by another client.
                if !peer.configured && core.remove_peer(peer.primary).is_err() {
                    debug!(peer = %peer.primary, "a peer of the former configuration no longer exists");
                }
            }
            next
        });
    }
}

/// The error of a configuration that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("nothing was changed: {0}")]
pub struct ReconfigureError(String);

impl ManagedNode {
    /// Makes the differences between the node's configuration and `wanted`, all of them or none. Returns their
    /// number. Parts that both have are not disturbed.
    ///
    /// # Errors
    ///
    /// The rejected change and the reason; the node is as before.
    pub fn reconfigure(&self, wanted: &Config) -> Result<usize, ReconfigureError> {
        let refused = |failure: Failure| ReconfigureError(failure.descr);
        let wanted = setup::taken_over(wanted, self.options().globals);
        let wanted = with_defaults(&wanted).map_err(refused)?;
        let changing = self.changing();
        let before = Before::look(self, &Concerned::All);
        let changes = replacement(&before, &wanted);
        carry_out(&changing, &before, &changes, false).map_err(refused)?;
        self.note_document(&wanted);
        Ok(changes.len())
    }
}

/// Checks whether the changes could be made: makes them in an engine like the node's that no peer can reach.
fn rehearse(node: &ManagedNode, before: &Before, changes: &[Change]) -> Result<(), Failure> {
    let unable = |error: &dyn Display| {
        super::failure::of_rehearsal(format!("the change cannot be rehearsed: {error}"))
    };
    let now = node.node().with_engine(|_, now| now);
    let tried = setup::rehearsal(&before.config, node.options(), now);
    let (mut engine, mut kept) = tried.map_err(|error| unable(&error))?;
    let mut rehearsed = Configured {
        engine: &mut engine,
        kept: &mut kept,
    };
    // Peers that exist only because of traffic are not in this engine, and can always be removed.
    let is_found = |change: &&Change| match change {
        Change::DelPeer { primary } => before.found.contains(primary),
        _ => false,
    };
    let tried: Vec<Change> = changes
        .iter()
        .filter(|change| !is_found(change))
        .cloned()
        .collect();
    let mut rules = rules_after(before, changes);
    make_all(&mut rehearsed, &tried, &mut rules, now)
}

/// Names the rejected change and the reason if there are several changes. For a single change, the tool's words are
/// enough.
fn among(changes: &[Change], refused: &Change, failure: Failure, why: &dyn Display) -> Failure {
    if changes.len() < 2 {
        return failure;
    }
    Failure {
        descr: format!("{refused}: {why}"),
        ..failure
    }
}

fn carry_out(
    changing: &Changing<'_>,
    before: &Before,
    changes: &[Change],
    partial: bool,
) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    let concerned = Concerned::by(changes);
    let former = before.only(&concerned);
    let mut rules = rules_after(before, changes);
    changing.make(|node, now| {
        let done = make_all(node, changes, &mut rules, now);
        if done.is_err() && !partial {
            undo(node, &former, &concerned, now);
        }
        done
    })
}

/// Returns the rules after the changes. They are made before the lock is taken, because a thousand rules take longer
/// than all else. `None` if a rule is rejected: making the changes one by one then finds which.
fn rules_after(before: &Before, changes: &[Change]) -> Option<RuleList> {
    let mut rules = before.config.rules.clone();
    for change in changes {
        match change {
            Change::DelRule { index } => _ = rules.delete(*index).ok()?,
            Change::AddRule { index, rule } | Change::SetRule { index, rule } => {
                _ = rules.add(rule.clone(), Some(*index)).ok()?;
            }
            _ => {}
        }
    }
    Some(rules)
}

/// Makes the changes up to the first that is rejected; all changes of rules at once, if their result is given.
fn make_all(
    node: &mut Configured<'_>,
    changes: &[Change],
    rules: &mut Option<RuleList>,
    now: Time,
) -> Result<(), Failure> {
    let are_prepared = rules.is_some();
    for change in changes {
        if are_prepared && is_of_rules(change) {
            if let Some(rules) = rules.take() {
                node.core_mut().set_rules(rules);
            }
            continue;
        }
        change::make(node, change, now).map_err(|error| {
            let failure = super::failure::of_error(change, &error);
            among(changes, change, failure, &error)
        })?;
    }
    Ok(())
}

fn is_of_rules(change: &Change) -> bool {
    matches!(
        change,
        Change::DelRule { .. } | Change::AddRule { .. } | Change::SetRule { .. }
    )
}

/// Restores the former configuration. This succeeds unless the machine has changed meanwhile.
fn undo(node: &mut Configured<'_>, former: &Config, concerned: &Concerned, now: Time) {
    let core = node.core();
    let (config, _) = show::without_peers(node).config();
    let present = Config {
        peers: before::peers_now(core, concerned),
        rules: core.rules().clone(),
        ..config
    };
    for change in diff(&present, former) {
        if let Err(error) = change::make(node, &change, now) {
            warn!(%error, ?change, "an import that failed could not be undone");
        }
    }
}
