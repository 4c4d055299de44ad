//! Flights: attempts that no thread waits for, used by clients whose posts do not wait.
//!
//! ```text
//!            launch             an answer, a driver             Step::.. over
//!   (post) ──────────▶ IN FLIGHT ─────────────────▶ (driven) ─────────────────▶ recorded
//!                          ▲                            │
//!                          └────── more answers ────────┘
//! ```
//!
//! Any thread that waits drives flights: it takes a flight that has an answer, carries out what the answer
//! asks for (copies, sends, acknowledges), and puts the flight back unless it is over. A flight belongs to
//! one thread while that thread drives it; other threads drive other flights, because a long message to a
//! slow daemon blocks its driver. A driver never waits for an answer: a repeated send becomes a flight again.

use std::collections::{BTreeMap, VecDeque};

use super::Client;
use super::attempt::{Decision, Doubt, Outcome, Progress, Step};
use super::queue::{Key, Op};
use super::session::Ticket;

/// An attempt in flight.
pub(super) struct Flight {
    pub(super) op: Op,
    pub(super) step: Step,
    pub(super) ticket: Ticket,
    /// Set if this attempt repeats another one.
    pub(super) doubt: Option<Doubt>,
}

/// The most flights at a time. The socket's buffer holds their answers many times over.
const FLIGHTS_MAX: usize = 64;

/// All flights, by request.
#[derive(Default)]
pub(super) struct Flights {
    waiting: BTreeMap<u32, Flight>,
    /// The requests that have an answer; a request may occur more than once.
    answered: VecDeque<u32>,
}

impl Flights {
    /// Adds a flight, which may already have an answer.
    pub(super) fn add(&mut self, flight: Flight, has_answer: bool) {
        let request = flight.ticket.request;
        self.waiting.insert(request, flight);
        self.answered.extend(has_answer.then_some(request));
    }

    /// Records an answer to a request. Returns whether it belongs to a flight.
    pub(super) fn note_answer(&mut self, request: u32) -> bool {
        let is_flight = self.waiting.contains_key(&request);
        if is_flight {
            self.answered.push_back(request);
        }
        is_flight
    }

    /// Returns whether a driver has something to do.
    pub(super) fn have_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Returns whether an answer permits a message to be sent that was too long for its request.
    pub(super) fn have_long_answers(&self) -> bool {
        let flights = self.answered.iter().filter_map(|id| self.waiting.get(id));
        flights.into_iter().any(|flight| flight.step == Step::Grant)
    }

    /// Removes the flight with the oldest answer.
    pub(super) fn next_answered(&mut self) -> Option<Flight> {
        while let Some(request) = self.answered.pop_front() {
            if let Some(flight) = self.waiting.remove(&request) {
                return Some(flight);
            }
        }
        None
    }

    /// Returns whether no flight of the key may begin: unread answers must not fill the connection. An
    /// unexpected message, of which one of each class is in flight, may begin for longer: what it asks for may be
    /// what all the receives in flight wait for.
    pub(super) fn are_full(&self, key: Key) -> bool {
        let limit = match key {
            Key::Unexpected(_) => 2 * FLIGHTS_MAX,
            Key::Send(_) | Key::Recv(_) => FLIGHTS_MAX,
        };
        self.waiting.len() >= limit
    }

    /// Returns whether there are no flights.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the request of an operation whose counterpart the daemon is still looking for.
    pub(super) fn asking(&self, op: bmi::OpId) -> Option<Ticket> {
        let flight = self.waiting.values().find(|flight| flight.op.id == op)?;
        flight.step.is_asking().then(|| flight.ticket.clone())
    }

    /// Drops all flights, which releases the memory of their operations.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.answered.clear();
    }
}

impl Client {
    /// Begins an attempt without waiting for its end.
    pub(super) fn start_flight(&self, op: Op, timeout_ms: u32) {
        if let Some((op, lost)) = self.begin_flight(op, timeout_ms, None) {
            self.complete_flight(op, lost);
        }
    }

    /// Writes the first frame of an attempt and makes it a flight; from then on the operation may complete at
    /// any time. Returns the operation if there is no connection.
    fn begin_flight(&self, op: Op, timeout_ms: u32, doubt: Option<Doubt>) -> Option<(Op, Outcome)> {
        let calling = match self.begin(op.sink()) {
            Ok(calling) => calling,
            Err(error) => return Some((op, Outcome::Unasked(error))),
        };
        let ticket = calling.ticket.clone();
        let step = self.first_step(&ticket, &op, doubt.is_some());
        // If the connection is lost, every call has been answered.
        let step = step.if_written(&self.write_request(&ticket, &op, step, timeout_ms));
        calling.detach(Flight {
            op,
            step,
            ticket,
            doubt,
        });
        None
    }

    /// Begins the oldest attempt of a key, unless it is already in flight or there are too many flights. An
    /// operation that does not begin here waits for a test, like one without a counterpart.
    pub(super) fn start_next_flight(&self, key: Key) {
        let mut state = self.lock();
        if state.flights.are_full(key) {
            return;
        }
        let next = state.queue.begin(key);
        drop(state);
        if let Some(op) = next {
            self.start_flight(op, 0);
        }
    }

    /// Tells tests of an operation that did not begin, although it is the oldest of its key.
    pub(super) fn note_if_open(&self, key: Key) {
        let mut state = self.lock();
        if state.queue.is_open(key) {
            self.note_open(&mut state, key);
        }
    }

    /// Handles the answers to flights until there is none left or the thread has done its share; otherwise
    /// answers that keep arriving could hold it forever.
    pub(super) fn drive(&self) {
        for _ in 0..FLIGHTS_MAX {
            let Some((flight, answer)) = self.next_answered_flight() else {
                return;
            };
            match self.advance(&flight.ticket, &flight.op, flight.step, answer) {
                Progress::Waits(step) => self.put_back(Flight { step, ..flight }),
                Progress::Ended(outcome) => self.end_flight(flight, outcome),
            }
        }
    }

    /// Ends an attempt. If it must be repeated, the repetition is a flight, too.
    fn end_flight(&self, flight: Flight, mut outcome: Outcome) {
        let Flight {
            mut op,
            ticket,
            mut doubt,
            ..
        } = flight;
        self.forget_call(ticket.request);
        loop {
            match self.decide(outcome, doubt) {
                Decision::Done(outcome) => return self.complete_flight(op, outcome),
                Decision::Retry(next) => doubt = Some(next),
            }
            match self.begin_flight(op, 0, doubt) {
                None => return,
                Some(back) => (op, outcome) = back,
            }
        }
    }

    /// Records the outcome of an attempt and begins others of its key.
    fn complete_flight(&self, op: Op, outcome: Outcome) {
        let key = Key::of(op.kind, op.tag);
        let id = op.id;
        // Dropped first: the memory belongs to the program once the operation completes.
        drop(op);
        if self.record_outcome(id, key, outcome) {
            self.start_next_flight(key);
            self.note_if_open(key);
        }
    }
}
