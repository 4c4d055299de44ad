//! The attached server: its process, and a reply queue for each of its concurrent calls.
//!
//! The first command that names a slot opens its queue. Nothing here waits: if a queue is full, the reply is
//! stored until the system reports room. A second reply for such a slot returns the first one to the engine,
//! which reports its contents again.

use std::io::{self, ErrorKind};
use std::time::Duration;

use sys::{MessageQueue, ProcessHandle, QueueAccess};
use tracing::{debug, warn};
use zoid_proto::Instance;
use zoid_proto::ctl::{REPLY_SLOTS, RequestHeader};

use crate::zbmi::{Answer, CallId, Session, Time};

/// A server from INIT to its end.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) session: Session,
    pub(crate) process: u32,
    watch: Watch,
    slots: Vec<Slot>,
    calls: u64,
}

/// How the process is watched.
#[derive(Debug)]
enum Watch {
    /// The poll reports its end.
    Handle(ProcessHandle),
    /// The process is checked once a second.
    Start { start: Option<u64>, looked: Time },
}

/// One reply queue.
#[derive(Debug, Default)]
struct Slot {
    queue: Option<MessageQueue>,
    /// The call that waits for its answer.
    call: Option<(CallId, RequestHeader)>,
    /// A reply for which the queue had no room.
    waiting: Option<(Vec<u8>, Option<Answer>)>,
}

/// The outcome of sending a reply.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It is in the queue, or will be.
    Yes,
    /// These answers did not reach the server.
    Returned(Vec<Answer>),
    /// It waits until the poll reports room.
    Waits(Vec<Answer>),
}

/// How often a process without a handle is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Server {
    pub(crate) fn new(session: Session, process: u32, now: Time) -> Self {
        let watch = match ProcessHandle::open(process) {
            Ok(handle) => Watch::Handle(handle),
            Err(error) => {
                debug!(%error, process, "no process handle; checking the process once a second");
                Watch::Start {
                    start: sys::process_start(process),
                    looked: now,
                }
            }
        };
        Self {
            session,
            process,
            watch,
            slots: (0..REPLY_SLOTS).map(|_| Slot::default()).collect(),
            calls: 0,
        }
    }

    /// Returns the handle that becomes readable when the process ends.
    pub(crate) fn handle(&self) -> Option<&ProcessHandle> {
        match &self.watch {
            Watch::Handle(handle) => Some(handle),
            Watch::Start { .. } => None,
        }
    }

    /// Returns whether the process is known to have ended.
    pub(crate) fn has_ended(&mut self, now: Time) -> bool {
        match &mut self.watch {
            Watch::Handle(handle) => handle.has_ended().unwrap_or(false),
            Watch::Start { start, looked } => {
                if now.since(*looked) < LOOK_EVERY {
                    return false;
                }
                *looked = now;
                let there = sys::process_start(self.process);
                there.is_none() || there != *start
            }
        }
    }

    /// Assigns an id to a command on this slot that waits for an answer. Also returns the older call that is
    /// no longer waited for. `None` if there is no such slot or its queue cannot be opened.
    pub(crate) fn begin(
        &mut self,
        instance: &Instance,
        header: RequestHeader,
    ) -> Option<(CallId, Option<CallId>)> {
        let number = header.slot?;
        let slot = self.slots.get_mut(usize::try_from(number).ok()?)?;
        if slot.queue.is_none() {
            let name = instance.reply_queue(self.process, number);
            match MessageQueue::open(&name, QueueAccess::Send) {
                Ok(queue) => slot.queue = Some(queue),
                Err(error) => {
                    warn!(%error, name, "cannot open a reply queue");
                    return None;
                }
            }
        }
        // The lowest bits of the id are the number of the slot.
        self.calls += 1;
        let call = CallId(self.calls * u64::from(REPLY_SLOTS) + u64::from(number));
        let older = slot.call.replace((call, header));
        Some((call, older.map(|(call, _)| call)))
    }

    /// Returns the command of a call, once.
    pub(crate) fn end(&mut self, call: CallId) -> Option<RequestHeader> {
        let slot = self.slots.get_mut(slot_of(call))?;
        let (_, header) = slot.call.take_if(|(current, _)| *current == call)?;
        Some(header)
    }

    /// Sends a reply. `answer` is its contents, if the engine can report them again.
    pub(crate) fn send(&mut self, slot: u32, reply: Vec<u8>, answer: Option<Answer>) -> Sent {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(index) else {
            return Sent::Returned(answer.into_iter().collect());
        };
        let mut returned = Vec::new();
        if let Some((_, answer)) = slot.waiting.take() {
            // A newer call on this slot has an answer, so this one is no longer waited for.
            returned.extend(answer);
        }
        let Some(queue) = &slot.queue else {
            return Sent::Returned(answer.into_iter().collect());
        };
        match queue.try_send(&reply) {
            Ok(()) if returned.is_empty() => Sent::Yes,
            Ok(()) => Sent::Returned(returned),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                slot.waiting = Some((reply, answer));
                Sent::Waits(returned)
            }
            Err(error) => {
                warn!(%error, slot = index, "cannot send a reply");
                slot.queue = None;
                returned.extend(answer);
                Sent::Returned(returned)
            }
        }
    }

    /// Returns the queue of a slot, to be polled for room.
    pub(crate) fn queue(&self, slot: u32) -> Option<&MessageQueue> {
        let index = usize::try_from(slot).ok()?;
        self.slots.get(index)?.queue.as_ref()
    }

    /// Retries a stored reply.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`]: still no room. Other errors come with the answer, which the caller returns
    /// to the engine.
    pub(crate) fn retry(&mut self, slot: u32) -> Result<(), (io::Error, Option<Answer>)> {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let (Some(queue), Some((reply, answer))) = (&slot.queue, slot.waiting.take()) else {
            return Ok(());
        };
        match queue.try_send(&reply) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                slot.waiting = Some((reply, answer));
                Err((error, None))
            }
            Err(error) => Err((error, answer)),
        }
    }
}

/// Returns the slot that a call came from.
pub(crate) fn slot_of(call: CallId) -> usize {
    // Below 64.
    (call.0 % u64::from(REPLY_SLOTS)) as usize
}
