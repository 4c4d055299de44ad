//! One connection: its queues and its buffers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use lnet_o2ib::{CompletionError, ConnId, Event, Shape};
use lnet_wire::o2ib::MESSAGE_MAX;
use sys::span::Span;
use sys::verbs::{CmConnection, Completed, Completions, Domain, Part, Registered, RemotePart};

/// The bit of a work number that tells a message from a receive buffer.
const IS_SEND: u64 = 1 << 31;

/// The queues of a connection, and its memory. The order of the fields is that of their end: the device has stopped
/// before the memory is released.
struct Queues {
    completions: Completions,
    buffers: Registered,
    memory: Span,
    receives: u32,
    /// The ticket of the message in each send buffer.
    tickets: Vec<Option<u64>>,
}

/// A connection of the device.
pub(crate) struct Link {
    pub(crate) cm: CmConnection,
    pub(crate) conn: ConnId,
    queues: Option<Queues>,
}

impl Link {
    pub(crate) fn new(cm: CmConnection, conn: ConnId) -> Self {
        let queues = None;
        Self { cm, conn, queues }
    }

    /// Returns the descriptor that becomes readable with the first completion after [`Self::arm`].
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.queues
            .as_ref()
            .map(|queues| queues.completions.as_fd())
    }

    /// Arranges that the next completion makes the descriptor readable.
    pub(crate) fn arm(&self) -> io::Result<()> {
        self.queues
            .as_ref()
            .map_or(Ok(()), |queues| queues.completions.arm())
    }

    /// Takes the news of the descriptor: it must be armed again.
    pub(crate) fn take_news(&self) -> io::Result<()> {
        self.queues
            .as_ref()
            .map_or(Ok(()), |queues| queues.completions.take_news())
    }

    /// Returns the bytes of the buffers, which are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.memory.len())
    }

    /// Makes the queues, and posts the receive buffers.
    pub(crate) fn prepare(&mut self, domain: &Domain, shape: Shape) -> io::Result<()> {
        let entries = shape.receives.saturating_add(shape.sends);
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let completions = Completions::new(domain, entries)?;
        // Two more, for NOOPs.
        let messages = shape.messages + 2;
        let bytes = (shape.receives + messages) as usize * MESSAGE_MAX;
        let memory = Span::pages(bytes)?;
        let buffers = Registered::buffers(domain, &memory)?;
        self.cm
            .make_queues(&completions, shape.sends, shape.receives)?;
        self.queues = Some(Queues {
            completions,
            buffers,
            memory,
            receives: shape.receives,
            tickets: vec![None; messages as usize],
        });
        (0..shape.receives).try_for_each(|buffer| self.post_receive(buffer))
    }

    pub(crate) fn post_receive(&self, buffer: u32) -> io::Result<()> {
        let queues = self.queues.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let part = queues.part(buffer, MESSAGE_MAX as u32)?;
        self.cm.post_receive(&part, buffer.into())
    }

    pub(crate) fn post_send(
        &mut self,
        writes: &[(Part<'_>, RemotePart)],
        message: &[u8],
        ticket: u64,
    ) -> io::Result<()> {
        let queues = self.queues.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let free = queues.tickets.iter().position(Option::is_none);
        let slot = free.ok_or(io::ErrorKind::StorageFull)?;
        // There are few send buffers, and a message has at most 4,096 bytes.
        let buffer = queues.receives + slot as u32;
        let at = buffer as usize * MESSAGE_MAX;
        let place = queues.memory.part(at..at + message.len());
        place.ok_or(io::ErrorKind::InvalidInput)?.copy_in(message);
        let part = queues.part(buffer, message.len() as u32)?;
        self.cm.post_send(writes, &part, IS_SEND | slot as u64)?;
        if let Some(place) = queues.tickets.get_mut(slot) {
            *place = Some(ticket);
        }
        Ok(())
    }

    /// Turns completions into events. Returns whether there was one.
    pub(crate) fn poll(&mut self, events: &mut impl Extend<Event>) -> io::Result<bool> {
        let Some(queues) = &mut self.queues else {
            return Ok(false);
        };
        let completed = queues.completions.poll()?;
        let any = !completed.is_empty();
        let conn = self.conn;
        events.extend(
            completed
                .into_iter()
                .filter_map(|one| queues.event(conn, one)),
        );
        Ok(any)
    }
}

impl Queues {
    fn part(&self, buffer: u32, length: u32) -> io::Result<Part<'_>> {
        let part = self.buffers.part(buffer as usize * MESSAGE_MAX, length);
        part.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn event(&mut self, conn: ConnId, one: Completed) -> Option<Event> {
        let index = (one.number & !IS_SEND) as usize;
        if one.number & IS_SEND == 0 {
            // A receive that failed was flushed: the connection is closing.
            let length = (one.length as usize).min(MESSAGE_MAX);
            let at = index * MESSAGE_MAX;
            let bytes = self.memory.part(at..at + length)?.to_vec();
            return (one.status == 0).then_some(Event::Received(conn, index as u32, bytes));
        }
        // Of a chain that failed, more than one completion comes.
        let ticket = self.tickets.get_mut(index)?.take()?;
        Some(Event::Sent(conn, ticket, result(one.status)))
    }
}

/// Returns the result that a status of `ibv_wc` means.
fn result(status: i32) -> Result<(), CompletionError> {
    match status {
        0 => Ok(()),
        5 => Err(CompletionError::Flushed),
        9..=11 => Err(CompletionError::RemoteAccess),
        12 => Err(CompletionError::RetryExceeded),
        13 => Err(CompletionError::ReceiverNotReady),
        _ => Err(CompletionError::Local),
    }
}
