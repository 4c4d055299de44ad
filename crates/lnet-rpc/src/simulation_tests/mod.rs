//! Clients and a server over a network that loses, repeats, delays and reorders, in virtual time.
//!
//! The real state machines of both sides ([`CallState`], [`Table`]) run against each other; the network,
//! the durations and the restarts come from a seed. Checked in every run:
//!
//! * within one incarnation, no transaction of a client is executed twice;
//! * every call ends by its deadline;
//! * a call that returns a value was executed, and returns the value of its execution;
//! * a call that may not be repeated was executed at most once over all incarnations.
//!
//! The last test breaks the table on purpose and sees the checks fail.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use lnet_types::{Nid, ProcessId, Time};
use proptest::prelude::*;

use crate::proto::{BulkKind, ClientId, OPCODE_CONNECT, Outcome, RequestHeader};
use crate::retry::{CallState, End, Idempotence, Schedule, Step};
use crate::table::{Address, Admission, Limits, Table};

const CLIENTS: u8 = 2;
const CALLS: u64 = 12;
const AT_ONCE: usize = 3;
const DEADLINE: Duration = Duration::from_secs(40);

/// How hostile a run is, in percent.
#[derive(Clone, Copy, Debug)]
struct Weather {
    loss: u64,
    repeats: u64,
    restarts: u64,
    /// Deliberately broken: the table forgets a call as soon as it is executed.
    forgets: bool,
}

#[derive(Debug)]
enum Happening {
    Request(RequestHeader),
    Reply {
        client: u8,
        xid: u64,
        attempt: u32,
        outcome: Outcome,
        incarnation: u64,
        value: u64,
    },
    Executed {
        incarnation: u64,
        client: ClientId,
        xid: u64,
        value: u64,
    },
    Delivered {
        client: ClientId,
        xid: u64,
    },
    Look {
        client: u8,
    },
    Restart,
}

struct Call {
    state: CallState,
    idempotence: Idempotence,
    value: Option<u64>,
    ends_by: Time,
    /// The session that its attempts name: the one it began in, until it reconnects.
    session: (u64, u64),
}

struct Client {
    id: ClientId,
    calls: BTreeMap<u64, Call>,
    next: u64,
    session: (u64, u64),
    /// When it looks after its calls next.
    wakes: Option<Time>,
}

struct World {
    weather: Weather,
    random: u64,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    count: u64,
    incarnation: u64,
    table: Table,
    clients: Vec<Client>,
    /// Executions by (incarnation, client, xid): the values they gave.
    executions: BTreeMap<(u64, ClientId, u64), Vec<u64>>,
    ended: usize,
}

fn limits() -> Limits {
    Limits {
        clients: 8,
        clients_per_nid: 8,
        calls_per_client: 8,
        calls: 16,
        running: 4,
        kept_bytes: 1000,
        bulk_len: 0,
        // Longer than a call with its latest copies. These clients do not renew their sessions, as
        // the real one does, so one that is unheard for longer is forgotten with what it had executed.
        idle: Duration::from_secs(60),
    }
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let clients = (0..CLIENTS).map(|number| Client {
            id: ClientId([number; 16]),
            calls: BTreeMap::new(),
            next: 1,
            session: (0, 0),
            wakes: None,
        });
        Self {
            weather,
            random: seed | 1,
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            count: 0,
            incarnation: 1,
            table: Table::new(1, limits()),
            clients: clients.collect(),
            executions: BTreeMap::new(),
            ended: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn at(&mut self, after: Duration, happening: Happening) {
        self.count += 1;
        self.queue.push(Reverse((self.now + after, self.count)));
        self.happenings.insert(self.count, happening);
    }

    /// A client looks after its calls then, unless it does so earlier anyway.
    fn wake(&mut self, number: u8, after: Duration) {
        let time = self.now + after;
        let client = &mut self.clients[usize::from(number)];
        if client.wakes.is_none_or(|wakes| time < wakes) {
            client.wakes = Some(time);
            self.at(after, Happening::Look { client: number });
        }
    }

    /// The network: mostly quick, sometimes very late, sometimes twice, sometimes never.
    fn carry(&mut self, make: impl Fn() -> Happening) {
        let copies = 1 + u64::from(self.draw(100) < self.weather.repeats);
        for _ in 0..copies {
            let lost = self.draw(100) < self.weather.loss;
            let late = if self.draw(10) == 0 { 20_000 } else { 200 };
            let delay = Duration::from_millis(1 + self.draw(late));
            if !lost {
                self.at(delay, make());
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for client in 0..CLIENTS {
            self.wake(client, Duration::ZERO);
        }
        for _ in 0..self.weather.restarts {
            let when = Duration::from_millis(self.draw(60_000));
            self.at(when, Happening::Restart);
        }
        while let Some(Reverse((time, number))) = self.queue.pop() {
            self.now = time;
            let happening = self
                .happenings
                .remove(&number)
                .ok_or("queue and list disagree")?;
            self.table.expire(self.now);
            self.handle(happening)?;
        }
        let expected = usize::from(CLIENTS) * CALLS as usize;
        if self.ended == expected {
            Ok(())
        } else {
            Err(format!("{} calls ended", self.ended))
        }
    }

    fn handle(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Request(request) => self.request(&request),
            Happening::Reply {
                client,
                xid,
                attempt,
                outcome,
                incarnation,
                value,
            } => {
                self.reply(client, xid, attempt, outcome, (incarnation, value));
            }
            Happening::Executed {
                incarnation,
                client,
                xid,
                value,
            } => {
                return self.executed(incarnation, client, xid, value);
            }
            Happening::Delivered { client, xid } => self.table.delivered(client, xid),
            Happening::Look { client } => return self.look(client),
            Happening::Restart => {
                self.incarnation += 1;
                self.table = Table::new(self.incarnation, limits());
            }
        }
        Ok(())
    }

    fn request(&mut self, request: &RequestHeader) {
        let address = Address {
            attempt: request.attempt,
            process: ProcessId::lustre(Nid::LOOPBACK),
            local: None,
            reply_bits: u64::from(request.attempt),
            bulk_bits: 0,
            deadline: self.now + DEADLINE,
        };
        match self.table.admit(request, address, self.now) {
            Admission::Execute => {
                let (incarnation, client, xid) = (self.incarnation, request.client, request.xid);
                let value = self.draw(u64::MAX);
                let done = Happening::Executed {
                    incarnation,
                    client,
                    xid,
                    value,
                };
                let duration = Duration::from_millis(self.draw(8000));
                self.at(duration, done);
            }
            Admission::Replay(reply) => self.send(request.client, request.xid, address, &reply),
            Admission::Connected(session) => {
                self.clients[usize::from(request.client.0[0])].session =
                    (self.incarnation, session);
            }
            Admission::Answer(outcome) => self.answer(request, outcome),
            Admission::NewerAttempt
            | Admission::Crowded
            | Admission::Ignore(_)
            | Admission::Gone
            | Admission::Leaving => {}
        }
    }

    fn answer(&mut self, request: &RequestHeader, outcome: Outcome) {
        let (client, xid, attempt) = (request.client.0[0], request.xid, request.attempt);
        let incarnation = self.incarnation;
        self.carry(|| Happening::Reply {
            client,
            xid,
            attempt,
            outcome,
            incarnation,
            value: 0,
        });
    }

    fn send(&mut self, id: ClientId, xid: u64, address: Address, reply: &Bytes) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(reply);
        let (client, attempt, value) = (id.0[0], address.attempt, u64::from_le_bytes(bytes));
        let (outcome, incarnation) = (Outcome::Done, self.incarnation);
        self.carry(|| Happening::Reply {
            client,
            xid,
            attempt,
            outcome,
            incarnation,
            value,
        });
    }

    fn executed(
        &mut self,
        incarnation: u64,
        id: ClientId,
        xid: u64,
        value: u64,
    ) -> Result<(), String> {
        if incarnation != self.incarnation {
            return Ok(());
        }
        let values = self.executions.entry((incarnation, id, xid)).or_default();
        values.push(value);
        if values.len() > 1 {
            return Err(format!(
                "{id} {xid} executed twice in incarnation {incarnation}"
            ));
        }
        let reply = Bytes::copy_from_slice(&value.to_le_bytes());
        if let Some(address) = self.table.complete(id, xid, reply.clone(), self.now) {
            self.send(id, xid, address, &reply);
        }
        if self.weather.forgets {
            self.table.forget_call(id, xid);
        }
        Ok(())
    }

    fn reply(&mut self, number: u8, xid: u64, attempt: u32, outcome: Outcome, of: (u64, u64)) {
        let (incarnation, value) = of;
        let now = self.now;
        let client = &mut self.clients[usize::from(number)];
        let id = client.id;
        if let Some(call) = client.calls.get_mut(&xid)
            && call.state.replied(attempt, outcome, now)
        {
            call.value = Some(value);
        }
        // The reply's ACK, which the network may lose too.
        if outcome == Outcome::Done && incarnation == self.incarnation {
            self.carry(|| Happening::Delivered { client: id, xid });
        }
        self.wake(number, Duration::ZERO);
    }

    /// A client looks after its calls: begins new ones, sends what is due, ends what is over.
    fn look(&mut self, number: u8) -> Result<(), String> {
        if self.clients[usize::from(number)]
            .wakes
            .take_if(|wakes| *wakes == self.now)
            .is_none()
        {
            return Ok(());
        }
        self.begin_calls(number);
        let xids: Vec<u64> = self.clients[usize::from(number)]
            .calls
            .keys()
            .copied()
            .collect();
        for xid in xids {
            self.drive(number, xid)?;
        }
        Ok(())
    }

    fn begin_calls(&mut self, number: u8) {
        let now = self.now;
        let once = self.draw(2) == 0;
        let seed = self.draw(u64::MAX);
        let client = &mut self.clients[usize::from(number)];
        while client.calls.len() < AT_ONCE && client.next <= CALLS {
            let schedule = Schedule {
                attempt: Duration::from_secs(2),
                backoff: Duration::from_millis(50),
                backoff_max: Duration::from_secs(2),
                seed,
            };
            let idempotence = if once {
                Idempotence::Once
            } else {
                Idempotence::Idempotent
            };
            let ends_by = now + DEADLINE;
            let state = CallState::new(schedule, idempotence, now, ends_by);
            client.calls.insert(
                client.next,
                Call {
                    state,
                    idempotence,
                    value: None,
                    ends_by,
                    session: (0, 0),
                },
            );
            client.next += 1;
        }
    }

    fn drive(&mut self, number: u8, xid: u64) -> Result<(), String> {
        let now = self.now;
        let client = &mut self.clients[usize::from(number)];
        let (current, id) = (client.session, client.id);
        let lowest = client.calls.keys().next().copied().unwrap_or(xid);
        let Some(call) = client.calls.get_mut(&xid) else {
            return Ok(());
        };
        if call.session.0 == 0 {
            call.session = current;
        }
        if call.session.0 == 0 && now < call.ends_by {
            let left = call.ends_by - now;
            self.connect(number, request(id, xid, lowest, 1, current), left);
            return Ok(());
        }
        let session = call.session;
        match call.state.next(now, true) {
            Step::Send(attempt) => {
                let request = request(id, xid, lowest, attempt, session);
                self.carry(|| Happening::Request(request));
                self.wake(number, Duration::ZERO);
            }
            Step::Connect if current != session => {
                call.session = current;
                call.state.reconnected(now);
                self.wake(number, Duration::ZERO);
            }
            Step::Connect => {
                let left = call.ends_by - now;
                self.connect(number, request(id, xid, lowest, 1, session), left);
            }
            Step::Wait(until) => self.wake(number, until - now),
            Step::Reclaim => return Err("there is no memory to reclaim".into()),
            Step::End(end) => self.end(number, xid, end)?,
        }
        Ok(())
    }

    /// Asks for a session and looks again later.
    fn connect(&mut self, number: u8, request: RequestHeader, left: Duration) {
        let connect = RequestHeader {
            opcode: OPCODE_CONNECT,
            ..request
        };
        self.carry(|| Happening::Request(connect));
        self.wake(number, left.min(Duration::from_millis(500)));
    }

    fn end(&mut self, number: u8, xid: u64, end: End) -> Result<(), String> {
        let client = &mut self.clients[usize::from(number)];
        let id = client.id;
        let call = client.calls.remove(&xid).ok_or("ended twice")?;
        self.ended += 1;
        if self.now > call.ends_by {
            return Err(format!("{id} {xid} ended after its deadline"));
        }
        let of_call = self
            .executions
            .iter()
            .filter(|((_, who, what), _)| (*who, *what) == (id, xid));
        let values: Vec<u64> = of_call
            .flat_map(|(_, values)| values.iter().copied())
            .collect();
        if call.idempotence == Idempotence::Once && values.len() > 1 {
            return Err(format!(
                "{id} {xid} may run once and ran {} times",
                values.len()
            ));
        }
        if end == End::Replied && !call.value.is_some_and(|value| values.contains(&value)) {
            return Err(format!(
                "{id} {xid} returned a value that no execution gave"
            ));
        }
        self.wake(number, Duration::ZERO);
        Ok(())
    }
}

fn request(
    client: ClientId,
    xid: u64,
    lowest: u64,
    attempt: u32,
    session: (u64, u64),
) -> RequestHeader {
    RequestHeader {
        client,
        xid,
        lowest,
        incarnation: session.0,
        session: session.1,
        reply_bits: 0,
        bulk_bits: 0,
        bulk_len: 0,
        bulk: BulkKind::None,
        attempt,
        opcode: 1,
        deadline_ms: 0,
    }
}

const STORM: Weather = Weather {
    loss: 25,
    repeats: 30,
    restarts: 0,
    forgets: false,
};

proptest! {
    #[test]
    fn a_request_runs_once_whatever_the_network_does(
        seed in any::<u64>(),
        loss in 0..60_u64,
        repeats in 0..60_u64,
    ) {
        let mut world = World::new(seed, Weather { loss, repeats, ..STORM });
        prop_assert_eq!(world.run(), Ok(()));
    }

    #[test]
    fn restarts_break_no_promise(seed in any::<u64>(), restarts in 1..6_u64) {
        let mut world = World::new(seed, Weather { restarts, ..STORM });
        prop_assert_eq!(world.run(), Ok(()));
    }
}

#[test]
fn on_a_good_day_every_call_returns_its_value() {
    let mut world = World::new(
        1,
        Weather {
            loss: 0,
            repeats: 0,
            restarts: 0,
            forgets: false,
        },
    );
    assert_eq!(world.run(), Ok(()));
    let executed: usize = world.executions.values().map(Vec::len).sum();
    assert_eq!(executed, usize::from(CLIENTS) * CALLS as usize);
}

#[test]
fn a_table_that_forgets_too_early_is_caught() {
    let broken = Weather {
        forgets: true,
        ..STORM
    };
    let caught = (1..50)
        .filter(|&seed| World::new(seed, broken).run().is_err())
        .count();
    assert!(caught > 25, "caught in {caught} of 49 runs only");
}
