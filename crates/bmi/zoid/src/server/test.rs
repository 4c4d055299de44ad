//! Tests: which operations the plugin has completed, and which unexpected messages have arrived.
//!
//! The interface collects failed operations before it calls the method, so a test with something to collect
//! never reaches the plugin. A test without operation ids is passed to the plugin: it reports any completions
//! to any thread that asks, and that thread wakes the tests of the contexts to which they belong.

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bmi::{Class, ContextId, Error, OpId, Received, Tag, Wanted, Which};
use sys::Waited;
use zoid_proto::ctl::{
    COMPLETIONS_PER_REPLY, INLINE_IDS, Reply, Request as Command, Test, TestSelection,
    UNEXPECTED_PER_REPLY, UnexpectedMessage, UnexpectedTest,
};
use zoid_proto::{Array, Extent, List};

use super::attachment::Attachment;
use super::ops::State;
use super::peers::Client;
use super::pool::Piece;
use super::post::write_list;
use super::{Server, Sought, lock};
use crate::error::of_status;

/// How long a test without a daemon sleeps before it tries to attach.
const NO_DAEMON: Duration = Duration::from_millis(50);

/// What to ask the plugin about.
enum Known {
    /// Any completions.
    All,
    /// These of the plugin's ids.
    These(Vec<u64>),
}

fn names(which: Which<'_>, sought: Sought) -> bool {
    match (which, sought) {
        (Which::These(ids), Sought::Op(id)) => ids.contains(&id),
        (Which::Any { context, .. }, Sought::Context(other)) => context == other,
        _ => false,
    }
}

fn sought(which: Which<'_>) -> impl Iterator<Item = Sought> {
    let (ids, context): (&[OpId], _) = match which {
        Which::These(ids) => (ids, None),
        Which::Any { context, .. } => (&[], Some(Sought::Context(context))),
    };
    ids.iter().copied().map(Sought::Op).chain(context)
}

/// What a test waits for, while it waits.
struct Named<'a> {
    server: &'a Server,
    which: Which<'a>,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        let mut named = lock(&self.server.named);
        for sought in sought(self.which) {
            if let Entry::Occupied(mut count) = named.entry(sought) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

/// How long a test waits for a completion that another thread is about to report. That report ends the wait;
/// the limit is for an answer that was lost on its way to that thread.
const REPORT: Duration = Duration::from_millis(50);

impl Server {
    // [ZOID-37]
    pub(super) fn test(self: &Arc<Self>, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error> {
        let wakes = self.wakes.load(Ordering::SeqCst);
        let Ok(attachment) = self.reattached() else {
            return self.pause(wait.min(NO_DAEMON), wakes, || wanted.is_satisfied());
        };
        attachment.report(&self.counters);
        // Before the check of completions: a thread that completes one later sees its name here.
        let _named = self.name(wanted.which());
        let asleep = attachment.wakes();
        if self.wakes.load(Ordering::SeqCst) != wakes || wanted.is_satisfied() {
            return Ok(());
        }
        let known = self.known(wanted.which());
        let scratch = match &known {
            Known::All => None,
            // The plugin knows none of them yet; they are registered when memory is freed.
            Known::These(ids) if ids.is_empty() => {
                return self.pause(wait, wakes, || wanted.is_satisfied());
            }
            Known::These(ids) if ids.len() <= INLINE_IDS => None,
            Known::These(ids) => write_list(&List::new(ids), &attachment).ok(),
        };
        let selection = select(wanted.which(), &known, scratch.as_ref(), &attachment);
        let command = Command::Test(Test {
            timeout_ms: milliseconds(wait),
            wake_on_unexpected: wanted.unexpected_ends_wait(),
            selection,
        });
        let tested = self.ask_test(&attachment, &command, wanted.which(), asleep);
        match self.check_result(&attachment, tested) {
            // The interface finds the results of the operations.
            Err(Error::NetReset | Error::NetDown) if !self.is_closed() => Ok(()),
            // All ids were unknown: another thread has just received their completions.
            Err(Error::Inval) => self.pause(REPORT.min(wait), wakes, || wanted.is_satisfied()),
            other => other,
        }
    }

    /// Returns what to ask the plugin about.
    fn known(&self, which: Which<'_>) -> Known {
        let Which::These(ids) = which else {
            return Known::All;
        };
        let ops = lock(&self.ops);
        let mut known = Vec::new();
        for op in ids.iter().filter_map(|id| ops.get(*id)) {
            if op.state == State::Announced {
                return Known::All;
            }
            known.extend(op.plugin_id());
        }
        // A program may name an operation twice; the plugin reports it once.
        known.sort_unstable();
        known.dedup();
        Known::These(known)
    }

    /// Records what a test waits for.
    fn name<'a>(&'a self, which: Which<'a>) -> Named<'a> {
        let mut named = lock(&self.named);
        for sought in sought(which) {
            *named.entry(sought).or_default() += 1;
        }
        drop(named);
        Named {
            server: self,
            which,
        }
    }

    /// Returns whether a test of another thread waits for the operation.
    // [ZOID-38]
    fn is_named_elsewhere(&self, which: Which<'_>, id: OpId, context: Option<ContextId>) -> bool {
        let named = lock(&self.named);
        let context = context.map(Sought::Context);
        let mut ways = [Some(Sought::Op(id)), context].into_iter().flatten();
        ways.any(|way| named.contains_key(&way) && !names(which, way))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn ask_test(
        &self,
        attachment: &Arc<Attachment>,
        command: &Command<'_>,
        which: Which<'_>,
        asleep: u64,
    ) -> Result<(), Error> {
        let Some((answer, end)) = attachment.sleep(command, asleep, self.interruptible())? else {
            return Ok(());
        };
        let Reply::Test(reply) = answer.reply()? else {
            return Err(Error::Proto);
        };
        if reply.unexpected_pending {
            attachment.note_told();
        }
        let (mut any, mut named) = (false, false);
        for completion in reply.completions.iter() {
            any = true;
            let number = i64::try_from(completion.bmi_id).ok();
            match number.and_then(OpId::from_number) {
                Some(id) => {
                    let context = self.complete(id, completion.outcome.map_err(of_status));
                    named |= self.is_named_elsewhere(which, id, context);
                }
                None => self.counters.protocol_errors().up(),
            }
        }
        if named {
            // A test of another thread sleeps at the plugin for an operation whose completion this test
            // received.
            attachment.wake();
        }
        if any {
            // Other tests may wait for one of these by id.
            self.changed.notify();
        }
        end.into()
    }

    /// Sleeps in this process, because the plugin has nothing to report; ends at a wake or if `met`.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`]: the method was closed. [`Error::Intr`]: a signal ended the sleep.
    fn pause(&self, wait: Duration, wakes: u64, met: impl Fn() -> bool) -> Result<(), Error> {
        let deadline = Instant::now().checked_add(wait);
        loop {
            let seen = self.changed.count();
            let left = deadline.map_or(wait, |at| at.saturating_duration_since(Instant::now()));
            if self.is_closed() {
                return Err(Error::NetDown);
            }
            if left.is_zero() || self.wakes.load(Ordering::SeqCst) != wakes || met() {
                return Ok(());
            }
            if self.changed.wait(seen, left) == Waited::Signal && self.interruptible() {
                return Err(Error::Intr);
            }
        }
    }

    pub(super) fn test_unexpected(
        self: &Arc<Self>,
        class: Class,
        capacity: usize,
        wait: Duration,
        messages: &mut Vec<Received>,
    ) -> Result<(), Error> {
        let wakes = self.wakes.load(Ordering::SeqCst);
        if capacity == 0 {
            return Ok(());
        }
        let Ok(attachment) = self.reattached() else {
            return self.pause(wait.min(NO_DAEMON), wakes, || false);
        };
        attachment.report(&self.counters);
        let asleep = attachment.wakes();
        if self.wakes.load(Ordering::SeqCst) != wakes {
            return Ok(());
        }
        // Programs look for messages in every turn; the exchange would cost two process switches.
        if wait.is_zero() && attachment.knows_that_none_waits() {
            return Ok(());
        }
        // At most as many as fit in one reply.
        let capacity = capacity.min(UNEXPECTED_PER_REPLY) as u32;
        let command = Command::UnexpectedTest(UnexpectedTest {
            capacity,
            class: class.0,
            idle_ms: milliseconds(wait),
        });
        let slept = attachment.sleep(&command, asleep, self.interruptible());
        let tested = slept.and_then(|answer| {
            let Some((answer, end)) = answer else {
                return Ok(());
            };
            let Reply::UnexpectedTest(found) = answer.reply()? else {
                return Err(Error::Proto);
            };
            attachment.note_taken(found.len(), found.len() == capacity as usize);
            for message in found.iter() {
                messages.extend(self.received(&attachment, &message));
            }
            end.into()
        });
        match self.check_result(&attachment, tested) {
            Err(Error::NetReset | Error::NetDown) if !self.is_closed() => Ok(()),
            other => other,
        }
    }

    /// Converts an unexpected message for the program; its memory is in the segment.
    // [MEM-21]
    fn received(
        self: &Arc<Self>,
        attachment: &Arc<Attachment>,
        message: &UnexpectedMessage,
    ) -> Option<Received> {
        let peer = lock(&self.peers).number(Client {
            session: attachment.session,
            pid: message.peer,
            generation: message.generation,
        });
        let place = Extent {
            offset: message.offset,
            len: message.size,
        };
        let keeper = Outstanding {
            attachment: Arc::clone(attachment),
            offset: message.offset,
        };
        let Some(data) = attachment.unexpected(place, keeper) else {
            self.counters.protocol_errors().up();
            tracing::error!(
                ?message,
                "the plugin named memory that does not exist or is in use"
            );
            return None;
        };
        self.counters.unexpected_received().up();
        Some(Received {
            peer,
            tag: Tag(message.tag),
            data,
        })
    }
}

/// The memory of an unexpected message, until the program drops it.
struct Outstanding {
    attachment: Arc<Attachment>,
    offset: u64,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let offset = self.offset;
        if let Err(error) = self
            .attachment
            .send_unanswered(&Command::UnexpectedFree { offset })
        {
            tracing::debug!(%error, "the plugin was not told that a message is freed");
        }
    }
}

fn select<'a>(
    which: Which<'_>,
    known: &'a Known,
    scratch: Option<&Piece>,
    attachment: &Attachment,
) -> TestSelection<'a> {
    let capacity = match (which, known) {
        // At most as many as fit in one reply.
        (Which::Any { capacity, .. }, _) => capacity.clamp(1, COMPLETIONS_PER_REPLY),
        (Which::These(_), Known::These(ids)) => {
            if let Some(piece) = scratch {
                let place = attachment.extent_of_piece(piece, piece.len);
                return TestSelection::These(Array::Spilled(place));
            }
            if ids.len() <= INLINE_IDS {
                return TestSelection::These(Array::inline(ids));
            }
            COMPLETIONS_PER_REPLY
        }
        // Operations without an id of the plugin cannot be named to it, nor can a list that finds no memory.
        // Then ask for any: a completion for another test waits at the interface.
        (Which::These(_), Known::All) => COMPLETIONS_PER_REPLY,
    };
    TestSelection::Any {
        capacity: capacity as u32,
    }
}

/// Converts to milliseconds, rounded up so that the plugin does not answer too early.
fn milliseconds(time: Duration) -> u32 {
    let rounded = time.saturating_add(Duration::from_nanos(999_999));
    u32::try_from(rounded.as_millis().min(i32::MAX as u128)).unwrap_or(u32::MAX)
}
