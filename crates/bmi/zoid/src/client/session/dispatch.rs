//! Dispatches frames of the daemon to waiting calls. Every frame is checked against what was asked for,
//! because a daemon may be faulty or hostile.

use std::io::{self, ErrorKind};
use std::time::Instant;

use bmi::{Error, Tag};
use zoid_proto::Status;
use zoid_proto::fwd::{Event, Frame, FrameHeader, Place as Way};

use super::{Answer, Server, State};
use crate::client::link::Verdict;
use crate::spans;

impl State {
    pub(super) fn dispatch(
        &mut self,
        header: &FrameHeader,
        frame: &Frame<'_>,
        keep: bool,
    ) -> io::Result<()> {
        let request = header.request;
        match frame {
            Frame::Grant(grant) => {
                self.conceal(request);
                let answer = match grant.place {
                    Way::Memory => Answer::GrantedInMemory(grant.grant),
                    Way::Stream => Answer::Granted(grant.grant),
                };
                self.answer(request, answer);
            }
            Frame::SendDone => {
                self.conceal(request);
                self.leave_window(request);
                self.answer(request, Answer::Done(header.status));
            }
            Frame::RecvReply(_) if header.status != Status::DONE => {
                self.conceal(request);
                self.answer(request, Answer::Done(header.status));
            }
            Frame::RecvReply(reply) => {
                let total = usize::try_from(reply.total).unwrap_or(usize::MAX);
                match reply.place {
                    Way::Memory => self.coming_in_memory(request, reply.grant, total)?,
                    Way::Stream => self.coming(request, reply.grant, total)?,
                }
            }
            Frame::TestReply(ready) => {
                self.answer(request, Answer::Ready(ready.counts.iter().collect()));
            }
            Frame::Event(event) => self.news(*event, header.status, keep),
            // Or an empty piece of an empty message, which is complete without it.
            Frame::Data(data) => {
                if let Some(request) = self.copied(data.grant, data.offset) {
                    self.answer(request, Answer::Received);
                }
            }
            Frame::Pong => {}
            _ => return Err(invalid_data("a frame that only clients send")),
        }
        Ok(())
    }

    /// Handles the announcement of a message for a receive.
    pub(super) fn coming(&mut self, request: u32, grant: u64, total: usize) -> io::Result<()> {
        if !self.announce(request, grant, total)? {
            return Ok(());
        }
        self.answer(request, Answer::Coming(grant, total));
        if total == 0 {
            self.answer(request, Answer::Received);
        }
        Ok(())
    }

    /// Handles the announcement of a message that the daemon copies.
    fn coming_in_memory(&mut self, request: u32, grant: u64, total: usize) -> io::Result<()> {
        if total == 0 {
            return Err(invalid_data("a copy of no bytes"));
        }
        if self.announce(request, grant, total)? {
            self.answer(request, Answer::ComingInMemory(grant, total));
        }
        Ok(())
    }

    /// Returns whether a call waits for the message.
    // [FWD-8]
    fn announce(&mut self, request: u32, grant: u64, total: usize) -> io::Result<bool> {
        let Some(call) = self.calls.get_mut(&request) else {
            return Ok(false);
        };
        let Some(sink) = &mut call.sink else {
            return Err(invalid_data("a message for a call that is not a receive"));
        };
        if total > sink.capacity || sink.grant.is_some() {
            return Err(invalid_data("a message longer than its buffer"));
        }
        (sink.grant, sink.total) = (Some(grant), total);
        Ok(true)
    }

    // [FWD-8]
    pub(super) fn expect_payload(
        &mut self,
        grant: u64,
        offset: u64,
        len: usize,
    ) -> io::Result<Verdict> {
        let Some(request) = self.request_of(grant) else {
            self.filling = None;
            return Ok(Verdict::Drop);
        };
        self.conceal(request);
        let sink = self.calls.get(&request).and_then(|call| call.sink.as_ref());
        let Some(sink) = sink else {
            return Ok(Verdict::Drop);
        };
        if offset != sink.received as u64 || len > sink.total - sink.received {
            return Err(invalid_data("a piece of a message at a wrong offset"));
        }
        let target = spans::part(&sink.segments, sink.received, len);
        self.filling = Some((request, len));
        Ok(Verdict::Into(target))
    }

    pub(super) fn filled(&mut self) {
        let Some((request, len)) = self.filling.take() else {
            return;
        };
        let Some(call) = self.calls.get_mut(&request) else {
            return;
        };
        if let Some(sink) = &mut call.sink {
            sink.received += len;
            if sink.received == sink.total {
                self.answer(request, Answer::Received);
            }
        }
    }

    fn news(&mut self, event: Event, status: Status, keep: bool) {
        match event {
            Event::ServerGone(_) => self.server = Server::Gone(Instant::now()),
            Event::ServerAttached(_) => self.server = Server::Here,
            _ => {}
        }
        match event {
            // [DEATH-11]
            Event::ServerGone(_) => self.server_died = status.is_error(),
            Event::Kept(tag) => self.queue.keep_request(Tag(tag)),
            Event::ServerAttached(_) if self.server_died && !keep => {
                self.server_died = false;
                let condemned = self.queue.change_server(Error::ConnReset);
                let fall = |op| (op, Error::ConnReset);
                self.fallen.extend(condemned.into_iter().map(fall));
            }
            Event::Credits(more) => self.credits = self.credits.saturating_add(more),
            Event::ServerAttached(_) | Event::Draining | Event::Mark(_) | Event::Unknown(..) => {}
        }
    }
}

pub(super) fn invalid_data(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
