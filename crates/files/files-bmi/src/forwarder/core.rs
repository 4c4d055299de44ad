//! What a forwarder does with messages, completions and results. The core only decides; its caller posts and
//! executes.

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

/// Limit of the exchanges of one peer at the same time: the slots of four clients in one process.
const PEER_EXCHANGES_MAX: usize = 64;
/// Replies of up to this many bytes do not count as memory for buffers.
const REPLY_SMALL: u32 = 16 << 10;

/// What the caller must do, in the order of the list.
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
    /// Frees memory that is not needed any longer.
    Release(Held),
}

pub(super) type Actions = Vec<Action>;

/// An operation that was posted or is about to be posted.
pub(super) struct Op {
    pub(super) exchange: u64,
    pub(super) kind: Carries,
    /// Bytes of memory that the operation uses.
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
    /// Exchanges that wait for a buffer.
    pub(super) wanting: Turns<u64>,
    pub(super) used: u64,
    /// Number of exchanges of each peer.
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

    /// Processes an unexpected message.
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
                return self.reject(id, Errno::EMSGSIZE, actions);
            }
            return self.want(id, Stage::Request, actions);
        }
        if request.checked_add(data) != Some(rest.len()) {
            return self.reject(id, Errno::EPROTO, actions);
        }
        let (request, data) = rest.split_at(request);
        self.requested(id, request, data.to_vec(), actions);
    }

    /// Decodes the request of an exchange, which has arrived completely.
    pub(super) fn requested(
        &mut self,
        id: u64,
        request: &[u8],
        data: Vec<u8>,
        actions: &mut Actions,
    ) {
        match decode_request(request) {
            Ok((caller, request)) => self.admit(id, caller, request, data, actions),
            Err(malformed) => self.reject(id, malformed.errno(), actions),
        }
    }

    /// Rejects the request of an exchange: answers with an error and executes nothing.
    fn reject(&mut self, id: u64, errno: Errno, actions: &mut Actions) {
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
            return self.reject(id, Errno::EPROTO, actions);
        }
        let piece = exchange.head.piece;
        let in_pieces = length > 0 && !comes_along && !matches!(request, Request::Append { .. });
        if in_pieces && !(PIECE_MIN..=self.options.piece).contains(&piece) {
            // This is no defect of the client: the answer carries the limit of a piece.
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
        self.decide_attempt(id, actions);
    }

    /// Decides whether an attempt is executed, waits, is answered at once, or is dropped.
    pub(super) fn decide_attempt(&mut self, id: u64, actions: &mut Actions) {
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
                // The client has started a later attempt: it neither sends more data for this exchange nor receives
                // its messages.
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

    /// Starts the execution of an exchange.
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

    /// Puts an exchange into the queue for a buffer.
    pub(super) fn want(&mut self, id: u64, stage: Stage, actions: &mut Actions) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = stage;
            exchange.wants = true;
            let owner = exchange.owner();
            self.wanting.push(owner, id);
        }
        self.give(actions);
    }

    /// Gives buffers to the exchanges in the order of their turns, as long as there is memory.
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

    /// Ends an exchange, whose operation was executed, with the reply.
    pub(super) fn finish(&mut self, id: u64, reply: &Result<Reply, Errno>, actions: &mut Actions) {
        let bytes = encode_reply(reply);
        self.executed(id, &bytes, actions);
        match self.exchanges.get(&id) {
            Some(exchange) if exchange.is_lost => self.remove(id, actions),
            _ => self.answer(id, &bytes, actions),
        }
    }

    /// Records that the operation of an exchange was executed, and continues the attempt that waited for it.
    pub(super) fn executed(&mut self, id: u64, reply: &[u8], actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let kept = (!exchange.request.is_idempotent()).then(|| Arc::from(reply));
        exchange.phase = Phase::Answering;
        let head = exchange.head;
        if let Some(waiting) = self.sessions.ended(&head, Some(kept)) {
            self.decide_attempt(waiting, actions);
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

    /// Cancels an exchange that was not executed, and tells the client that it may retry the call.
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
            self.decide_attempt(waiting, actions);
        }
        self.cancel_all(id, actions);
        self.drop_data(id, actions);
        let payload = Payload::from(answer.encode().to_vec());
        self.send(id, Carries::Answer, payload, None, 0, actions);
    }

    /// Posts a message of an exchange. Returns the number of the operation.
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

    /// Cancels all posted operations of an exchange.
    pub(super) fn cancel_all(&mut self, id: u64, actions: &mut Actions) {
        let numbers = self.exchanges.get(&id).map(|exchange| exchange.ops.clone());
        // The newest operation comes first: otherwise a message could match a later receive after an earlier one is
        // cancelled.
        for number in numbers.unwrap_or_default().into_iter().rev() {
            if let Some(op) = self.ops.get_mut(&number) {
                op.is_cancelled = true;
                actions.extend(op.id.map(Action::Cancel));
            }
        }
    }

    /// Ends an exchange whose client neither waits for the answer nor sends more data.
    pub(super) fn lose(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.is_lost = true;
        if exchange.phase == Phase::Running && exchange.is_busy {
            // A worker executes the operation: the slot becomes free when the worker is done.
            return self.cancel_all(id, actions);
        }
        self.remove(id, actions);
    }

    /// Removes an exchange with all its operations and memory.
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
            self.decide_attempt(waiting, actions);
        }
        self.give(actions);
    }

    /// Frees data that arrived and will not be written.
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

    /// Checks for expired times: cancels exchanges that make no progress, and takes buffers back from slow clients.
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
                self.cancel_stalled(id, actions);
            }
        }
        if self.wanting.len() > 0 {
            for (id, age) in slow {
                self.take_back(id, age, actions);
            }
        }
    }

    /// Cancels an exchange that made no progress for too long.
    fn cancel_stalled(&mut self, id: u64, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.waited = Duration::ZERO;
        match exchange.phase {
            Phase::Answering => self.remove(id, actions),
            _ => self.again(id, actions),
        }
    }

    /// Takes the buffers of an exchange back. The exchange gets buffers again in its later turn.
    fn take_back(&mut self, id: u64, age: Duration, actions: &mut Actions) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.yields || exchange.is_busy || exchange.is_posting {
            return;
        }
        exchange.yields = true;
        // A buffer that came meanwhile would be for data behind what is taken back.
        exchange.wants = false;
        exchange.waited += age;
        self.counters.buffers_taken_back.up();
        self.cancel_all(id, actions);
    }

    /// Processes an operation that could not be posted or has failed.
    pub(super) fn failed(&mut self, id: u64, kind: Carries, error: Error, actions: &mut Actions) {
        tracing::debug!(?kind, %error, "a message of an exchange failed");
        match kind {
            Carries::Answer => {
                self.counters.answers_lost.up();
                self.remove(id, actions);
            }
            Carries::Request | Carries::Piece if error == Error::MsgSize => {
                self.bad_length(id, actions);
            }
            // The answer tells a live client to retry at once. If the client has disconnected, the send of the answer fails at
            // once.
            Carries::Request | Carries::Piece => self.again(id, actions),
        }
    }

    /// Ends an exchange because a message has another length than announced.
    pub(super) fn bad_length(&mut self, id: u64, actions: &mut Actions) {
        self.counters.bad_lengths.up();
        let is_busy = self
            .exchanges
            .get(&id)
            .is_some_and(|exchange| exchange.is_busy);
        match is_busy {
            true => self.lose(id, actions),
            false => {
                // The rest of the operation is not executed.
                if let Some(exchange) = self.exchanges.get(&id)
                    && exchange.phase == Phase::Running
                {
                    let head = exchange.head;
                    if let Some(waiting) = self.sessions.ended(&head, None) {
                        self.decide_attempt(waiting, actions);
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
