//! Queueing, writing and reading on established connections.

use lnet_types::Time;
use lnet_wire::KsockHeader;

use super::{Slot, Socklnd};
use crate::choose::{Candidate, choose, suits};
use crate::peer::{Peer, PeerKey};
use crate::receive::Paused;
use crate::stats::Unsent;
use crate::transmit::{Written, cost};
use crate::upper::{Failure, RxToken, SendRequest, Upper};

impl Socklnd {
    /// Queues a message on a connection of its peer; where there is none, dials. Bytes move in
    /// [`flush`](Self::flush). A message that cannot be sent is reported before this returns.
    pub fn send(&mut self, request: SendRequest, now: Time, upper: &mut impl Upper) {
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
        } else {
            self.queue_and_dial(peer, request, now, upper);
        }
    }

    /// The message waits for a connection, if there is hope for one.
    fn queue_and_dial(
        &mut self,
        peer: usize,
        request: SendRequest,
        now: Time,
        upper: &mut impl Upper,
    ) {
        let timeout = self.timeout(peer);
        let it = &mut self.peers[peer];
        let dialable = !it.key.id.is_userspace();
        if !dialable || !(it.dialler.is_active() || it.dialler.may_begin(now)) {
            self.give_back(
                peer,
                &request,
                (Unsent::NoRoute, Failure::RemoteError),
                now,
                upper,
            );
            self.forget_if_idle(peer, now);
            return;
        }
        it.wait(request, request.deadline.min(now + timeout));
        it.is_dialled = true;
        self.dial_what_is_missing(peer, now, upper);
        self.arm(peer, now);
    }

    pub(super) fn choose_connection(&self, peer: usize, request: &SendRequest) -> Option<usize> {
        let min_bulk = self.config.min_bulk;
        choose(self.peers[peer].links.iter().filter_map(|&slot| {
            let connection = self.connection(slot)?;
            let version = connection.terms.version;
            let headers = KsockHeader::LEN + version.header_form().len();
            let bytes = headers as u64 + u64::from(request.header.payload_length);
            Some(Candidate {
                slot,
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
        upper: &mut impl Upper,
    ) {
        self.next_use += 1;
        let last_use = self.next_use;
        let Some(connection) = self.connection_mut(slot) else {
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
        upper: &mut impl Upper,
    ) {
        if let Some(it) = self.peers.get_mut(peer) {
            settle(it, cost(request.header.payload_length));
        }
        self.stats.unsent.add(why);
        upper.sent(request.tx, Err(failure), now);
    }

    /// Goes on with a message that [`crate::Disposition::Hold`] stopped: `wanted` bytes are read into its
    /// landing, or with `None` it is thrown away. Either way [`Upper::received`] follows, from the next
    /// [`flush`](Self::flush) at the earliest. A message whose connection is gone is ignored: it was
    /// reported then.
    pub fn resume(&mut self, rx: RxToken, wanted: Option<u32>, now: Time, _upper: &mut impl Upper) {
        let Some(slot) = self.held.remove(&rx) else {
            return;
        };
        if let Some(connection) = self.connection_mut(slot) {
            connection.rx.resume(wanted);
            connection.note_resuming(now);
            self.want_read(slot);
        }
    }

    /// Gives up a message that is being read: nothing more is written into its landing, the rest of it is thrown away
    /// as it comes, and it is reported as failed before this returns. A message that is not being read is ignored: it
    /// was reported.
    pub fn cancel(&mut self, rx: RxToken, now: Time, upper: &mut impl Upper) {
        let found = self.slots.iter_mut().any(|(_, slot)| match slot {
            Slot::Connection(connection) => connection.rx.cancel(rx),
            _ => false,
        });
        if found {
            upper.received(rx, Err(Failure::LocalError), now);
        }
    }

    /// Reads on where a turn was over, then writes what is queued wherever it can be written. True when
    /// there is more to do at once.
    pub fn flush(&mut self, now: Time, upper: &mut impl Upper) -> bool {
        self.read_on(now, upper);
        self.write_out(now, upper);
        self.has_work()
    }

    /// Reads on where a turn was over, one turn each.
    pub fn read_on(&mut self, now: Time, upper: &mut impl Upper) {
        for _ in 0..self.reads.len() {
            self.read_next(now, upper);
        }
    }

    /// Writes what is queued wherever it can be written, one turn each. False when nothing was.
    pub fn write_out(&mut self, now: Time, upper: &mut impl Upper) -> bool {
        let listed = self.writes.len();
        for _ in 0..listed {
            self.write_next(now, upper);
        }
        listed > 0
    }

    /// True when there is more to read or write at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    fn read_next(&mut self, now: Time, upper: &mut impl Upper) {
        let Some(slot) = self.reads.pop_front() else {
            return;
        };
        match self.slots.get_mut(slot) {
            Some(Slot::Connection(connection)) if connection.in_reads => {
                connection.in_reads = false;
                self.read(slot, now, upper);
            }
            Some(Slot::Listener(listener)) if listener.in_reads => {
                listener.in_reads = false;
                self.accept(slot, now, upper);
            }
            _ => {}
        }
    }

    /// Lists a connection for writing, where there is something to write and room for it.
    pub(super) fn want_write(&mut self, slot: usize) {
        let Some(connection) = self.connection_mut(slot) else {
            return;
        };
        if connection.writable && !connection.in_writes && !connection.tx.is_empty() {
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

    pub(super) fn read(&mut self, slot: usize, now: Time, upper: &mut impl Upper) {
        let Self {
            slots,
            scratch,
            stats,
            ..
        } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            return;
        };
        match connection.read(scratch, stats, now, upper) {
            Ok(Paused::Drained | Paused::Choked) => {}
            Ok(Paused::TurnOver) => self.want_read(slot),
            Ok(Paused::Held(rx)) => {
                self.held.insert(rx, slot);
            }
            Err(reason) => {
                self.close(slot, reason, now, upper);
                return;
            }
        }
        self.want_write(slot);
    }

    fn write_next(&mut self, now: Time, upper: &mut impl Upper) {
        let Some(slot) = self.writes.pop_front() else {
            return;
        };
        let Self {
            slots,
            peers,
            stats,
            ..
        } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            return;
        };
        let Some(peer) = peers
            .get_mut(connection.terms.peer)
            .filter(|_| connection.in_writes)
        else {
            return;
        };
        connection.in_writes = false;
        let written = connection.write(stats, now, upper, &mut |upper, gone| {
            settle(peer, gone.cost);
            upper.sent(gone.tx, Ok(()), now);
        });
        let unchoked = connection.choked && !connection.tx.is_choked();
        match written {
            Ok(Written::All | Written::Full) => {}
            Ok(Written::TurnOver) => self.want_write(slot),
            Err(reason) => {
                self.close(slot, reason, now, upper);
                return;
            }
        }
        if unchoked {
            self.want_read(slot);
        }
    }
}

/// A message of this peer waits no more.
pub(super) fn settle(peer: &mut Peer, cost: u64) {
    peer.queued_messages -= 1;
    peer.queued_bytes -= cost;
}
