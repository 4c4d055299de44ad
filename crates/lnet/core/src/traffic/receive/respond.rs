//! Completes a message that has arrived for this node: its event, and the ACK or REPLY.
//!
//! A response goes back by the path of its request: from the NID that the request was addressed to, over the same
//! interface, to the process that sent the request to this node. That process may be the initiator, a router, or a
//! peer that can only be reached over the connection it dialled.

use lnet_types::Time;
use lnet_wire::{Ack, Body, Handle, Header, Reply};

use crate::fabric::select::{PathRequest, Unobserved};
use crate::ground::event::{Errno, Event};
use crate::ground::io::{Payload, Place};
use crate::ground::md::MdOptions;
use crate::ground::status::MessageStatus;
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::lifecycle::Later;
use crate::traffic::receive::rx::Origin;
use crate::traffic::send::tx::{Outgoing, Work};

impl Traffic {
    /// Completes a PUT, a REPLY or an ACK: the payload is in its place, or the message has failed.
    pub(in crate::traffic) fn landed(
        &mut self,
        origin: &Origin,
        mut event: Event,
        result: Result<(), MessageStatus>,
        now: Time,
    ) {
        let ack = self.ack_of(origin, &event);
        match result {
            Ok(()) => {
                self.count_arrival(origin);
                self.note_response(&event, now);
            }
            Err(status) => event.status = Err(status.result().err().unwrap_or(Errno::EIO)),
        }
        let md = self.mds.get(event.md);
        let is_own = md.is_some_and(|md| md.owner != Owner::User);
        // The event comes first, so that its receiver has the payload before the initiator receives the ACK.
        self.complete_operation(event);
        match ack.filter(|_| result.is_ok()) {
            Some(ack) if is_own => self.later.push_back(Later::Ack(origin.clone(), ack)),
            Some(ack) => self.acknowledge(origin, ack, now),
            None => {}
        }
    }

    /// Sends an ACK.
    pub(crate) fn acknowledge(&mut self, origin: &Origin, ack: Header, now: Time) {
        let message = Outgoing {
            header: ack,
            payload: None,
            work: Work::Ack,
            owner: Owner::User,
            named: None,
        };
        self.respond(origin, message, now);
    }

    fn count_arrival(&mut self, origin: &Origin) {
        self.counters().recv_count += 1;
        self.counters().recv_length += u64::from(origin.header.payload_length);
        self.fabric.count_received(origin.arrival());
    }

    /// Returns the ACK that a PUT asks for, if its descriptor allows an ACK.
    // [DATA-1] [DATA-2]
    fn ack_of(&self, origin: &Origin, event: &Event) -> Option<Header> {
        let Body::Put(put) = origin.header.body else {
            return None;
        };
        let md = self.mds.get(event.md)?;
        if put.ack_wmd == Handle::NONE || md.spec.options.contains(MdOptions::ACK_DISABLE) {
            return None;
        }
        let ack = Ack {
            dst_wmd: put.ack_wmd,
            match_bits: put.match_bits,
            mlength: event.mlength,
        };
        Some(self.response_header(origin, 0, Body::Ack(ack)))
    }

    /// Completes a GET that has arrived: sends the REPLY.
    // [DATA-3]
    pub(in crate::traffic) fn asked(
        &mut self,
        origin: &Origin,
        mut event: Event,
        payload: Payload,
        result: Result<(), MessageStatus>,
        now: Time,
    ) {
        let Body::Get(get) = origin.header.body else {
            return;
        };
        if let Place::Core(buffer) = payload.place
            && (result.is_err() || payload.length == 0)
        {
            self.release_buffer(buffer);
        }
        if let Err(status) = result {
            event.status = Err(status.result().err().unwrap_or(Errno::EIO));
            self.complete_operation(event);
            return;
        }
        self.count_arrival(origin);
        let reply = Reply {
            dst_wmd: get.return_wmd,
        };
        let header = self.response_header(origin, payload.length, Body::Reply(reply));
        let payload = Some(payload).filter(|payload| payload.length > 0);
        let message = Outgoing {
            header,
            payload,
            work: Work::Reply(Box::new(event)),
            owner: Owner::User,
            named: None,
        };
        self.respond(origin, message, now);
    }

    // [DATA-4]
    fn response_header(&self, origin: &Origin, payload_length: u32, body: Body) -> Header {
        Header {
            dest_nid: origin.header.src_nid,
            src_nid: origin.header.dest_nid,
            dest_pid: origin.header.src_pid,
            src_pid: self.fabric.ground.config.pid,
            payload_length,
            body,
        }
    }

    // [DATA-5]
    fn respond(&mut self, origin: &Origin, message: Outgoing, now: Time) {
        let send = PathRequest::Response {
            ni: origin.ni,
            via: origin.from,
        };
        self.fabric.note_selection(&send, None);
        match self.fabric.view().path(&send, None, &mut Unobserved) {
            Ok(path) => self.dispatch(send, path, message, now),
            Err(_) => self.reject(message, Errno::EHOSTUNREACH),
        }
    }
}
