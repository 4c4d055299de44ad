//! Put and Get for programs that need no more: no thresholds, no events, no rules of unlinking.
//!
//! ```text
//!  initiator                                     target
//!  Initiator::put ──── message ────────────────▶ Inbox::next     one message, one buffer
//!  Initiator::write ── any number of bytes ────▶ Window          memory that others write
//!  Initiator::read ◀── any number of bytes ────                  and read
//! ```
//!
//! Both ends are made of the calls of [`Node`], and mix with them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lnet_core::{
    Errno, EventKind, GetRequest, InsertPosition, MdHandle, MdOptions, NoPath, PortalError,
    PutRequest,
};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{LNET_MTU, PORTALS};
use thiserror::Error;

use crate::node::{MatchEntry, Node, NodeError};
use crate::ping::describe;
use crate::queue::{EventQueue, WaitError};
use crate::stack::{Foreign, Md, NodeEvent};

/// Where an operation goes: what an [`Inbox`] or a [`Window`] is made with, and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The process; [`ProcessId::lustre`] for a node.
    pub target: ProcessId,
    /// The portal, 1 to 63. Portal 0 is LNet's own.
    pub portal: u32,
    /// The match bits.
    pub match_bits: u64,
}

impl Address {
    /// Returns an address of the node with this NID.
    #[must_use]
    pub const fn new(nid: Nid, portal: u32, match_bits: u64) -> Self {
        Self {
            target: ProcessId::lustre(nid),
            portal,
            match_bits,
        }
    }

    /// Rejects a portal on which no program can offer anything.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`] for portal 0, and for 64 and more.
    pub fn check(&self) -> Result<(), NodeError> {
        match self.portal {
            1..PORTALS => Ok(()),
            portal => Err(PortalError::InvalidPortal(portal).into()),
        }
    }
}

/// The reason why an operation of an [`Initiator`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// The node rejected the call.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A message carries at most 1 MiB.
    #[error(
        "{0} bytes are more than one message carries, 1 MiB; what is written to memory of the target may be longer"
    )]
    TooLong(usize),
    /// No interface and no route leads to the target.
    #[error("no path to {target}: {why}; add an interface or a route")]
    NoPath {
        /// The NID of the target.
        target: Nid,
        /// What is missing, or what is wrong with the gateways.
        why: NoPath,
    },
    /// The target did not answer in time.
    #[error(
        "{} did not answer within {}: nothing accepts {} there on portal {} with match bits {:#x} (memory that may \
         only be read accepts no put), or the node cannot be reached; ping it to find out",
        to.target.nid,
        seconds(*after),
        bytes(*length),
        to.portal,
        to.match_bits
    )]
    NoAnswer {
        /// The address.
        to: Address,
        /// The bytes of the message.
        length: usize,
        /// The time that passed.
        after: Duration,
    },
    /// The target has room for fewer bytes, or has fewer than were asked for.
    #[error("{} took or gave {got} of {}: its memory there ends behind them", to.target.nid, bytes(*wanted))]
    Short {
        /// The address.
        to: Address,
        /// The bytes that the target took or gave.
        got: usize,
        /// The bytes of the operation.
        wanted: usize,
    },
    /// The message could not be sent.
    #[error("{target} cannot be reached: {}; does a node run there, on the same port?", describe(*errno))]
    Failed {
        /// The NID of the target.
        target: Nid,
        /// The cause.
        errno: Errno,
    },
}

/// Returns a time in seconds, rounded to tenths.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_secs_f64() * 10.0).round() / 10.0;
    format!("{tenths} s")
}

fn bytes(count: usize) -> String {
    match count {
        1 => "1 byte".to_owned(),
        count => format!("{count} bytes"),
    }
}

/// The end that begins operations. Each call waits until the operation has ended; use one initiator in each thread.
pub struct Initiator {
    node: Node,
    queue: EventQueue,
    timeout: Duration,
    /// The descriptors with memory that the caller waits for.
    lent: Vec<MdHandle>,
}

/// The most messages of a write or read that are under way. With more, nothing gets faster.
const UNDER_WAY_MAX: usize = 16;

impl Initiator {
    /// How long nothing may happen before an operation fails, unless [`Initiator::with_timeout`] sets another time.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns an initiator on this node.
    #[must_use]
    pub fn new(node: &Node) -> Self {
        Self {
            node: node.clone(),
            queue: node.event_queue(),
            timeout: Self::TIMEOUT,
            lent: Vec::new(),
        }
    }

    /// Sets how long nothing may happen before an operation fails.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends one message of at most 1 MiB to an [`Inbox`], and waits until it is there.
    ///
    /// # Errors
    ///
    /// [`OperationError`] says what to do.
    pub fn put(&mut self, to: Address, data: impl Into<Bytes>) -> Result<(), OperationError> {
        self.put_with(to, data, 0)
    }

    /// Does the same as [`Initiator::put`], with a number that [`Message::hdr_data`] delivers.
    ///
    /// # Errors
    ///
    /// Those of [`Initiator::put`].
    pub fn put_with(
        &mut self,
        to: Address,
        data: impl Into<Bytes>,
        hdr_data: u64,
    ) -> Result<(), OperationError> {
        let data = data.into();
        if data.len() > LNET_MTU as usize {
            return Err(OperationError::TooLong(data.len()));
        }
        let mut pieces = std::iter::once((0, data));
        self.run(to, |this| {
            let Some((offset, data)) = pieces.next() else {
                return Ok(None);
            };
            this.begin_put(to, offset, data, hdr_data).map(Some)
        })?;
        Ok(())
    }

    /// Writes bytes, any number, into a [`Window`] from this offset on, and waits until they are there.
    ///
    /// # Errors
    ///
    /// As [`Initiator::put`]. After an error, a part may be written, or arrive yet.
    pub fn write(
        &mut self,
        to: Address,
        offset: u32,
        data: impl Into<Bytes>,
    ) -> Result<(), OperationError> {
        let data: Bytes = data.into();
        let mut pieces = pieces(offset, data.len());
        self.run(to, |this| {
            let Some((at, range)) = pieces.next() else {
                return Ok(None);
            };
            this.begin_put(to, at, data.slice(range), 0).map(Some)
        })?;
        Ok(())
    }

    /// Reads this many bytes of a [`Window`], from this offset on.
    ///
    /// # Errors
    ///
    /// As [`Initiator::put`], and [`OperationError::Short`] beyond the window's end.
    pub fn read(
        &mut self,
        to: Address,
        offset: u32,
        length: usize,
    ) -> Result<Vec<u8>, OperationError> {
        let mut pieces = pieces(offset, length);
        let mut parts = self.run(to, |this| {
            let Some((at, range)) = pieces.next() else {
                return Ok(None);
            };
            let sink = Md::sink(vec![0; range.len()]);
            this.begin_get(to, at, range.len(), sink).map(Some)
        })?;
        if parts.len() == 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        Ok(parts.concat())
    }

    /// Reads into memory of a program in another language: one piece after the other, each of at most 1 MiB, as many
    /// bytes as they have. Returns when no thread moves bytes of the memory, also after an error: if the target stands
    /// still in the middle of a message, this takes as long as the LND waits for it.
    ///
    /// # Errors
    ///
    /// Those of [`Initiator::read`], and [`OperationError::TooLong`] for a longer piece.
    pub fn read_into(
        &mut self,
        to: Address,
        offset: u32,
        memory: Vec<Foreign>,
    ) -> Result<(), OperationError> {
        let (mut at, mut pieces) = (offset, memory.into_iter());
        let result = self.run(to, |this| {
            let Some(piece) = pieces.next() else {
                return Ok(None);
            };
            let length = piece.len();
            if length > LNET_MTU as usize {
                return Err(OperationError::TooLong(length));
            }
            let operation = this.begin_get(to, at, length, Md::foreign(piece))?;
            // The target refuses an offset beyond its end.
            at = at.saturating_add(length as u32);
            this.lent.push(operation.md);
            Ok(Some(operation))
        });
        self.wait_for_memory();
        result.map(|_| ())
    }

    fn wait_for_memory(&mut self) {
        while !self.lent.is_empty() {
            match self.queue.wait(None) {
                Ok(event) => self.forget_lent(&event),
                Err(WaitError::Closed) => return self.lent.clear(),
                Err(WaitError::TimedOut | WaitError::PathLost) => {}
            }
        }
    }

    fn forget_lent(&mut self, NodeEvent { event, .. }: &NodeEvent) {
        if event.unlinked {
            self.lent.retain(|md| *md != event.md);
        }
    }

    fn begin_put(
        &self,
        to: Address,
        offset: u32,
        data: Bytes,
        hdr_data: u64,
    ) -> Result<Running, OperationError> {
        to.check()?;
        let length = data.len();
        // One operation for the PUT, one for its ACK.
        let md = self.node.bind(&self.queue, Md::source(data).threshold(2))?;
        let put = PutRequest {
            md,
            ack: true,
            source: None,
            target: to.target,
            portal: to.portal,
            match_bits: to.match_bits,
            offset,
            hdr_data,
        };
        self.begun(md, length, self.node.put(put))
    }

    fn begin_get(
        &self,
        to: Address,
        offset: u32,
        length: usize,
        sink: Md,
    ) -> Result<Running, OperationError> {
        to.check()?;
        // One operation for the GET, one for its REPLY.
        let md = self.node.bind(&self.queue, sink.threshold(2))?;
        let get = GetRequest {
            md,
            source: None,
            target: to.target,
            portal: to.portal,
            match_bits: to.match_bits,
            offset,
        };
        self.begun(md, length, self.node.get(get))
    }

    fn begun(
        &self,
        md: MdHandle,
        length: usize,
        result: Result<(), NodeError>,
    ) -> Result<Running, OperationError> {
        if let Err(error) = result {
            // Its event has the memory, which nobody needs.
            let _gone = self.node.unlink(md);
            return Err(error.into());
        }
        Ok(Running {
            md,
            length,
            moved: None,
            errno: None,
            memory: None,
            is_over: false,
        })
    }

    /// Runs the operations that `begin` begins, some at the same time, until it begins no more. Returns the memory of
    /// each, in their order. After an error, the others are cancelled, and nobody waits for them: a peer that stands
    /// still would hold this thread. Their last events are ignored later.
    fn run(
        &mut self,
        to: Address,
        begin: impl FnMut(&mut Self) -> Result<Option<Running>, OperationError>,
    ) -> Result<Vec<Vec<u8>>, OperationError> {
        let mut running = VecDeque::new();
        let result = self.run_all(to, &mut running, begin);
        running.iter().for_each(|operation| self.cancel(operation));
        result
    }

    fn run_all(
        &mut self,
        to: Address,
        running: &mut VecDeque<Running>,
        mut begin: impl FnMut(&mut Self) -> Result<Option<Running>, OperationError>,
    ) -> Result<Vec<Vec<u8>>, OperationError> {
        let started = Instant::now();
        let mut done = Vec::new();
        let mut has_more = true;
        loop {
            while has_more && running.len() < UNDER_WAY_MAX {
                match begin(self)? {
                    Some(operation) => running.push_back(operation),
                    None => has_more = false,
                }
            }
            let Some(first) = running.front() else {
                return Ok(done);
            };
            if first.is_over {
                let first = running.pop_front();
                done.extend(
                    first
                        .map(|first| self.ended(to, first, started))
                        .transpose()?,
                );
                continue;
            }
            match self.queue.wait(Some(self.timeout)) {
                Ok(event) => {
                    self.forget_lent(&event);
                    note(running, event);
                }
                Err(WaitError::Closed) => return Err(NodeError::ShutDown.into()),
                Err(WaitError::TimedOut | WaitError::PathLost) => {
                    let length = first.length;
                    let after = started.elapsed();
                    return Err(OperationError::NoAnswer { to, length, after });
                }
            }
        }
    }

    /// Cancels an operation. An error means that it has just ended.
    fn cancel(&self, operation: &Running) {
        let _ended = self.node.cancel(operation.md);
    }

    fn ended(
        &self,
        to: Address,
        operation: Running,
        started: Instant,
    ) -> Result<Vec<u8>, OperationError> {
        let target = to.target.nid;
        let wanted = operation.length;
        if operation.errno.is_some() {
            self.cancel(&operation);
        }
        match (operation.moved, operation.errno) {
            (Some(got), _) if got == wanted => Ok(operation.memory.unwrap_or_default()),
            (Some(got), _) => Err(OperationError::Short { to, got, wanted }),
            (None, None | Some(Errno::ETIMEDOUT | Errno::ECANCELED)) => {
                Err(OperationError::NoAnswer {
                    to,
                    length: wanted,
                    after: started.elapsed(),
                })
            }
            (None, Some(errno)) => {
                let why = self
                    .node
                    .look(|engine| engine.core().no_answer_from(target));
                Err(match why {
                    Some(why) if errno == Errno::EHOSTUNREACH => {
                        OperationError::NoPath { target, why }
                    }
                    _ => OperationError::Failed {
                        target,
                        errno: self.node.cause_of(target, errno),
                    },
                })
            }
        }
    }
}

/// An operation that has begun.
struct Running {
    md: MdHandle,
    length: usize,
    /// The bytes that the target took or gave.
    moved: Option<usize>,
    errno: Option<Errno>,
    memory: Option<Vec<u8>>,
    is_over: bool,
}

fn note(running: &mut VecDeque<Running>, NodeEvent { event, memory }: NodeEvent) {
    let Some(operation) = running.iter_mut().find(|one| one.md == event.md) else {
        // The descriptor of an operation that was rejected, or of a call that failed.
        return;
    };
    if let (EventKind::Ack | EventKind::Reply, Ok(())) = (event.kind, event.status) {
        operation.moved = Some(event.mlength as usize);
    }
    operation.errno = operation.errno.or(event.status.err());
    // Behind a message that failed, no answer comes.
    operation.is_over |= event.unlinked || event.status.is_err();
    operation.memory = operation
        .memory
        .take()
        .or(memory.map(crate::Memory::into_vec));
}

/// Returns pieces of at most 1 MiB: the offset of each, and its place among the bytes. No bytes are one piece.
fn pieces(offset: u32, length: usize) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
    let step = LNET_MTU as usize;
    (0..length.div_ceil(step).max(1)).map(move |index| {
        let range = index * step..((index + 1) * step).min(length);
        // The target refuses an offset beyond its end.
        let at = u32::try_from(range.start).unwrap_or(u32::MAX);
        (offset.saturating_add(at), range)
    })
}

/// The end of a wait in which something else than what is waited for may happen, any number of times.
struct Deadline(Option<Instant>);

impl Deadline {
    fn new(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn left(&self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// A message that an [`Inbox`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The process that sent it.
    pub from: ProcessId,
    /// Its match bits.
    pub match_bits: u64,
    /// The number of [`Initiator::put_with`].
    pub hdr_data: u64,
    /// Its bytes.
    pub data: Vec<u8>,
    /// How many bytes it had. More than `data` has if the inbox is for shorter messages; the sender is told, too.
    pub length: usize,
}

/// The end that receives messages, each in a buffer of its own. While all buffers are full, further messages wait at the
/// node, and their senders with them. A portal has one inbox.
pub struct Inbox {
    node: Node,
    queue: EventQueue,
    entry: MatchEntry,
    length: usize,
    buffers: Vec<MdHandle>,
}

/// The buffers of an inbox.
const BUFFERS: usize = 16;

impl Inbox {
    /// Receives messages of at most `length` bytes on a portal, from everybody.
    ///
    /// # Errors
    ///
    /// A portal of 0 or above 63, a length above 1 MiB, a node that shuts down.
    pub fn new(node: &Node, portal: u32, length: usize) -> Result<Self, NodeError> {
        let mut inbox = Self {
            node: node.clone(),
            queue: node.event_queue(),
            entry: MatchEntry {
                portal,
                match_id: ProcessId::ANY,
                match_bits: 0,
                ignore_bits: u64::MAX,
                position: InsertPosition::After,
            },
            length,
            buffers: Vec::new(),
        };
        node.set_lazy(portal, true)?;
        for _ in 0..BUFFERS {
            inbox.provide()?;
        }
        Ok(inbox)
    }

    fn provide(&mut self) -> Result<(), NodeError> {
        let options = MdOptions::OP_PUT | MdOptions::TRUNCATE;
        let sink = Md::sink(vec![0; self.length]).options(options).threshold(1);
        let md = self.node.attach(&self.queue, self.entry, sink)?;
        self.buffers.push(md);
        Ok(())
    }

    /// Returns the queue of the inbox. [`EventQueue::close`] ends a wait for messages from another thread.
    #[must_use]
    pub const fn events(&self) -> &EventQueue {
        &self.queue
    }

    /// Waits for the next message; without a `timeout`, until the node ends.
    ///
    /// # Errors
    ///
    /// [`WaitError`] distinguishes a timeout from the end of the node.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Message, WaitError> {
        let deadline = Deadline::new(timeout);
        loop {
            let NodeEvent { event, memory } = self.queue.wait(deadline.left())?;
            self.buffers.retain(|md| *md != event.md);
            // If the node shuts down, the next wait says so.
            let provided = self.provide();
            // A message that broke off half-way left no bytes.
            let (Ok(()), Some(memory)) = (event.status, memory) else {
                provided.map_err(|_| WaitError::Closed)?;
                continue;
            };
            let mut data = memory.into_vec();
            data.truncate(event.mlength as usize);
            return Ok(Message {
                from: event.initiator,
                match_bits: event.match_bits,
                hdr_data: event.hdr_data,
                data,
                length: event.rlength as usize,
            });
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Errors mean that the node shuts down, or that a message has just taken a buffer.
        let _refused = self.node.set_lazy(self.entry.portal, false);
        for md in &self.buffers {
            let _gone = self.node.unlink(*md);
        }
    }
}

/// What somebody did with a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The process.
    pub from: ProcessId,
    /// Whether bytes were written; otherwise they were read.
    pub is_write: bool,
    /// Where they are in the window.
    pub offset: u32,
    /// How many they are.
    pub length: u32,
}

/// Memory that others read, or read and write, while this program does something else.
pub struct Window {
    node: Node,
    queue: EventQueue,
    /// `None` once the memory was given back.
    md: Option<MdHandle>,
}

/// The accesses that a window keeps for a program that does not ask for them.
const ACCESSES_MAX: usize = 4096;

impl Window {
    /// Lets everybody read these bytes.
    ///
    /// # Errors
    ///
    /// A portal of 0 or above 63, more than 4 GiB, a node that shuts down.
    pub fn read_only(
        node: &Node,
        portal: u32,
        match_bits: u64,
        bytes: impl Into<Bytes>,
    ) -> Result<Self, NodeError> {
        let options = MdOptions::OP_GET | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
        let md = Md::source(bytes).options(options);
        Self::new(node, MatchEntry::exact(portal, match_bits), md)
    }

    /// Lets everybody read and write this memory, until [`Window::close`] gives it back.
    ///
    /// # Errors
    ///
    /// As [`Window::read_only`].
    pub fn writable(
        node: &Node,
        portal: u32,
        match_bits: u64,
        memory: Vec<u8>,
    ) -> Result<Self, NodeError> {
        let both = MdOptions::OP_GET | MdOptions::OP_PUT;
        let options = both | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
        let md = Md::sink(memory).options(options);
        Self::new(node, MatchEntry::exact(portal, match_bits), md)
    }

    /// Lets everybody read memory of a program in another language, and write to it if it is `writable`. Once
    /// [`Window::close`] has returned, no thread moves its bytes.
    ///
    /// # Errors
    ///
    /// As [`Window::read_only`].
    pub fn foreign(
        node: &Node,
        portal: u32,
        match_bits: u64,
        memory: Foreign,
        writable: bool,
    ) -> Result<Self, NodeError> {
        let operations = match writable {
            true => MdOptions::OP_GET | MdOptions::OP_PUT,
            false => MdOptions::OP_GET,
        };
        let options = operations | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
        let md = Md::foreign(memory).options(options);
        Self::new(node, MatchEntry::exact(portal, match_bits), md)
    }

    fn new(node: &Node, entry: MatchEntry, md: Md) -> Result<Self, NodeError> {
        let queue = node.event_queue_of(ACCESSES_MAX);
        Ok(Self {
            md: Some(node.attach(&queue, entry, md)?),
            node: node.clone(),
            queue,
        })
    }

    /// Waits until somebody has read or written. A program that does not ask misses the accesses beyond some thousands.
    ///
    /// # Errors
    ///
    /// [`WaitError`] distinguishes a timeout from the end of the node.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Access, WaitError> {
        let deadline = Deadline::new(timeout);
        loop {
            let NodeEvent { event, .. } = self.queue.wait(deadline.left())?;
            if event.status.is_ok() {
                return Ok(Access {
                    from: event.initiator,
                    is_write: event.kind == EventKind::Put,
                    offset: event.offset,
                    length: event.mlength,
                });
            }
        }
    }

    /// Closes the window. Waits for accesses under way, at most as long as the LND waits for a peer that stands still, and
    /// returns the memory as they left it.
    ///
    /// # Errors
    ///
    /// [`WaitError::Closed`] if the node has shut down before.
    pub fn close(mut self) -> Result<Vec<u8>, WaitError> {
        let Some(md) = self.md.take() else {
            return Ok(Vec::new());
        };
        // An error means that the node shuts down; the wait says so.
        let _refused = self.node.unlink(md);
        loop {
            if let Some(memory) = self.queue.wait(None)?.memory {
                return Ok(memory.into_vec());
            }
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some(md) = self.md {
            // An error means that the node shuts down.
            let _gone = self.node.unlink(md);
        }
    }
}
