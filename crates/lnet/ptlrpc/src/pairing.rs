//! Requests, replies and bulk that belong together.
//!
//! ```text
//!  request PUT ──▶ open ──▶ bulk (by match bits), early replies, resends ──▶ final reply ──▶ Rpc
//!                   │                                                                ▲
//!                   └── seen twice, on both sides of a router: as many replies ──────┘
//!                   └── silence longer than its timeout, or the end ──▶ Rpc without a reply
//! ```
//!
//! A state machine without I/O and without a clock: it takes messages with their times. Memory is limited: so many open
//! RPCs, so many connections with a name, so many callbacks; what goes beyond is counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lnet_types::{Nid, Time};
use lnet_wire::{Body as LnetBody, Handle, Header};
use rustc_hash::FxHashMap;

use crate::body::{Body, Type, flags};
use crate::findings::Tally;
use crate::message::Message;
use crate::opcode::{PortalUse, opc, portal_use};
use crate::rpc::{End, Rpc};
use crate::schema::{fields, intent_of};
use crate::security::{Opened, open};
use crate::subject::{bytes_asked, subject};
use crate::text::Text;
use crate::view::View;

/// The most RPCs that are under way at a time.
pub const OPEN_MAX: usize = 1 << 16;

/// The most connections whose target is remembered, and the most callbacks that are watched.
pub const REMEMBERED_MAX: usize = 1 << 16;

/// The most messages of bulk that one RPC is followed through.
const PARTS_MAX: u64 = 64;

/// How long an RPC without a reply stays open, whatever its timeout: 2.12 and later give a server no more.
const SILENCE_MAX: Duration = Duration::from_secs(1200);

/// How long the holder of a lock may write back what it has before it gives the lock up. A capture that ends sooner says
/// nothing about the holder.
const LOCK_GRACE: Duration = Duration::from_secs(6);

/// One LNet message of a capture, or of a node that forwards it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When its last byte was seen.
    pub time: Time,
    /// The connection and the direction, as a number: the same message on another one has passed a router.
    pub place: u64,
    /// Its LNet header.
    pub header: &'a Header,
    /// The first bytes of its payload.
    pub head: &'a [u8],
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A request, with the intent of a lock request.
    Request(Option<u64>),
    /// A final reply, with the intent of its request.
    Reply(Option<u64>),
    /// A reply that asks for more time.
    Early,
    /// Bulk.
    Bulk,
    /// A request or reply that is encrypted.
    Encrypted,
    /// Nothing of an RPC.
    Other,
}

/// An RPC that is under way.
#[derive(Debug)]
struct Open {
    rpc: Rpc,
    /// All bits under which its reply and its bulk come.
    bits: Bits,
    places: Vec<u64>,
    last_hop: Time,
    replies: usize,
    first_reply: Option<Time>,
    reply_place: u64,
    parts_seen: u64,
    takes_early: bool,
    intent: Option<u64>,
    deadline: Time,
    gets: Vec<Handle>,
}

#[derive(Clone, Copy, Debug)]
struct Bits {
    xid: u64,
    first: u64,
    last: u64,
}

impl Bits {
    fn all(self) -> impl Iterator<Item = u64> {
        let xid = (!(self.first..=self.last).contains(&self.xid)).then_some(self.xid);
        (self.first..=self.last).chain(xid)
    }
}

/// Pairs requests, replies and bulk, one message at a time, within limits.
#[derive(Debug, Default)]
pub struct Pairer {
    open: FxHashMap<u64, Open>,
    by_bits: FxHashMap<u64, Vec<u64>>,
    by_get: FxHashMap<Handle, u64>,
    oldest: VecDeque<u64>,
    next: u64,
    targets: Remembered<Arc<str>>,
    callbacks: Remembered<(Time, Nid, Nid)>,
    closed: Remembered<()>,
    jobs: FxHashMap<Box<[u8]>, Arc<str>>,
    now: Time,
    /// What was noticed.
    pub tally: Tally,
}

/// A map that forgets its oldest entries.
#[derive(Debug)]
struct Remembered<V> {
    map: FxHashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self {
            map: FxHashMap::default(),
            order: VecDeque::new(),
        }
    }
}

impl<V> Remembered<V> {
    fn insert(&mut self, key: u64, value: V) {
        if self.map.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.map.remove(&oldest);
            }
        }
    }
}

/// Receives RPCs.
pub type RpcSink<'a> = dyn FnMut(Rpc) + 'a;

impl Pairer {
    /// Takes the next message; gives RPCs that ended to `sink`.
    pub fn take(&mut self, seen: &Seen<'_>, sink: &mut RpcSink<'_>) -> Role {
        self.now = self.now.max(seen.time);
        self.expire(sink);
        match seen.header.body {
            LnetBody::Put(put) if portal_use(put.ptl_index) == PortalUse::Bulk => {
                self.bulk_put(seen, put.match_bits)
            }
            LnetBody::Put(put) => {
                self.message(seen, put.ptl_index, put.match_bits, put.offset, sink)
            }
            LnetBody::Get(get) if portal_use(get.ptl_index) == PortalUse::Bulk => {
                self.bulk_get(seen, get.match_bits, get.return_wmd)
            }
            LnetBody::Reply(reply) => self.bulk_reply(seen, reply.dst_wmd),
            LnetBody::Get(_) | LnetBody::Ack(_) => Role::Other,
        }
    }

    /// Ends everything that is under way.
    pub fn finish(&mut self, sink: &mut RpcSink<'_>) {
        while let Some(key) = self.oldest.pop_front() {
            if let Some(open) = self.remove(key) {
                let end = if self.now > open.deadline {
                    End::Unanswered
                } else {
                    End::InFlight
                };
                self.give(open, end, sink);
            }
        }
        let mut left: Vec<_> = self.callbacks.map.values().copied().collect();
        left.sort_unstable();
        let is_late = |since: Time| self.now.saturating_since(since) > LOCK_GRACE;
        for (since, server, client) in left.into_iter().filter(|(since, ..)| is_late(*since)) {
            self.tally.lock_kept(since, self.now, server, client);
        }
    }

    /// Returns the number of RPCs that are under way.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    fn message(
        &mut self,
        seen: &Seen<'_>,
        portal: u32,
        match_bits: u64,
        offset: u32,
        sink: &mut RpcSink<'_>,
    ) -> Role {
        if portal_use(portal) == PortalUse::Other {
            return Role::Other;
        }
        let wire_len = seen.header.payload_length as usize;
        match open(seen.head, wire_len) {
            Ok(Opened::Encrypted(_)) if portal_use(portal) == PortalUse::Request => {
                self.request(seen, portal, match_bits, None);
                Role::Encrypted
            }
            Ok(Opened::Encrypted(_)) => {
                self.reply(seen, match_bits, None, sink);
                Role::Encrypted
            }
            Ok(Opened::Clear(message, _)) => match Body::of(&message) {
                Some(body) if body.is_request() => {
                    let intent = intent_of(&message, &body);
                    self.request(seen, portal, match_bits, Some((&message, &body)));
                    Role::Request(intent)
                }
                Some(body) => self.any_reply(seen, match_bits, offset, &message, &body, sink),
                None => self.malformed(),
            },
            Err(_) => self.malformed(),
        }
    }

    fn malformed(&mut self) -> Role {
        self.tally.malformed += 1;
        Role::Other
    }

    fn any_reply(
        &mut self,
        seen: &Seen<'_>,
        match_bits: u64,
        offset: u32,
        message: &Message<'_>,
        body: &Body<'_>,
        sink: &mut RpcSink<'_>,
    ) -> Role {
        let client = seen.header.dest_nid;
        let key = self.find(match_bits, client, seen.header.src_nid);
        let known = key.and_then(|key| self.open.get_mut(&key));
        // [PTLRPC-7]
        let is_early = match &known {
            _ if offset != 0 => false,
            Some(open) => open.takes_early,
            None => message.count() == 1 && message.checksum() != 0 && body.kind != Type::Error,
        };
        if !is_early {
            let intent = self.reply(seen, match_bits, Some((message, body)), sink);
            return Role::Reply(intent);
        }
        if let Some(open) = known {
            open.rpc.early += 1;
            let more = Duration::from_secs(body.timeout().into());
            open.deadline = open.deadline.max(after(seen.time, more));
        }
        self.tally.early += 1;
        Role::Early
    }

    fn request(
        &mut self,
        seen: &Seen<'_>,
        portal: u32,
        xid: u64,
        known: Option<(&Message<'_>, &Body<'_>)>,
    ) {
        let header = seen.header;
        // Another client's request of the same number is another request.
        let existing = self.find(xid, header.src_nid, header.dest_nid);
        let existing = existing.and_then(|key| self.open.get_mut(&key));
        if let Some(open) = existing.filter(|open| open.rpc.client == header.src_nid) {
            open.again(seen, known.map(|(_, body)| *body));
            return;
        }
        if let Some((message, body)) = known {
            self.watch_locks(seen, message, body);
        }
        let (bits, open) = self.opened(seen, portal, xid, known);
        let key = self.next;
        self.next += 1;
        for bits in bits.all() {
            self.by_bits.entry(bits).or_default().push(key);
        }
        self.open.insert(key, open);
        self.oldest.push_back(key);
    }

    fn opened(
        &mut self,
        seen: &Seen<'_>,
        portal: u32,
        xid: u64,
        known: Option<(&Message<'_>, &Body<'_>)>,
    ) -> (Bits, Open) {
        let body = known.map(|(_, body)| body);
        let message = known.map(|(message, _)| message);
        let bits = bulk_bits(xid, known);
        let timeout = body.map_or(0, Body::timeout);
        let allowed =
            Duration::from_secs(timeout.into()).clamp(Duration::from_secs(1), SILENCE_MAX);
        let handle = body.map_or(0, Body::handle);
        let named = connect_target(known).or_else(|| self.targets.map.get(&handle).cloned());
        let job = self.job(body.map(Body::job));
        let rpc = Rpc {
            opc: body.map(Body::opc),
            xid,
            client: seen.header.src_nid,
            server: seen.header.dest_nid,
            portal,
            target: named,
            job,
            ids: body.and_then(Body::ids),
            subject: message.map(subject).unwrap_or_default(),
            flavor: message.map_or(crate::security::Flavor(0), Message::flavor),
            started: seen.time,
            ended: None,
            beyond: None,
            service_time: None,
            status: None,
            asked: message.map_or(0, bytes_asked),
            bulk: 0,
            bulk_parts: 0,
            early: 0,
            resends: u32::from(body.is_some_and(|body| body.flags() & flags::RESENT != 0)),
            is_replay: body.is_some_and(|body| body.flags() & flags::REPLAY != 0),
            timeout,
            end: End::InFlight,
        };
        let open = Open {
            rpc,
            bits,
            places: vec![seen.place],
            last_hop: seen.time,
            replies: 0,
            first_reply: None,
            reply_place: 0,
            parts_seen: 0,
            takes_early: message.is_some_and(|message| message.flags() & 1 != 0),
            intent: known.and_then(|(message, body)| intent_of(message, body)),
            deadline: after(seen.time, allowed),
            gets: Vec::new(),
        };
        (bits, open)
    }

    /// Returns the job as shared text: captures have few jobs and many RPCs.
    fn job(&mut self, job: Option<Text<'_>>) -> Arc<str> {
        let Some(job) = job else {
            return Arc::from("");
        };
        if let Some(known) = self.jobs.get(job.bytes()) {
            return known.clone();
        }
        if self.jobs.len() >= REMEMBERED_MAX {
            self.jobs.clear();
        }
        let text: Arc<str> = job.to_string().into();
        self.jobs.insert(job.bytes().into(), text.clone());
        text
    }

    /// Takes a final reply; returns the intent of its request.
    fn reply(
        &mut self,
        seen: &Seen<'_>,
        match_bits: u64,
        known: Option<(&Message<'_>, &Body<'_>)>,
        sink: &mut RpcSink<'_>,
    ) -> Option<u64> {
        let client = seen.header.dest_nid;
        let Some(key) = self.find(match_bits, client, seen.header.src_nid) else {
            match self.closed.map.contains_key(&match_bits) {
                true => self.tally.repeated_replies += 1,
                false => self.tally.orphan_replies += 1,
            }
            return None;
        };
        let open = self.open.get_mut(&key)?;
        open.answered(seen, known.map(|(_, body)| body));
        let intent = open.intent;
        if let Some((_, body)) = known {
            self.learn_target(key, body);
        }
        let open = self.open.get(&key)?;
        // As many copies of the reply as of the request, on other connections, have passed.
        if open.replies >= open.places.len()
            && let Some(open) = self.remove(key)
        {
            self.closed.insert(match_bits, ());
            self.give(open, End::Answered, sink);
        }
        intent
    }

    /// A connect's reply names the handle of all later requests.
    fn learn_target(&mut self, key: u64, body: &Body<'_>) {
        let Some(Open { rpc, .. }) = self.open.get(&key) else {
            return;
        };
        let is_connect = matches!(
            rpc.opc,
            Some(opc::OST_CONNECT | opc::MDS_CONNECT | opc::MGS_CONNECT)
        );
        if let (true, 0, Some(target)) = (is_connect, body.status(), &rpc.target) {
            let target = target.clone();
            self.targets.insert(body.handle(), target);
        }
    }

    fn bulk_put(&mut self, seen: &Seen<'_>, bits: u64) -> Role {
        let length = seen.header.payload_length.into();
        let key = self.find(bits, seen.header.dest_nid, seen.header.src_nid);
        match key.and_then(|key| self.open.get_mut(&key)) {
            Some(open) => open.moved(bits, length),
            None => self.tally.orphan_bulk += 1,
        }
        Role::Bulk
    }

    fn bulk_get(&mut self, seen: &Seen<'_>, bits: u64, handle: Handle) -> Role {
        let key = self.find(bits, seen.header.dest_nid, seen.header.src_nid);
        match key.and_then(|key| self.open.get_mut(&key).map(|open| (key, open))) {
            Some((key, open)) if open.gets.len() < PARTS_MAX as usize => {
                open.gets.push(handle);
                self.by_get.insert(handle, key);
            }
            Some(_) => {}
            None => self.tally.orphan_bulk += 1,
        }
        Role::Bulk
    }

    fn bulk_reply(&mut self, seen: &Seen<'_>, handle: Handle) -> Role {
        let Some(key) = self.by_get.get(&handle) else {
            return Role::Other;
        };
        if let Some(open) = self.open.get_mut(key) {
            let part = open.gets.iter().position(|get| *get == handle);
            // A place in a list of at most 64.
            let part = part.unwrap_or_default() as u64;
            open.moved(open.bits.first + part, seen.header.payload_length.into());
        }
        Role::Bulk
    }

    /// Returns the RPC of these bits: that of both nodes, or that of the client, or the only one.
    // [PTLRPC-6]
    fn find(&self, bits: u64, client: Nid, server: Nid) -> Option<u64> {
        let keys = self.by_bits.get(&bits)?;
        let score = |key: &&u64| {
            let rpc = self.open.get(*key).map(|open| &open.rpc);
            rpc.map(|rpc| (rpc.client == client, rpc.server == server))
        };
        let best = keys.iter().max_by_key(score)?;
        match score(&best)? {
            (true, _) => Some(*best),
            (false, true) if keys.len() == 1 => Some(*best),
            _ => None,
        }
    }

    fn expire(&mut self, sink: &mut RpcSink<'_>) {
        while let Some(&key) = self.oldest.front() {
            let end = match self.open.get(&key) {
                None => None,
                Some(_) if self.open.len() > OPEN_MAX => Some(End::Forgotten),
                Some(open) if self.now > after(open.deadline, SILENCE_MAX) => Some(End::Unanswered),
                Some(_) => return,
            };
            self.oldest.pop_front();
            if let (Some(end), Some(open)) = (end, self.remove(key)) {
                self.tally.forgotten += u64::from(end == End::Forgotten);
                self.give(open, end, sink);
            }
        }
    }

    fn remove(&mut self, key: u64) -> Option<Open> {
        let open = self.open.remove(&key)?;
        for bits in open.bits.all() {
            if let Some(keys) = self.by_bits.get_mut(&bits) {
                keys.retain(|other| *other != key);
                if keys.is_empty() {
                    self.by_bits.remove(&bits);
                }
            }
        }
        for get in &open.gets {
            self.by_get.remove(get);
        }
        Some(open)
    }

    fn give(&mut self, open: Open, end: End, sink: &mut RpcSink<'_>) {
        let end = if open.rpc.ended.is_some() {
            End::Answered
        } else {
            end
        };
        let rpc = Rpc { end, ..open.rpc };
        self.tally.count(&rpc);
        sink(rpc);
    }

    /// A blocking callback asks for a lock; any message that names the lock's handle gives it back.
    fn watch_locks(&mut self, seen: &Seen<'_>, message: &Message<'_>, body: &Body<'_>) {
        if body.opc() == opc::LDLM_BL_CALLBACK {
            // Behind the description: the client's handle, then the server's.
            let cookie = message.buffer(1).and_then(|view| view.u64(96));
            let ends = (seen.time, seen.header.src_nid, seen.header.dest_nid);
            cookie
                .into_iter()
                .for_each(|cookie| self.callbacks.insert(cookie, ends));
            return;
        }
        if self.callbacks.map.is_empty() {
            return;
        }
        let callbacks = &mut self.callbacks.map;
        fields(message, None, &mut |field| {
            if field.part == "dlm_req" && field.name == "handle" {
                let view = View::new(field.bytes, message.view().order());
                view.u64(0).map(|cookie| callbacks.remove(&cookie));
            }
        });
        self.callbacks
            .order
            .retain(|cookie| callbacks.contains_key(cookie));
    }
}

impl Open {
    /// Takes the request once more: sent again, or on the other side of a router.
    fn again(&mut self, seen: &Seen<'_>, body: Option<Body<'_>>) {
        let is_resent = body.is_some_and(|body| body.flags() & flags::RESENT != 0);
        if is_resent || self.places.contains(&seen.place) {
            self.rpc.resends += 1;
            return;
        }
        if self.places.len() < 8 {
            self.places.push(seen.place);
            self.last_hop = seen.time;
        }
    }

    fn answered(&mut self, seen: &Seen<'_>, body: Option<&Body<'_>>) {
        if self.replies > 0 && self.reply_place == seen.place {
            return;
        }
        self.replies += 1;
        self.reply_place = seen.place;
        self.rpc.ended = Some(seen.time);
        self.rpc.status = body.map(Body::status).or(self.rpc.status);
        self.rpc.service_time = body.map(Body::service_time).or(self.rpc.service_time);
        if self.first_reply.is_none() {
            self.first_reply = Some(seen.time);
            let passed = self.places.len() > 1;
            let beyond = seen.time.saturating_since(self.last_hop);
            self.rpc.beyond = passed.then_some(beyond);
        }
    }

    /// Counts a message of bulk once, although a router shows it twice.
    fn moved(&mut self, bits: u64, length: u64) {
        let part = bits.saturating_sub(self.bits.first).min(PARTS_MAX - 1);
        let mark = 1 << part;
        if self.parts_seen & mark == 0 {
            self.parts_seen |= mark;
            self.rpc.bulk += length;
            self.rpc.bulk_parts += 1;
        }
    }
}

/// Returns the bits of an RPC's bulk and reply.
// [PTLRPC-4]
fn bulk_bits(xid: u64, known: Option<(&Message<'_>, &Body<'_>)>) -> Bits {
    let (mbits, parts) = known.map_or((0, 1), |(message, body)| {
        let max_brw = match body.opc() {
            opc::OST_READ | opc::OST_WRITE => message.buffer(2).and_then(|view| view.u32(16)),
            _ => None,
        };
        let high = u64::from(max_brw.unwrap_or_default() >> 16);
        // 0xffff: the data are inside the message.
        let parts = if high < PARTS_MAX { high + 1 } else { 1 };
        (body.mbits(), parts.next_power_of_two())
    });
    let last = if mbits == 0 { xid } else { mbits };
    let first = last & !(parts - 1);
    Bits { xid, first, last }
}

/// Returns the name that a connect asks for.
fn connect_target(known: Option<(&Message<'_>, &Body<'_>)>) -> Option<Arc<str>> {
    let (message, body) = known?;
    match body.opc() {
        opc::OST_CONNECT | opc::MDS_CONNECT | opc::MGS_CONNECT => {
            let uuid = Text::new(message.buffer(1)?.bytes()).to_string();
            Some(uuid.strip_suffix("_UUID").unwrap_or(&uuid).into())
        }
        _ => None,
    }
}

fn after(time: Time, more: Duration) -> Time {
    let nanos = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}
