//! Transfers between clients and the segment, from the claim of a buffer to the last byte.
//!
//! ```text
//!  claim ─▶ WAITING for a bulk slot ─▶ BEGUN ─┬─ arrived, acknowledged ─▶ both ends succeed
//!   └─ small, outbound, or a slot is free ─▶┘ ├─ aborted ─▶ the buffer waits for the next message
//!                                             └─ lost, stalled ─▶ Stop; both ends fail
//! ```
//!
//! The engine never sees the bytes: it hands out segments, and the caller reports the result.

use std::sync::Arc;

use crate::zbmi::Engine;
use crate::zbmi::client::Request;
use crate::zbmi::config::BULK_MIN;
use crate::zbmi::counters::Rejection;
use crate::zbmi::io::{
    Direction, Errno, GrantId, Output, Peer, PluginId, Reply, RequestId, Segment, Transfer,
};
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;

/// The owner of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An operation of the server.
    Post(PluginId),
    /// An unexpected message at this offset.
    Message(u64),
}

/// A transfer that has a buffer.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) peer: Peer,
    pub(crate) request: RequestId,
    pub(crate) direction: Direction,
    pub(crate) target: Target,
    pub(crate) segments: Arc<[Segment]>,
    pub(crate) total: u64,
    pub(crate) inline: bool,
    /// The client's number of the send; 0 for a receive.
    pub(crate) order: u64,
    /// `None`: waits for a bulk slot.
    pub(crate) begun: Option<Begun>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at: Time,
    /// When the stall timer expires.
    check_at: Time,
}

impl Running {
    // [ZOID-53]
    fn is_bulk(&self) -> bool {
        self.direction == Direction::ToServer && self.total > BULK_MIN
    }
}

impl Engine {
    /// Reports that bytes of this transfer moved. Other transfers of the same client in the same direction
    /// wait behind it in the same stream, so they do not count as stalled either.
    pub fn transfer_progressed(&mut self, now: Time, grant: GrantId) {
        let found = self
            .transfers
            .get(&grant)
            .map(|running| (running.peer, running.direction));
        let Some((peer, direction)) = found else {
            return self.counters.reject(Rejection::StaleReport);
        };
        if let Some(client) = self.client_mut(peer) {
            client.progress(direction, now);
        }
    }

    /// Reports that all bytes of an [`Output::Grant`] are in the segment.
    pub fn transfer_arrived(&mut self, now: Time, grant: GrantId) {
        let Some(over) = self.end_begun(now, grant, Direction::ToServer) else {
            return self.counters.reject(Rejection::StaleReport);
        };
        let (peer, total) = (over.peer, over.total);
        if let Some(client) = self.client_mut(peer) {
            client.traffic.sent.add(total);
            client.remember(over.order, Ok(()));
        }
        self.reply(peer, over.request, Reply::Sent);
        match over.target {
            Target::Post(plugin) => {
                self.counters.expected_in.add(total);
                self.complete_post(now, plugin, Ok(total));
            }
            Target::Message(offset) => {
                self.counters.unexpected_in.add(total);
                self.counters.unexpected_inline += u64::from(over.inline);
                self.message_arrived(peer, offset);
            }
        }
    }

    /// Reports that the client aborted an [`Output::Grant`] (ABORT); it may send the message again later. A
    /// receive of the server waits for the next message; the contents of its buffer are undefined.
    pub fn transfer_aborted(&mut self, now: Time, grant: GrantId) {
        let Some(over) = self.end_begun(now, grant, Direction::ToServer) else {
            return self.counters.reject(Rejection::StaleReport);
        };
        self.not_now(over.peer, over.request);
        match over.target {
            Target::Post(plugin) => self.release_claim(now, plugin),
            Target::Message(offset) => {
                self.drop_message(over.peer, offset);
                self.serve_memory(now);
            }
        }
    }

    /// Reports that the client received an [`Output::Deliver`] (RECV_ACK), or rejected it.
    // [FWD-23]
    pub fn transfer_acknowledged(&mut self, now: Time, grant: GrantId, result: Result<(), Errno>) {
        let Some(over) = self.end_begun(now, grant, Direction::ToClient) else {
            return self.counters.reject(Rejection::StaleReport);
        };
        if result.is_ok() {
            self.counters.expected_out.add(over.total);
            if let Some(client) = self.client_mut(over.peer) {
                client.traffic.received.add(over.total);
            }
        }
        if let Target::Post(plugin) = over.target {
            self.complete_post(now, plugin, result.map(|()| over.total));
        }
    }

    /// Begins the transfer to a claimed buffer, or lets it wait for a bulk slot.
    pub(crate) fn start(&mut self, now: Time, running: Running) -> GrantId {
        let grant = self.next_grant;
        self.next_grant = GrantId(grant.0 + 1);
        let (peer, request, bulk) = (running.peer, running.request, running.is_bulk());
        self.transfers.insert(grant, running);
        let Some(client) = self.client_mut(peer) else {
            return grant;
        };
        client.requests.insert(request, Request::Moving(grant));
        let job = client.job;
        if !bulk || self.admission.enter(job, grant) {
            self.begin(now, grant);
        } else {
            self.counters.bulk_waits += 1;
        }
        grant
    }

    // [ZOID-16]
    fn begin(&mut self, now: Time, grant: GrantId) {
        let check_at = now + self.config.stall;
        let Some(running) = self.transfers.get_mut(&grant) else {
            return;
        };
        running.begun = Some(Begun { at: now, check_at });
        let transfer = Transfer {
            grant,
            peer: running.peer,
            request: running.request,
            segments: Arc::clone(&running.segments),
            total: running.total,
            inline: running.inline,
        };
        self.outputs.push_back(match running.direction {
            Direction::ToServer => Output::Grant(transfer),
            Direction::ToClient => Output::Deliver(transfer),
        });
        self.timers.set(check_at, Timer::Stall(grant));
    }

    /// Handles the stall timer: fails the transfer unless bytes moved meanwhile (R57).
    // [ZOID-51]
    pub(crate) fn check_stall(&mut self, now: Time, grant: GrantId) {
        let Some(running) = self.transfers.get(&grant) else {
            return;
        };
        let (Some(begun), Some(client)) = (running.begun, self.client(running.peer)) else {
            return;
        };
        let stalled_at = begun.at.max(client.progressed(running.direction)) + self.config.stall;
        if stalled_at <= now {
            self.counters.stalls += 1;
            self.fail_transfer(now, grant, Errno::ConnectionReset);
            self.serve_memory(now);
        } else if let Some(running) = self.transfers.get_mut(&grant) {
            running.begun = Some(Begun {
                check_at: stalled_at,
                ..begun
            });
            self.timers.set(stalled_at, Timer::Stall(grant));
        }
    }

    /// Fails all transfers for which `is_hit` is true. Those that wait for a bulk slot fail first; otherwise
    /// they would begin when the others release their slots. The caller then calls `serve_memory`, once.
    // [DEATH-13]
    pub(crate) fn fail_transfers(&mut self, now: Time, is_hit: impl Fn(&Running) -> bool) {
        let hit = self.transfers.iter().filter(|(_, running)| is_hit(running));
        let mut grants: Vec<(bool, GrantId)> = hit
            .map(|(&grant, running)| (running.begun.is_some(), grant))
            .collect();
        grants.sort_unstable();
        for (_, grant) in grants {
            self.fail_transfer(now, grant, Errno::ConnectionReset);
        }
    }

    /// Fails a transfer: it may no longer touch the segment, and both sides fail. The caller then calls
    /// `serve_memory`.
    // [DEATH-2]
    fn fail_transfer(&mut self, now: Time, grant: GrantId, error: Errno) {
        let Some((over, awaited)) = self.end_transfer(now, grant) else {
            return;
        };
        let peer = over.peer;
        if over.begun.is_some() {
            self.counters.transfers_stopped += 1;
            self.outputs.push_back(Output::Stop { grant, peer });
        }
        if awaited {
            self.reply(peer, over.request, Reply::Failed(error));
        }
        match over.target {
            Target::Post(plugin) => self.complete_post(now, plugin, Err(error)),
            Target::Message(offset) => self.drop_message(peer, offset),
        }
    }

    /// Ends a transfer on a report of the caller, if the report is valid.
    // [FWD-27]
    fn end_begun(&mut self, now: Time, grant: GrantId, direction: Direction) -> Option<Running> {
        let running = self.transfers.get(&grant)?;
        if running.begun.is_none() || running.direction != direction {
            return None;
        }
        self.end_transfer(now, grant).map(|(over, _)| over)
    }

    /// Removes a transfer from every table; its bulk slot goes to the next. Also returns whether the client
    /// still waits for the result of its request.
    fn end_transfer(&mut self, now: Time, grant: GrantId) -> Option<(Running, bool)> {
        let over = self.transfers.remove(&grant)?;
        let mut awaited = false;
        let mut job = None;
        if let Some(client) = self.client_mut(over.peer) {
            awaited = client.requests.remove(&over.request).is_some();
            job = Some(client.job);
        }
        if let Some(begun) = over.begun {
            self.timers.clear(begun.check_at, Timer::Stall(grant));
        }
        if over.is_bulk() {
            match (over.begun, job) {
                (Some(_), _) => {
                    if let Some(next) = self.admission.leave() {
                        self.begin(now, next);
                    }
                }
                (None, Some(job)) => self.admission.forget(job, grant),
                (None, None) => {}
            }
        }
        Some((over, awaited))
    }
}
