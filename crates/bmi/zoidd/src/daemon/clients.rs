//! Connections of clients: converts frames to calls of the engine.

use std::io::ErrorKind;
use std::mem;
use std::time::Duration;

use mio::{Interest, Token};
use sys::peer_credentials;
use tracing::{debug, info, warn};
use zoid_proto::Status;
use zoid_proto::fwd::{
    self, Caps, Frame, FrameFlags, FrameHeader, FrameType, Hello, PROTOCOL_VERSION, RecvReq,
    SendInline, SendReq, TestReq, Welcome,
};

use super::{CLIENTS, Daemon};
use crate::client::{Client, Input, Received, RequestKind, Stream, Violation};
use crate::failpoint::Place;
use crate::zbmi::{
    Attach, Attached, Class, Departure, Direction, Errno, GrantId, JobId, Peer, Pid, PreviousStay,
    RecvRequest, RequestId, SendKind, SendRequest, Tag, TestEntry, TestKind, TestRequest,
};

/// The most bytes that one client moves per turn and direction: one chunk.
pub(super) const SLICE: usize = 4 << 20;

/// The most reads per turn, so that a client with many small frames does not starve others.
const READS: usize = 16;

/// Most turns of reading from a client that takes no more output. What it sent before its connection broke takes fewer;
/// one that only shut its connection down for reading could go on for ever.
const LAST_READS: usize = 16;

/// The number of connections beyond the limit of clients; they receive an error.
const SPARE: usize = 64;

/// The payload that follows a frame.
enum Payload {
    Data(fwd::Data),
    Credited(u32),
    None,
}

impl Daemon {
    /// Accepts all waiting connections.
    pub(super) fn accept(&mut self, tcp: bool) {
        loop {
            let listener = match (tcp, &self.tcp) {
                (false, _) => &self.unix,
                (true, Some(listener)) => listener,
                (true, None) => return,
            };
            match listener.accept() {
                Ok(stream) => self.connect(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if let Some(left_out) = self.log_limiter.admit("accept", self.now()) {
                        warn!(%error, left_out, "cannot accept a connection; see `ulimit -n`");
                    }
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn connect(&mut self, mut stream: Stream) {
        if self.clients.len() >= self.options.max_clients.saturating_add(SPARE)
            || !self.is_welcome(&stream)
        {
            self.counters.connections_refused += 1;
            return;
        }
        let entry = self.clients.vacant_entry();
        let key = entry.key();
        let registry = self.poll.registry();
        let token = Token(CLIENTS + key);
        if let Err(error) = registry.register(&mut stream, token, Interest::READABLE) {
            warn!(%error, "cannot watch a connection");
            self.counters.connections_refused += 1;
            return;
        }
        entry.insert(Client::new(
            stream,
            crate::zbmi::Time::after(self.start.elapsed()),
        ));
        self.counters.connections += 1;
        self.enqueue(key);
    }

    /// Returns whether the peer may connect. The socket's mode excludes other users, except root and the
    /// configured group.
    fn is_welcome(&mut self, stream: &Stream) -> bool {
        let Stream::Unix(stream) = stream else {
            return true;
        };
        let Ok(peer) = peer_credentials(stream) else {
            return false;
        };
        let welcome = peer.user == sys::effective_user() || peer.user == 0;
        if !welcome && self.options.group.is_none() {
            if let Some(left_out) = self.log_limiter.admit("another user", self.now()) {
                warn!(
                    user = peer.user,
                    left_out, "rejected a connection of another user"
                );
            }
            return false;
        }
        true
    }

    pub(super) fn client_event(&mut self, key: usize, event: &mio::event::Event) {
        if let Some(client) = self.clients.get_mut(key) {
            client.read_closed |= event.is_read_closed() || event.is_error();
            client.readable |= event.is_readable() || client.read_closed;
            client.writable |= event.is_writable();
            self.enqueue(key);
        }
    }

    /// Polls for room while output waits. Otherwise the daemon would be woken for every frame that a client
    /// reads.
    fn watch_for_room(&mut self, key: usize) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let waits = !client.writable && !client.output.is_empty();
        if waits == client.awaits_room {
            return;
        }
        client.awaits_room = waits;
        let interest = match waits {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        let registry = self.poll.registry();
        let token = Token(CLIENTS + key);
        if let Err(error) = registry.reregister(&mut client.stream, token, interest) {
            warn!(%error, "cannot watch a connection");
            self.lose(key, Departure::Broken);
        }
    }

    /// Queues a client for a turn.
    pub(super) fn enqueue(&mut self, key: usize) {
        if let Some(client) = self.clients.get_mut(key)
            && !client.queued
        {
            client.queued = true;
            self.ready.push_back(key);
        }
    }

    /// Serves a client for one turn. Returns the number of bytes moved.
    pub(super) fn serve_client(&mut self, key: usize) -> usize {
        if let Some(client) = self.clients.get_mut(key) {
            client.queued = false;
        }
        self.client_first = true;
        let moved = self.read(key) + self.copy(key) + self.write(key);
        self.client_first = false;
        self.answer_deferred();
        self.watch_for_room(key);
        let Some(client) = self.clients.get(key) else {
            return moved;
        };
        if client.closing && client.output.is_empty() {
            self.lose(key, Departure::Broken);
            return moved;
        }
        // The poll does not report what an earlier read left, or what came while too much output waited.
        let unread = client.readable || client.has_frame();
        let reads = unread && !client.closing && !client.output.is_backed_up();
        if reads || client.has_copies() || (client.writable && !client.output.is_empty()) {
            self.enqueue(key);
        }
        moved
    }

    /// Sends the server the answers of a client's turn after the client's output. The client then wakes first
    /// and asks for its next message before the server posts it, and the server's post completes at once.
    fn answer_deferred(&mut self) {
        for (session, call, answer) in mem::take(&mut self.deferred) {
            self.answer(session, call, answer);
        }
        self.pump();
    }

    fn read(&mut self, key: usize) -> usize {
        let mut moved = 0;
        for _ in 0..READS {
            self.frames(key);
            let Some(client) = self.clients.get_mut(key) else {
                return moved;
            };
            let full = client.closing || client.output.is_backed_up();
            if !client.readable || full || moved >= SLICE {
                return moved;
            }
            match client.receive(&mut self.nowhere) {
                Ok(received) => moved += self.received(key, received),
                Err(error) if error.kind() == ErrorKind::WouldBlock => client.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    debug!(%error, key, "a client's connection broke");
                    self.lose(key, Departure::Broken);
                }
            }
        }
        moved
    }

    /// Reports received bytes to the engine. Returns their number.
    fn received(&mut self, key: usize, received: Received) -> usize {
        let now = self.now();
        let (bytes, transfer) = match received {
            Received::End => {
                self.lose(key, Departure::Broken);
                return 0;
            }
            Received::Bytes(bytes) => (bytes, None),
            Received::Payload {
                bytes,
                grant,
                arrived,
            } => (bytes, Some((GrantId(grant), arrived))),
        };
        self.counters.bytes_in += bytes as u64;
        if let Some(client) = self.clients.get_mut(key) {
            client.heard = now;
        }
        let Some((grant, has_arrived)) = transfer else {
            return bytes;
        };
        // The whole message of a fast sender may arrive in one read.
        self.options.failpoints.pass(Place::AmidArrival);
        if has_arrived {
            self.engine.transfer_arrived(now, grant);
        } else {
            self.engine.transfer_progressed(now, grant);
        }
        self.pump();
        bytes
    }

    /// Writes as much output as the system takes. Returns the number of bytes.
    fn write(&mut self, key: usize) -> usize {
        let mut moved = 0;
        while moved < SLICE {
            let Some(client) = self.clients.get_mut(key).filter(|client| client.writable) else {
                break;
            };
            match client.output.write(&client.stream) {
                None => break,
                Some(Ok(wrote)) => {
                    moved += wrote.bytes;
                    self.wrote(key, wrote);
                }
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                    client.writable = false
                }
                Some(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Some(Err(error)) => {
                    debug!(%error, key, "a client's connection broke");
                    self.hear_last_words(key);
                    self.lose(key, Departure::Broken);
                    break;
                }
            }
        }
        moved
    }

    /// Reads what a client sent before it closed its connection: an acknowledgement completes a message that arrived,
    /// and a goodbye is one. What waits for the client goes nowhere, so it does not keep the daemon from reading.
    // [DEATH-9]
    fn hear_last_words(&mut self, key: usize) {
        for _ in 0..LAST_READS {
            let Some(client) = self.clients.get_mut(key) else {
                return;
            };
            client.discard_output();
            client.readable = true;
            let moved = self.read(key);
            let is_backed_up = |client: &Client| client.output.is_backed_up();
            if moved == 0 && !self.clients.get(key).is_some_and(is_backed_up) {
                return;
            }
        }
    }

    fn wrote(&mut self, key: usize, wrote: crate::client::Wrote) {
        self.counters.bytes_out += wrote.bytes as u64;
        let now = self.now();
        if let Some(grant) = wrote.grant {
            self.options.failpoints.pass(Place::AmidDelivery);
            self.engine.transfer_progressed(now, GrantId(grant));
            // A client that reads a long message is alive, even if it sends nothing.
            if let Some(client) = self.clients.get_mut(key) {
                client.heard = now;
            }
        }
    }

    /// Handles the complete frames.
    fn frames(&mut self, key: usize) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        // Taken out, so that a frame can be borrowed from it while the client changes.
        let mut input = mem::take(&mut client.input);
        while let Some(client) = self.clients.get(key) {
            if client.in_payload() || client.closing || client.output.is_backed_up() {
                break;
            }
            match self.next_frame(key, &mut input) {
                Ok(true) => {}
                Ok(false) => break,
                Err((request, violation)) => self.violate(key, request, violation),
            }
        }
        if let Some(client) = self.clients.get_mut(key) {
            client.input = input;
        }
    }

    // [SAFE-4]
    fn next_frame(&mut self, key: usize, input: &mut Input) -> Result<bool, (u32, Violation)> {
        let (header, frame) = match input.next() {
            Ok(None) => return Ok(false),
            Ok(Some((header, body))) => (header, Frame::decode(&header, body)),
            Err(error) => {
                debug!(%error, key, "not a frame");
                return Err((0, Violation::Malformed));
            }
        };
        self.counters.frames_in += 1;
        let in_frame = |violation| (header.request, violation);
        let frame = frame.map_err(|error| {
            debug!(%error, key, "malformed frame");
            in_frame(Violation::Malformed)
        })?;
        let payload = self.frame(key, &header, &frame).map_err(in_frame)?;
        self.pump();
        let Some(client) = self.clients.get_mut(key) else {
            return Ok(false);
        };
        let len = header.payload_len;
        let received = match payload {
            Payload::None => None,
            Payload::Data(data) => client.data(data, len, input).map_err(in_frame)?,
            Payload::Credited(request) => client.credited(request, len, input).map_err(in_frame)?,
        };
        if let Some(received) = received {
            self.received(key, received);
        }
        Ok(true)
    }

    fn frame(
        &mut self,
        key: usize,
        header: &FrameHeader,
        frame: &Frame<'_>,
    ) -> Result<Payload, Violation> {
        let Some(client) = self.clients.get_mut(key) else {
            return Ok(Payload::None);
        };
        let peer = match (frame, client.peer) {
            (Frame::Hello(hello), None) => {
                self.hello(key, header, hello);
                return Ok(Payload::None);
            }
            // [FWD-10]
            (Frame::Hello(_), Some(_)) | (_, None) => return Err(Violation::Introduction),
            (_, Some(peer)) => peer,
        };
        let now = self.now();
        match frame {
            Frame::SendReq(send) => return self.send_request(key, peer, header, send),
            Frame::SendInline(send) => self.send_inline(key, peer, header, send)?,
            Frame::Data(data) => return Ok(Payload::Data(*data)),
            Frame::RecvReq(recv) => self.recv_request(key, peer, header, recv)?,
            Frame::TestReq(test) => self.test_request(key, peer, header, test)?,
            Frame::Abort { grant } => {
                if self.client_mut(key, |client| client.abort(*grant))? {
                    self.engine.transfer_aborted(now, GrantId(*grant));
                }
            }
            Frame::RecvAck { grant } => {
                if self.client_mut(key, |client| client.acknowledge(*grant))? {
                    let result = acknowledged(header.status);
                    self.engine
                        .transfer_acknowledged(now, GrantId(*grant), result);
                }
            }
            Frame::Places(places) => self.places(key, header, places)?,
            Frame::Wake => self.engine.wake(now, peer, RequestId(header.request)),
            Frame::Ping => {
                let pong = FrameHeader::new(FrameType::PONG, header.request);
                self.push(key, pong, &Frame::Pong);
            }
            Frame::Pong => {}
            // [FWD-15]
            Frame::Bye => self.lose(key, Departure::Orderly),
            _ => return Err(Violation::Malformed),
        }
        Ok(Payload::None)
    }

    fn client_mut(
        &mut self,
        key: usize,
        act: impl FnOnce(&mut Client) -> Result<bool, Violation>,
    ) -> Result<bool, Violation> {
        self.clients.get_mut(key).map_or(Ok(false), act)
    }

    fn hello(&mut self, key: usize, header: &FrameHeader, hello: &Hello) {
        let previous = Pid(u32::try_from(hello.previous_pid).unwrap_or(u32::MAX));
        let attach = Attach {
            uuid: hello.uuid,
            job: JobId(hello.job),
            previous: (hello.previous_epoch != 0).then_some(PreviousStay {
                epoch: hello.previous_epoch,
                pid: previous,
            }),
        };
        // [FWD-11]
        if hello.common_version().is_none() {
            info!(
                process = hello.unix_pid,
                "a client supports no version of this daemon"
            );
            return self.turn_away(key, header, Status::PROTOCOL);
        }
        let now = self.now();
        match self.engine.client_attached(now, attach) {
            Ok(attached) => {
                self.counters.reconnections += u64::from(hello.previous_epoch != 0);
                self.welcome(key, header, hello, attached);
            }
            Err(errno) => self.turn_away(key, header, super::outputs::status(errno)),
        }
    }

    fn turn_away(&mut self, key: usize, header: &FrameHeader, status: Status) {
        let header = FrameHeader::new(FrameType::WELCOME, header.request).with_status(status);
        let nothing = Welcome {
            epoch: self.segment.epoch(),
            heartbeat_ms: milliseconds(self.options.heartbeat),
            version: PROTOCOL_VERSION,
            ..Welcome::default()
        };
        self.push(key, header, &Frame::Welcome(nothing));
        if let Some(client) = self.clients.get_mut(key) {
            client.closing = true;
        }
    }

    fn welcome(&mut self, key: usize, header: &FrameHeader, hello: &Hello, attached: Attached) {
        let mark = self.reach(key, hello);
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        client.peer = Some(attached.peer);
        client.credits = attached.credits > 0;
        client.quiet = hello.caps.contains(Caps::QUIET);
        let mut caps = Caps::MULTIPLEX | Caps::QUIET;
        caps.set(Caps::INLINE, self.segment.takes_writes());
        caps.set(Caps::CLIENT_MEMORY, mark.is_some());
        caps.set(Caps::REATTACH, !self.options.reattach.is_zero());
        caps.set(Caps::REATTACHED, attached.reattached);
        // [FWD-13] [FWD-40]
        let welcome = Welcome {
            pid: i32::try_from(attached.peer.pid.0).unwrap_or(-1),
            epoch: self.segment.epoch(),
            server_session: self.engine.session().map_or(0, |session| session.0),
            max_unexpected: self.options.max_unexpected,
            max_expected: self.options.max_expected,
            heartbeat_ms: milliseconds(self.options.heartbeat),
            credits: attached.credits,
            caps: caps & hello.caps,
            version: PROTOCOL_VERSION,
        };
        self.keys.insert(attached.peer, key);
        debug!(
            pid = attached.peer.pid.0,
            process = hello.unix_pid,
            "client attached"
        );
        self.options.failpoints.pass(Place::BeforeWelcome);
        let header = FrameHeader::new(FrameType::WELCOME, header.request).with_status(Status::DONE);
        let frame = Frame::Welcome(welcome);
        self.push(key, header, &frame);
        self.push_mark(key, mark);
    }

    fn send_request(
        &mut self,
        key: usize,
        peer: Peer,
        header: &FrameHeader,
        send: &SendReq,
    ) -> Result<Payload, Violation> {
        let inline = header.flags.contains(FrameFlags::INLINE);
        let expected = send.kind == fwd::MessageKind::Expected;
        let payload = if inline { send.total } else { 0 };
        if header.payload_len != payload || (inline && expected) {
            return Err(Violation::Payload);
        }
        let request = self.request(key, header, RequestKind::Send)?;
        let kind = match send.kind {
            fwd::MessageKind::Expected => SendKind::Expected,
            fwd::MessageKind::Unexpected => SendKind::Unexpected {
                class: Class(send.class),
                inline,
            },
        };
        self.engine
            .send(self.now(), peer, request, send_of(kind, send));
        Ok(match inline {
            true => Payload::Credited(header.request),
            false => Payload::None,
        })
    }

    /// Handles a request with its message. The engine treats it as any other, and learns that the message has
    /// arrived as soon as there is a place for it.
    fn send_inline(
        &mut self,
        key: usize,
        peer: Peer,
        header: &FrameHeader,
        send: &SendInline<'_>,
    ) -> Result<(), Violation> {
        let request = self.request(key, header, RequestKind::Send)?;
        if let Some(client) = self.clients.get_mut(key) {
            client.keep_inline(header.request, send.message)?;
        }
        let send = &send.request;
        let kind = match send.kind {
            fwd::MessageKind::Expected => SendKind::Expected,
            fwd::MessageKind::Unexpected => SendKind::Unexpected {
                class: Class(send.class),
                inline: false,
            },
        };
        self.engine
            .send(self.now(), peer, request, send_of(kind, send));
        Ok(())
    }

    fn recv_request(
        &mut self,
        key: usize,
        peer: Peer,
        header: &FrameHeader,
        recv: &RecvReq,
    ) -> Result<(), Violation> {
        let request = self.request(key, header, RequestKind::Recv)?;
        let recv = RecvRequest {
            tag: Tag(recv.tag),
            capacity: recv.capacity,
            timeout: Duration::from_millis(recv.timeout_ms.into()),
        };
        self.engine.recv(self.now(), peer, request, recv);
        Ok(())
    }

    fn test_request(
        &mut self,
        key: usize,
        peer: Peer,
        header: &FrameHeader,
        test: &TestReq<'_>,
    ) -> Result<(), Violation> {
        let request = self.request(key, header, RequestKind::Test)?;
        let now = self.now();
        let timeout = Duration::from_millis(test.timeout_ms.into());
        let entries = test.entries.iter().map(test_entry).collect();
        let due = self
            .clients
            .get_mut(key)
            .is_some_and(|client| client.tests.test(now, timeout));
        if due {
            self.counters.advice += 1;
            info!(
                pid = peer.pid.0,
                "this client tests more than 100 times a second, and each test is an exchange \
                 with the I/O node: longer timeouts, or BMI_ZOID_POST_TIMEOUT, are meant for that"
            );
        }
        self.engine
            .test(now, peer, request, TestRequest { entries, timeout });
        Ok(())
    }

    /// Records which frame will answer this request.
    fn request(
        &mut self,
        key: usize,
        header: &FrameHeader,
        kind: RequestKind,
    ) -> Result<RequestId, Violation> {
        let Some(client) = self.clients.get_mut(key) else {
            return Err(Violation::RequestId);
        };
        // [FWD-20]
        if header.request == 0 || client.requests.contains_key(&header.request) {
            return Err(Violation::RequestId);
        }
        client.requests.insert(header.request, kind);
        Ok(RequestId(header.request))
    }

    /// Queues a frame for a client.
    pub(super) fn push(&mut self, key: usize, header: FrameHeader, frame: &Frame<'_>) {
        if let Some(client) = self.clients.get_mut(key)
            && !client.closing
        {
            client.output.push(header, frame);
            self.enqueue(key);
        }
    }

    /// Handles a violation: sends an error to the client and closes its connection.
    // [FWD-7]
    fn violate(&mut self, key: usize, request: u32, violation: Violation) {
        self.counters.violate(violation);
        let rule = violation.name();
        if let Some(left_out) = self.log_limiter.admit(rule, self.now()) {
            warn!(key, rule, left_out, "a client broke the protocol");
        }
        let attached = self
            .clients
            .get(key)
            .is_some_and(|client| client.peer.is_some());
        let (reply, frame) = match attached {
            true => (FrameType::SEND_DONE, Frame::SendDone),
            false => (FrameType::WELCOME, Frame::Welcome(Welcome::default())),
        };
        let header = FrameHeader::new(reply, request).with_status(Status::PROTOCOL);
        self.push(key, header, &frame);
        if let Some(client) = self.clients.get_mut(key) {
            client.closing = true;
        }
        // Writes what fits; the rest is dropped.
        self.write(key);
        self.lose(key, Departure::Broken);
    }

    /// Disconnects a client, on request of the server.
    // [OPT-10]
    pub(super) fn disconnect(&mut self, pid: Pid) {
        let peer = self.engine.peer(pid);
        if let Some(key) = peer.and_then(|peer| self.keys.get(&peer).copied()) {
            self.lose(key, Departure::Orderly);
        }
    }

    /// Removes a client.
    pub(super) fn lose(&mut self, key: usize, how: Departure) {
        let Some(mut client) = self.clients.try_remove(key) else {
            return;
        };
        // If this fails, closing the descriptor has the same effect.
        let _closed_soon = self.poll.registry().deregister(&mut client.stream);
        if let Some(peer) = client.peer {
            self.keys.remove(&peer);
            debug!(pid = peer.pid.0, ?how, "client gone");
            self.engine.client_lost(self.now(), peer, how);
            self.pump();
        }
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// Converts a client's acknowledgement. A client that could not accept its message sends an error, and the
/// server's operation fails.
fn acknowledged(status: Status) -> Result<(), Errno> {
    match status {
        status if !status.is_error() => Ok(()),
        Status::MESSAGE_SIZE => Err(Errno::MessageSize),
        Status::PROTOCOL => Err(Errno::Protocol),
        _ => Err(Errno::ConnectionReset),
    }
}

const fn send_of(kind: SendKind, send: &SendReq) -> SendRequest {
    SendRequest {
        kind,
        tag: Tag(send.tag),
        total: send.total,
        timeout: Duration::from_millis(send.timeout_ms as u64),
        order: send.order,
    }
}

fn test_entry(entry: fwd::TestEntry) -> TestEntry {
    let kind = match entry {
        fwd::TestEntry::Send { tag, .. } => TestKind::Expected(Direction::ToServer, Tag(tag)),
        fwd::TestEntry::Recv { tag, .. } => TestKind::Expected(Direction::ToClient, Tag(tag)),
        fwd::TestEntry::Unexpected { size, .. } => TestKind::Unexpected { size },
    };
    TestEntry {
        kind,
        multiplicity: entry.multiplicity(),
    }
}
