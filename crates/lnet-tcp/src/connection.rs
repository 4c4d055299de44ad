//! An established connection: a stream, its two halves and what is known of its health.
//!
//! Reading and writing live in [`Receiver`] and [`Transmitter`], which know no sockets; this file
//! connects them with the stream and watches that both go on (sections 3.3, 3.7 and 3.8).

use std::net::SocketAddr;
use std::time::Duration;

use lnet_types::{ProcessId, Time};
use lnet_wire::{ByteOrder, Ctype, HelloVersion};
use mio::net::TcpStream;

use crate::receive::{Paused, Receiver, Surroundings};
use crate::stats::{CloseReason, SocklndStats};
use crate::transmit::{Departed, Transmitter, Written};
use crate::upper::{NiKey, Upper};
use crate::view::ConnectionView;

/// What a handshake settles about a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Index of the peer.
    pub(crate) peer: usize,
    pub(crate) ni: NiKey,
    pub(crate) id: ProcessId,
    /// In our naming.
    pub(crate) ctype: Ctype,
    pub(crate) version: HelloVersion,
    /// The peer's, which holds for its frame headers.
    pub(crate) order: ByteOrder,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// We dialled.
    pub(crate) dialled: bool,
}

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) terms: Terms,
    pub(crate) rx: Receiver,
    pub(crate) tx: Transmitter,
    /// The socket took everything that was offered since it last said that it can be written.
    pub(crate) writable: bool,
    /// The peer has closed its side, as readiness told; reads go on to the end of the stream.
    pub(crate) peer_closed: bool,
    /// Reading waits until acknowledgements are written.
    pub(crate) choked: bool,
    /// In the list of connections to be written.
    pub(crate) in_writes: bool,
    /// In the list of connections to be read.
    pub(crate) in_reads: bool,
    /// A number that grows with each use.
    pub(crate) last_use: u64,
    read_at: Time,
    sending: Sending,
}

/// How far the peer's TCP has acknowledged what was written.
#[derive(Clone, Copy, Debug)]
struct Sending {
    written: u64,
    acked: u64,
    /// When bytes were last written or acknowledged, or the first frame was queued.
    moved_at: Time,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, terms: Terms, now: Time) -> Self {
        Self {
            stream,
            terms,
            rx: Receiver::new(terms.version, terms.order),
            tx: Transmitter::default(),
            writable: true,
            peer_closed: false,
            choked: false,
            in_writes: false,
            in_reads: false,
            last_use: 0,
            read_at: now,
            sending: Sending {
                written: 0,
                acked: 0,
                moved_at: now,
            },
        }
    }

    /// Reads for one turn.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        stats: &mut SocklndStats,
        now: Time,
        upper: &mut impl Upper,
    ) -> Result<Paused, CloseReason> {
        let before = stats.bytes_in;
        let mut around = Surroundings {
            ni: self.terms.ni,
            peer: self.terms.id,
            scratch,
            stats,
            now,
        };
        let mut socket = &self.stream;
        let result = self.rx.read(
            &mut socket,
            self.peer_closed,
            &mut self.tx,
            &mut around,
            upper,
        );
        if stats.bytes_in > before {
            self.read_at = now;
        }
        self.choked = result == Ok(Paused::Choked);
        result
    }

    /// Writes for one turn.
    pub(crate) fn write<U: Upper>(
        &mut self,
        stats: &mut SocklndStats,
        now: Time,
        upper: &mut U,
        departed: &mut impl FnMut(&mut U, Departed),
    ) -> Result<Written, CloseReason> {
        let before = stats.bytes_out;
        let mut socket = &self.stream;
        let result = self.tx.write(&mut socket, upper, stats, departed);
        let written = stats.bytes_out - before;
        if written > 0 {
            self.sending.written += written;
            self.sending.moved_at = now;
        }
        if result == Ok(Written::Full) {
            self.writable = false;
        }
        result
    }

    /// To be called before a frame is queued: an idle connection begins to owe progress now.
    pub(crate) fn note_queueing(&mut self, now: Time) {
        if self.tx.is_empty() && self.sending.acked == self.sending.written {
            self.sending.moved_at = now;
        }
    }

    /// To be called when reading goes on after a pause of ours.
    pub(crate) fn note_resuming(&mut self, now: Time) {
        self.read_at = now;
    }

    /// When the peer last showed that it lives.
    pub(crate) fn alive_at(&self) -> Time {
        self.read_at.max(self.sending.moved_at)
    }

    /// Looks whether the connection goes on; to be called about four times per `timeout`.
    pub(crate) fn check(&mut self, now: Time, timeout: Duration) -> Result<(), CloseReason> {
        self.tx.shrink();
        let awaits_peer = self.rx.is_waiting_for_bytes() && !self.choked;
        if awaits_peer && now - self.read_at >= timeout {
            return Err(CloseReason::FrameStalled);
        }
        self.update_acked(now);
        let owes = !self.tx.is_empty() || self.sending.acked < self.sending.written;
        if owes && now - self.sending.moved_at >= timeout {
            return Err(CloseReason::SendStalled);
        }
        Ok(())
    }

    fn update_acked(&mut self, now: Time) {
        if self.sending.acked == self.sending.written {
            return;
        }
        // A socket that cannot tell is one whose failure reading and writing will show.
        let unacked = sys::bytes_unacked(&self.stream).unwrap_or(0) as u64;
        let acked = self.sending.written.saturating_sub(unacked);
        if acked > self.sending.acked {
            self.sending.acked = acked;
            self.sending.moved_at = now;
        }
    }

    pub(crate) fn view(&self) -> ConnectionView {
        ConnectionView {
            ni: self.terms.ni,
            peer: self.terms.id,
            ctype: self.terms.ctype,
            version: self.terms.version,
            local: self.terms.local,
            remote: self.terms.remote,
            dialled: self.terms.dialled,
            queued_frames: self.tx.frames(),
            queued_bytes: self.tx.bytes(),
            held: self.rx.is_held(),
        }
    }
}
