//! The simulated clients: the real state machine drives the calls and records their memory.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lnet_types::Time;

use super::{
    AT_ONCE, BULK_MAX, BulkKind, CALLS, ClientId, DEADLINE, Happening, Key, World, id, pattern,
    sent_by, server,
};
use crate::buffers::Buffers;
use crate::client::Bulk;
use crate::deadline::ClockReading;
use crate::memory::CallMemory;
use crate::proto::{OPCODE_CONNECT, Outcome, RequestHeader};
use crate::retry::{CallState, End, Idempotence, Schedule, Step};

pub(super) struct Client {
    number: u8,
    pub(super) calls: BTreeMap<u64, Call>,
    next: u64,
    /// Incarnation and number of the session.
    pub(super) session: (u64, u64),
    /// The server's clock, as the last reply reported it.
    pub(super) told: Option<ClockReading>,
    /// When the client next looks after its calls.
    wakes: Option<Time>,
}

pub(super) struct Call {
    state: CallState,
    idempotence: Idempotence,
    bulk: (BulkKind, u32),
    pub(super) memory: CallMemory,
    /// The bytes that were in the memory when the node gave it back.
    pub(super) given_back: Option<Vec<u8>>,
    answer: Option<Bytes>,
    ends_by: Time,
    /// The session that the attempts of the call name: the session of the call's start, until the call
    /// reconnects.
    session: (u64, u64),
}

/// The shortest time for which a held request is held.
const HELD: Duration = Duration::from_secs(20);

impl Client {
    pub(super) fn new(number: u8) -> Self {
        Self {
            number,
            calls: BTreeMap::new(),
            next: 1,
            session: (0, 0),
            told: None,
            wakes: None,
        }
    }

    /// Reports whether the client waits for a call.
    pub(super) fn waits(&self, xid: u64, now: Time) -> bool {
        let call = self.calls.get(&xid);
        call.is_some_and(|call| now < call.ends_by)
    }

    fn begin_call(&mut self, bulk: Bulk, idempotence: Idempotence, schedule: Schedule, now: Time) {
        let ends_by = now + DEADLINE;
        let call = Call {
            state: CallState::new(schedule, idempotence, now, ends_by),
            idempotence,
            bulk: match &bulk {
                Bulk::None => (BulkKind::None, 0),
                Bulk::Send(data) => (BulkKind::Read, data.len() as u32),
                Bulk::Receive(length) => (BulkKind::Write, *length),
            },
            memory: CallMemory::new(&bulk, &Buffers::new(0)),
            given_back: None,
            answer: None,
            ends_by,
            session: (0, 0),
        };
        self.calls.insert(self.next, call);
        self.next += 1;
    }
}

impl Call {
    fn request(
        &self,
        client: ClientId,
        xid: u64,
        lowest: u64,
        attempt: u32,
        told: Option<ClockReading>,
    ) -> RequestHeader {
        RequestHeader {
            client,
            xid,
            lowest,
            incarnation: self.session.0,
            session: self.session.1,
            reply_bits: 0,
            bulk_bits: 0,
            bulk_len: self.bulk.1,
            bulk: self.bulk.0,
            attempt,
            opcode: 1,
            deadline: told.map_or(0, |told| told.at(self.ends_by)),
        }
    }

    /// Reports whether the memory is unchanged since the node gave it back.
    fn is_untouched(&self) -> bool {
        match (&self.memory, &self.given_back) {
            (CallMemory::Here(room), Some(given_back)) => room == given_back,
            _ => true,
        }
    }
}

impl World {
    /// Makes a client look after its calls in `after`, unless the client is to do so earlier anyway.
    pub(super) fn wake(&mut self, number: u8, after: Duration) {
        let time = self.now + after;
        let client = &mut self.clients[usize::from(number)];
        if client.wakes.is_none_or(|wakes| time < wakes) {
            client.wakes = Some(time);
            self.at(after, Happening::Look { client: number });
        }
    }

    /// Tells a client that the server did something for an attempt.
    pub(super) fn sign_of_life(&mut self, call: Key, attempt: u32) {
        let now = self.now;
        if let Some(call) = self.call(call) {
            call.state.alive(attempt, now);
        }
    }

    pub(super) fn reply(
        &mut self,
        key: Key,
        attempt: u32,
        outcome: Outcome,
        (incarnation, clock, value): (u64, u64, Bytes),
    ) {
        let now = self.now;
        let told = &mut self.clients[usize::from(key.0)].told;
        let newer = ClockReading::new(clock, now);
        *told = Some(told.map_or(newer, |told| told.or_newer(newer)));
        if let Some(call) = self.call(key)
            && call.state.replied(attempt, outcome, now)
        {
            call.answer = Some(value);
        }
        // The ACK of the reply; the network may lose it too.
        if outcome == Outcome::Done && incarnation == self.incarnation {
            self.carry(|| Happening::Delivered { call: key });
        }
        self.wake(key.0, Duration::ZERO);
    }

    /// Makes a client look after its calls: begins new calls, sends due attempts, ends calls that are over.
    pub(super) fn look(&mut self, number: u8) -> Result<(), String> {
        let client = &mut self.clients[usize::from(number)];
        let now = self.now;
        if client.wakes.take_if(|wakes| *wakes == now).is_none() {
            return Ok(());
        }
        self.begin_calls(number);
        let client = &self.clients[usize::from(number)];
        let xids: Vec<u64> = client.calls.keys().copied().collect();
        for xid in xids {
            self.drive((number, xid))?;
        }
        Ok(())
    }

    fn call(&mut self, (client, xid): Key) -> Option<&mut Call> {
        self.clients[usize::from(client)].calls.get_mut(&xid)
    }

    fn begin_calls(&mut self, number: u8) {
        loop {
            let client = &self.clients[usize::from(number)];
            if client.calls.len() >= AT_ONCE || client.next > CALLS {
                return;
            }
            let key = (number, client.next);
            let length = 1 + self.draw(u64::from(BULK_MAX)) as u32;
            let bulk = match self.draw(4) {
                0 => Bulk::None,
                1 => Bulk::Send(pattern(sent_by(key), length as usize).into()),
                _ => Bulk::Receive(length),
            };
            let idempotence = match self.draw(3) {
                0 => Idempotence::Once,
                _ => Idempotence::Idempotent,
            };
            let schedule = Schedule {
                attempt: Duration::from_secs(2),
                backoff: Duration::from_millis(50),
                backoff_max: Duration::from_secs(2),
                seed: self.draw(u64::MAX),
            };
            let now = self.now;
            let client = &mut self.clients[usize::from(number)];
            client.begin_call(bulk, idempotence, schedule, now);
        }
    }

    /// Drives a call like the loop of `Exchange`, until the next step is to wait.
    fn drive(&mut self, key: Key) -> Result<(), String> {
        let now = self.now;
        let client = &mut self.clients[usize::from(key.0)];
        let current = client.session;
        let Some(call) = client.calls.get_mut(&key.1) else {
            return Ok(());
        };
        if call.session.0 == 0 {
            call.session = current;
        }
        if call.session.0 == 0 && now < call.ends_by {
            self.connect(key);
            return Ok(());
        }
        match call.state.next(now, call.memory.is_here()) {
            Step::Send(attempt) => self.send_request(key, attempt)?,
            Step::Reclaim => {
                self.seen.reclaims += 1;
                self.cancel_bulk(key);
                self.wake(key.0, Duration::ZERO);
            }
            Step::Connect if current != call.session => {
                call.session = current;
                call.state.reconnected(now);
                self.wake(key.0, Duration::ZERO);
            }
            Step::Connect => {
                self.unlink_bulk(key);
                self.connect(key);
            }
            Step::Wait(until) => self.wake(key.0, until - now),
            Step::End(end) => self.end(key, end)?,
        }
        Ok(())
    }

    fn send_request(&mut self, key: Key, attempt: u32) -> Result<(), String> {
        let now = self.now;
        let client = &mut self.clients[usize::from(key.0)];
        let (id, told) = (id(client.number), client.told);
        let lowest = client.calls.keys().next().copied().unwrap_or(key.1);
        let Some(call) = client.calls.get_mut(&key.1) else {
            return Ok(());
        };
        if !call.is_untouched() {
            return Err(format!("{key:?} got memory back that was written to"));
        }
        let request = call.request(id, key.1, lowest, attempt, told);
        let lent = call.memory.lend();
        let bulk_bits = match lent {
            Some(memory) => self.lend(key, attempt, memory),
            None => 0,
        };
        let fails = self.draw(1000) < self.weather.loss;
        if fails {
            if let Some(call) = self.call(key) {
                call.state.lost(attempt, now);
            }
        } else {
            let request = RequestHeader {
                bulk_bits,
                ..request
            };
            if self.draw(100) < self.weather.held {
                let long = HELD + self.draw_ms(40_000);
                self.at(long, Happening::Request(Box::new(request)));
            } else {
                self.carry(|| Happening::Request(Box::new(request)));
            }
        }
        self.wake(key.0, Duration::ZERO);
        Ok(())
    }

    /// Asks for a session, and looks after the calls later.
    fn connect(&mut self, key: Key) {
        let now = self.now;
        let Some(call) = self.call(key) else { return };
        let left = call.ends_by.saturating_since(now);
        let request = call.request(id(key.0), key.1, key.1, 1, None);
        self.carry(|| {
            Happening::Request(Box::new(RequestHeader {
                opcode: OPCODE_CONNECT,
                ..request
            }))
        });
        self.wake(key.0, left.min(Duration::from_millis(500)));
    }

    fn end(&mut self, key: Key, end: End) -> Result<(), String> {
        let client = &mut self.clients[usize::from(key.0)];
        let call = client.calls.remove(&key.1).ok_or("ended twice")?;
        self.ended += 1;
        if self.now > call.ends_by {
            return Err(format!("{key:?} ended after its deadline"));
        }
        let of_call = self.executions.iter().filter(|((_, of), _)| *of == key);
        let values: Vec<u64> = of_call.flat_map(|(_, values)| values.clone()).collect();
        if call.idempotence == Idempotence::Once && values.len() > 1 {
            let times = values.len();
            return Err(format!("{key:?} may run once and ran {times} times"));
        }
        if end == End::Replied {
            self.returned(key, call, &values)?;
        }
        self.unlink_bulk(key);
        self.wake(key.0, Duration::ZERO);
        Ok(())
    }

    /// Checks that a call that the server answered returns the value and the bytes of one execution, or its
    /// failure.
    fn returned(&mut self, key: Key, mut call: Call, values: &[u64]) -> Result<(), String> {
        let is_untouched = call.is_untouched();
        let answer = call.answer.ok_or("ended without its answer")?;
        let (value, moved, has_failed) = server::decode(&answer);
        if !values.contains(&value) {
            return Err(format!("{key:?} returned a value that no execution gave"));
        }
        if !is_untouched {
            return Err(format!("{key:?} got memory back that was written to"));
        }
        let bytes = call.memory.received(moved as usize);
        let bytes = bytes.ok_or_else(|| format!("{key:?} ended without its memory"))?;
        if has_failed {
            return Ok(());
        }
        if bytes != pattern(value, bytes.len()) {
            return Err(format!("{key:?} returned bytes of more than one execution"));
        }
        self.seen.returned_bulk += u32::from(!bytes.is_empty());
        self.returned.push((key, value, bytes));
        Ok(())
    }
}
