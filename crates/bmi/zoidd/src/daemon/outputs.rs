//! Outputs of the engine: frames and messages for clients, replies for the server.

use tracing::error;
use zoid_proto::fwd::{Event, Frame, FrameHeader, FrameType, Grant, Place, Readiness, RecvReply};
use zoid_proto::{List, Status};

use super::Daemon;
use crate::client::{Message, RequestKind};
use crate::failpoint;
use crate::zbmi::{Errno, Output, Peer, Reply, RequestId, Transfer};

impl Daemon {
    /// Carries out all outputs of the engine.
    pub(super) fn pump(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Grant(transfer) => self.grant(&transfer),
                Output::Deliver(transfer) => self.deliver(&transfer),
                Output::Stop { grant, peer } => self.stop_transfer(grant.0, peer),
                Output::Reply {
                    peer,
                    request,
                    reply,
                } => self.reply_client(peer, request, reply),
                Output::Credits { peer, count } => {
                    if let Some(&key) = self.keys.get(&peer) {
                        self.push_event(key, Event::Credits(count), Status::NONE);
                    }
                }
                Output::Answer {
                    session,
                    call,
                    answer,
                } if self.client_first => self.deferred.push((session, call, answer)),
                Output::Answer {
                    session,
                    call,
                    answer,
                } => self.answer(session, call, answer),
                Output::Drained => self.drained = true,
            }
        }
        // A futex word, which counts modulo 2^32.
        let ready = self.engine.counters().unexpected_in.messages as u32;
        self.segment.set_unexpected_ready(ready);
    }

    fn grant(&mut self, transfer: &Transfer) {
        let grant = transfer.grant.0;
        let Some(&key) = self.keys.get(&transfer.peer) else {
            return;
        };
        let (Some(spans), Some(client)) = (
            self.segment.spans(&transfer.segments),
            self.clients.get_mut(key),
        ) else {
            return self.outside(transfer);
        };
        client.grant(grant, transfer.request.0, spans, transfer.total);
        if transfer.inline {
            return;
        }
        if client.inline_message(transfer.request.0).is_some() {
            return self.place_inline(key, transfer);
        }
        let copied = client.is_copied(transfer.total);
        client.ask_places(grant, copied);
        let place = if copied { Place::Memory } else { Place::Stream };
        self.options.failpoints.pass(failpoint::Place::BeforeGrant);
        let header = FrameHeader::new(FrameType::GRANT, transfer.request.0);
        self.push(key, header, &Frame::Grant(Grant { grant, place }));
    }

    /// Writes a message that arrived with its request to the place that the engine has found.
    // [FWD-32]
    fn place_inline(&mut self, key: usize, transfer: &Transfer) {
        self.options.failpoints.pass(failpoint::Place::BeforeGrant);
        self.options.failpoints.pass(failpoint::Place::AmidArrival);
        let now = self.now();
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let message = client
            .inline_message(transfer.request.0)
            .unwrap_or_default();
        let written = self.segment.write(&transfer.segments, message);
        client.copied(transfer.grant.0);
        match written {
            Ok(()) => self.engine.transfer_arrived(now, transfer.grant),
            Err(error) => {
                error!(%error, "cannot write a message to the segment; closing the connection");
                client.closing = true;
                self.enqueue(key);
            }
        }
    }

    fn deliver(&mut self, transfer: &Transfer) {
        let (grant, request) = (transfer.grant.0, transfer.request.0);
        let Some(&key) = self.keys.get(&transfer.peer) else {
            return;
        };
        let (Some(spans), Some(client)) = (
            self.segment.spans(&transfer.segments),
            self.clients.get_mut(key),
        ) else {
            return self.outside(transfer);
        };
        client.deliver(grant, request);
        let total = transfer.total;
        let place = match &mut client.memory {
            Some(memory) if memory.takes(total) => {
                let message = Message {
                    request,
                    spans,
                    total,
                };
                memory.offer(grant, message);
                Place::Memory
            }
            _ => {
                // Without bytes the reply contains everything.
                if total > 0 {
                    client.output.deliver(grant, request, spans, total);
                }
                Place::Stream
            }
        };
        let reply = RecvReply {
            total,
            grant,
            place,
        };
        self.options
            .failpoints
            .pass(failpoint::Place::BeforeRecvReply);
        let header = FrameHeader::new(FrameType::RECV_REPLY, request).with_status(Status::DONE);
        self.push(key, header, &Frame::RecvReply(reply));
    }

    /// Handles a transfer outside the segment. The engine checks every place, so this does not happen; if it
    /// did, the client's connection would be closed and no memory touched.
    fn outside(&mut self, transfer: &Transfer) {
        error!(grant = transfer.grant.0, "a transfer outside the segment");
        if let Some(&key) = self.keys.get(&transfer.peer)
            && let Some(client) = self.clients.get_mut(key)
        {
            client.closing = true;
            self.enqueue(key);
        }
    }

    fn stop_transfer(&mut self, grant: u64, peer: Peer) {
        let Some(&key) = self.keys.get(&peer) else {
            return;
        };
        let stopped = self.clients.get_mut(key).map(|client| client.stop(grant));
        if let Some(Err(error)) = stopped {
            error!(%error, "cannot complete a frame; closing the connection");
            self.lose(key, crate::zbmi::Departure::Broken);
        }
    }

    fn reply_client(&mut self, peer: Peer, request: RequestId, reply: Reply) {
        let Some(&key) = self.keys.get(&peer) else {
            return;
        };
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let kind = client.answered(request.0).unwrap_or(RequestKind::Send);
        let faulty = client.faulty == Some(request.0);
        let status = match &reply {
            Reply::Sent => {
                self.options
                    .failpoints
                    .pass(failpoint::Place::BeforeSendDone);
                Status::DONE
            }
            Reply::NotNow if faulty => Status::FAULT,
            Reply::NotNow if kind == RequestKind::Send => Status::NO_MEMORY,
            Reply::NotNow => Status::NONE,
            Reply::Ready(_) => Status::DONE,
            Reply::Failed(errno) => status(*errno),
        };
        let counts = match reply {
            Reply::Ready(counts) => counts,
            _ => Vec::new(),
        };
        let ready = counts.iter().fold(0_u32, |sum, n| sum.saturating_add(*n));
        if ready > 0 {
            client.tests.found();
        }
        let (frame_type, frame) = match kind {
            RequestKind::Send => (FrameType::SEND_DONE, Frame::SendDone),
            RequestKind::Recv => (FrameType::RECV_REPLY, Frame::RecvReply(RecvReply::NOTHING)),
            RequestKind::Test => (
                FrameType::TEST_REPLY,
                Frame::TestReply(Readiness {
                    ready,
                    counts: List::new(&counts),
                }),
            ),
        };
        let header = FrameHeader::new(frame_type, request.0).with_status(status);
        self.push(key, header, &frame);
    }

    /// Sends an event to one client.
    pub(super) fn push_event(&mut self, key: usize, event: Event, status: Status) {
        let header = FrameHeader::new(FrameType::EVENT, 0).with_status(status);
        self.push(key, header, &Frame::Event(event));
    }

    /// Sends an event to every attached client; the status is an error if something failed.
    pub(super) fn broadcast(&mut self, event: Event, status: Status) {
        let keys: Vec<usize> = self.keys.values().copied().collect();
        for key in keys {
            self.push_event(key, event, status);
        }
    }
}

/// Converts an error of the engine to its status.
pub(super) const fn status(errno: Errno) -> Status {
    match errno {
        Errno::Invalid => Status::INVALID,
        Errno::MessageSize => Status::MESSAGE_SIZE,
        Errno::Protocol => Status::PROTOCOL,
        Errno::Busy => Status::BUSY,
        Errno::ConnectionReset => Status::CONNECTION_RESET,
        Errno::NetReset => Status::NET_RESET,
        Errno::NetDown => Status::NET_DOWN,
        Errno::TryAgain => Status::TRY_AGAIN,
        Errno::Canceled => Status::CANCELLED,
        Errno::NoMemory => Status::NO_MEMORY,
    }
}
