//! Executes the same steps on the model and on a file system whose parts fail. Checks that each
//! step is executed once, or reported as not executed or unknown.

use crate::reftest::Mismatch;
use crate::reftest::compare::{Run, is_found_again, same_trees, slot_of, tree};
use crate::reftest::model::{Model, Outcome};
use crate::reftest::step::{Step, Steps};
use crate::{Caller, Errno, FileSystem, OUTCOME_UNKNOWN};

/// Makes a file system fail.
pub trait Trouble {
    /// Called before the step with this number.
    fn before(&self, step: usize);

    /// Returns whether anything failed since the last call.
    fn struck(&self) -> bool;

    /// Stops all failures: from now on every server replies.
    fn heal(&self);
}

/// The file system that is compared with the model.
pub struct Subject<'a> {
    /// The clients, each with its own handles.
    pub clients: &'a [&'a dyn FileSystem],
    /// The number of clients, counted from the last, that cannot change anything. Steps of these
    /// clients that change something are skipped.
    pub readers: usize,
    /// Another client of the same files, which never fails.
    pub truth: &'a dyn FileSystem,
    /// The source of failures.
    pub trouble: &'a dyn Trouble,
}

/// The number of steps by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Steps that ended as if nothing had failed, while nothing failed.
    pub done: u64,
    /// Steps that ended as if nothing had failed, although something failed during the step.
    pub survived: u64,
    /// Steps with an unknown outcome.
    pub unknown: u64,
    /// Steps that failed without effect because no server replied. Idempotent ones were repeated.
    pub unreached: u64,
    /// Commits that reported that earlier changes may not be on stable storage.
    pub uncommitted: u64,
    /// Steps whose handle was dropped, because another client moved the object, or some of the
    /// servers lost it.
    pub stale: u64,
}

/// Executes the steps while parts fail. Each result must be that of the model or one of these:
///
/// * [`OUTCOME_UNKNOWN`] of a step that is not idempotent: the files are as before the step or as
///   after it.
/// * An error that says that no server replies: if the step is not idempotent, the files are as
///   before it; an idempotent step is repeated and must succeed.
/// * `EIO` of a commit: changes may be lost because the machine that held them restarted.
/// * `ESTALE`, or the outcome for another object, if several clients move and remove objects: no
///   name and no contents change.
///
/// # Errors
///
/// The first difference.
pub fn compare_in_trouble(
    subject: &Subject<'_>,
    caller: &Caller,
    steps: &Steps,
) -> Result<Tally, Mismatch> {
    let clients = subject.clients.len();
    let mut check = Check {
        subject,
        caller,
        run: Run::new(subject.clients, caller, clients),
        model: Model::new(clients),
        tally: Tally::default(),
        is_troubled: false,
    };
    for (number, (client, step)) in steps.0.iter().enumerate() {
        check.step(number, client % clients, step)?;
    }
    subject.trouble.heal();
    check.is_as("at the end", &check.model)?;
    Ok(check.tally)
}

struct Check<'a> {
    subject: &'a Subject<'a>,
    caller: &'a Caller,
    run: Run<'a>,
    model: Model,
    tally: Tally,
    /// Whether anything failed so far.
    is_troubled: bool,
}

impl Check<'_> {
    fn step(&mut self, number: usize, client: usize, step: &Step) -> Result<(), Mismatch> {
        self.model.turn_to(client);
        self.subject.trouble.before(number);
        let is_reader = client + self.subject.readers >= self.subject.clients.len();
        let is_kept = slot_of(step).is_none_or(|slot| self.model.is_kept(slot));
        if !is_kept || is_reader && step.is_change() {
            return Ok(());
        }
        let mut after = self.model.clone();
        let expected = after.carry_out(step);
        let found = self.run.carry_out(client, step);
        let struck = self.subject.trouble.struck();
        self.is_troubled |= struck;
        let when = format!("step {number}, client {client}: {step:?}");
        match &found {
            Err(OUTCOME_UNKNOWN) if struck && !step.is_idempotent() => {
                self.tally.unknown += 1;
                return self.either(&when, after, step);
            }
            Err(errno) if struck && is_unreached(*errno) => {
                self.tally.unreached += 1;
                self.subject.trouble.heal();
                if step.is_idempotent() {
                    let again = self.run.carry_out(client, step);
                    self.accept(&format!("{when}, repeated"), step, &again, after, &expected)?;
                }
            }
            found => {
                self.tally.survived += u64::from(struck && *found == expected);
                self.accept(&when, step, found, after, &expected)?;
            }
        }
        if struck {
            self.is_as(&when, &self.model)?;
        }
        Ok(())
    }

    /// Accepts a step that ended as if nothing had failed, or because an object is not reachable.
    fn accept(
        &mut self,
        when: &str,
        step: &Step,
        found: &Result<Outcome, Errno>,
        after: Model,
        expected: &Result<Outcome, Errno>,
    ) -> Result<(), Mismatch> {
        if found == expected || is_found_again(found, expected) {
            self.model = after;
            self.tally.done += 1;
        } else if self.may_be_lost(step, found) {
            self.tally.uncommitted += 1;
        } else if self.may_be_stale() && is_stale(found, expected) {
            self.tally.stale += 1;
            let slot = slot_of(step);
            slot.into_iter().for_each(|slot| self.model.drop_slot(slot));
        } else {
            return Err(Mismatch::of(when.to_owned(), found, expected));
        }
        Ok(())
    }

    /// Accepts a step that was executed once or not at all.
    fn either(&mut self, when: &str, mut after: Model, step: &Step) -> Result<(), Mismatch> {
        if self.is_as(when, &self.model).is_err() {
            self.is_as(&format!("{when}, outcome unknown, once"), &after)?;
            if let Some(slot) = step.new_slot() {
                after.drop_slot(slot);
            }
            self.model = after;
        }
        Ok(())
    }

    fn is_as(&self, when: &str, model: &Model) -> Result<(), Mismatch> {
        same_trees(when, &tree(self.subject.truth, self.caller), &model.tree())
    }

    /// Returns whether a step reports that changes may be lost because the machine that held them
    /// restarted.
    fn may_be_lost(&self, step: &Step, found: &Result<Outcome, Errno>) -> bool {
        self.is_troubled && matches!(step, Step::Commit { .. }) && *found == Err(Errno::EIO)
    }

    /// Returns whether another client may have changed paths.
    fn may_be_stale(&self) -> bool {
        self.subject.clients.len() > 1 || self.tally.unknown > 0
    }
}

fn is_unreached(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ETIMEDOUT | Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::EIO
    )
}

fn is_stale(found: &Result<Outcome, Errno>, expected: &Result<Outcome, Errno>) -> bool {
    [found, expected].contains(&&Err(Errno::ESTALE))
}
