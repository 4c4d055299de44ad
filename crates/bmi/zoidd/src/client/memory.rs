//! Direct copies between the segment and the memory of a client on this machine.
//!
//! ```text
//!  send      GRANT mode 2 ─▶                     receive   RECV_REPLY mode 2 ─▶
//!                  ◀─ PLACES                                     ◀─ PLACES
//!     client ══ process_vm_readv ══▶ segment        segment ══ process_vm_writev ══▶ client
//!               SEND_DONE ─▶                            DATA (end, no bytes) ─▶
//!                                                                ◀─ RECV_ACK
//! ```
//!
//! A message is copied once, and the client never sees the segment. The daemon accesses only addresses from
//! PLACES.
//!
//! # Which process is accessed
//!
//! The process is the one that the kernel names as the connector of the socket, never a number from the
//! client. The daemon holds a process descriptor, and the process must be alive when bytes are accepted and
//! before they are written.
//!
//! In addition, the daemon sends a random number, [`Mark`](zoid_proto::fwd::Event::Mark), and the client says
//! where in its memory it stores the number. Each read includes that place in the same system call, and
//! therefore reads the same address space; the bytes are accepted only if the number is there. So the process
//! that speaks on the socket owns the memory, even if another process inherited the socket or another program
//! now has the old process id. A client can only name memory whose contents it could send itself, so nothing
//! leaks.
//!
//! Before each write the daemon checks the number as well. Between the check and the write a process could
//! execute another program, and the daemon would write to addresses of the old one. For that reason clients
//! of other users are not served this way. For processes of one user, the kernel applies the access check of
//! a debugger in every call. It rejects set-user-id programs and others that may not dump core, unless the
//! daemon has the right to trace everything because both are root.
//!
//! # Cost
//!
//! The daemon's thread stays in the kernel until the client's pages are available. Pages that must be waited
//! for, such as those of a mapped file on a server that does not answer, delay all clients. A client could
//! cause this on purpose; but a client of the daemon's own user could send the daemon a signal as well.
//!
//! # Failure
//!
//! If copying is impossible, the reason is an [`Obstacle`], which is counted and logged once, and the message
//! uses the stream from its start. An address that does not exist fails the operation with `EFAULT`.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use nix::errno::Errno;
use sys::span::{PARTS_MAX, Span};
use sys::{ProcessHandle, RemotePart, peer_credentials, read_memory, write_memory};
use zoid_proto::fwd::{MAX_CHUNK, Places};

use super::{Client, Stream, Violation};

/// The shortest message that is copied; for shorter ones the exchange of PLACES costs more than the stream.
// [FWD-41]
pub(crate) const SHORTEST: u64 = 64 << 10;

/// The length of the number that a client stores, in bytes.
const MARK: usize = 8;

/// Why messages use the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Obstacle {
    /// The client's library does not support it, or is configured to reject it.
    NotOffered,
    /// The client is in a PID namespace that this process cannot see.
    Namespace,
    /// The client belongs to another user.
    User,
    /// There is no process descriptor.
    Descriptor,
    /// The kernel forbids it.
    Permission,
    /// The kernel cannot.
    Kernel,
    /// The process that connected is not the one that sends.
    Mark,
    /// The client prefers the stream for this message.
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

    /// Returns the name in metrics.
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

    /// Returns the text for the administrator.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::NotOffered => "its library is older, or ZOID_CLIENT_MEMORY=off is set",
            Self::Namespace => "it is in another PID namespace",
            Self::User => "it does not run as the daemon's user",
            Self::Descriptor => "the kernel provides no process descriptor",
            Self::Permission => {
                "the kernel forbids it: the client may not dump core, or Yama restricts tracing, \
                 which ZOID_CLIENT_MEMORY=allow in the client's environment answers"
            }
            Self::Kernel => "the kernel does not support it",
            Self::Mark => "the process that connected is not the one that sends",
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
    /// The number that the client is to store.
    number: u64,
    /// Where the client stores it, once verified; or why that failed.
    mark: Result<RemotePart, Option<Obstacle>>,
    /// Messages that wait for PLACES.
    offers: BTreeMap<u64, Message>,
    /// Messages that are being copied, oldest first.
    copies: VecDeque<Copying>,
}

/// A message in the segment.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) request: u32,
    pub(crate) spans: Vec<Span>,
    pub(crate) total: u64,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CopyDirection {
    In,
    Out,
}

/// A message that is being copied.
#[derive(Debug)]
struct Copying {
    grant: u64,
    way: CopyDirection,
    message: Message,
    /// The remaining parts on either side, the next one last.
    parts: Vec<RemotePart>,
    spans: Vec<Span>,
    left: u64,
}

/// The effect of PLACES.
#[derive(Debug)]
pub(crate) enum Named {
    /// None: the transfer was stopped.
    Nothing,
    /// The client's memory is accessible.
    Proven,
    /// The client's memory is not accessible.
    Unproven(Obstacle),
    /// There is something to copy.
    Copy,
    /// The client prefers the stream for this message.
    Stream(Failed),
}

/// A piece that was copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Moved {
    pub(crate) grant: u64,
    pub(crate) way: CopyDirection,
    pub(crate) bytes: usize,
    /// Set after the last piece: the request of the message, and its length.
    pub(crate) complete: Option<(u32, u64)>,
}

/// A copy that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) grant: u64,
    pub(crate) way: CopyDirection,
    pub(crate) message: Message,
    pub(crate) why: Failure,
}

/// Why a copy failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The client named memory that it does not have.
    Fault,
    /// The client's process has ended.
    Gone,
    /// The message can use the stream.
    Obstacle(Obstacle),
}

impl Failure {
    /// Converts to a reason for the stream.
    fn obstacle(self) -> Obstacle {
        match self {
            Self::Obstacle(obstacle) => obstacle,
            Self::Fault => Obstacle::Mark,
            Self::Gone => Obstacle::Descriptor,
        }
    }
}

impl Memory {
    /// Returns the memory of the process that connected this socket; whether it is accessible is not known
    /// yet. `number` is random.
    // [FWD-43]
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

    /// Returns whether a message of `total` bytes is to be copied.
    pub(crate) fn takes(&self, total: u64) -> bool {
        self.mark.is_ok() && total >= SHORTEST
    }

    /// Returns the number that the client is to store.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Adds a message that waits for PLACES.
    pub(crate) fn offer(&mut self, grant: u64, message: Message) {
        self.offers.insert(grant, message);
    }

    /// Returns whether this transfer is still active here.
    pub(crate) fn has(&self, grant: u64) -> bool {
        self.offers.contains_key(&grant) || self.copies(grant)
    }

    /// Returns whether this message is being copied.
    pub(crate) fn copies(&self, grant: u64) -> bool {
        self.copies.iter().any(|copy| copy.grant == grant)
    }

    /// Returns whether there is something to copy.
    pub(crate) fn is_busy(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Removes a transfer.
    pub(crate) fn forget(&mut self, grant: u64) {
        self.offers.remove(&grant);
        self.copies.retain(|copy| copy.grant != grant);
    }

    /// Stops copying for this client.
    pub(crate) fn stop_copying(&mut self, obstacle: Obstacle) {
        self.mark = Err(Some(obstacle));
    }

    /// Checks whether the number is where the client says.
    // [FWD-42]
    fn prove(&mut self, part: RemotePart) -> Result<(), Failure> {
        self.mark = Ok(part);
        let proven = self.check();
        if let Err(failure) = proven {
            self.mark = Err(Some(failure.obstacle()));
        }
        proven
    }

    /// Checks whether the number is still there and the process lives.
    fn check(&self) -> Result<(), Failure> {
        self.read(&[], &[]).map(|_| ())
    }

    /// Reads parts into spans. Fails unless the number is in place and the process lives.
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

    /// Writes spans to parts of the process that stores the number.
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

    /// Returns whether the process has ended. A process that cannot be watched counts as ended.
    fn has_ended(&self) -> bool {
        self.handle.has_ended().unwrap_or(true)
    }

    /// Copies a piece of at most a chunk. `None` if there is nothing to copy.
    pub(crate) fn step(&mut self) -> Option<Result<Moved, Failed>> {
        let copy = self.copies.front()?;
        let (parts, spans) = copy.next();
        let moved = match copy.way {
            CopyDirection::In => self.read(&parts, &spans),
            CopyDirection::Out => self.write(&parts, &spans),
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
            // There was something to copy, so a result of 0 is a fault.
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
    /// Returns the places of the next piece on both sides, as many as one call takes; one of the other side's
    /// is the mark.
    fn next(&self) -> (Vec<RemotePart>, Vec<Span>) {
        let mut room = MAX_CHUNK;
        let mut parts = Vec::new();
        // Skips empty parts, because a call that copies nothing counts as a fault.
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

    /// Records that this many bytes are copied.
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
    /// Handles PLACES: the client's answer where the memory of a message is.
    ///
    /// # Errors
    ///
    /// PLACES was not asked for, or its length differs from the message's.
    // [FWD-46]
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
            (_, Some(offer)) => (CopyDirection::Out, offer),
            (Some(incoming), None) if incoming.in_memory && incoming.received == 0 => {
                let message = Message {
                    request: incoming.request,
                    spans: incoming.spans.clone(),
                    total: incoming.total,
                };
                (CopyDirection::In, message)
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
