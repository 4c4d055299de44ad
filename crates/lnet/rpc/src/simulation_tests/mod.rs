//! A simulation in virtual time: clients and a server over a network that loses, repeats, delays and reorders.
//!
//! ```text
//!   client.rs: CallState, CallMemory       server.rs: Table, Transfer, Window
//!         │ lend, cancel, unlink                    │ bind, cancel
//!   near.rs: match entries, landings ═══════════ far.rs: descriptors of pieces, answers
//!                            the network: World::carry
//! ```
//!
//! The real state machines of both sides run against each other. The network's behaviour, the durations, the
//! lengths and the restarts come from a seed. Each run checks the following:
//!
//! * Within one incarnation, no transaction of a client is begun twice. A transaction that may not be repeated
//!   is begun at most once over all incarnations.
//! * No transaction is begun after its client stopped waiting.
//! * Every call ends by its deadline, even if its memory does not come back.
//! * A call that returns a value was executed, and returns the value and the bytes of one execution. An
//!   execution that ended well read the bytes that its client sent.
//! * Memory that was given back is not written afterwards.
//! * The pieces under way are never more than the width of the window, and none is under way when its call has
//!   ended. At the end of a run no node holds memory or a descriptor.
//!
//! Each check has been seen to fail: in a test of this module that plants a defect, or by a line of the crate's
//! `mutations.txt`.

mod client;
mod far;
mod near;
mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lnet_types::Time;
use proptest::prelude::*;

use self::client::Client;
use self::far::Bound;
use self::near::Loan;
use self::server::{Durable, Execution};
use crate::deadline::ServerClock;
use crate::proto::{BulkKind, ClientId, Outcome, RequestHeader};
use crate::table::Table;

const CLIENTS: u8 = 2;
const CALLS: u64 = 6;
const AT_ONCE: usize = 3;
const DEADLINE: Duration = Duration::from_secs(40);
/// The length of a piece in bytes, and the limit of pieces in flight.
const PIECE: u32 = 8;
const WIDTH: usize = 3;
/// The limit of bulk of a call, in bytes: six pieces, the last one short.
const BULK_MAX: u32 = 45;

/// The name of a call: the number of the client and the transaction id.
type Key = (u8, u64);

/// How hostile the network is in a run, in percent, and which defect is planted.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: u64,
    repeats: u64,
    restarts: u64,
    /// Requests that are held for long, as by a router or a server that stands still.
    held: u64,
    /// Reclaimed memory that the node does not give back before the call's deadline.
    stuck: u64,
    /// True if the server restores what it knew before a restart.
    durable: bool,
    defect: Option<Defect>,
}

/// A defect that is planted on purpose, outside of the state machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// The table forgets a call as soon as it is executed.
    Forgets,
    /// A node writes late data into memory that it has given back.
    WritesLate,
    /// A node acknowledges a piece that a reclaim cut off.
    AcknowledgesCut,
    /// A server drops a transfer without cancelling its descriptors.
    LeavesDescriptors,
    /// A server restores its sessions but not the calls that it executed.
    LosesCalls,
    /// A server executes requests whatever their deadline.
    KnowsNoDeadline,
}

/// How often a run met each situation. The counts show that the checks had something to check.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reclaims: u32,
    cut: u32,
    late: u32,
    replays: u32,
    transfers_restarted: u32,
    gave_up: u32,
    overdue: u32,
    expired: u32,
    returned_bulk: u32,
}

#[derive(Debug)]
enum Happening {
    Request(Box<RequestHeader>),
    /// The ACK of a request.
    Acknowledged {
        call: Key,
        attempt: u32,
    },
    Reply {
        call: Key,
        attempt: u32,
        outcome: Outcome,
        incarnation: u64,
        clock: u64,
        value: Bytes,
    },
    /// The ACK of a reply.
    Delivered {
        call: Key,
    },
    /// A PUT or GET of a piece, at the client.
    Piece(Piece),
    /// The ACK or REPLY of a piece, at the server.
    Answer {
        tag: u64,
        incarnation: u64,
        data: Bytes,
    },
    /// The whole payload of a PUT has arrived.
    Landed(Piece),
    /// The client's node gives memory back.
    LetGo {
        bits: u64,
    },
    /// The server's node has sent the message of a piece, or has failed to send it.
    Sent {
        tag: u64,
        is_ok: bool,
    },
    /// No answer to a piece came in time.
    Overdue {
        tag: u64,
    },
    /// A worker takes a call.
    Begin {
        call: Key,
        incarnation: u64,
    },
    /// A handler may have waited too long for its client.
    Impatient {
        call: Key,
        incarnation: u64,
    },
    Executed {
        call: Key,
        incarnation: u64,
    },
    /// A client looks after its calls.
    Look {
        client: u8,
    },
    Restart,
}

/// A message of a transfer on its way to the client.
#[derive(Clone, Debug)]
struct Piece {
    tag: u64,
    incarnation: u64,
    bits: u64,
    offset: u32,
    operation: Operation,
}

#[derive(Clone, Debug)]
enum Operation {
    Put(Bytes),
    Get { len: u32 },
}

struct World {
    weather: Weather,
    random: u64,
    now: Time,
    /// The planned happenings, by time and then in the order in which they were planned.
    happenings: BTreeMap<(Time, u64), Happening>,
    count: u64,
    incarnation: u64,
    clock: ServerClock,
    table: Table,
    durable: Durable,
    running: BTreeMap<Key, Execution>,
    /// The server's descriptors of pieces, by tag.
    bound: BTreeMap<u64, Bound>,
    clients: Vec<Client>,
    /// The clients' match entries for bulk, by match bits.
    loans: BTreeMap<u64, Loan>,
    /// The call that memory was ever lent for, by match bits.
    lent: BTreeMap<u64, Key>,
    /// Executions that were begun, by incarnation and call: the values that they return.
    executions: BTreeMap<(u64, Key), Vec<u64>>,
    /// Bulk that calls returned, with the values of the calls.
    returned: Vec<(Key, u64, Vec<u8>)>,
    ended: usize,
    seen: Seen,
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        Self {
            weather,
            random: seed | 1,
            now: Time::ZERO,
            happenings: BTreeMap::new(),
            count: 0,
            incarnation: 1,
            clock: ServerClock::begin(seed),
            table: Table::new(1, server::limits()),
            durable: Durable::default(),
            running: BTreeMap::new(),
            bound: BTreeMap::new(),
            clients: (0..CLIENTS).map(Client::new).collect(),
            loans: BTreeMap::new(),
            lent: BTreeMap::new(),
            executions: BTreeMap::new(),
            returned: Vec::new(),
            ended: 0,
            seen: Seen::default(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn draw_ms(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.draw(below))
    }

    fn at(&mut self, after: Duration, happening: Happening) {
        self.count += 1;
        self.happenings
            .insert((self.now + after, self.count), happening);
    }

    /// Carries a message: mostly quickly, sometimes very late, sometimes twice, sometimes never.
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
            let when = self.draw_ms(60_000);
            self.at(when, Happening::Restart);
        }
        while let Some(((time, _), happening)) = self.happenings.pop_first() {
            self.now = time;
            let gone = self.table.expire(self.now);
            self.durable.forget(&gone);
            self.handle(happening)?;
        }
        self.check_the_end()
    }

    fn handle(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Request(request) => self.request(&request)?,
            Happening::Acknowledged { call, attempt } => self.sign_of_life(call, attempt),
            Happening::Reply {
                call,
                attempt,
                outcome,
                incarnation,
                clock,
                value,
            } => self.reply(call, attempt, outcome, (incarnation, clock, value)),
            Happening::Delivered { call } => self.table.delivered(id(call.0), call.1),
            Happening::Piece(piece) => self.piece(piece),
            Happening::Answer {
                tag,
                incarnation,
                data,
            } => return self.answered(tag, incarnation, data),
            Happening::Landed(piece) => self.landed(&piece),
            Happening::LetGo { bits } => self.let_go(bits),
            Happening::Sent { tag, is_ok } => return self.sent(tag, is_ok),
            Happening::Overdue { tag } => return self.overdue(tag),
            Happening::Begin { call, incarnation } if incarnation == self.incarnation => {
                return self.begin(call);
            }
            Happening::Impatient { call, incarnation } if incarnation == self.incarnation => {
                return self.impatient(call);
            }
            Happening::Executed { call, incarnation } if incarnation == self.incarnation => {
                self.executed(call);
            }
            Happening::Begin { .. } | Happening::Impatient { .. } | Happening::Executed { .. } => {}
            Happening::Look { client } => return self.look(client),
            Happening::Restart => self.restart(),
        }
        Ok(())
    }

    fn check_the_end(&self) -> Result<(), String> {
        let expected = usize::from(CLIENTS) * CALLS as usize;
        if self.ended != expected {
            return Err(format!("{} calls ended", self.ended));
        }
        if let Some((bits, loan)) = self.loans.first_key_value() {
            return Err(format!("{bits} of {:?} is left to a client", loan.call));
        }
        if let Some((tag, bound)) = self.bound.first_key_value() {
            return Err(format!("{tag} of {:?} is left to the server", bound.call));
        }
        for (call, value, bytes) in &self.returned {
            if *bytes != pattern(*value, bytes.len()) {
                return Err(format!("{call:?} returned, and was written to"));
            }
        }
        Ok(())
    }
}

fn id(client: u8) -> ClientId {
    ClientId([client; 16])
}

/// Returns the bytes that an execution writes, or that a client sends.
fn pattern(value: u64, length: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let mixed = (value ^ at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 56) as u8
    };
    (0..length).map(byte).collect()
}

/// Returns the seed of the bytes that a client sends with a call.
fn sent_by(call: Key) -> u64 {
    u64::from(call.0) << 32 | call.1
}

const STORM: Weather = Weather {
    loss: 25,
    repeats: 30,
    restarts: 0,
    held: 30,
    stuck: 2,
    durable: false,
    defect: None,
};

/// Returns the number of seeds; `FINERAIL_LONG=1` runs 50 times as many.
fn seeds() -> ProptestConfig {
    let long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    ProptestConfig::with_cases(if long { 500_000 } else { 10_000 })
}

proptest! {
    #![proptest_config(seeds())]

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

    #[test]
    fn restarts_of_a_server_that_restores_what_it_knew_run_nothing_twice(
        seed in any::<u64>(),
        restarts in 1..6_u64,
    ) {
        let durable = true;
        let mut world = World::new(seed, Weather { restarts, durable, ..STORM });
        prop_assert_eq!(world.run(), Ok(()));
    }
}

#[test]
fn on_a_good_day_every_call_returns_its_value() {
    let mut world = World::new(1, Weather::default());
    assert_eq!(world.run(), Ok(()));
    let executed: usize = world.executions.values().map(Vec::len).sum();
    assert_eq!(executed, usize::from(CLIENTS) * CALLS as usize);
    assert_eq!(world.returned.len(), executed);
}

#[test]
fn a_storm_comes_everywhere() {
    let mut sums = [0; 9];
    for seed in 1..200 {
        let mut world = World::new(
            seed,
            Weather {
                restarts: 1,
                ..STORM
            },
        );
        assert_eq!(world.run(), Ok(()), "seed {seed}");
        let seen = world.seen;
        let counts = [
            seen.reclaims,
            seen.cut,
            seen.late,
            seen.replays,
            seen.transfers_restarted,
            seen.gave_up,
            seen.overdue,
            seen.expired,
            seen.returned_bulk,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    assert!(sums.iter().all(|&sum| sum > 20), "{sums:?}");
}

/// Counts the seeds that notice a defect.
fn caught(defect: Defect, seeds: u64) -> usize {
    let weather = Weather {
        held: if defect == Defect::KnowsNoDeadline {
            60
        } else {
            5
        },
        restarts: 2,
        durable: defect == Defect::LosesCalls,
        defect: Some(defect),
        ..STORM
    };
    let is_caught = |&seed: &u64| World::new(seed, weather).run().is_err();
    (0..seeds).filter(is_caught).count()
}

#[test]
fn a_table_that_forgets_too_early_is_caught() {
    assert!(caught(Defect::Forgets, 50) > 25);
}

#[test]
fn a_server_that_restores_no_calls_is_caught() {
    assert!(caught(Defect::LosesCalls, 200) > 10);
}

#[test]
fn a_server_that_executes_what_was_given_up_is_caught() {
    assert!(caught(Defect::KnowsNoDeadline, 300) > 30);
}

#[test]
fn a_write_to_memory_that_was_given_back_is_caught() {
    assert!(caught(Defect::WritesLate, 300) > 3);
}

#[test]
fn an_ack_for_a_piece_that_was_cut_off_is_caught() {
    assert!(caught(Defect::AcknowledgesCut, 300) > 10);
}

#[test]
fn a_descriptor_that_nobody_cancels_is_caught() {
    assert!(caught(Defect::LeavesDescriptors, 50) > 25);
}
