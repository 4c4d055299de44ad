//! An established connection: a stream, its two halves and its health.
//!
//! [`Receiver`] and [`Transmitter`] decide what to read and write, and know no streams. This file
//! turns their decisions into jobs, gives them the outcomes, and checks that both make progress:
//! [FRAME-8], [FRAME-11].

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lnd::NiId;
use lnet_types::{ProcessId, Time};
use lnet_wire::{ByteOrder, Ctype, HelloVersion};

use crate::job::{Above, Batch, Outcome, Room, Staging, Work};
use crate::network::{Readiness, Stream};
use crate::receive::{Paused, Receiver, Surroundings, read_failure};
use crate::stats::{CloseReason, SocklndStats};
use crate::transmit::{Departed, Transmitter, write_failure};
use crate::view::ConnectionView;

/// What a handshake agrees about a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Index of the peer.
    pub(crate) peer: usize,
    pub(crate) ni: NiId,
    pub(crate) id: ProcessId,
    /// The connection type, in our naming.
    pub(crate) ctype: Ctype,
    pub(crate) version: HelloVersion,
    /// The peer's byte order, which its frame headers use.
    pub(crate) order: ByteOrder,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// True if we dialled.
    pub(crate) dialled: bool,
}

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) stream: Arc<S>,
    /// A number that no other connection of this LND has.
    pub(crate) serial: u64,
    pub(crate) terms: Terms,
    pub(crate) rx: Receiver,
    pub(crate) tx: Transmitter,
    /// Readiness reported that the peer has closed its side; reads continue to the end of the
    /// stream.
    pub(crate) peer_closed: bool,
    /// The connection is only read, until its end: the peer has closed or replaced a sibling.
    pub(crate) parting: bool,
    /// Why the connection closes as soon as the write in progress has ended.
    pub(crate) ended: Option<CloseReason>,
    /// Reading waits until acknowledgements are written.
    pub(crate) choked: bool,
    /// The connection is in the list of connections to be written.
    pub(crate) in_writes: bool,
    /// The connection is in the list of connections to be read.
    pub(crate) in_reads: bool,
    /// A number that grows with each use.
    pub(crate) last_use: u64,
    /// Processing of bytes already read is paused.
    pub(crate) paused: bool,
    /// When both sides agreed on the connection.
    pub(crate) made_at: Time,
    /// A byte has moved behind the handshake.
    pub(crate) is_used: bool,
    /// A read is in progress.
    reading: bool,
    /// Readiness was reported during the read, which may have been too early to see the new bytes.
    more_to_read: bool,
    /// The stream accepted every byte offered since it was last reported writable.
    writable: bool,
    /// The stream was reported writable during a write, which may have been too early to use the
    /// new room.
    writable_again: bool,
    read_at: Time,
    sending: Sending,
    /// A defect for tests: forgets readiness that is reported during a read.
    #[cfg(feature = "defects")]
    pub(crate) deaf: bool,
}

/// How far the peer's TCP has acknowledged what was written.
#[derive(Clone, Copy, Debug)]
struct Sending {
    written: u64,
    acked: u64,
    /// When new acknowledgements were last seen. They are looked for from time to time only.
    acked_at: Time,
    /// When bytes were last written or acknowledged, or when the first frame was queued.
    moved_at: Time,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn new(stream: Arc<S>, serial: u64, terms: Terms, now: Time) -> Self {
        // CONTROL connections carry only small messages.
        let is_small = terms.ctype == Ctype::CONTROL;
        Self {
            stream,
            serial,
            terms,
            rx: Receiver::new(terms.version, terms.order, is_small),
            tx: Transmitter::default(),
            peer_closed: false,
            parting: false,
            ended: None,
            choked: false,
            in_writes: false,
            in_reads: false,
            last_use: 0,
            paused: false,
            made_at: now,
            is_used: false,
            reading: false,
            more_to_read: false,
            writable: true,
            writable_again: false,
            read_at: now,
            sending: Sending {
                written: 0,
                acked: 0,
                acked_at: now,
                moved_at: now,
            },
            #[cfg(feature = "defects")]
            deaf: false,
        }
    }

    /// Records readiness.
    pub(crate) fn note(&mut self, readiness: Readiness) {
        self.peer_closed |= readiness.closed;
        if readiness.writable {
            self.writable = true;
            self.writable_again = self.tx.is_lent();
        }
    }

    /// Returns whether a read may begin. If a read is in progress, another read will follow.
    pub(crate) fn may_read(&mut self) -> bool {
        #[cfg(feature = "defects")]
        if self.deaf {
            return !self.reading;
        }
        self.more_to_read |= self.reading;
        !self.reading && self.ended.is_none()
    }

    /// Returns whether a write may begin and there is something to write.
    pub(crate) fn may_write(&self) -> bool {
        let may_send = !self.parting && self.ended.is_none();
        self.writable && may_send && !self.tx.is_lent() && !self.tx.is_empty()
    }

    /// Returns the next read.
    pub(crate) fn read(&mut self) -> Work {
        self.reading = true;
        Work::Read(self.rx.room())
    }

    /// Returns the next write, in an empty batch.
    pub(crate) fn write(&mut self, mut batch: Batch) -> Work {
        self.writable_again = false;
        self.tx.lend(&mut batch);
        Work::Write(batch)
    }

    /// Continues processing what was read before a pause.
    pub(crate) fn go_on(
        &mut self,
        stats: &mut SocklndStats,
        now: Time,
        upper: &mut impl Above,
    ) -> Result<Option<Paused>, CloseReason> {
        let mut around = Surroundings {
            ni: self.terms.ni,
            peer: self.terms.id,
            stats,
            now,
        };
        let paused = self.rx.go_on(&mut self.tx, &mut around, upper)?;
        self.pause(paused);
        Ok(paused)
    }

    /// Takes the outcome of a read. Returns whether there may be more to read.
    pub(crate) fn has_read(
        &mut self,
        outcome: Outcome,
        room: &Room,
        staging: &mut Staging,
        stats: &mut SocklndStats,
        now: Time,
        upper: &mut impl Above,
    ) -> Result<(Option<Paused>, bool), CloseReason> {
        self.reading = false;
        let told = std::mem::take(&mut self.more_to_read);
        let count = match outcome.moved {
            Ok(0) => return Err(self.rx.end()),
            Ok(count) => count,
            Err(ErrorKind::WouldBlock) => return Ok((None, told)),
            Err(kind) => return Err(read_failure(kind)),
        };
        self.read_at = now;
        self.is_used = true;
        stats.reads += 1;
        stats.bytes_in += count as u64;
        let mut around = Surroundings {
            ni: self.terms.ni,
            peer: self.terms.id,
            stats,
            now,
        };
        let paused = self
            .rx
            .absorb(count, room, staging, &mut self.tx, &mut around, upper)?;
        self.pause(paused);
        // Once the peer has closed its side, no further readiness is reported; therefore a short
        // read does not prove that the stream is empty.
        let more = told || self.peer_closed || !outcome.is_short();
        Ok((paused, more && paused.is_none()))
    }

    fn pause(&mut self, paused: Option<Paused>) {
        self.paused = paused.is_some();
        self.choked = paused == Some(Paused::Choked);
    }

    /// Takes the outcome of a write.
    pub(crate) fn has_written(
        &mut self,
        outcome: Outcome,
        stats: &mut SocklndStats,
        now: Time,
        departed: &mut impl FnMut(Departed),
    ) -> Result<(), CloseReason> {
        if outcome.is_short() {
            self.writable = self.writable_again;
        }
        let (taken, result) = match outcome.moved {
            Ok(taken) => (taken, Ok(())),
            Err(ErrorKind::WouldBlock) => (0, Ok(())),
            Err(kind) => (0, Err(write_failure(kind))),
        };
        if taken > 0 {
            self.is_used = true;
            stats.writes += 1;
            stats.bytes_out += taken as u64;
            self.sending.written += taken as u64;
            self.sending.moved_at = now;
        }
        stats.frames_out += self.tx.written(taken, departed);
        result
    }

    /// Call this before queueing a frame: an idle connection must show progress from now on.
    pub(crate) fn note_queueing(&mut self, now: Time) {
        if self.tx.is_empty() && self.sending.acked == self.sending.written {
            self.sending.moved_at = now;
        }
    }

    /// Call this when reading continues after a pause on our side.
    pub(crate) fn note_resuming(&mut self, now: Time) {
        self.read_at = now;
    }

    /// Returns when the peer last showed that it is alive.
    pub(crate) fn alive_at(&self) -> Time {
        self.read_at.max(self.sending.moved_at)
    }

    /// Checks that the connection makes progress; call this about four times per `timeout`.
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

    /// Looks for new acknowledgements; returns whether the peer's TCP has not acknowledged everything.
    pub(crate) fn owes(&mut self, now: Time) -> bool {
        self.update_acked(now);
        self.sending.acked < self.sending.written
    }

    /// Returns when the peer last sent or acknowledged something, as far as was seen.
    pub(crate) fn heard_at(&self) -> Time {
        self.read_at.max(self.sending.acked_at)
    }

    fn update_acked(&mut self, now: Time) {
        if self.sending.acked == self.sending.written {
            return;
        }
        // Bytes of a write in progress may already be in the stream without being counted as written.
        let acked = self
            .sending
            .written
            .saturating_sub(self.stream.unacknowledged());
        if acked > self.sending.acked {
            self.sending.acked = acked;
            self.sending.acked_at = now;
            self.sending.moved_at = now;
        }
    }

    pub(crate) fn view(&self) -> ConnectionView {
        let (send_buffer, receive_buffer) = self.stream.buffer_sizes();
        ConnectionView {
            ni: self.terms.ni,
            peer: self.terms.id,
            ctype: self.terms.ctype,
            version: self.terms.version,
            local: self.terms.local,
            remote: self.terms.remote,
            dialled: self.terms.dialled,
            send_buffer,
            receive_buffer,
            queued_frames: self.tx.frames(),
            queued_bytes: self.tx.bytes(),
            held: self.rx.is_held(),
        }
    }
}
