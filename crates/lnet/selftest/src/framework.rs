//! The framework of a test node: its session, and the batches and tests of the session.
//!
//! ```text
//!   no session ── MAKE ──▶ session ── REMOVE by the last who made it ──▶ no session
//!                            │  ▲      100 s without framework RPCs ────▶
//!                 MAKE with force: another session in its place
//!
//!   TEST ──▶ batch with a test, idle ── RUN ──▶ running ── STOP, or every test has ended ──▶ idle
//! ```
//!
//! This module does no I/O. The driver passes in requests and the time, sends the replies, and carries out the
//! [`Effect`]s: tests to start and to stop.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lnet_node::Errno;
use lnet_types::{ProcessId, Time};

use crate::load::Work;
use crate::wire::{
    BatchReply, BatchRequest, Body, DESTINATIONS_MAX, DebugReply, FEATURE_BULK_LEN,
    FrameworkCounters, MakeReply, MakeRequest, Message, Name, PROCESS_LEN, Params, RemoveRequest,
    Service, SessionId, SessionReply, StatReply, StatRequest, TestRequest,
};

/// How long a session lasts without framework RPCs.
// [LST-11]
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(100);
/// The limit of RPCs of a test under way to one destination.
// [LST-13]
pub const CONCURRENCY_MAX: u32 = 1024;
/// The limit of entries that a request can announce for its list of destinations: 256 pages of 341.
const DESTINATIONS_ANNOUNCED_MAX: u32 = 256 * 341;
/// The limit of tests of one session at a client, so that a console cannot take any amount of memory.
const TESTS_MAX: usize = 256;
/// The limit of units of all tests of one session, so that a console cannot take any amount of memory.
const UNITS_MAX: u64 = 1 << 16;
/// The limit of batches of one session.
const BATCHES_MAX: usize = 256;

/// The id of a test, unique for the life of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TestId(u64);

/// The work of a client of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSpec {
    /// The service that the test loads.
    pub service: Service,
    /// RPCs of each unit; `None` means without end.
    pub repeat: Option<u32>,
    /// Units for each destination. A unit has one RPC under way at a time.
    pub concurrency: u32,
    /// True if the first error ends a unit.
    pub stop_on_error: bool,
    /// The parameters of each RPC.
    pub params: Params,
    /// The nodes that the test loads.
    pub destinations: Vec<ProcessId>,
}

impl TestSpec {
    fn units(&self) -> u64 {
        self.destinations.len() as u64 * u64::from(self.concurrency)
    }
}

/// Something that the driver does besides sending the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start the units of this test. The driver calls [`Framework::ended`] when all of them have ended.
    Start(TestId, TestSpec),
    /// Send no further RPCs of this test.
    Stop {
        /// The test.
        test: TestId,
        /// True if the RPCs under way are aborted, too.
        abort: bool,
    },
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer with these features and this body.
    Reply(u32, Body),
    /// First fetch this many bytes of destinations; then [`Framework::add_client`] returns the answer.
    Fetch(TestRequest, u32),
    /// Drop the request, because its operation on a batch does not exist or it is not a framework request.
    Drop,
}

/// The framework of a node.
#[derive(Debug, Default)]
pub struct Framework {
    session: Option<Session>,
    /// Tests of sessions that have ended, with RPCs still under way. The value is the number of the session.
    zombies: BTreeMap<TestId, u64>,
    zombie_sessions: BTreeMap<u64, usize>,
    effects: VecDeque<Effect>,
    tests: u64,
    sessions: u64,
}

#[derive(Debug)]
struct Session {
    number: u64,
    id: SessionId,
    name: Name,
    features: u32,
    /// How many times the session was made, less how many times it was removed.
    references: u32,
    begun: Time,
    expires: Time,
    batches: BTreeMap<u64, Vec<Test>>,
    bulk_errors: u32,
    ping_errors: u32,
}

#[derive(Debug)]
struct Test {
    id: TestId,
    spec: TestSpec,
    is_active: bool,
}

impl Framework {
    /// Decides what to do with a request for a framework service.
    // [LST-12]
    pub fn handle(&mut self, message: &Message, now: Time) -> Verdict {
        if let Some(session) = &mut self.session {
            session.expires = now + SESSION_TIMEOUT;
        }
        let unknown = message.features & !FEATURE_BULK_LEN != 0;
        let (features, status) = match (&message.body, &self.session) {
            (Body::MakeRequest(_) | Body::DebugRequest(_), _) => {
                (self.features(), unknown.then_some(Errno::EPROTO))
            }
            (_, Some(session)) => {
                let differs = message.features != session.features;
                (session.features, differs.then_some(Errno::EPROTO))
            }
            (_, None) => (FEATURE_BULK_LEN, None),
        };
        if let Some(errno) = status {
            return self.reject(&message.body, features, errno);
        }
        let body = match &message.body {
            Body::MakeRequest(request) => self.make(request, message.features, now),
            Body::RemoveRequest(request) => self.remove(request),
            Body::DebugRequest(_) => self.debug(),
            Body::StatRequest(request) => self.stat(request, now),
            Body::BatchRequest(request) => match self.batch(request) {
                Some(reply) => reply,
                None => return Verdict::Drop,
            },
            Body::TestRequest(request) => return self.test(request),
            _ => return Verdict::Drop,
        };
        Verdict::Reply(self.features(), body)
    }

    /// Adds a test at its client after the destinations have arrived, and returns the answer. `destinations` is
    /// `None` if the list could not be decoded.
    pub fn add_client(
        &mut self,
        request: &TestRequest,
        destinations: Option<Vec<ProcessId>>,
    ) -> (u32, Body) {
        let status = match destinations {
            // The session may have ended meanwhile, or the batch may have started.
            Some(destinations) => match self.check_test(request) {
                None => self.add(request, destinations),
                refused => refused,
            },
            None => Some(Errno::EINVAL),
        };
        (self.features(), self.test_reply(status))
    }

    /// Returns the answer to a request of another version.
    #[must_use]
    pub fn other_version(&self, body: &Body) -> Verdict {
        self.reject(body, self.features(), Errno::EPROTO)
    }

    /// Returns the features that replies carry: the features of the session, or all known features if there is
    /// no session.
    // [LST-8]
    #[must_use]
    pub fn features(&self) -> u32 {
        let features = self.session.as_ref().map(|session| session.features);
        features.unwrap_or(FEATURE_BULK_LEN)
    }

    /// Returns the next effect for the driver.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Notes that no RPC of this test is under way any more, and that none will follow.
    pub fn ended(&mut self, test: TestId) {
        if let Some(session) = &mut self.session {
            let mut tests = session.batches.values_mut().flatten();
            if let Some(test) = tests.find(|known| known.id == test) {
                test.is_active = false;
            }
        }
        if let Some(session) = self.zombies.remove(&test)
            && let Some(left) = self.zombie_sessions.get_mut(&session)
        {
            *left -= 1;
            if *left == 0 {
                self.zombie_sessions.remove(&session);
            }
        }
    }

    /// Notes that an RPC of a test failed.
    pub fn note_error(&mut self, service: Service) {
        if let Some(session) = &mut self.session {
            match service {
                Service::BULK => session.bulk_errors = session.bulk_errors.saturating_add(1),
                _ => session.ping_errors = session.ping_errors.saturating_add(1),
            }
        }
    }

    /// Ends the session if its console has been silent for too long. Returns true if a session ended.
    pub fn tick(&mut self, now: Time) -> bool {
        let is_over = self
            .session
            .as_ref()
            .is_some_and(|session| session.expires <= now);
        if is_over {
            self.end_session();
        }
        is_over
    }

    /// Returns when [`Framework::tick`] has something to do; `None` if there is no session.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.session.as_ref().map(|session| session.expires)
    }

    /// Returns the name of the session, its id, and the number of its batches.
    #[must_use]
    pub fn session(&self) -> Option<(Name, SessionId, usize)> {
        let session = self.session.as_ref()?;
        Some((session.name, session.id, session.batches.len()))
    }

    // [LST-9]
    fn make(&mut self, request: &MakeRequest, features: u32, now: Time) -> Body {
        let reply = |status: Option<Errno>, session: Option<&Session>, name| {
            Body::MakeReply(MakeReply {
                status: errno(status),
                session: session.map_or(SessionId::NONE, |session| session.id),
                timeout: session.map_or(0, |_| timeout_s()),
                name,
            })
        };
        if request.session.is_any() {
            return reply(Some(Errno::EINVAL), self.session.as_ref(), Name::EMPTY);
        }
        if let Some(session) = &mut self.session {
            if session.id == request.session {
                session.references = session.references.saturating_add(1);
                return reply(None, Some(session), Name::EMPTY);
            }
            if request.force == 0 {
                let name = session.name;
                return reply(Some(Errno::EBUSY), Some(session), name);
            }
            self.end_session();
        }
        self.sessions += 1;
        let session = self.session.insert(Session {
            number: self.sessions,
            id: request.session,
            name: request.name,
            features,
            references: 1,
            begun: now,
            expires: now + SESSION_TIMEOUT,
            batches: BTreeMap::new(),
            bulk_errors: 0,
            ping_errors: 0,
        });
        reply(None, Some(session), Name::EMPTY)
    }

    fn remove(&mut self, request: &RemoveRequest) -> Body {
        let status = match &mut self.session {
            _ if request.session.is_any() => Some(Errno::EINVAL),
            None => Some(ESRCH),
            Some(session) if session.id != request.session => Some(Errno::EBUSY),
            Some(session) => {
                session.references -= 1;
                if session.references == 0 {
                    self.end_session();
                }
                None
            }
        };
        Body::RemoveReply(SessionReply {
            status: errno(status),
            session: self.id(),
        })
    }

    /// Stops the tests that run, and forgets the session.
    fn end_session(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        for test in session.batches.into_values().flatten() {
            if test.is_active {
                self.zombies.insert(test.id, session.number);
                *self.zombie_sessions.entry(session.number).or_default() += 1;
                self.effects.push_back(Effect::Stop {
                    test: test.id,
                    abort: true,
                });
            }
        }
    }

    fn debug(&self) -> Body {
        Body::DebugReply(match &self.session {
            None => DebugReply {
                status: errno(Some(ESRCH)),
                ..DebugReply::default()
            },
            Some(session) => DebugReply {
                status: 0,
                session: session.id,
                timeout: timeout_s(),
                batches: u32::try_from(session.batches.len()).unwrap_or(u32::MAX),
                name: session.name,
            },
        })
    }

    fn stat(&self, request: &StatRequest, now: Time) -> Body {
        let (status, framework) = match &self.session {
            _ if request.session.is_any() => (Some(Errno::EINVAL), None),
            Some(session) if session.id == request.session => (None, Some(self.counters(now))),
            _ => (Some(ESRCH), None),
        };
        Body::StatReply(StatReply {
            status: errno(status),
            session: self.id(),
            framework: framework.unwrap_or_default(),
            ..StatReply::default()
        })
    }

    fn counters(&self, now: Time) -> FrameworkCounters {
        let zombies = u32::try_from(self.zombie_sessions.len()).unwrap_or(u32::MAX);
        let Some(session) = &self.session else {
            return FrameworkCounters::default();
        };
        let age = now.saturating_since(session.begun).as_millis();
        let is_active = |tests: &&Vec<Test>| tests.iter().any(|test| test.is_active);
        let active = session.batches.values().filter(is_active).count();
        FrameworkCounters {
            running_ms: u32::try_from(age).unwrap_or(u32::MAX),
            active_batches: u32::try_from(active).unwrap_or(u32::MAX),
            zombie_sessions: zombies,
            bulk_errors: session.bulk_errors,
            ping_errors: session.ping_errors,
        }
    }

    /// Returns the answer to a request for a batch; `None` for an operation that does not exist.
    fn batch(&mut self, request: &BatchRequest) -> Option<Body> {
        let id = self.id();
        let reply = |status: Option<Errno>, active: usize| {
            Some(Body::BatchReply(BatchReply {
                status: errno(status),
                session: id,
                active: u32::try_from(active).unwrap_or(u32::MAX),
                time: 0,
            }))
        };
        let Some(session) = self
            .session
            .as_mut()
            .filter(|session| session.id == request.session)
        else {
            return reply(Some(ESRCH), 0);
        };
        let Some(tests) = session.batches.get_mut(&request.batch) else {
            return reply(Some(Errno::ENOENT), 0);
        };
        match request.operation {
            BatchRequest::RUN => run(tests, &mut self.effects),
            BatchRequest::STOP => stop(tests, request.argument != 0, &mut self.effects),
            BatchRequest::QUERY if request.test as usize > tests.len() => {
                return reply(Some(Errno::ENOENT), 0);
            }
            BatchRequest::QUERY => {}
            _ => return None,
        }
        let asked = match request.test as usize {
            at @ 1.. if request.operation == BatchRequest::QUERY => &tests[at - 1..at],
            _ => &tests[..],
        };
        reply(None, asked.iter().filter(|test| test.is_active).count())
    }

    fn test(&mut self, request: &TestRequest) -> Verdict {
        let status = self.check_test(request);
        if status.is_none() && request.is_client != 0 {
            // The announced length is checked: the list has at most 341 entries.
            let bytes = request.destinations * PROCESS_LEN as u32;
            return Verdict::Fetch(*request, bytes);
        }
        // A server ignores the number of buffers that the request asks for: it has buffers posted, and a lazy
        // portal behind them.
        let status = status.or_else(|| self.begin_batch(request.batch));
        Verdict::Reply(self.features(), self.test_reply(status))
    }

    // [LST-13]
    fn check_test(&self, request: &TestRequest) -> Option<Errno> {
        let service = Service(request.service);
        let is_client = request.is_client != 0;
        if request.repeat == 0
            || request.concurrency == 0
            || request.concurrency > CONCURRENCY_MAX
            || request.destinations > DESTINATIONS_ANNOUNCED_MAX
            || is_client && request.destinations == 0
            || service.portal() == Service::FRAMEWORK_PORTAL
            || request.session.is_any()
        {
            return Some(Errno::EINVAL);
        }
        // Consoles lose bytes of longer lists.
        if is_client && request.destinations as usize > DESTINATIONS_MAX {
            return Some(Errno::EINVAL);
        }
        let session = self
            .session
            .as_ref()
            .filter(|session| session.id == request.session);
        let Some(session) = session.filter(|_| Service::TESTS.contains(&service)) else {
            return Some(Errno::ENOENT);
        };
        let tests = session.batches.get(&request.batch).into_iter().flatten();
        let is_running = tests.into_iter().any(|test| test.is_active);
        is_running.then_some(Errno::EBUSY)
    }

    /// Begins a batch if it does not exist: the first test of a batch begins it, also at a server.
    fn begin_batch(&mut self, batch: u64) -> Option<Errno> {
        let session = self.session.as_mut()?;
        let is_full = session.batches.len() >= BATCHES_MAX;
        if is_full && !session.batches.contains_key(&batch) {
            return Some(Errno::ENOMEM);
        }
        session.batches.entry(batch).or_default();
        None
    }

    fn add(&mut self, request: &TestRequest, destinations: Vec<ProcessId>) -> Option<Errno> {
        let spec = TestSpec {
            service: Service(request.service),
            repeat: u32::try_from(request.repeat).ok(),
            concurrency: request.concurrency,
            stop_on_error: request.stop_on_error != 0,
            params: request.params,
            destinations,
        };
        if Work::of(spec.service, &spec.params).is_none() {
            return Some(Errno::EINVAL);
        }
        if let Some(full) = self.begin_batch(request.batch) {
            return Some(full);
        }
        let session = self.session.as_mut()?;
        let tests = session.batches.values().flatten();
        let (count, units) = tests.fold((0, 0), |(count, units), test| {
            (count + 1, units + test.spec.units())
        });
        if count >= TESTS_MAX || units + spec.units() > UNITS_MAX {
            return Some(Errno::ENOMEM);
        }
        self.tests += 1;
        let test = Test {
            id: TestId(self.tests),
            spec,
            is_active: false,
        };
        session.batches.entry(request.batch).or_default().push(test);
        None
    }

    fn id(&self) -> SessionId {
        let id = self.session.as_ref().map(|session| session.id);
        id.unwrap_or(SessionId::NONE)
    }

    fn test_reply(&self, status: Option<Errno>) -> Body {
        Body::TestReply(SessionReply {
            status: errno(status),
            session: self.id(),
        })
    }

    /// Makes the reply with this status, of the type that fits the request.
    fn reject(&self, request: &Body, features: u32, status: Errno) -> Verdict {
        let (status, session) = (errno(Some(status)), self.id());
        let short = SessionReply { status, session };
        let body = match request {
            Body::MakeRequest(_) => Body::MakeReply(MakeReply {
                status,
                session,
                ..MakeReply::default()
            }),
            Body::RemoveRequest(_) => Body::RemoveReply(short),
            Body::TestRequest(_) => Body::TestReply(short),
            Body::BatchRequest(_) => Body::BatchReply(BatchReply {
                status,
                session,
                ..BatchReply::default()
            }),
            Body::StatRequest(_) => Body::StatReply(StatReply {
                status,
                session,
                ..StatReply::default()
            }),
            Body::DebugRequest(_) => Body::DebugReply(DebugReply {
                status,
                session,
                ..DebugReply::default()
            }),
            _ => return Verdict::Drop,
        };
        Verdict::Reply(features, body)
    }
}

/// Starts the tests of a batch. A batch that runs goes on, because a console repeats a request whose reply was
/// lost.
fn run(tests: &mut [Test], effects: &mut VecDeque<Effect>) {
    if tests.iter().any(|test| test.is_active) {
        return;
    }
    for test in tests {
        test.is_active = true;
        effects.push_back(Effect::Start(test.id, test.spec.clone()));
    }
}

fn stop(tests: &[Test], abort: bool, effects: &mut VecDeque<Effect>) {
    let active = tests.iter().filter(|test| test.is_active);
    effects.extend(active.map(|test| Effect::Stop {
        test: test.id,
        abort,
    }));
}

/// The errno for a session that does not exist.
// [LST-10]
const ESRCH: Errno = Errno(3);

fn errno(status: Option<Errno>) -> u32 {
    status.map_or(0, |errno| errno.0.unsigned_abs())
}

fn timeout_s() -> u32 {
    u32::try_from(SESSION_TIMEOUT.as_secs()).unwrap_or(u32::MAX)
}
