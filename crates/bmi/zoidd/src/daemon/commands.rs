//! Commands of the server: from the control queue to calls of the engine, and answers back.
//!
//! An invalid command is counted, and answered with EINVAL if its header says where to. It has no other
//! effect.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use sys::{MessageQueue, QueueAccess};
use tracing::{debug, info, warn};
use zoid_proto::ctl::{
    self, COMPLETIONS_PER_REPLY, COUNTERS_PER_REPLY, CTL_MESSAGE_LEN, Init, InitReply, Opcode,
    PostOutcome, Reply, ReplyHeader, Request, RequestHeader, TestReply, TestSelection,
    UNEXPECTED_PER_REPLY, UnexpectedMessage,
};
use zoid_proto::fwd::Event;
use zoid_proto::{Array, Extent, Item, List, Status};

use super::outputs::status;
use super::{Daemon, SERVER, SLOTS};
use crate::failpoint::Place;
use crate::home::{Entry, remove_replies};
use crate::metrics::Sample;
use crate::server::{Sent, Server, slot_of};
use crate::zbmi::{
    Answer, BmiId, CallId, Class, Departure, Direction, Errno, Peer, Pid, PluginId, Post, Segment,
    Selection, ServerTest, Session, Tag, UnexpTest,
};

/// The most commands handled before the clients' turns.
const COMMANDS: usize = 64;

/// The interval of the daemon's heartbeats in milliseconds, as INIT reports it.
const BEAT_MS: u32 = 100;

/// The longest list in the segment that is read for a command, in bytes.
const SCRATCH_MAX: usize = 1 << 20;

impl Daemon {
    /// Handles the waiting commands.
    pub(super) fn serve_commands(&mut self) {
        let mut message = [0; CTL_MESSAGE_LEN];
        for _ in 0..COMMANDS {
            match self.control.try_receive(&mut message) {
                Ok(len) => {
                    self.counters.commands += 1;
                    self.command(message.get(..len).unwrap_or_default());
                    self.pump();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        warn!(%error, "cannot read the control queue");
                    }
                    self.commands_waiting = false;
                    return;
                }
            }
        }
        self.commands_waiting = true;
    }

    fn command(&mut self, message: &[u8]) {
        let header = match RequestHeader::decode(message) {
            Ok(header) => header,
            Err(error) => return self.bad_command(&error),
        };
        let request = Request::decode(&header, message);
        if let Ok(Request::Init(init)) = &request {
            return self.init(&header, init);
        }
        let current = self.server.as_ref().map(|server| server.session);
        // [CTL-13]
        if current != Some(Session(header.session)) {
            // The reply queues of an unknown session are unknown as well, so nothing can be answered.
            return self.bad_command(&"no such session");
        }
        match request {
            Ok(request) if !request.is_answered() => self.unanswered(&header, &request),
            Ok(Request::PostSend(post)) if header.slot.is_none() => {
                self.announced(&header, Direction::ToClient, &post);
            }
            Ok(Request::PostRecv(post)) if header.slot.is_none() => {
                self.announced(&header, Direction::ToServer, &post);
            }
            Ok(request) => self.call(&header, &request),
            Err(error) => {
                self.bad_command(&error);
                let known = (1..=Opcode::LAST.0).contains(&header.opcode.0);
                let status = if known {
                    Status::INVALID
                } else {
                    Status::NO_SYSTEM
                };
                if let Some(call) = self.begin(header) {
                    self.reject(call, status);
                }
            }
        }
    }

    // [CTL-14]
    fn bad_command(&mut self, why: &dyn std::fmt::Display) {
        self.counters.bad_commands += 1;
        debug!(%why, "a command is invalid or cannot be answered");
    }

    fn unanswered(&mut self, header: &RequestHeader, request: &Request<'_>) {
        let (now, session) = (self.now(), Session(header.session));
        match request {
            Request::UnexpectedFree { offset } => self.engine.unexp_free(now, session, *offset),
            Request::Cancel { plugin_id } => {
                self.engine.cancel(now, session, PluginId(*plugin_id));
            }
            Request::Recall { bmi_id } => self.engine.recall(now, session, BmiId(*bmi_id)),
            _ => self.engine.server_wake(session),
        }
    }

    fn call(&mut self, header: &RequestHeader, request: &Request<'_>) {
        let Some(call) = self.begin(*header) else {
            return self.bad_command(&"no usable reply slot");
        };
        let (now, session) = (self.now(), Session(header.session));
        match request {
            Request::PostSend(post) => self.post(session, call, Direction::ToClient, post),
            Request::PostRecv(post) => self.post(session, call, Direction::ToServer, post),
            Request::Test(test) => self.server_test(session, call, test),
            Request::UnexpectedTest(test) => {
                let test = UnexpTest {
                    capacity: (test.capacity as usize).min(UNEXPECTED_PER_REPLY),
                    class: Class(test.class),
                    timeout: Duration::from_millis(test.idle_ms.into()),
                };
                self.engine.unexp_test(now, session, call, test);
            }
            Request::DropPeer { peer, disconnect } => {
                let pid = Pid(u32::try_from(*peer).unwrap_or(u32::MAX));
                if *disconnect {
                    self.disconnect(pid);
                }
                let result = self.engine.drop_peer(session, pid);
                self.reply(
                    call,
                    result.err().map_or(Status::NONE, status),
                    &Reply::Empty,
                );
            }
            Request::Fini => {
                self.server_left(Departure::Orderly);
                self.reply(call, Status::NONE, &Reply::Empty);
                self.forget_server(false);
            }
            Request::Stat { first } => self.stat(call, *first),
            _ => self.reject(call, Status::NO_SYSTEM),
        }
    }

    /// Assigns a call id. An older call on the same slot is no longer waited for.
    fn begin(&mut self, header: RequestHeader) -> Option<CallId> {
        let server = self.server.as_mut()?;
        let session = server.session;
        let (call, older) = server.begin(&self.options.instance, header)?;
        if let Some(older) = older {
            self.engine.cancel_call(session, older);
        }
        Some(call)
    }

    fn post(&mut self, session: Session, call: CallId, direction: Direction, post: &ctl::Post<'_>) {
        match self.read_post(direction, post) {
            Ok(post) => self.engine.post(self.now(), session, call, post),
            Err(errno) => self.reject(call, status(errno)),
        }
    }

    /// Handles a post without an answer; an error becomes its completion.
    fn announced(&mut self, header: &RequestHeader, direction: Direction, post: &ctl::Post<'_>) {
        let (now, session) = (self.now(), Session(header.session));
        match self.read_post(direction, post) {
            Ok(post) => self.engine.announce(now, session, post),
            Err(errno) => self
                .engine
                .reject_announced(session, BmiId(post.bmi_id), errno),
        }
    }

    fn read_post(&self, direction: Direction, post: &ctl::Post<'_>) -> Result<Post, Errno> {
        let bytes = self.list(&post.segments).ok_or(Errno::Invalid)?;
        let extents = match (&post.segments, &bytes) {
            (Array::Inline(list), _) => *list,
            (Array::Spilled(_), bytes) => match List::<Extent>::decode("POST", bytes) {
                Ok(list) if post.check_total(&list).is_ok() => list,
                _ => return Err(Errno::Invalid),
            },
        };
        let segments = extents.iter().map(|extent| Segment {
            offset: extent.offset,
            len: extent.len,
        });
        let peer = u32::try_from(post.peer).ok();
        let peer = peer.and_then(|pid| self.engine.peer(Pid(pid)));
        Ok(Post {
            direction,
            bmi: BmiId(post.bmi_id),
            peer: peer.ok_or(Errno::ConnectionReset)?,
            tag: Tag(post.tag),
            segments: segments.collect(),
            total: post.total,
            not_immediate: post.not_immediate,
        })
    }

    fn server_test(&mut self, session: Session, call: CallId, test: &ctl::Test<'_>) {
        let selection = match &test.selection {
            TestSelection::Any { capacity } => {
                Selection::Any((*capacity as usize).min(COMPLETIONS_PER_REPLY))
            }
            TestSelection::These(ids) => {
                let Some(bytes) = self.list(ids) else {
                    return self.reject(call, Status::INVALID);
                };
                let list = match ids {
                    Array::Inline(list) => Ok(*list),
                    Array::Spilled(_) => List::<u64>::decode("TEST", &bytes),
                };
                match list {
                    Ok(list) => Selection::Ids(list.iter().map(PluginId).collect()),
                    Err(_) => return self.reject(call, Status::INVALID),
                }
            }
        };
        let test = ServerTest {
            selection,
            timeout: Duration::from_millis(test.timeout_ms.into()),
            wake_on_unexpected: test.wake_on_unexpected,
        };
        self.engine.server_test(self.now(), session, call, test);
    }

    /// Returns the bytes of a list in the segment; `None` for a list in the command.
    fn list<T: Item>(&self, array: &Array<'_, T>) -> Option<Vec<u8>> {
        match array {
            Array::Inline(_) => Some(Vec::new()),
            Array::Spilled(extent) => self.segment.scratch(*extent, SCRATCH_MAX),
        }
    }

    fn stat(&mut self, call: CallId, first: u32) {
        let samples = self.view().whole();
        let values: Vec<u64> = samples.iter().map(Sample::number).collect();
        let first = usize::try_from(first)
            .unwrap_or(usize::MAX)
            .min(values.len());
        let rest = values.get(first..).unwrap_or_default();
        let shown = rest
            .get(..rest.len().min(COUNTERS_PER_REPLY))
            .unwrap_or_default();
        let reply = Reply::Stat {
            // There are a few dozen.
            counters: values.len() as u32,
            values: List::new(shown),
        };
        self.reply(call, Status::NONE, &reply);
    }

    // ---- attaching and leaving ----

    // [CTL-10]
    fn init(&mut self, header: &RequestHeader, init: &Init<'_>) {
        self.look_after_server();
        self.supersede(init.unix_pid);
        let instance = &self.options.instance;
        if init.reply_queue != instance.reply_queue(init.unix_pid, 0) || header.slot != Some(0) {
            return self.bad_command(&"a reply queue that is not the server's");
        }
        let now = self.now();
        let session = match self.engine.server_attached() {
            Ok(session) => session,
            Err(errno) => return self.reject_server(header, init, status(errno)),
        };
        // Recorded before any of its further queues is opened, so that they can be removed after a crash.
        let start = sys::process_start(init.unix_pid).unwrap_or(0);
        let entry = Entry::Replies {
            process: init.unix_pid,
            start,
        };
        if let Err(error) = self.home.record(&entry) {
            warn!(%error, "a crash of this server may leave its queues behind");
        }
        let server = Server::new(session, init.unix_pid, now);
        if let Some(handle) = server.handle() {
            let (handle, interest) = (handle.as_raw_fd(), Interest::READABLE);
            let watched = self
                .poll
                .registry()
                .register(&mut SourceFd(&handle), SERVER, interest);
            if let Err(error) = watched {
                warn!(%error, "the end of the server's process is not watched");
            }
        }
        self.server = Some(server);
        self.segment.set_session(session.0);
        info!(
            process = init.unix_pid,
            session = session.0,
            "server attached"
        );
        self.pump();
        let Some(call) = self.begin(*header) else {
            return self.forget_server(true);
        };
        self.options.failpoints.pass(Place::BeforeInitReply);
        let reply = Reply::Init(self.init_reply(session));
        self.reply(call, Status::NONE, &reply);
        self.broadcast(Event::ServerAttached(session.0), Status::NONE);
    }

    /// Ends an earlier session of the same process. A process has one server per instance; if it attaches
    /// again, it has ended that session, for example because the answer to INIT came too late.
    fn supersede(&mut self, process: u32) {
        let attached = self.server.as_ref();
        if attached.is_some_and(|server| server.process == process) {
            self.server_left(Departure::Broken);
            self.forget_server(false);
        }
    }

    // [CTL-11]
    fn init_reply(&self, session: Session) -> InitReply {
        InitReply {
            session: session.0,
            epoch: self.segment.epoch(),
            total: self.options.total,
            unexpected: self.options.unexpected,
            max_unexpected: self.options.max_unexpected,
            max_expected: self.options.max_expected,
            heartbeat_ms: BEAT_MS,
            pset_capacity: u32::try_from(self.options.max_clients).unwrap_or(u32::MAX),
        }
    }

    /// Answers a server that cannot attach on its own queue, and closes the queue.
    fn reject_server(&mut self, header: &RequestHeader, init: &Init<'_>, status: Status) {
        info!(process = init.unix_pid, %status, "a server was rejected");
        let rejection = ReplyHeader::rejection(header, status, self.segment.epoch());
        let mut bytes = [0; ReplyHeader::LEN];
        let sent = MessageQueue::open(init.reply_queue, QueueAccess::Send).and_then(|queue| {
            rejection
                .encode(&mut bytes)
                .map_err(std::io::Error::other)?;
            queue.try_send(&bytes)
        });
        if let Err(error) = sent {
            debug!(%error, queue = init.reply_queue, "the reply could not be delivered");
        }
    }

    /// Checks whether the server's process has ended.
    // [DEATH-12]
    pub(super) fn look_after_server(&mut self) {
        let now = self.now();
        let ended = self
            .server
            .as_mut()
            .is_some_and(|server| server.has_ended(now));
        if ended {
            self.server_left(Departure::Broken);
            self.forget_server(true);
        }
    }

    // [FWD-14]
    fn server_left(&mut self, how: Departure) {
        let Some(server) = &self.server else { return };
        let session = server.session;
        info!(
            process = server.process,
            session = session.0,
            ?how,
            "server gone"
        );
        self.engine.server_lost(self.now(), session, how);
        self.pump();
        self.segment.set_session(0);
        // Clients distinguish FINI from a death: requests that a dead server has fetched are lost.
        let status = match how {
            Departure::Orderly => Status::NONE,
            Departure::Broken => Status::CONNECTION_RESET,
        };
        if status.is_error() {
            self.name_kept_messages();
        }
        self.broadcast(Event::ServerGone(session.0), status);
    }

    /// Tells clients which of their requests the next server will receive. The others are lost with this one.
    // [DEATH-16]
    fn name_kept_messages(&mut self) {
        let kept: Vec<(Peer, Tag)> = self.engine.unfetched().collect();
        for (peer, tag) in kept {
            if let Some(&key) = self.keys.get(&peer) {
                self.push_event(key, Event::Kept(tag.0), Status::NONE);
            }
        }
    }

    /// Forgets the server. A living server removes its queues itself; those of a dead one are removed here.
    fn forget_server(&mut self, dead: bool) {
        let Some(server) = self.server.take() else {
            return;
        };
        if self.engine.session() == Some(server.session) {
            self.engine
                .server_lost(self.now(), server.session, Departure::Broken);
            self.segment.set_session(0);
        }
        if let Some(handle) = server.handle() {
            let handle = handle.as_raw_fd();
            // If this fails, closing the descriptor has the same effect.
            let _closed_soon = self.poll.registry().deregister(&mut SourceFd(&handle));
        }
        if dead {
            remove_replies(&self.options.instance, server.process);
        }
    }

    // ---- answers ----

    fn reject(&mut self, call: CallId, status: Status) {
        self.reply(call, status, &Reply::Empty);
    }

    fn reply(&mut self, call: CallId, status: Status, reply: &Reply<'_>) {
        self.send_reply(call, status, reply, None);
    }

    /// Sends an answer of the engine. What does not fit or cannot be delivered goes back to the engine.
    pub(super) fn answer(&mut self, session: Session, call: CallId, answer: Answer) {
        match &answer {
            Answer::Registered(_) | Answer::Immediate(_) => {
                self.options.failpoints.pass(Place::BeforePostReply);
            }
            Answer::Completions { .. } | Answer::Messages { .. } => {
                self.options.failpoints.pass(Place::BeforeTestReply);
            }
            _ => {}
        }
        let (answer, rest) = split(answer);
        if let Some(rest) = rest {
            self.engine.undelivered(session, rest);
        }
        match &answer {
            Answer::Registered(PluginId(plugin_id)) => {
                let plugin_id = *plugin_id;
                let outcome = PostOutcome::Registered { plugin_id };
                self.send_reply(call, Status::NONE, &Reply::Post(outcome), None);
            }
            Answer::Immediate(len) => {
                let outcome = PostOutcome::Immediate { len: *len };
                self.send_reply(call, Status::NONE, &Reply::Post(outcome), None);
            }
            Answer::NoMemory => {
                self.send_reply(
                    call,
                    Status::NONE,
                    &Reply::Post(PostOutcome::NoMemory),
                    None,
                );
            }
            Answer::Completions {
                completions,
                unexpected_pending,
                woken,
            } => {
                let completions: Vec<_> = completions.iter().map(completion).collect();
                let reply = Reply::Test(TestReply {
                    unexpected_pending: *unexpected_pending,
                    woken: *woken,
                    completions: List::new(&completions),
                });
                self.send_reply(call, Status::NONE, &reply, Some(answer.clone()));
            }
            Answer::Messages { messages, .. } => {
                let messages: Vec<_> = messages.iter().map(message).collect();
                let reply = Reply::UnexpectedTest(List::new(&messages));
                self.send_reply(call, Status::NONE, &reply, Some(answer.clone()));
            }
            Answer::Failed(errno) => self.reject(call, status(*errno)),
        }
    }

    fn send_reply(
        &mut self,
        call: CallId,
        status: Status,
        reply: &Reply<'_>,
        answer: Option<Answer>,
    ) {
        let Some(server) = &mut self.server else {
            return;
        };
        let session = server.session;
        let Some(request) = server.end(call) else {
            if let Some(answer) = answer {
                self.engine.undelivered(session, answer);
            }
            return;
        };
        let header = ReplyHeader {
            session: session.0,
            ..ReplyHeader::rejection(&request, status, self.segment.epoch())
        };
        let mut bytes = vec![0; reply.encoded_len()];
        if let Err(error) = reply.encode(header, &mut bytes) {
            warn!(%error, "a reply cannot be written");
            return;
        }
        // Below REPLY_SLOTS.
        let slot = slot_of(call) as u32;
        let returned = match server.send(slot, bytes, answer) {
            Sent::Yes => return,
            Sent::Returned(answers) => answers,
            Sent::Waits(answers) => {
                self.counters.replies_delayed += 1;
                self.watch_slot(slot);
                answers
            }
        };
        for answer in returned {
            self.engine.undelivered(session, answer);
        }
    }

    /// Polls for room in a slot's queue.
    fn watch_slot(&mut self, slot: u32) {
        let Some(queue) = self.server.as_ref().and_then(|server| server.queue(slot)) else {
            return;
        };
        let queue = queue.as_fd().as_raw_fd();
        let (token, registry) = (Token(SLOTS + slot as usize), self.poll.registry());
        let mut source = SourceFd(&queue);
        let watched = registry
            .register(&mut source, token, Interest::WRITABLE)
            // The queue was registered before.
            .or_else(|_| registry.reregister(&mut source, token, Interest::WRITABLE));
        if let Err(error) = watched {
            warn!(%error, slot, "cannot watch a reply queue");
        }
    }

    /// Handles an event of a slot's queue, in which there may be room now.
    pub(super) fn reply_room(&mut self, slot: u32) {
        let Some(server) = &mut self.server else {
            return;
        };
        if let Err((error, answer)) = server.retry(slot)
            && error.kind() != ErrorKind::WouldBlock
        {
            let session = server.session;
            if let Some(answer) = answer {
                self.engine.undelivered(session, answer);
            }
        }
    }
}

/// Splits an answer into what fits in one reply and the rest.
fn split(answer: Answer) -> (Answer, Option<Answer>) {
    match answer {
        Answer::Completions {
            mut completions,
            unexpected_pending,
            woken,
        } if completions.len() > COMPLETIONS_PER_REPLY => {
            let rest = completions.split_off(COMPLETIONS_PER_REPLY);
            let first = Answer::Completions {
                completions,
                unexpected_pending,
                woken,
            };
            let rest = Answer::Completions {
                completions: rest,
                unexpected_pending,
                woken: false,
            };
            (first, Some(rest))
        }
        answer => (answer, None),
    }
}

fn completion(completion: &crate::zbmi::Completion) -> ctl::Completion {
    ctl::Completion {
        bmi_id: completion.bmi.0,
        outcome: completion.result.map_err(status),
    }
}

fn message(message: &crate::zbmi::Message) -> UnexpectedMessage {
    UnexpectedMessage {
        peer: i32::try_from(message.peer.pid.0).unwrap_or(-1),
        tag: message.tag.0,
        class: message.class.0,
        generation: message.peer.generation,
        offset: message.offset,
        size: message.size,
    }
}
