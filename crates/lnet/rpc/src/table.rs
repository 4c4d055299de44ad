//! The server's record of calls, which makes each call execute at most once.
//!
//! ```text
//!                 admit                complete              delivered
//!   unknown xid ─────────▶ Running ────────────▶ Done(reply) ─────────▶ Done(-)
//!        ▲ Busy, Refused:     │ newer attempt:      │ newer attempt:       │ any attempt:
//!        ╵ nothing recorded   ▼ address replaced    ▼ reply sent again     ▼ ignored
//!
//!   xid below the client's lowest unanswered one: Done is forgotten, and requests are ignored
//! ```
//!
//! A request is executed if, and only if, its xid becomes Running. A record leaves the table in two cases only.
//! Either the client has said that it does not wait for that xid any more; from then on the table ignores lower
//! xids for ever. Or the whole client was forgotten, because it said goodbye or was silent for too long; then
//! its session is void, and requests that still carry the session are rejected. A client with running calls is
//! not forgotten before they have completed. So a request of one session runs at most once, whatever the
//! network repeats, delays or reorders.
//!
//! Everything has a limit: clients, clients of one NID, calls of a client, calls that run, bytes of replies. The
//! clients of a peer are charged to this peer, who never gets all of a limit ([`lnet_node::shares`]). If a limit is
//! reached, the server answers "busy". A limit makes the table forget one kind of record only: the session of a
//! client that never began a call, for which nothing was executed and nothing is kept. The oldest such session of a
//! peer makes room for a new client of this peer; if there is no room at all, the oldest of all makes room.
//!
//! This module does no I/O and reads no clock: the caller passes the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use lnet_node::shares::{Payer, Shares};
use lnet_types::{Nid, ProcessId, Time};

use crate::handler::{Reply, Restored, Session};
use crate::proto::{
    ClientId, OPCODE_CONNECT, OPCODE_GOODBYE, Outcome, RESERVED_OPCODES, RequestHeader,
};

/// The address of one attempt: where the client receives the reply, and where its bulk memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) attempt: u32,
    /// The process of the client, from the source of its request.
    pub(crate) process: ProcessId,
    /// The NID from which the request was received: the client's node, or a router.
    pub(crate) bringer: Nid,
    /// The local NID that the request was sent to; the answer is sent from this NID. `None` on loopback.
    pub(crate) local: Option<Nid>,
    pub(crate) reply_bits: u64,
    pub(crate) bulk_bits: u64,
    /// When the client stops waiting, or a little earlier. If the client has stopped already, this is not later
    /// than the time when the request came.
    pub(crate) deadline: Time,
}

impl Address {
    /// Returns the peer that the request is charged to.
    pub(crate) fn payer(&self) -> Payer {
        Payer {
            source: self.process.nid,
            bringer: self.bringer,
        }
    }
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) clients: usize,
    /// The limit of clients of one NID.
    pub(crate) clients_per_nid: usize,
    /// The limit of calls of one client that run, or whose xid the client may still ask for.
    pub(crate) calls_per_client: usize,
    /// The limit of calls of all clients together that run, or whose xid may still be asked for.
    pub(crate) calls: usize,
    /// The limit of calls of all clients that run or wait for a worker.
    pub(crate) running: usize,
    /// The limit of replies kept for all clients, in bytes.
    pub(crate) kept_bytes: usize,
    /// The limit of bulk that one call may ask for, in bytes.
    pub(crate) bulk_len: u32,
    /// A client that is silent for this long is forgotten.
    pub(crate) idle: Duration,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The call is new: execute it.
    Execute,
    /// The call runs already: use the address of this attempt from now on.
    NewerAttempt,
    /// The call was executed: resend this reply, to the address of this attempt.
    Replay(Bytes),
    /// The table has a record of the client: answer with the number of its session.
    Connected(u64),
    /// The table has a new record of the client: answer with the number of its session. For the new record the table
    /// forgot that of another client.
    Opened(u64, Option<ClientId>),
    /// The client said goodbye, and its record is freed.
    Gone,
    /// The client said goodbye, and calls of it still run; the record is freed with the last of them.
    Leaving,
    /// The client has stopped waiting for the call, or may have: do not execute the call. The answer reports
    /// the server's clock, so that a client that still waits can retry with a deadline by that clock.
    Expired,
    /// The client's NID, or the NID that brought the request, has as many sessions as one NID may have: answer "busy".
    Crowded,
    /// There is no room for a further client: answer "busy".
    Full,
    /// The request is not executed: answer with this outcome.
    Answer(Outcome),
    /// Do nothing.
    Ignore(Ignored),
}

/// Why nothing is done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// The request is a copy of the newest attempt, or of an earlier one.
    OldAttempt,
    /// The client has the reply.
    Delivered,
    /// The client does not wait for this xid any more.
    BelowLowest,
}

/// The records of all clients.
#[derive(Debug)]
pub(crate) struct Table {
    limits: Limits,
    incarnation: u64,
    clients: BTreeMap<ClientId, Record>,
    /// The sessions that never began a call, by the NID that brought the request for them, the oldest first.
    unused: BTreeSet<(Nid, u64, ClientId)>,
    /// The same sessions, the oldest first.
    unused_by_age: BTreeMap<u64, ClientId>,
    sessions: u64,
    /// The clients of each peer.
    places: Shares,
    calls: Shares,
    running: Shares,
    kept_bytes: Shares,
}

/// The calls and bytes that were freed by forgetting records.
#[derive(Clone, Copy, Debug, Default)]
struct Freed {
    calls: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Record {
    /// The peer that opened the session, to whom the session and its calls are charged.
    payer: Payer,
    session: u64,
    /// The client has begun a call.
    is_used: bool,
    /// The client waits for no reply to an xid below this one, as a request said.
    floor: u64,
    calls: BTreeMap<u64, Entry>,
    running: usize,
    heard: Time,
    /// The client has said goodbye, and calls of it still run.
    is_to_be_freed: bool,
}

#[derive(Debug)]
struct Entry {
    address: Address,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    /// The call was executed. The reply is kept until the client is known to have it.
    Done(Option<Bytes>),
}

impl Table {
    pub(crate) fn new(incarnation: u64, limits: Limits) -> Self {
        Self {
            limits,
            incarnation,
            clients: BTreeMap::new(),
            unused: BTreeSet::new(),
            unused_by_age: BTreeMap::new(),
            sessions: 0,
            places: Shares::new(limits.clients),
            calls: Shares::new(limits.calls),
            running: Shares::new(limits.running),
            kept_bytes: Shares::new(limits.kept_bytes),
        }
    }

    /// Takes over the clients and calls of an earlier life of the server; `encode` makes the message of a
    /// reply.
    pub(crate) fn restore(
        &mut self,
        restored: Restored,
        now: Time,
        encode: impl Fn(u64, Reply) -> Bytes,
    ) {
        self.sessions = restored.sessions;
        for client in restored.clients {
            let Session {
                client: id,
                nid,
                number,
            } = client.session;
            let nothing_sent = Address {
                attempt: 0,
                process: ProcessId::lustre(nid),
                bringer: nid,
                local: None,
                reply_bits: 0,
                bulk_bits: 0,
                deadline: now,
            };
            // Who brought the requests of the earlier life is not known.
            let payer = nothing_sent.payer();
            let mut record = Record::new(payer, number, now);
            record.floor = client.lowest;
            // The client may have begun calls, whose replies it has.
            record.is_used = true;
            for (xid, reply) in client.calls {
                let reply = encode(xid, reply);
                self.kept_bytes.take(payer, reply.len());
                let entry = Entry {
                    address: nothing_sent,
                    state: State::Done(Some(reply)),
                };
                record.calls.insert(xid, entry);
            }
            self.calls.take(payer, record.calls.len());
            self.places.take(payer, 1);
            self.clients.insert(id, record);
        }
    }

    /// Decides what to do with a request that came from `address`.
    // [DATA-12]
    pub(crate) fn admit(
        &mut self,
        request: &RequestHeader,
        address: Address,
        now: Time,
    ) -> Admission {
        if request.opcode == OPCODE_CONNECT {
            return self.connect(request.client, address.payer(), now);
        }
        if request.incarnation != self.incarnation {
            return Admission::Answer(Outcome::WrongIncarnation);
        }
        let Some(record) = self.clients.get_mut(&request.client) else {
            return Admission::Answer(Outcome::UnknownClient);
        };
        if record.session != request.session {
            return Admission::Answer(Outcome::UnknownClient);
        }
        record.heard = now;
        if request.opcode == OPCODE_GOODBYE {
            return self.goodbye(request.client);
        }
        if record.is_to_be_freed {
            return Admission::Answer(Outcome::UnknownClient);
        }
        let payer = record.payer;
        let freed = record.raise_floor(request.lowest);
        let repeated = if request.xid < record.floor {
            Some(Admission::Ignore(Ignored::BelowLowest))
        } else {
            record
                .calls
                .get_mut(&request.xid)
                .map(|entry| entry.repeated(address))
        };
        self.release(payer, freed);
        repeated.unwrap_or_else(|| self.begin(request, address, now))
    }

    /// Returns the address of the newest attempt of a call that has a record.
    pub(crate) fn newest(&self, client: ClientId, xid: u64) -> Option<Address> {
        Some(self.clients.get(&client)?.calls.get(&xid)?.address)
    }

    /// Records the reply of an executed call. Returns the address for the reply, or `None` if the client does
    /// not wait for the reply any more.
    pub(crate) fn complete(
        &mut self,
        client: ClientId,
        xid: u64,
        reply: Bytes,
        now: Time,
    ) -> Option<Address> {
        let record = self.clients.get_mut(&client)?;
        let payer = record.payer;
        self.running.release(payer, 1);
        record.heard = now;
        record.running = record.running.saturating_sub(1);
        if record.is_to_be_freed && record.running == 0 {
            self.forget(client);
            return None;
        }
        if xid < record.floor {
            let removed = record.calls.remove(&xid).is_some();
            self.calls.release(payer, usize::from(removed));
            return None;
        }
        let entry = record.calls.get_mut(&xid)?;
        self.kept_bytes.take(payer, reply.len());
        entry.state = State::Done(Some(reply));
        Some(entry.address)
    }

    /// Notes that the client has the reply of this call, and frees the kept reply.
    pub(crate) fn delivered(&mut self, client: ClientId, xid: u64) {
        if let Some(record) = self.clients.get_mut(&client)
            && let Some(entry) = record.calls.get_mut(&xid)
            && let State::Done(reply) = &mut entry.state
        {
            let length = reply.take().map_or(0, |reply| reply.len());
            self.kept_bytes.release(record.payer, length);
        }
    }

    /// Forgets the clients that are silent for too long and have no running calls. Returns these clients.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<ClientId> {
        let idle = self.limits.idle;
        let silent =
            |record: &Record| record.running == 0 && now.saturating_since(record.heard) >= idle;
        let gone: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, record)| silent(record))
            .map(|(&id, _)| id)
            .collect();
        for &client in &gone {
            self.forget(client);
        }
        gone
    }

    /// Reports whether the table has a record of this client. If a call of the client has just completed and
    /// there is no record, the client had said goodbye and this was its last call.
    pub(crate) fn knows(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Clients with a record.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Calls that run or wait for a worker.
    pub(crate) fn running(&self) -> usize {
        self.running.used()
    }

    fn connect(&mut self, client: ClientId, payer: Payer, now: Time) -> Admission {
        if let Some(record) = self.clients.get_mut(&client) {
            if record.is_to_be_freed {
                return Admission::Answer(Outcome::Busy);
            }
            record.heard = now;
            return Admission::Connected(record.session);
        }
        let displaced = match self.make_room(payer) {
            Ok(displaced) => displaced,
            Err(refusal) => return refusal,
        };
        self.places.take(payer, 1);
        self.sessions += 1;
        let session = self.sessions;
        self.unused.insert((payer.bringer, session, client));
        self.unused_by_age.insert(session, client);
        self.clients
            .insert(client, Record::new(payer, session, now));
        Admission::Opened(session, displaced)
    }

    /// Finds room for a further client. Returns the client that was forgotten for it, if there had to be one.
    fn make_room(&mut self, payer: Payer) -> Result<Option<ClientId>, Admission> {
        let is_full = self.places.used() >= self.limits.clients;
        let is_crowded = !self.places.has_room(payer)
            || self.places.of_source(payer.source) >= self.limits.clients_per_nid;
        if !is_full && !is_crowded {
            return Ok(None);
        }
        let of_bringer = (payer.bringer, 0, ClientId([0; 16]))..;
        let of_bringer = self.unused.range(of_bringer).next();
        let own = of_bringer.filter(|(bringer, ..)| *bringer == payer.bringer);
        let own = own.map(|&(_, _, client)| client);
        let of_all = self.unused_by_age.values().next().copied();
        let displaced = own.or(of_all.filter(|_| is_full)).ok_or(match is_full {
            true => Admission::Full,
            false => Admission::Crowded,
        })?;
        self.forget(displaced);
        Ok(Some(displaced))
    }

    fn begin(&mut self, request: &RequestHeader, address: Address, now: Time) -> Admission {
        if address.deadline <= now {
            return Admission::Expired;
        }
        if request.bulk_len > self.limits.bulk_len || request.opcode >= RESERVED_OPCODES {
            return Admission::Answer(Outcome::Refused);
        }
        let limits = [&self.running, &self.calls, &self.kept_bytes];
        let record = self.clients.get_mut(&request.client);
        match record.filter(|record| {
            let has_room = limits.iter().all(|limit| limit.has_room(record.payer));
            has_room && record.calls.len() < self.limits.calls_per_client
        }) {
            Some(record) => {
                self.running.take(record.payer, 1);
                self.calls.take(record.payer, 1);
                record.running += 1;
                if !std::mem::replace(&mut record.is_used, true) {
                    let (bringer, session) = (record.payer.bringer, record.session);
                    self.unused.remove(&(bringer, session, request.client));
                    self.unused_by_age.remove(&session);
                }
                record.calls.insert(
                    request.xid,
                    Entry {
                        address,
                        state: State::Running,
                    },
                );
                Admission::Execute
            }
            None => Admission::Answer(Outcome::Busy),
        }
    }

    /// Forgets a call too early, to show that a test notices the second execution.
    #[cfg(test)]
    pub(crate) fn forget_call(&mut self, client: ClientId, xid: u64) {
        if let Some(record) = self.clients.get_mut(&client)
            && let Some(entry) = record.calls.remove(&xid)
        {
            let (payer, bytes) = (record.payer, entry.kept_bytes());
            self.release(payer, Freed { calls: 1, bytes });
        }
    }

    /// Forgets a client, at once or with its last running call.
    fn goodbye(&mut self, client: ClientId) -> Admission {
        match self.clients.get_mut(&client) {
            Some(record) if record.running > 0 => {
                record.is_to_be_freed = true;
                let (payer, freed) = (record.payer, record.forget_executed());
                self.release(payer, freed);
                Admission::Leaving
            }
            _ => {
                self.forget(client);
                Admission::Gone
            }
        }
    }

    /// Forgets a client that has no running calls.
    fn forget(&mut self, client: ClientId) {
        if let Some(record) = self.clients.remove(&client) {
            let bytes = record.calls.values().map(Entry::kept_bytes).sum();
            let (payer, session) = (record.payer, record.session);
            self.places.release(payer, 1);
            self.unused.remove(&(payer.bringer, session, client));
            self.unused_by_age.remove(&session);
            let calls = record.calls.len();
            self.release(payer, Freed { calls, bytes });
        }
    }

    fn release(&mut self, payer: Payer, freed: Freed) {
        self.calls.release(payer, freed.calls);
        self.kept_bytes.release(payer, freed.bytes);
    }
}

impl Record {
    fn new(payer: Payer, session: u64, now: Time) -> Self {
        Self {
            payer,
            session,
            is_used: false,
            floor: 0,
            calls: BTreeMap::new(),
            running: 0,
            heard: now,
            is_to_be_freed: false,
        }
    }

    /// Forgets the calls that do not run.
    fn forget_executed(&mut self) -> Freed {
        let mut freed = Freed::default();
        self.calls.retain(|_, entry| {
            let runs = matches!(entry.state, State::Running);
            if !runs {
                freed.bytes += entry.kept_bytes();
                freed.calls += 1;
            }
            runs
        });
        freed
    }

    /// Forgets the calls that the client does not wait for any more.
    fn raise_floor(&mut self, lowest: u64) -> Freed {
        self.floor = self.floor.max(lowest);
        let mut freed = Freed::default();
        while let Some(first) = self.calls.first_entry()
            && *first.key() < lowest
            && matches!(first.get().state, State::Done(_))
        {
            freed.bytes += first.remove().kept_bytes();
            freed.calls += 1;
        }
        freed
    }
}

impl Entry {
    fn kept_bytes(&self) -> usize {
        match &self.state {
            State::Done(Some(reply)) => reply.len(),
            State::Done(None) | State::Running => 0,
        }
    }

    fn repeated(&mut self, address: Address) -> Admission {
        if let State::Done(None) = self.state {
            return Admission::Ignore(Ignored::Delivered);
        }
        if address.attempt <= self.address.attempt {
            return Admission::Ignore(Ignored::OldAttempt);
        }
        // Each attempt carries the same deadline, as exactly as the client knew the server's clock then, and
        // never too late. So the latest of the deadlines is the most exact.
        let deadline = address.deadline.max(self.address.deadline);
        self.address = Address {
            deadline,
            ..address
        };
        match &self.state {
            State::Done(Some(reply)) => Admission::Replay(reply.clone()),
            State::Done(None) | State::Running => Admission::NewerAttempt,
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
