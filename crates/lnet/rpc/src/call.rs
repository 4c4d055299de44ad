//! A call as its handler sees it: the request, and access to the client's bulk memory.
//!
//! The server moves bulk in pieces of up to 1 MiB, several in flight, and hands over or fills the pieces in
//! order. When the client begins a new attempt, the server restarts the unfinished pieces at the match bits
//! of the new attempt. Completed pieces are not moved a second time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bytes::Bytes;
use lnet_node::{
    EventKind, GetRequest, Md, MdHandle, Memory, NodeError, NodeEvent, PutRequest, SendHints,
};
use lnet_types::{Nid, Time};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::proto::{BULK_PORTAL, BulkKind, ClientId, RequestHeader};
use crate::server::{Mail, Shared};
use crate::table::Address;
use crate::transfer::{self, Fate, Heard, Next};
use crate::window::{Piece, Window};

/// Why bulk could not be moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BulkError {
    /// The server received nothing of the client for
    /// [`ServerOptions::patience`](crate::ServerOptions::patience), or the client's deadline passed.
    #[error("the client of the call does not answer")]
    ClientGone,
    /// The call has no bulk, bulk in the other direction, or less bulk.
    #[error("the client offers no such bulk")]
    NotOffered,
    /// The server shuts down.
    #[error("the server is shutting down")]
    ShutDown,
    /// The local node failed.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
}

impl BulkError {
    /// Returns the errno for the reply.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::ClientGone => 110,
            Self::NotOffered => 22,
            Self::ShutDown => 108,
            Self::Node(_) => 5,
        }
    }
}

/// The transfer of a call's bulk over the local node.
type Transfer = transfer::Transfer<MdHandle>;

/// A call that is being executed.
pub struct Call<'a> {
    shared: &'a Arc<Shared>,
    header: RequestHeader,
    body: &'a [u8],
    address: Address,
    mail: Receiver<Mail>,
    moved: u32,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        header: RequestHeader,
        body: &'a [u8],
        address: Address,
        mail: Receiver<Mail>,
    ) -> Self {
        Self {
            shared,
            header,
            body,
            address,
            mail,
            moved: 0,
        }
    }

    /// Returns the operation that the client asks for.
    #[must_use]
    pub fn opcode(&self) -> u32 {
        self.header.opcode
    }

    /// Returns the body of the request.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Returns the client that made the call.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.header.client
    }

    /// Returns the transaction id, which names the call among the client's calls and is the same in each
    /// attempt.
    #[must_use]
    pub fn xid(&self) -> u64 {
        self.header.xid
    }

    /// Returns the lowest transaction id whose reply the client still waited for when it sent the request.
    #[must_use]
    pub fn lowest(&self) -> u64 {
        self.header.lowest
    }

    /// Returns the direction of the bulk that the client offers.
    #[must_use]
    pub fn bulk(&self) -> BulkKind {
        self.header.bulk
    }

    /// Returns how many bytes of bulk the client sends, or receives at most.
    #[must_use]
    pub fn bulk_len(&self) -> u32 {
        self.header.bulk_len
    }

    /// Reports whether the client has stopped waiting, or is about to. A handler must not begin a change from
    /// then on, because the client may have gone to another server.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.clock.until(self.address.deadline).is_zero()
    }

    pub(crate) fn moved(&self) -> u32 {
        self.moved
    }

    /// Fetches what the client sends. Calls `sink` with one piece after the other, in order, each with its
    /// offset in bytes, while the next pieces are on their way.
    ///
    /// # Errors
    ///
    /// The bulk cannot be moved, or `sink` returned an error, which ends the transfer.
    pub fn read_bulk<E: From<BulkError>>(
        &mut self,
        mut sink: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut transfer = self.transfer(BulkKind::Read, self.header.bulk_len)?;
        let mut arrived: FxHashMap<u32, Vec<u8>> = FxHashMap::default();
        let result = loop {
            let tag = self.shared.next_tag();
            match transfer.next(tag) {
                Next::Move(piece) => {
                    if let Err(error) = self.fetch(&mut transfer, piece, tag) {
                        break Err(error.into());
                    }
                }
                Next::Take(piece) => {
                    if let Some(buffer) = arrived.remove(&piece.index)
                        && let Err(error) = self.hand_over(piece, buffer, &mut sink)
                    {
                        break Err(error);
                    }
                }
                Next::Wait => match self.wait(&mut transfer) {
                    Ok(Some((piece, Memory::Sink(buffer)))) => {
                        drop(arrived.insert(piece.index, buffer));
                    }
                    Ok(_) => {}
                    Err(error) => break Err(error.into()),
                },
                Next::Finished => break Ok(()),
            }
        };
        self.cancel_pieces(&transfer);
        result
    }

    /// Sends `length` bytes to the client. Calls `source` to fill one piece after the other, in order, with the
    /// offset in bytes and a buffer of the piece's length. The buffer may hold old bytes.
    ///
    /// # Errors
    ///
    /// The bulk cannot be moved, or `source` returned an error, which ends the transfer.
    pub fn write_bulk<E: From<BulkError>>(
        &mut self,
        length: u32,
        mut source: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut transfer = self.transfer(BulkKind::Write, length)?;
        let mut filled: FxHashMap<u32, Bytes> = FxHashMap::default();
        let result = loop {
            let tag = self.shared.next_tag();
            match transfer.next(tag) {
                Next::Move(piece) => {
                    let data = match self.fill(piece, &mut filled, &mut source) {
                        Ok(data) => data,
                        Err(error) => break Err(error),
                    };
                    if let Err(error) = self.send_piece(&mut transfer, piece, data, tag) {
                        break Err(error.into());
                    }
                }
                Next::Take(piece) => {
                    self.moved += piece.len;
                    if let Some(data) = filled.remove(&piece.index) {
                        self.shared.buffers.keep_shared(data);
                    }
                }
                Next::Wait => {
                    if let Err(error) = self.wait(&mut transfer) {
                        break Err(error.into());
                    }
                }
                Next::Finished => break Ok(()),
            }
        };
        self.cancel_pieces(&transfer);
        result
    }

    fn transfer(&self, kind: BulkKind, length: u32) -> Result<Transfer, BulkError> {
        if length > 0 && (self.header.bulk != kind || self.header.bulk_len < length) {
            return Err(BulkError::NotOffered);
        }
        let options = &self.shared.options;
        let window = Window::new(length, options.piece_len, options.window);
        Ok(Transfer::new(kind, window))
    }

    fn hand_over<E: From<BulkError>>(
        &mut self,
        piece: Piece,
        buffer: Vec<u8>,
        sink: &mut impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // The client may by now have sent the same bytes to another server, and written other bytes over them
        // there.
        if self.is_over() {
            return Err(BulkError::ClientGone.into());
        }
        sink(piece.offset, &buffer)?;
        self.moved += piece.len;
        self.shared.counting.bulk_read.add(u64::from(piece.len));
        self.shared.buffers.keep(buffer);
        Ok(())
    }

    fn fetch(&self, transfer: &mut Transfer, piece: Piece, tag: u64) -> Result<(), BulkError> {
        let md = Md::sink(self.shared.buffers.take(piece.len))
            .threshold(2)
            .user(tag);
        let md = self.bind(transfer, md, tag, piece)?;
        let get = GetRequest {
            md,
            source: self.address.local,
            target: self.address.process,
            portal: BULK_PORTAL,
            match_bits: self.address.bulk_bits,
            offset: piece.offset,
        };
        self.shared.node.hinted_get(get, self.hints())?;
        Ok(())
    }

    /// Returns the bytes of a piece. A piece that is resent goes from the memory that was filled the first
    /// time.
    fn fill<E>(
        &self,
        piece: Piece,
        filled: &mut FxHashMap<u32, Bytes>,
        source: &mut impl FnMut(u32, &mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        if let Some(data) = filled.get(&piece.index) {
            return Ok(data.clone());
        }
        let mut buffer = self.shared.buffers.take(piece.len);
        source(piece.offset, &mut buffer)?;
        let data = Bytes::from(buffer);
        filled.insert(piece.index, data.clone());
        Ok(data)
    }

    fn send_piece(
        &self,
        transfer: &mut Transfer,
        piece: Piece,
        data: Bytes,
        tag: u64,
    ) -> Result<(), BulkError> {
        let md = Md::source(data).threshold(2).user(tag);
        let md = self.bind(transfer, md, tag, piece)?;
        self.shared.counting.bulk_written.add(u64::from(piece.len));
        let put = PutRequest {
            md,
            ack: true,
            source: self.address.local,
            target: self.address.process,
            portal: BULK_PORTAL,
            match_bits: self.address.bulk_bits,
            offset: piece.offset,
            hdr_data: u64::from(piece.index),
        };
        self.shared.node.hinted_put(put, self.hints())?;
        Ok(())
    }

    fn hints(&self) -> SendHints {
        self.shared.hints(&self.address)
    }

    fn note_silent(&self, hop: Nid) {
        let (target, now) = (self.address.process.nid, self.shared.clock.now());
        self.shared.silent.note(hop, target, now);
    }

    /// Binds the descriptor of a piece so that its events come to this call's mail.
    fn bind(
        &self,
        transfer: &mut Transfer,
        md: Md,
        tag: u64,
        piece: Piece,
    ) -> Result<MdHandle, BulkError> {
        self.shared.route(tag, self.header.client, self.header.xid);
        let md = match self.shared.node.bind(&self.shared.queue, md) {
            Ok(md) => md,
            Err(error) => {
                self.shared.unroute(tag);
                return Err(error.into());
            }
        };
        transfer.under_way(tag, piece, md);
        Ok(md)
    }

    /// Waits for the next mail. Returns the piece that the mail completed, with its memory, or `None`.
    fn wait(&mut self, transfer: &mut Transfer) -> Result<Option<(Piece, Memory)>, BulkError> {
        let patience = self.patience();
        match self.mail.recv_timeout(patience) {
            Ok(Mail::Piece(event)) => Ok(self.piece_event(transfer, event)),
            Ok(Mail::Attempt) => {
                let (client, xid) = (self.header.client, self.header.xid);
                if let Some(address) = self.shared.newest_attempt(client, xid) {
                    self.restart(transfer, address);
                }
                Ok(None)
            }
            Err(RecvTimeoutError::Timeout) => Err(BulkError::ClientGone),
            Err(RecvTimeoutError::Disconnected) => Err(BulkError::ShutDown),
        }
    }

    fn patience(&self) -> Duration {
        let left: Time = self.address.deadline;
        self.shared
            .clock
            .until(left)
            .min(self.shared.options.patience)
    }

    /// Moves the transfer to the address of a newer attempt.
    fn restart(&mut self, transfer: &mut Transfer, address: Address) {
        if address.attempt <= self.address.attempt {
            return;
        }
        self.address = address;
        // The client received nothing for the whole timeout of its attempt, so the oldest piece is stuck. Later
        // pieces may only have missed the client's match entry, which the client unlinks with its attempt.
        let oldest = transfer.oldest_hanging();
        if let Some(hop) = oldest.and_then(|oldest| self.shared.node.next_hop(oldest)) {
            self.note_silent(hop);
        }
        self.cancel_pieces(transfer);
        transfer.restart();
        self.shared.counting.bulk_restarts.one();
    }

    fn piece_event(&self, transfer: &mut Transfer, event: NodeEvent) -> Option<(Piece, Memory)> {
        let kind = event.event.kind;
        let heard = Heard {
            kind,
            is_ok: event.event.status.is_ok(),
            len: event.event.mlength,
            is_last: event.memory.is_some(),
        };
        match transfer.heard(event.event.user, heard) {
            Fate::Nothing => None,
            Fate::Done(piece) => event.memory.map(|memory| (piece, memory)),
            Fate::Failed => {
                if matches!(kind, EventKind::Send | EventKind::Timeout) {
                    self.note_silent(event.event.sender);
                }
                None
            }
        }
    }

    /// Cancels the pieces under way, even one that is arriving. Their memory is freed when the node gives it
    /// back.
    fn cancel_pieces(&self, transfer: &Transfer) {
        for descriptor in transfer.descriptors() {
            // The node rejects this if the last event of the descriptor is on its way already.
            let _going = self.shared.node.cancel(descriptor);
        }
    }
}
