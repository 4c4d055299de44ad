//! One attempt of a call: an exchange of messages with a tag of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use bmi::{Class, Completion, Error, Memory, OpId, Payload, Post, Question, Rejected, Tag};
use files::wire::decode_reply;
use files::{Errno, Reply};
use sys::span::Span;

use super::bulk::Bulk;
use super::{BmiFiles, Call};
use crate::proto::{ANSWER_BYTES, AnswerHead, CALL_BYTES, PIECE_MIN, data_head};

/// How an attempt ended.
pub(super) enum Ended {
    Answered(Result<Reply, Errno>),
    /// The forwarder accepts shorter pieces only, and has reported their limit.
    ShorterPieces,
    /// The call failed, and to retry it is useless.
    Refused(Errno),
    /// No answer came.
    Lost {
        maybe_arrived: bool,
    },
}

/// Why an attempt cannot continue.
enum Failed {
    Refused(Errno),
    Lost,
}

/// Number of messages of data that are posted at the same time in one direction.
const WINDOW: usize = 2;
/// How long a test waits before the deadline is checked.
const SLICE: Duration = Duration::from_secs(1);
/// How long to wait for cancelled operations.
const PATIENCE: Duration = Duration::from_secs(2);

/// The next tag of this process. Each attempt has its own tag, so that a message of an earlier attempt does not match
/// a later one.
static TAGS: AtomicI32 = AtomicI32::new(1);

/// Why a message is not a valid answer.
enum Strange {
    /// The message breaks the protocol.
    Broken,
    /// The forwarder has cancelled the exchange or one of its messages.
    Again,
}

/// What an operation carries.
enum What {
    Call,
    Request,
    /// Data to write, from this memory.
    Piece(Span),
    /// An answer, with its number.
    Answer(usize),
}

/// Memory for an answer.
struct Room {
    head: Span,
    /// Memory for a piece of the data read; `None` if no data is expected.
    data: Option<Span>,
    tail: Span,
    /// Position of the piece in the data of the call.
    piece: Range<u64>,
    /// Length of the message, once it has arrived.
    arrived: Option<usize>,
}

pub(super) struct Attempt<'a, 'c> {
    files: &'a BmiFiles,
    call: &'a Call<'c>,
    tag: Tag,
    piece: u64,
    posted: Vec<(OpId, What)>,
    /// Whether the call may have arrived at the forwarder.
    maybe_arrived: bool,
    /// End of the data that was posted for sending.
    sent: u64,
    write_length: u64,
    read_length: u64,
    rooms: Vec<Room>,
    /// Number of answers that were processed.
    answers: usize,
}

impl<'a, 'c> Attempt<'a, 'c> {
    pub(super) fn new(files: &'a BmiFiles, call: &'a Call<'c>) -> Self {
        Self {
            files,
            call,
            tag: Tag(TAGS.fetch_add(1, Ordering::Relaxed)),
            piece: 1,
            posted: Vec::new(),
            maybe_arrived: false,
            sent: 0,
            write_length: 0,
            read_length: 0,
            rooms: Vec::new(),
            answers: 0,
        }
    }

    pub(super) fn run(mut self, bulk: &mut Bulk<'_, '_>) -> Ended {
        let ended = self.begin(bulk).and_then(|()| self.drive(bulk));
        self.clean_up();
        for room in self.rooms.drain(..) {
            // Memory of an operation that has not completed is not unique, and is not taken back.
            self.files.replies.give(room.tail);
        }
        match ended {
            Ok(ended) => ended,
            Err(Failed::Refused(errno)) => Ended::Refused(errno),
            Err(Failed::Lost) => Ended::Lost {
                maybe_arrived: self.maybe_arrived,
            },
        }
    }

    /// Sends the call.
    fn begin(&mut self, bulk: &Bulk<'_, '_>) -> Result<(), Failed> {
        (self.write_length, self.read_length) = (bulk.write_length(), bulk.read_length());
        let limit = self
            .files
            .bmi
            .get(Some(self.files.server), Question::UnexpectedSize);
        let limit = limit.map_err(|error| self.failed(error))? as usize;
        let request = &self.call.message;
        let mut head = self.files.head(self.call);
        head.request = request.len() as u32;
        let is_append = matches!(self.call.request, files::Request::Append { .. });
        if is_append {
            // An append is executed at once, so its data is one piece.
            head.piece = head.piece.max(self.write_length as u32);
        }
        self.piece = u64::from(head.piece);
        head.is_long = CALL_BYTES + request.len() > limit;
        let mut message = Vec::with_capacity(limit);
        let with_data = (CALL_BYTES + request.len()) as u64 + self.write_length <= limit as u64;
        if with_data {
            head.data = self.write_length as u32;
        }
        message.extend_from_slice(&head.encode());
        if !head.is_long {
            message.extend_from_slice(request);
        }
        if with_data && self.write_length > 0 {
            message.extend_from_slice(&bulk.copy_of(&(0..self.write_length)));
            self.files.counters.copied_bytes.add(self.write_length);
            self.sent = self.write_length;
        }
        self.post_call(message)?;
        if head.is_long {
            let sent = self.post_send(Payload::from(self.call.message.clone()));
            self.keep(sent, What::Request)?;
        }
        Ok(())
    }

    fn post_call(&mut self, message: Vec<u8>) -> Result<(), Failed> {
        self.files.counters.messages.up();
        let files = self.files;
        let posted = files.bmi.post_send_unexpected(
            files.context,
            files.server,
            message,
            self.tag,
            Class(0),
            0,
        );
        match posted {
            Ok(Post::Immediate(..)) => self.maybe_arrived = true,
            Ok(Post::Pending(op)) => {
                self.maybe_arrived = true;
                self.posted.push((op, What::Call));
            }
            Err(refused) => return Err(self.failed(refused.error)),
        }
        Ok(())
    }

    fn post_send(&self, payload: Payload) -> Result<Post, Rejected> {
        let files = self.files;
        files.counters.messages.up();
        files
            .bmi
            .post_send(files.context, files.server, payload, self.tag, 0)
    }

    /// Records an operation that was posted, or processes its immediate completion.
    fn keep(&mut self, posted: Result<Post, Rejected>, what: What) -> Result<(), Failed> {
        match posted {
            Ok(Post::Pending(op)) => self.posted.push((op, what)),
            Ok(Post::Immediate(length, payload)) => {
                drop(payload);
                self.finished(what, length);
            }
            Err(refused) => return Err(self.failed(refused.error)),
        }
        Ok(())
    }

    /// Exchanges messages until the last answer has arrived.
    fn drive(&mut self, bulk: &mut Bulk<'_, '_>) -> Result<Ended, Failed> {
        loop {
            self.post_more(bulk)?;
            if let Some(ended) = self.look_at_answers(bulk)? {
                return Ok(ended);
            }
            let left = self.call.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failed::Lost);
            }
            let done = self.files.bmi.test_some(&self.awaited(), left.min(SLICE));
            let mut done = done.map_err(|error| self.failed(error))?;
            if done.is_empty() {
                // A message whose loss the forwarder does not know would be waited for in vain.
                let all: Vec<OpId> = self.posted.iter().map(|(op, _)| *op).collect();
                let late = self.files.bmi.test_some(&all, Duration::ZERO);
                done = late.map_err(|error| self.failed(error))?;
            }
            for (_, completion) in done {
                self.completed(completion)?;
            }
        }
    }

    /// Returns the operations whose completion the attempt needs to go on. That a message was sent matters only
    /// where another one follows: the answer says that all have arrived.
    fn awaited(&self) -> Vec<OpId> {
        let sends_more = self.sent < self.write_length;
        let matters = |what: &What| match what {
            What::Call | What::Request => false,
            What::Piece(_) => sends_more,
            What::Answer(_) => true,
        };
        let awaited = self.posted.iter().filter(|(_, what)| matters(what));
        awaited.map(|(op, _)| *op).collect()
    }

    /// Posts as many messages as the window permits: data to write, and memory for answers.
    fn post_more(&mut self, bulk: &Bulk<'_, '_>) -> Result<(), Failed> {
        while self.sent < self.write_length
            && self.count(|what| matches!(what, What::Piece(_))) < WINDOW
        {
            let piece = self.sent..self.write_length.min(self.sent + self.piece);
            self.sent = piece.end;
            let Some(span) = bulk.memory_for(&piece, &self.files.spare) else {
                return Err(Failed::Refused(Errno::ENOMEM));
            };
            if matches!(bulk, Bulk::Write(_)) {
                self.files
                    .counters
                    .copied_bytes
                    .add(piece.end - piece.start);
            }
            let head = Span::from(data_head(piece.start).to_vec());
            let payload =
                Payload::from_spans([head, span.clone()].into_iter().collect(), Memory::External);
            let posted = self.post_send(payload);
            self.keep(posted, What::Piece(span))?;
        }
        let wanted = if self.read_length > 0 { WINDOW } else { 1 };
        while self.rooms.len() < self.answers + wanted {
            let start = self.rooms.last().map_or(0, |room| room.piece.end);
            if start >= self.read_length && !self.rooms.is_empty() {
                break;
            }
            let piece = start..self.read_length.min(start + self.piece);
            self.post_room(piece, bulk)?;
        }
        Ok(())
    }

    fn post_room(&mut self, piece: Range<u64>, bulk: &Bulk<'_, '_>) -> Result<(), Failed> {
        let zeroed = |length| Span::zeroed(length).map_err(|_| Failed::Refused(Errno::ENOMEM));
        let data = match piece.is_empty() {
            true => None,
            false => {
                let memory = bulk.memory_for(&piece, &self.files.spare);
                Some(memory.ok_or(Failed::Refused(Errno::ENOMEM))?)
            }
        };
        let length = self.call.request.reply_max();
        let tail = self.files.replies.take_class(length);
        let tail = tail.ok_or(Failed::Refused(Errno::ENOMEM))?;
        let room = Room {
            head: zeroed(ANSWER_BYTES)?,
            data,
            tail,
            piece,
            arrived: None,
        };
        let spans = [Some(&room.head), room.data.as_ref(), Some(&room.tail)];
        let spans = spans.into_iter().flatten().cloned().collect();
        let payload = Payload::from_spans(spans, Memory::External);
        self.rooms.push(room);
        let number = self.rooms.len() - 1;
        let files = self.files;
        files.counters.messages.up();
        let posted = files
            .bmi
            .post_receive(files.context, files.server, payload, self.tag, 0);
        self.keep(posted, What::Answer(number))
    }

    fn count(&self, is: impl Fn(&What) -> bool) -> usize {
        self.posted.iter().filter(|(_, what)| is(what)).count()
    }

    fn completed(&mut self, completion: Completion) -> Result<(), Failed> {
        let Some(index) = self.posted.iter().position(|(op, _)| *op == completion.op) else {
            return Ok(());
        };
        let (_, what) = self.posted.swap_remove(index);
        let result = completion.result;
        // Free the payload, so that its memory can be reused.
        drop(completion.payload);
        match result {
            Ok(length) => self.finished(what, length),
            Err(Error::MsgSize) if matches!(what, What::Answer(_)) => return Err(self.bad()),
            // The forwarder may have answered before it received all data: its answer gives the reason.
            Err(Error::MsgSize) => {}
            Err(error) => return Err(self.failed(error)),
        }
        Ok(())
    }

    fn finished(&mut self, what: What, length: usize) {
        match what {
            What::Call | What::Request => {}
            What::Piece(span) => self.files.spare.give(span),
            What::Answer(number) => self.rooms[number].arrived = Some(length),
        }
    }

    /// Processes the answers that have arrived, in the order of sending. Returns `None` until the last answer has
    /// arrived.
    fn look_at_answers(&mut self, bulk: &mut Bulk<'_, '_>) -> Result<Option<Ended>, Failed> {
        while let Some(length) = self.rooms.get(self.answers).and_then(|room| room.arrived) {
            let number = self.answers;
            self.answers += 1;
            let looked = self.look_at(number, length, bulk);
            if let Some(ended) = looked.map_err(|strange| self.strange(strange))? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    fn look_at(
        &mut self,
        number: usize,
        length: usize,
        bulk: &mut Bulk<'_, '_>,
    ) -> Result<Option<Ended>, Strange> {
        let room = &mut self.rooms[number];
        let mut head = [0; ANSWER_BYTES];
        room.head.copy_out(&mut head);
        let head = AnswerHead::decode(&head).filter(|_| length >= ANSWER_BYTES);
        let head = head.ok_or(Strange::Broken)?;
        if head.number as usize != number || head.again {
            return Err(Strange::Again);
        }
        let (data, reply) = (head.data as usize, head.reply as usize);
        let data_room = room.data.as_ref().map_or(0, Span::len);
        let fits = data <= data_room && length == ANSWER_BYTES + data + reply;
        // Behind the last piece there is no memory for a further answer.
        let is_followed = room.piece.end < self.read_length;
        let is_whole = head.is_last || (is_followed && data == data_room && data > 0 && reply == 0);
        if !fits || !is_whole {
            return Err(Strange::Broken);
        }
        let reply = room.behind(data, reply);
        if let Some(span) = room.data.take() {
            let copied = bulk.deliver(room.piece.start, &span, data);
            self.files.counters.copied_bytes.add(copied as u64);
            if matches!(bulk, Bulk::Read(_)) {
                self.files.spare.give(span);
            }
        }
        self.files.epoch.store(head.epoch, Ordering::Relaxed);
        let piece = head.piece.max(PIECE_MIN);
        self.files.piece.store(piece, Ordering::Relaxed);
        if !head.is_last {
            return Ok(None);
        }
        let reply = decode_reply(&reply).map_err(|_| Strange::Broken)?;
        let shorter = reply == Err(Errno::EMSGSIZE) && u64::from(piece) < self.piece;
        Ok(Some(match shorter {
            true => Ended::ShorterPieces,
            false => Ended::Answered(reply),
        }))
    }

    fn failed(&self, error: Error) -> Failed {
        tracing::debug!(%error, "an exchange was lost");
        match error {
            // On a client, this error means that the interface was finalized.
            Error::NetDown => Failed::Refused(Errno::ESHUTDOWN),
            Error::NoMem => Failed::Refused(Errno::ENOMEM),
            _ => Failed::Lost,
        }
    }

    fn strange(&self, strange: Strange) -> Failed {
        match strange {
            Strange::Broken => self.bad(),
            Strange::Again => Failed::Lost,
        }
    }

    fn bad(&self) -> Failed {
        self.files.counters.bad_answers.up();
        Failed::Refused(Errno::EPROTO)
    }

    /// Cancels the operations that are still posted, and finds out whether the call was sent.
    fn clean_up(&mut self) {
        let bmi = &self.files.bmi;
        // Most sends have completed long before their answer, and need not be cancelled.
        for (op, what) in std::mem::take(&mut self.posted) {
            match (bmi.test(op, Duration::ZERO), what) {
                (Ok(Some(done)), What::Piece(span)) => {
                    drop(done.payload);
                    self.files.spare.give(span);
                }
                (Ok(Some(_)), _) => {}
                (_, what) => self.posted.push((op, what)),
            }
        }
        for (op, _) in &self.posted {
            // `cancel` fails only if the interface was finalized: then the operations have ended already.
            let _nobody_is_left = bmi.cancel(*op);
        }
        let until = Instant::now() + PATIENCE;
        for (op, what) in std::mem::take(&mut self.posted) {
            let left = until.saturating_duration_since(Instant::now());
            let done = bmi.test(op, left);
            if let (What::Call, Ok(Some(done))) = (&what, &done)
                && done.result == Err(Error::Cancel)
            {
                self.maybe_arrived = false;
            }
            if let Ok(None) = done {
                self.files.leave(op);
            }
        }
    }
}

impl Room {
    /// Returns the reply behind `data` bytes of data. The reply begins in the memory for data if the data did not
    /// fill it.
    fn behind(&self, data: usize, length: usize) -> Vec<u8> {
        let mut reply = Vec::with_capacity(length);
        if let Some(span) = &self.data {
            let end = span.len().min(data + length);
            let part = span.part(data..end);
            reply.extend(part.map(|part| part.to_vec()).unwrap_or_default());
        }
        let rest = length - reply.len();
        let part = self.tail.part(0..rest);
        reply.extend(part.map(|part| part.to_vec()).unwrap_or_default());
        reply
    }
}
