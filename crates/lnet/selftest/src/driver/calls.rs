//! RPCs that this node begins: the request, the reply, the bulk.
//!
//! ```text
//!   begin ── ME for the reply, ME for the bulk, PUT of the request
//!     │
//!   events ─ reply here, bulk here, request gone ──▶ ended
//!     │
//!   too late, or one of them failed ── cancel the others ──▶ ended, when the node has given everything back
//! ```
//!
//! A reply may overtake its bulk, which travels on another connection. So an RPC has ended only when all its
//! descriptors are gone.

use std::sync::mpsc::Sender;
use std::time::Duration;

use bytes::Bytes;
use lnet_node::{
    Errno, EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Memory, Node, NodeError,
    NodeEvent, PutRequest,
};
use lnet_types::{ProcessId, Time};
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::counting::TestNodeCounters;
use super::rooms::Rooms;
use super::tag::{Part, Tag};
use crate::load::Work;
use crate::pattern::{self, Check};
use crate::wire::{Body, MESSAGE_LEN, Message, Order, PING_MAGIC, Service};

/// Why an RPC has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The reply did not arrive in time.
    #[error("no reply in time")]
    TimedOut,
    /// The RPC was aborted.
    #[error("aborted")]
    Aborted,
    /// The network could not deliver the request, the reply or the bulk.
    #[error("cannot be sent (errno {})", .0.0)]
    Network(Errno),
    /// The reply is not valid.
    #[error("the reply cannot be read")]
    BadReply,
    /// The local node rejected the RPC.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
}

impl CallError {
    /// Returns the errno that stands for this error.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::TimedOut => Errno::ETIMEDOUT,
            Self::Aborted => Errno(4),
            Self::Network(errno) => *errno,
            Self::BadReply => Errno::EPROTO,
            Self::Node(_) => Errno::EIO,
        }
    }
}

/// The channel to the program's thread that waits, and the place of this RPC among those that the program asked
/// for.
pub(super) struct Waiter {
    pub(super) to: Sender<(usize, Result<Body, CallError>)>,
    pub(super) number: usize,
}

/// The party that began an RPC, which gets its result.
pub(super) enum Owner {
    /// A program.
    Caller(Waiter),
    /// A generator: the number of the generator, and the unit.
    Unit(u64, u32),
}

/// An RPC that is to begin.
pub(super) struct Start {
    pub(super) owner: Owner,
    pub(super) target: ProcessId,
    pub(super) features: u32,
    pub(super) body: Body,
    /// The data that the server fetches.
    pub(super) source: Option<Bytes>,
    /// The operation, if a generator began the RPC. A read gets memory for the bytes that the server puts.
    pub(super) work: Option<Work>,
    pub(super) timeout: Duration,
}

/// An RPC that has ended.
pub(super) struct Done {
    pub(super) owner: Owner,
    pub(super) work: Option<Work>,
    pub(super) result: Result<Body, CallError>,
    pub(super) is_data_good: bool,
    pub(super) latency: Duration,
}

struct Call {
    owner: Owner,
    work: Option<Work>,
    service: Service,
    /// The number of the ping, if the RPC is a ping.
    sequence: u32,
    began: Time,
    deadline: Time,
    reply: Option<MdHandle>,
    bulk: Option<MdHandle>,
    request: Option<MdHandle>,
    result: Option<Result<Body, CallError>>,
    /// The memory of a read after the bulk has arrived.
    room: Option<Vec<u8>>,
    moved: u32,
}

/// The RPCs that this node began and that have not ended.
pub(super) struct Calls {
    node: Node,
    queue: EventQueue,
    calls: FxHashMap<u64, Call>,
    numbers: u64,
    /// The next match bits of a reply or of bulk, unique on their portal.
    ids: u64,
    rooms: Rooms,
}

impl Calls {
    /// Makes an empty set. The match bits begin with the seconds of the wall clock.
    // [LST-3]
    pub(super) fn new(node: Node, queue: EventQueue, seconds: u64) -> Self {
        Self {
            node,
            queue,
            calls: FxHashMap::default(),
            numbers: 0,
            ids: (seconds << 48) | 1,
            rooms: Rooms::default(),
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.calls.len()
    }

    /// Begins an RPC. Returns the result at once if the RPC cannot begin.
    pub(super) fn begin(
        &mut self,
        start: Start,
        now: Time,
        counters: &mut TestNodeCounters,
    ) -> Option<Done> {
        counters.sent += 1;
        let number = self.numbers;
        self.numbers += 1;
        let service = start.body.service().unwrap_or(Service::DEBUG);
        let mut call = Call {
            owner: start.owner,
            work: start.work,
            service,
            sequence: match &start.body {
                Body::PingRequest(ping) => ping.sequence,
                _ => 0,
            },
            began: now,
            deadline: now + start.timeout,
            reply: None,
            bulk: None,
            request: None,
            result: None,
            room: None,
            moved: 0,
        };
        let bulk = match (start.source, start.work) {
            (Some(data), _) => Some(Md::source(data).options(MdOptions::OP_GET)),
            (None, Some(Work::Read(len, check))) => {
                let room = self.rooms.sink(len, check);
                Some(room.options(MdOptions::OP_PUT))
            }
            (None, _) => None,
        };
        let message = Message::new(start.features, start.body);
        if let Err(error) = self.send(number, &mut call, message, start.target, bulk) {
            call.fail(CallError::Node(error), &self.node);
        }
        self.calls.insert(number, call);
        self.finish(number, now, counters)
    }

    // [LST-1]
    fn send(
        &mut self,
        number: u64,
        call: &mut Call,
        mut message: Message,
        target: ProcessId,
        bulk: Option<Md>,
    ) -> Result<(), NodeError> {
        let (reply_id, bulk_id) = (self.ids, self.ids + 1);
        self.ids += 1 + u64::from(bulk.is_some());
        message
            .body
            .set_ids(reply_id, bulk.is_some().then_some(bulk_id));
        let entry = |match_bits| MatchEntry {
            match_id: target,
            ..MatchEntry::exact(Service::REPLY_PORTAL, match_bits)
        };
        let tag = |part| Tag { part, number }.value();
        let reply = Md::sink(vec![0; MESSAGE_LEN])
            .options(MdOptions::OP_PUT)
            .threshold(1)
            .user(tag(Part::Reply));
        call.reply = Some(self.node.attach(&self.queue, entry(reply_id), reply)?);
        if let Some(bulk) = bulk {
            let bulk = bulk.threshold(1).user(tag(Part::Bulk));
            call.bulk = Some(self.node.attach(&self.queue, entry(bulk_id), bulk)?);
        }
        let request = Md::source(message.encode().to_vec())
            .threshold(1)
            .user(tag(Part::Request));
        let md = self.node.bind(&self.queue, request)?;
        call.request = Some(md);
        self.node.put(PutRequest {
            md,
            ack: false,
            source: None,
            target,
            portal: call.service.portal(),
            match_bits: call.service.0.into(),
            offset: 0,
            hdr_data: 0,
        })
    }

    /// Handles an event of one of an RPC's descriptors. Returns the result if the RPC has ended with this
    /// event.
    pub(super) fn event(
        &mut self,
        part: Part,
        number: u64,
        event: NodeEvent,
        now: Time,
        counters: &mut TestNodeCounters,
    ) -> Option<Done> {
        let call = self.calls.get_mut(&number)?;
        let is_last = event.event.unlinked;
        match part {
            Part::Reply => call.reply_event(event, &self.node),
            Part::Bulk => call.bulk_event(event, &self.node),
            _ => {
                if let Err(errno) = event.event.status {
                    call.fail(CallError::Network(errno), &self.node);
                }
            }
        }
        if is_last {
            let md = match part {
                Part::Reply => &mut call.reply,
                Part::Bulk => &mut call.bulk,
                _ => &mut call.request,
            };
            *md = None;
        }
        self.finish(number, now, counters)
    }

    /// Removes an RPC that has no descriptor at the node any more, and returns its result.
    fn finish(&mut self, number: u64, now: Time, counters: &mut TestNodeCounters) -> Option<Done> {
        let call = self.calls.get(&number)?;
        let is_idle = call.reply.is_none() && call.bulk.is_none() && call.request.is_none();
        if !is_idle {
            return None;
        }
        let call = self.calls.remove(&number)?;
        let result = call.result.unwrap_or(Err(CallError::BadReply));
        let is_data_good = match (call.work, &call.room) {
            (Some(Work::Read(len, check)), Some(room)) => {
                call.moved == len && pattern::is_good(room, check, Order::Little)
            }
            (Some(Work::Read(len, Check::Discard)), None) => call.moved == len,
            (Some(Work::Read(..)), None) => false,
            _ => true,
        };
        if !is_data_good && result.as_ref().is_ok_and(|body| body.status() == Some(0)) {
            counters.bad_data += 1;
        }
        if result.is_err() {
            counters.failed += 1;
        }
        counters.expired += u64::from(matches!(result, Err(CallError::TimedOut)));
        if let Some(room) = call.room {
            self.rooms.free(room);
        }
        Some(Done {
            owner: call.owner,
            work: call.work,
            result,
            is_data_good,
            latency: now.saturating_since(call.began),
        })
    }

    /// Fails the RPCs whose deadline has passed. Each of them ends when the node has given back its
    /// descriptors.
    // [LST-6]
    pub(super) fn expire(&mut self, now: Time) {
        for call in self.calls.values_mut() {
            if call.deadline <= now && call.result.is_none() {
                call.fail(CallError::TimedOut, &self.node);
            }
        }
    }

    /// Takes everything back from the node. The programs that wait get no result.
    pub(super) fn forget(&mut self) {
        for (_, mut call) in self.calls.drain() {
            call.fail(CallError::Aborted, &self.node);
        }
    }

    /// Aborts the RPCs that a generator has under way.
    pub(super) fn abort(&mut self, generator: u64) {
        for call in self.calls.values_mut() {
            if matches!(call.owner, Owner::Unit(of, _) if of == generator) {
                call.fail(CallError::Aborted, &self.node);
            }
        }
    }
}

impl Call {
    /// Notes an error as the result, and cancels the remaining descriptors of the RPC.
    fn fail(&mut self, error: CallError, node: &Node) {
        if !matches!(self.result, Some(Err(_))) {
            self.result = Some(Err(error));
        }
        for md in [self.reply, self.bulk, self.request].into_iter().flatten() {
            // If the descriptor is gone already, its last event is in the queue.
            let _gone = node.cancel(md);
        }
    }

    fn reply_event(&mut self, event: NodeEvent, node: &Node) {
        if event.event.kind != EventKind::Put {
            return;
        }
        let bytes = event.memory.map(Memory::into_vec).unwrap_or_default();
        let length = event.event.mlength as usize;
        let reply = match event.event.status {
            Ok(()) => self.reply_in(bytes.get(..length).unwrap_or_default()),
            Err(errno) => Err(CallError::Network(errno)),
        };
        match reply {
            Ok(body) => {
                // A server that rejects the request does not move the bulk.
                if body.status() != Some(0)
                    && let Some(bulk) = self.bulk
                {
                    let _gone = node.cancel(bulk);
                }
                self.result.get_or_insert(Ok(body));
            }
            Err(error) => {
                self.reply = None;
                self.fail(error, node);
            }
        }
    }

    /// Decodes a reply. It must be of this service, and answer this request.
    fn reply_in(&self, bytes: &[u8]) -> Result<Body, CallError> {
        let (message, _) = Message::decode(bytes).map_err(|_| CallError::BadReply)?;
        let is_fitting = match (self.service, &message.body) {
            (Service::PING, Body::PingReply(ping)) => {
                ping.status != 0 || ping.magic == PING_MAGIC && ping.sequence == self.sequence
            }
            (Service::BULK, Body::BulkReply(_))
            | (Service::DEBUG, Body::DebugReply(_))
            | (Service::MAKE_SESSION, Body::MakeReply(_))
            | (Service::REMOVE_SESSION, Body::RemoveReply(_))
            | (Service::BATCH, Body::BatchReply(_))
            | (Service::TEST, Body::TestReply(_))
            | (Service::STAT, Body::StatReply(_)) => true,
            _ => false,
        };
        if is_fitting {
            Ok(message.body)
        } else {
            Err(CallError::BadReply)
        }
    }

    fn bulk_event(&mut self, event: NodeEvent, node: &Node) {
        let is_data = matches!(event.event.kind, EventKind::Put | EventKind::Get);
        if is_data {
            self.moved = event.event.mlength;
        }
        if let Some(Memory::Sink(room)) = event.memory {
            self.room = Some(room);
        }
        if let (true, Err(errno)) = (is_data, event.event.status) {
            self.bulk = None;
            self.fail(CallError::Network(errno), node);
        }
    }
}
