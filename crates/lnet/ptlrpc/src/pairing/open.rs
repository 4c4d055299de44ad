//! An RPC that is under way: how often and where its request was seen, and under which bits its messages come.

use std::time::Duration;

use lnet_types::Time;
use lnet_wire::Handle;

use super::{Seen, after};
use crate::body::{Body, flags};
use crate::message::Message;
use crate::opcode::opc;
use crate::rpc::Rpc;
use crate::schema::intent_of;

/// The most messages of bulk that one RPC is followed through.
const PARTS_MAX: u64 = 64;

/// The most times, and places, at which the request of an RPC is remembered.
const SIGHTS_MAX: usize = 16;

/// The most resends of an RPC whose bits are remembered.
const RESENDS_MAX: usize = 8;

/// The most time that an RPC gives a server: 2.12 and later give no more. One that does not say its time has as much.
const SILENCE_MAX: Duration = Duration::from_secs(1200);

/// An RPC that is under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) rpc: Rpc,
    /// The bits under which its reply and its bulk come.
    bits: Bits,
    /// Those of resends, the last ones last.
    more: Vec<Bits>,
    sights: Vec<Sight>,
    /// When its request was last sent.
    sent: Time,
    /// What the requester adds to the server's time for the network.
    network: Duration,
    last_hop: Time,
    replies: usize,
    first_reply: Option<Time>,
    reply_place: u64,
    parts_seen: u64,
    /// Where its first early reply was seen.
    early_place: Option<u64>,
    pub(super) takes_early: bool,
    pub(super) intent: Option<u64>,
    /// The server's handle of the lock that it asks for.
    pub(super) lock: Option<u64>,
    /// When the time that it gives the server is over.
    pub(super) deadline: Time,
    /// The GETs of its bulk, each with the number of its part.
    gets: Vec<(Handle, u64)>,
}

/// A request at a place, and how often it was seen there.
#[derive(Clone, Copy, Debug)]
struct Sight {
    place: u64,
    mark: Mark,
    count: u32,
}

/// What tells one sending of a request from another. Requesters of 2.12 mark the first resend only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    is_resent: bool,
    mbits: u64,
}

impl Mark {
    fn of(body: Option<&Body<'_>>) -> Self {
        body.map_or_else(Self::default, |body| Self {
            is_resent: body.flags() & flags::RESENT != 0,
            mbits: body.mbits(),
        })
    }
}

/// The bits of the messages that belong to one sending of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) xid: u64,
    first: u64,
    last: u64,
}

impl Bits {
    pub(super) fn all(self) -> impl Iterator<Item = u64> {
        let xid = (!(self.first..=self.last).contains(&self.xid)).then_some(self.xid);
        (self.first..=self.last).chain(xid)
    }
}

impl Open {
    pub(super) fn new(
        rpc: Rpc,
        bits: Bits,
        seen: &Seen<'_>,
        known: Option<(&Message<'_>, &Body<'_>)>,
    ) -> Self {
        let body = known.map(|(_, body)| body);
        let sight = Sight {
            place: seen.place,
            mark: Mark::of(body),
            count: 1,
        };
        let mut open = Self {
            rpc,
            bits,
            more: Vec::new(),
            sights: vec![sight],
            sent: seen.time,
            network: body.map_or(Duration::ZERO, network),
            last_hop: seen.time,
            replies: 0,
            first_reply: None,
            reply_place: 0,
            parts_seen: 0,
            early_place: None,
            takes_early: known.is_some_and(|(message, _)| message.flags() & 1 != 0),
            intent: known.and_then(|(message, body)| intent_of(message, body)),
            lock: known.and_then(|(message, body)| lock_of_callback(message, body)),
            deadline: seen.time,
            gets: Vec::new(),
        };
        open.allow(allowed(body));
        open
    }

    /// Takes the request once more: sent again, or on the other side of a router.
    pub(super) fn again(&mut self, seen: &Seen<'_>, body: Option<&Body<'_>>) {
        let mark = Mark::of(body);
        let was_here = self.sights.iter().any(|sight| sight.place == seen.place);
        let of_mark = self.sights.iter().filter(|sight| sight.mark == mark);
        let first = of_mark.clone().next().map(|sight| sight.place);
        let most = of_mark.map(|sight| sight.count).max();
        let mut of_mark = self.sights.iter_mut().filter(|sight| sight.mark == mark);
        let is_sent_again = match of_mark.find(|sight| sight.place == seen.place) {
            Some(sight) => {
                sight.count = sight.count.saturating_add(1);
                Some(sight.count) > most
            }
            None => {
                self.note(seen.place, mark);
                // The same sending at another place has passed a router.
                first.is_none() && (mark.is_resent || was_here)
            }
        };
        if is_sent_again {
            self.rpc.resends = self.rpc.resends.saturating_add(1);
            self.sent = seen.time;
            self.allow(allowed(body));
        }
        if first.is_some_and(|first| first != seen.place) {
            self.last_hop = seen.time;
        }
    }

    fn note(&mut self, place: u64, mark: Mark) {
        if self.sights.len() == SIGHTS_MAX {
            self.sights.remove(0);
        }
        let count = 1;
        self.sights.push(Sight { place, mark, count });
    }

    /// Gives the server so much time since the request was sent, unless it has more.
    fn allow(&mut self, time: Duration) {
        let time = time.clamp(Duration::from_secs(1), SILENCE_MAX);
        self.deadline = self.deadline.max(after(self.sent, time));
    }

    /// Returns at how many places one sending of the request was seen: two if a router shows both its sides.
    fn hops(&self) -> usize {
        let hops = |sight: &Sight| {
            self.sights
                .iter()
                .filter(|other| other.mark == sight.mark)
                .count()
        };
        self.sights.iter().map(hops).max().unwrap_or(1)
    }

    /// Takes the bits of a sending. Returns the bits to forget for it.
    // [PTLRPC-25]
    pub(super) fn take_bits(&mut self, bits: Bits) -> Vec<u64> {
        if self.bits == bits || self.more.contains(&bits) {
            return Vec::new();
        }
        self.more.push(bits);
        if self.more.len() <= RESENDS_MAX {
            return Vec::new();
        }
        let oldest = self.more.remove(0);
        let is_left = |bits: &u64| self.all_bits().any(|left| left == *bits);
        oldest.all().filter(|bits| !is_left(bits)).collect()
    }

    fn ranges(&self) -> impl Iterator<Item = Bits> {
        std::iter::once(self.bits).chain(self.more.iter().copied())
    }

    /// Returns all bits under which its messages come, some of them twice.
    pub(super) fn all_bits(&self) -> impl Iterator<Item = u64> {
        self.ranges().flat_map(Bits::all)
    }

    /// Returns the bits under which its replies come, and all bits if it was sent again.
    pub(super) fn reply_bits(&self) -> impl Iterator<Item = u64> {
        let Bits { xid, last, .. } = self.bits;
        let again = self.more.iter().copied().flat_map(Bits::all);
        std::iter::once(last)
            .chain((xid != last).then_some(xid))
            .chain(again)
    }

    /// Takes a reply that asks for more time: so much since the request was sent. Returns whether it counts: at one place
    /// of several each is seen once.
    pub(super) fn early(&mut self, place: u64, body: &Body<'_>) -> bool {
        let is_first = *self.early_place.get_or_insert(place) == place;
        self.rpc.early = self.rpc.early.saturating_add(u32::from(is_first));
        self.allow(Duration::from_secs(body.timeout().into()) + self.network);
        is_first
    }

    pub(super) fn answered(&mut self, seen: &Seen<'_>, body: Option<&Body<'_>>) {
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
            let beyond = seen.time.saturating_since(self.last_hop);
            self.rpc.beyond = (self.hops() > 1).then_some(beyond);
        }
    }

    /// Returns whether as many copies of the reply as of the request, on other connections, have passed.
    pub(super) fn is_answered(&self) -> bool {
        self.replies >= self.hops()
    }

    /// Returns which part of the bulk has these bits.
    pub(super) fn part(&self, bits: u64) -> u64 {
        let mut ranges = self.ranges();
        let range = ranges.find(|range| (range.first..=range.last).contains(&bits));
        range.map_or(0, |range| bits - range.first)
    }

    /// Counts a part of the bulk once, although a router shows it twice.
    pub(super) fn moved(&mut self, part: u64, length: u64) {
        let mark = 1 << part.min(PARTS_MAX - 1);
        if self.parts_seen & mark == 0 {
            self.parts_seen |= mark;
            self.rpc.bulk += length;
            self.rpc.bulk_parts += 1;
        }
    }

    /// Takes a GET of its bulk. Returns the GET to forget for it.
    pub(super) fn takes_get(&mut self, handle: Handle, bits: u64) -> Option<Handle> {
        let part = self.part(bits);
        self.gets.push((handle, part));
        let is_full = self.gets.len() > PARTS_MAX as usize;
        is_full.then(|| self.gets.remove(0).0)
    }

    /// Takes the REPLY to a GET of its bulk.
    pub(super) fn replied_to_get(&mut self, handle: Handle, length: u64) {
        if let Some((_, part)) = self.gets.iter().find(|(get, _)| *get == handle) {
            self.moved(*part, length);
        }
    }

    pub(super) fn gets(&self) -> impl Iterator<Item = Handle> {
        self.gets.iter().map(|(get, _)| *get)
    }
}

/// Returns the server's handle of the lock that a blocking callback asks for: it stands behind the client's.
pub(super) fn lock_of_callback(message: &Message<'_>, body: &Body<'_>) -> Option<u64> {
    let is_callback = body.opc() == opc::LDLM_BL_CALLBACK;
    message.buffer(1).filter(|_| is_callback)?.u64(96)
}

/// Returns the bits of an RPC's bulk and reply.
// [PTLRPC-4]
pub(super) fn bulk_bits(xid: u64, known: Option<(&Message<'_>, &Body<'_>)>) -> Bits {
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

/// Returns the time that a request gives the server, with that for the network.
fn allowed(body: Option<&Body<'_>>) -> Duration {
    body.map_or(SILENCE_MAX, |body| {
        Duration::from_secs(body.timeout().into()) + network(body)
    })
}

/// Returns the time that the requester expects to pass in the network. A connect has the server's time in its place.
fn network(body: &Body<'_>) -> Duration {
    match body.opc() {
        opc::OST_CONNECT | opc::MDS_CONNECT | opc::MGS_CONNECT => Duration::ZERO,
        _ => Duration::from_secs(body.service_time().into()),
    }
}
