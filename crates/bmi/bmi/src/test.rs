//! Tests: collect completed operations, and let methods make progress until one completes.
//!
//! A test divides its time among the methods that matter to it. A single method gets all of it. Several
//! methods take turns in short slices, because a completion at one method is not noticed while another one
//! sleeps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::address::Target;
use crate::bmi::Bmi;
use crate::error::Error;
use crate::id::{Address, Class, ContextId, OpId, Tag};
use crate::method::{Method, Received, Wanted, Which};
use crate::ops::Completion;
use crate::payload::{Buffer, Memory};
use crate::turns::Turns;

/// A received unexpected message.
#[derive(Debug)]
pub struct Unexpected {
    /// The sender's address, which can be replied to.
    pub from: Address,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes, in memory that frees itself.
    pub data: Buffer,
}

impl Bmi {
    /// Waits at most `wait` for an operation, and collects it. Without a wait, checks once.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such operation: it was collected, or never posted. [`Error::NetDown`]: finalized,
    /// possibly during the wait.
    // [BMI-22]
    pub fn test(&self, op: OpId, wait: Duration) -> Result<Option<Completion>, Error> {
        self.check_open()?;
        // [BMI-24]
        let index = self.ops.method_of(op).ok_or_else(|| self.unknown())?;
        let ids = [op];
        let met = || self.ops.any_done(&ids);
        let wanted = Wanted {
            which: Which::These(&ids),
            unexpected_ends_wait: false,
            met: &met,
        };
        let mut turns = Turns::new(wait);
        loop {
            if let Some(completion) = self.ops.collect(op) {
                return Ok(Some(completion));
            }
            if self.ops.method_of(op).is_none() {
                // Another thread's test of a whole context has collected the operation, or the interface was
                // finalized.
                return Err(self.unknown());
            }
            let Some(left) = turns.next() else {
                return Ok(None);
            };
            if !self.give_time(index, &wanted, left)? {
                turns.end();
            }
        }
    }

    /// Waits at most `wait` for one of several operations. Collects all that have completed, each with its
    /// place in `ops`. Ids that name nothing are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: there are ids, and none names an operation. [`Error::NetDown`].
    // [BMI-25]
    pub fn test_some(
        &self,
        ops: &[OpId],
        wait: Duration,
    ) -> Result<Vec<(usize, Completion)>, Error> {
        self.check_open()?;
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        let mut turns = Turns::new(wait);
        loop {
            let done = self.collect_some(ops);
            if !done.is_empty() {
                return Ok(done);
            }
            // In each turn: another thread's test of a whole context may have collected some of them.
            let sets = self.by_method(ops);
            if sets.is_empty() {
                return Err(self.unknown());
            }
            let Some(left) = turns.next() else {
                return Ok(Vec::new());
            };
            let slice = slice(left, sets.len());
            for (index, ids) in &sets {
                let met = || self.ops.any_done(ids);
                let wanted = Wanted {
                    which: Which::These(ids),
                    unexpected_ends_wait: false,
                    met: &met,
                };
                if !self.give_time(*index, &wanted, slice)? {
                    turns.end();
                    break;
                }
            }
        }
    }

    /// Waits at most `wait` for operations of a context. Collects at most `capacity` of them, in the order of
    /// completion.
    ///
    /// Returns early, with nothing, if an unexpected message waits, because programs test for both in turn;
    /// [`crate::Setting::CheckUnexpected`] turns that off.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such context. [`Error::NetDown`].
    pub fn test_context(
        &self,
        context: ContextId,
        capacity: usize,
        wait: Duration,
    ) -> Result<Vec<Completion>, Error> {
        self.test_until(context, capacity, wait, true, &|| false)
    }

    /// Like [`Bmi::test_context`], but also ends when `stop` returns true. A thread that changes the result
    /// of `stop` calls [`Bmi::wake`].
    ///
    /// # Errors
    ///
    /// As [`Bmi::test_context`].
    pub fn test_context_until(
        &self,
        context: ContextId,
        capacity: usize,
        wait: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Completion>, Error> {
        self.test_until(context, capacity, wait, true, stop)
    }

    /// Makes every sleeping test check its condition again.
    pub fn wake(&self) {
        for (_, method) in self.active() {
            method.wake();
        }
    }

    /// Like [`Bmi::test_context`], until `stop` returns true; a thread that changes its result wakes the
    /// methods. With `unexpected`, an unexpected message also ends the test, if the option allows.
    pub(crate) fn test_until(
        &self,
        context: ContextId,
        capacity: usize,
        wait: Duration,
        unexpected: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Completion>, Error> {
        self.check_open()?;
        if !self.ops.is_open(context) {
            return Err(self.unknown());
        }
        let mut done = Vec::new();
        let met = || self.ops.context_done(context) || stop();
        // [BMI-27]
        let mut turns = Turns::new(if capacity == 0 { Duration::ZERO } else { wait });
        loop {
            self.ops.collect_any(context, capacity, &mut done);
            if !done.is_empty() || stop() {
                return Ok(done);
            }
            let Some(mut left) = turns.next() else {
                return Ok(done);
            };
            let relevant = self.relevant();
            if relevant.is_empty() {
                return Ok(done);
            }
            // [BMI-28]
            if unexpected && self.unexpected_waiting() {
                // One last poll without sleep takes in what has arrived.
                left = Duration::ZERO;
                turns.end();
            }
            let slice = slice(left, relevant.len());
            for index in relevant {
                let wanted = Wanted {
                    which: Which::Any { context, capacity },
                    // An unexpected message that already waits must not keep the method from making progress.
                    unexpected_ends_wait: unexpected
                        && !left.is_zero()
                        && self.checks_unexpected(index),
                    met: &met,
                };
                if !self.give_time(index, &wanted, slice)? {
                    turns.end();
                    break;
                }
            }
        }
    }

    /// Lets a method make progress. Returns false if a signal ended its sleep early.
    fn give_time(&self, index: usize, wanted: &Wanted<'_>, time: Duration) -> Result<bool, Error> {
        let whole = match self.method(index)?.test(wanted, time) {
            Err(Error::Intr) => false,
            tested => tested.map(|()| true)?,
        };
        self.check_open()?;
        Ok(whole)
    }

    /// Waits at most `wait` for unexpected messages of a class, and collects at most `capacity` of them.
    /// Messages of one sender arrive in the order of their posts.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`].
    pub fn test_unexpected(
        &self,
        class: Class,
        capacity: usize,
        wait: Duration,
    ) -> Result<Vec<Unexpected>, Error> {
        self.test_unexpected_until(class, capacity, wait, &|| false)
    }

    /// Like [`Bmi::test_unexpected`], but also ends when `stop` returns true. A thread that changes the result
    /// of `stop` calls [`Bmi::wake`].
    ///
    /// # Errors
    ///
    /// As [`Bmi::test_unexpected`].
    pub fn test_unexpected_until(
        &self,
        class: Class,
        capacity: usize,
        wait: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Unexpected>, Error> {
        self.check_open()?;
        let listening: Vec<usize> = self.listening();
        let mut found = Vec::new();
        let mut turns = Turns::new(wait);
        while let Some(left) = turns
            .next()
            .filter(|_| capacity > 0 && !listening.is_empty() && !stop())
        {
            let slice = slice(left, listening.len());
            // Begins with another method each time, so that a busy method does not starve the others.
            let first = self.turn.fetch_add(1, Ordering::Relaxed);
            for turn in 0..listening.len() {
                let index = listening[first.wrapping_add(turn) % listening.len()];
                let whole = self.collect_unexpected(index, class, capacity, slice, &mut found)?;
                if !found.is_empty() || !whole {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Collects messages of one method. Returns false if a signal ended its sleep early.
    fn collect_unexpected(
        &self,
        index: usize,
        class: Class,
        capacity: usize,
        wait: Duration,
        found: &mut Vec<Unexpected>,
    ) -> Result<bool, Error> {
        let mut received = Vec::new();
        let method = self.method(index)?;
        let whole = match method.test_unexpected(class, capacity, wait, &mut received) {
            Err(Error::Intr) => false,
            tested => tested.map(|()| true)?,
        };
        self.check_open()?;
        for message in received {
            found.push(self.introduce(index, message)?);
        }
        Ok(whole)
    }

    /// Assigns an address to the sender of a message.
    fn introduce(&self, index: usize, message: Received) -> Result<Unexpected, Error> {
        let target = Target {
            method: index,
            peer: message.peer,
        };
        let mut addresses = self.addresses();
        let from = addresses.of_target(target)?;
        if self.auto_reference {
            addresses.refer(from)?;
        }
        drop(addresses);
        Ok(Unexpected {
            from,
            tag: message.tag,
            data: Buffer::reclaim(message.data, Memory::External),
        })
    }

    /// Groups the operations that exist by method.
    fn by_method(&self, ops: &[OpId]) -> Vec<(usize, Vec<OpId>)> {
        let mut sets: Vec<(usize, Vec<OpId>)> = Vec::new();
        for &op in ops {
            let Some(index) = self.ops.method_of(op) else {
                continue;
            };
            match sets.iter_mut().find(|(method, _)| *method == index) {
                Some((_, ids)) => ids.push(op),
                None => sets.push((index, vec![op])),
            }
        }
        sets
    }

    /// Collects each operation once, even if its id occurs twice.
    fn collect_some(&self, ops: &[OpId]) -> Vec<(usize, Completion)> {
        let each = |(place, &op): (usize, &OpId)| Some((place, self.ops.collect(op)?));
        ops.iter().enumerate().filter_map(each).collect()
    }

    fn method(&self, index: usize) -> Result<&dyn Method, Error> {
        let method = self.slots[index].method.get();
        Ok(&**method.ok_or(Error::NetDown)?)
    }

    /// Returns the methods that a test of a context must call: those with operations in flight and those that
    /// can receive unexpected messages; all methods if there are none.
    fn relevant(&self) -> Vec<usize> {
        let matters = |&(index, method): &(usize, &std::sync::Arc<dyn Method>)| {
            method.traits().receives_unexpected || self.ops.pending_at(index) > 0
        };
        let some: Vec<usize> = self
            .active()
            .filter(matters)
            .map(|(index, _)| index)
            .collect();
        if some.is_empty() {
            return self.active().map(|(index, _)| index).collect();
        }
        some
    }

    fn listening(&self) -> Vec<usize> {
        self.active()
            .filter(|(_, method)| method.traits().receives_unexpected)
            .map(|(index, _)| index)
            .collect()
    }

    fn checks_unexpected(&self, index: usize) -> bool {
        self.slots[index].check_unexpected.load(Ordering::Relaxed)
    }

    pub(crate) fn unexpected_waiting(&self) -> bool {
        self.active()
            .any(|(index, method)| self.checks_unexpected(index) && method.unexpected_waiting())
    }
}

/// How long one of several methods may sleep while the others are not polled.
const SLICE_MAX: Duration = Duration::from_millis(10);
/// The shortest slice of a method, unless the test has no time at all.
const SLICE_MIN: Duration = Duration::from_millis(1);

/// Returns the slice of one of `count` methods.
fn slice(left: Duration, count: usize) -> Duration {
    if count <= 1 || left.is_zero() {
        return left;
    }
    let share = left / u32::try_from(count).unwrap_or(u32::MAX);
    share.clamp(SLICE_MIN, SLICE_MAX)
}
