//! One attempt to complete an operation: the forwarded calls `zbmi_send` and `zbmi_recv`.
//!
//! ```text
//!  send   SEND_REQ ─▶            receive   RECV_REQ ─▶
//!            ◀─ GRANT                         ◀─ RECV_REPLY, DATA ...
//!         DATA ... ─▶                      RECV_ACK ─▶
//!            ◀─ SEND_DONE
//! ```
//!
//! Payload moves only after a GRANT or against a credit. Until the first byte of it has moved, an
//! attempt that loses the connection has changed nothing and may be repeated. After that nobody
//! knows (section 3.4): a daemon that has kept this client's place recognises the repetition of a
//! send by its order and says how it ended; without such a daemon the operation fails.

use bmi::{Error, Kind};
use zoid_proto::fwd::{
    Data, Frame, FrameFlags, FrameHeader, FrameType, Kind as WireKind, MAX_CHUNK, RecvReq, SendReq,
};
use zoid_proto::{Extent, SEGMENT_HEADER_LEN, Status};

use super::Client;
use super::queue::Op;
use super::session::{Answer, Calling, Sink, Stay, header};
use crate::error::of_status;
use crate::spans;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// So many bytes were sent or received.
    Done(usize),
    /// There is no counterpart yet.
    NotNow,
    /// It will never succeed.
    Failed(Error),
    /// The connection is gone, and nothing has moved.
    Lost(Error),
    /// The connection is gone, and maybe the message has arrived.
    Unknown(Stay),
}

/// How often a send of unknown end is repeated, as the connection may be lost again.
const REPETITIONS: usize = 3;

impl Client {
    /// Tries to complete an operation; the daemon may wait `timeout_ms` for its counterpart.
    pub(super) fn attempt(&self, op: &Op, timeout_ms: u32) -> Outcome {
        let mut outcome = self.attempt_once(op, timeout_ms);
        for _ in 0..REPETITIONS {
            let Outcome::Unknown(stay) = outcome else {
                break;
            };
            if !self.is_kept(stay) {
                break;
            }
            outcome = match self.attempt_once(op, 0) {
                Outcome::Lost(_) => Outcome::Unknown(stay),
                other => other,
            };
        }
        match outcome {
            Outcome::NotNow => self.counters.not_now().up(),
            Outcome::Unknown(_) => return Outcome::Failed(Error::ConnReset),
            _ => {}
        }
        outcome
    }

    fn attempt_once(&self, op: &Op, timeout_ms: u32) -> Outcome {
        let outcome = match op.kind {
            Kind::Send => self.attempt_send(op, WireKind::Expected, 0, timeout_ms),
            Kind::SendUnexpected(class) => {
                self.attempt_send(op, WireKind::Unexpected, class.0, timeout_ms)
            }
            Kind::Receive => self.attempt_receive(op, timeout_ms),
        };
        outcome.unwrap_or_else(Outcome::Lost)
    }

    /// Errors are those of a connection that is lost before anything has moved.
    fn attempt_send(
        &self,
        op: &Op,
        kind: WireKind,
        class: u8,
        timeout_ms: u32,
    ) -> Result<Outcome, Error> {
        let calling = self.begin(None)?;
        let request = Frame::SendReq(SendReq {
            kind,
            class,
            tag: op.tag.0,
            total: op.total as u64,
            timeout_ms,
            order: op.order,
        });
        if kind == WireKind::Unexpected && self.take_credit() {
            let header = FrameHeader {
                flags: FrameFlags::INLINE,
                payload_len: op.total as u64,
                ..header(FrameType::SEND_REQ)
            };
            let sent = self.say(&calling, &request, header, &op.segments);
            return Ok(self.sent(&calling, op, sent));
        }
        self.say(&calling, &request, header(FrameType::SEND_REQ), &[])?;
        match self.first_answer(&calling, timeout_ms)? {
            Answer::Granted(grant, places) => {
                let moved = match places {
                    None => self.stream(&calling, op, grant),
                    Some(places) => self.copy_to_segment(&calling, op, grant, &places),
                };
                Ok(self.sent(&calling, op, moved))
            }
            // A repetition, of which the first has arrived.
            Answer::Done(Status::DONE) => Ok(Outcome::Done(op.total)),
            Answer::Done(status) => Ok(refused(status)),
            Answer::Lost(error) => Err(error),
            _ => Ok(Outcome::Failed(Error::Proto)),
        }
    }

    /// The last byte is on its way, or the connection is gone: was it taken?
    fn sent(&self, calling: &Calling<'_>, op: &Op, moved: Result<(), Error>) -> Outcome {
        match moved.and_then(|()| self.answer(calling)) {
            Ok(Answer::Done(Status::DONE)) => Outcome::Done(op.total),
            Ok(Answer::Done(status)) => refused(status),
            Ok(Answer::Lost(_)) | Err(Error::ConnReset | Error::TimedOut) => {
                Outcome::Unknown(calling.stay)
            }
            Ok(_) => Outcome::Failed(Error::Proto),
            Err(error) => Outcome::Failed(error),
        }
    }

    fn take_credit(&self) -> bool {
        let mut state = self.lock();
        let credit = state.credits > 0;
        state.credits -= u32::from(credit);
        credit
    }

    /// Sends the message in pieces; a message of no bytes is one empty piece.
    fn stream(&self, calling: &Calling<'_>, op: &Op, grant: u64) -> Result<(), Error> {
        // A chunk fits the address space.
        let chunk = MAX_CHUNK as usize;
        let mut offset = 0;
        loop {
            let len = chunk.min(op.total - offset);
            let frame = Frame::Data(Data {
                grant,
                offset: offset as u64,
            });
            let header = FrameHeader {
                payload_len: len as u64,
                ..header(FrameType::DATA)
            };
            if len == op.total {
                self.say(calling, &frame, header, &op.segments)?;
            } else {
                let piece = spans::part(&op.segments, offset, len);
                self.say(calling, &frame, header, &piece)?;
            }
            offset += len;
            if offset >= op.total {
                return Ok(());
            }
        }
    }

    fn copy_to_segment(
        &self,
        calling: &Calling<'_>,
        op: &Op,
        grant: u64,
        places: &[Extent],
    ) -> Result<(), Error> {
        let target = self.segment_spans(places).ok_or(Error::Proto)?;
        if spans::copy(&op.segments, &target) < op.total {
            return Err(Error::Proto);
        }
        let frame = Frame::Data(Data {
            grant,
            offset: op.total as u64,
        });
        self.say(calling, &frame, header(FrameType::DATA), &[])
    }

    fn attempt_receive(&self, op: &Op, timeout_ms: u32) -> Result<Outcome, Error> {
        let sink = Sink::new(op.segments.clone(), op.total);
        let calling = self.begin(Some(sink))?;
        let request = Frame::RecvReq(RecvReq {
            tag: op.tag.0,
            capacity: op.total as u64,
            timeout_ms,
            order: op.order,
        });
        self.say(&calling, &request, header(FrameType::RECV_REQ), &[])?;
        match self.first_answer(&calling, timeout_ms)? {
            Answer::Coming(grant, total, places) => {
                let received = match places {
                    None => self.streamed(&calling),
                    Some(places) => self.copy_from_segment(op, total, &places),
                };
                Ok(self.acknowledge(&calling, grant, received.map(|()| total)))
            }
            Answer::Done(Status::NONE) => Ok(Outcome::NotNow),
            Answer::Done(status) => Ok(refused(status)),
            Answer::Lost(error) => Err(error),
            _ => Ok(Outcome::Failed(Error::Proto)),
        }
    }

    /// The message comes: has its last byte?
    fn streamed(&self, calling: &Calling<'_>) -> Result<(), Error> {
        match self.answer(calling)? {
            Answer::Received => Ok(()),
            // The server or its transfer died.
            Answer::Done(status) if status.is_error() => Err(of_status(status)),
            Answer::Lost(_) => Err(Error::ConnReset),
            _ => Err(Error::Proto),
        }
    }

    fn copy_from_segment(&self, op: &Op, total: usize, places: &[Extent]) -> Result<(), Error> {
        let source = self.segment_spans(places).ok_or(Error::Proto)?;
        let source = spans::part(&source, 0, total);
        if spans::copy(&source, &op.segments) < total {
            return Err(Error::Proto);
        }
        Ok(())
    }

    fn acknowledge(
        &self,
        calling: &Calling<'_>,
        grant: u64,
        received: Result<usize, Error>,
    ) -> Outcome {
        let status = match received {
            Ok(_) => Status::DONE,
            Err(error) => Status(error.code()),
        };
        let header = header(FrameType::RECV_ACK).with_status(status);
        // The message is here, whether or not the daemon hears of it.
        let _lost = self.say(calling, &Frame::RecvAck { grant }, header, &[]);
        received.map_or_else(Outcome::Failed, Outcome::Done)
    }

    /// Places of the segment in this process; none when it is not mapped or they lie outside.
    fn segment_spans(&self, places: &[Extent]) -> Option<Vec<sys::span::Span>> {
        let segment = self.lock().segment.clone()?;
        let span = |place: &Extent| {
            let offset = usize::try_from(place.offset).ok()?;
            let len = usize::try_from(place.len).ok()?;
            segment.span(offset.checked_add(SEGMENT_HEADER_LEN)?, len)
        };
        places.iter().map(span).collect()
    }
}

fn refused(status: Status) -> Outcome {
    if status.is_not_now() {
        return Outcome::NotNow;
    }
    Outcome::Failed(of_status(status))
}
