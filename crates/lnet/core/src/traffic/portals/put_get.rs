//! Starts PUTs and GETs.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Get, Handle, Header, LNET_PORTAL, MessageType, Put};

use crate::fabric::select::{Exact, Path, PathRequest, Request, Unobserved};
use crate::ground::event::{Event, EventKind};
use crate::ground::io::Payload;
use crate::ground::md::MdHandle;
use crate::traffic::Traffic;
use crate::traffic::portals::calls::PortalError;
use crate::traffic::portals::descriptor::{Md, Owner};
use crate::traffic::portals::responses::Tracked;
use crate::traffic::send::tx::{Outgoing, Work};

/// A PUT, which sends the memory of a whole descriptor to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRequest {
    /// The bound descriptor whose memory is sent.
    pub md: MdHandle,
    /// True to ask for an ACK, which takes a second operation of the descriptor's threshold.
    pub ack: bool,
    /// The local NID to send from; for `None` or the wildcard LNet selects one.
    pub source: Option<Nid>,
    /// The target.
    pub target: ProcessId,
    /// The portal of the target.
    pub portal: u32,
    /// The match bits, which select the match entry of the target.
    pub match_bits: u64,
    /// Offset in the target's descriptor, in bytes (with `MANAGE_REMOTE`).
    pub offset: u32,
    /// A value that the target's event delivers.
    pub hdr_data: u64,
}

/// A GET, which requests as many bytes as the descriptor is long; they land at the beginning of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetRequest {
    /// The bound descriptor that the bytes land in; a GET takes two operations of its threshold.
    pub md: MdHandle,
    /// The local NID to send from; for `None` or the wildcard LNet selects one.
    pub source: Option<Nid>,
    /// The target.
    pub target: ProcessId,
    /// The portal of the target.
    pub portal: u32,
    /// The match bits, which select the match entry of the target.
    pub match_bits: u64,
    /// Offset in the target's descriptor, in bytes (with `MANAGE_REMOTE`).
    pub offset: u32,
}

/// The common parameters of PUT and GET.
#[derive(Clone, Copy, Debug)]
pub(in crate::traffic) struct Start {
    pub(in crate::traffic) md: MdHandle,
    pub(in crate::traffic) source: Option<Nid>,
    pub(in crate::traffic) target: ProcessId,
    pub(in crate::traffic) body: Body,
    /// How long to wait for the response; `None` if none is requested.
    pub(in crate::traffic) response_within: Option<Duration>,
    pub(in crate::traffic) hints: SendHints,
    pub(in crate::traffic) exact: Exact,
}

/// The fields of a PUT or GET that its events repeat.
struct Fields {
    portal: u32,
    match_bits: u64,
    offset: u32,
    hdr_data: u64,
}

impl Fields {
    fn of(body: &Body) -> Self {
        let (portal, match_bits, offset, hdr_data) = match body {
            Body::Put(put) => (put.ptl_index, put.match_bits, put.offset, put.hdr_data),
            Body::Get(get) => (get.ptl_index, get.match_bits, get.src_offset, 0),
            Body::Ack(_) | Body::Reply(_) => (0, 0, 0, 0),
        };
        Self {
            portal,
            match_bits,
            offset,
            hdr_data,
        }
    }
}

/// A message that waits until its target is discovered. It is handed on in a box, since few messages wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) send: PathRequest,
    pub(crate) path: Path,
    pub(crate) message: Outgoing,
}

/// Hints of a caller for a PUT or GET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendHints {
    /// The interface of the peer (or of the gateway) that a resend takes if it is up and in full health. If this is
    /// the target's own NID, the first attempt takes it too, whatever other interfaces the target has.
    pub resend_to: Option<Nid>,
    /// The NUMA node (CPT) of the payload's memory.
    pub cpt: u16,
    /// The gateway of an earlier attempt of the caller that was not answered: the `sender` in the SEND event of that
    /// attempt. The message takes another gateway while there is one. The hint also counts as one unanswered message
    /// through the gateway. In the `lustre` profile it does not affect the path.
    pub avoid: Option<Nid>,
}

impl SendHints {
    /// Returns how strictly a message with these hints keeps to the NID of its target.
    pub(crate) fn exact(&self, target: Nid) -> Exact {
        match self.resend_to {
            Some(nid) if nid == target => Exact::FirstAttempt,
            _ => Exact::Never,
        }
    }
}

impl Traffic {
    /// Starts a PUT. Returns it if it must wait until its target is discovered.
    pub(crate) fn start_put(
        &mut self,
        put: PutRequest,
        hints: SendHints,
        now: Time,
    ) -> Result<Option<Box<Waiting>>, PortalError> {
        let none = Handle::NONE;
        let ack_wmd = if put.ack {
            self.wire_handles.of(put.md)
        } else {
            none
        };
        let PutRequest {
            md,
            source,
            target,
            portal,
            match_bits,
            offset,
            hdr_data,
            ..
        } = put;
        let body = Body::Put(Put {
            ack_wmd,
            match_bits,
            hdr_data,
            ptl_index: portal,
            offset,
        });
        let timeout = self.globals().transaction_timeout;
        let response_within = put.ack.then_some(timeout);
        let start = Start {
            md,
            source,
            target,
            body,
            response_within,
            hints,
            exact: hints.exact(target.nid),
        };
        let entry = self.startable(md, target)?;
        if put.ack {
            entry.responses.wait_for(target.nid, MessageType::Ack);
        }
        Ok(self.start(&start, now))
    }

    /// Starts a GET. Returns it if it must wait until its target is discovered.
    pub(crate) fn start_get(
        &mut self,
        get: GetRequest,
        hints: SendHints,
        response_within: Duration,
        exact: Exact,
        now: Time,
    ) -> Result<Option<Box<Waiting>>, PortalError> {
        let return_wmd = self.wire_handles.of(get.md);
        let GetRequest {
            md,
            source,
            target,
            portal,
            match_bits,
            offset,
        } = get;
        let entry = self.startable(md, target)?;
        entry.responses.wait_for(target.nid, MessageType::Reply);
        let body = Body::Get(Get {
            return_wmd,
            match_bits,
            ptl_index: portal,
            src_offset: offset,
            sink_length: entry.spec.length,
        });
        let response_within = Some(response_within);
        let start = Start {
            md,
            source,
            target,
            body,
            response_within,
            hints,
            exact,
        };
        Ok(self.start(&start, now))
    }

    fn startable(&mut self, md: MdHandle, target: ProcessId) -> Result<&mut Md, PortalError> {
        if target.nid.is_any() {
            return Err(PortalError::WildcardTarget);
        }
        let entry = self
            .mds
            .get_mut(md)
            .filter(|md| !md.dead)
            .ok_or(PortalError::UnknownHandle)?;
        if entry.attached || entry.threshold == Some(0) {
            return Err(PortalError::Exhausted);
        }
        Ok(entry)
    }

    fn start(&mut self, start: &Start, now: Time) -> Option<Box<Waiting>> {
        self.note_time(now);
        let target = start.target;
        let send = PathRequest::Request(Request {
            source: start.source,
            target,
            reserved: Fields::of(&start.body).portal == LNET_PORTAL,
            exact: start.exact,
            cpt: start.hints.cpt,
            avoid: start.hints.avoid,
        });
        if let Some(gateway) = start.hints.avoid {
            self.fabric.note_no_answer_through(gateway, now);
        }
        self.fabric.ensure_target_known(&send, now);
        let path = self.fabric.view().path(&send, None, &mut Unobserved);
        self.fabric.note_selection(&send, None);
        let Some((payload, owner)) = self.begin_send(start) else {
            self.broken("the descriptor of an operation that begins");
            return None;
        };
        let next_hop = path.map_or(target.nid, |path| path.next_hop.nid);
        self.expect_response(start, next_hop, now);
        let header = Header {
            dest_nid: target.nid,
            src_nid: path.map_or(Nid::ANY, |path| {
                self.fabric.source_nid(start.source, target.nid, path)
            }),
            dest_pid: target.pid,
            src_pid: self.fabric.ground.config.pid,
            payload_length: payload.map_or(0, |payload| payload.length),
            body: start.body,
        };
        let message = Outgoing {
            header,
            payload,
            work: Work::Request {
                md: start.md,
                target,
                sender: Nid::ANY,
            },
            owner,
            named: start.hints.resend_to,
        };
        match path {
            Ok(path) if self.fabric.must_wait(&send, path) => {
                return Some(Box::new(Waiting {
                    send,
                    path,
                    message,
                }));
            }
            Ok(path) => self.dispatch(send, path, message, now),
            Err(error) => self.reject(message, error.errno(self.globals().profile)),
        }
        None
    }

    /// Takes an operation of the descriptor's threshold. Returns the payload, and the user of the descriptor.
    fn begin_send(&mut self, start: &Start) -> Option<(Option<Payload>, Owner)> {
        let md = self.mds.get_mut(start.md)?;
        md.begin();
        let (length, owner) = (md.spec.length, md.owner);
        let has_payload = length > 0 && matches!(start.body, Body::Put(_));
        let payload = has_payload.then_some(Payload {
            place: owner.place(start.md),
            offset: 0,
            length,
        });
        // The message may use the buffer of a push longer than the descriptor does, so it is a user of its own.
        if let Some(buffer) = owner.buffer().filter(|_| has_payload) {
            self.buffers.retain(buffer);
        }
        Some((payload, owner))
    }

    /// Returns the SEND event that ends a PUT or GET: its descriptor, its target, the next hop and its header.
    pub(in crate::traffic) fn send_event(
        &self,
        handle: MdHandle,
        target: ProcessId,
        sender: Nid,
        header: &Header,
    ) -> Event {
        let md = self.mds.get(handle);
        let (length, user) = md.map_or((0, 0), |md| (md.spec.length, md.spec.user));
        let own = ProcessId {
            nid: Nid::ANY,
            pid: self.fabric.ground.config.pid,
        };
        let fields = Fields::of(&header.body);
        Event {
            kind: EventKind::Send,
            md: handle,
            user,
            status: Ok(()),
            unlinked: false,
            target,
            initiator: own,
            source: own,
            sender,
            message_type: Some(header.body.message_type()),
            portal: fields.portal,
            match_bits: fields.match_bits,
            rlength: length,
            mlength: length,
            offset: fields.offset,
            hdr_data: fields.hdr_data,
        }
    }

    fn expect_response(&mut self, start: &Start, next_hop: Nid, now: Time) {
        let Some(within) = start.response_within else {
            return;
        };
        let operation = match start.body {
            Body::Get(_) => MessageType::Get,
            _ => MessageType::Put,
        };
        let fields = Fields::of(&start.body);
        let tracked = Tracked {
            deadline: now + within,
            operation,
            target: start.target,
            portal: fields.portal,
            match_bits: fields.match_bits,
            next_hop,
            departed: false,
        };
        self.track(start.md, tracked);
    }
}
