//! Messages of peers.

use lnd::{Disposition, Failure, RxId};
use lnet_types::{ProcessId, Time};
use lnet_wire::o2ib::{Body, Descriptor, Message, MessageKind};
use lnet_wire::{Body as LnetBody, Header, Reply};

use super::send::EMSGSIZE;
use super::{Above, O2iblnd};
use crate::connection::{Conn, Incoming, Outgoing, State, Task};
use crate::device::{ConnId, Device, Sink};
use crate::stats::CloseReason;

const ENOMEM: i32 = 12;
const ENODATA: i32 = 61;

/// What follows a message when its receive buffer is posted again.
enum Earned {
    /// A credit of the peer is given back.
    // [IB-23]
    Credit,
    /// A transfer of ours is answered.
    Reserved,
    /// Neither.
    Nothing,
    /// The buffer is not posted yet.
    Held,
}

impl<D: Device> O2iblnd<D> {
    /// Handles a message in a receive buffer.
    pub(super) fn received(
        &mut self,
        id: ConnId,
        buffer: u32,
        bytes: &[u8],
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            self.stats.stray_events += 1;
            return;
        };
        match conn.state {
            State::Open => {}
            State::Closing => return,
            // [IB-13]
            State::Resolving | State::Connecting | State::Accepting => {
                return conn.early.push((buffer, bytes.to_vec()));
            }
        }
        match self.message(id, buffer, bytes, now, upper) {
            Ok(earned) => self.repost(id, buffer, &earned, now),
            Err(reason) => self.doom(id, reason),
        }
    }

    fn repost(&mut self, id: ConnId, buffer: u32, earned: &Earned, now: Time) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        match earned {
            Earned::Held => return,
            Earned::Credit => conn.earn(),
            Earned::Reserved => conn.reserved = (conn.reserved + 1).min(conn.depth),
            Earned::Nothing => {}
        }
        match self.device.post_receive(id, buffer) {
            Ok(()) => self.pump(id, now),
            Err(_) => self.doom(id, CloseReason::DeviceRefused),
        }
    }

    // [IB-7] [IB-9]
    fn message(
        &mut self,
        id: ConnId,
        buffer: u32,
        bytes: &[u8],
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Result<Earned, CloseReason> {
        let message = Message::decode(bytes).map_err(|_| CloseReason::Malformed)?;
        let envelope = message.envelope;
        let conn = self.conns.get_mut(id.0).ok_or(CloseReason::Shutdown)?;
        let is_theirs = envelope.source == conn.theirs.nid
            && envelope.source_incarnation == conn.theirs.incarnation;
        let is_ours = envelope.destination == conn.ours.nid
            && envelope.destination_incarnation == conn.ours.incarnation;
        if !is_theirs || !is_ours {
            return Err(CloseReason::Stale);
        }
        conn.take_credits(envelope.credits)?;
        conn.alive_at = now;
        let kind = message.body.kind();
        if kind.takes_credit() {
            conn.owe()?;
        }
        self.stats.received.add(kind);
        match message.body {
            Body::Connreq(_) | Body::Connack(_) => Err(CloseReason::UnexpectedType),
            Body::Noop => Ok(Earned::Nothing),
            Body::Immediate { .. } | Body::PutReq { .. } | Body::GetReq { .. } => {
                self.request(id, Some((buffer, bytes)), message.body, None, now, upper)
            }
            Body::PutNak { cookie, status } => self.put_nak(id, cookie, status, now, upper),
            Body::PutAck {
                source_cookie,
                sink_cookie,
                descriptor,
            } => self.put_ack(id, source_cookie, sink_cookie, &descriptor),
            Body::PutDone { cookie, status } => self.put_done(id, cookie, status, now, upper),
            Body::GetDone { cookie, status } => self.reply_written(id, cookie, status, now, upper),
        }
    }

    /// Handles a message with an LNet header: a new one in its buffer, or one that the node above has decided about.
    fn request(
        &mut self,
        id: ConnId,
        place: Option<(u32, &[u8])>,
        body: Body<'_>,
        decided: Option<Disposition<D::Sink>>,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Result<Earned, CloseReason> {
        let header = match (&body, lnet_header(&body)) {
            (Body::PutReq { .. }, Some(header)) if !carries_payload(&header) => {
                return Err(CloseReason::UnexpectedType);
            }
            (Body::GetReq { .. }, Some(header)) if !matches!(header.body, LnetBody::Get(_)) => {
                return Err(CloseReason::UnexpectedType);
            }
            (_, Some(header)) => header,
            (_, None) => return Err(CloseReason::UnexpectedType),
        };
        let disposition = match decided {
            Some(disposition) => disposition,
            None => {
                let conn = self.conns.get(id.0).ok_or(CloseReason::Shutdown)?;
                let peer = ProcessId::lustre(conn.theirs.nid);
                upper.header(conn.ni, peer, &header, now)
            }
        };
        match (disposition, body) {
            (Disposition::Reject(_), _) => Err(CloseReason::Header),
            (Disposition::Hold(rx), _) => Ok(self.hold(id, rx, place)),
            (Disposition::Drop, Body::PutReq { cookie, .. }) => {
                self.answer(id, Task::PutNak { cookie, status: 0 }, now);
                Ok(Earned::Credit)
            }
            (Disposition::Drop, Body::GetReq { cookie, .. }) => {
                self.answer(id, failed_get(cookie, -ENODATA), now);
                Ok(Earned::Credit)
            }
            (Disposition::Drop, _) => Ok(Earned::Credit),
            (Disposition::Receive { rx, destination }, Body::PutReq { cookie, .. }) => {
                Ok(self.accept_put(id, rx, destination, cookie, now, upper))
            }
            (
                Disposition::Receive { rx, .. },
                Body::GetReq {
                    cookie, descriptor, ..
                },
            ) => {
                self.accept_get(id, cookie, descriptor, header, now)?;
                upper.received(rx, Ok(()), now);
                Ok(Earned::Credit)
            }
            (Disposition::Receive { rx, destination }, body) => {
                self.land(&body, destination);
                upper.received(rx, Ok(()), now);
                Ok(Earned::Credit)
            }
        }
    }

    /// Copies the payload of an IMMEDIATE message to its place.
    fn land(&mut self, body: &Body<'_>, destination: Option<D::Sink>) {
        if let (Body::Immediate { header, payload }, Some(sink)) = (body, destination) {
            let wanted = sink.len().min(header.payload_length as usize);
            let payload = payload.get(..wanted).unwrap_or_default();
            sink.copy_in(0, payload);
            self.stats.bytes_copied += payload.len() as u64;
        }
    }

    fn hold(&mut self, id: ConnId, rx: RxId, place: Option<(u32, &[u8])>) -> Earned {
        if let (Some(conn), Some((buffer, bytes))) = (self.conns.get_mut(id.0), place) {
            let message = bytes.to_vec();
            let key = conn.incoming.insert(Incoming::Held {
                rx,
                buffer,
                message,
            });
            self.held.insert(rx, (id, key));
        }
        Earned::Held
    }

    /// Continues a message that the node above held. Returns false if its connection has closed.
    pub fn resume(
        &mut self,
        rx: RxId,
        destination: Option<D::Sink>,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> bool {
        let Some((id, buffer, message)) = self.take_held(rx) else {
            return false;
        };
        let decided = Some(Disposition::Receive { rx, destination });
        // The message was decoded before it was held.
        let body = Message::decode(&message).map(|message| message.body);
        let earned = body
            .map_err(|_| CloseReason::Malformed)
            .and_then(|body| self.request(id, None, body, decided, now, upper));
        match earned {
            Ok(earned) => self.repost(id, buffer, &earned, now),
            Err(reason) => self.doom(id, reason),
        }
        self.settle(now, upper);
        true
    }

    fn take_held(&mut self, rx: RxId) -> Option<(ConnId, u32, Vec<u8>)> {
        let (id, key) = self.held.remove(&rx)?;
        let conn = self.conns.get_mut(id.0)?;
        match conn.incoming.remove(key)? {
            Incoming::Held {
                buffer, message, ..
            } => Some((id, buffer, message)),
            Incoming::Put { .. } | Incoming::Get { .. } => None,
        }
    }

    /// Ends a message that the node above no longer wants. If the peer may write to its memory, the connection closes,
    /// and the message is reported when the device has stopped.
    pub fn cancel(&mut self, rx: RxId, now: Time, upper: &mut impl Above<D>) {
        if let Some((id, buffer, message)) = self.take_held(rx) {
            upper.received(rx, Err(Failure::LocalError), now);
            let body = Message::decode(&message).map(|message| message.body);
            match body {
                Ok(Body::PutReq { cookie, .. }) => {
                    self.answer(id, Task::PutNak { cookie, status: 0 }, now);
                }
                Ok(Body::GetReq { cookie, .. }) => {
                    self.answer(id, failed_get(cookie, -ENODATA), now);
                }
                _ => {}
            }
            self.repost(id, buffer, &Earned::Credit, now);
        } else {
            let is_put = |incoming: &Incoming<D>| matches!(incoming, Incoming::Put { rx: other, .. } if *other == rx);
            let has_put = |conn: &Conn<D>| conn.incoming.iter().any(|(_, one)| is_put(one));
            let found = self.conns.iter().find(|(_, conn)| has_put(conn));
            if let Some(id) = found.map(|(key, _)| ConnId(key)) {
                self.doom(id, CloseReason::Cancelled);
            }
        }
        self.settle(now, upper);
    }

    /// Queues a message of the LND itself.
    pub(super) fn answer(&mut self, id: ConnId, task: Task, now: Time) {
        let outgoing = Outgoing::new(task, now + self.timeout(id));
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.queue(outgoing, &mut self.stats);
        }
    }

    /// Answers a PUT_REQ with the memory for its payload.
    // [IB-28]
    fn accept_put(
        &mut self,
        id: ConnId,
        rx: RxId,
        destination: Option<D::Sink>,
        source_cookie: u64,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Earned {
        let nak = |status| Task::PutNak {
            cookie: source_cookie,
            status,
        };
        let Some(sink) = destination.filter(|sink| !sink.is_empty()) else {
            upper.received(rx, Ok(()), now);
            self.answer(id, nak(0), now);
            return Earned::Credit;
        };
        let mapped = self.device.map_sink(id, &sink);
        let fragments = self.conns.get(id.0).map_or(0, |conn| conn.fragments);
        let (status, unfit) = match &mapped {
            Ok(mapped) => (-EMSGSIZE, mapped.fragments.len() > fragments.into()),
            Err(_) => (-ENOMEM, true),
        };
        let Some(mapped) = mapped.ok().filter(|mapped| {
            if unfit {
                self.device.unmap(mapped.id);
            }
            !unfit
        }) else {
            self.stats.unmapped += 1;
            upper.received(rx, Err(Failure::LocalError), now);
            self.answer(id, nak(status), now);
            return Earned::Credit;
        };
        let deadline = now + self.timeout(id);
        if let Some(conn) = self.conns.get_mut(id.0) {
            // A payload is at most 1 MiB.
            let length = sink.len() as u32;
            let sink_cookie = conn.incoming.insert(Incoming::Put {
                rx,
                sink,
                mapping: mapped.id,
                length,
                deadline,
            });
            let descriptor = Descriptor {
                rkey: mapped.rkey,
                fragments: mapped.fragments,
            };
            let task = Task::PutAck {
                source_cookie,
                sink_cookie,
                descriptor,
            };
            self.answer(id, task, now);
        }
        Earned::Nothing
    }

    /// Remembers a GET_REQ until its REPLY comes from the node above.
    // [IB-29]
    fn accept_get(
        &mut self,
        id: ConnId,
        cookie: u64,
        descriptor: Descriptor,
        header: Header,
        now: Time,
    ) -> Result<(), CloseReason> {
        let deadline = now + self.timeout(id);
        let conn = self.conns.get_mut(id.0).ok_or(CloseReason::Shutdown)?;
        let LnetBody::Get(get) = header.body else {
            return Err(CloseReason::UnexpectedType);
        };
        let gets = conn.incoming.iter();
        let gets = gets.filter(|(_, one)| matches!(one, Incoming::Get { .. }));
        // The peer's reserved credits allow no more.
        if gets.count() >= conn.depth.into() {
            return Err(CloseReason::Credits);
        }
        let key = conn.incoming.insert(Incoming::Get {
            cookie,
            descriptor,
            header,
            deadline,
        });
        let handle = get.return_wmd;
        let name = (header.src_nid, handle.interface, handle.object);
        self.gets.insert(name, (id, key));
        Ok(())
    }

    /// Returns the transfer that waits for an answer of this type under this cookie.
    // [IB-30]
    fn awaiting(
        &mut self,
        id: ConnId,
        cookie: u64,
        answer: MessageKind,
    ) -> Result<&mut Outgoing<D>, CloseReason> {
        let conn = self.conns.get_mut(id.0);
        let outgoing = conn.and_then(|conn| conn.out.get_mut(cookie));
        let waits = outgoing.filter(|out| out.was_posted && out.awaits == Some(answer));
        waits.ok_or(CloseReason::Cookie)
    }

    fn put_nak(
        &mut self,
        id: ConnId,
        cookie: u64,
        status: i32,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Result<Earned, CloseReason> {
        let outgoing = self.awaiting(id, cookie, MessageKind::PutAck)?;
        outgoing.awaits = None;
        if status < 0 {
            outgoing.failure = Some(Failure::RemoteError);
        }
        self.finish_if_complete(id, cookie, now, upper);
        Ok(Earned::Reserved)
    }

    /// Writes the payload to the memory of the sink.
    // [IB-28]
    fn put_ack(
        &mut self,
        id: ConnId,
        cookie: u64,
        sink_cookie: u64,
        descriptor: &Descriptor,
    ) -> Result<Earned, CloseReason> {
        #[cfg(feature = "defects")]
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.first_key.get_or_insert(descriptor.rkey);
        }
        let outgoing = self.awaiting(id, cookie, MessageKind::PutAck)?;
        let length = outgoing.header.map_or(0, |header| header.payload_length);
        let mapping = outgoing.mapping.as_ref().map(|mapped| mapped.id);
        // At most the payload, so that it is below 2^32.
        let length = u64::from(length).min(descriptor.bytes()) as u32;
        let writes = mapping.and_then(|mapping| self.writes(id, mapping, length, descriptor));
        let outgoing = self.awaiting(id, cookie, MessageKind::PutAck)?;
        outgoing.awaits = None;
        if writes.is_none() {
            outgoing.failure = Some(Failure::LocalError);
        }
        outgoing.task = Task::PutDone {
            cookie: sink_cookie,
            status: if writes.is_some() { 0 } else { -EMSGSIZE },
            writes: writes.unwrap_or_default(),
        };
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.requeue(cookie, &mut self.stats);
        }
        Ok(Earned::Reserved)
    }

    fn put_done(
        &mut self,
        id: ConnId,
        cookie: u64,
        status: i32,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Result<Earned, CloseReason> {
        let conn = self.conns.get_mut(id.0).ok_or(CloseReason::Cookie)?;
        if !matches!(conn.incoming.get(cookie), Some(Incoming::Put { .. })) {
            return Err(CloseReason::Cookie);
        }
        if let Some(Incoming::Put {
            rx,
            sink,
            mapping,
            length,
            ..
        }) = conn.incoming.remove(cookie)
        {
            self.device.unmap(mapping);
            drop(sink);
            let result = if status < 0 {
                Err(Failure::RemoteError)
            } else {
                self.stats.bytes_landed += u64::from(length);
                Ok(())
            };
            upper.received(rx, result, now);
        }
        Ok(Earned::Credit)
    }

    /// Ends a GET whose reply the peer has written: the REPLY is told to the node above without a message.
    // [IB-29]
    fn reply_written(
        &mut self,
        id: ConnId,
        cookie: u64,
        status: i32,
        now: Time,
        upper: &mut impl Above<D>,
    ) -> Result<Earned, CloseReason> {
        let conn = self.conns.get(id.0).ok_or(CloseReason::Cookie)?;
        let (ni, peer) = (conn.ni, ProcessId::lustre(conn.theirs.nid));
        let outgoing = self.awaiting(id, cookie, MessageKind::GetDone)?;
        let room = outgoing.sink.as_ref().map_or(0, Sink::len);
        let length = u32::try_from(status).ok();
        if length.is_some_and(|length| length as usize > room) {
            return Err(CloseReason::Malformed);
        }
        outgoing.awaits = None;
        let (owner, mapping) = (outgoing.owner.take(), outgoing.mapping.take());
        let reply = outgoing.header.zip(length);
        let reply = reply.and_then(|(header, length)| reply_to(&header, length));
        if let Some(mapped) = mapping {
            self.device.unmap(mapped.id);
        }
        let result = reply.map_or(Err(Failure::RemoteError), |_| Ok(()));
        if let Some(owner) = owner {
            upper.sent(owner, result, now);
        }
        if let Some(header) = reply {
            self.stats.bytes_landed += u64::from(header.payload_length);
            match upper.header(ni, peer, &header, now) {
                Disposition::Receive { rx, .. } => upper.received(rx, Ok(()), now),
                Disposition::Hold(rx) => upper.received(rx, Err(Failure::LocalError), now),
                Disposition::Drop | Disposition::Reject(_) => {}
            }
        }
        self.finish_if_complete(id, cookie, now, upper);
        Ok(Earned::Reserved)
    }

    fn finish_if_complete(&mut self, id: ConnId, key: u64, now: Time, upper: &mut impl Above<D>) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        if conn.out.get(key).is_some_and(Outgoing::is_complete)
            && let Some(outgoing) = conn.out.remove(key)
        {
            self.finish(outgoing, now, upper);
        }
    }
}

/// Returns the message that ends a GET_REQ with an error.
pub(super) fn failed_get(cookie: u64, status: i32) -> Task {
    Task::GetDone {
        cookie,
        status,
        writes: Vec::new(),
    }
}

fn lnet_header(body: &Body<'_>) -> Option<Header> {
    match body {
        Body::Immediate { header, .. }
        | Body::PutReq { header, .. }
        | Body::GetReq { header, .. } => Some(*header),
        _ => None,
    }
}

fn carries_payload(header: &Header) -> bool {
    matches!(header.body, LnetBody::Put(_) | LnetBody::Reply(_))
}

/// Returns the header of the REPLY to a GET.
fn reply_to(header: &Header, length: u32) -> Option<Header> {
    let LnetBody::Get(get) = header.body else {
        return None;
    };
    Some(Header {
        dest_nid: header.src_nid,
        src_nid: header.dest_nid,
        dest_pid: header.src_pid,
        src_pid: header.dest_pid,
        payload_length: length,
        body: LnetBody::Reply(Reply {
            dst_wmd: get.return_wmd,
        }),
    })
}
