//! The attached server: its process, and a reply queue for each of its concurrent calls.
//!
//! A slot's queue is opened by the first command that names it. Nothing here ever waits: a full
//! queue keeps its reply until the system says that there is room, and a second reply for such a
//! slot sends the first one back to the engine, which reports what it said again.

use std::io::{self, ErrorKind};
use std::time::Duration;

use sys::{MessageQueue, ProcessHandle, QueueAccess};
use tracing::{debug, warn};
use zbmi::{Answer, CallId, Session, Time};
use zoid_proto::Instance;
use zoid_proto::ctl::{REPLY_SLOTS, RequestHeader};

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
    /// The system tells.
    Handle(ProcessHandle),
    /// It is looked for once a second.
    Start { start: Option<u64>, looked: Time },
}

/// One reply queue.
#[derive(Debug, Default)]
struct Slot {
    queue: Option<MessageQueue>,
    /// The call that awaits its answer.
    call: Option<(CallId, RequestHeader)>,
    /// A reply that found the queue full.
    waiting: Option<(Vec<u8>, Option<Answer>)>,
}

/// What became of a reply.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It is in the queue, or will be.
    Yes,
    /// These answers did not reach the server.
    Returned(Vec<Answer>),
    /// It waits; the system is to say when there is room.
    Waits(Vec<Answer>),
}

/// How often a process without a handle is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Server {
    pub(crate) fn new(session: Session, process: u32, now: Time) -> Self {
        let watch = match ProcessHandle::open(process) {
            Ok(handle) => Watch::Handle(handle),
            Err(error) => {
                debug!(%error, process, "no process handle; looking for it once a second");
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

    /// What becomes readable when the process ends.
    pub(crate) fn handle(&self) -> Option<&ProcessHandle> {
        match &self.watch {
            Watch::Handle(handle) => Some(handle),
            Watch::Start { .. } => None,
        }
    }

    /// Whether the process has ended, as far as one can know now.
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

    /// A command on this slot awaits an answer: gives it a name, and says which older call nobody
    /// waits for any more. `None` when there is no such slot or its queue cannot be opened.
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
        // The slot's number in the lowest bits finds the way back.
        self.calls += 1;
        let call = CallId(self.calls * u64::from(REPLY_SLOTS) + u64::from(number));
        let older = slot.call.replace((call, header));
        Some((call, older.map(|(call, _)| call)))
    }

    /// The command that is to be answered, once.
    pub(crate) fn end(&mut self, call: CallId) -> Option<RequestHeader> {
        let slot = self.slots.get_mut(slot_of(call))?;
        let (_, header) = slot.call.take_if(|(current, _)| *current == call)?;
        Some(header)
    }

    /// Sends a reply. `answer` is what it says, if the engine can say it again.
    pub(crate) fn send(&mut self, slot: u32, reply: Vec<u8>, answer: Option<Answer>) -> Sent {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(index) else {
            return Sent::Returned(answer.into_iter().collect());
        };
        let mut returned = Vec::new();
        if let Some((_, answer)) = slot.waiting.take() {
            // Its call was given up: a newer one on this slot has an answer.
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

    /// The queue of a slot, to be watched for room.
    pub(crate) fn queue(&self, slot: u32) -> Option<&MessageQueue> {
        let index = usize::try_from(slot).ok()?;
        self.slots.get(index)?.queue.as_ref()
    }

    /// There is room in a slot's queue, maybe.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] when there is not; another error with the answer lost is the
    /// caller's to hand back to the engine.
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

/// The slot that a call came from.
pub(crate) fn slot_of(call: CallId) -> usize {
    // Below 64.
    (call.0 % u64::from(REPLY_SLOTS)) as usize
}
