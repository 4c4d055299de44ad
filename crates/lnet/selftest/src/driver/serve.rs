//! RPCs for this node: request buffers, the answer to each request, and the bulk.
//!
//! ```text
//!   buffer ── request ──▶ refused, or answered ─────────────────────▶ reply ──▶ end
//!     ▲           │   └──▶ bulk, or a list of destinations, moves ──▶ reply ──▶ end
//!     └── again ──┘                                    └── fails ──────────────▶ end
//! ```
//!
//! The buffers only hold requests that this node has not read yet. An RPC, and the memory of its bulk, is charged to
//! its peer ([`Shares`]): a peer that does not read its replies, or does not send its bulk, keeps its share until
//! LNet's timeout, and the others have theirs. Requests beyond a share are dropped. Writes beyond it wait for memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use lnet_node::shares::{Payer, Shares};
use lnet_node::{
    Errno, EventQueue, GetRequest, MatchEntry, Md, MdHandle, MdOptions, Memory, Node, NodeError,
    NodeEvent, PutRequest,
};
use lnet_types::{Nid, ProcessId, Time};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counting::{Drops, TestNodeCounters, low};
use super::rooms::Rooms;
use super::tag::{Part, Tag};
use crate::framework::{Framework, Verdict};
use crate::load::Work;
use crate::pattern::{self, Check};
use crate::wire::{
    BULK_MAX, Body, BulkRequest, DecodeError, FEATURE_BULK_LEN, LnetCounters, MESSAGE_LEN, Message,
    Order, PING_MAGIC, PingReply, Service, TestRequest, VERSION, decode_destinations,
};

/// Request buffers of each framework service; consoles send one request at a time.
const FRAMEWORK_BUFFERS: usize = 16;
/// Request buffers of each test service: more than arrive between two turns of this node.
const TEST_BUFFERS: usize = 256;
/// The limit of RPCs of all peers: 64 of each of 250 clients, or a third of it of one client.
const CALLS_MAX: usize = 16_384;
/// The limit of writes that have memory, at most 1 MiB each; other writes wait.
const ROOMS_MAX: usize = 64;
/// How long a write waits for memory: as long as the clients of kernels wait for an answer.
const WAIT_MAX: Duration = Duration::from_secs(64);
/// Length of a page in requests without [`FEATURE_BULK_LEN`], in bytes.
const PAGE: u32 = 4096;

/// The server for RPCs of other nodes.
pub(super) struct Server {
    node: Node,
    queue: EventQueue,
    serving: FxHashMap<u64, Rpc>,
    /// Buffers that are posted, so that `close` can take them back.
    posted: FxHashSet<MdHandle>,
    numbers: u64,
    /// The numbers of writes that wait for memory, by peer, in the order of their arrival.
    waiting: BTreeMap<Payer, VecDeque<u64>>,
    /// The RPCs.
    calls: Shares,
    /// The writes that have memory.
    writes: Shares,
    rooms: Rooms,
    /// Good data in both byte orders, as long as bulk can be; made on first use.
    data: [Option<Bytes>; 2],
}

/// An RPC for this node.
struct Rpc {
    peer: ProcessId,
    payer: Payer,
    arrival: Time,
    /// The NID that the request was sent to; the reply is sent from this NID.
    local: Nid,
    order: Order,
    reply_id: u64,
    bulk: Moving,
    /// True if all of the bulk has moved.
    is_moved: bool,
}

/// The bulk of an RPC.
enum Moving {
    Nothing,
    /// This node sends it.
    Put(u32),
    /// This node fetches the bulk, at these match bits.
    Get(u64, u32, Check),
    /// The destinations of a test.
    Destinations(TestRequest),
}

impl Server {
    pub(super) fn new(node: Node, queue: EventQueue) -> Self {
        Self {
            node,
            queue,
            serving: FxHashMap::default(),
            posted: FxHashSet::default(),
            numbers: 0,
            waiting: BTreeMap::new(),
            calls: Shares::new(CALLS_MAX),
            writes: Shares::new(ROOMS_MAX),
            rooms: Rooms::default(),
            data: [None, None],
        }
    }

    /// Makes both portals lazy, so that they keep requests that find no buffer, and posts the request buffers.
    pub(super) fn open(&mut self) -> Result<(), NodeError> {
        for portal in [Service::TEST_PORTAL, Service::FRAMEWORK_PORTAL] {
            self.node.set_lazy(portal, true)?;
        }
        for service in Service::FRAMEWORK.into_iter().chain(Service::TESTS) {
            let count = match service.portal() {
                Service::TEST_PORTAL => TEST_BUFFERS,
                _ => FRAMEWORK_BUFFERS,
            };
            for _ in 0..count {
                self.post(service, vec![0; MESSAGE_LEN])?;
            }
        }
        Ok(())
    }

    /// Takes the buffers back. Later requests wait at the portals, as at a node without a test node.
    pub(super) fn close(&mut self) {
        for md in self.posted.drain() {
            // If a request is arriving in the buffer, the request is lost with it.
            let _gone = self.node.cancel(md);
        }
    }

    /// Returns the number of RPCs that have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.serving.len()
    }

    /// Returns good data of this length.
    pub(super) fn data(&mut self, len: u32, order: Order) -> Bytes {
        let at = usize::from(order == Order::Big);
        let data = self.data[at]
            .get_or_insert_with(|| Bytes::from(pattern::data(BULK_MAX as usize, order)));
        data.slice(..len.min(BULK_MAX) as usize)
    }

    fn post(&mut self, service: Service, buffer: Vec<u8>) -> Result<(), NodeError> {
        let entry = MatchEntry::exact(service.portal(), service.0.into());
        let tag = Tag {
            part: Part::Buffer,
            number: service.0.into(),
        };
        let md = Md::sink(buffer)
            .options(MdOptions::OP_PUT)
            .threshold(1)
            .user(tag.value());
        self.posted
            .insert(self.node.attach(&self.queue, entry, md)?);
        Ok(())
    }

    /// Posts a buffer for the next request. A node that rejects the buffer is shutting down.
    fn repost(&mut self, service: Service, buffer: Vec<u8>) {
        if let Err(error) = self.post(service, buffer) {
            tracing::debug!(%error, "cannot post a request buffer again");
        }
    }

    /// Handles a request that has arrived.
    pub(super) fn request(
        &mut self,
        service: Service,
        event: NodeEvent,
        framework: &mut Framework,
        now: Time,
        counters: &mut TestNodeCounters,
    ) {
        self.posted.remove(&event.event.md);
        let Some(Memory::Sink(buffer)) = event.memory else {
            return;
        };
        let length = event.event.mlength as usize;
        let decoded = match event.event.status {
            Ok(()) => decode(buffer.get(..length).unwrap_or_default(), service),
            Err(_) => Err((|drops| drops.length += 1) as Count),
        };
        self.repost(service, buffer);
        let (message, order) = match decoded {
            Ok(decoded) => decoded,
            Err(count) => return count(&mut counters.dropped),
        };
        let payer = Payer {
            source: event.event.source.nid,
            bringer: event.event.sender,
        };
        if !self.calls.has_room(payer) {
            counters.dropped.crowded += 1;
            return;
        }
        self.calls.take(payer, 1);
        counters.received += 1;
        let rpc = Rpc {
            peer: event.event.source,
            payer,
            arrival: now,
            local: event.event.target.nid,
            order,
            reply_id: message.body.reply_id().unwrap_or(0),
            bulk: Moving::Nothing,
            is_moved: false,
        };
        self.serve(rpc, &message, framework, now, counters);
    }

    fn serve(
        &mut self,
        rpc: Rpc,
        message: &Message,
        framework: &mut Framework,
        now: Time,
        counters: &mut TestNodeCounters,
    ) {
        let other_version = message.version != VERSION;
        match message.body {
            Body::BulkRequest(ref request) => match bulk(request, message) {
                Ok(work) if !other_version => self.bulk(rpc, request.bulk_id, work, counters),
                Ok(_) => self.answer(rpc, framework.features(), eproto(), counters),
                Err((features, errno)) => {
                    let features = features.unwrap_or(framework.features());
                    self.answer(rpc, features, Body::BulkReply(errno), counters);
                }
            },
            Body::PingRequest(ping) if ping.magic == PING_MAGIC => {
                let unknown = message.features & !FEATURE_BULK_LEN != 0;
                let errno = if unknown || other_version {
                    Errno::EPROTO.0.unsigned_abs()
                } else {
                    0
                };
                let reply = PingReply {
                    status: errno,
                    magic: ping.magic,
                    sequence: ping.sequence,
                };
                self.answer(rpc, framework.features(), Body::PingReply(reply), counters);
            }
            Body::PingRequest(_) => {
                counters.dropped.ping_magic += 1;
                self.end(&rpc);
            }
            _ => {
                let verdict = if other_version {
                    framework.other_version(&message.body)
                } else {
                    framework.handle(message, now)
                };
                self.carry_out(rpc, verdict, counters);
            }
        }
    }

    fn carry_out(&mut self, mut rpc: Rpc, verdict: Verdict, counters: &mut TestNodeCounters) {
        match verdict {
            Verdict::Reply(features, mut body) => {
                if let Body::StatReply(stat) = &mut body {
                    stat.rpc = counters.on_the_wire();
                    stat.lnet = self.node.look(lnet_counters);
                }
                self.answer(rpc, features, body, counters);
            }
            Verdict::Fetch(request, len) => {
                rpc.bulk = Moving::Destinations(request);
                let room = Md::sink(vec![0; len as usize]);
                self.fetch(rpc, request.bulk_id, room, counters);
            }
            Verdict::Drop => {
                counters.dropped.operation += 1;
                self.end(&rpc);
            }
        }
    }

    fn bulk(&mut self, mut rpc: Rpc, bulk_id: u64, work: Work, counters: &mut TestNodeCounters) {
        match work {
            Work::Read(len, _) => {
                rpc.bulk = Moving::Put(len);
                let data = self.data(len, rpc.order);
                self.send(rpc, Part::ServedBulk, bulk_id, data, counters);
            }
            Work::Write(len, check) => {
                rpc.bulk = Moving::Get(bulk_id, len, check);
                if self.writes.has_room(rpc.payer) {
                    self.fetch_write(rpc, counters);
                } else {
                    let payer = rpc.payer;
                    let number = self.keep(rpc);
                    self.waiting.entry(payer).or_default().push_back(number);
                }
            }
            Work::Ping => {}
        }
    }

    fn fetch_write(&mut self, rpc: Rpc, counters: &mut TestNodeCounters) {
        if let Moving::Get(bulk_id, len, check) = rpc.bulk {
            let room = self.rooms.sink(len, check);
            self.writes.take(rpc.payer, 1);
            self.fetch(rpc, bulk_id, room, counters);
        }
    }

    fn keep(&mut self, rpc: Rpc) -> u64 {
        self.numbers += 1;
        self.serving.insert(self.numbers, rpc);
        self.numbers
    }

    // [LST-14]
    fn fetch(&mut self, rpc: Rpc, bulk_id: u64, room: Md, counters: &mut TestNodeCounters) {
        let (target, source) = (rpc.peer, Some(rpc.local));
        let number = self.keep(rpc);
        let tag = Tag {
            part: Part::ServedBulk,
            number,
        };
        // The second operation is the REPLY.
        let md = room.threshold(2).user(tag.value());
        let bound = self.node.bind(&self.queue, md);
        let asked = bound.and_then(|md| {
            self.node.get(GetRequest {
                md,
                source,
                target,
                portal: Service::REPLY_PORTAL,
                match_bits: bulk_id,
                offset: 0,
            })
        });
        self.check(number, asked, counters);
    }

    fn send(
        &mut self,
        rpc: Rpc,
        part: Part,
        match_bits: u64,
        data: Bytes,
        counters: &mut TestNodeCounters,
    ) {
        let (target, source) = (rpc.peer, Some(rpc.local));
        let number = self.keep(rpc);
        let tag = Tag { part, number };
        let md = Md::source(data).threshold(1).user(tag.value());
        let bound = self.node.bind(&self.queue, md);
        let sent = bound.and_then(|md| {
            self.node.put(PutRequest {
                md,
                ack: false,
                source,
                target,
                portal: Service::REPLY_PORTAL,
                match_bits,
                offset: 0,
                hdr_data: 0,
            })
        });
        self.check(number, sent, counters);
    }

    /// Ends the RPC without a reply if the node rejected its operation: the node is shutting down.
    // [LST-22]
    fn check(
        &mut self,
        number: u64,
        begun: Result<(), NodeError>,
        counters: &mut TestNodeCounters,
    ) {
        if begun.is_err()
            && let Some(rpc) = self.serving.remove(&number)
        {
            counters.dropped.bulk += 1;
            if matches!(rpc.bulk, Moving::Get(..)) {
                self.writes.release(rpc.payer, 1);
            }
            self.end(&rpc);
        }
    }

    // [LST-2]
    fn answer(&mut self, mut rpc: Rpc, features: u32, body: Body, counters: &mut TestNodeCounters) {
        rpc.bulk = Moving::Nothing;
        let (reply_id, bytes) = (rpc.reply_id, Message::new(features, body).encode());
        let bytes = Bytes::copy_from_slice(&bytes);
        self.send(rpc, Part::ServedReply, reply_id, bytes, counters);
    }

    /// Handles an event of a reply.
    pub(super) fn reply_event(
        &mut self,
        number: u64,
        event: &NodeEvent,
        counters: &mut TestNodeCounters,
    ) {
        counters.replies_lost += u64::from(event.event.status.is_err());
        if event.event.unlinked
            && let Some(rpc) = self.serving.remove(&number)
        {
            self.end(&rpc);
        }
    }

    /// Handles an event of the bulk of an RPC.
    // [LST-23]
    pub(super) fn bulk_event(
        &mut self,
        number: u64,
        event: NodeEvent,
        framework: &mut Framework,
        now: Time,
        counters: &mut TestNodeCounters,
    ) {
        // The events of a GET come in either order; the memory comes with the last of them.
        if let Some(rpc) = self.serving.get_mut(&number) {
            rpc.is_moved |= event.event.status.is_ok() && is_data(&event, &rpc.bulk);
        }
        if !event.event.unlinked {
            return;
        }
        let Some(rpc) = self.serving.remove(&number) else {
            return;
        };
        // All RPCs share the data that is sent: to take it as a vector would copy it.
        let room = match event.memory {
            Some(Memory::Sink(room)) => room,
            _ => Vec::new(),
        };
        let (features, body) = match &rpc.bulk {
            _ if !rpc.is_moved => (0, None),
            Moving::Nothing => (0, None),
            Moving::Put(len) => {
                counters.bulk_put += u64::from(*len);
                (framework.features(), Some(Body::BulkReply(0)))
            }
            Moving::Get(_, len, check) => {
                counters.bulk_get += u64::from(*len);
                let is_good = pattern::is_good(&room, *check, rpc.order);
                counters.bad_data += u64::from(!is_good);
                let status = if is_good { 0 } else { EBADMSG };
                (framework.features(), Some(Body::BulkReply(status)))
            }
            Moving::Destinations(request) => {
                let list = decode_destinations(&room, rpc.order);
                let (features, body) = framework.add_client(request, list);
                (features, Some(body))
            }
        };
        if matches!(rpc.bulk, Moving::Get(..)) {
            self.writes.release(rpc.payer, 1);
            self.rooms.free(room);
        }
        match body {
            Some(body) => self.answer(rpc, features, body, counters),
            // The client's RPC expires by itself.
            None => {
                counters.dropped.bulk += 1;
                self.end(&rpc);
            }
        }
        self.begin_writes(now, counters);
    }

    /// Begins the writes that wait and have room, in the order of their arrival.
    fn begin_writes(&mut self, now: Time, counters: &mut TestNodeCounters) {
        while self.writes.used() < ROOMS_MAX
            && let Some(next) = self.next_write()
            && let Some(rpc) = self.serving.remove(&next)
        {
            if now.saturating_since(rpc.arrival) < WAIT_MAX {
                self.fetch_write(rpc, counters);
            } else {
                // The client's RPC has expired.
                counters.dropped.bulk += 1;
                self.end(&rpc);
            }
        }
    }

    /// Takes the oldest waiting write of a peer that may have more memory.
    fn next_write(&mut self) -> Option<u64> {
        let may_begin = |(payer, _): &(&Payer, _)| self.writes.has_room(**payer);
        let peers = self.waiting.iter().filter(may_begin);
        let (&payer, _) = peers.min_by_key(|(_, numbers)| numbers.front())?;
        let numbers = self.waiting.get_mut(&payer)?;
        let next = numbers.pop_front();
        if numbers.is_empty() {
            self.waiting.remove(&payer);
        }
        next
    }

    /// Gives back what an RPC was charged with.
    fn end(&mut self, rpc: &Rpc) {
        self.calls.release(rpc.payer, 1);
    }
}

/// Reports whether the event says that all of the bulk has moved.
fn is_data(event: &NodeEvent, bulk: &Moving) -> bool {
    use lnet_node::EventKind::{Reply, Send};
    let length = event.event.mlength;
    match bulk {
        Moving::Put(_) => event.event.kind == Send,
        Moving::Get(_, len, _) => event.event.kind == Reply && length == *len,
        Moving::Destinations(test) => {
            let len = test
                .destinations
                .saturating_mul(crate::wire::PROCESS_LEN as u32);
            event.event.kind == Reply && length == len
        }
        Moving::Nothing => false,
    }
}

/// A function that counts one kind of drop.
type Count = fn(&mut Drops);

// [LST-4]
fn decode(bytes: &[u8], service: Service) -> Result<(Message, Order), Count> {
    let (message, order) = Message::decode(bytes).map_err(|error| -> Count {
        match error {
            DecodeError::Length(_) => |drops| drops.length += 1,
            DecodeError::Magic(_) => |drops| drops.magic += 1,
            DecodeError::Type(_) => |drops| drops.message_type += 1,
        }
    })?;
    if message.body.service() == Some(service) {
        Ok((message, order))
    } else {
        Err(|drops| drops.message_type += 1)
    }
}

/// Returns what a bulk request asks for, or the errno of the reply with the features of the reply.
// [LST-19]
fn bulk(request: &BulkRequest, message: &Message) -> Result<Work, (Option<u32>, u32)> {
    let einval = (None, Errno::EINVAL.0.unsigned_abs());
    let is_known = matches!(request.operation, BulkRequest::READ | BulkRequest::WRITE);
    if !is_known || Check::of_flags(request.flags).is_none() {
        return Err(einval);
    }
    if message.features & !FEATURE_BULK_LEN != 0 {
        return Err((Some(FEATURE_BULK_LEN), Errno::EPROTO.0.unsigned_abs()));
    }
    let is_in_pages = message.features & FEATURE_BULK_LEN == 0;
    if is_in_pages && !request.len.is_multiple_of(PAGE) {
        return Err(einval);
    }
    Work::bulk(request.operation, request.flags, request.len).ok_or(einval)
}

// [LST-5] [LST-12]
fn eproto() -> Body {
    Body::BulkReply(Errno::EPROTO.0.unsigned_abs())
}

/// The errno for data that is not good.
// [LST-22]
const EBADMSG: u32 = 74;

fn lnet_counters(engine: &lnet_node::Engine) -> LnetCounters {
    let counters = engine.core().counters();
    LnetCounters {
        msgs_alloc: low(counters.msgs_alloc),
        msgs_max: low(counters.msgs_max),
        errors: low(counters.errors),
        send_count: low(counters.send_count),
        recv_count: low(counters.recv_count),
        route_count: low(counters.route_count),
        drop_count: low(counters.drop_count),
        send_length: counters.send_length,
        recv_length: counters.recv_length,
        route_length: counters.route_length,
        drop_length: counters.drop_length,
    }
}
