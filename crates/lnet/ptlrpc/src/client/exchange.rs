//! One connection to one target: connect, questions, disconnect, with their timeouts, as a state machine without I/O.
//!
//! ```text
//!  step() ─▶ Send(bytes) ──┐             ┌─▶ Over: ending() says what is left on the server
//!    ▲                     ▼             │
//!    └── Wait(until) ◀── answer(), unsent(), stop()
//! ```
//!
//! One request is under way at a time. Whatever happens, the last request is a disconnect, unless the server
//! cannot have a connection of ours.

use std::time::Duration;

use lnet_types::Time;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::limits::Limits;
use super::log_reader::LogReader;
use super::request::{Envelope, Question, Service, TABLE_ROOM};
use crate::body::{Body, flags};
use crate::file_system::FileSystem;
use crate::message::{Message, early_checksum};
use crate::opcode::portal;
use crate::rules::SecurityRules;
use crate::text::Release;
use crate::view::View;

/// How often a request is sent.
const TIMES: u32 = 2;

/// How many times its limit a request may take whose server asks for more time.
const EARLY_TIMES: u32 = 3;

/// How often a busy server is asked again, and after which time.
const BUSY: (u32, Duration) = (3, Duration::from_secs(2));

/// The distance between two xids.
const XID_STEP: u64 = 128;

/// The server has no such target, and so no connection to it.
const ENODEV: i32 = -19;
const EINPROGRESS: i32 = -115;
const ENOTCONN: i32 = -107;
/// The errors of a connect that say that the server has a connection of this client.
const CONNECTED: [i32; 2] = [-114, -16];

/// A connection of ours on a server. It is written down before the first request leaves, so that a later run can end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The kind of target.
    pub service: Service,
    /// The name of the target, with `_UUID`; `MGS` for the MGS.
    pub target: String,
    /// The name of this client.
    pub uuid: String,
    /// The handle of this client.
    pub handle: u64,
    /// The server's handle of the connection; 0 before the first reply.
    pub cookie: u64,
    /// The generation of the connection.
    pub conn_cnt: u32,
}

impl Export {
    /// Returns a connection that no server has yet. The names must be random: a target's own name as `uuid` would pass
    /// checks that are there for clients.
    #[must_use]
    pub fn new(service: Service, target: &str, uuid: String, handle: u64) -> Self {
        Self {
            service,
            target: target.to_owned(),
            uuid,
            handle: handle.max(1),
            cookie: 0,
            conn_cnt: 0,
        }
    }
}

/// What a server grants to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The flags.
    pub flags: u64,
    /// The release of the server.
    pub release: Release,
    /// The number of the target's start.
    pub instance: u32,
}

/// What a target says of its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    /// The state: 1 degraded, 2 read-only, 4 no new objects, 0x20 no space, 0x40 no inodes.
    pub state: u32,
}

/// A request to be sent as a PUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The portal of the request.
    pub portal: u32,
    /// The portal at which the reply is awaited.
    pub reply_portal: u32,
    /// The match bits of the request, of the reply and of the bulk.
    pub match_bits: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The bulk that the server puts before it replies.
    pub bulk: Option<AwaitedBulk>,
}

/// Bulk that a server puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedBulk {
    /// The portal at which it is awaited.
    pub portal: u32,
    /// The most bytes.
    pub room: usize,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Await a reply at the reply portal, and bulk where there is some, and then send. What an earlier request awaited comes
    /// no more.
    Send(Outgoing),
    /// Wait for an answer, at most until then.
    Wait(Time),
    /// All is done.
    Over,
}

/// What the server has of this client in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing.
    Clean,
    /// Perhaps this connection, because the disconnect was not answered.
    Left(Export),
}

/// What is asked between connect and disconnect.
#[derive(Debug)]
enum Script {
    Log(Box<LogReader>),
    Knock {
        has_pinged: bool,
        statfs: Option<Statfs>,
    },
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Asking,
    Disconnecting,
    Over,
}

#[derive(Debug)]
struct Pending {
    question: Question,
    xid: u64,
    sent: u32,
    begun: Time,
    /// When it was sent last.
    sent_at: Time,
    until: Time,
    is_to_send: bool,
}

/// When a conversation begins, and with which numbers.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Larger than any xid of this machine before: seconds since 1970, times 2^20.
    pub first_xid: u64,
    /// How long it may take.
    pub limits: Limits,
    /// The time.
    pub now: Time,
}

/// One connection to one target.
#[derive(Debug)]
pub struct Exchange {
    export: Export,
    script: Script,
    stage: Stage,
    pending: Option<Pending>,
    next_xid: u64,
    limits: Limits,
    not_before: Time,
    ends: Time,
    is_stopping: bool,
    busy: u32,
    may_reconnect: bool,
    has_connected: bool,
    /// The connects that a server may have taken: all that were sent, without those that surely never left.
    connects: u32,
    ending: Ending,
    /// What the server has put for the request that is under way.
    bulk: Vec<u8>,
    granted: Option<Granted>,
    failure: Option<Failure>,
    strays: u64,
    /// The connects that another NID of the server is asked instead.
    turns: usize,
}

impl Exchange {
    /// Begins the conversation that reads the configuration of a file system from an MGS.
    #[must_use]
    pub fn read_log(export: Export, fs: &str, start: Start) -> Self {
        let script = Script::Log(Box::new(LogReader::new(fs)));
        Self::new(export, script, start)
    }

    /// Begins the conversation that asks a target whether it serves.
    #[must_use]
    pub fn knock(export: Export, start: Start) -> Self {
        let script = Script::Knock {
            has_pinged: false,
            statfs: None,
        };
        Self::new(export, script, start)
    }

    /// Begins the conversation that ends a connection of an earlier run: the server finds it by the name of the client.
    #[must_use]
    pub fn end(export: Export, start: Start) -> Self {
        Self::new(export, Script::Nothing, start)
    }

    fn new(export: Export, script: Script, start: Start) -> Self {
        let limits = start.limits.with(export.service);
        let ending = match export.conn_cnt {
            0 => Ending::Clean,
            _ => Ending::Left(export.clone()),
        };
        let connects = u32::from(export.conn_cnt > 0);
        Self {
            export,
            script,
            stage: Stage::Connecting,
            pending: None,
            next_xid: (start.first_xid & !(XID_STEP - 1)).max(XID_STEP),
            limits,
            not_before: start.now,
            ends: start.now + limits.whole,
            is_stopping: false,
            busy: 0,
            may_reconnect: true,
            has_connected: false,
            connects,
            ending,
            bulk: Vec::new(),
            granted: None,
            failure: None,
            strays: 0,
            turns: 0,
        }
    }

    /// Returns what to do next.
    pub fn step(&mut self, now: Time) -> Step {
        loop {
            if self.stage == Stage::Over {
                return Step::Over;
            }
            if now >= self.ends && self.stage != Stage::Disconnecting {
                self.fail(Failure::Late(self.limits.whole), now);
                continue;
            }
            match &self.pending {
                None if now < self.not_before => return Step::Wait(self.not_before),
                None => self.ask(now),
                Some(pending) if pending.is_to_send => return self.send(now),
                Some(pending) if now < pending.until => {
                    return Step::Wait(pending.until.min(self.ends.max(now)));
                }
                Some(_) => self.expire(now),
            }
        }
    }

    /// Takes the next question.
    fn ask(&mut self, now: Time) {
        let question = match self.stage {
            Stage::Connecting => Some(Question::Connect),
            Stage::Asking => self.script.question(),
            Stage::Disconnecting => Some(Question::Disconnect),
            Stage::Over => return,
        };
        let Some(question) = question else {
            self.disconnect(now);
            return;
        };
        if question == Question::Connect {
            self.export.conn_cnt += 1;
        }
        let xid = self.take_xid();
        let limit = self.limit(&question);
        self.bulk.clear();
        self.pending = Some(Pending {
            question,
            xid,
            sent: 0,
            begun: now,
            sent_at: now,
            until: (now + limit).min(self.ends),
            is_to_send: true,
        });
    }

    fn take_xid(&mut self) -> u64 {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(XID_STEP).max(XID_STEP);
        xid
    }

    fn limit(&self, question: &Question) -> Duration {
        match question {
            Question::Connect => self.limits.connect,
            Question::Disconnect => self.limits.connect / TIMES,
            _ => self.limits.request,
        }
    }

    fn send(&mut self, now: Time) -> Step {
        let Some(pending) = &mut self.pending else {
            return Step::Over;
        };
        pending.is_to_send = false;
        pending.sent += 1;
        pending.sent_at = now;
        if pending.question == Question::Connect {
            // From now on the server may have a connection, whether or not its reply comes.
            self.connects = self.connects.saturating_add(1);
            self.ending = Ending::Left(self.export.clone());
        }
        let service = self.export.service;
        let envelope = Envelope {
            service,
            target: &self.export.target,
            uuid: &self.export.uuid,
            handle: self.export.handle,
            cookie: self.export.cookie,
            conn_cnt: self.export.conn_cnt,
            is_resent: pending.sent > 1,
        };
        Step::Send(Outgoing {
            portal: service.request_portal(),
            reply_portal: service.reply_portal(),
            match_bits: pending.xid,
            bytes: pending.question.encode(&envelope),
            bulk: matches!(pending.question, Question::Whereabouts(..)).then_some(AwaitedBulk {
                portal: portal::MGS_BULK,
                room: TABLE_ROOM,
            }),
        })
    }

    /// The reply did not come in time: the request is sent once more, a connect as the next generation.
    fn expire(&mut self, now: Time) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        let limit = self.limit(&pending.question);
        // A disconnect is tried again however little time is left.
        let fits = match self.stage {
            Stage::Disconnecting => now < self.ends,
            _ => now + limit <= self.ends,
        };
        if pending.sent < TIMES && !self.is_stopping && fits {
            if pending.question == Question::Connect {
                pending = self.turn(pending);
            }
            pending.until = (now + limit).min(self.ends);
            pending.is_to_send = true;
            self.pending = Some(pending);
            return;
        }
        let opc = pending.question.opc(self.export.service);
        let after = now.saturating_since(pending.begun);
        self.fail(Failure::NoReply { opc, after }, now);
    }

    /// Makes a connect the next generation, for the next NID of the server.
    fn turn(&mut self, mut pending: Pending) -> Pending {
        self.turns = self.turns.saturating_add(1);
        pending.xid = self.take_xid();
        self.export.conn_cnt += 1;
        pending
    }

    /// The request that was to be sent last surely never left, or nothing was there that could take it: if it is the only
    /// connect, the server has no connection.
    pub fn never_left(&mut self) {
        let is_sent = |pending: &&Pending| !pending.is_to_send;
        let sent = self.pending.as_ref().filter(is_sent);
        if sent.is_some_and(|pending| pending.question == Question::Connect) {
            self.connects = self.connects.saturating_sub(1);
            if self.connects == 0 {
                self.ending = Ending::Clean;
            }
        }
    }

    /// The NID to which the connect went is lost: the connect goes to the next one. Returns whether that is so; if not, no
    /// connect is under way, or no time is left for one, and nothing has changed.
    pub fn hand_over(&mut self, now: Time) -> bool {
        let until = now + self.limits.connect;
        if self.is_stopping || until > self.ends {
            return false;
        }
        let is_connect = |pending: &mut Pending| pending.question == Question::Connect;
        let Some(pending) = self.pending.take_if(is_connect) else {
            return false;
        };
        let mut pending = self.turn(pending);
        // What never left was not sent.
        pending.sent = pending.sent.saturating_sub(1);
        pending.until = until;
        pending.is_to_send = true;
        self.pending = Some(pending);
        true
    }

    /// Returns how many NIDs were passed over: the request that is under way goes to the NID behind them, and behind the last
    /// NID comes the first.
    #[must_use]
    pub const fn turns(&self) -> usize {
        self.turns
    }

    /// Returns whether the server has not accepted the connection so far.
    #[must_use]
    pub fn is_connecting(&self) -> bool {
        self.stage == Stage::Connecting
    }

    /// Takes bulk, which comes before the reply.
    pub fn bulk(&mut self, match_bits: u64, bytes: &[u8]) {
        let awaited = self.pending.as_ref();
        if awaited.is_some_and(|pending| pending.xid == match_bits) {
            self.bulk = bytes.to_vec();
        } else {
            self.stray();
        }
    }

    /// Counts a message that answers nothing that was asked, such as one of a node that was not asked.
    pub const fn stray(&mut self) {
        self.strays = self.strays.saturating_add(1);
    }

    /// Takes a reply: its match bits, the bytes at hand, and its length on the wire.
    // [PTLRPC-23]
    pub fn answer(&mut self, match_bits: u64, bytes: &[u8], wire_len: usize, now: Time) {
        let awaited = self.pending.as_ref().filter(|pending| !pending.is_to_send);
        if awaited.is_none_or(|pending| pending.xid != match_bits) {
            return self.stray();
        }
        let message = match Message::parse_head(bytes, wire_len) {
            Ok(message) => message,
            Err(error) => return self.garbage(error.to_string(), now),
        };
        let Some(body) = Body::of(&message).filter(|body| !body.is_request()) else {
            return self.garbage("it has no body of a reply".to_owned(), now);
        };
        if message.count() == 1 && message.checksum() != 0 {
            return self.early(&message, &body);
        }
        let opc = self.asked();
        if body.opc() != opc && (body.opc() != 0 || body.status() == 0) {
            return self.garbage(format!("it answers operation {}", body.opc()), now);
        }
        let Some(pending) = self.pending.take() else {
            return;
        };
        self.handle(pending, &message, &body, now);
    }

    /// The server needs more time, and says how much since the request was sent. The time for the whole stays what it is,
    /// and one request takes a few times its limit at most.
    // [PTLRPC-7]
    fn early(&mut self, message: &Message<'_>, body: &Body<'_>) {
        let bytes = message.buffer(0).unwrap_or(View::little(&[]));
        if early_checksum(bytes.bytes()) != message.checksum() {
            return;
        }
        let limit = self
            .pending
            .as_ref()
            .map(|pending| self.limit(&pending.question));
        if let (Some(pending), Some(limit)) = (&mut self.pending, limit) {
            let said = pending.sent_at + Duration::from_secs(body.timeout().into());
            let most = (pending.begun + limit.saturating_mul(EARLY_TIMES)).min(self.ends);
            pending.until = pending.until.max(said.min(most));
        }
    }

    fn handle(&mut self, pending: Pending, message: &Message<'_>, body: &Body<'_>, now: Time) {
        let status = body.status();
        let again = now + BUSY.1;
        let may_wait = self.busy < BUSY.0 && again < self.ends && !self.is_stopping;
        if status == EINPROGRESS && may_wait {
            self.busy += 1;
            self.not_before = again;
            return;
        }
        let is_banned = body.flags() & flags::BANNED != 0;
        let opc = pending.question.opc(self.export.service);
        let refused = Failure::Refused {
            opc,
            status,
            is_banned,
        };
        match pending.question {
            Question::Disconnect => {
                if status == 0 || status == ENOTCONN {
                    self.ending = Ending::Clean;
                }
                self.stage = Stage::Over;
            }
            Question::Connect if status == 0 => self.connected(opc, message, body, now),
            Question::Connect => {
                // Of several connects, an earlier one may have been executed, and its reply lost.
                let is_only = self.connects == 1 && !CONNECTED.contains(&status);
                if is_only || status == ENODEV {
                    self.ending = Ending::Clean;
                }
                self.note(refused);
                self.stage = Stage::Over;
            }
            _ if status == ENOTCONN && self.may_reconnect => {
                self.may_reconnect = false;
                self.stage = Stage::Connecting;
            }
            question => {
                let bulk = std::mem::take(&mut self.bulk);
                let taken = self
                    .script
                    .answer(&question, status, message, &bulk, refused);
                if let Err(failure) = taken {
                    self.fail(failure, now);
                } else if question == Question::Statfs && self.statfs().is_none() {
                    let what = "it has no state".to_owned();
                    self.fail(Failure::Garbage { opc, what }, now);
                }
            }
        }
    }

    fn connected(&mut self, opc: u32, message: &Message<'_>, body: &Body<'_>, now: Time) {
        self.export.cookie = body.handle();
        self.has_connected = true;
        self.ending = Ending::Left(self.export.clone());
        let data = message.buffer(1).unwrap_or(View::little(&[]));
        match (data.u64(0), data.u32(8)) {
            (Some(flags), Some(release)) => {
                self.granted = Some(Granted {
                    flags,
                    release: Release(release),
                    instance: data.u32(60).unwrap_or_default(),
                });
            }
            _ => {
                let what = "it does not say what is granted".to_owned();
                self.note(Failure::Garbage { opc, what });
            }
        }
        if self.stage == Stage::Connecting {
            self.stage = Stage::Asking;
        }
        if self.failure.is_some() || self.is_stopping {
            self.disconnect(now);
        }
    }

    /// Notes the first failure. What is asked behind the logs is no more than useful, and fails nothing.
    // [PTLRPC-24]
    fn note(&mut self, failure: Failure) {
        if failure == Failure::Stopped || !self.has_logs() {
            self.failure.get_or_insert(failure);
        }
    }

    const fn has_logs(&self) -> bool {
        match &self.script {
            Script::Log(reader) => reader.has_logs(),
            Script::Knock { .. } | Script::Nothing => false,
        }
    }

    /// Returns the opcode of the request that is under way.
    fn asked(&self) -> u32 {
        let pending = self.pending.as_ref();
        pending.map_or(0, |pending| pending.question.opc(self.export.service))
    }

    fn garbage(&mut self, what: String, now: Time) {
        let opc = self.asked();
        self.fail(Failure::Garbage { opc, what }, now);
    }

    /// The request could not be sent, or the way of the reply is gone.
    pub fn unsent(&mut self, why: &str, now: Time) {
        self.fail(Failure::Unsent(why.to_owned()), now);
    }

    /// This machine cannot go on: it says nothing about the server.
    pub fn unable(&mut self, why: &str, now: Time) {
        self.fail(Failure::Own(why.to_owned()), now);
    }

    /// Ends the conversation before its end: what is left is a disconnect, if the server has a connection.
    pub fn stop(&mut self, now: Time) {
        if self.stage != Stage::Disconnecting {
            self.fail(Failure::Stopped, now);
        }
    }

    fn fail(&mut self, failure: Failure, now: Time) {
        match self.stage {
            Stage::Over => return,
            Stage::Disconnecting => {
                // Its reply may still come, and finds nobody.
                self.pending = None;
                self.stage = Stage::Over;
                return;
            }
            Stage::Connecting | Stage::Asking => {}
        }
        let is_early = matches!(failure, Failure::Stopped | Failure::Late(_));
        self.note(failure);
        if is_early && !self.is_stopping && self.await_connect(now) {
            return;
        }
        self.pending = None;
        self.disconnect(now);
    }

    /// Waits a little for the reply to a connect, which has the handle that a disconnect needs.
    fn await_connect(&mut self, now: Time) -> bool {
        let grace = self.limits.connect / TIMES;
        let connect = self.pending.as_mut();
        let Some(connect) = connect.filter(|pending| pending.question == Question::Connect) else {
            return false;
        };
        connect.until = connect.until.min(now + grace);
        self.is_stopping = true;
        self.ends = now + self.limits.connect;
        true
    }

    /// Begins the last request. A server whose reply to the connect did not come may have a connection that has no
    /// handle here: it cannot be ended from here, and is named.
    fn disconnect(&mut self, now: Time) {
        self.not_before = now;
        self.ends = now + self.limits.connect;
        self.stage = match (&self.ending, self.has_connected) {
            (Ending::Left(_), true) => Stage::Disconnecting,
            _ => Stage::Over,
        };
    }

    /// Returns the connection as it is now, to be written down before each request leaves.
    #[must_use]
    pub const fn export(&self) -> &Export {
        &self.export
    }

    /// Returns what the server has of this client.
    #[must_use]
    pub const fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Returns what the server granted; `None` if it never accepted.
    #[must_use]
    pub const fn granted(&self) -> Option<&Granted> {
        self.granted.as_ref()
    }

    /// Returns why the questions were not answered; `None` if all were.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns the number of messages that answer nothing that was asked.
    #[must_use]
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Returns what the target says of its space.
    #[must_use]
    pub const fn statfs(&self) -> Option<Statfs> {
        match &self.script {
            Script::Knock { statfs, .. } => *statfs,
            Script::Log(_) | Script::Nothing => None,
        }
    }

    /// Returns the file system that the log describes, and the rules of security; also in part, if a
    /// [`Exchange::failure`] says so.
    #[must_use]
    pub fn log(&self) -> Option<(&FileSystem, &SecurityRules)> {
        match &self.script {
            Script::Log(reader) => Some((&reader.system, &reader.rules)),
            Script::Knock { .. } | Script::Nothing => None,
        }
    }
}

impl Script {
    fn question(&self) -> Option<Question> {
        match self {
            Self::Log(reader) => reader.question(),
            Self::Knock {
                has_pinged: false, ..
            } => Some(Question::Ping),
            Self::Knock { statfs: None, .. } => Some(Question::Statfs),
            Self::Knock { .. } | Self::Nothing => None,
        }
    }

    fn answer(
        &mut self,
        question: &Question,
        status: i32,
        message: &Message<'_>,
        bulk: &[u8],
        refused: Failure,
    ) -> Result<(), Failure> {
        match self {
            Self::Log(reader) => reader.answer(status, message, bulk, refused),
            Self::Knock { .. } if status != 0 => Err(refused),
            Self::Knock { has_pinged, .. } if *question == Question::Ping => {
                *has_pinged = true;
                Ok(())
            }
            Self::Knock { statfs, .. } => {
                let state = message.buffer(1).and_then(|data| data.u32(104));
                *statfs = state.map(|state| Statfs { state });
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }
}
