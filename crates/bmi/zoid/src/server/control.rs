//! Commands to the plugin and their replies, over message queues.
//!
//! Each call in progress has a reply queue of its own, so that a sleeping test does not delay other calls. A
//! call that finds no free queue creates one, up to the protocol's limit; queues are kept. Waits are divided
//! into slices, and the daemon's life is checked between them.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bmi::Error;
use sys::{
    ForkMark, MessageQueue, QueueAccess, QueueShape, explain_queue_error, share_with_group,
    unlink_queue,
};
use zoid_proto::ctl::{
    CTL_MESSAGE_LEN, Opcode, REPLY_QUEUE_DEPTH, REPLY_SLOTS, Reply, ReplyHeader, Request,
    RequestHeader,
};
use zoid_proto::{Instance, Problem, Status};

use super::watch::Watch;
use crate::counters::Counters;
use crate::error::of_status;

/// The time between checks of the daemon's life.
const SLICE: Duration = Duration::from_millis(200);

/// No limit: a living daemon is waited for, even if a debugger has stopped it. Otherwise the daemon could
/// later write to memory of a post that was given up.
pub(super) const WHILE_IT_LIVES: Duration = Duration::MAX;

/// The queues of one attachment.
pub(super) struct Control {
    queue: MessageQueue,
    instance: Instance,
    process: u32,
    mark: ForkMark,
    /// The group that may open the reply queues besides this user, because the daemon may run as another
    /// user.
    group: Option<u32>,
    /// How long a wait for an answer polls before it sleeps.
    spin: Duration,
    counters: Arc<Counters>,
    slots: Mutex<Slots>,
    released: Condvar,
}

struct Slots {
    free: Vec<Slot>,
    /// The number of slots created so far.
    made: u32,
    /// The number of threads that wait for a slot.
    wanted: u32,
}

/// A reply queue and the sequence of its last command.
struct Slot {
    index: u32,
    queue: MessageQueue,
    sequence: u64,
}

/// A slot in use.
pub(super) struct InUse<'a> {
    control: &'a Control,
    slot: Option<Slot>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let mut slots = self.control.lock();
            slots.free.push(slot);
            // Waking nobody would still be a system call.
            if slots.wanted > 0 {
                self.control.released.notify_one();
            }
        }
    }
}

/// A command that waits for its reply.
pub(super) struct Call<'a> {
    slot: InUse<'a>,
    sequence: u64,
    opcode: Opcode,
}

/// An encoded reply.
pub(super) struct Answer {
    bytes: Box<[u8; CTL_MESSAGE_LEN]>,
    len: usize,
    header: ReplyHeader,
}

/// Whether a signal has ended a sleep in the plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupted(pub(super) bool);

impl From<Interrupted> for Result<(), Error> {
    fn from(Interrupted(interrupted): Interrupted) -> Self {
        match interrupted {
            true => Err(Error::Intr),
            false => Ok(()),
        }
    }
}

impl Answer {
    /// Decodes the reply.
    ///
    /// # Errors
    ///
    /// The error that the plugin returned, or [`Error::Proto`] for an invalid reply.
    pub(super) fn reply(&self) -> Result<Reply<'_>, Error> {
        if self.header.status.is_error() {
            return Err(of_status(self.header.status));
        }
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        Reply::decode(&self.header, bytes).map_err(|error| {
            tracing::warn!(%error, "a reply of the plugin is invalid");
            Error::Proto
        })
    }
}

impl Control {
    /// Opens the control queue and creates the first reply queue.
    ///
    /// # Errors
    ///
    /// There is no control queue, or no queue can be created.
    pub(super) fn open(
        instance: &Instance,
        process: u32,
        (group, spin): (Option<u32>, Duration),
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let control = Self {
            queue: MessageQueue::open(&instance.control_queue(), QueueAccess::Send)?,
            instance: instance.clone(),
            process,
            mark: ForkMark::new(),
            group,
            spin,
            counters,
            slots: Mutex::new(Slots {
                free: Vec::new(),
                made: 0,
                wanted: 0,
            }),
            released: Condvar::new(),
        };
        let first = control.make_slot(0)?;
        let mut slots = control.lock();
        slots.free.push(first);
        slots.made = 1;
        drop(slots);
        Ok(control)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // [CTL-5]
    fn make_slot(&self, index: u32) -> io::Result<Slot> {
        let name = self.instance.reply_queue(self.process, index);
        let shape = QueueShape {
            messages: REPLY_QUEUE_DEPTH,
            message_bytes: CTL_MESSAGE_LEN,
        };
        let mut made = MessageQueue::create(&name, QueueAccess::Receive, shape);
        if matches!(&made, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            // Left by a dead process with our process id; no living process has it.
            unlink_queue(&name)?;
            made = MessageQueue::create(&name, QueueAccess::Receive, shape);
        }
        if let (Ok(queue), Some(group)) = (&made, self.group) {
            share_with_group(queue, group)?;
        }
        let slot = Slot {
            index,
            queue: made?,
            sequence: 0,
        };
        self.counters.reply_queues().up();
        Ok(slot)
    }

    /// Returns a reply queue for a call: a free one, a new one, or one that is waited for.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]: none is free within `limit`. Errors of the watch if the daemon is gone.
    // [CTL-4]
    pub(super) fn slot(&self, watch: &Watch, limit: Duration) -> Result<InUse<'_>, Error> {
        let began = Instant::now();
        let mut slots = self.lock();
        loop {
            if let Some(slot) = slots.free.pop() {
                return Ok(InUse {
                    control: self,
                    slot: Some(slot),
                });
            }
            if slots.made < REPLY_SLOTS {
                match self.make_slot(slots.made) {
                    Ok(slot) => {
                        slots.made += 1;
                        slots.free.push(slot);
                        continue;
                    }
                    Err(error) => {
                        let why = explain_queue_error(&error);
                        tracing::warn!(%error, ?why, "no further reply queue; calls take turns");
                    }
                }
            }
            watch.check()?;
            if began.elapsed() >= limit {
                return Err(Error::TimedOut);
            }
            slots.wanted += 1;
            let waited = self.released.wait_timeout(slots, SLICE);
            slots = waited.unwrap_or_else(PoisonError::into_inner).0;
            slots.wanted -= 1;
        }
    }

    /// Sends a command that is not answered.
    pub(super) fn send_unanswered(
        &self,
        session: u64,
        request: &Request<'_>,
        watch: &Watch,
    ) -> Result<(), Error> {
        let header = RequestHeader {
            opcode: request.opcode(),
            len: 0,
            slot: None,
            session,
            sequence: 0,
            spilled: false,
        };
        self.put(request, header, watch)
    }

    /// Sends a command and waits for its reply.
    pub(super) fn call(
        &self,
        session: u64,
        request: &Request<'_>,
        watch: &Watch,
        limit: Duration,
    ) -> Result<Answer, Error> {
        let slot = self.slot(watch, limit)?;
        slot.ask(session, request, watch)?.answer(watch, limit)
    }

    fn put(
        &self,
        request: &Request<'_>,
        header: RequestHeader,
        watch: &Watch,
    ) -> Result<(), Error> {
        if !self.mark.is_own() {
            // A child after `fork` has only a copy of its parent's slots.
            return Err(Error::Inval);
        }
        // A dead daemon's queue accepts messages until it is full.
        watch.check_known()?;
        let mut bytes = [0; CTL_MESSAGE_LEN];
        let len = request
            .encode(header, &mut bytes)
            .map_err(|_| Error::Inval)?;
        let message = bytes.get(..len).unwrap_or_default();
        loop {
            match self.queue.send(message, SLICE) {
                Ok(()) => {
                    self.counters.commands().up();
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => watch.check()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the reply queues' names.
    pub(super) fn unlink(&self) {
        let made = self.lock().made;
        for index in 0..made {
            let name = self.instance.reply_queue(self.process, index);
            if let Err(error) = unlink_queue(&name) {
                tracing::debug!(%error, name, "a reply queue did not exist any more");
            }
        }
    }
}

impl<'a> InUse<'a> {
    /// Sends a command. Returns the call that waits for its reply.
    pub(super) fn ask(
        mut self,
        session: u64,
        request: &Request<'_>,
        watch: &Watch,
    ) -> Result<Call<'a>, Error> {
        let (index, sequence) = match &mut self.slot {
            Some(slot) => {
                slot.sequence += 1;
                (slot.index, slot.sequence)
            }
            // A slot stays in use until it is dropped.
            None => return Err(Error::Proto),
        };
        let header = RequestHeader {
            opcode: request.opcode(),
            len: 0,
            slot: Some(index),
            session,
            sequence,
            spilled: false,
        };
        self.control.put(request, header, watch)?;
        Ok(Call {
            slot: self,
            sequence,
            opcode: request.opcode(),
        })
    }
}

impl Call<'_> {
    /// Waits for the reply. Drops replies to earlier commands whose calls have ended.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]: none within `limit`. Errors of the watch if the daemon is gone.
    /// [`Error::ProtoNoSupport`]: the daemon answered INIT in another version.
    pub(super) fn answer(self, watch: &Watch, limit: Duration) -> Result<Answer, Error> {
        self.answer_by(watch, limit, MessageQueue::receive)
    }

    /// Like [`answer`](Self::answer), without a limit. At the first signal calls `hurry`, which makes the
    /// plugin answer.
    pub(super) fn answer_or_signal(
        self,
        watch: &Watch,
        hurry: impl FnOnce(),
    ) -> Result<(Answer, Interrupted), Error> {
        let mut hurry = Some(hurry);
        let answer = self.answer_by(watch, WHILE_IT_LIVES, |queue, bytes, time| {
            if hurry.is_none() {
                return queue.receive(bytes, time);
            }
            let received = queue.receive_or_signal(bytes, time);
            match (received, hurry.take()) {
                (Err(error), Some(now)) if error.kind() == ErrorKind::Interrupted => {
                    now();
                    Err(ErrorKind::TimedOut.into())
                }
                (received, later) => {
                    hurry = later;
                    received
                }
            }
        });
        Ok((answer?, Interrupted(hurry.is_none())))
    }

    fn answer_by(
        mut self,
        watch: &Watch,
        limit: Duration,
        mut receive: impl FnMut(&MessageQueue, &mut [u8], Duration) -> io::Result<usize>,
    ) -> Result<Answer, Error> {
        let began = Instant::now();
        let mut bytes = Box::new([0; CTL_MESSAGE_LEN]);
        let mut spin = self.slot.control.spin;
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let Some(slot) = &mut self.slot.slot else {
                return Err(Error::Proto);
            };
            // Once: an answer that takes longer is not worth the core.
            let spun = spin_for(&slot.queue, &mut bytes[..], std::mem::take(&mut spin));
            let received =
                spun.unwrap_or_else(|| receive(&slot.queue, &mut bytes[..], SLICE.min(left)));
            match received {
                Ok(len) => {
                    let message = bytes.get(..len).unwrap_or_default();
                    match ReplyHeader::decode(message) {
                        Ok(header) if self.is_answered_by(&header) => {
                            return Ok(Answer { bytes, len, header });
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::warn!(%error, "a message in the reply queue is not a reply");
                            // After INIT, the daemon is known to use this version.
                            let newer = matches!(error.problem, Problem::UnknownVersion(_));
                            if newer && self.opcode == Opcode::INIT {
                                return Err(Error::ProtoNoSupport);
                            }
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    watch.check()?;
                    if began.elapsed() >= limit {
                        return Err(Error::TimedOut);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    // [CTL-6]
    fn is_answered_by(&self, header: &ReplyHeader) -> bool {
        // A plugin that does not know a command may answer with only the opcode correct.
        header.sequence == self.sequence
            && (header.opcode == self.opcode || header.status != Status::NONE)
    }
}

/// Polls for a message without sleeping; `None` at the end of the time. The thread yields between polls,
/// because the daemon may need this core to answer.
fn spin_for(queue: &MessageQueue, bytes: &mut [u8], time: Duration) -> Option<io::Result<usize>> {
    let began = Instant::now();
    while !time.is_zero() && began.elapsed() < time {
        match queue.try_receive(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            received => return Some(received),
        }
    }
    None
}
