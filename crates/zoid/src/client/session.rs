//! A client's stay at the daemon: who reads, who waits, what comes back when the daemon does.
//!
//! Calls of several threads are under way on one connection. A thread that waits for an answer
//! reads frames for everybody while no other does; the others sleep until it has something for
//! them, or until it leaves and one of them takes over. So a program with one thread needs no
//! second one to get its answers. A thread of the method's own only looks in every half heartbeat,
//! to answer PING while the program computes.
//!
//! ```text
//!            HELLO, WELCOME            EOF, silence, nonsense
//!   DOWN ─────────────────────▶ UP ─────────────────────────▶ DOWN ── reconnect time over ─▶ queued
//!     ▲                                                         │                            operations
//!     └──── every 50 ms, by whoever calls ──────────────────────┘                            fail
//! ```
//!
//! A daemon that is back and has kept this client's place resumes the session, and operations go on.
//! Any other knows of no counterparts, so expected operations end with an error.

mod connect;
mod dispatch;
mod exposure;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bmi::{Error, OpId};
use sys::{Event as Turn, Mapping, Waited};
use zoid_proto::fwd::{Frame, FrameHeader, FrameType, INLINE_WINDOW, Welcome, inline_cost};
use zoid_proto::{Extent, Status};

use self::dispatch::nonsense;
use super::Client;
use super::flight::{Flight, Flights};
use super::link::{Event, Link, Verdict};
use super::queue::Queue;
use crate::address::Place;
use crate::error::of_lost_connection;

/// Completed sends that a daemon remembers for each client.
const REMEMBERED_SENDS: usize = 128;

/// How often a call that was lost looks whether its memory is still being written to.
const FILLING: Duration = Duration::from_millis(5);

/// A daemon stands still, or is gone, after so many heartbeats without a sign of life.
const SILENT_HEARTBEATS: u32 = 3;

/// Everything behind the client's lock.
pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) queue: Queue,
    calls: BTreeMap<u32, Call>,
    /// Attempts that no thread waits for.
    pub(super) flights: Flights,
    last_request: u32,
    /// A thread reads.
    reading: bool,
    /// Threads that sleep until the reader has something for them, those first that slept first.
    followers: Vec<Follower>,
    /// Calls of the program that are under way.
    pub(super) inside: usize,
    /// How often the interface has ended all sleeps.
    pub(super) wakes: u64,
    /// How often an operation was queued.
    pub(super) queued: u64,
    /// How often an operation completed.
    pub(super) completed: u64,
    /// Messages that may be sent without asking.
    pub(super) credits: u32,
    /// How much of the daemon's memory for short messages those under way take; none where it keeps
    /// none.
    window: Option<usize>,
    /// The last server died, so the next one cannot know what was posted.
    server_died: bool,
    /// Operations that failed while the lock was held.
    fallen: Vec<(OpId, Error)>,
    /// The call whose payload is being read, and how much of it.
    filling: Option<(u32, usize)>,
    /// The daemon's segment, where it trusts its clients with it.
    pub(super) segment: Option<Mapping>,
    welcome: Welcome,
    stay: Stay,
    pub(super) place: Place,
    uuid: [u8; 16],
}

/// Whether there is a daemon.
pub(super) enum Connection {
    Up(Arc<Link>),
    Down {
        since: Instant,
        next_try: Instant,
        connecting: bool,
    },
}

/// What ends a sleep besides what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signals {
    /// Nothing: a signal that was handled is followed by more sleep.
    Resume,
    /// A signal, where the program has asked for that.
    End,
}

thread_local! {
    /// What the thread sleeps on while another one reads.
    static TURN: Arc<Turn> = Arc::default();
}

/// A thread that sleeps while another reads. Each is woken for itself: were all woken for every
/// frame, each message of one thread would cost every other thread a turn.
struct Follower {
    turn: Arc<Turn>,
    /// The call whose answer it waits for.
    request: Option<u32>,
}

/// A forwarded call that waits for answers.
#[derive(Default)]
struct Call {
    answers: VecDeque<Answer>,
    sink: Option<Sink>,
    /// What its short message takes of the daemon's memory.
    inline: usize,
    /// The daemon may be copying its message, as long as this connection has two ends.
    exposed: Option<Arc<Link>>,
}

/// Where the message of a receive goes.
pub(super) struct Sink {
    segments: bmi::Segments,
    capacity: usize,
    /// None until the message is announced.
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
    /// GRANT: a buffer is reserved; with places for a client that may write the segment.
    Granted(u64, Option<Vec<Extent>>),
    /// GRANT: a buffer is reserved, and the daemon copies the message.
    GrantedInMemory(u64),
    /// SEND_DONE, or a RECV_REPLY without a message.
    Done(Status),
    /// RECV_REPLY: so many bytes come; with places for a client that may read the segment.
    Coming(u64, usize, Option<Vec<Extent>>),
    /// RECV_REPLY: so many bytes are there, and the daemon copies them.
    ComingInMemory(u64, usize),
    /// The last of them has come.
    Received,
    /// TEST_REPLY: how many of each entry are ready.
    Ready(Vec<u32>),
    /// The connection is gone.
    Lost(Error),
}

/// The times between which a daemon knows this client without a gap, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stay(u64);

/// What a call goes by.
#[derive(Clone)]
pub(super) struct Ticket {
    pub(super) stay: Stay,
    link: Arc<Link>,
    pub(super) request: u32,
}

/// A call that a thread waits for; dropping it forgets the call.
pub(super) struct Calling<'a> {
    /// None once the call goes on without the thread.
    client: Option<&'a Client>,
    pub(super) ticket: Ticket,
}

impl Calling<'_> {
    /// The call goes on without this thread: its answers are for whoever drives.
    pub(super) fn detach(mut self, flight: Flight) {
        let Some(client) = self.client.take() else {
            return;
        };
        client.go_on(flight);
        let state = client.lock();
        if state.flights.have_answers() {
            // The answer came before, when it was nobody's.
            client.stir(&state);
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
            reading: false,
            followers: Vec::new(),
            inside: 0,
            wakes: 0,
            queued: 0,
            completed: 0,
            credits: 0,
            window: None,
            server_died: false,
            fallen: Vec::new(),
            filling: None,
            segment: None,
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
        // A call that was given up has nobody to tell.
        if let Some(call) = self.calls.get_mut(&request) {
            call.answers.push_back(answer);
            self.rouse(request);
        }
    }

    /// Wakes the thread that waits for an answer of a call; that of a flight is for the next driver.
    fn rouse(&mut self, request: u32) {
        if self.flights.note_answer(request) {
            return;
        }
        let waits = |follower: &&Follower| follower.request == Some(request);
        if let Some(follower) = self.followers.iter().find(waits) {
            follower.turn.notify();
        }
    }

    /// Makes one of those that sleep the reader, when nobody reads any more.
    fn hand_over(&self) {
        if !self.reading
            && let Some(next) = self.followers.first()
        {
            next.turn.notify();
        }
    }

    /// Wakes every thread that sleeps while another reads.
    fn rouse_all(&self) {
        for follower in &self.followers {
            follower.turn.notify();
        }
    }

    /// Whether a message is being read into an operation's memory.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Lets go of the memory of everything that no thread waits for.
    pub(super) fn give_up_flights(&mut self) {
        self.flights.clear();
        self.calls.clear();
    }

    /// Takes memory of the daemon's for the short message of a call, if there is room.
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

    /// A call is answered: what its message took is free.
    fn leave_window(&mut self, request: u32) {
        if let Some(call) = self.calls.get_mut(&request)
            && let Some(used) = &mut self.window
        {
            *used = used.saturating_sub(std::mem::take(&mut call.inline));
        }
    }

    /// Whether a call goes over the connection that there is.
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

    /// What is unknown of sends until now stays unknown.
    fn end_stay(&mut self) {
        self.stay = Stay(self.stay.0 + 1);
    }

    /// The connection is of no more use.
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
            // It has had its time already.
            Error::TimedOut => link.heard() + self.heartbeat() * SILENT_HEARTBEATS,
            _ => now,
        };
        self.connection = Connection::Down {
            since: since.min(now),
            next_try: now,
            connecting: false,
        };
        self.segment = None;
        self.credits = 0;
        self.window = None;
        let sends = self.calls.values().filter(|call| call.sink.is_none());
        if sends.count() > REMEMBERED_SENDS {
            // The daemon may have forgotten how some of them ended.
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

    /// Ends every sleep of this process, so that all look at the state again.
    pub(super) fn stir(&self, state: &State) {
        if state.reading {
            self.alarm.ring();
        }
        state.rouse_all();
    }

    /// Sleeps until `ready` has something to return, at the latest until `deadline`. Reads frames
    /// for everybody meanwhile, if nobody else does. `request` is the call that it is about, whose
    /// answers end the sleep; anything else that may make it ready must [`stir`](Self::stir).
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
        self.sleep(request, deadline, Signals::Resume, ready)
    }

    /// As [`wait`](Self::wait); what signals do is the caller's choice.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`]: the method was closed. [`Error::Intr`]: a signal ended the sleep.
    pub(super) fn sleep<R>(
        &self,
        request: Option<u32>,
        deadline: Option<Instant>,
        signals: Signals,
        mut ready: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        let ends = signals == Signals::End && self.interruptible.load(Ordering::Relaxed);
        let mut interrupted = false;
        let mut began = Instant::now();
        let mut state = self.lock();
        loop {
            if state.flights.have_answers() {
                // To drive may take long: others read meanwhile.
                state.hand_over();
                drop(state);
                self.drive();
                began = Instant::now();
                state = self.lock();
            }
            let result = ready(&mut state);
            let now = Instant::now();
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            let closed = self.closed.load(Ordering::Relaxed);
            if result.is_some() || left.is_zero() || closed || interrupted {
                state.hand_over();
                if state.flights.have_answers() {
                    self.stir(&state);
                }
                return match (closed, interrupted && result.is_none()) {
                    (true, _) => Err(Error::NetDown),
                    (false, true) => Err(Error::Intr),
                    (false, false) => Ok(result),
                };
            }
            if state.flights.have_answers() {
                // More than one turn's worth.
                continue;
            }
            let slice = left.min(state.heartbeat());
            let signal;
            (state, signal) = match &state.connection {
                Connection::Up(link) if !state.reading => {
                    let link = Arc::clone(link);
                    self.read_for_all(state, &link, slice, began)
                }
                _ => self.follow(state, request, slice),
            };
            interrupted = signal && ends;
        }
    }

    /// Says also whether a signal ended it.
    fn follow<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        request: Option<u32>,
        limit: Duration,
    ) -> (MutexGuard<'a, State>, bool) {
        // A thread that is ending may have none any more.
        let own = TURN.try_with(Arc::clone).unwrap_or_default();
        let seen = own.count();
        let turn = Arc::clone(&own);
        state.followers.push(Follower { turn, request });
        drop(state);
        // Whoever ends it has changed the state before. A wake of an earlier sleep that comes late
        // costs one more look.
        let waited = own.wait(seen, limit);
        let mut state = self.lock();
        let others = |other: &Follower| !Arc::ptr_eq(&other.turn, &own);
        state.followers.retain(others);
        (state, waited == Waited::Signal)
    }

    /// Reads what comes within `limit`. `began` is when this thread began to wait: silence before
    /// that is nobody's fault, because nobody listened. Says also whether a signal ended it.
    fn read_for_all<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        link: &Arc<Link>,
        limit: Duration,
        began: Instant,
    ) -> (MutexGuard<'a, State>, bool) {
        state.reading = true;
        let heartbeat = state.heartbeat();
        drop(state);
        let times = (limit, self.options.spin);
        let pumped = link.pump(&self.alarm, times, &mut |event| self.receive(link, event));
        let signal = matches!(pumped, Ok(true));
        let mut result = pumped.map(drop);
        let silence = link.heard().max(began).elapsed();
        let patience = self.patience(heartbeat);
        if result.is_ok() && silence > patience {
            result = Err(ErrorKind::TimedOut.into());
        } else if result.is_ok() && silence >= heartbeat {
            result = self.send(link, &Frame::Ping, 0, patience);
            self.counters.pings_sent().up();
        }
        let mut state = self.lock();
        state.reading = false;
        state.filling = None;
        if let Err(error) = result {
            if error.kind() == ErrorKind::InvalidData {
                self.counters.protocol_errors().up();
                tracing::warn!(%error, "the daemon breaks the protocol");
            }
            state.lose(link, of_lost_connection(&error));
            state.rouse_all();
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
        // Somebody may wait for one of them.
        state.rouse_all();
        (state, signal)
    }

    /// Reads what has come, if nobody does, without waiting, and brings on what nobody waits for: what
    /// the method's own thread does.
    pub(super) fn look_in(&self) {
        let mut state = self.lock();
        if let Connection::Up(link) = &state.connection
            && !state.reading
        {
            let link = Arc::clone(link);
            state = self
                .read_for_all(state, &link, Duration::ZERO, Instant::now())
                .0;
            // A call may have begun to wait meanwhile.
            state.hand_over();
        }
        if state.flights.have_answers() {
            drop(state);
            self.drive();
            let state = self.lock();
            if state.flights.have_answers() {
                self.stir(&state);
            }
        }
    }

    /// The epoch of the daemon that there is now; 0 when there is none.
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

    /// How long a daemon may be silent. To give up the connection of one that stands still would lose
    /// what it knows; so it has as much time as one that is gone and may come back.
    fn patience(&self, heartbeat: Duration) -> Duration {
        (heartbeat * SILENT_HEARTBEATS).saturating_add(self.options.reconnect)
    }

    /// Writes a frame without payload.
    pub(super) fn send(
        &self,
        link: &Link,
        frame: &Frame<'_>,
        request: u32,
        patience: Duration,
    ) -> io::Result<()> {
        let header = FrameHeader::new(frame.frame_type(), request);
        link.send(frame, header, &[], patience)
    }

    /// Begins a forwarded call: a name for it, and a connection.
    ///
    /// # Errors
    ///
    /// There is no connection now. [`Error::NetDown`]: the method was closed.
    pub(super) fn begin(&self, sink: Option<Sink>) -> Result<Calling<'_>, Error> {
        let link = self.connected()?;
        let mut state = self.lock();
        match &state.connection {
            Connection::Up(current) if Arc::ptr_eq(current, &link) => {}
            // Lost again already: this call would not hear of it.
            _ => return Err(self.unless_closed(Error::ConnReset)),
        }
        // Skips 0, which names no request.
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

    /// Nobody waits for answers of this call any more.
    pub(super) fn forget_call(&self, request: u32) {
        let mut state = self.lock();
        // Another thread may be writing to this call's memory at this moment: a connection that is
        // lost does not end that at once.
        while state.filling.is_some_and(|(filled, _)| filled == request) || state.holds(request) {
            state = self.follow(state, Some(request), FILLING).0;
        }
        state.calls.remove(&request);
    }

    /// The next flight that has an answer, and the answer.
    pub(super) fn next_landed(&self) -> Option<(Flight, Answer)> {
        let mut state = self.lock();
        while let Some(flight) = state.flights.next_answered() {
            match next_answer(&mut state, flight.ticket.request) {
                Some(answer) => return Some((flight, answer)),
                None => state.flights.add(flight, false),
            }
        }
        None
    }

    /// A flight waits for its next answer, which may have come.
    pub(super) fn go_on(&self, flight: Flight) {
        let mut state = self.lock();
        let call = state.calls.get(&flight.ticket.request);
        let has_answer = call.is_some_and(|call| !call.answers.is_empty());
        state.flights.add(flight, has_answer);
    }

    /// Writes a frame of a call. A connection that fails is given up.
    pub(super) fn say(
        &self,
        ticket: &Ticket,
        frame: &Frame<'_>,
        header: FrameHeader,
        payload: &[sys::span::Span],
    ) -> Result<(), Error> {
        let patience = self.patience(self.heartbeat());
        let header = FrameHeader {
            request: ticket.request,
            ..header
        };
        ticket
            .link
            .send(frame, header, payload, patience)
            .map_err(|error| {
                let error = of_lost_connection(&error);
                self.lock().lose(&ticket.link, error);
                self.unless_closed(error)
            })
    }

    /// Why a call ends with the connection: because the method was closed, or because of `error`.
    fn unless_closed(&self, error: Error) -> Error {
        match self.closed.load(Ordering::Relaxed) {
            true => Error::NetDown,
            false => error,
        }
    }

    /// Waits for the answer of a call that sleeps in the daemon. A signal ends that sleep, not this
    /// wait: what the daemon has begun meanwhile goes on.
    pub(super) fn first_answer(&self, calling: &Calling<'_>) -> Result<Answer, Error> {
        let request = calling.ticket.request;
        let ready = |state: &mut State| next_answer(state, request);
        match self.sleep(Some(request), None, Signals::End, ready) {
            Err(Error::Intr) => {
                self.say(&calling.ticket, &Frame::Wake, header(FrameType::WAKE), &[])?;
                self.answer(calling)
            }
            found => Ok(found?.unwrap_or(Answer::Lost(Error::ConnReset))),
        }
    }

    /// Waits for the next answer of a call, as long as it takes.
    pub(super) fn answer(&self, calling: &Calling<'_>) -> Result<Answer, Error> {
        let request = calling.ticket.request;
        let found = self.wait(Some(request), None, |state| next_answer(state, request))?;
        // Without a deadline the wait ends only with an answer.
        Ok(found.unwrap_or(Answer::Lost(Error::ConnReset)))
    }

    /// One thing that the reader found.
    fn receive(&self, link: &Arc<Link>, event: Event<'_>) -> io::Result<Verdict> {
        let mut state = self.lock();
        match event {
            Event::Payload(header, body) => {
                let Ok(Frame::Data(data)) = Frame::decode(&header, body) else {
                    return Err(nonsense("payload behind a frame that carries none"));
                };
                // At most a chunk, which fits the address space.
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
                    let patience = self.patience(state.heartbeat());
                    drop(state);
                    self.send(link, &Frame::Pong, header.request, patience)?;
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

/// The type of a frame without payload, for headers that have no other content.
pub(super) fn header(frame_type: FrameType) -> FrameHeader {
    FrameHeader::new(frame_type, 0)
}

#[cfg(test)]
mod tests;
