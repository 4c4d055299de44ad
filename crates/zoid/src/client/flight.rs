//! Attempts that no thread waits for: those of a client whose posts do not wait.
//!
//! ```text
//!            launch             an answer, a driver             Step::.. over
//!   (post) ──────────▶ IN FLIGHT ─────────────────▶ (driven) ─────────────────▶ settled
//!                          ▲                            │
//!                          └────── more answers ────────┘
//! ```
//!
//! Whoever waits for anything drives them: takes one that has an answer, does what that asks for
//! (copies, sends, acknowledges), and puts it back until it is over. A flight is one thread's while
//! it is taken; others are driven by other threads meanwhile, because a long message to a daemon
//! that is slow holds its driver up. A driver waits for no answer: a send that has to be repeated is
//! a flight again.

use std::collections::{BTreeMap, VecDeque};

use super::Client;
use super::attempt::{Doubt, Judged, Outcome, Progress, Step};
use super::queue::{Key, Op};
use super::session::Ticket;

/// An attempt under way.
pub(super) struct Flight {
    pub(super) op: Op,
    pub(super) step: Step,
    pub(super) ticket: Ticket,
    /// It repeats another one.
    pub(super) doubt: Option<Doubt>,
}

/// The most at a time: their answers fit any socket's buffer many times.
const FLIGHTS_MAX: usize = 64;

/// All of them, by request.
#[derive(Default)]
pub(super) struct Flights {
    waiting: BTreeMap<u32, Flight>,
    /// Those that have an answer, some more than once.
    answered: VecDeque<u32>,
}

impl Flights {
    /// Takes a flight in, which may have an answer already.
    pub(super) fn add(&mut self, flight: Flight, has_answer: bool) {
        let request = flight.ticket.request;
        self.waiting.insert(request, flight);
        self.answered.extend(has_answer.then_some(request));
    }

    /// A call got an answer. Says whether it is that of a flight.
    pub(super) fn note_answer(&mut self, request: u32) -> bool {
        let is_flight = self.waiting.contains_key(&request);
        if is_flight {
            self.answered.push_back(request);
        }
        is_flight
    }

    /// Whether there is something to do for a driver.
    pub(super) fn have_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Takes the flight of the oldest answer out.
    pub(super) fn next_answered(&mut self) -> Option<Flight> {
        while let Some(request) = self.answered.pop_front() {
            if let Some(flight) = self.waiting.remove(&request) {
                return Some(flight);
            }
        }
        None
    }

    /// Whether no more may be begun: answers that nobody reads must not fill the connection.
    pub(super) fn are_full(&self) -> bool {
        self.waiting.len() >= FLIGHTS_MAX
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The request of an operation that still asks for its counterpart.
    pub(super) fn asking(&self, op: bmi::OpId) -> Option<Ticket> {
        let flight = self.waiting.values().find(|flight| flight.op.id == op)?;
        flight.step.is_asking().then(|| flight.ticket.clone())
    }

    /// Lets go of every operation's memory.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.answered.clear();
    }
}

impl Client {
    /// Begins an attempt and does not wait for its end.
    pub(super) fn launch(&self, op: Op, timeout_ms: u32) {
        if let Some((op, lost)) = self.take_off(op, timeout_ms, None) {
            self.land(op, lost);
        }
    }

    /// Says what begins an attempt, and then leaves it to whoever drives: from there on, the operation
    /// may complete at any time. Gives it back when there is no connection.
    fn take_off(&self, op: Op, timeout_ms: u32, doubt: Option<Doubt>) -> Option<(Op, Outcome)> {
        let calling = match self.begin(op.sink()) {
            Ok(calling) => calling,
            Err(error) => return Some((op, Outcome::Unasked(error))),
        };
        let ticket = calling.ticket.clone();
        let step = self.first_step(&ticket, &op, doubt.is_some());
        // A connection that is lost has answered every call.
        let step = step.unless_unsaid(&self.say_request(&ticket, &op, step, timeout_ms));
        calling.detach(Flight {
            op,
            step,
            ticket,
            doubt,
        });
        None
    }

    /// Begins the oldest attempt of a key, unless it is under way or too much is. What does not begin
    /// here waits for a test as what found no counterpart does.
    pub(super) fn launch_next(&self, key: Key) {
        let mut state = self.lock();
        if state.flights.are_full() {
            return;
        }
        let next = state.queue.begin(key);
        drop(state);
        if let Some(op) = next {
            self.launch(op, 0);
        }
    }

    /// Does what answers to flights ask for, until there is none left, or the thread has done its share:
    /// those that come meanwhile could hold it for ever.
    pub(super) fn drive(&self) {
        for _ in 0..FLIGHTS_MAX {
            let Some((flight, answer)) = self.next_landed() else {
                return;
            };
            match self.advance(&flight.ticket, &flight.op, flight.step, answer) {
                Progress::Waits(step) => self.go_on(Flight { step, ..flight }),
                Progress::Ended(outcome) => self.end_flight(flight, outcome),
            }
        }
    }

    /// An attempt has ended; its repetition is a flight, too, so that nothing waits for its answers
    /// but those who drive.
    fn end_flight(&self, flight: Flight, mut outcome: Outcome) {
        let Flight {
            mut op,
            ticket,
            mut doubt,
            ..
        } = flight;
        self.forget_call(ticket.request);
        loop {
            match self.judge(outcome, doubt) {
                Judged::Over(outcome) => return self.land(op, outcome),
                Judged::Again(next) => doubt = Some(next),
            }
            match self.take_off(op, 0, doubt) {
                None => return,
                Some(back) => (op, outcome) = back,
            }
        }
    }

    /// An attempt is over, and others of its key have their turn.
    fn land(&self, op: Op, outcome: Outcome) {
        let key = Key::of(op.kind, op.tag);
        let id = op.id;
        // A completed operation's memory has no other name.
        drop(op);
        if self.settle(id, outcome) {
            self.launch_next(key);
        }
    }
}
