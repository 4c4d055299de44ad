//! The state that the thread of a test node works on: the framework, RPCs in both directions, generators.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lnet_node::{EventQueue, Node, NodeError, NodeEvent};
use lnet_types::{ProcessId, Time};
use rustc_hash::FxHashMap;

use super::calls::{Calls, Done, Owner, Start, Waiter};
use super::counting::TestNodeCounters;
use super::serve::Server;
use super::tag::{Part, Tag};
use crate::flow::FlowReport;
use crate::framework::{Effect, Framework, TestId};
use crate::load::{Ended, Generator, Next, Shot, Units, Work};
use crate::wire::{Body, BulkRequest, Order, PING_MAGIC, PingRequest, Service};

/// The limit of RPCs of generators under way. Each takes a few hundred bytes of memory.
const UNDER_WAY_MAX: usize = 1024;
/// The limit of memory of all reads under way, in bytes.
const ROOM_MAX: u64 = 64 << 20;
/// The timeout of an RPC of a test.
// [LST-6]
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(64);

/// An RPC that a program asks for.
pub(super) struct Asked {
    pub(super) target: ProcessId,
    pub(super) features: u32,
    pub(super) body: Body,
    /// The data that the server fetches.
    pub(super) source: Option<bytes::Bytes>,
}

/// A generator that runs.
struct Running {
    generator: Box<dyn Generator>,
    under_way: usize,
    test: Option<TestId>,
    /// The number of the next ping.
    sequence: u32,
    timeout: Duration,
    /// When to ask the generator next; `None` if it named no time.
    at: Option<Time>,
}

pub(super) struct Station {
    pub(super) framework: Framework,
    pub(super) counters: TestNodeCounters,
    server: Server,
    calls: Calls,
    running: BTreeMap<u64, Running>,
    /// The reports of loads of this process that are over, until a program asks for them.
    reports: BTreeMap<u64, FlowReport>,
    tests: FxHashMap<TestId, u64>,
    generators: u64,
    room_out: u64,
    /// The generator to ask first in the next turn, so that none starves.
    turn: u64,
    /// Whether the test node has stopped: RPCs of programs are aborted at once.
    is_closed: bool,
}

impl Station {
    pub(super) fn new(node: &Node, queue: &EventQueue) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since_1970.map_or(0, |time| time.as_secs());
        Self {
            framework: Framework::default(),
            counters: TestNodeCounters::default(),
            server: Server::new(node.clone(), queue.clone()),
            calls: Calls::new(node.clone(), queue.clone(), seconds),
            running: BTreeMap::new(),
            reports: BTreeMap::new(),
            tests: FxHashMap::default(),
            generators: 0,
            room_out: 0,
            turn: 0,
            is_closed: false,
        }
    }

    pub(super) fn open(&mut self) -> Result<(), NodeError> {
        self.server.open()
    }

    /// Aborts everything that is under way, and takes the buffers back.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.calls.forget();
        self.running.clear();
        self.server.close();
    }

    /// Returns the number of RPCs under way: those that this node began, and those for this node.
    pub(super) fn under_way(&self) -> (usize, usize) {
        (self.calls.under_way(), self.server.under_way())
    }

    pub(super) fn event(&mut self, event: NodeEvent, now: Time) {
        let Some(Tag { part, number }) = Tag::of(event.event.user) else {
            return;
        };
        match part {
            Part::Bell => {}
            Part::Buffer => {
                // The number of a service has 32 bits.
                let service = Service((number & 0xFFFF_FFFF) as u32);
                let (framework, counters) = (&mut self.framework, &mut self.counters);
                self.server
                    .request(service, event, framework, now, counters);
            }
            Part::Reply | Part::Bulk | Part::Request => {
                let done = self
                    .calls
                    .event(part, number, event, now, &mut self.counters);
                self.done(done, now);
            }
            Part::ServedReply => self.server.reply_event(number, &event, &mut self.counters),
            Part::ServedBulk => {
                let (framework, counters) = (&mut self.framework, &mut self.counters);
                self.server
                    .bulk_event(number, event, framework, now, counters);
            }
        }
        self.carry_out(now);
    }

    /// Begins an RPC of a program. The result is sent to `waiter`, which is dropped if the test node has stopped.
    pub(super) fn call(&mut self, asked: Asked, timeout: Duration, waiter: Waiter, now: Time) {
        if self.is_closed {
            return;
        }
        let start = Start {
            owner: Owner::Caller(waiter),
            target: asked.target,
            features: asked.features,
            body: asked.body,
            source: asked.source,
            work: None,
            timeout,
        };
        let done = self.calls.begin(start, now, &mut self.counters);
        self.done(done, now);
    }

    /// Starts a generator whose RPCs have this timeout.
    pub(super) fn start(&mut self, generator: Box<dyn Generator>, timeout: Duration) -> u64 {
        self.add(generator, None, timeout)
    }

    fn add(
        &mut self,
        generator: Box<dyn Generator>,
        test: Option<TestId>,
        timeout: Duration,
    ) -> u64 {
        self.generators += 1;
        let running = Running {
            generator,
            under_way: 0,
            test,
            sequence: 0,
            timeout,
            at: None,
        };
        self.running.insert(self.generators, running);
        self.generators
    }

    /// Stops a generator. With `abort`, aborts its RPCs under way, too.
    pub(super) fn stop(&mut self, generator: u64, abort: bool) {
        if let Some(running) = self.running.get_mut(&generator) {
            running.generator.stop();
            running.at = None;
        }
        if abort {
            self.calls.abort(generator);
        }
    }

    /// Returns what a generator has done so far. For a generator that is over, only the first call returns the
    /// report.
    pub(super) fn report(&mut self, generator: u64) -> Option<FlowReport> {
        match self.running.get(&generator) {
            Some(running) => running.generator.report(),
            None => self.reports.remove(&generator),
        }
    }

    /// Reports whether a generator makes RPCs or has some under way.
    pub(super) fn is_running(&self, generator: u64) -> bool {
        self.running.contains_key(&generator)
    }

    /// Does what is due by the clock.
    pub(super) fn tick(&mut self, now: Time) {
        self.counters.sessions_expired += u64::from(self.framework.tick(now));
        self.calls.expire(now);
        self.carry_out(now);
    }

    /// Returns when the next generator is to be asked.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.running.values().filter_map(|running| running.at).min()
    }

    fn carry_out(&mut self, now: Time) {
        while let Some(effect) = self.framework.poll_effect() {
            match effect {
                Effect::Start(test, spec) => match Units::new(&spec) {
                    Some(units) => {
                        let generator = self.add(Box::new(units), Some(test), TEST_TIMEOUT);
                        self.tests.insert(test, generator);
                    }
                    None => self.framework.ended(test),
                },
                Effect::Stop { test, abort } => {
                    if let Some(&generator) = self.tests.get(&test) {
                        self.stop(generator, abort);
                    }
                }
            }
        }
        self.reap(now);
    }

    /// Removes the generators that are over.
    fn reap(&mut self, now: Time) {
        let (tests, framework) = (&mut self.tests, &mut self.framework);
        let reports = &mut self.reports;
        self.running.retain(|id, running| {
            let is_over = running.under_way == 0 && running.generator.is_over(now);
            if is_over && let Some(test) = running.test {
                tests.remove(&test);
                framework.ended(test);
            }
            if is_over && let Some(report) = running.generator.report() {
                reports.insert(*id, report);
            }
            !is_over
        });
    }

    /// Begins the RPCs that the generators want, in turn, as far as the limits allow.
    pub(super) fn pump(&mut self, now: Time) {
        let first = self.turn;
        let after = self.running.range(first..).map(|(&id, _)| id);
        let before = self.running.range(..first).map(|(&id, _)| id);
        let order: Vec<u64> = after.chain(before).collect();
        for &id in &order {
            while self.has_room() && self.shoot(id, now) {}
        }
        if let Some(&first) = order.get(1) {
            self.turn = first;
        }
        self.reap(now);
    }

    fn has_room(&self) -> bool {
        self.calls.under_way() < UNDER_WAY_MAX && self.room_out < ROOM_MAX
    }

    /// Begins one RPC of a generator. Returns false if the generator wants none now, or if the RPC could not
    /// begin.
    fn shoot(&mut self, id: u64, now: Time) -> bool {
        let Some(running) = self.running.get_mut(&id) else {
            return false;
        };
        running.at = None;
        let shot = match running.generator.next(now) {
            Next::Send(shot) => shot,
            Next::At(time) => {
                running.at = Some(time);
                return false;
            }
            Next::Wait => return false,
        };
        running.under_way += 1;
        let sequence = running.sequence;
        running.sequence = sequence.wrapping_add(1);
        let timeout = running.timeout;
        if let Work::Read(len, _) = shot.work {
            self.room_out += u64::from(len);
        }
        let source = match shot.work {
            Work::Write(len, _) => Some(self.server.data(len, Order::Little)),
            Work::Ping | Work::Read(..) => None,
        };
        let start = Start {
            owner: Owner::Unit(id, shot.unit),
            target: shot.target,
            features: shot.features,
            body: body(&shot, sequence),
            source,
            work: Some(shot.work),
            timeout,
        };
        let done = self.calls.begin(start, now, &mut self.counters);
        // An RPC that cannot begin has ended, and the generator gets its result as that of any other RPC.
        let is_begun = done.is_none();
        self.done(done, now);
        is_begun
    }

    fn done(&mut self, done: Option<Done>, now: Time) {
        let Some(done) = done else {
            return;
        };
        let (id, unit) = match done.owner {
            Owner::Caller(Waiter { to, number }) => {
                // Sending fails if the program waits no longer, and then the result is not needed.
                let _gone = to.send((number, done.result));
                return;
            }
            Owner::Unit(id, unit) => (id, unit),
        };
        let Some(work) = done.work else {
            return;
        };
        if let Work::Read(len, _) = work {
            self.room_out -= u64::from(len);
        }
        let is_ok = done.result.is_ok_and(|body| body.status() == Some(0)) && done.is_data_good;
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        running.under_way -= 1;
        let ended = Ended {
            unit,
            work,
            is_ok,
            latency: done.latency,
        };
        running.generator.ended(&ended, now);
        if !is_ok && running.test.is_some() {
            self.framework.note_error(work.service());
        }
    }
}

fn body(shot: &Shot, sequence: u32) -> Body {
    let bulk = |operation, len, flags: u16| {
        Body::BulkRequest(BulkRequest {
            operation,
            len,
            flags: flags.into(),
            ..BulkRequest::default()
        })
    };
    match shot.work {
        Work::Ping => {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
            let since_1970 = since_1970.unwrap_or_default();
            Body::PingRequest(PingRequest {
                magic: PING_MAGIC,
                sequence,
                seconds: since_1970.as_secs(),
                nanoseconds: since_1970.subsec_nanos().into(),
                ..PingRequest::default()
            })
        }
        Work::Read(len, check) => bulk(BulkRequest::READ, len, check.flags()),
        Work::Write(len, check) => bulk(BulkRequest::WRITE, len, check.flags()),
    }
}
