//! An engine with a server and a test clock. Collects the outputs by recipient, and audits the engine after
//! every call.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::zbmi::*;

/// The first byte of the expected region of a default engine.
pub(super) const EXPECTED: u64 = 1 << 20;

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) now: Time,
    pub(super) session: Session,
    pub(super) replies: BTreeMap<(Peer, RequestId), Reply>,
    pub(super) answers: BTreeMap<CallId, Answer>,
    pub(super) grants: Vec<Transfer>,
    pub(super) delivers: Vec<Transfer>,
    pub(super) stops: Vec<GrantId>,
    pub(super) credits: Vec<(Peer, u32)>,
    pub(super) drained: bool,
    names: u64,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            hold: Duration::ZERO,
            ..Config::default()
        };
        change(&mut config);
        let mut engine = Engine::new(config).unwrap();
        let session = engine.server_attached().unwrap();
        Self {
            engine,
            now: Time::after(Duration::from_secs(1000)),
            session,
            replies: BTreeMap::new(),
            answers: BTreeMap::new(),
            grants: Vec::new(),
            delivers: Vec::new(),
            stops: Vec::new(),
            credits: Vec::new(),
            drained: false,
            names: 0,
        }
    }

    pub(super) fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Collects every output and audits.
    pub(super) fn collect_outputs(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            assert!(!self.drained, "nothing follows Drained: {output:?}");
            match output {
                Output::Grant(transfer) => self.grants.push(transfer),
                Output::Deliver(transfer) => self.delivers.push(transfer),
                Output::Stop { grant, .. } => self.stops.push(grant),
                Output::Credits { peer, count } => self.credits.push((peer, count)),
                Output::Drained => self.drained = true,
                Output::Reply {
                    peer,
                    request,
                    reply,
                } => {
                    let before = self.replies.insert((peer, request), reply);
                    assert_eq!(before, None, "a second reply to {request:?}");
                }
                Output::Answer { call, answer, .. } => {
                    let before = self.answers.insert(call, answer);
                    assert_eq!(before, None, "a second answer to {call:?}");
                }
            }
        }
        self.engine.audit().unwrap();
    }

    /// Advances the clock, with a tick at every deadline.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.engine.next_deadline().filter(|&next| next <= end) {
            self.now = next.max(self.now);
            self.engine.tick(self.now);
            self.collect_outputs();
        }
        self.now = end;
    }

    pub(super) fn client(&mut self) -> Peer {
        self.client_of(0)
    }

    pub(super) fn client_of(&mut self, job: u32) -> Peer {
        let uuid = u128::from(self.name()).to_be_bytes();
        let attach = Attach {
            uuid,
            job: JobId(job),
            previous: None,
        };
        let attached = self.engine.client_attached(self.now, attach).unwrap();
        self.collect_outputs();
        attached.peer
    }

    pub(super) fn lose(&mut self, peer: Peer) {
        self.engine.client_lost(self.now, peer, Departure::Broken);
        self.collect_outputs();
    }

    pub(super) fn request(&mut self, peer: Peer, send: SendRequest) -> RequestId {
        let request = RequestId(self.name() as u32);
        self.engine.send(self.now, peer, request, send);
        self.collect_outputs();
        request
    }

    pub(super) fn send(
        &mut self,
        peer: Peer,
        tag: i32,
        total: u64,
        timeout: Duration,
    ) -> RequestId {
        let kind = SendKind::Expected;
        self.request(
            peer,
            SendRequest {
                kind,
                tag: Tag(tag),
                total,
                timeout,
                order: 0,
            },
        )
    }

    pub(super) fn unexpected(&mut self, peer: Peer, total: u64, timeout: Duration) -> RequestId {
        let kind = SendKind::Unexpected {
            class: Class(0),
            inline: false,
        };
        self.request(
            peer,
            SendRequest {
                kind,
                tag: Tag(1),
                total,
                timeout,
                order: 0,
            },
        )
    }

    /// Sends an unexpected message until it can be fetched. Returns its offset.
    pub(super) fn message(&mut self, peer: Peer, total: u64) -> u64 {
        let request = self.unexpected(peer, total, Duration::ZERO);
        let grant = self.grants.pop().expect("granted");
        assert_eq!(grant.request, request);
        self.arrived(grant.grant);
        grant.segments.first().map_or(0, |piece| piece.offset)
    }

    pub(super) fn recv(
        &mut self,
        peer: Peer,
        tag: i32,
        capacity: u64,
        timeout: Duration,
    ) -> RequestId {
        let request = RequestId(self.name() as u32);
        let recv = RecvRequest {
            tag: Tag(tag),
            capacity,
            timeout,
        };
        self.engine.recv(self.now, peer, request, recv);
        self.collect_outputs();
        request
    }

    pub(super) fn test(
        &mut self,
        peer: Peer,
        entries: &[TestEntry],
        timeout: Duration,
    ) -> RequestId {
        let request = RequestId(self.name() as u32);
        let test = TestRequest {
            entries: entries.to_vec(),
            timeout,
        };
        self.engine.test(self.now, peer, request, test);
        self.collect_outputs();
        request
    }

    pub(super) fn post_with(&mut self, post: Post) -> CallId {
        let call = CallId(self.name());
        self.engine.post(self.now, self.session, call, post);
        self.collect_outputs();
        call
    }

    /// Posts without an answer.
    pub(super) fn announce(&mut self, post: Post) {
        self.engine.announce(self.now, self.session, post);
        self.collect_outputs();
    }

    /// Posts a receive of the server.
    pub(super) fn post_recv(&mut self, peer: Peer, tag: i32, total: u64) -> CallId {
        self.post_with(post(Direction::ToServer, peer, tag, total))
    }

    /// Posts a send of the server.
    pub(super) fn post_send(&mut self, peer: Peer, tag: i32, total: u64) -> CallId {
        self.post_with(post(Direction::ToClient, peer, tag, total))
    }

    /// Posts an operation that must be registered.
    pub(super) fn registered(
        &mut self,
        direction: Direction,
        peer: Peer,
        tag: i32,
        total: u64,
    ) -> PluginId {
        let call = self.post_with(post(direction, peer, tag, total));
        self.plugin(call)
    }

    /// Returns the plugin's id of a post.
    pub(super) fn plugin(&self, call: CallId) -> PluginId {
        match self.answers.get(&call) {
            Some(Answer::Registered(plugin)) => *plugin,
            other => panic!("not registered: {other:?}"),
        }
    }

    pub(super) fn arrived(&mut self, grant: GrantId) {
        self.engine.transfer_arrived(self.now, grant);
        self.collect_outputs();
    }

    pub(super) fn acknowledged(&mut self, grant: GrantId) {
        self.engine.transfer_acknowledged(self.now, grant, Ok(()));
        self.collect_outputs();
    }

    pub(super) fn server_test(&mut self, selection: Selection, timeout: Duration) -> CallId {
        let call = CallId(self.name());
        let test = ServerTest {
            selection,
            timeout,
            wake_on_unexpected: true,
        };
        self.engine.server_test(self.now, self.session, call, test);
        self.collect_outputs();
        call
    }

    /// Tests for any completions. Returns the engine's ids and the results.
    pub(super) fn collect(&mut self) -> Vec<(PluginId, Result<u64, Errno>)> {
        let call = CallId(self.name());
        let selection = Selection::Any(usize::MAX);
        let test = ServerTest {
            selection,
            timeout: Duration::ZERO,
            wake_on_unexpected: false,
        };
        self.engine.server_test(self.now, self.session, call, test);
        self.collect_outputs();
        completions(&self.answers[&call])
    }

    pub(super) fn unexp_test(&mut self, capacity: usize, timeout: Duration) -> CallId {
        let call = CallId(self.name());
        let test = UnexpTest {
            capacity,
            class: Class(0),
            timeout,
        };
        self.engine.unexp_test(self.now, self.session, call, test);
        self.collect_outputs();
        call
    }

    /// Fetches the unexpected messages.
    pub(super) fn fetch(&mut self) -> Vec<Message> {
        let call = self.unexp_test(usize::MAX, Duration::ZERO);
        messages(&self.answers[&call])
    }

    pub(super) fn free(&mut self, offset: u64) {
        self.engine.unexp_free(self.now, self.session, offset);
        self.collect_outputs();
    }

    pub(super) fn cancel(&mut self, plugin: PluginId) {
        self.engine.cancel(self.now, self.session, plugin);
        self.collect_outputs();
    }

    pub(super) fn reply(&self, peer: Peer, request: RequestId) -> Option<Reply> {
        self.replies.get(&(peer, request)).cloned()
    }

    pub(super) fn answer(&self, call: CallId) -> Option<Answer> {
        self.answers.get(&call).cloned()
    }

    pub(super) fn rejections(&self, reason: Rejection) -> u64 {
        self.engine.counters().rejections(reason)
    }
}

pub(super) fn post(direction: Direction, peer: Peer, tag: i32, total: u64) -> Post {
    let segments = vec![Segment {
        offset: EXPECTED,
        len: total,
    }];
    Post {
        direction,
        bmi: BmiId(77),
        peer,
        tag: Tag(tag),
        segments,
        total,
        not_immediate: false,
    }
}

pub(super) fn completions(answer: &Answer) -> Vec<(PluginId, Result<u64, Errno>)> {
    match answer {
        Answer::Completions { completions, .. } => completions
            .iter()
            .map(|done| (done.plugin, done.result))
            .collect(),
        other => panic!("no completions: {other:?}"),
    }
}

pub(super) fn messages(answer: &Answer) -> Vec<Message> {
    match answer {
        Answer::Messages { messages, .. } => messages.clone(),
        other => panic!("no messages: {other:?}"),
    }
}

pub(super) fn expects(direction: Direction, tag: i32, multiplicity: u32) -> TestEntry {
    TestEntry {
        kind: TestKind::Expected(direction, Tag(tag)),
        multiplicity,
    }
}

pub(super) fn sends(size: u64, multiplicity: u32) -> TestEntry {
    TestEntry {
        kind: TestKind::Unexpected { size },
        multiplicity,
    }
}
