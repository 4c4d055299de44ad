//! Tests the core's decisions in an order that real clients meet rarely.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bmi::{Address, Buffer, Error, Tag};
use files::wire::encode_request;
use files::{Caller, Handle, Request, Segment};

use super::core::{Action, Actions, Core};
use super::exchange::read_need;
use super::work::{Done, ReadDone};
use crate::options::{ForwarderOptions, Schedule};
use crate::proto::{ANSWER_BYTES, AnswerHead, CallHead};

const PIECE: u32 = 1 << 20;

/// A core with memory for two pieces.
struct Bench {
    core: Core,
    actions: Actions,
}

/// A message that was posted for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    exchange: u64,
    /// The number of the operation.
    operation: u64,
    /// The number of the answer, as the client sees it.
    answer: u64,
    /// Which piece of the file it has.
    piece: u64,
}

impl Bench {
    fn new() -> Self {
        let options = ForwarderOptions {
            memory: 2 * read_need(PIECE.into(), 1),
            turn: Duration::ZERO,
            schedule: Schedule::Fifo,
            ..ForwarderOptions::default()
        };
        Self {
            core: Core::new(options, 7, Arc::default()),
            actions: Actions::new(),
        }
    }

    /// Begins to read four pieces for a client.
    fn call(&mut self, client: u8) {
        let segments = vec![Segment {
            offset: 0,
            length: 4 * u64::from(PIECE),
        }];
        let handle = Handle::ROOT;
        let request = encode_request(&Caller::default(), &Request::Read { handle, segments });
        let head = CallHead {
            repeats: false,
            is_long: false,
            slot: 0,
            sequence: 1,
            attempt: 0,
            client: [client; 16],
            epoch: 0,
            job: 0,
            room: 4096,
            piece: PIECE,
            request: request.len() as u32,
            data: 0,
        };
        let message = [&head.encode()[..], &request].concat();
        let from = Address::from_number(client.into()).unwrap();
        self.core.message(from, Tag(1), &message, &mut self.actions);
    }

    /// Lets a worker read the next piece and posts it; `None` if there is nothing to read.
    fn read(&mut self) -> Option<Sent> {
        let task = self.core.queue.pop()?.pop()?;
        let (range, need) = task.read_range()?;
        let exchange = task.exchange;
        let done = ReadDone {
            range: range.clone(),
            need,
            buffer: Buffer::zeroed(need as usize).ok(),
            result: Ok(vec![range.end - range.start]),
        };
        self.core
            .done(exchange, Done::Read(done), &mut self.actions);
        let sent = self.actions.iter().rev().find_map(|action| match action {
            Action::Send { number, .. } => Some(*number),
            _ => None,
        });
        let operation = sent?;
        let mut head = [0; ANSWER_BYTES];
        let held = self.core.ops.get(&operation)?.held.as_ref()?;
        held.span.copy_out(&mut head);
        self.core
            .posted(operation, exchange, None, &mut self.actions);
        Some(Sent {
            exchange,
            operation,
            answer: AnswerHead::decode(&head)?.number.into(),
            piece: range.start / u64::from(PIECE),
        })
    }

    fn ended(&mut self, sent: Sent, result: Result<usize, Error>) {
        self.core
            .completed(sent.operation, result, &mut self.actions);
    }
}

#[test]
fn a_read_whose_buffers_are_taken_back_is_given_none_before_they_are_back() {
    let mut bench = Bench::new();
    bench.call(1);
    bench.call(2);
    let first = [bench.read().unwrap(), bench.read().unwrap()];
    // Both want a second piece, for which there is no memory. Their clients stand still.
    assert_eq!(bench.core.wanting.len(), 2);
    bench
        .core
        .tick(Instant::now() + Duration::from_secs(1), &mut bench.actions);
    // What is taken back from one of them is free while the other's message is still posted.
    bench.ended(first[1], Err(Error::Cancel));
    bench.ended(first[0], Err(Error::Cancel));
    let mut sent = Vec::new();
    while let Some(next) = bench.read() {
        sent.push(next);
        bench.ended(next, Ok(0));
        assert!(sent.len() < 20, "{sent:?}");
    }
    for exchange in [first[0].exchange, first[1].exchange] {
        let of_one = sent.iter().filter(|sent| sent.exchange == exchange);
        let pieces: Vec<_> = of_one.map(|sent| (sent.answer, sent.piece)).collect();
        assert_eq!(pieces, [(0, 0), (1, 1), (2, 2), (3, 3)], "{sent:?}");
    }
}
