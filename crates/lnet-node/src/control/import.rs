//! `import`: a document's changes made to the node in one step, all of them or none.
//!
//! ```text
//!  document ─▶ plan: changes in an order that a node can make
//!                 │ one after the other, under one lock
//!                 ├─ all made ─▶ done
//!                 └─ one refused ─▶ back to the configuration before, unless `partial`
//! ```

use std::fmt::Display;

use lnet_config::{Change, Config, diff};
use lnet_control::{Failure, ImportMode, Reply};
use lnet_types::Time;
use thiserror::Error;
use tracing::warn;

use super::before::{self, Before, Concerned};
use super::failure::of_change;
use super::plan::{Wanted, with_defaults};
use super::show;
use crate::change;
use crate::changing::Changing;
use crate::engine::Engine;
use crate::node::Node;

const EINVAL: i32 = 22;

/// What is to be done with a document.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) mode: ImportMode,
    pub(super) partial: bool,
    pub(super) dry_run: bool,
}

pub(super) fn import(node: &Node, yaml: &str, how: How) -> Reply {
    let wanted = match Wanted::read(yaml, how.mode) {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    let changing = node.changing();
    let before = Before::look(node, &wanted.concerns());
    let changes = wanted.changes(&before);
    let done = if how.dry_run {
        check(&before.config, &changes)
    } else {
        carry_out(&changing, &before, &changes, how.partial)
    };
    match done {
        Ok(()) => Reply::Done,
        Err(failure) => Reply::Failed(vec![failure]),
    }
}

/// The node's configuration is not the new one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("nothing was changed: {0}")]
pub struct ReconfigureError(String);

impl Node {
    /// Makes the differences between the node's configuration and this one, all of them or none, and
    /// says how many there were. What both have goes on undisturbed.
    ///
    /// # Errors
    ///
    /// What was refused, and why; the node is as before.
    pub fn reconfigure(&self, wanted: &Config) -> Result<usize, ReconfigureError> {
        let refused = |failure: Failure| ReconfigureError(failure.descr);
        let wanted = Wanted::Replace(with_defaults(wanted).map_err(refused)?);
        let changing = self.changing();
        let before = Before::look(self, &wanted.concerns());
        let changes = wanted.changes(&before);
        carry_out(&changing, &before, &changes, false).map_err(refused)?;
        Ok(changes.len())
    }
}

/// Whether the changes could be made to such a configuration.
fn check(before: &Config, changes: &[Change]) -> Result<(), Failure> {
    let mut config = before.clone();
    for change in changes {
        let made = change.apply(&mut config);
        made.map_err(|error| {
            let failure = of_change(change, -EINVAL, &error.to_string());
            among(changes, change, failure, &error)
        })?;
    }
    Ok(())
}

/// Of several changes it must be said which one was refused, and why; of a single one the words of the tool do.
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
    changing.make(|engine, now| {
        let done = make_all(engine, changes, now);
        if done.is_err() && !partial {
            undo(engine, &former, &concerned, now);
        }
        done
    })
}

fn make_all(engine: &mut Engine, changes: &[Change], now: Time) -> Result<(), Failure> {
    for change in changes {
        change::make(engine, change, now).map_err(|error| {
            let failure = super::failure::of_error(change, &error);
            among(changes, change, failure, &error)
        })?;
    }
    Ok(())
}

/// Back to the configuration before. What was there a moment ago can be there again, unless the
/// machine has changed meanwhile.
fn undo(engine: &mut Engine, former: &Config, concerned: &Concerned, now: Time) {
    let core = &engine.side.core;
    let (config, _) = show::without_peers(engine).config();
    let present = Config {
        peers: before::peers_now(core, concerned),
        rules: core.rules().clone(),
        ..config
    };
    for change in diff(&present, former) {
        if let Err(error) = change::make(engine, &change, now) {
            warn!(%error, ?change, "an import that failed could not be undone");
        }
    }
}
