//! One attempt to complete an operation: the forwarded calls `zbmi_send` and `zbmi_recv`.
//!
//! ```text
//!  send   SEND_REQ ─▶            receive   RECV_REQ ─▶
//!            ◀─ GRANT                         ◀─ RECV_REPLY, DATA ...
//!         DATA ... ─▶                      RECV_ACK ─▶
//!            ◀─ SEND_DONE
//! ```
//!
//! A short send is one frame with its message, SEND_INLINE, answered by SEND_DONE.
//!
//! Payload moves only after a GRANT, against a credit, or into the window that the daemon reserves for short
//! messages. If the connection is lost before the first byte of payload has moved, nothing has changed and
//! the attempt may be repeated. After that the result is unknown. A daemon that has kept this
//! client's place recognises a repeated send by its order and answers with its result; without such a daemon
//! the operation fails.

use bmi::{Error, RequestKind};
use zoid_proto::Status;
use zoid_proto::fwd::{
    Data, Frame, FrameFlags, FrameHeader, FrameType, INLINE_MAX, MAX_CHUNK, MessageKind, RecvReq,
    SendInline, SendReq,
};

use super::Client;
use super::queue::Op;
use super::session::{Answer, Sink, Stay, Ticket, header};
use crate::error::of_status;
use crate::spans;

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The number of bytes sent or received.
    Done(usize),
    /// There is no counterpart yet.
    NotNow,
    /// The operation has failed for good.
    Failed(Error),
    /// The connection was lost before the request was sent.
    Unasked(Error),
    /// The connection was lost before anything moved.
    Lost(Error),
    /// The connection was lost, and the message may have arrived.
    Unknown(Stay),
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The answer to a request that included its message.
    Inline,
    /// A send waits for a buffer.
    Grant,
    /// A send whose bytes are sent waits for SEND_DONE.
    Taken,
    /// A receive waits for a message.
    Message,
    /// A receive waits for the last byte of its message.
    Rest { grant: u64, total: usize },
}

impl Step {
    /// Returns the step after a request was written or failed to be written. The daemon ignores incomplete
    /// frames, so an inline message whose frame is incomplete has not arrived and the attempt may be
    /// repeated.
    pub(super) fn if_written(self, said: &Result<(), Error>) -> Self {
        match (self, said) {
            (Self::Inline, Err(_)) => Self::Grant,
            (step, _) => step,
        }
    }

    /// Returns whether the daemon is still looking for a counterpart.
    pub(super) const fn is_asking(self) -> bool {
        matches!(self, Self::Inline | Self::Grant | Self::Message)
    }
}

/// The effect of an answer.
pub(super) enum Progress {
    Waits(Step),
    Ended(Outcome),
}

/// How often a send with unknown result is repeated; the connection may be lost again.
const REPETITIONS: usize = 3;

/// A send that may have arrived and is repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// The stay in which it was first attempted.
    stay: Stay,
    repetitions: usize,
}

/// What follows the end of an attempt.
pub(super) enum Decision {
    /// The operation is done with this outcome.
    Done(Outcome),
    /// The operation is attempted again.
    Retry(Doubt),
}

impl Op {
    /// Returns the memory for the message of a receive.
    pub(super) fn sink(&self) -> Option<Sink> {
        let receives = self.kind == RequestKind::Receive;
        receives.then(|| Sink::new(self.segments.clone(), self.total))
    }
}

impl Client {
    /// Attempts an operation. The daemon may wait `timeout_ms` for its counterpart.
    pub(super) fn attempt(&self, op: &Op, timeout_ms: u32) -> Outcome {
        let mut doubt = None;
        let mut outcome = self.attempt_once(op, timeout_ms, false);
        loop {
            match self.decide(outcome, doubt) {
                Decision::Done(outcome) => return outcome,
                Decision::Retry(next) => doubt = Some(next),
            }
            outcome = self.attempt_once(op, 0, true);
        }
    }

    /// Decides whether an operation is attempted again: if its result is unknown and the daemon remembers it.
    /// Waits a moment for a daemon that is gone.
    // [DEATH-6]
    pub(super) fn decide(&self, outcome: Outcome, doubt: Option<Doubt>) -> Decision {
        let (stay, repetitions) = match (outcome, doubt) {
            (Outcome::Unknown(_) | Outcome::Lost(_) | Outcome::Unasked(_), Some(doubt)) => {
                (doubt.stay, doubt.repetitions)
            }
            (Outcome::Unknown(stay), None) => (stay, 0),
            (Outcome::NotNow, _) => {
                self.counters.not_now().up();
                return Decision::Done(outcome);
            }
            _ => return Decision::Done(outcome),
        };
        if repetitions == REPETITIONS || !self.is_kept(stay) {
            return Decision::Done(Outcome::Failed(Error::ConnReset));
        }
        let repetitions = repetitions + 1;
        Decision::Retry(Doubt { stay, repetitions })
    }

    // [ZOID-10]
    fn attempt_once(&self, op: &Op, timeout_ms: u32, repeats: bool) -> Outcome {
        let calling = match self.begin(op.sink()) {
            Ok(calling) => calling,
            Err(error) => return Outcome::Unasked(error),
        };
        let mut step = self.first_step(&calling.ticket, op, repeats);
        // On a lost connection the call is answered with the loss.
        let mut said = self.write_request(&calling.ticket, op, step, timeout_ms);
        step = step.if_written(&said);
        let unasked = said.is_err();
        loop {
            let answer = said.and_then(|()| match step.is_asking() && timeout_ms > 0 {
                true => self.first_answer(&calling),
                false => self.answer(&calling),
            });
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => Answer::Lost(error),
            };
            match self.advance(&calling.ticket, op, step, answer) {
                Progress::Waits(next) => (step, said) = (next, Ok(())),
                Progress::Ended(Outcome::Lost(error)) if unasked => return Outcome::Unasked(error),
                Progress::Ended(outcome) => return outcome,
            }
        }
    }

    /// Returns the first step of an attempt. An unexpected message with a credit needs no grant. A repeated
    /// send asks for one, because the daemon would not use up the credit if the message has arrived before.
    pub(super) fn first_step(&self, ticket: &Ticket, op: &Op, repeats: bool) -> Step {
        match op.kind {
            RequestKind::Receive => Step::Message,
            RequestKind::Send | RequestKind::SendUnexpected(_) if repeats => Step::Grant,
            RequestKind::SendUnexpected(_) if self.take_credit(ticket) => Step::Taken,
            RequestKind::Send | RequestKind::SendUnexpected(_) if self.take_window(ticket, op) => {
                Step::Inline
            }
            RequestKind::Send | RequestKind::SendUnexpected(_) => Step::Grant,
        }
    }

    /// Writes the first frame of the attempt.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub(super) fn write_request(
        &self,
        ticket: &Ticket,
        op: &Op,
        step: Step,
        timeout_ms: u32,
    ) -> Result<(), Error> {
        let (kind, class) = match op.kind {
            RequestKind::Receive => {
                let request = Frame::RecvReq(RecvReq {
                    tag: op.tag.0,
                    capacity: op.total as u64,
                    timeout_ms,
                    order: op.order,
                });
                return self.write_frame(ticket, &request, header(FrameType::RECV_REQ), &[]);
            }
            RequestKind::Send => (MessageKind::Expected, 0),
            RequestKind::SendUnexpected(class) => (MessageKind::Unexpected, class.0),
        };
        let request = SendReq {
            kind,
            class,
            tag: op.tag.0,
            total: op.total as u64,
            timeout_ms,
            order: op.order,
        };
        if step == Step::Inline {
            return self.write_inline(ticket, request, op);
        }
        let request = Frame::SendReq(request);
        if step != Step::Taken {
            return self.write_frame(ticket, &request, header(FrameType::SEND_REQ), &[]);
        }
        let inline = FrameHeader {
            flags: FrameFlags::INLINE,
            payload_len: op.total as u64,
            ..header(FrameType::SEND_REQ)
        };
        self.write_frame(ticket, &request, inline, &op.segments)
    }

    /// Carries out what an answer asks for.
    pub(super) fn advance(&self, ticket: &Ticket, op: &Op, step: Step, answer: Answer) -> Progress {
        let outcome = match (step, answer) {
            (Step::Grant, Answer::GrantedInMemory(grant)) => {
                if self.show(ticket, grant, &op.segments) {
                    return Progress::Waits(Step::Taken);
                }
                return self.stream_granted(ticket, op, grant);
            }
            // With `Step::Taken`: the daemon could not copy the message.
            (Step::Grant | Step::Taken, Answer::Granted(grant)) => {
                return self.stream_granted(ticket, op, grant);
            }
            // With `Step::Grant`: the answer to a repeated send whose first attempt has arrived.
            (Step::Inline | Step::Grant | Step::Taken, Answer::Done(Status::DONE)) => {
                Outcome::Done(op.total)
            }
            (Step::Message, Answer::Done(Status::NONE)) => Outcome::NotNow,
            (_, Answer::Done(status)) if !matches!(step, Step::Rest { .. }) => of_rejection(status),
            (Step::Message, Answer::Coming(grant, total)) => {
                return Progress::Waits(Step::Rest { grant, total });
            }
            (Step::Message, Answer::ComingInMemory(grant, total)) => {
                if !self.show(ticket, grant, &spans::part(&op.segments, 0, total)) {
                    self.decline(ticket, grant);
                }
                return Progress::Waits(Step::Rest { grant, total });
            }
            (Step::Rest { grant, total }, answer) => {
                self.acknowledge(ticket, grant, last_byte(&answer).map(|()| total))
            }
            (Step::Inline | Step::Taken, Answer::Lost(Error::NetDown)) => {
                Outcome::Failed(Error::NetDown)
            }
            (Step::Inline | Step::Taken, Answer::Lost(_)) => Outcome::Unknown(ticket.stay),
            (Step::Grant | Step::Message, Answer::Lost(error)) => Outcome::Lost(error),
            _ => Outcome::Failed(Error::Proto),
        };
        Progress::Ended(outcome)
    }

    fn stream_granted(&self, ticket: &Ticket, op: &Op, grant: u64) -> Progress {
        match self.stream(ticket, op, grant) {
            Ok(()) => Progress::Waits(Step::Taken),
            Err(_) => Progress::Ended(Outcome::Unknown(ticket.stay)),
        }
    }

    /// Takes a credit. Credits belong to a connection: one taken from a later connection would be lost.
    fn take_credit(&self, ticket: &Ticket) -> bool {
        let mut state = self.lock();
        let credit = state.credits > 0 && state.is_current(ticket);
        state.credits -= u32::from(credit);
        credit
    }

    /// Takes a part of the daemon's window for short messages, if the message is short and the window has
    /// room.
    fn take_window(&self, ticket: &Ticket, op: &Op) -> bool {
        op.total <= INLINE_MAX && self.lock().take_window(ticket, op.total)
    }

    fn write_inline(&self, ticket: &Ticket, request: SendReq, op: &Op) -> Result<(), Error> {
        let mut bytes = [0; INLINE_MAX];
        let len = sys::span::gather(&op.segments, 0, &mut bytes);
        let message = bytes.get(..len).unwrap_or_default();
        let frame = Frame::SendInline(SendInline { request, message });
        self.write_frame(ticket, &frame, header(FrameType::SEND_INLINE), &[])
    }

    /// Sends the message in pieces; an empty message is one empty piece.
    // [FWD-22]
    fn stream(&self, ticket: &Ticket, op: &Op, grant: u64) -> Result<(), Error> {
        // A chunk fits in a usize.
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
                self.write_frame(ticket, &frame, header, &op.segments)?;
            } else {
                let piece = spans::part(&op.segments, offset, len);
                self.write_frame(ticket, &frame, header, &piece)?;
            }
            offset += len;
            if offset >= op.total {
                return Ok(());
            }
        }
    }

    fn acknowledge(&self, ticket: &Ticket, grant: u64, received: Result<usize, Error>) -> Outcome {
        let status = match received {
            Ok(_) => Status::DONE,
            Err(error) => Status(error.code()),
        };
        let header = header(FrameType::RECV_ACK).with_status(status);
        // The message has arrived, even if the acknowledgement is lost.
        let _lost = self.write_frame(ticket, &Frame::RecvAck { grant }, header, &[]);
        received.map_or_else(Outcome::Failed, Outcome::Done)
    }
}

/// Checks whether a message has arrived completely.
fn last_byte(answer: &Answer) -> Result<(), Error> {
    match answer {
        Answer::Received => Ok(()),
        // The server died or the transfer failed.
        Answer::Done(status) if status.is_error() => Err(of_status(*status)),
        Answer::Lost(Error::NetDown) => Err(Error::NetDown),
        Answer::Lost(_) => Err(Error::ConnReset),
        _ => Err(Error::Proto),
    }
}

fn of_rejection(status: Status) -> Outcome {
    if status.is_not_now() {
        return Outcome::NotNow;
    }
    Outcome::Failed(of_status(status))
}
