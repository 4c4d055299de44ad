//! What a forwarder does with messages, completions and results: decisions only. The caller posts and executes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bmi::{Address, Error, OpId, Payload, Tag};
use files::wire::{REQUEST_MAX, decode_request, encode_reply};
use files::{Caller, Errno, Reply, Request};
use rustc_hash::FxHashMap;

use super::exchange::{End, Exchange, Held, Phase, Stage};
use super::schedule::{Queue, Turns};
use super::sessions::{Sessions, Verdict};
use super::work::Task;
use crate::counters::{Counters, Dropped};
use crate::options::{ForwarderOptions, Schedule};
use crate::proto::{ANSWER_BYTES, AnswerHead, CallHead, PIECE_MIN};

/// Exchanges of one peer at the same time: the slots of four clients in one process.
const PEER_EXCHANGES_MAX: usize = 64;
/// Replies up to this length are kept beside the memory for buffers.
const REPLY_SMALL: u32 = 16 << 10;

/// What the caller is to do, in this order.
pub(super) enum Action {
    Receive {
        exchange: u64,
        number: u64,
        from: Address,
        tag: Tag,
        length: usize,
    },
    Send {
        exchange: u64,
        number: u64,
        to: Address,
        tag: Tag,
        payload: Payload,
    },
    Cancel(OpId),
    /// The memory is not needed any longer.
    Release(Held),
}

pub(super) type Actions = Vec<Action>;

/// An operation that was posted, or is about to be.
pub(super) struct Op {
    pub(super) exchange: u64,
    pub(super) kind: Carries,
    /// Bytes of memory that it has.
    pub(super) bytes: u64,
    pub(super) since: Instant,
    pub(super) id: Option<OpId>,
    pub(super) is_cancelled: bool,
    pub(super) held: Option<Held>,
}

/// What an operation carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Request,
    Piece,
    /// The last answer.
    Answer,
}

pub(super) struct Core {
    pub(super) options: ForwarderOptions,
    pub(super) epoch: u64,
    pub(super) counters: Arc<Counters>,
    pub(super) exchanges: FxHashMap<u64, Exchange>,
    pub(super) sessions: Sessions,
    pub(super) queue: Queue<Task>,
    /// Exchanges that want a buffer.
    pub(super) wanting: Turns<u64>,
    pub(super) used: u64,
    /// Exchanges of each peer.
    pub(super) peers: FxHashMap<Address, usize>,
    pub(super) ops: FxHashMap<u64, Op>,
    pub(super) next: u64,
}

impl Core {
    pub(super) fn new(options: ForwarderOptions, epoch: u64, counters: Arc<Counters>) -> Self {
        let batch = match options.schedule {
            Schedule::Fifo => 1,
            Schedule::Merge => options.batch,
        };
        Self {
            epoch,
            counters,
            exchanges: FxHashMap::default(),
            sessions: Sessions::new(epoch, options.clients_max),
            queue: Queue::new(options.quantum, batch),
            wanting: Turns::new(1),
            used: 0,
            peers: FxHashMap::default(),
            ops: FxHashMap::default(),
            next: 0,
            options,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// An unexpected message has come.
    pub(super) fn message(
        &mut self,
        from: Address,
        tag: Tag,
        message: &[u8],
        actions: &mut Actions,
    ) {
        let Some((head, rest)) = CallHead::decode(message) else {
            return self.counters.dropped(Dropped::Garbage);
        };
        let exchanges = self.peers.entry(from).or_default();
        if *exchanges >= PEER_EXCHANGES_MAX {
            return self.counters.dropped(Dropped::TooMany);
        }
        *exchanges += 1;
        self.counters.exchanges.up();
        let id = self.number();
        self.exchanges.insert(id, Exchange::new(from, tag, head));
        let (request, data) = (head.request as usize, head.data as usize);
        if head.is_long {
            if request > REQUEST_MAX || data > 0 || !rest.is_empty() {
                return self.refuse(id, Errno::EMSGSIZE, actions);
            }
            return self.want(id, Stage::Request, actions);
        }
        if request.checked_add(data) != Some(rest.len()) {
            return self.refuse(id, Errno::EPROTO, actions);
        }
        let (request, data) = rest.split_at(request);
        self.requested(id, request, data.to_vec(), actions);
    }

    /// The request of an exchange is there.
    pub(super) fn requested(
        &mut self,
        id: u64,
        request: &[u8],
        data: Vec<u8>,
        actions: &mut Actions,
    ) {
        match decode_request(request) {
            Ok((caller, request)) => self.admit(id, caller, request, data, actions),
            Err(malformed) => self.refuse(id, malformed.errno(), actions),
        }
    }

    /// An exchange that no operation comes of.
    fn refuse(&mut self, id: u64, errno: Errno, actions: &mut Actions) {
        self.counters.bad_requests.up();
        self.answer(id, &encode_reply(&Err(errno)), actions);
    }

    fn admit(
        &mut self,
        id: u64,
        caller: Caller,
        request: Request,
        data: Vec<u8>,
        actions: &mut Actions,
    ) {
        let length = request.write_length().max(request.read_length());
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let is_read = request.read_length() > 0;
        let comes_along = !data.is_empty();
        if comes_along && data.len() as u64 != request.write_length() {
            return self.refuse(id, Errno::EPROTO, actions);
        }
        let piece = exchange.head.piece;
        let in_pieces = length > 0 && !comes_along && !matches!(request, Request::Append { .. });
        if in_pieces && !(PIECE_MIN..=self.options.piece).contains(&piece) {
            // No defect of the client: the answer says how long pieces may be.
            return self.answer(id, &encode_reply(&Err(Errno::EMSGSIZE)), actions);
        }
        exchange.stage = match &request {
            _ if length == 0 || comes_along => Stage::Plain,
            Request::Append { .. } => Stage::Append,
            _ if is_read => Stage::Read,
            _ => Stage::Write,
        };
        if exchange.stage == Stage::Plain && exchange.head.room > REPLY_SMALL {
            exchange.stage = Stage::Room;
        }
        exchange.length = length;
        exchange.caller = Arc::new(caller);
        exchange.request = Arc::new(request);
        exchange.data = data;
        exchange.counts = vec![0; exchange.segments().len()];
        self.judge(id, actions);
    }

    /// Asks whether an attempt is carried out.
    pub(super) fn judge(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let once = !exchange.request.is_idempotent();
        let verdict = self.sessions.arrived(&exchange.head, once, id);
        self.counters
            .clients_forgotten
            .add(self.sessions.take_forgotten());
        match verdict {
            Verdict::Run => {
                exchange.phase = Phase::Running;
                self.start(id, actions);
            }
            Verdict::Wait { runs, waited } => {
                exchange.phase = Phase::Waiting;
                self.counters.attempts_waited.up();
                if let Some(waited) = waited {
                    self.counters.dropped(Dropped::Late);
                    self.remove(waited, actions);
                }
                // Its client neither sends it more nor takes what it sends.
                self.lose(runs, actions);
            }
            Verdict::Repeat(answer) => {
                self.counters.answers_repeated.up();
                self.answer(id, &answer, actions);
            }
            Verdict::Unknown => {
                self.counters.outcome_unknown.up();
                let reply = encode_reply(&Err(files::OUTCOME_UNKNOWN));
                self.answer(id, &reply, actions);
            }
            Verdict::Drop(why) => {
                self.counters.dropped(why);
                self.remove(id, actions);
            }
        }
    }

    /// Carries an exchange out.
    pub(super) fn start(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match exchange.stage {
            Stage::Plain => {
                exchange.is_busy = true;
                let task = Task::operation(id, exchange, None);
                self.queue.push(task);
            }
            stage => self.want(id, stage, actions),
        }
    }

    /// An exchange queues for a buffer.
    pub(super) fn want(&mut self, id: u64, stage: Stage, actions: &mut Actions) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = stage;
            exchange.wants = true;
            let owner = exchange.owner();
            self.wanting.push(owner, id);
        }
        self.give(actions);
    }

    /// Gives buffers to those whose turn it is, as long as there is memory.
    pub(super) fn give(&mut self, actions: &mut Actions) {
        while let Some(&id) = self.wanting.front() {
            let need = match self.exchanges.get(&id) {
                Some(exchange) if exchange.wants => exchange.need(),
                _ => 0,
            };
            if self.used > 0 && self.used + need > self.options.memory {
                return;
            }
            self.wanting.pop();
            if need > 0 {
                self.used += need;
                self.counters.memory_high_bytes.raise_to(self.used);
                self.given(id, need, actions);
            }
        }
    }

    /// An operation was carried out: the exchange ends with its reply.
    pub(super) fn finish(&mut self, id: u64, reply: &Result<Reply, Errno>, actions: &mut Actions) {
        let bytes = encode_reply(reply);
        self.executed(id, &bytes, actions);
        match self.exchanges.get(&id) {
            Some(exchange) if exchange.is_lost => self.remove(id, actions),
            _ => self.answer(id, &bytes, actions),
        }
    }

    /// Remembers that the operation of an exchange was carried out, and lets an attempt that waited for that go on.
    pub(super) fn executed(&mut self, id: u64, reply: &[u8], actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let kept = (!exchange.request.is_idempotent()).then(|| Arc::from(reply));
        exchange.phase = Phase::Answering;
        let head = exchange.head;
        if let Some(waiting) = self.sessions.ended(&head, Some(kept)) {
            self.judge(waiting, actions);
        }
    }

    /// Sends the answer of an exchange.
    pub(super) fn answer(&mut self, id: u64, reply: &[u8], actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.phase = Phase::Answering;
        exchange.is_busy = false;
        let too_long = encode_reply(&Err(Errno::EMSGSIZE));
        let reply = match reply.len() > exchange.head.room as usize {
            true => &too_long[..],
            false => reply,
        };
        let mut message = Vec::with_capacity(ANSWER_BYTES + reply.len());
        let number = exchange.ahead_answers();
        message.extend_from_slice(&self.head(true, number, 0, reply.len()).encode());
        message.extend_from_slice(reply);
        let mut reserved = 0;
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            reserved = std::mem::take(&mut exchange.reserved);
        }
        self.cancel_all(id, actions);
        self.drop_data(id, actions);
        self.send(
            id,
            Carries::Answer,
            Payload::from(message),
            None,
            reserved,
            actions,
        );
    }

    pub(super) fn head(&self, is_last: bool, number: u32, data: usize, reply: usize) -> AnswerHead {
        AnswerHead {
            is_last,
            again: false,
            epoch: self.epoch,
            data: data as u32,
            reply: reply as u32,
            piece: self.options.piece,
            number,
        }
    }

    /// Gives an exchange up that was not carried out, and tells the client, which may try again.
    pub(super) fn again(&mut self, id: u64, actions: &mut Actions) {
        self.counters.exchanges_lost.up();
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.phase == Phase::Running && exchange.is_busy {
            return self.lose(id, actions);
        }
        let (head, was_running) = (exchange.head, exchange.phase == Phase::Running);
        exchange.phase = Phase::Answering;
        let number = exchange.ahead_answers();
        let answer = AnswerHead {
            again: true,
            ..self.head(true, number, 0, 0)
        };
        if was_running && let Some(waiting) = self.sessions.ended(&head, None) {
            self.judge(waiting, actions);
        }
        self.cancel_all(id, actions);
        self.drop_data(id, actions);
        let payload = Payload::from(answer.encode().to_vec());
        self.send(id, Carries::Answer, payload, None, 0, actions);
    }

    /// Posts a message of an exchange; says the operation's number.
    pub(super) fn send(
        &mut self,
        id: u64,
        kind: Carries,
        payload: Payload,
        held: Option<Held>,
        bytes: u64,
        actions: &mut Actions,
    ) -> u64 {
        let number = self.number();
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return number;
        };
        let (to, tag) = (exchange.from, exchange.tag);
        exchange.ops.push(number);
        let mut op = Op::new(id, kind, bytes);
        op.held.clone_from(&held);
        self.ops.insert(number, op);
        self.counters.messages.up();
        actions.push(Action::Send {
            exchange: id,
            number,
            to,
            tag,
            payload,
        });
        number
    }

    /// Ends whatever is posted for an exchange.
    pub(super) fn cancel_all(&mut self, id: u64, actions: &mut Actions) {
        let numbers = self.exchanges.get(&id).map(|exchange| exchange.ops.clone());
        // The newest first: none may take the message of one before it.
        for number in numbers.unwrap_or_default().into_iter().rev() {
            if let Some(op) = self.ops.get_mut(&number) {
                op.is_cancelled = true;
                actions.extend(op.id.map(Action::Cancel));
            }
        }
    }

    /// Nobody waits for the answer of an exchange, or will send it more.
    pub(super) fn lose(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.is_lost = true;
        if exchange.phase == Phase::Running && exchange.is_busy {
            // A worker is at it: the slot is free when that has ended.
            return self.cancel_all(id, actions);
        }
        self.remove(id, actions);
    }

    /// Forgets an exchange.
    pub(super) fn remove(&mut self, id: u64, actions: &mut Actions) {
        self.cancel_all(id, actions);
        self.drop_data(id, actions);
        let Some(exchange) = self.exchanges.remove(&id) else {
            return;
        };
        self.used -= exchange.reserved;
        if let Some(count) = self.peers.get_mut(&exchange.from) {
            *count -= 1;
        }
        let waiting = match exchange.phase {
            Phase::Running => self.sessions.ended(&exchange.head, None),
            Phase::Waiting => {
                self.sessions.left(&exchange.head, id);
                None
            }
            Phase::Request | Phase::Answering => None,
        };
        if let Some(waiting) = waiting {
            self.judge(waiting, actions);
        }
        self.give(actions);
    }

    /// Drops what has arrived and will not be written.
    fn drop_data(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let arrived = exchange.pieces.iter_mut().filter_map(|piece| {
            let end = piece.end.take_if(|end| matches!(end, End::Arrived(_)))?;
            let End::Arrived(held) = end else { return None };
            Some((piece.bytes, held))
        });
        let arrived: Vec<_> = arrived.collect();
        let ready = exchange
            .ready
            .drain(..)
            .map(|ready| (ready.bytes, ready.held));
        for (bytes, held) in ready.chain(arrived) {
            self.used -= bytes;
            actions.push(Action::Release(held));
        }
    }

    /// Time passes: gives up what stands still, and takes buffers back from clients that do not move.
    pub(super) fn tick(&mut self, now: Instant, actions: &mut Actions) {
        let mut stalled = Vec::new();
        let mut slow = Vec::new();
        for op in self.ops.values() {
            let age = now.saturating_duration_since(op.since);
            let Some(exchange) = self.exchanges.get(&op.exchange) else {
                continue;
            };
            if age + exchange.waited > self.options.patience {
                stalled.push(op.exchange);
            } else if op.bytes > 0 && age > self.options.turn && !op.is_cancelled {
                slow.push((op.exchange, age));
            }
        }
        for id in stalled {
            if self.exchanges.contains_key(&id) {
                self.counters.exchanges_stalled.up();
                self.give_up(id, actions);
            }
        }
        if self.wanting.len() > 0 {
            for (id, age) in slow {
                self.take_back(id, age, actions);
            }
        }
    }

    /// Nothing has moved for too long.
    fn give_up(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.waited = Duration::ZERO;
        match exchange.phase {
            Phase::Answering => self.remove(id, actions),
            _ => self.again(id, actions),
        }
    }

    /// Takes the buffers of an exchange back: they are given to it again later.
    fn take_back(&mut self, id: u64, age: Duration, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.yields || exchange.is_busy || exchange.is_posting {
            return;
        }
        exchange.yields = true;
        exchange.waited += age;
        self.counters.buffers_taken_back.up();
        self.cancel_all(id, actions);
    }

    /// An operation could not be posted, or has ended.
    pub(super) fn failed(&mut self, id: u64, kind: Carries, error: Error, actions: &mut Actions) {
        tracing::debug!(?kind, %error, "a message of an exchange");
        match kind {
            Carries::Answer => {
                self.counters.answers_lost.up();
                self.remove(id, actions);
            }
            Carries::Request | Carries::Piece if error == Error::MsgSize => {
                self.bad_length(id, actions);
            }
            // A client that is gone is not told, and the answer ends at once; one that lives would wait.
            Carries::Request | Carries::Piece => self.again(id, actions),
        }
    }

    /// A message had another length than was announced.
    pub(super) fn bad_length(&mut self, id: u64, actions: &mut Actions) {
        self.counters.bad_lengths.up();
        let is_busy = self
            .exchanges
            .get(&id)
            .is_some_and(|exchange| exchange.is_busy);
        match is_busy {
            true => self.lose(id, actions),
            false => {
                // Nothing of it is carried out any more.
                if let Some(exchange) = self.exchanges.get(&id)
                    && exchange.phase == Phase::Running
                {
                    let head = exchange.head;
                    if let Some(waiting) = self.sessions.ended(&head, None) {
                        self.judge(waiting, actions);
                    }
                }
                self.answer(id, &encode_reply(&Err(Errno::EPROTO)), actions);
            }
        }
    }
}

impl Op {
    pub(super) fn new(exchange: u64, kind: Carries, bytes: u64) -> Self {
        Self {
            exchange,
            kind,
            bytes,
            since: Instant::now(),
            id: None,
            is_cancelled: false,
            held: None,
        }
    }
}
