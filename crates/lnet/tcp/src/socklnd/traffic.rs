//! Queues messages on established connections, and makes the jobs that write and read.

use lnd::{Failure, RxId};
use lnet_types::Time;
use lnet_wire::{Header, KsockHeader};

use super::{Slot, Socklnd};
use crate::SendRequest;
use crate::choose::{Candidate, Load, choose, suits};
use crate::job::{Above, Destination, Job, Outcome, Staging, Work};
use crate::network::Network;
use crate::peer::{LargeNids, Link, Peer, PeerKey, carries};
use crate::receive::Paused;
use crate::stats::{CloseReason, Unsent};
use crate::transmit::{Departed, cost};

impl<N: Network> Socklnd<N> {
    /// Queues a message on a connection of its peer; dials the peer if there is no connection. The jobs of
    /// [`next_job`](Self::next_job) move the bytes. A message that cannot be sent is reported before this returns.
    pub fn send(&mut self, request: SendRequest, now: Time, upper: &mut impl Above) {
        if !self.nis.contains_key(&request.ni) {
            self.stats.unsent.add(Unsent::NoSuchNi);
            upper.sent(request.tx, Err(Failure::LocalError), now);
            return;
        }
        let index = self.peer_index(PeerKey {
            ni: request.ni,
            id: request.to,
        });
        let cost = cost(request.header.payload_length);
        let limits = &self.config.limits;
        let peer = &mut self.peers[index];
        let full = peer.queued_messages >= limits.queued_messages_max
            || peer.queued_bytes + cost > limits.queued_bytes_max;
        peer.queued_messages += 1;
        peer.queued_bytes += cost;
        if full {
            let failed = (Unsent::QueueFull, Failure::LocalError);
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
        } else if let Some(slot) = self.choose_connection(index, &request.header) {
            self.enqueue(slot, request, now, upper);
            self.dial_what_is_missing(index, now, upper);
        } else if self.may_be_carried(index, &request.header) {
            self.queue_and_dial(index, request, now, upper);
        } else {
            let failed = (Unsent::NotEncodable, Failure::Unwritable);
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
        }
    }

    /// Returns whether the header can be sent to the peer. If it needs another version than usual, returns false once
    /// the peer has rejected that version; otherwise the peer is dialled in that version from now on.
    fn may_be_carried(&mut self, index: usize, header: &Header) -> bool {
        let Some(peer) = self.peers.get_mut(index) else {
            return true;
        };
        if !peer.needs_more_than_usual(header) {
            return true;
        }
        if peer.large_nids == LargeNids::Untried && !peer.key.id.is_userspace() {
            peer.set_large_nids(LargeNids::Wanted);
            peer.dialler.want_more();
        }
        peer.large_nids == LargeNids::Wanted
    }

    /// Queues the message until there is a connection, if the peer can be dialled; fails it otherwise.
    // [SET-12] [HELLO-19]
    fn queue_and_dial(
        &mut self,
        index: usize,
        request: SendRequest,
        now: Time,
        upper: &mut impl Above,
    ) {
        let timeout = self.timeout(index);
        let peer = &mut self.peers[index];
        let dialable = !peer.key.id.is_userspace();
        if !dialable || !(peer.dialler.is_active() || peer.dialler.may_begin(now)) {
            let failed = if peer.links.is_empty() {
                (Unsent::NoRoute, Failure::RemoteError)
            } else {
                // The connections have a version that cannot carry the message.
                (Unsent::NotEncodable, Failure::Unwritable)
            };
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
            self.forget_if_idle(index, now);
            return;
        }
        let deadline = request.deadline.min(now + timeout);
        peer.wait(request, deadline);
        peer.is_dialled = true;
        self.dial_what_is_missing(index, now, upper);
        self.arm(index, now);
    }

    pub(super) fn choose_connection(&self, index: usize, header: &Header) -> Option<usize> {
        let min_bulk = self.config.min_bulk;
        let links = &self.peers.get(index)?.links;
        let able = links.iter().filter(|link| carries(link.version, header));
        let candidates = able.map(
            |&Link {
                 slot,
                 ctype,
                 version,
             }| {
                let headers = KsockHeader::LEN + version.header_form().len();
                let bytes = headers as u64 + u64::from(header.payload_length);
                Candidate {
                    slot,
                    version,
                    suits: suits(version, ctype, bytes, min_bulk),
                }
            },
        );
        choose(candidates, |slot| {
            self.connection(slot).map(|connection| Load {
                queued: connection.tx.bytes(),
                last_use: connection.last_use,
            })
        })
    }

    /// Queues a message, which is already counted for its peer, on a connection.
    pub(super) fn enqueue(
        &mut self,
        slot: usize,
        request: SendRequest,
        now: Time,
        upper: &mut impl Above,
    ) {
        self.next_use += 1;
        let last_use = self.next_use;
        let Some(connection) = self.connection_mut(slot) else {
            self.stats.broken("the connection that was chosen");
            return;
        };
        connection.last_use = last_use;
        connection.note_queueing(now);
        let index = connection.terms.peer;
        let message = Departed::of(&request);
        match connection.tx.push(connection.terms.version, request) {
            Ok(()) => self.want_write(slot),
            Err(_) => {
                let failed = (Unsent::NotEncodable, Failure::LocalError);
                self.report_unsent(index, message, failed, now, upper);
            }
        }
    }

    /// Reports a message that is on no connection as not sent.
    pub(super) fn report_unsent(
        &mut self,
        index: usize,
        message: Departed,
        (why, failure): (Unsent, Failure),
        now: Time,
        upper: &mut impl Above,
    ) {
        if let Some(peer) = self.peers.get_mut(index) {
            settle(peer, message.cost);
        }
        self.stats.unsent.add(why);
        upper.sent(message.tx, Err(failure), now);
    }

    /// Continues a message that [`crate::Disposition::Hold`] stopped: the start of its payload is read into the
    /// destination; with `None`, all of it is dropped. In both cases [`crate::Upper::received`] follows, in the next job
    /// at the earliest. Returns false if the message's connection has closed: then the message has already been
    /// reported.
    pub fn resume(&mut self, rx: RxId, destination: Option<Destination>, now: Time) -> bool {
        let Some(slot) = self.held.remove(&rx) else {
            return false;
        };
        if let Some(connection) = self.connection_mut(slot) {
            connection.rx.resume(destination);
            connection.note_resuming(now);
            self.want_read(slot);
        } else {
            self.stats
                .broken("the connection of a message that is held");
        }
        true
    }

    /// Cancels a message that is being read: the rest of it is dropped as it arrives, and the message is reported as
    /// failed before this returns. A read in progress may still write to the memory of the destination; the read keeps
    /// this memory alive. A message that is not being read is ignored, because it has already been reported.
    pub fn cancel(&mut self, rx: RxId, now: Time, upper: &mut impl Above) {
        let found = self.slots.iter_mut().any(|(_, slot)| match slot {
            Slot::Connection(connection) => connection.rx.cancel(rx),
            _ => false,
        });
        if found {
            upper.received(rx, Err(Failure::LocalError), now);
        }
    }

    /// Returns true if there is more to read or write now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// Returns the next write or read that can be done now. Writes and reads alternate, so that neither waits for the
    /// end of the other. Connections take turns.
    pub fn next_job(&mut self, now: Time, upper: &mut impl Above) -> Option<Job<N::Stream>> {
        self.has_read = !self.has_read;
        let job = if self.has_read {
            self.next_read(now, upper)
        } else {
            self.next_write()
        };
        match job {
            None if self.has_read => self.next_write(),
            None => self.next_read(now, upper),
            some => some,
        }
    }

    /// Returns the next write that can be done now.
    pub fn next_write(&mut self) -> Option<Job<N::Stream>> {
        while let Some(slot) = self.writes.pop_front() {
            let Some(Slot::Connection(connection)) = self.slots.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut connection.in_writes) || !connection.may_write() {
                continue;
            }
            let work = connection.write(std::mem::take(&mut self.spare_batch));
            return self.job(slot, work);
        }
        None
    }

    /// Returns the next read. Before that, processes the bytes that a pause has left, which may be all there is to
    /// do.
    fn next_read(&mut self, now: Time, upper: &mut impl Above) -> Option<Job<N::Stream>> {
        for _ in 0..self.reads.len() {
            let slot = self.reads.pop_front()?;
            match self.slots.get_mut(slot) {
                Some(Slot::Listener(listener)) if listener.in_reads => {
                    listener.in_reads = false;
                    self.accept(slot, now, upper);
                }
                Some(Slot::Connection(connection)) if connection.in_reads => {
                    connection.in_reads = false;
                    if !connection.may_read() || !self.go_on(slot, now, upper) {
                        continue;
                    }
                    if let Some(connection) = self.connection_mut(slot) {
                        let work = connection.read();
                        return self.job(slot, work);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn job(&self, slot: usize, work: Work) -> Option<Job<N::Stream>> {
        let connection = self.connection(slot)?;
        Some(Job {
            slot,
            serial: connection.serial,
            stream: std::sync::Arc::clone(&connection.stream),
            work,
            outcome: Outcome::NONE,
        })
    }

    /// Processes the bytes that a pause has left; returns false if nothing is to be read for now.
    fn go_on(&mut self, slot: usize, now: Time, upper: &mut impl Above) -> bool {
        let Self { slots, stats, .. } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            stats.broken("a connection that is to be read");
            return false;
        };
        if !connection.paused {
            return true;
        }
        let result = connection.go_on(stats, now, upper);
        matches!(self.note_read(slot, result, now, upper), Some(None))
    }

    /// Takes back a job that has run, with the staging that it ran with.
    pub fn finish(
        &mut self,
        job: Job<N::Stream>,
        staging: &mut Staging,
        now: Time,
        upper: &mut impl Above,
    ) {
        // If the connection has closed meanwhile, its messages have already been reported.
        let is_open = self
            .connection(job.slot)
            .is_some_and(|connection| connection.serial == job.serial);
        match job.work {
            Work::Write(mut batch) => {
                batch.clear();
                self.spare_batch = batch;
                if is_open {
                    self.finish_write(job.slot, job.outcome, now, upper);
                }
            }
            Work::Read(room) if is_open => {
                let Self { slots, stats, .. } = self;
                let Some(Slot::Connection(connection)) = slots.get_mut(job.slot) else {
                    stats.broken("the connection of a read that has ended");
                    return;
                };
                let read = connection.has_read(job.outcome, &room, staging, stats, now, upper);
                let more = matches!(read, Ok((_, true)));
                self.note_read(job.slot, read.map(|(paused, _)| paused), now, upper);
                if more {
                    self.want_read(job.slot);
                }
            }
            Work::Read(_) => {}
        }
    }

    /// Records how the processing of a read ended; returns `None` if the connection was closed.
    fn note_read(
        &mut self,
        slot: usize,
        result: Result<Option<Paused>, CloseReason>,
        now: Time,
        upper: &mut impl Above,
    ) -> Option<Option<Paused>> {
        match result {
            Ok(paused) => {
                if let Some(Paused::Held(rx)) = paused {
                    self.held.insert(rx, slot);
                }
                self.want_write(slot);
                Some(paused)
            }
            Err(reason) => {
                self.close_behind_write(slot, reason, now, upper);
                None
            }
        }
    }

    /// Closes a connection that can no longer be read. A write in progress in another thread ends first: the messages
    /// that the write has put into the stream count as sent, not as failed.
    fn close_behind_write(
        &mut self,
        slot: usize,
        reason: CloseReason,
        now: Time,
        upper: &mut impl Above,
    ) {
        match self.connection_mut(slot) {
            Some(connection) if connection.tx.is_lent() => connection.ended = Some(reason),
            _ => self.close(slot, reason, now, upper),
        }
    }

    fn finish_write(&mut self, slot: usize, outcome: Outcome, now: Time, upper: &mut impl Above) {
        let Self {
            slots,
            peers,
            stats,
            ..
        } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            stats.broken("the connection of a write that has ended");
            return;
        };
        let Some(peer) = peers.get_mut(connection.terms.peer) else {
            stats.broken("the peer of a connection");
            return;
        };
        let written = connection.has_written(outcome, stats, now, &mut |gone| {
            settle(peer, gone.cost);
            upper.sent(gone.tx, Ok(()), now);
        });
        let unchoked = connection.choked && !connection.tx.is_choked();
        let parting = connection.parting;
        if let Some(reason) = connection.ended {
            return self.close(slot, reason, now, upper);
        }
        if parting {
            // The connection is read to its end, even if nothing can be written any more.
            self.fail_queued(slot, now, upper);
        } else if let Err(reason) = written {
            return self.close(slot, reason, now, upper);
        }
        self.want_write(slot);
        if unchoked {
            self.want_read(slot);
        }
    }

    /// Lists a connection for writing, if it has frames to write and room for them.
    pub(super) fn want_write(&mut self, slot: usize) {
        let Some(connection) = self.connection_mut(slot) else {
            return;
        };
        if connection.may_write() && !connection.in_writes {
            connection.in_writes = true;
            self.writes.push_back(slot);
        }
    }

    /// Lists a connection for reading.
    pub(super) fn want_read(&mut self, slot: usize) {
        let Some(connection) = self.connection_mut(slot) else {
            return;
        };
        if !connection.in_reads {
            connection.in_reads = true;
            self.reads.push_back(slot);
        }
    }

    /// Runs every job that can be run now, one for each connection: for programs with one thread. Returns true if
    /// there is more to do now.
    pub fn flush(&mut self, staging: &mut Staging, now: Time, upper: &mut impl Above) -> bool {
        for _ in 0..self.reads.len() {
            if let Some(mut job) = self.next_read(now, upper) {
                job.run(staging);
                self.finish(job, staging, now, upper);
            }
        }
        for _ in 0..self.writes.len() {
            if let Some(mut job) = self.next_write() {
                job.run(staging);
                self.finish(job, staging, now, upper);
            }
        }
        self.has_work()
    }
}

/// Removes a message from the counts of its peer's queue.
pub(super) fn settle(peer: &mut Peer, cost: u64) {
    peer.queued_messages -= 1;
    peer.queued_bytes -= cost;
}
