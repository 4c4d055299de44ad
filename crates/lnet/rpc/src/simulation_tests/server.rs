//! The simulated server: the real table, and executions that move bulk by the real transfer.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lnet_types::{Nid, ProcessId, Time};

use super::{
    BULK_MAX, BulkKind, DEADLINE, Defect, Happening, Key, Operation, PIECE, Piece, WIDTH, World,
    id, pattern, sent_by,
};
use crate::deadline::{ClockReading, ServerClock};
use crate::handler::{Reply, Restored, RestoredClient, Session};
use crate::proto::{ClientId, Outcome, RequestHeader};
use crate::table::{Address, Admission, Limits, Table};
use crate::transfer::{Fate, Heard, Next, Transfer};
use crate::window::Window;

/// A handler fails if it hears nothing of its client for this long.
const PATIENCE: Duration = Duration::from_secs(15);

/// A call that is being executed.
pub(super) struct Execution {
    value: u64,
    has_failed: bool,
    address: Address,
    kind: BulkKind,
    /// Bytes of bulk to be moved.
    length: u32,
    /// The transfer of the bulk: `None` before a worker takes the call and after the bulk has moved.
    transfer: Option<Transfer<u64>>,
    /// Pieces that have arrived and are not read yet, by index.
    arrived: BTreeMap<u32, Bytes>,
    read: Vec<u8>,
    moved: u32,
    gives_up: Time,
}

pub(super) fn limits() -> Limits {
    Limits {
        // All clients are of one NID, which gets a third of each limit.
        clients: 24,
        clients_per_nid: 8,
        calls_per_client: 8,
        calls: 48,
        running: 12,
        kept_bytes: 3000,
        bulk_len: BULK_MAX,
        // Longer than a call lasts, with the latest copies of its messages. These clients do not renew their
        // sessions as the real client does. So a client that is silent for longer is forgotten, together with
        // the calls it had executed.
        idle: Duration::from_secs(60),
    }
}

/// Decodes the reply of an execution: its value, how many bytes it moved, and whether it failed.
pub(super) fn decode(reply: &[u8]) -> (u64, u32, bool) {
    let (value, rest) = reply.split_at(8);
    let (moved, failed) = rest.split_at(4);
    let value = u64::from_le_bytes(value.try_into().unwrap());
    let moved = u32::from_le_bytes(moved.try_into().unwrap());
    (value, moved, failed == [1])
}

/// Encodes the reply of an execution.
fn reply(value: u64, moved: u32, has_failed: bool) -> Bytes {
    let mut reply = value.to_le_bytes().to_vec();
    reply.extend(moved.to_le_bytes());
    reply.push(u8::from(has_failed));
    Bytes::from(reply)
}

/// What a server with a log still knows after a restart.
#[derive(Default)]
pub(super) struct Durable {
    sessions: BTreeMap<u8, u64>,
    last_session: u64,
    lowest: BTreeMap<u8, u64>,
    /// Replies of executed calls, and failures of calls that were under way.
    calls: BTreeMap<Key, Bytes>,
}

impl Durable {
    fn note(&mut self, request: &RequestHeader, admission: &Admission) {
        let client = request.client.0[0];
        match admission {
            Admission::Opened(session, _) => {
                self.sessions.insert(client, *session);
                self.last_session = self.last_session.max(*session);
            }
            Admission::Execute => {
                let lowest = self.lowest.entry(client).or_default();
                *lowest = request.lowest.max(*lowest);
            }
            _ => {}
        }
    }

    pub(super) fn forget(&mut self, gone: &[ClientId]) {
        for client in gone {
            let client = client.0[0];
            self.sessions.remove(&client);
            self.lowest.remove(&client);
            self.calls.retain(|call, _| call.0 != client);
        }
    }

    fn restored(&self, incarnation: u64, is_whole: bool) -> Restored {
        let client = |(&client, &number): (&u8, &u64)| {
            let lowest = self.lowest.get(&client).copied().unwrap_or_default();
            let of_client = |call: &Key| is_whole && call.0 == client && call.1 >= lowest;
            let calls = self.calls.iter().filter(|(call, _)| of_client(call));
            RestoredClient {
                session: Session {
                    client: id(client),
                    nid: Nid::LOOPBACK,
                    number,
                },
                lowest,
                calls: calls
                    .map(|(call, reply)| (call.1, Reply::ok(reply.to_vec())))
                    .collect(),
            }
        };
        Restored {
            incarnation,
            sessions: self.last_session,
            clients: self.sessions.iter().map(client).collect(),
        }
    }
}

impl World {
    pub(super) fn request(&mut self, request: &RequestHeader) -> Result<(), String> {
        let call = (request.client.0[0], request.xid);
        let attempt = request.attempt;
        self.carry(|| Happening::Acknowledged { call, attempt });
        let address = Address {
            attempt,
            process: ProcessId::lustre(Nid::LOOPBACK),
            bringer: Nid::LOOPBACK,
            local: None,
            reply_bits: u64::from(attempt),
            bulk_bits: request.bulk_bits,
            deadline: match self.weather.defect {
                Some(Defect::KnowsNoDeadline) => self.now + DEADLINE,
                _ => self.clock.read(request.deadline, self.now),
            },
        };
        let admission = self.table.admit(request, address, self.now);
        self.durable.note(request, &admission);
        match admission {
            Admission::Execute => return self.execute(call, request, address),
            Admission::NewerAttempt => return self.newer_attempt(call),
            Admission::Replay(reply) => {
                self.seen.replays += 1;
                self.send(call, address, Outcome::Done, &reply);
            }
            Admission::Connected(session) | Admission::Opened(session, _) => {
                let told = ClockReading::new(self.clock.show(self.now), self.now);
                let client = &mut self.clients[usize::from(call.0)];
                client.session = (self.incarnation, session);
                client.told = Some(told);
            }
            Admission::Expired => {
                self.seen.expired += 1;
                self.send(call, address, Outcome::Busy, &Bytes::new());
            }
            Admission::Answer(outcome) => self.send(call, address, outcome, &Bytes::new()),
            Admission::Crowded
            | Admission::Full
            | Admission::Ignore(_)
            | Admission::Gone
            | Admission::Leaving => {}
        }
        Ok(())
    }

    pub(super) fn restart(&mut self) {
        let failed = |execution: &Execution| reply(execution.value, 0, true);
        let failed = self
            .running
            .iter()
            .map(|(&call, execution)| (call, failed(execution)));
        self.durable.calls.extend(failed);
        if !self.weather.durable {
            self.incarnation += 1;
        }
        self.table = Table::new(self.incarnation, limits());
        self.clock = ServerClock::begin(self.draw(u64::MAX));
        if self.weather.durable {
            let is_whole = self.weather.defect != Some(Defect::LosesCalls);
            let restored = self.durable.restored(self.incarnation, is_whole);
            let encode = |_, reply: Reply| Bytes::from(reply.body);
            self.table.restore(restored, self.now, encode);
        }
        self.running.clear();
        self.bound.clear();
    }

    fn execute(
        &mut self,
        call: Key,
        request: &RequestHeader,
        address: Address,
    ) -> Result<(), String> {
        let (incarnation, value) = (self.incarnation, self.draw(u64::MAX));
        let begun = self.executions.entry((incarnation, call)).or_default();
        begun.push(value);
        if begun.len() > 1 {
            return Err(format!("{call:?} begun twice in incarnation {incarnation}"));
        }
        if !self.clients[usize::from(call.0)].waits(call.1, self.now) {
            return Err(format!("{call:?} begun after its client gave it up"));
        }
        // The server may write fewer bytes than the client has room for.
        let length = match request.bulk {
            BulkKind::Write => self.draw(u64::from(request.bulk_len) + 1) as u32,
            BulkKind::Read | BulkKind::None => request.bulk_len,
        };
        let execution = Execution {
            value,
            has_failed: false,
            address,
            kind: request.bulk,
            length,
            transfer: None,
            arrived: BTreeMap::new(),
            read: Vec::new(),
            moved: 0,
            gives_up: self.now,
        };
        self.running.insert(call, execution);
        let waits = self.draw_ms(3000);
        self.at(waits, Happening::Begin { call, incarnation });
        Ok(())
    }

    /// Begins the call on a worker.
    pub(super) fn begin(&mut self, call: Key) -> Result<(), String> {
        let newest = self.table.newest(id(call.0), call.1);
        if let Some(execution) = self.running.get_mut(&call) {
            execution.address = newest.unwrap_or(execution.address);
            let window = Window::new(execution.length, PIECE, WIDTH);
            execution.transfer = Some(Transfer::new(execution.kind, window));
        }
        self.go_on(call)?;
        self.be_impatient(call);
        Ok(())
    }

    /// Moves bulk like the loops of `Call`, until the next step is to wait.
    fn go_on(&mut self, call: Key) -> Result<(), String> {
        let Some(mut execution) = self.running.remove(&call) else {
            return Ok(());
        };
        let mut is_finished = false;
        while let Some(transfer) = &mut execution.transfer {
            self.count += 1;
            let tag = self.count;
            match transfer.next(tag) {
                Next::Move(piece) => {
                    transfer.under_way(tag, piece, tag);
                    let message = self.message(&execution, tag, piece);
                    self.post_piece(call, message);
                }
                Next::Take(piece) => execution.take(piece),
                Next::Wait => break,
                Next::Finished => {
                    is_finished = true;
                    break;
                }
            }
        }
        execution.gives_up = (self.now + PATIENCE).min(execution.address.deadline);
        let is_right = execution.kind != BulkKind::Read
            || execution.read == pattern(sent_by(call), execution.read.len());
        self.running.insert(call, execution);
        if !is_right {
            return Err(format!("{call:?} read what was not sent"));
        }
        if is_finished {
            return self.end_transfer(call, false);
        }
        self.check_window(call, WIDTH)
    }

    fn message(&self, execution: &Execution, tag: u64, piece: crate::window::Piece) -> Piece {
        let operation = match execution.kind {
            BulkKind::Read => Operation::Get { len: piece.len },
            BulkKind::Write | BulkKind::None => {
                let data = pattern(execution.value, execution.length as usize);
                let from = piece.offset as usize;
                Operation::Put(Bytes::from(data).slice(from..from + piece.len as usize))
            }
        };
        Piece {
            tag,
            incarnation: self.incarnation,
            bits: execution.address.bulk_bits,
            offset: piece.offset,
            operation,
        }
    }

    pub(super) fn piece_event(
        &mut self,
        call: Key,
        tag: u64,
        heard: Heard,
        data: Bytes,
    ) -> Result<(), String> {
        let Some(execution) = self.running.get_mut(&call) else {
            return Ok(());
        };
        let Some(transfer) = &mut execution.transfer else {
            return Ok(());
        };
        if let Fate::Done(piece) = transfer.heard(tag, heard) {
            execution.arrived.insert(piece.index, data);
        }
        self.go_on(call)
    }

    fn newer_attempt(&mut self, call: Key) -> Result<(), String> {
        let newest = self.table.newest(id(call.0), call.1);
        let execution = self.running.get_mut(&call);
        let (Some(newest), Some(execution)) = (newest, execution) else {
            return Ok(());
        };
        let Some(transfer) = &mut execution.transfer else {
            return Ok(());
        };
        if newest.attempt > execution.address.attempt {
            execution.address = newest;
            let left: Vec<u64> = transfer.descriptors().collect();
            transfer.restart();
            self.cancel(&left);
            self.seen.transfers_restarted += 1;
        }
        self.go_on(call)
    }

    fn cancel(&mut self, descriptors: &[u64]) {
        if self.weather.defect == Some(Defect::LeavesDescriptors) {
            return;
        }
        for tag in descriptors {
            self.bound.remove(tag);
        }
    }

    fn be_impatient(&mut self, call: Key) {
        if let Some(execution) = self.running.get(&call) {
            let after = execution.gives_up.saturating_since(self.now);
            let incarnation = self.incarnation;
            self.at(after, Happening::Impatient { call, incarnation });
        }
    }

    pub(super) fn impatient(&mut self, call: Key) -> Result<(), String> {
        match self.running.get(&call) {
            Some(execution) if execution.transfer.is_none() => Ok(()),
            Some(execution) if execution.gives_up <= self.now => {
                self.seen.gave_up += 1;
                self.end_transfer(call, true)
            }
            Some(_) => {
                self.be_impatient(call);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends the transfer of a call, whether the bulk has moved or will not move.
    fn end_transfer(&mut self, call: Key, has_failed: bool) -> Result<(), String> {
        if let Some(execution) = self.running.get_mut(&call) {
            execution.has_failed = has_failed;
            let left = execution.transfer.take();
            let left: Vec<u64> = left.iter().flat_map(Transfer::descriptors).collect();
            self.cancel(&left);
        }
        let (incarnation, duration) = (self.incarnation, self.draw_ms(3000));
        self.at(duration, Happening::Executed { call, incarnation });
        self.check_window(call, 0)
    }

    fn check_window(&self, call: Key, most: usize) -> Result<(), String> {
        let bound = self.bound.values().filter(|bound| bound.call == call);
        match bound.count() {
            count if count > most => Err(format!("{call:?} has {count} pieces under way")),
            _ => Ok(()),
        }
    }

    pub(super) fn executed(&mut self, call: Key) {
        let Some(execution) = self.running.remove(&call) else {
            return;
        };
        let reply = reply(execution.value, execution.moved, execution.has_failed);
        self.durable.calls.insert(call, reply.clone());
        let (id, now) = (id(call.0), self.now);
        if let Some(address) = self.table.complete(id, call.1, reply.clone(), now) {
            self.send(call, address, Outcome::Done, &reply);
        }
        if self.weather.defect == Some(Defect::Forgets) {
            self.table.forget_call(id, call.1);
        }
    }

    fn send(&mut self, call: Key, address: Address, outcome: Outcome, value: &Bytes) {
        let (attempt, incarnation) = (address.attempt, self.incarnation);
        let clock = self.clock.show(self.now);
        self.carry(|| Happening::Reply {
            call,
            attempt,
            outcome,
            incarnation,
            clock,
            value: value.clone(),
        });
    }
}

impl Execution {
    /// Hands over the bytes of a piece that is done.
    fn take(&mut self, piece: crate::window::Piece) {
        self.moved += piece.len;
        let data = self.arrived.remove(&piece.index);
        if self.kind == BulkKind::Read {
            self.read.extend(data.unwrap_or_default());
        }
    }
}

const _: () = assert!(PATIENCE.as_secs() < DEADLINE.as_secs());
