//! Memory of a client of this machine, out of which and into which the daemon copies messages.
//!
//! ```text
//!  send      GRANT mode 2 ─▶                     receive   RECV_REPLY mode 2 ─▶
//!                  ◀─ PLACES                                     ◀─ PLACES
//!     client ══ process_vm_readv ══▶ segment        segment ══ process_vm_writev ══▶ client
//!               SEND_DONE ─▶                            DATA (end, no bytes) ─▶
//!                                                                ◀─ RECV_ACK
//! ```
//!
//! One copy, as with `trust-clients`, and the client is trusted with nothing: it never sees the
//! segment. The daemon never follows an address of its own accord, only those of PLACES.
//!
//! **Who is read.** The process that the kernel says connected the socket, never a number that the
//! client says, held by a process descriptor that must be alive when the bytes count and before they
//! are written. The daemon then tells a random number, [`Mark`](zoid_proto::fwd::Event::Mark), and the
//! client says where in its memory it holds it. Each read begins with that place, within one system
//! call and so one address space: bytes count only where the number is. So whoever speaks on the
//! socket owns the memory that is read, though a process inherited the socket, or another program runs
//! under the old number by now. A client that names addresses gets read what it could send anyway: not
//! a leak. Before each write the number is looked for, too; between that look and the write, a process
//! that changes its program could be written to, at addresses that its old self named. That is why a
//! client of another user than the daemon's is not served like this: for one of the same user, the
//! kernel's own check, at every call, is that of a debugger, so that set-user-id programs and others
//! that may not dump core are refused, unless the daemon has the right to trace everything, where both
//! are root.
//!
//! **What it costs.** The daemon's thread is in the kernel for as long as the kernel needs to get at the
//! client's pages. Pages that it must wait for, as of a mapped file of a server that does not answer,
//! hold everybody up. A client could do that on purpose; but a client of the daemon's own user could
//! as well send it a signal.
//!
//! **When it does not work**, the reason is an [`Obstacle`], counted, and said once; the message takes
//! the stream, from its start. An address that is not there is the operation's error, `EFAULT`.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use nix::errno::Errno;
use sys::span::{PARTS_MAX, Span};
use sys::{ProcessHandle, RemotePart, peer_credentials, read_memory, write_memory};
use zoid_proto::fwd::{MAX_CHUNK, Places};

use super::{Client, Stream, Violation};

/// Shorter messages take the stream: to ask where they are would take longer than to send them.
pub(crate) const SHORTEST: u64 = 64 << 10;

/// Bytes of the number that a client holds.
const MARK: usize = 8;

/// Why messages take the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Obstacle {
    /// The client's library does not know of it, or is told to refuse.
    NotOffered,
    /// The client is in a PID namespace that this process does not see.
    Namespace,
    /// The client is another user.
    User,
    /// There is no process descriptor.
    Descriptor,
    /// The kernel forbids it.
    Permission,
    /// The kernel cannot.
    Kernel,
    /// The process that connected is not the one that speaks.
    Mark,
    /// The client would rather have this message by the stream.
    Declined,
}

impl Obstacle {
    /// Every reason, in the order of the counters.
    pub(crate) const ALL: [Self; 8] = [
        Self::NotOffered,
        Self::Namespace,
        Self::User,
        Self::Descriptor,
        Self::Permission,
        Self::Kernel,
        Self::Mark,
        Self::Declined,
    ];

    /// Its name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotOffered => "not_offered",
            Self::Namespace => "namespace",
            Self::User => "user",
            Self::Descriptor => "descriptor",
            Self::Permission => "permission",
            Self::Kernel => "kernel",
            Self::Mark => "mark",
            Self::Declined => "declined",
        }
    }

    /// What the administrator reads.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::NotOffered => {
                "its library is older, or ZOID_CLIENT_MEMORY=off tells it to refuse"
            }
            Self::Namespace => "it is in another PID namespace",
            Self::User => "it is not of the daemon's user",
            Self::Descriptor => "the kernel gives no descriptor of its process",
            Self::Permission => {
                "the kernel forbids it: the client may not dump core, or Yama restricts tracing, \
                 which ZOID_CLIENT_MEMORY=allow in the client's environment answers"
            }
            Self::Kernel => "the kernel cannot do it",
            Self::Mark => "the process that connected is not the one that speaks",
            Self::Declined => "it asked for the stream",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EPERM | Errno::EACCES) => Self::Permission,
            // The first part of a read is the mark.
            Some(Errno::EFAULT) => Self::Mark,
            _ => Self::Kernel,
        }
    }
}

/// What the daemon knows of a client's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    process: u32,
    handle: ProcessHandle,
    /// What the client is to hold.
    number: u64,
    /// Where it does, once that was seen; or why that is of no use.
    mark: Result<RemotePart, Option<Obstacle>>,
    /// Messages for the client that wait for PLACES.
    offers: BTreeMap<u64, Message>,
    /// What is being copied, oldest first.
    copies: VecDeque<Copying>,
}

/// A message of the segment.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) request: u32,
    pub(crate) spans: Vec<Span>,
    pub(crate) total: u64,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    In,
    Out,
}

/// A message that is being copied.
#[derive(Debug)]
struct Copying {
    grant: u64,
    way: Way,
    message: Message,
    /// What is left on either side, the next part last.
    parts: Vec<RemotePart>,
    spans: Vec<Span>,
    left: u64,
}

/// What PLACES amounts to.
#[derive(Debug)]
pub(crate) enum Named {
    /// Nothing: its transfer was stopped.
    Nothing,
    /// The client's memory can be read.
    Proven,
    /// It cannot.
    Unproven(Obstacle),
    /// There is something to copy.
    Copy,
    /// The client wants this message by the stream.
    Stream(Failed),
}

/// A piece that was copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Moved {
    pub(crate) grant: u64,
    pub(crate) way: Way,
    pub(crate) bytes: usize,
    /// It was the last one: the request of the message, and its bytes.
    pub(crate) complete: Option<(u32, u64)>,
}

/// A copy that came to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) grant: u64,
    pub(crate) way: Way,
    pub(crate) message: Message,
    pub(crate) why: Failure,
}

/// Why a copy came to nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The client named memory that it does not have.
    Fault,
    /// The client's process has ended.
    Gone,
    /// The stream may do it.
    Obstacle(Obstacle),
}

impl Failure {
    /// As a reason for the stream.
    fn obstacle(self) -> Obstacle {
        match self {
            Self::Obstacle(obstacle) => obstacle,
            Self::Fault => Obstacle::Mark,
            Self::Gone => Obstacle::Descriptor,
        }
    }
}

impl Memory {
    /// The memory of whoever connected this socket; whether it can be read is not known yet. `number`
    /// is random.
    pub(crate) fn of(stream: &Stream, number: u64) -> Result<Self, Obstacle> {
        let Stream::Unix(stream) = stream else {
            return Err(Obstacle::NotOffered);
        };
        let peer = peer_credentials(stream).map_err(|_| Obstacle::Kernel)?;
        if peer.process == 0 {
            return Err(Obstacle::Namespace);
        }
        if peer.user != sys::effective_user() {
            return Err(Obstacle::User);
        }
        let handle = ProcessHandle::of_peer(stream, peer.process);
        Ok(Self {
            process: peer.process,
            handle: handle.map_err(|_| Obstacle::Descriptor)?,
            number,
            mark: Err(None),
            offers: BTreeMap::new(),
            copies: VecDeque::new(),
        })
    }

    /// Whether a message of so many bytes is to be copied.
    pub(crate) fn takes(&self, total: u64) -> bool {
        self.mark.is_ok() && total >= SHORTEST
    }

    /// What the client is to hold.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A message for the client waits for PLACES.
    pub(crate) fn offer(&mut self, grant: u64, message: Message) {
        self.offers.insert(grant, message);
    }

    /// Whether this transfer has not ended here.
    pub(crate) fn has(&self, grant: u64) -> bool {
        self.offers.contains_key(&grant) || self.copies(grant)
    }

    /// Whether this message is being copied.
    pub(crate) fn copies(&self, grant: u64) -> bool {
        self.copies.iter().any(|copy| copy.grant == grant)
    }

    /// Whether there is something to copy.
    pub(crate) fn is_busy(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Nothing more is copied for a transfer.
    pub(crate) fn forget(&mut self, grant: u64) {
        self.offers.remove(&grant);
        self.copies.retain(|copy| copy.grant != grant);
    }

    /// No further message is copied.
    pub(crate) fn give_up(&mut self, obstacle: Obstacle) {
        self.mark = Err(Some(obstacle));
    }

    /// Looks whether the number is where the client says.
    fn prove(&mut self, part: RemotePart) -> Result<(), Failure> {
        self.mark = Ok(part);
        let proven = self.check();
        if let Err(failure) = proven {
            self.mark = Err(Some(failure.obstacle()));
        }
        proven
    }

    /// Whether it still is, and the process lives.
    fn check(&self) -> Result<(), Failure> {
        self.read(&[], &[]).map(|_| ())
    }

    /// Reads parts into spans; bytes count only where the number is, in a process that lives.
    fn read(&self, parts: &[RemotePart], spans: &[Span]) -> Result<usize, Failure> {
        let hindered = |why: Option<Obstacle>| Failure::Obstacle(why.unwrap_or(Obstacle::Mark));
        let mark = self.mark.map_err(hindered)?;
        let mut from = vec![mark];
        from.extend(parts);
        let mut found = [0; MARK];
        let count = read_memory(self.process, &from, &mut found, spans);
        if self.has_ended() {
            return Err(Failure::Gone);
        }
        let count = count.map_err(|error| Failure::Obstacle(Obstacle::of(&error)))?;
        match count.checked_sub(MARK) {
            Some(bytes) if u64::from_ne_bytes(found) == self.number => Ok(bytes),
            _ => Err(Failure::Obstacle(Obstacle::Mark)),
        }
    }

    /// Writes spans to parts of the process that holds the number.
    fn write(&self, parts: &[RemotePart], spans: &[Span]) -> Result<usize, Failure> {
        self.check()?;
        write_memory(self.process, spans, parts).map_err(|error| {
            match error.raw_os_error().map(Errno::from_raw) {
                _ if self.has_ended() => Failure::Gone,
                Some(Errno::EFAULT) => Failure::Fault,
                _ => Failure::Obstacle(Obstacle::of(&error)),
            }
        })
    }

    /// Who cannot be watched is not there.
    fn has_ended(&self) -> bool {
        self.handle.has_ended().unwrap_or(true)
    }

    /// Copies a piece of at most a chunk. `None` when there is nothing to copy.
    pub(crate) fn step(&mut self) -> Option<Result<Moved, Failed>> {
        let copy = self.copies.front()?;
        let (parts, spans) = copy.next();
        let moved = match copy.way {
            Way::In => self.read(&parts, &spans),
            Way::Out => self.write(&parts, &spans),
        };
        let mut copy = self.copies.pop_front()?;
        let (grant, way) = (copy.grant, copy.way);
        let failed = |why, message| Failed {
            grant,
            way,
            message,
            why,
        };
        let bytes = match moved {
            // There was something to copy.
            Ok(0) => return Some(Err(failed(Failure::Fault, copy.message))),
            Err(why) => return Some(Err(failed(why, copy.message))),
            Ok(bytes) => bytes,
        };
        copy.advance(bytes);
        let complete = (copy.left == 0).then_some((copy.message.request, copy.message.total));
        if complete.is_none() {
            self.copies.push_front(copy);
        }
        Some(Ok(Moved {
            grant,
            way,
            bytes,
            complete,
        }))
    }
}

impl Copying {
    /// The places of the next piece on both sides, as many as one call takes; one of the other side's
    /// is the mark.
    fn next(&self) -> (Vec<RemotePart>, Vec<Span>) {
        let mut room = MAX_CHUNK;
        let mut parts = Vec::new();
        // However many empty ones come first: a call that copies nothing is a fault.
        let filled = self.parts.iter().rev().filter(|part| part.len > 0);
        for part in filled.take(PARTS_MAX - 1) {
            let len = part.len.min(room);
            parts.push(RemotePart { len, ..*part });
            room -= len;
        }
        let mut room = parts.iter().map(|part| part.len).sum::<u64>() as usize;
        let mut spans = Vec::new();
        let filled = self.spans.iter().rev().filter(|span| !span.is_empty());
        for span in filled.take(PARTS_MAX - 1) {
            let len = span.len().min(room);
            spans.extend(span.part(0..len).filter(|part| !part.is_empty()));
            room -= len;
        }
        (parts, spans)
    }

    /// So many bytes are copied.
    fn advance(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
        let mut left = bytes as u64;
        while let Some(part) = self.parts.pop() {
            if part.len > left {
                self.parts.push(RemotePart {
                    address: part.address + left,
                    len: part.len - left,
                });
                break;
            }
            left -= part.len;
        }
        let mut left = bytes;
        while let Some(span) = self.spans.pop() {
            if span.len() > left {
                self.spans.extend(span.part(left..span.len()));
                break;
            }
            left -= span.len();
        }
    }
}

impl Client {
    /// The client says where in its memory something is.
    ///
    /// # Errors
    ///
    /// Nobody asked; or it is not as many bytes as the message has.
    pub(crate) fn places(&mut self, places: &Places<'_>) -> Result<Named, Violation> {
        let Some(memory) = &mut self.memory else {
            return Err(Violation::Grant);
        };
        let parts = places.parts.iter().filter(|part| part.len > 0);
        let parts = parts.map(|part| RemotePart {
            address: part.address,
            len: part.len,
        });
        if places.grant == 0 {
            return match (parts.collect::<Vec<_>>().as_slice(), memory.mark) {
                ([part], Err(None)) if part.len == MARK as u64 => Ok(match memory.prove(*part) {
                    Ok(()) => Named::Proven,
                    Err(failure) => Named::Unproven(failure.obstacle()),
                }),
                _ => Err(Violation::Grant),
            };
        }
        if self.stopped.contains(&places.grant) {
            return Ok(Named::Nothing);
        }
        let (way, message) = match (
            self.incoming.get(&places.grant),
            memory.offers.remove(&places.grant),
        ) {
            (_, Some(offer)) => (Way::Out, offer),
            (Some(incoming), None) if incoming.in_memory && incoming.received == 0 => {
                let message = Message {
                    request: incoming.request,
                    spans: incoming.spans.clone(),
                    total: incoming.total,
                };
                (Way::In, message)
            }
            _ => return Err(Violation::Grant),
        };
        if memory.copies(places.grant) {
            return Err(Violation::Grant);
        }
        let grant = places.grant;
        match places.total() {
            Some(0) => {
                let why = Failure::Obstacle(Obstacle::Declined);
                return Ok(Named::Stream(Failed {
                    grant,
                    way,
                    message,
                    why,
                }));
            }
            Some(total) if total == message.total => {}
            _ => return Err(Violation::Payload),
        }
        let mut parts: Vec<RemotePart> = parts.collect();
        parts.reverse();
        let spans = message.spans.iter().rev().cloned().collect();
        memory.copies.push_back(Copying {
            grant,
            way,
            left: message.total,
            message,
            parts,
            spans,
        });
        Ok(Named::Copy)
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
