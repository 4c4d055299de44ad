//! Random schedules on both sides, compared with plain lists in order of arrival.
//!
//! Every step goes to the engine and to the reference. Both must give the same outputs, in any order within a
//! step. After the schedule everything is ended, and no state may be left.

mod reference;
mod schedule;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use self::reference::{Fault, Ms, Reference, What};
use self::schedule::{Step, schedule};
use crate::zbmi::*;

/// An output in ids that engine and reference share: requests, calls, and for operations and messages the
/// server's id and the tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    Sent(u32),
    NotNow(u32),
    Failed(u32, Errno),
    Ready(u32, Vec<u32>),
    Moves(u32, u64),
    Stopped(u32),
    Registered(u64),
    Immediate(u64, u64),
    Refused(u64, Errno),
    Ended(u64, Vec<(u64, Result<u64, Errno>)>, bool, bool),
    Messages(u64, Vec<i32>, bool),
}

const CLIENTS: usize = 3;
const SLOTS: usize = 3;
const STALL: Ms = 50;

/// The engine, the reference, and the mapping of their ids.
struct Run {
    engine: Engine,
    reference: Reference,
    session: Session,
    now: Ms,
    /// The clients by place. A dead client is replaced by a new one with a number of its own.
    clients: Vec<(usize, Peer)>,
    names: u32,
    /// The server's id, the call and the plugin's id of each post.
    posts: Vec<(u64, u64, Option<PluginId>)>,
    /// Requests that are not answered yet.
    open: Vec<(u32, usize)>,
    running: Vec<Transfer>,
    inbound: Vec<GrantId>,
    /// Messages that were fetched and not freed.
    held: Vec<Message>,
    ended: BTreeMap<u64, u32>,
}

impl Run {
    fn new(hold: Ms, fault: Option<Fault>) -> Self {
        let config = Config {
            unexpected_size: 64 * SLOTS as u64,
            total_size: 1 << 20,
            max_unexpected: 64,
            hold: Duration::from_millis(hold),
            stall: Duration::from_millis(STALL),
            limits: Limits {
                server_calls: 1000,
                ..Limits::default()
            },
            ..Config::default()
        };
        let mut engine = Engine::new(config).unwrap();
        let session = engine.server_attached().unwrap();
        let reference = Reference::new(hold, STALL, SLOTS, fault);
        let mut run = Self {
            engine,
            reference,
            session,
            now: 0,
            clients: Vec::new(),
            names: 0,
            posts: Vec::new(),
            open: Vec::new(),
            running: Vec::new(),
            inbound: Vec::new(),
            held: Vec::new(),
            ended: BTreeMap::new(),
        };
        for _ in 0..CLIENTS {
            let client = run.attach();
            run.clients.push(client);
        }
        run
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    fn time(&self) -> Time {
        Time::after(Duration::from_millis(self.now))
    }

    fn attach(&mut self) -> (usize, Peer) {
        let name = self.name();
        let attach = Attach {
            uuid: [0; 16],
            job: JobId(0),
            previous: None,
        };
        (
            name as usize,
            self.engine
                .client_attached(self.time(), attach)
                .unwrap()
                .peer,
        )
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Call { .. } | Step::Unexpected { .. } | Step::Test { .. } => self.call(step),
            Step::Wake { .. } | Step::Lose { .. } => self.client_step(step),
            Step::Finish { nth } | Step::Abort { nth } | Step::Progress { nth } => {
                self.transfer_step(step, *nth);
            }
            Step::Pass { duration } => self.pass(*duration),
            _ => self.server_step(step),
        }
    }

    fn call(&mut self, step: &Step) {
        match *step {
            Step::Call {
                client,
                way,
                tag,
                size,
                wait,
            } => {
                self.message(client, What::Message { way, tag, size }, wait);
            }
            Step::Unexpected {
                client,
                class,
                wait,
            } => {
                let tag = self.names as i32;
                self.message(client, What::Memory { tag, class }, wait);
            }
            Step::Test {
                client,
                ref entries,
                wait,
            } => {
                self.message(client, What::Test(entries.clone()), wait);
            }
            _ => unreachable!("not a call"),
        }
    }

    fn message(&mut self, client: usize, what: What, wait: Ms) {
        let name = self.name();
        let (now, request, timeout) = (self.time(), RequestId(name), Duration::from_millis(wait));
        let (number, peer) = self.clients[client];
        self.open.push((name, number));
        let send = |kind, tag, total| SendRequest {
            kind,
            tag: Tag(tag),
            total,
            timeout,
            order: 0,
        };
        match what {
            What::Message {
                way: Direction::ToServer,
                tag,
                size,
            } => {
                let send = send(SendKind::Expected, tag, size);
                self.engine.send(now, peer, request, send);
            }
            What::Message {
                way: Direction::ToClient,
                tag,
                size,
            } => {
                let recv = RecvRequest {
                    tag: Tag(tag),
                    capacity: size,
                    timeout,
                };
                self.engine.recv(now, peer, request, recv);
            }
            What::Memory { tag, class } => {
                let kind = SendKind::Unexpected {
                    class: Class(class),
                    inline: false,
                };
                self.engine.send(now, peer, request, send(kind, tag, 8));
            }
            What::Test(ref entries) => {
                let entries = entries.clone();
                self.engine
                    .test(now, peer, request, TestRequest { entries, timeout });
            }
        }
        self.reference.call(number, name, what, wait);
    }

    fn client_step(&mut self, step: &Step) {
        let now = self.time();
        match *step {
            Step::Wake { nth } => {
                if let Some(&(request, number)) = pick(&self.open, nth) {
                    let peer = self
                        .clients
                        .iter()
                        .find(|client| client.0 == number)
                        .unwrap()
                        .1;
                    self.engine.wake(now, peer, RequestId(request));
                    self.reference.wake(request);
                }
            }
            Step::Lose { client } => {
                let (number, peer) = self.clients[client];
                self.engine.client_lost(now, peer, Departure::Broken);
                self.reference.lose(number);
                self.open.retain(|open| open.1 != number);
                self.clients[client] = self.attach();
            }
            _ => unreachable!("not of a client"),
        }
    }

    fn transfer_step(&mut self, step: &Step, nth: usize) {
        let now = self.time();
        let Some(transfer) = pick(&self.running, nth).cloned() else {
            return;
        };
        let (grant, request) = (transfer.grant, transfer.request.0);
        let inbound = self.inbound.contains(&grant);
        match (step, inbound) {
            (Step::Progress { .. }, _) => {
                self.engine.transfer_progressed(now, grant);
                return self.reference.progress(request);
            }
            (Step::Finish { .. }, true) => self.engine.transfer_arrived(now, grant),
            (Step::Finish { .. }, false) => self.engine.transfer_acknowledged(now, grant, Ok(())),
            (_, true) => self.engine.transfer_aborted(now, grant),
            (_, false) => {
                let failed = Err(Errno::ConnectionReset);
                self.engine.transfer_acknowledged(now, grant, failed);
            }
        }
        match step {
            Step::Finish { .. } => self.reference.finish(request),
            _ => self.reference.abort(request),
        }
        self.running.retain(|running| running.grant != grant);
        self.open.retain(|open| open.0 != request);
    }

    fn post(&mut self, client: usize, key: (Direction, i32), size: u64, not_immediate: bool) {
        let call = u64::from(self.name());
        let (number, peer) = self.clients[client];
        let post = Post {
            direction: key.0,
            bmi: BmiId(call),
            peer,
            tag: Tag(key.1),
            segments: vec![Segment {
                offset: 4096,
                len: size,
            }],
            total: size,
            not_immediate,
        };
        self.posts.push((call, call, None));
        self.engine
            .post(self.time(), self.session, CallId(call), post);
        self.reference
            .post_new(call, number, key, size, not_immediate);
    }

    fn fetch(&mut self, class: u8, capacity: usize, wait: Ms) {
        let call = u64::from(self.name());
        let timeout = Duration::from_millis(wait);
        let test = UnexpTest {
            capacity,
            class: Class(class),
            timeout,
        };
        self.engine
            .unexp_test(self.time(), self.session, CallId(call), test);
        self.reference.fetch(call, class, capacity, wait);
    }

    fn server_step(&mut self, step: &Step) {
        let (now, session) = (self.time(), self.session);
        match *step {
            Step::Post {
                client,
                way,
                tag,
                size,
                not_immediate,
            } => {
                self.post(client, (way, tag), size, not_immediate);
            }
            Step::Cancel { nth } => {
                if let Some(&(_, bmi, Some(plugin))) = pick(&self.posts, nth) {
                    self.engine.cancel(now, session, plugin);
                    self.reference.cancel(bmi);
                }
            }
            Step::ServerTest {
                ref ids,
                capacity,
                wait,
                wake,
            } => {
                self.server_test(ids.as_deref(), capacity, wait, wake);
            }
            Step::Fetch {
                class,
                capacity,
                wait,
            } => self.fetch(class, capacity, wait),
            Step::Free { nth } => {
                if let Some(message) = pick(&self.held, nth).copied() {
                    self.held.retain(|other| *other != message);
                    self.engine.unexp_free(now, session, message.offset);
                    self.reference.free(message.tag.0);
                }
            }
            Step::ServerWake => {
                self.engine.server_wake(session);
                self.reference.server_wake();
            }
            Step::ServerLeaves { how } => {
                self.engine.server_lost(now, session, how);
                self.reference.server_leaves(how);
                self.session = self.engine.server_attached().unwrap();
                self.posts.clear();
                self.held.clear();
            }
            _ => unreachable!("not of the server"),
        }
    }

    fn server_test(&mut self, ids: Option<&[usize]>, capacity: usize, wait: Ms, wake: bool) {
        let call = u64::from(self.name());
        let mut names = None;
        let selection = match ids {
            None => Selection::Any(capacity),
            Some(nths) => {
                let known = nths.iter().filter_map(|&nth| match pick(&self.posts, nth) {
                    Some(&(_, bmi, Some(plugin))) => Some((bmi, plugin)),
                    _ => None,
                });
                let (bmis, plugins) = known.unzip();
                names = Some(bmis);
                Selection::Ids(plugins)
            }
        };
        let timeout = Duration::from_millis(wait);
        let test = ServerTest {
            selection,
            timeout,
            wake_on_unexpected: wake,
        };
        self.engine
            .server_test(self.time(), self.session, CallId(call), test);
        self.reference.test(call, names, capacity, wait, wake);
    }

    fn pass(&mut self, duration: Ms) {
        let end = Time::after(Duration::from_millis(self.now + duration));
        while let Some(next) = self.engine.next_deadline().filter(|&next| next <= end) {
            self.engine.tick(next);
        }
        self.now += duration;
        self.reference.pass(duration);
    }

    /// Compares the outputs since the last call.
    fn compare(&mut self) -> Result<(), TestCaseError> {
        let mut engine = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            engine.push(self.translate(output)?);
        }
        let mut reference = std::mem::take(&mut self.reference.said);
        engine.sort();
        reference.sort();
        prop_assert_eq!(engine, reference);
        self.engine
            .audit()
            .map_err(|broken| TestCaseError::fail(broken.to_string()))
    }

    fn translate(&mut self, output: Output) -> Result<Said, TestCaseError> {
        Ok(match output {
            Output::Grant(transfer) => {
                self.inbound.push(transfer.grant);
                self.moves(transfer)
            }
            Output::Deliver(transfer) => self.moves(transfer),
            Output::Stop { grant, .. } => {
                let at = self
                    .running
                    .iter()
                    .position(|running| running.grant == grant);
                let at = at.ok_or_else(|| TestCaseError::fail("stops what does not run"))?;
                Said::Stopped(self.running.remove(at).request.0)
            }
            Output::Reply { request, reply, .. } => {
                self.open.retain(|open| open.0 != request.0);
                match reply {
                    Reply::Sent => Said::Sent(request.0),
                    Reply::NotNow => Said::NotNow(request.0),
                    Reply::Ready(ready) => Said::Ready(request.0, ready),
                    Reply::Failed(error) => Said::Failed(request.0, error),
                }
            }
            Output::Answer { call, answer, .. } => self.answered(call.0, answer)?,
            Output::Credits { .. } | Output::Drained => {
                return Err(TestCaseError::fail("nobody asked for this"));
            }
        })
    }

    fn moves(&mut self, transfer: Transfer) -> Said {
        let said = Said::Moves(transfer.request.0, transfer.total);
        self.running.push(transfer);
        said
    }

    fn answered(&mut self, call: u64, answer: Answer) -> Result<Said, TestCaseError> {
        Ok(match answer {
            Answer::Registered(plugin) => {
                if let Some(post) = self.posts.iter_mut().find(|post| post.0 == call) {
                    post.2 = Some(plugin);
                }
                Said::Registered(call)
            }
            Answer::Immediate(size) => {
                self.end_once(call)?;
                Said::Immediate(call, size)
            }
            Answer::Completions {
                completions,
                unexpected_pending,
                woken,
            } => {
                let mut ended = Vec::new();
                for done in completions {
                    self.end_once(done.bmi.0)?;
                    ended.push((done.bmi.0, done.result));
                }
                Said::Ended(call, ended, unexpected_pending, woken)
            }
            Answer::Messages { messages, woken } => {
                self.held.extend(&messages);
                let tags = messages.iter().map(|message| message.tag.0).collect();
                Said::Messages(call, tags, woken)
            }
            Answer::Failed(error) => Said::Refused(call, error),
            Answer::NoMemory => return Err(TestCaseError::fail("the table is not full")),
        })
    }

    fn end_once(&mut self, bmi: u64) -> Result<(), TestCaseError> {
        let times = self.ended.entry(bmi).or_default();
        *times += 1;
        prop_assert_eq!(*times, 1, "operation {} ended twice", bmi);
        Ok(())
    }

    /// Ends everything, and checks that no state is left.
    fn shut_down(&mut self) -> Result<(), TestCaseError> {
        self.pass(300);
        self.compare()?;
        for nth in 0..self.posts.len() {
            self.server_step(&Step::Cancel { nth });
            self.compare()?;
        }
        for class in 0..2 {
            self.server_step(&Step::Fetch {
                class,
                capacity: SLOTS,
                wait: 0,
            });
            self.compare()?;
        }
        while !self.held.is_empty() {
            self.server_step(&Step::Free { nth: 0 });
            self.compare()?;
        }
        self.server_test(None, usize::MAX, 0, false);
        self.compare()?;
        let idle = Gauges {
            clients: CLIENTS,
            ..Gauges::default()
        };
        prop_assert_eq!(self.engine.gauges(), idle);
        prop_assert_eq!(self.engine.next_deadline(), None);
        prop_assert!(
            self.open.is_empty(),
            "requests without an answer: {:?}",
            self.open
        );
        let unended = self
            .posts
            .iter()
            .find(|post| !self.ended.contains_key(&post.1));
        prop_assert!(unended.is_none(), "an operation never ended: {:?}", unended);
        Ok(())
    }
}

fn pick<T>(list: &[T], nth: usize) -> Option<&T> {
    list.get(nth.checked_rem(list.len())?)
}

fn run(hold: Ms, steps: &[Step], fault: Option<Fault>) -> Result<(), TestCaseError> {
    let mut run = Run::new(hold, fault);
    for step in steps {
        run.step(step);
        run.compare()?;
    }
    run.shut_down()
}

/// `FINERAIL_LONG=1` runs 40 times as many schedules.
fn cases() -> u32 {
    if std::env::var_os("FINERAIL_LONG").is_some() {
        10_000
    } else {
        256
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_engine_says_what_plain_queues_say((hold, steps) in schedule()) {
        run(hold, &steps, None)?;
    }
}

#[test]
fn the_comparison_notices_wrong_rules() {
    let faults = [
        Fault::NewestFirst,
        Fault::CancelClaimed,
        Fault::CountOthers,
        Fault::Overtaking,
        Fault::NoDeadlines,
        Fault::Truncate,
    ];
    for fault in faults {
        let config = ProptestConfig {
            failure_persistence: None,
            max_shrink_iters: 0,
            ..ProptestConfig::default()
        };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        let outcome = runner.run(&schedule(), |(hold, steps)| run(hold, &steps, Some(fault)));
        assert!(
            matches!(outcome, Err(TestError::Fail(..))),
            "{fault:?} went unnoticed"
        );
    }
}
