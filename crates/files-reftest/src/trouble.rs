//! The same steps on a file system whose parts fail, and on the model: each step happens once, or is reported.

use files::{Caller, Errno, FileSystem, OUTCOME_UNKNOWN};

use crate::Mismatch;
use crate::compare::{Run, same_trees, slot_of, tree};
use crate::model::{Model, Outcome};
use crate::step::{Step, Steps};

/// What makes a file system fail.
pub trait Trouble {
    /// The step with this number comes next.
    fn before(&self, step: usize);

    /// Whether anything failed since the last call.
    fn struck(&self) -> bool;

    /// Ends all trouble: from here on everything answers.
    fn heal(&self);
}

/// What is compared.
pub struct Subject<'a> {
    /// The clients; each has handles of its own.
    pub clients: &'a [&'a dyn FileSystem],
    /// How many of them, the last ones, cannot change anything: their steps that would are left out.
    pub readers: usize,
    /// Another way to the same files, which never fails.
    pub truth: &'a dyn FileSystem,
    /// What fails.
    pub trouble: &'a dyn Trouble,
}

/// How the steps ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As if nothing had failed.
    pub done: u64,
    /// Those among them during which something failed.
    pub survived: u64,
    /// Their outcome is unknown.
    pub unknown: u64,
    /// They were refused without effect, because nothing answered, and repeated if they may be.
    pub unreached: u64,
    /// They said that earlier changes may not be on the disk.
    pub uncommitted: u64,
    /// A handle was given up, because an object was moved by another client or is gone for some of the servers.
    pub stale: u64,
}

/// Carries the steps out while things fail. Each result must be that of the model, or one of these:
///
/// * [`OUTCOME_UNKNOWN`] of a step that is not idempotent: the files are as before it, or as after it;
/// * an error that says that nothing answers: of a step that is not idempotent the files are as before it; the others
///   are repeated, and must succeed;
/// * `EIO` of a commit: changes may be lost, because a machine was started again that held them;
/// * `ESTALE` or another object's end where several clients move and remove things: no name and no content changes.
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

    /// A step that ended as if nothing had failed, or because an object is out of reach.
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

    /// A step happened once or not at all.
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

    /// Whether a step says that changes may be lost which a machine held that was started again.
    fn may_be_lost(&self, step: &Step, found: &Result<Outcome, Errno>) -> bool {
        self.is_troubled && matches!(step, Step::Commit { .. }) && *found == Err(Errno::EIO)
    }

    /// Whether paths may have changed behind the back of a client.
    fn may_be_stale(&self) -> bool {
        self.subject.clients.len() > 1 || self.tally.unknown > 0
    }
}

/// A file that the step has made, and found again when it was driven a second time. The trees are compared then.
fn is_found_again(found: &Result<Outcome, Errno>, expected: &Result<Outcome, Errno>) -> bool {
    match (found, expected) {
        (Ok(Outcome::Created(found, false)), Ok(Outcome::Created(expected, true))) => {
            found == expected
        }
        _ => false,
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
