//! Requests, replies and bulk that belong together.
//!
//! ```text
//!  request PUT ──▶ open ──▶ bulk (by match bits), early replies, resends ──▶ final reply ──▶ Rpc
//!                   │                                                                ▲
//!                   └── seen twice, on both sides of a router: as many replies ──────┘
//!                   └── silence longer than its timeout, or the end ──▶ Rpc without a reply
//! ```
//!
//! A state machine without I/O and without a clock: it takes messages with their times, and times without a message.
//! Memory is limited: so many open RPCs, so many connections with a name, so many callbacks; what goes beyond is counted.

mod open;
mod remembered;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lnet_types::{Nid, Time};
use lnet_wire::{Body as LnetBody, Handle, Header};
use rustc_hash::FxHashMap;

use self::open::{Bits, Open, bulk_bits, lock_of_callback};
use self::remembered::Remembered;
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

/// The most match bits, and the most GETs, of all RPCs that are under way.
const BITS_MAX: usize = 8 * OPEN_MAX;

/// The most RPCs under way whose messages come under the same bits. Clients give each RPC bits of its own, and two clients
/// rarely use the same.
const SHARED_MAX: usize = 256;

/// The most connections whose target is remembered, and the most callbacks that are watched.
pub const REMEMBERED_MAX: usize = 1 << 16;

/// How long an RPC stays open behind the time that it gives the server: a client that has waited in vain connects again,
/// which may take it 50 s, and sends the request again.
pub const RESEND_WAIT: Duration = Duration::from_secs(60);

/// How often open RPCs are looked through for those whose time is over.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long the holder of a lock may write back what it has before it gives the lock up. A capture that ends sooner says
/// nothing about the holder.
const LOCK_GRACE: Duration = Duration::from_secs(6);

/// The place of the handles in a request about locks.
const HANDLES: usize = 88;

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

/// Pairs requests, replies and bulk, one message at a time, within limits.
#[derive(Debug, Default)]
pub struct Pairer {
    open: FxHashMap<u64, Open>,
    by_bits: FxHashMap<u64, Vec<u64>>,
    by_get: FxHashMap<Handle, u64>,
    /// The oldest RPCs of bits that too many share.
    crowded: Vec<u64>,
    /// The open RPCs, the oldest first, with some that have ended between them.
    line: VecDeque<u64>,
    next: u64,
    targets: Remembered<Arc<str>>,
    callbacks: Remembered<(Time, Nid, Nid)>,
    /// The locks that were given back before anybody asked for them.
    given_back: Remembered<()>,
    /// The bits of RPCs that were answered.
    closed: Remembered<()>,
    /// The bits of RPCs that count as unanswered.
    lost: Remembered<()>,
    jobs: FxHashMap<Box<[u8]>, Arc<str>>,
    now: Time,
    next_look: Time,
    /// What was noticed.
    pub tally: Tally,
}

/// Receives RPCs.
pub type RpcSink<'a> = dyn FnMut(Rpc) + 'a;

impl Pairer {
    /// Takes the next message; gives RPCs that ended to `sink`.
    pub fn take(&mut self, seen: &Seen<'_>, sink: &mut RpcSink<'_>) -> Role {
        self.tick(seen.time, sink);
        match seen.header.body {
            LnetBody::Put(put) if portal_use(put.ptl_index) == PortalUse::Bulk => {
                self.bulk_put(seen, put.match_bits)
            }
            LnetBody::Put(put) => {
                self.message(seen, put.ptl_index, put.match_bits, put.offset, sink)
            }
            LnetBody::Get(get) if portal_use(get.ptl_index) == PortalUse::Bulk => {
                let role = self.bulk_get(seen, get.match_bits, get.return_wmd);
                self.forget(sink);
                role
            }
            LnetBody::Reply(reply) => self.bulk_reply(seen, reply.dst_wmd),
            LnetBody::Get(_) | LnetBody::Ack(_) => Role::Other,
        }
    }

    /// Learns what time it is. RPCs whose time is over go to `sink`, a second late at most.
    pub fn tick(&mut self, now: Time, sink: &mut RpcSink<'_>) {
        self.now = self.now.max(now);
        if self.now < self.next_look {
            return;
        }
        self.next_look = after(self.now, LOOK_PERIOD);
        let is_over = |open: &Open| self.now > after(open.deadline, RESEND_WAIT);
        let over = self.open.iter().filter(|(_, open)| is_over(open));
        let mut over: Vec<u64> = over.map(|(key, _)| *key).collect();
        over.sort_unstable();
        for key in over {
            if let Some(open) = self.remove(key) {
                // A router may have shown one of its sides only.
                let ended = match open.rpc.ended {
                    Some(_) => &mut self.closed,
                    None => &mut self.lost,
                };
                open.all_bits().for_each(|bits| ended.insert(bits, ()));
                self.give(open, End::Unanswered, sink);
            }
        }
    }

    /// Ends everything that is under way.
    pub fn finish(&mut self, sink: &mut RpcSink<'_>) {
        while let Some(key) = self.line.pop_front() {
            if let Some(open) = self.remove(key) {
                let end = if self.now > open.deadline {
                    End::Unanswered
                } else {
                    End::InFlight
                };
                self.give(open, end, sink);
            }
        }
        let mut left: Vec<_> = self.callbacks.values().copied().collect();
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
                self.request(seen, portal, match_bits, None, sink);
                Role::Encrypted
            }
            Ok(Opened::Encrypted(_)) => {
                self.reply(seen, match_bits, None, sink);
                Role::Encrypted
            }
            Ok(Opened::Clear(message, _)) => match Body::of(&message) {
                Some(body) if body.is_request() => {
                    let intent = intent_of(&message, &body);
                    self.request(seen, portal, match_bits, Some((&message, &body)), sink);
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
        // A router shows it twice.
        let is_first = known.is_none_or(|open| open.early(seen.place, body));
        self.tally.early += u64::from(is_first);
        Role::Early
    }

    fn request(
        &mut self,
        seen: &Seen<'_>,
        portal: u32,
        xid: u64,
        known: Option<(&Message<'_>, &Body<'_>)>,
        sink: &mut RpcSink<'_>,
    ) {
        let header = seen.header;
        let bits = bulk_bits(xid, known);
        let existing = self.find(xid, header.src_nid, header.dest_nid);
        let existing = existing.and_then(|key| Some((key, self.open.get_mut(&key)?)));
        // Another client's request of the same number is another request.
        let is_same = |open: &Open| open.rpc.client == header.src_nid && open.rpc.xid == xid;
        if let Some((key, open)) = existing.filter(|(_, open)| is_same(open)) {
            open.again(seen, known.map(|(_, body)| body));
            let forgotten = open.take_bits(bits);
            self.link(key, bits);
            self.unlink(key, forgotten);
            self.forget(sink);
            return;
        }
        if let Some((message, body)) = known {
            self.watch_locks(seen, message, body);
        }
        let open = self.opened(seen, portal, bits, known);
        let key = self.next;
        self.next += 1;
        self.link(key, bits);
        self.open.insert(key, open);
        self.line.push_back(key);
        self.forget(sink);
    }

    /// Forgets the oldest RPCs if there are too many, or if they have too much.
    fn forget(&mut self, sink: &mut RpcSink<'_>) {
        if self.line.len() > 2 * OPEN_MAX {
            self.line.retain(|key| self.open.contains_key(key));
        }
        while let Some(key) = self.crowded.pop() {
            if let Some(open) = self.remove(key) {
                self.give(open, End::Forgotten, sink);
            }
        }
        while (self.open.len() > OPEN_MAX || self.by_bits.len().max(self.by_get.len()) > BITS_MAX)
            && let Some(oldest) = self.line.pop_front()
        {
            if let Some(open) = self.remove(oldest) {
                self.give(open, End::Forgotten, sink);
            }
        }
    }

    /// Notes bits under which messages of an RPC come.
    fn link(&mut self, key: u64, bits: Bits) {
        for bits in bits.all() {
            let keys = self.by_bits.entry(bits).or_default();
            if !keys.contains(&key) {
                keys.push(key);
            }
            if keys.len() > SHARED_MAX {
                self.crowded.extend(keys.first());
            }
        }
    }

    /// Forgets these bits of an RPC.
    fn unlink(&mut self, key: u64, bits: impl IntoIterator<Item = u64>) {
        for bits in bits {
            if let Some(keys) = self.by_bits.get_mut(&bits) {
                keys.retain(|other| *other != key);
                if keys.is_empty() {
                    self.by_bits.remove(&bits);
                }
            }
        }
    }

    fn opened(
        &mut self,
        seen: &Seen<'_>,
        portal: u32,
        bits: Bits,
        known: Option<(&Message<'_>, &Body<'_>)>,
    ) -> Open {
        let body = known.map(|(_, body)| body);
        let message = known.map(|(message, _)| message);
        let handle = body.map_or(0, Body::handle);
        let named = connect_target(known).or_else(|| self.targets.get(handle).cloned());
        let job = self.job(body.map(Body::job));
        let rpc = Rpc {
            opc: body.map(Body::opc),
            xid: bits.xid,
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
            timeout: body.map_or(0, Body::timeout),
            end: End::InFlight,
        };
        Open::new(rpc, bits, seen, known)
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
            self.reply_of_none(match_bits);
            return None;
        };
        let open = self.open.get_mut(&key)?;
        open.answered(seen, known.map(|(_, body)| body));
        let intent = open.intent;
        let is_refused = known.is_some_and(|(_, body)| body.status() < 0);
        if let Some(lock) = open.lock.filter(|_| is_refused) {
            // The client has no such lock any more.
            self.callbacks.remove(lock);
        }
        if let Some((_, body)) = known {
            self.learn_target(key, body);
        }
        let open = self.open.get(&key)?;
        // As many copies of the reply as of the request, on other connections, have passed.
        if open.is_answered()
            && let Some(open) = self.remove(key)
        {
            open.reply_bits()
                .for_each(|bits| self.closed.insert(bits, ()));
            self.give(open, End::Answered, sink);
        }
        intent
    }

    fn reply_of_none(&mut self, bits: u64) {
        if self.closed.get(bits).is_some() {
            self.tally.repeated_replies += 1;
        } else if self.lost.get(bits).is_some() {
            self.tally.late_replies += 1;
        } else {
            self.tally.orphan_replies += 1;
        }
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
        // Handle 0 is that of requests without a connection.
        let is_accepted = body.status() == 0 && body.handle() != 0;
        if let (true, true, Some(target)) = (is_connect, is_accepted, &rpc.target) {
            let target = target.clone();
            self.targets.insert(body.handle(), target);
        }
    }

    fn bulk_put(&mut self, seen: &Seen<'_>, bits: u64) -> Role {
        let length = seen.header.payload_length.into();
        let key = self.find(bits, seen.header.dest_nid, seen.header.src_nid);
        match key.and_then(|key| self.open.get_mut(&key)) {
            Some(open) => open.moved(open.part(bits), length),
            None => self.bulk_of_none(bits),
        }
        Role::Bulk
    }

    fn bulk_get(&mut self, seen: &Seen<'_>, bits: u64, handle: Handle) -> Role {
        let key = self.find(bits, seen.header.dest_nid, seen.header.src_nid);
        let Some((key, open)) = key.and_then(|key| Some((key, self.open.get_mut(&key)?))) else {
            self.bulk_of_none(bits);
            return Role::Bulk;
        };
        // A router shows it twice.
        if self.by_get.insert(handle, key) != Some(key)
            && let Some(oldest) = open.takes_get(handle, bits)
        {
            self.by_get.remove(&oldest);
        }
        Role::Bulk
    }

    fn bulk_of_none(&mut self, bits: u64) {
        match self.closed.get(bits).or(self.lost.get(bits)) {
            Some(()) => self.tally.late_bulk += 1,
            None => self.tally.orphan_bulk += 1,
        }
    }

    fn bulk_reply(&mut self, seen: &Seen<'_>, handle: Handle) -> Role {
        let Some(key) = self.by_get.get(&handle) else {
            return Role::Other;
        };
        if let Some(open) = self.open.get_mut(key) {
            open.replied_to_get(handle, seen.header.payload_length.into());
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

    fn remove(&mut self, key: u64) -> Option<Open> {
        let open = self.open.remove(&key)?;
        self.unlink(key, open.all_bits());
        for get in open.gets() {
            self.by_get.remove(&get);
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

    /// A blocking callback asks for a lock; any message that names the lock's handle gives it back. Both may be on their
    /// way at the same time.
    fn watch_locks(&mut self, seen: &Seen<'_>, message: &Message<'_>, body: &Body<'_>) {
        if body.opc() == opc::LDLM_BL_CALLBACK {
            let ends = (seen.time, seen.header.src_nid, seen.header.dest_nid);
            let lock = lock_of_callback(message, body);
            if let Some(lock) = lock.filter(|lock| self.given_back.get(*lock).is_none()) {
                self.callbacks.insert(lock, ends);
            }
            return;
        }
        for lock in cancelled(message, body) {
            self.given_back.insert(lock, ());
        }
        if self.callbacks.is_empty() {
            return;
        }
        let callbacks = &mut self.callbacks;
        fields(message, None, &mut |field| {
            if field.part == "dlm_req" && field.name == "handle" {
                let view = View::new(field.bytes, message.view().order());
                view.u64(0)
                    .into_iter()
                    .for_each(|cookie| callbacks.remove(cookie));
            }
        });
    }
}

/// Returns the locks that a request gives back, by the server's handles: a lock request names the new lock before them.
fn cancelled(message: &Message<'_>, body: &Body<'_>) -> impl Iterator<Item = u64> {
    let first = match body.opc() {
        opc::LDLM_CANCEL => Some(0),
        opc::LDLM_ENQUEUE => Some(1),
        _ => None,
    };
    let list = first.and_then(|first| Some((first, message.buffer(1)?)));
    list.into_iter().flat_map(|(first, list)| {
        let count = list.u32(4).unwrap_or(0) as usize;
        let room = list.bytes().len().saturating_sub(HANDLES) / 8;
        let handles = (first..count.min(room)).filter_map(move |nth| list.u64(HANDLES + 8 * nth));
        handles.filter(|handle| *handle != 0)
    })
}

/// Returns the name that a connect asks for. One that looks like a NID could be taken for a server.
fn connect_target(known: Option<(&Message<'_>, &Body<'_>)>) -> Option<Arc<str>> {
    let (message, body) = known?;
    match body.opc() {
        opc::OST_CONNECT | opc::MDS_CONNECT | opc::MGS_CONNECT => {
            let uuid = Text::new(message.buffer(1)?.bytes()).to_string();
            let name = uuid.strip_suffix("_UUID").unwrap_or(&uuid);
            (!name.contains('@')).then(|| name.into())
        }
        _ => None,
    }
}

fn after(time: Time, more: Duration) -> Time {
    let nanos = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}
