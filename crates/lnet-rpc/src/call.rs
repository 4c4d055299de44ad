//! A call as its handler sees it: the request, and the client's bulk memory.
//!
//! The server moves bulk: pieces of up to 1 MiB, several in flight, handed over or filled in order. When
//! the client begins a new attempt, the pieces under way are begun again at its fresh match bits; pieces
//! that are done are not.

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
    /// The client was not heard of for the server's patience, or gave the call up.
    #[error("the client of the call went away")]
    ClientGone,
    /// The call has no bulk, or bulk the other way, or less of it.
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
    /// The errno for the reply.
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

/// A transfer over the local node.
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

    /// What is asked.
    #[must_use]
    pub fn opcode(&self) -> u32 {
        self.header.opcode
    }

    /// The request's body.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Who asks.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.header.client
    }

    /// The transaction id: which of the client's calls this is, the same in each attempt at it.
    #[must_use]
    pub fn xid(&self) -> u64 {
        self.header.xid
    }

    /// The client waits for no call with a lower transaction id.
    #[must_use]
    pub fn lowest(&self) -> u64 {
        self.header.lowest
    }

    /// Which way the client offers bulk.
    #[must_use]
    pub fn bulk(&self) -> BulkKind {
        self.header.bulk
    }

    /// How many bytes of bulk the client sends, or receives at most.
    #[must_use]
    pub fn bulk_len(&self) -> u32 {
        self.header.bulk_len
    }

    /// Whether the client has stopped waiting, or is about to: what changes anything must not begin any more, because the
    /// client may have gone on with another server.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.clock.until(self.address.deadline).is_zero()
    }

    pub(crate) fn moved(&self) -> u32 {
        self.moved
    }

    /// Fetches what the client sends. `sink` is given piece after piece, in order, with its offset in
    /// bytes, while the next ones are on their way.
    ///
    /// # Errors
    ///
    /// The bulk cannot be moved, or `sink` refused a piece, which ends the transfer.
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
        self.abandon(&transfer);
        result
    }

    /// Sends the client `length` bytes. `source` fills piece after piece, in order: it is given the
    /// offset in bytes and a buffer of the piece's length, holding anything.
    ///
    /// # Errors
    ///
    /// The bulk cannot be moved, or `source` has no data, which ends the transfer.
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
                        self.shared.buffers.give_back_shared(data);
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
        self.abandon(&transfer);
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
        // The client may have sent the same bytes elsewhere by now, and others over them.
        if self.is_over() {
            return Err(BulkError::ClientGone.into());
        }
        sink(piece.offset, &buffer)?;
        self.moved += piece.len;
        self.shared.counting.bulk_read.add(u64::from(piece.len));
        self.shared.buffers.give_back(buffer);
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

    /// The bytes of a piece. One that is sent again goes from the memory it was first filled into.
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

    /// Binds a piece's descriptor so that its events come to this call's mail.
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

    /// Waits for the next mail; the piece that has moved with it, and its memory.
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

    /// The client awaits bulk elsewhere now.
    fn restart(&mut self, transfer: &mut Transfer, address: Address) {
        if address.attempt <= self.address.attempt {
            return;
        }
        self.address = address;
        // The client heard nothing for as long as it gives an attempt: the oldest piece hangs. Later ones may
        // only have missed the client's match entry, which goes with its attempt.
        let oldest = transfer.oldest_hanging();
        if let Some(hop) = oldest.and_then(|oldest| self.shared.node.next_hop(oldest)) {
            self.note_silent(hop);
        }
        self.abandon(transfer);
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

    /// Lets go of what is under way, arriving or not; its memory is freed when the node gives it back.
    fn abandon(&self, transfer: &Transfer) {
        for descriptor in transfer.descriptors() {
            // Refused when its last event is on its way already.
            let _going = self.shared.node.cancel(descriptor);
        }
    }
}
