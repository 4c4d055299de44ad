//! Queueing on established connections, and the jobs that write and read them.

use lnd::{Failure, RxId};
use lnet_types::Time;
use lnet_wire::{Header, KsockHeader};

use super::{Slot, Socklnd};
use crate::SendRequest;
use crate::choose::{Candidate, choose, suits};
use crate::job::{Above, Job, Landing, Outcome, Staging, Work};
use crate::network::Network;
use crate::peer::{LargeNids, Peer, PeerKey, carries};
use crate::receive::Paused;
use crate::stats::{CloseReason, Unsent};
use crate::transmit::cost;

impl<N: Network> Socklnd<N> {
    /// Queues a message on a connection of its peer; where there is none, dials. Bytes move by
    /// [`next_job`](Self::next_job). A message that cannot be sent is reported before this returns.
    pub fn send(&mut self, request: SendRequest, now: Time, upper: &mut impl Above) {
        if !self.nis.contains_key(&request.ni) {
            self.stats.unsent.add(Unsent::NoSuchNi);
            upper.sent(request.tx, Err(Failure::LocalError), now);
            return;
        }
        let peer = self.peer_index(PeerKey {
            ni: request.ni,
            id: request.to,
        });
        let cost = cost(request.header.payload_length);
        let limits = &self.config.limits;
        let it = &mut self.peers[peer];
        let full = it.queued_messages >= limits.queued_messages_max
            || it.queued_bytes + cost > limits.queued_bytes_max;
        it.queued_messages += 1;
        it.queued_bytes += cost;
        if full {
            self.give_back(
                peer,
                &request,
                (Unsent::QueueFull, Failure::LocalError),
                now,
                upper,
            );
        } else if let Some(slot) = self.choose_connection(peer, &request) {
            self.enqueue(slot, &request, now, upper);
            self.dial_what_is_missing(peer, now, upper);
        } else if self.may_be_carried(peer, &request.header) {
            self.queue_and_dial(peer, request, now, upper);
        } else {
            let failed = (Unsent::NotEncodable, Failure::Unwritable);
            self.give_back(peer, &request, failed, now, upper);
        }
    }

    /// False where the peer has refused the version that the header needs. That version is wanted from now on.
    fn may_be_carried(&mut self, peer: usize, header: &Header) -> bool {
        let Some(it) = self.peers.get_mut(peer) else {
            return true;
        };
        if !it.needs_more_than_usual(header) {
            return true;
        }
        if it.large_nids == LargeNids::Untried && !it.key.id.is_userspace() {
            it.large_nids = LargeNids::Wanted;
            it.dialler.want_more();
        }
        it.large_nids == LargeNids::Wanted
    }

    /// The message waits for a connection, if there is hope for one.
    // [SET-12] [HELLO-19]
    fn queue_and_dial(
        &mut self,
        peer: usize,
        request: SendRequest,
        now: Time,
        upper: &mut impl Above,
    ) {
        let timeout = self.timeout(peer);
        let it = &mut self.peers[peer];
        let dialable = !it.key.id.is_userspace();
        if !dialable || !(it.dialler.is_active() || it.dialler.may_begin(now)) {
            let failed = if it.links.is_empty() {
                (Unsent::NoRoute, Failure::RemoteError)
            } else {
                // There are connections, of a version that does not carry it.
                (Unsent::NotEncodable, Failure::Unwritable)
            };
            self.give_back(peer, &request, failed, now, upper);
            self.forget_if_idle(peer, now);
            return;
        }
        let deadline = request.deadline.min(now + timeout);
        it.wait(request, deadline);
        it.is_dialled = true;
        self.dial_what_is_missing(peer, now, upper);
        self.arm(peer, now);
    }

    pub(super) fn choose_connection(&self, peer: usize, request: &SendRequest) -> Option<usize> {
        let min_bulk = self.config.min_bulk;
        choose(self.peers[peer].links.iter().filter_map(|&slot| {
            let connection = self.connection(slot)?;
            let version = connection.terms.version;
            if !carries(version, &request.header) {
                return None;
            }
            let headers = KsockHeader::LEN + version.header_form().len();
            let bytes = headers as u64 + u64::from(request.header.payload_length);
            Some(Candidate {
                slot,
                version,
                suits: suits(version, connection.terms.ctype, bytes, min_bulk),
                queued: connection.tx.bytes(),
                last_use: connection.last_use,
            })
        }))
    }

    /// Puts a message, already counted for its peer, on a connection.
    pub(super) fn enqueue(
        &mut self,
        slot: usize,
        request: &SendRequest,
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
        let peer = connection.terms.peer;
        match connection.tx.push(connection.terms.version, request) {
            Ok(()) => self.want_write(slot),
            Err(_) => {
                let failed = (Unsent::NotEncodable, Failure::LocalError);
                self.give_back(peer, request, failed, now, upper);
            }
        }
    }

    /// Reports a message that is on no connection as not sent.
    pub(super) fn give_back(
        &mut self,
        peer: usize,
        request: &SendRequest,
        (why, failure): (Unsent, Failure),
        now: Time,
        upper: &mut impl Above,
    ) {
        if let Some(it) = self.peers.get_mut(peer) {
            settle(it, cost(request.header.payload_length));
        }
        self.stats.unsent.add(why);
        upper.sent(request.tx, Err(failure), now);
    }

    /// Goes on with a message that [`crate::Disposition::Hold`] stopped: the start of its payload is read
    /// into the landing, and with `None` all is thrown away. Either way [`crate::Upper::received`] follows,
    /// from the next job at the earliest. False when the connection of the message is gone: it was
    /// reported then.
    pub fn resume(&mut self, rx: RxId, landing: Option<Landing>, now: Time) -> bool {
        let Some(slot) = self.held.remove(&rx) else {
            return false;
        };
        if let Some(connection) = self.connection_mut(slot) {
            connection.rx.resume(landing);
            connection.note_resuming(now);
            self.want_read(slot);
        } else {
            self.stats
                .broken("the connection of a message that is held");
        }
        true
    }

    /// Gives up a message that is being read: the rest of it is thrown away as it comes, and it is reported
    /// as failed before this returns. A read that is under way may still write to memory of the landing,
    /// which it keeps alive. A message that is not being read is ignored: it was reported.
    pub fn cancel(&mut self, rx: RxId, now: Time, upper: &mut impl Above) {
        let found = self.slots.iter_mut().any(|(_, slot)| match slot {
            Slot::Connection(connection) => connection.rx.cancel(rx),
            _ => false,
        });
        if found {
            upper.received(rx, Err(Failure::LocalError), now);
        }
    }

    /// True when there is more to read or write at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// The next write or read that can be done at once: in turns, so that neither waits for the end of the
    /// other. Connections have their turn one after the other.
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

    /// The next write that can be done at once.
    pub fn next_write(&mut self) -> Option<Job<N::Stream>> {
        while let Some(slot) = self.writes.pop_front() {
            let pieces = std::mem::take(&mut self.spare_pieces);
            let Some(Slot::Connection(connection)) = self.slots.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut connection.in_writes) || !connection.may_write() {
                continue;
            }
            let work = connection.write(pieces);
            return self.job(slot, work);
        }
        None
    }

    /// The next read. Goes on with what a pause has left, which may be all that there is to do.
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

    /// Processes what a pause has left; false when nothing is to be read for now.
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

    /// Takes a job back that has run, with the staging that it ran with.
    pub fn finish(
        &mut self,
        job: Job<N::Stream>,
        staging: &mut Staging,
        now: Time,
        upper: &mut impl Above,
    ) {
        // Closed meanwhile: whatever waited on it has been reported.
        let is_open = self
            .connection(job.slot)
            .is_some_and(|connection| connection.serial == job.serial);
        match job.work {
            Work::Write { mut pieces, .. } => {
                pieces.clear();
                self.spare_pieces = pieces;
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

    /// Takes note of how processing ended; `None` when the connection was closed.
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

    /// Closes a connection that cannot be read any more. A write under way at another thread ends first: the
    /// messages that the write has put into the stream are sent, not failed.
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

    /// Lists a connection for writing, where there is something to write and room for it.
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

    /// Runs every job that can be run now, once a connection: for those who have one thread. True when
    /// there is more to do at once.
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

/// A message of this peer waits no more.
pub(super) fn settle(peer: &mut Peer, cost: u64) {
    peer.queued_messages -= 1;
    peer.queued_bytes -= cost;
}
