//! Messages of the node above.

use std::time::Duration;

use lnd::{Failure, SendRequest};
use lnet_types::Time;
use lnet_wire::o2ib::{Descriptor, IMMEDIATE_MAX, MessageKind};
use lnet_wire::{Body, Header};

use super::{Above, O2iblnd};
use crate::connection::{Incoming, Outgoing, Task};
use crate::device::{CompletionError, ConnId, Device, MappingId, Sink, Write};

/// How much longer than an attempt to connect a message waits for a connection.
const WAIT_MORE: Duration = Duration::from_secs(10);

/// The errno of a transfer that does not fit.
pub(super) const EMSGSIZE: i32 = 90;

impl<D: Device> O2iblnd<D> {
    /// Sends a message. [`lnd::Upper::sent`] answers it, possibly before this call returns.
    pub fn send(&mut self, request: SendRequest<D::Source>, now: Time, upper: &mut impl Above<D>) {
        let header = &request.header;
        if header.src_nid.is_large() || header.dest_nid.is_large() || request.to.nid.is_large() {
            return upper.sent(request.tx, Err(Failure::Unwritable), now);
        }
        if let Some((conn, key)) = self.asked_for(header) {
            self.answer_get(conn, key, request, now, upper);
        } else if self.nis.contains_key(&request.ni) {
            self.route(request, now, upper);
        } else {
            upper.sent(request.tx, Err(Failure::LocalError), now);
        }
        self.settle(now, upper);
    }

    fn route(&mut self, request: SendRequest<D::Source>, now: Time, upper: &mut impl Above<D>) {
        let key = self.peer_of(request.ni, request.to.nid);
        let waiting_max = self.config.limits.waiting_max;
        let wait = self.connect_timeout(request.ni) + WAIT_MORE;
        let Some(peer) = self.peers.get_mut(key) else {
            return upper.sent(request.tx, Err(Failure::LocalError), now);
        };
        if let Some(conn) = peer.next_open() {
            self.begin(conn, request, now, upper);
            return self.pump(conn, now);
        }
        if peer.waiting.len() >= waiting_max {
            return upper.sent(request.tx, Err(Failure::LocalError), now);
        }
        let deadline = request.deadline.min(now + wait);
        peer.waiting.push_back(SendRequest {
            deadline,
            ..request
        });
        if !peer.is_connecting() {
            self.dial(key, now, upper);
        }
    }

    /// Begins the transfer of a message on a connection.
    // [IB-27] [IB-28] [IB-29]
    pub(super) fn begin(
        &mut self,
        id: ConnId,
        request: SendRequest<D::Source>,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let header = request.header;
        let deadline = request.deadline.min(now + self.timeout(id));
        let sink = match header.body {
            // A REPLY through a router is a message of its own.
            Body::Get(get)
                if get.sink_length as usize > IMMEDIATE_MAX
                    && header.dest_nid == request.to.nid =>
            {
                let memory = upper.reply_memory(request.tx);
                memory.filter(|memory| memory.len() > IMMEDIATE_MAX)
            }
            _ => None,
        };
        let is_large = header.payload_length as usize > IMMEDIATE_MAX;
        let (task, awaits) = match (&sink, is_large) {
            (Some(_), _) => (Task::GetReq, Some(MessageKind::GetDone)),
            (None, true) => (Task::PutReq, Some(MessageKind::PutAck)),
            (None, false) => (Task::Immediate, None),
        };
        let mapped = match (&sink, &request.payload, is_large) {
            (Some(sink), _, _) => self.device.map_sink(id, sink).map(Some),
            (None, Some(payload), true) => self.device.map_source(id, payload).map(Some),
            _ => Ok(None),
        };
        let Ok(mapping) = mapped else {
            self.stats.unmapped += 1;
            return upper.sent(request.tx, Err(Failure::LocalError), now);
        };
        let mut outgoing = Outgoing::new(task, deadline);
        outgoing.owner = Some(request.tx);
        outgoing.header = Some(header);
        outgoing.source = request.payload;
        outgoing.sink = sink;
        outgoing.mapping = mapping;
        outgoing.awaits = awaits;
        match self.conns.get_mut(id.0) {
            Some(conn) => {
                conn.queue(outgoing, &mut self.stats);
            }
            None => self.finish(outgoing, now, upper),
        }
    }

    /// Returns the GET_REQ that a REPLY answers.
    fn asked_for(&self, header: &Header) -> Option<(ConnId, u64)> {
        let Body::Reply(reply) = header.body else {
            return None;
        };
        let handle = reply.dst_wmd;
        let key = (header.dest_nid, handle.interface, handle.object);
        self.gets.get(&key).copied()
    }

    /// Writes the payload of a REPLY to the memory of the GET_REQ that asked for it.
    // [IB-29]
    fn answer_get(
        &mut self,
        id: ConnId,
        key: u64,
        request: SendRequest<D::Source>,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let Some((cookie, descriptor)) = self.take_get(id, key) else {
            return self.route(request, now, upper);
        };
        let length = request.header.payload_length;
        let mut outgoing = Outgoing::new(Task::Noop, now + self.timeout(id));
        outgoing.owner = Some(request.tx);
        let planned = match &request.payload {
            Some(payload) if length > 0 => match self.device.map_source(id, payload) {
                Ok(mapped) => {
                    let writes = self.writes(id, mapped.id, length, &descriptor);
                    outgoing.mapping = Some(mapped);
                    writes.filter(|_| descriptor.bytes() >= length.into())
                }
                Err(_) => {
                    self.stats.unmapped += 1;
                    None
                }
            },
            _ => Some(Vec::new()),
        };
        if planned.is_none() {
            outgoing.failure = Some(Failure::LocalError);
        }
        // A payload is at most 1 MiB.
        let status = planned.as_ref().map_or(-EMSGSIZE, |_| length as i32);
        let writes = planned.unwrap_or_default();
        outgoing.task = Task::GetDone {
            cookie,
            status,
            writes,
        };
        outgoing.source = request.payload;
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.queue(outgoing, &mut self.stats);
        }
        self.pump(id, now);
    }

    /// Takes a GET_REQ that waits for its REPLY. Returns its cookie and the memory.
    pub(super) fn take_get(&mut self, id: ConnId, key: u64) -> Option<(u64, Descriptor)> {
        let conn = self.conns.get_mut(id.0)?;
        let is_get = matches!(conn.incoming.get(key), Some(Incoming::Get { .. }));
        let taken = conn.incoming.remove(key).filter(|_| is_get)?;
        let Incoming::Get {
            cookie,
            descriptor,
            header,
            ..
        } = taken
        else {
            return None;
        };
        if let Body::Get(get) = header.body {
            let handle = get.return_wmd;
            let name = (header.src_nid, handle.interface, handle.object);
            if self.gets.get(&name) == Some(&(id, key)) {
                self.gets.remove(&name);
            }
        }
        Some((cookie, descriptor))
    }

    /// Returns the writes that move the first bytes of a mapping into the fragments of a descriptor; `None` if they are
    /// more than was negotiated.
    // [IB-35]
    pub(super) fn writes(
        &self,
        id: ConnId,
        mapping: MappingId,
        length: u32,
        descriptor: &Descriptor,
    ) -> Option<Vec<Write>> {
        let mut writes = Vec::new();
        let mut offset = 0;
        #[cfg(not(feature = "defects"))]
        let rkey = descriptor.rkey;
        #[cfg(feature = "defects")]
        let rkey = match self.defect {
            Some(super::Defect::FirstKey) => {
                self.conns.get(id.0)?.first_key.unwrap_or(descriptor.rkey)
            }
            _ => descriptor.rkey,
        };
        for fragment in &descriptor.fragments {
            let part = fragment.length.min(length - offset);
            if part == 0 {
                continue;
            }
            writes.push(Write {
                mapping,
                offset,
                length: part,
                address: fragment.address,
                rkey,
            });
            offset += part;
        }
        let most = self.conns.get(id.0)?.fragments;
        (writes.len() <= usize::from(most)).then_some(writes)
    }

    /// Handles the completion of a posted message.
    pub(super) fn completed(
        &mut self,
        id: ConnId,
        ticket: u64,
        result: Result<(), CompletionError>,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let completed = self
            .conns
            .get_mut(id.0)
            .and_then(|conn| conn.completed(ticket, result, now));
        match completed {
            None => self.stats.stray_events += 1,
            Some(Err(reason)) => self.doom(id, reason),
            Some(Ok(complete)) => {
                if let Some(outgoing) = complete {
                    self.finish(outgoing, now, upper);
                }
                self.pump(id, now);
            }
        }
    }

    /// Ends a transfer: releases its memory and reports its message.
    pub(super) fn finish(&mut self, outgoing: Outgoing<D>, now: Time, upper: &mut impl Above<D>) {
        if let Some(mapped) = outgoing.mapping {
            self.device.unmap(mapped.id);
        }
        if let Some(owner) = outgoing.owner {
            upper.sent(owner, outgoing.failure.map_or(Ok(()), Err), now);
        }
    }
}
