//! How data moves: buffers that were given, operations that were posted or have ended, results of workers.

use std::ops::Range;

use bmi::{Buffer, Error, Memory, OpId, Payload};
use files::transfer::{Transfer, filled};
use files::wire::encode_reply;
use files::{Errno, Reply, Segment};
use sys::span::Span;

use super::core::{Action, Actions, Carries, Core, Op};
use super::exchange::{End, Exchange, Held, Phase, Piece, Stage};
use super::work::{Done, ReadDone, Task};
use crate::proto::{ANSWER_BYTES, DATA_BYTES, data_head};

impl Core {
    /// Uses the memory that an exchange was given for its next step.
    pub(super) fn given(&mut self, id: u64, need: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            self.used -= need;
            return;
        };
        exchange.wants = false;
        let range = exchange.next_piece();
        match exchange.stage {
            Stage::Plain => self.used -= need,
            Stage::Request => self.receive(id, Carries::Request, need, actions),
            Stage::Room => {
                (exchange.reserved, exchange.is_busy) = (need, true);
                let task = Task::operation(id, exchange, None);
                self.queue.push(task);
            }
            Stage::Write | Stage::Append => {
                (exchange.ahead, exchange.is_posting) = (range.end, true);
                let number = self.next + 1;
                exchange.pieces.push_back(Piece {
                    number,
                    range,
                    bytes: need,
                    before: exchange.counts.clone(),
                    end: None,
                });
                self.receive(id, Carries::Piece, need, actions);
            }
            Stage::Read => {
                (exchange.ahead, exchange.is_busy) = (range.end, true);
                let task = Task::read(id, exchange, range);
                self.queue.push(task);
            }
        }
    }

    /// Posts a receive of `bytes` bytes.
    fn receive(&mut self, id: u64, kind: Carries, bytes: u64, actions: &mut Actions) {
        let number = self.number();
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.ops.push(number);
        self.ops.insert(number, Op::new(id, kind, bytes));
        self.counters.messages.up();
        actions.push(Action::Receive {
            exchange: id,
            number,
            from: exchange.from,
            tag: exchange.tag,
            length: bytes as usize,
        });
    }

    /// Records the memory of an operation that is about to be posted.
    pub(super) fn posting(&mut self, number: u64, held: Held) {
        if let Some(op) = self.ops.get_mut(&number) {
            op.held = Some(held);
        }
    }

    /// Records that an operation was posted.
    pub(super) fn posted(
        &mut self,
        number: u64,
        exchange: u64,
        id: Option<OpId>,
        actions: &mut Actions,
    ) {
        if let Some(op) = self.ops.get_mut(&number) {
            op.id = id;
            if op.is_cancelled {
                actions.extend(id.map(Action::Cancel));
            }
        }
        if let Some(exchange) = self.exchanges.get_mut(&exchange) {
            exchange.is_posting = false;
        }
        self.advance(exchange, actions);
    }

    /// Puts an exchange into the queue for its next buffer, if it can use one.
    fn advance(&mut self, id: u64, actions: &mut Actions) {
        if let Some(exchange) = self.exchanges.get(&id)
            && exchange.could_go_on()
        {
            let stage = exchange.stage;
            self.want(id, stage, actions);
        }
    }

    /// Processes an operation that has completed or could not be posted.
    pub(super) fn completed(
        &mut self,
        number: u64,
        result: Result<usize, Error>,
        actions: &mut Actions,
    ) {
        let Some(op) = self.ops.remove(&number) else {
            return;
        };
        let id = op.exchange;
        let mut phase = None;
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.ops.retain(|posted| *posted != number);
            phase = Some(exchange.phase);
        }
        match (op.kind, phase) {
            (Carries::Request, Some(Phase::Request)) => self.request_ended(op, result, actions),
            (Carries::Piece, Some(Phase::Running)) => {
                self.piece_ended(number, op, result, actions);
            }
            // The answer with the last piece may have been posted before this piece completed.
            (Carries::Piece, Some(Phase::Answering)) if self.is_read_to_end(id) => {
                self.piece_ended(number, op, result, actions);
            }
            (Carries::Answer, Some(_)) => self.answer_ended(number, op, result, actions),
            _ => self.let_go(op.bytes, op.held, actions),
        }
        let is_over = |exchange: &Exchange| exchange.is_answered && exchange.ops.is_empty();
        if self.exchanges.get(&id).is_some_and(is_over) {
            self.remove(id, actions);
        }
        self.give(actions);
    }

    fn is_read_to_end(&self, id: u64) -> bool {
        let exchange = self.exchanges.get(&id);
        exchange.is_some_and(|exchange| exchange.stage == Stage::Read && exchange.is_over)
    }

    /// Frees memory.
    fn let_go(&mut self, bytes: u64, held: Option<Held>, actions: &mut Actions) {
        self.used -= bytes;
        actions.extend(held.map(Action::Release));
    }

    fn request_ended(&mut self, op: Op, result: Result<usize, Error>, actions: &mut Actions) {
        let id = op.exchange;
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let length = exchange.head.request as usize;
        let yields = std::mem::take(&mut exchange.yields);
        let bytes = op.held.as_ref().and_then(|held| held.span.part(0..length));
        let bytes = bytes.map(|span| span.to_vec()).unwrap_or_default();
        self.let_go(op.bytes, op.held, actions);
        match result {
            Ok(arrived) if arrived == length => self.requested(id, &bytes, Vec::new(), actions),
            Ok(_) => self.bad_length(id, actions),
            Err(Error::Cancel) if yields => self.want(id, Stage::Request, actions),
            Err(error) => self.failed(id, op.kind, error, actions),
        }
    }

    fn piece_ended(
        &mut self,
        number: u64,
        op: Op,
        result: Result<usize, Error>,
        actions: &mut Actions,
    ) {
        let id = op.exchange;
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let (is_read, yields) = (exchange.stage == Stage::Read, exchange.yields);
        let piece = exchange
            .pieces
            .iter_mut()
            .find(|piece| piece.number == number);
        let Some(piece) = piece else {
            return self.let_go(op.bytes, op.held, actions);
        };
        let length = (piece.range.end - piece.range.start) as usize + DATA_BYTES;
        match (result, op.held) {
            (Ok(arrived), Some(held))
                if !is_read && arrived == length && is_at(&held, piece.range.start) =>
            {
                piece.end = Some(End::Arrived(held));
            }
            (Ok(_), held) if is_read => {
                piece.end = Some(End::Sent);
                self.let_go(op.bytes, held, actions);
            }
            (Ok(_), held) => {
                // After a receive is cancelled, the next piece can match a wrong receive: this is no defect of the
                // client.
                let was_slow = yields || !exchange.waited.is_zero();
                self.let_go(op.bytes, held, actions);
                return match was_slow {
                    true => self.again(id, actions),
                    false => self.bad_length(id, actions),
                };
            }
            (Err(Error::Cancel), held) if yields => {
                piece.end = Some(End::TakenBack);
                self.let_go(op.bytes, held, actions);
            }
            (Err(error), held) => {
                self.let_go(op.bytes, held, actions);
                return self.failed(id, op.kind, error, actions);
            }
        }
        self.settle(id, actions);
    }

    fn answer_ended(
        &mut self,
        number: u64,
        op: Op,
        result: Result<usize, Error>,
        actions: &mut Actions,
    ) {
        let id = op.exchange;
        self.let_go(op.bytes, op.held, actions);
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match result {
            Ok(_) => {
                exchange.is_answered = true;
                let piece = exchange
                    .pieces
                    .iter_mut()
                    .find(|piece| piece.number == number);
                if let Some(piece) = piece {
                    piece.end = Some(End::Sent);
                    self.settle(id, actions);
                }
            }
            Err(Error::Cancel) if exchange.yields => {
                // The operation changes no files: it is executed once more in a later turn.
                exchange.phase = Phase::Running;
                if exchange.stage == Stage::Room {
                    exchange.yields = false;
                    return self.start(id, actions);
                }
                let piece = exchange
                    .pieces
                    .iter_mut()
                    .find(|piece| piece.number == number);
                if let Some(piece) = piece {
                    piece.end = Some(End::TakenBack);
                }
                self.settle(id, actions);
            }
            Err(error) => self.failed(id, op.kind, error, actions),
        }
    }

    /// Continues an exchange after some of its pieces were transferred.
    fn settle(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.settle().is_err() {
            return self.again(id, actions);
        }
        if exchange.phase != Phase::Running {
            return;
        }
        self.write_next(id);
        self.advance(id, actions);
    }

    /// Lets a worker write the next piece that has arrived. Only one piece at a time is written.
    fn write_next(&mut self, id: u64) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.is_busy || exchange.is_lost {
            return;
        }
        let Some(ready) = exchange.ready.pop_front() else {
            return;
        };
        exchange.is_busy = true;
        let task = match exchange.stage {
            Stage::Append => Task::operation(id, exchange, Some((ready.bytes, ready.held))),
            _ => Task::write(id, exchange, ready),
        };
        self.queue.push(task);
    }

    /// Processes the result of a task from a worker.
    pub(super) fn done(&mut self, id: u64, done: Done, actions: &mut Actions) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.is_busy = false;
        }
        match done {
            Done::Operation(reply, held) => {
                if let Some((bytes, held)) = held {
                    self.let_go(bytes, Some(held), actions);
                }
                self.finish(id, &reply, actions);
            }
            Done::Write(ready, result) => {
                self.let_go(ready.bytes, Some(ready.held), actions);
                self.wrote(id, &ready.range, result, actions);
            }
            Done::Read(read) => self.read(id, read, actions),
        }
        self.give(actions);
    }

    fn wrote(
        &mut self,
        id: u64,
        range: &Range<u64>,
        result: Result<Vec<u64>, Errno>,
        actions: &mut Actions,
    ) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.is_lost {
            return self.remove(id, actions);
        }
        let mut transfer = Transfer::resumed(exchange.segments(), exchange.counts.clone());
        let failed = result.and_then(|counts| {
            self.counters.written_bytes.add(counts.iter().sum());
            transfer.done(range, &counts)
        });
        let is_whole = failed.is_ok() && transfer.is_done_to(range.end);
        let counts = transfer.into_counts();
        exchange.counts.clone_from(&counts);
        if is_whole && range.end < exchange.length {
            self.write_next(id);
            return self.advance(id, actions);
        }
        let reply = match failed {
            Err(errno) if counts.iter().all(|&count| count == 0) => Err(errno),
            _ => Ok(Reply::Counts(counts)),
        };
        self.finish(id, &reply, actions);
    }

    fn read(&mut self, id: u64, done: ReadDone, actions: &mut Actions) {
        let ReadDone {
            range,
            need,
            buffer,
            result,
        } = done;
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return self.let_go(need, buffer.map(Held::from), actions);
        };
        let before = exchange.counts.clone();
        let mut transfer = Transfer::resumed(exchange.segments(), before.clone());
        let parts = transfer.cut(&range);
        let applied = result.and_then(|counts| {
            self.counters.read_bytes.add(counts.iter().sum());
            transfer.done(&range, &counts).map(|()| counts)
        });
        let is_lost = exchange.is_lost;
        let (mut buffer, counts) = match (buffer, applied) {
            (Some(buffer), Ok(counts)) if !is_lost => (buffer, counts),
            (buffer, applied) => {
                self.let_go(need, buffer.map(Held::from), actions);
                return self.finish(id, &Err(applied.err().unwrap_or(Errno::ENOMEM)), actions);
            }
        };
        let is_last =
            range.end >= exchange.length || ends_here(exchange.segments(), &range, &parts, &counts);
        exchange.counts = transfer.into_counts();
        exchange.is_over = is_last;
        let data = match is_last {
            true => filled(&parts, &counts) as usize,
            false => (range.end - range.start) as usize,
        };
        blank(&mut buffer[ANSWER_BYTES..], &parts, &counts, data);
        let mut reply = Vec::new();
        if is_last {
            reply = encode_reply(&Ok(Reply::Counts(exchange.counts.clone())));
            if reply.len() > exchange.head.room as usize {
                self.let_go(need, Some(Held::from(buffer)), actions);
                return self.finish(id, &Err(Errno::EMSGSIZE), actions);
            }
        }
        exchange.is_posting = true;
        exchange.pieces.push_back(Piece {
            number: 0,
            range,
            bytes: need,
            before,
            end: None,
        });
        self.send_read(id, buffer, data, &reply, is_last, need, actions);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a message with data consists of"
    )]
    fn send_read(
        &mut self,
        id: u64,
        mut buffer: Buffer,
        data: usize,
        reply: &[u8],
        is_last: bool,
        need: u64,
        actions: &mut Actions,
    ) {
        let mut count = 0;
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            count = exchange.sent;
            exchange.sent += 1;
        }
        let head = self.head(is_last, count, data, reply.len()).encode();
        let length = ANSWER_BYTES + data + reply.len();
        buffer[..ANSWER_BYTES].copy_from_slice(&head);
        buffer[ANSWER_BYTES + data..length].copy_from_slice(reply);
        let held = Held::from(buffer);
        let part = held.span.part(0..length);
        let payload = Payload::from_spans(part.into_iter().collect(), held.memory);
        let kind = match is_last {
            true => {
                self.executed(id, reply, actions);
                Carries::Answer
            }
            false => Carries::Piece,
        };
        let number = self.send(id, kind, payload, Some(held), need, actions);
        if let Some(exchange) = self.exchanges.get_mut(&id)
            && let Some(piece) = exchange.pieces.back_mut()
        {
            piece.number = number;
        }
    }
}

/// Returns whether a read has reached the end of the file and no further segment remains.
fn ends_here(all: &[Segment], range: &Range<u64>, parts: &[Segment], counts: &[u64]) -> bool {
    let total: u64 = all.iter().map(|segment| segment.length).sum();
    let last = all.last().map_or(0, |segment| segment.length);
    let is_short = match (parts.last(), counts.last()) {
        (Some(part), Some(count)) => count < &part.length,
        _ => false,
    };
    is_short && range.end >= total - last
}

/// Zeroes the parts of a buffer that were not read. Earlier contents of the buffer must not reach a client.
fn blank(memory: &mut [u8], parts: &[Segment], counts: &[u64], length: usize) {
    let mut at = 0_usize;
    for (part, count) in parts.iter().zip(counts) {
        let end = at + part.length as usize;
        let from = (at + *count as usize).min(length);
        memory[from..end.min(length).max(from)].fill(0);
        at = end;
    }
}

/// Returns whether a message is the piece at `position`.
fn is_at(held: &Held, position: u64) -> bool {
    let mut head = [0; DATA_BYTES];
    held.span.copy_out(&mut head);
    head == data_head(position)
}

impl From<Buffer> for Held {
    fn from(buffer: Buffer) -> Self {
        let memory = buffer.memory();
        Self {
            memory,
            span: buffer.into_span(),
        }
    }
}

impl Held {
    /// Returns the memory as a buffer. No message may use the memory any longer.
    pub(super) fn into_buffer(self) -> Buffer {
        Payload::from_spans([self.span].into_iter().collect(), self.memory).into_buffer()
    }

    /// Returns memory from the heap.
    pub(super) fn of_the_heap(length: usize) -> Option<Self> {
        Some(Self {
            memory: Memory::External,
            span: Span::zeroed(length).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_buffer_held_before_is_zeroed_behind_what_was_read() {
        let part = |length| Segment { offset: 0, length };
        let mut memory = [7; 12];
        blank(&mut memory, &[part(4), part(4), part(4)], &[4, 1, 2], 10);
        assert_eq!(memory, [7, 7, 7, 7, 7, 0, 0, 0, 7, 7, 7, 7]);
    }
}
