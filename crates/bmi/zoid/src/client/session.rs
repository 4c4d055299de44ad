//! A client's session at the daemon: reading, waiting, and resuming after a lost connection.
//!
//! Calls of several threads are in flight on one connection. A thread that waits for an answer reads frames
//! for all threads if no other thread does. The other threads sleep until the reader has an answer for them,
//! or until the reader leaves and one of them takes over. So a program with one thread needs no second one to
//! receive its answers. The method's own thread reads every half heartbeat only, to answer PING while the
//! program computes.
//!
//! ```text
//!            HELLO, WELCOME            EOF, silence, nonsense
//!   DOWN ─────────────────────▶ UP ─────────────────────────▶ DOWN ── reconnect time over ─▶ queued
//!     ▲                                                         │                            operations
//!     └──── every 50 ms, by whoever calls ──────────────────────┘                            fail
//! ```
//!
//! A daemon that has kept this client's place resumes the session, and operations continue. Any other daemon
//! knows no counterparts, so expected operations fail.

mod connect;
mod dispatch;
mod exposure;
mod sleepers;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bmi::{Error, OpId};
use sys::Waited;
use zoid_proto::Status;
use zoid_proto::fwd::{Frame, FrameHeader, FrameType, INLINE_WINDOW, Welcome, inline_cost};

use self::dispatch::invalid_data;
pub(super) use self::sleepers::{Awaits, Change, NAMED};
use self::sleepers::{Follower, Interest, own_turn};
use super::Client;
use super::changes::Changes;
use super::flight::{Flight, Flights};
use super::link::{Event, Link, Verdict};
use super::queue::Queue;
use crate::address::Place;
use crate::error::of_lost_connection;

/// The number of completed sends that a daemon remembers for each client.
const REMEMBERED_SENDS: usize = 128;

/// How often an ended call checks whether its memory is still being written to.
const FILLING: Duration = Duration::from_millis(5);

/// The number of silent heartbeats after which a daemon counts as stopped or gone.
const SILENT_HEARTBEATS: u32 = 3;

/// What a client knows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// None has come yet.
    Awaited,
    Here,
    /// The last one has gone at this time, and no other has come.
    Gone(Instant),
}

impl Server {
    /// Returns what holds after a connection to a daemon that has a server or none.
    fn after_connecting(self, has_server: bool) -> Self {
        match self {
            _ if has_server => Self::Here,
            Self::Here => Self::Gone(Instant::now()),
            Self::Awaited | Self::Gone(_) => self,
        }
    }

    /// Returns since when there is no server, if there was one.
    pub(super) fn gone(self) -> Option<Instant> {
        match self {
            Self::Gone(since) => Some(since),
            Self::Awaited | Self::Here => None,
        }
    }
}

/// The state under the client's lock.
pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) queue: Queue,
    calls: BTreeMap<u32, Call>,
    /// Attempts that no thread waits for.
    pub(super) flights: Flights,
    last_request: u32,
    /// What the thread waits for that reads; `None` if no thread reads.
    reader: Option<Interest>,
    /// The number of threads that drive flights and read, or hand over, when these are done.
    drivers: usize,
    /// Of these, the number of those that send long messages.
    long_drivers: usize,
    /// Threads that sleep until the reader has an answer for them, in the order in which they fell asleep.
    followers: Vec<Follower>,
    /// The number of calls of the program in progress.
    pub(super) inside: usize,
    /// How often the interface has ended all sleeps.
    pub(super) wakes: u64,
    /// How often operations became ready to be attempted.
    pub(super) changes: Changes,
    /// How often an operation completed.
    pub(super) completed: u64,
    /// The number of tests that sleep until another thread has attempted what is ready.
    pub(super) pausing: usize,
    /// The number of messages that may be sent without a request.
    pub(super) credits: u32,
    /// How much of the daemon's window for short messages is in use; `None` if the daemon has none.
    window: Option<usize>,
    /// Whether the last server died, so that the next one does not know what was posted.
    server_died: bool,
    pub(super) server: Server,
    /// Operations that failed while the lock was held.
    fallen: Vec<(OpId, Error)>,
    /// The call whose payload is being read, and the number of its bytes.
    filling: Option<(u32, usize)>,
    welcome: Welcome,
    stay: Stay,
    pub(super) place: Place,
    uuid: [u8; 16],
}

/// Whether there is a connection.
pub(super) enum Connection {
    Up(Arc<Link>),
    Down {
        since: Instant,
        next_try: Instant,
        connecting: bool,
    },
}

/// Whether signals end a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signals {
    /// Sleep on after a signal.
    Resume,
    /// End the sleep.
    End,
}

/// A forwarded call that waits for answers.
#[derive(Default)]
struct Call {
    answers: VecDeque<Answer>,
    sink: Option<Sink>,
    /// How much of the daemon's window its short message uses.
    inline: usize,
    /// Set while the daemon may be copying its message; the connection over which it may.
    exposed: Option<Arc<Link>>,
}

/// The destination of the message of a receive.
pub(super) struct Sink {
    segments: bmi::Segments,
    capacity: usize,
    /// `None` until the message is announced.
    grant: Option<u64>,
    total: usize,
    received: usize,
}

impl Sink {
    pub(super) fn new(segments: bmi::Segments, capacity: usize) -> Self {
        Self {
            segments,
            capacity,
            grant: None,
            total: 0,
            received: 0,
        }
    }
}

/// An answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// GRANT: a buffer is reserved.
    Granted(u64),
    /// GRANT: a buffer is reserved, and the daemon copies the message.
    GrantedInMemory(u64),
    /// SEND_DONE, or a RECV_REPLY without a message.
    Done(Status),
    /// RECV_REPLY: a message of this length follows.
    Coming(u64, usize),
    /// RECV_REPLY: a message of this length has arrived, and the daemon copies it.
    ComingInMemory(u64, usize),
    /// The last byte has arrived.
    Received,
    /// TEST_REPLY: the number of ready operations of each entry.
    Ready(Vec<u32>),
    /// The connection is lost.
    Lost(Error),
}

/// A period during which a daemon knows this client without a gap; numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stay(u64);

/// What identifies a call: its request and its connection.
#[derive(Clone)]
pub(super) struct Ticket {
    pub(super) stay: Stay,
    link: Arc<Link>,
    pub(super) request: u32,
}

/// A call that a thread waits for; dropping it removes the call.
pub(super) struct Calling<'a> {
    /// `None` once the call continues without the thread.
    client: Option<&'a Client>,
    pub(super) ticket: Ticket,
}

impl Calling<'_> {
    /// Makes the call a flight: its answers are for any driver.
    pub(super) fn detach(mut self, flight: Flight) {
        let Some(client) = self.client.take() else {
            return;
        };
        client.put_back(flight);
        let state = client.lock();
        if state.flights.have_answers() {
            // The answer arrived before, while nobody was responsible for it.
            client.hand_over(&state);
        }
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            client.forget_call(self.ticket.request);
        }
    }
}

impl State {
    pub(super) fn new(uuid: [u8; 16]) -> Self {
        let now = Instant::now();
        Self {
            connection: Connection::Down {
                since: now,
                next_try: now,
                connecting: false,
            },
            queue: Queue::default(),
            calls: BTreeMap::new(),
            flights: Flights::default(),
            last_request: 0,
            reader: None,
            drivers: 0,
            long_drivers: 0,
            followers: Vec::new(),
            inside: 0,
            wakes: 0,
            changes: Changes::default(),
            completed: 0,
            pausing: 0,
            credits: 0,
            window: None,
            server_died: false,
            server: Server::Awaited,
            fallen: Vec::new(),
            filling: None,
            welcome: Welcome {
                pid: -1,
                heartbeat_ms: 2000,
                ..Welcome::default()
            },
            stay: Stay::default(),
            place: Place::Unix(Vec::new()),
            uuid,
        }
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.welcome.heartbeat_ms.max(1).into())
    }

    fn answer(&mut self, request: u32, answer: Answer) {
        // A call that was removed has no waiting thread.
        if let Some(call) = self.calls.get_mut(&request) {
            call.answers.push_back(answer);
            self.wake_waiter(request);
        }
    }

    /// Returns whether a message is being read into an operation's memory.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Drops all flights, which releases their memory.
    pub(super) fn drop_flights(&mut self) {
        self.flights.clear();
        self.calls.clear();
    }

    /// Reserves a part of the daemon's window for the short message of a call, if there is room.
    pub(super) fn take_window(&mut self, ticket: &Ticket, bytes: usize) -> bool {
        let cost = inline_cost(bytes);
        let (true, Some(used)) = (self.is_current(ticket), self.window) else {
            return false;
        };
        let Some(call) = self.calls.get_mut(&ticket.request) else {
            return false;
        };
        let fits = used + cost <= INLINE_WINDOW;
        if fits {
            (self.window, call.inline) = (Some(used + cost), cost);
        }
        fits
    }

    /// Releases the part of the window of an answered call.
    fn leave_window(&mut self, request: u32) {
        if let Some(call) = self.calls.get_mut(&request)
            && let Some(used) = &mut self.window
        {
            *used = used.saturating_sub(std::mem::take(&mut call.inline));
        }
    }

    /// Returns whether a call belongs to the current connection.
    pub(super) fn is_current(&self, ticket: &Ticket) -> bool {
        matches!(&self.connection, Connection::Up(link) if Arc::ptr_eq(link, &ticket.link))
    }

    fn request_of(&self, grant: u64) -> Option<u32> {
        let matches = |call: &Call| {
            call.sink
                .as_ref()
                .is_some_and(|sink| sink.grant == Some(grant))
        };
        let found = self.calls.iter().find(|(_, call)| matches(call))?;
        Some(*found.0)
    }

    /// Ends the stay: the results of unanswered sends stay unknown.
    fn end_stay(&mut self) {
        self.stay = Stay(self.stay.0 + 1);
    }

    /// Marks the connection as lost.
    fn lose(&mut self, link: &Arc<Link>, error: Error) {
        match &self.connection {
            Connection::Up(current) if Arc::ptr_eq(current, link) => {}
            _ => return,
        }
        match self.is_exposed() {
            true => link.finish(),
            false => link.cut(),
        }
        let now = Instant::now();
        let since = match error {
            // The daemon has already had its time to answer.
            Error::TimedOut => link.heard() + self.heartbeat() * SILENT_HEARTBEATS,
            _ => now,
        };
        self.connection = Connection::Down {
            since: since.min(now),
            next_try: now,
            connecting: false,
        };
        self.credits = 0;
        self.window = None;
        let sends = self.calls.values().filter(|call| call.sink.is_none());
        if sends.count() > REMEMBERED_SENDS {
            // The daemon may have forgotten the results of some of them.
            self.end_stay();
        }
        for (&request, call) in &mut self.calls {
            call.inline = 0;
            call.answers.push_back(Answer::Lost(error));
            self.flights.note_answer(request);
        }
        tracing::warn!(%error, "the connection to the daemon is lost");
    }
}

impl Client {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `ready` returns something, or until `deadline`. Meanwhile reads frames for all threads,
    /// if no other thread does. Answers to the call `request` end the sleep; any other change that may affect
    /// `ready` must wake the thread.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`]: the method was closed.
    pub(super) fn wait<R>(
        &self,
        request: Option<u32>,
        deadline: Option<Instant>,
        ready: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        let request = request.map(Awaits::answer).unwrap_or_default();
        self.sleep(request, deadline, Signals::Resume, ready)
    }

    /// Like [`wait`](Self::wait), with the caller's choice of what signals do.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`]: the method was closed. [`Error::Intr`]: a signal ended the sleep.
    pub(super) fn sleep<R>(
        &self,
        awaits: Awaits<'_>,
        deadline: Option<Instant>,
        signals: Signals,
        mut ready: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        // [ZOID-61]
        let ends = signals == Signals::End && self.interruptible.load(Ordering::Relaxed);
        let mut interrupted = false;
        let mut began = Instant::now();
        let mut state = self.lock();
        loop {
            if state.flights.have_answers() {
                // A long message takes long; let another thread read meanwhile. Otherwise this thread reads
                // again before another one would have woken.
                let long = state.begin_driving();
                drop(state);
                self.drive();
                began = Instant::now();
                state = self.lock();
                state.end_driving(long);
            }
            let result = ready(&mut state);
            let now = Instant::now();
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            let closed = self.closed.load(Ordering::Relaxed);
            if result.is_some() || left.is_zero() || closed || interrupted {
                self.hand_over(&state);
                return match (closed, interrupted && result.is_none()) {
                    (true, _) => Err(Error::NetDown),
                    (false, true) => Err(Error::Intr),
                    (false, false) => Ok(result),
                };
            }
            if state.flights.have_answers() {
                // There is more than one share of work.
                continue;
            }
            let slice = left.min(state.heartbeat());
            let signal;
            (state, signal) = match &state.connection {
                Connection::Up(link) if state.reader.is_none() => {
                    let link = Arc::clone(link);
                    state.reader = Some(Interest::of(awaits, &state.queue));
                    self.read_for_all(state, &link, slice, began)
                }
                _ => self.wait_for_reader(state, awaits, slice),
            };
            interrupted = signal && ends;
        }
    }

    /// Sleeps while another thread reads. Also returns whether a signal ended the sleep.
    fn wait_for_reader<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        awaits: Awaits<'_>,
        limit: Duration,
    ) -> (MutexGuard<'a, State>, bool) {
        let own = own_turn();
        let seen = own.count();
        let turn = Arc::clone(&own);
        let interest = Interest::of(awaits, &state.queue);
        state.followers.push(Follower { turn, interest });
        drop(state);
        // The thread that ends this sleep has changed the state before. A late wake of an earlier sleep costs
        // one more check.
        let waited = own.wait(seen, limit);
        let mut state = self.lock();
        let others = |other: &Follower| !Arc::ptr_eq(&other.turn, &own);
        state.followers.retain(others);
        (state, waited == Waited::Signal)
    }

    /// Reads what arrives within `limit`. `began` is when this thread began to wait: earlier silence does not
    /// count, because nobody listened. The caller has made itself the reader. Also returns whether a signal
    /// ended the wait.
    fn read_for_all<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        link: &Arc<Link>,
        limit: Duration,
        began: Instant,
    ) -> (MutexGuard<'a, State>, bool) {
        let heartbeat = state.heartbeat();
        drop(state);
        let times = (limit, self.options.spin);
        let pumped = link.pump(&self.alarm, times, &mut |event| self.receive(link, event));
        let signal = matches!(pumped, Ok(true));
        let mut result = pumped.map(drop);
        let silence = link.heard().max(began).elapsed();
        let silence_limit = self.silence_limit(heartbeat);
        if result.is_ok() && silence > silence_limit {
            result = Err(ErrorKind::TimedOut.into());
        } else if result.is_ok() && silence >= heartbeat {
            result = self.send(link, &Frame::Ping, 0, silence_limit);
            self.counters.pings_sent().up();
        }
        let mut state = self.lock();
        state.reader = None;
        state.filling = None;
        if let Err(error) = result {
            if error.kind() == ErrorKind::InvalidData {
                self.counters.protocol_errors().up();
                tracing::warn!(%error, "the daemon violates the protocol");
            }
            state.lose(link, of_lost_connection(&error));
            state.wake_followers();
        }
        if state.fallen.is_empty() {
            return (state, signal);
        }
        let fallen = std::mem::take(&mut state.fallen);
        drop(state);
        for (op, error) in fallen {
            self.completions.complete(op, Err(error));
        }
        let state = self.lock();
        // Another thread may wait for one of them.
        state.wake_followers();
        (state, signal)
    }

    /// Reads what has arrived, if no other thread does, without waiting, and drives flights. Called by the
    /// method's own thread.
    pub(super) fn poll_once(&self) {
        let mut state = self.lock();
        if let Connection::Up(link) = &state.connection
            && state.reader.is_none()
        {
            let link = Arc::clone(link);
            state.reader = Some(Interest::default());
            state = self
                .read_for_all(state, &link, Duration::ZERO, Instant::now())
                .0;
        }
        if state.flights.have_answers() {
            drop(state);
            self.drive();
            state = self.lock();
        }
        // A call may have begun to wait meanwhile.
        self.hand_over(&state);
    }

    /// Returns the epoch of the current daemon; 0 if there is none.
    pub(super) fn epoch(&self) -> u64 {
        let state = self.lock();
        match state.connection {
            Connection::Up(_) => state.welcome.epoch,
            Connection::Down { .. } => 0,
        }
    }

    pub(super) fn heartbeat(&self) -> Duration {
        self.lock().heartbeat()
    }

    /// Returns how long a daemon may be silent. Closing the connection of a stopped daemon would lose its
    /// state, so it gets as much time as one that is gone and may come back.
    // [DEATH-24]
    fn silence_limit(&self, heartbeat: Duration) -> Duration {
        (heartbeat * SILENT_HEARTBEATS).saturating_add(self.options.reconnect)
    }

    /// Writes a frame without payload.
    pub(super) fn send(
        &self,
        link: &Link,
        frame: &Frame<'_>,
        request: u32,
        silence_limit: Duration,
    ) -> io::Result<()> {
        let header = FrameHeader::new(frame.frame_type(), request);
        link.send(frame, header, &[], silence_limit)
    }

    /// Begins a forwarded call: assigns its request number and its connection.
    ///
    /// # Errors
    ///
    /// There is no connection now. [`Error::NetDown`]: the method was closed.
    pub(super) fn begin(&self, sink: Option<Sink>) -> Result<Calling<'_>, Error> {
        let link = self.connected()?;
        let mut state = self.lock();
        match &state.connection {
            Connection::Up(current) if Arc::ptr_eq(current, &link) => {}
            // The connection was lost again: this call would receive no answer.
            _ => return Err(self.unless_closed(Error::ConnReset)),
        }
        // Skips 0, which is not a request number.
        state.last_request = state.last_request.checked_add(1).unwrap_or(1);
        let request = state.last_request;
        let call = Call {
            sink,
            ..Call::default()
        };
        state.calls.insert(request, call);
        self.counters.exchanges().up();
        Ok(Calling {
            client: Some(self),
            ticket: Ticket {
                stay: state.stay,
                link,
                request,
            },
        })
    }

    /// Removes a call whose answers nobody waits for.
    pub(super) fn forget_call(&self, request: u32) {
        let mut state = self.lock();
        // Another thread may be writing to this call's memory; the loss of the connection does not end that
        // at once.
        while state.filling.is_some_and(|(filled, _)| filled == request) || state.holds(request) {
            state = self
                .wait_for_reader(state, Awaits::answer(request), FILLING)
                .0;
        }
        state.calls.remove(&request);
    }

    /// Returns the next flight that has an answer, and the answer.
    pub(super) fn next_answered_flight(&self) -> Option<(Flight, Answer)> {
        let mut state = self.lock();
        while let Some(flight) = state.flights.next_answered() {
            match next_answer(&mut state, flight.ticket.request) {
                Some(answer) => return Some((flight, answer)),
                None => state.flights.add(flight, false),
            }
        }
        None
    }

    /// Puts a flight back; its next answer may have arrived.
    pub(super) fn put_back(&self, flight: Flight) {
        let mut state = self.lock();
        let call = state.calls.get(&flight.ticket.request);
        let has_answer = call.is_some_and(|call| !call.answers.is_empty());
        state.flights.add(flight, has_answer);
    }

    /// Writes a frame of a call. Closes a connection that fails.
    pub(super) fn write_frame(
        &self,
        ticket: &Ticket,
        frame: &Frame<'_>,
        header: FrameHeader,
        payload: &[sys::span::Span],
    ) -> Result<(), Error> {
        let silence_limit = self.silence_limit(self.heartbeat());
        let header = FrameHeader {
            request: ticket.request,
            ..header
        };
        ticket
            .link
            .send(frame, header, payload, silence_limit)
            .map_err(|error| {
                let error = of_lost_connection(&error);
                self.lock().lose(&ticket.link, error);
                self.unless_closed(error)
            })
    }

    /// Returns `error`, or [`Error::NetDown`] if the method was closed.
    fn unless_closed(&self, error: Error) -> Error {
        match self.closed.load(Ordering::Relaxed) {
            true => Error::NetDown,
            false => error,
        }
    }

    /// Waits for the answer to a call that sleeps in the daemon. A signal ends the sleep in the daemon but
    /// not this wait, because what the daemon has begun meanwhile continues.
    // [ZOID-62]
    pub(super) fn first_answer(&self, calling: &Calling<'_>) -> Result<Answer, Error> {
        let request = calling.ticket.request;
        let ready = |state: &mut State| next_answer(state, request);
        match self.sleep(Awaits::answer(request), None, Signals::End, ready) {
            Err(Error::Intr) => {
                self.write_frame(&calling.ticket, &Frame::Wake, header(FrameType::WAKE), &[])?;
                self.answer(calling)
            }
            found => Ok(found?.unwrap_or(Answer::Lost(Error::ConnReset))),
        }
    }

    /// Waits for the next answer of a call, without a limit.
    pub(super) fn answer(&self, calling: &Calling<'_>) -> Result<Answer, Error> {
        let request = calling.ticket.request;
        let found = self.wait(Some(request), None, |state| next_answer(state, request))?;
        // Without a deadline the wait ends with an answer only.
        Ok(found.unwrap_or(Answer::Lost(Error::ConnReset)))
    }

    /// Handles one event of the reader.
    fn receive(&self, link: &Arc<Link>, event: Event<'_>) -> io::Result<Verdict> {
        let mut state = self.lock();
        match event {
            Event::Payload(header, body) => {
                let Ok(Frame::Data(data)) = Frame::decode(&header, body) else {
                    return Err(invalid_data("payload after a frame that has none"));
                };
                // At most a chunk, which fits in a usize.
                state.expect_payload(data.grant, data.offset, header.payload_len as usize)
            }
            Event::Filled => {
                state.filled();
                Ok(Verdict::Continue)
            }
            Event::Frame(header, body) => {
                let frame = Frame::decode(&header, body)
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                if frame == Frame::Ping {
                    let silence_limit = self.silence_limit(state.heartbeat());
                    drop(state);
                    self.send(link, &Frame::Pong, header.request, silence_limit)?;
                    return Ok(Verdict::Continue);
                }
                let keep = self.options.keep_on_server_restart;
                state.dispatch(&header, &frame, keep)?;
                Ok(Verdict::Continue)
            }
        }
    }
}

pub(super) fn next_answer(state: &mut State, request: u32) -> Option<Answer> {
    state.calls.get_mut(&request)?.answers.pop_front()
}

/// Creates a header with a type and nothing else.
pub(super) fn header(frame_type: FrameType) -> FrameHeader {
    FrameHeader::new(frame_type, 0)
}

#[cfg(test)]
mod tests;
