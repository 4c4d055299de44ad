//! Handles the frames of a peer.

use std::time::Instant;

use sys::span::Span;

use super::counters::Counter;
use super::endpoint::Endpoint;
use super::held::Held;
use super::link::{Body, Frame, Granted, Item, Link, LinkId, Then, Waiting, trimmed};
use super::state::{Arrival, Message, Place, State};
use super::wire::{
    EAGER_MAX, EAGER_WINDOW, EXPECTED_MAX, FrameKind, Header, REQUESTS_MAX, UNEXPECTED_MAX,
    UNEXPECTED_WINDOW, VERSION, Violation, charge,
};
use crate::error::Error;
use crate::id::Tag;
use crate::method::{Peer, Received};
use crate::payload::Segments;

/// The most reads of one link before the next link's turn.
const READS_PER_TURN: usize = 16;

/// Why a link failed while it was read.
enum Broken {
    Lost(Error),
    Violated(Violation),
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Broken {
        Broken::Violated(violation)
    }
}

impl State {
    /// Handles the sockets that are ready: each link gets one turn.
    pub(crate) fn progress(&mut self) {
        self.accept();
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else {
                return;
            };
            match self.read(index) {
                Ok(more) => self.read_again(index, more),
                Err(Broken::Lost(error)) => {
                    self.note_unanswered(index);
                    self.read_newcomers();
                    self.fail(index, error);
                }
                Err(Broken::Violated(violation)) => self.violated(index, violation),
            }
        }
    }

    /// Accepts and reads the connections whose peers are not yet known. If a peer has ended, its last
    /// messages may be there: two processes that dial each other at once have two connections, and the system
    /// may have accepted one that this method has not.
    fn read_newcomers(&mut self) {
        self.acceptable = true;
        self.accept();
        for index in 0..self.links.len() {
            let link = self.links[index].as_ref();
            if !link.is_some_and(|link| link.peer.is_none() && link.readable) {
                continue;
            }
            match self.read(index) {
                Ok(more) => self.read_again(index, more),
                // Its own turn sees the end again.
                Err(Broken::Lost(_)) => self.read_again(index, true),
                Err(Broken::Violated(violation)) => self.violated(index, violation),
            }
        }
    }

    /// Gives a link another turn if there may be more to read.
    fn read_again(&mut self, index: usize, more: bool) {
        if more && !self.ready.contains(&index) {
            self.ready.push_back(index);
        }
    }

    /// Closes the connection of a peer that broke the protocol.
    // [TCP-5]
    fn violated(&mut self, index: usize, violation: Violation) {
        let why = violation.explanation();
        if let Some(suppressed) = self.quiet.admit("violation", Instant::now()) {
            tracing::warn!(?violation, suppressed, "a connection was closed: {why}");
        }
        self.counters.violated(violation);
        self.fail(index, Error::Proto);
    }

    /// Counts and logs a lost connection that was made but never answered with HELLO: the peer may be another
    /// program.
    // [TCP-7]
    fn note_unanswered(&mut self, index: usize) {
        let Some(Some(link)) = self.links.get(index) else {
            return;
        };
        if link.peer.is_some() && !link.greeted {
            self.counters.add(Counter::Unanswered);
            let Some(suppressed) = self.quiet.admit("unanswered", Instant::now()) else {
                return;
            };
            tracing::warn!(
                suppressed,
                "a peer closed the connection without a greeting: it may use the original BMI; both \
                 ends of a tcp:// connection must use the same BMI library"
            );
        }
    }

    /// Records that a socket has become ready.
    pub(crate) fn note_ready(
        &mut self,
        index: usize,
        readable: bool,
        writable: bool,
        ending: bool,
    ) {
        let Some(Some(link)) = self.links.get_mut(index) else {
            return;
        };
        if !link.connected
            && let Err(error) = connected(link)
        {
            if let Some(error) = error {
                self.fail(index, error);
            }
            return;
        }
        link.ending |= ending;
        link.readable |= readable || ending;
        link.writable |= writable;
        if link.readable && !self.ready.contains(&index) {
            self.ready.push_back(index);
        }
        if writable {
            self.flush(index);
        }
    }

    /// Reads a link for one turn. Returns whether there may be more to read.
    fn read(&mut self, index: usize) -> Result<bool, Broken> {
        for _ in 0..READS_PER_TURN {
            let Some(Some(link)) = self.links.get_mut(index) else {
                return Ok(false);
            };
            if !link.fill().map_err(Broken::Lost)? {
                return Ok(false);
            }
            while let Some(Some(link)) = self.links.get_mut(index)
                && let Some(item) = link.inbound.next()?
            {
                match item {
                    Item::Header(header) => self.on_header(index, header)?,
                    Item::Body(body) => self.on_body(index, body),
                }
            }
        }
        Ok(true)
    }

    fn on_header(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        let Some(link) = &self.links[index] else {
            return Ok(());
        };
        let peer = match (header.kind, link.greeted) {
            (FrameKind::Hello, false) => return self.on_hello(index, header),
            (FrameKind::Hello, true) | (_, false) => return Err(Violation::Greeting),
            (_, true) => link.peer.ok_or(Violation::Greeting)?,
        };
        match header.kind {
            FrameKind::Hello => Ok(()),
            FrameKind::Eager => self.on_eager(index, peer, header),
            FrameKind::Unexpected => self.on_unexpected(index, header),
            FrameKind::Request => self.on_request(index, peer, header),
            FrameKind::Ready => self.on_ready(index, header),
            FrameKind::Reject => {
                self.on_refuse(index, header.token);
                Ok(())
            }
            FrameKind::Data => self.on_data(index, header),
            FrameKind::Withdraw => self.on_withdraw(index, peer, header),
            FrameKind::Credit => self.on_credit(index, header),
        }
    }

    /// Identifies the peer of an accepted link.
    // [TCP-3]
    fn on_hello(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        if header.tag != VERSION {
            return Err(Violation::Version);
        }
        let port = u16::try_from(header.token).map_err(|_| Violation::Greeting)?;
        let room = self.has_room_for_peers();
        let Some(link) = &mut self.links[index] else {
            return Ok(());
        };
        link.greeted = true;
        if link.peer.is_some() {
            return Ok(());
        }
        let Some(seen) = link.seen.clone().filter(|_| room) else {
            self.counters.add(Counter::Refused);
            self.fail(index, Error::ConnReset);
            return Ok(());
        };
        // The peer is believed about its port only; the host is that of the connection, so a peer cannot pose
        // as another host.
        let peer = match seen.ip().filter(|_| port > 0) {
            None => self.add_peer(None, Some(seen)),
            Some(ip) => self.peer_at(Endpoint::Inet((ip, port).into())),
        };
        if let Some(link) = &mut self.links[index] {
            link.peer = Some(peer);
        }
        if let Some(state) = self.peers.get_mut(&peer) {
            state.link.get_or_insert(index);
        }
        Ok(())
    }

    // [BMI-10]
    fn on_eager(&mut self, index: usize, peer: u64, header: Header) -> Result<(), Violation> {
        let len = bounded(header.length, EAGER_MAX)?;
        let (Some(link), Some(state)) = (&mut self.links[index], self.peers.get_mut(&peer)) else {
            return Ok(());
        };
        let used = &mut link.receiving.eager_used;
        *used += charge(len);
        if *used > EAGER_WINDOW {
            return Err(Violation::Overdrawn);
        }
        let tag = Tag(header.tag);
        let body = match state.receives.pop_front(tag.0) {
            Some(waiting) if len <= waiting.total => {
                self.places.insert(waiting.op, Place::Claimed);
                body(
                    trimmed(&waiting.segments, len),
                    len,
                    Then::Receive(waiting.op),
                )
            }
            Some(waiting) => {
                self.counters.add(Counter::Truncated);
                self.done.push((waiting.op, Err(Error::MsgSize)));
                body(Segments::new(), len, Then::Drop)
            }
            None => stored(len, Then::Eager(tag), self.allowance.take(len)?)?,
        };
        if !matches!(body.then, Then::Eager(_)) {
            link.receiving.eager_owed += charge(len);
        }
        link.inbound.body = Some(body);
        self.return_window(index);
        Ok(())
    }

    fn on_unexpected(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        let len = bounded(header.length, UNEXPECTED_MAX)?;
        let Some(link) = &mut self.links[index] else {
            return Ok(());
        };
        let used = &mut link.receiving.unexpected_used;
        *used += charge(len);
        if *used > UNEXPECTED_WINDOW {
            return Err(Violation::Overdrawn);
        }
        let then = Then::Unexpected(Tag(header.tag), header.class);
        link.inbound.body = Some(stored(len, then, self.allowance.take(len)?)?);
        Ok(())
    }

    fn on_request(&mut self, index: usize, peer: u64, header: Header) -> Result<(), Violation> {
        let length = bounded(header.length, EXPECTED_MAX)?;
        let (Some(link), Some(state)) = (&mut self.links[index], self.peers.get_mut(&peer)) else {
            return Ok(());
        };
        let receiving = &mut link.receiving;
        // [TCP-12]
        if header.token <= receiving.last_token {
            // Two requests have the same token: one of them would never complete.
            return Err(Violation::Token);
        }
        receiving.last_token = header.token;
        let open = receiving.requests + receiving.granted.len();
        if open.max(receiving.answers) >= REQUESTS_MAX {
            return Err(Violation::Overdrawn);
        }
        match state.receives.pop_front(header.tag) {
            Some(waiting) => self.grant(index, header.token, length, waiting),
            None => {
                link.receiving.requests += 1;
                let arrival = Arrival::Request {
                    link: index,
                    token: header.token,
                    length,
                    _held: self.allowance.take(0)?,
                };
                state.arrivals.push_back(header.tag, arrival);
            }
        }
        Ok(())
    }

    /// Asks for the data of a request, to be read into the memory of a receive. Rejects the request if the
    /// receive is too short.
    // [BMI-12]
    pub(crate) fn grant(&mut self, index: usize, token: u64, length: usize, waiting: Waiting) {
        let mut header = Header {
            length: length as u64,
            token,
            ..Header::new(FrameKind::Ready)
        };
        if length > waiting.total {
            self.counters.add(Counter::Truncated);
            self.done.push((waiting.op, Err(Error::MsgSize)));
            header = Header {
                token,
                ..Header::new(FrameKind::Reject)
            };
        } else if let Some(link) = &mut self.links[index] {
            self.places.insert(waiting.op, Place::Claimed);
            let granted = Granted { waiting, length };
            link.receiving.granted.insert(token, granted);
        }
        if let Some(link) = &mut self.links[index] {
            link.receiving.answers += 1;
        }
        self.enqueue(index, Frame::control(header));
    }

    // [TCP-11]
    fn on_ready(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        let Some(link) = &mut self.links[index] else {
            return Ok(());
        };
        let Some(outgoing) = link.sending.requested.remove(&header.token) else {
            // The answer crossed our WITHDRAW, unless it names a token that was never used.
            if header.token >= link.sending.next_token {
                return Err(Violation::Token);
            }
            self.counters.add(Counter::Late);
            return Ok(());
        };
        if header.length != outgoing.total as u64 {
            self.done.push((outgoing.op, Err(Error::Proto)));
            return Err(Violation::Token);
        }
        self.places.insert(outgoing.op, Place::Claimed);
        let header = Header {
            length: header.length,
            token: header.token,
            ..Header::new(FrameKind::Data)
        };
        self.enqueue(index, Frame::message(header, outgoing));
        self.send_expected(index, None);
        Ok(())
    }

    // [TCP-11]
    fn on_refuse(&mut self, index: usize, token: u64) {
        let Some(link) = &mut self.links[index] else {
            return;
        };
        match link.sending.requested.remove(&token) {
            Some(outgoing) => self.done.push((outgoing.op, Err(Error::MsgSize))),
            None => self.counters.add(Counter::Late),
        }
        self.send_expected(index, None);
    }

    fn on_data(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        let Some(link) = &mut self.links[index] else {
            return Ok(());
        };
        let granted = link.receiving.granted.remove(&header.token);
        let Granted { waiting, length } = granted.ok_or(Violation::Token)?;
        let then = Then::Receive(waiting.op);
        link.inbound.body = Some(body(trimmed(&waiting.segments, length), length, then));
        if header.length != length as u64 {
            return Err(Violation::Token);
        }
        Ok(())
    }

    /// Handles a cancelled request. The receive that it matched waits again, in its old place.
    fn on_withdraw(&mut self, index: usize, peer: u64, header: Header) -> Result<(), Violation> {
        let (Some(link), Some(state)) = (&mut self.links[index], self.peers.get_mut(&peer)) else {
            return Ok(());
        };
        let tag = Tag(header.tag);
        let Some(granted) = link.receiving.granted.remove(&header.token) else {
            let withdrawn = |arrival: &Arrival| {
                matches!(arrival, Arrival::Request { link, token, .. }
                    if *link == index && *token == header.token)
            };
            // A request that is missing here was rejected before.
            if state.arrivals.remove(tag.0, withdrawn).is_some() {
                link.receiving.requests -= 1;
            }
            return Ok(());
        };
        let waiting = granted.waiting;
        if waiting.tag != tag {
            self.done.push((waiting.op, Err(Error::Proto)));
            return Err(Violation::Token);
        }
        match state.arrivals.pop_front(tag.0) {
            Some(arrival) => self.match_arrival(waiting, arrival),
            None => {
                self.places.insert(waiting.op, Place::Receive { peer, tag });
                let number = waiting.number;
                let later = |other: &Waiting| other.number > number;
                state.receives.insert_before(tag.0, waiting, later);
            }
        }
        Ok(())
    }

    // [TCP-21]
    fn on_credit(&mut self, index: usize, header: Header) -> Result<(), Violation> {
        let Some(link) = &mut self.links[index] else {
            return Ok(());
        };
        let (left, window) = match header.class {
            0 => (&mut link.sending.eager, EAGER_WINDOW),
            1 => (&mut link.sending.unexpected, UNEXPECTED_WINDOW),
            _ => return Err(Violation::Credit),
        };
        let more = left.checked_add(header.length);
        *left = more
            .filter(|&more| more <= window)
            .ok_or(Violation::Credit)?;
        if header.class == 1 {
            self.send_unexpected(index, None);
        }
        Ok(())
    }

    /// Handles a payload that has been read completely.
    fn on_body(&mut self, index: usize, body: Body) {
        let Body {
            segments,
            len,
            then,
            held,
            ..
        } = body;
        if let Some(link) = &mut self.links[index] {
            let copied = std::mem::take(&mut link.inbound.copied);
            self.counters.add_many(Counter::CopiedBytes, copied);
        }
        match then {
            Then::Drop => {}
            Then::Receive(op) => {
                // Dropped first: the memory belongs to the program once the operation completes.
                drop(segments);
                self.done.push((op, Ok(len)));
            }
            Then::Eager(tag) => self.keep_eager(index, tag, segments, held),
            Then::Unexpected(tag, class) => {
                self.keep_unexpected(index, tag, class, segments, held);
            }
        }
    }

    /// Stores a message for a later receive, unless one was posted while the message was read.
    fn keep_eager(&mut self, index: usize, tag: Tag, segments: Segments, held: Option<Held>) {
        let Some((link, peer)) = self.sender(index) else {
            return;
        };
        let state = self.peers.get_mut(&peer);
        let (Some(state), Some(data)) = (state, segments.into_iter().next()) else {
            return;
        };
        let arrival = Arrival::Eager {
            link,
            data,
            _held: held,
        };
        match state.receives.pop_front(tag.0) {
            Some(waiting) => self.match_arrival(waiting, arrival),
            None => state.arrivals.push_back(tag.0, arrival),
        }
    }

    fn keep_unexpected(
        &mut self,
        index: usize,
        tag: Tag,
        class: u8,
        segments: Segments,
        held: Option<Held>,
    ) {
        let (Some((link, peer)), Some(data)) = (self.sender(index), segments.into_iter().next())
        else {
            return;
        };
        if let Some(state) = self.peers.get_mut(&peer) {
            state.announced = true;
        }
        let received = Received {
            peer: Peer(peer),
            tag,
            data,
        };
        let message = Message {
            link,
            received,
            _held: held,
        };
        self.unexpected.entry(class).or_default().push_back(message);
        self.unexpected_count += 1;
    }

    /// Copies a stored message to the memory of its receive.
    // [BMI-11]
    pub(crate) fn copy_out(&mut self, waiting: &Waiting, data: &Span) -> Result<usize, Error> {
        if data.len() > waiting.total {
            self.counters.add(Counter::Truncated);
            return Err(Error::MsgSize);
        }
        let mut done = 0;
        for segment in &waiting.segments {
            let rest = data.part(done..data.len());
            done += rest.map_or(0, |rest| rest.copy_to(segment));
        }
        self.counters.add_many(Counter::CopiedBytes, done as u64);
        Ok(done)
    }

    /// Returns the id of a link and its peer.
    fn sender(&self, index: usize) -> Option<(LinkId, u64)> {
        let link = self.links.get(index)?.as_ref()?;
        Some((link.id, link.peer?))
    }

    /// Returns window for an eager message that the program has collected. If the link is gone, so is its
    /// window.
    pub(crate) fn consumed_eager(&mut self, id: LinkId, cost: u64) {
        if let Some(Some(link)) = self.links.get_mut(id.index)
            && link.id == id
        {
            link.receiving.eager_owed += cost;
            self.return_window(id.index);
        }
    }

    /// Returns window for an unexpected message that the program has collected.
    pub(crate) fn consumed_unexpected(&mut self, id: LinkId, cost: u64) {
        if let Some(Some(link)) = self.links.get_mut(id.index)
            && link.id == id
        {
            link.receiving.unexpected_owed += cost;
            self.return_window(id.index);
        }
    }

    /// Gives window back in pieces of a quarter, so that the sender always has room for more than one
    /// message.
    fn return_window(&mut self, index: usize) {
        let Some(Some(link)) = self.links.get_mut(index) else {
            return;
        };
        let receiving = &mut link.receiving;
        let eager = (
            0,
            EAGER_WINDOW,
            &mut receiving.eager_used,
            &mut receiving.eager_owed,
        );
        let unexpected = (
            1,
            UNEXPECTED_WINDOW,
            &mut receiving.unexpected_used,
            &mut receiving.unexpected_owed,
        );
        for (class, window, used, owed) in [eager, unexpected] {
            if *owed < window / 4 {
                continue;
            }
            let length = std::mem::take(owed);
            *used -= length;
            let header = Header {
                class,
                length,
                ..Header::new(FrameKind::Credit)
            };
            link.outbound.push_back(Frame::control(header));
        }
        if !link.outbound.is_empty() {
            self.flush(index);
        }
    }
}

/// Checks whether dialling has ended. `Err(None)`: still in progress.
fn connected(link: &mut Link) -> Result<(), Option<Error>> {
    match link.socket.check_connected() {
        Ok(()) => {
            link.connected = true;
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Err(None),
        Err(error) => Err(Some(error.into())),
    }
}

fn body(segments: Segments, len: usize, then: Then) -> Body {
    Body {
        held: None,
        segments,
        len,
        filled: 0,
        then,
    }
}

/// Creates a body in memory of the method's own.
fn stored(len: usize, then: Then, held: Held) -> Result<Body, Violation> {
    // The windows limit what a peer can make this process allocate. If even that memory is missing, the
    // peer's connection is closed.
    let data = Span::zeroed(len).map_err(|_| Violation::Overdrawn)?;
    Ok(Body {
        held: Some(held),
        ..body(Segments::from_buf([data]), len, then)
    })
}

fn bounded(length: u64, limit: usize) -> Result<usize, Violation> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= limit)
        .ok_or(Violation::TooLong)
}
