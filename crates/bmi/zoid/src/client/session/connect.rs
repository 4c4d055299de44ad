//! Connecting for the first time, and after a lost connection.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use bmi::Error;
use zoid_proto::List;
use zoid_proto::fwd::{Caps, Event, Frame, Hello, PROTOCOL_VERSION, Places, Welcome};

use super::{Awaits, Client, Connection, Signals, State, Stay};
use crate::address::Place;
use crate::client::link::Link;
use crate::error::{of_lost_connection, of_status};
use crate::options::ClientMemory;

/// How often a client without a daemon tries to connect.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// The time limit of the first handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a call waits for a daemon that may come back: to connect again, and to learn the result of a
/// send.
const RETURN: Duration = Duration::from_secs(1);

impl Client {
    /// Returns the connection; tries to connect if there is none.
    // [DEATH-23]
    pub(in crate::client) fn connected(&self) -> Result<Arc<Link>, Error> {
        let mut state = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NetDown);
        }
        let now = Instant::now();
        let (since, next_try, connecting) = match &state.connection {
            Connection::Up(link) => return Ok(Arc::clone(link)),
            Connection::Down {
                since,
                next_try,
                connecting,
            } => (*since, *next_try, *connecting),
        };
        // [DEATH-21]
        if now.duration_since(since) > self.options.reconnect {
            let condemned = state.queue.take(|_| true);
            drop(state);
            for op in condemned {
                self.completions.complete(op, Err(Error::ConnReset));
            }
            state = self.lock();
        }
        if connecting || now < next_try {
            return Err(Error::ConnReset);
        }
        if let Connection::Down { connecting, .. } = &mut state.connection {
            *connecting = true;
        }
        drop(state);
        let result = self.connect(RETURN);
        let mut state = self.lock();
        if let Connection::Down {
            connecting,
            next_try,
            ..
        } = &mut state.connection
        {
            (*connecting, *next_try) = (false, Instant::now() + RETRY);
        }
        self.wake_sleepers(&state);
        result
    }

    /// Returns whether, after a lost connection, the daemon still has the state of this stay. Waits a moment
    /// for the daemon, once for all calls that ask.
    pub(in crate::client) fn is_kept(&self, stay: Stay) -> bool {
        let returned = self.has_returned(stay);
        let mut state = self.lock();
        if !returned && state.stay == stay {
            state.end_stay();
        }
        returned
    }

    fn has_returned(&self, stay: Stay) -> bool {
        let deadline = Instant::now() + RETURN;
        loop {
            let state = self.lock();
            if state.stay != stay || !state.welcome.caps.contains(Caps::REATTACH) {
                return false;
            }
            drop(state);
            if self.connected().is_ok() {
                return self.lock().stay == stay;
            }
            let next = Instant::now() + RETRY;
            if next > deadline || self.closed.load(Ordering::Relaxed) {
                return false;
            }
            // Does not drive flights: the caller may be a driver.
            let state = self.lock();
            let (state, _) = self.wait_for_reader(state, Awaits::default(), RETRY);
            self.hand_over(&state);
        }
    }

    /// Connects and sends HELLO.
    fn connect(&self, limit: Duration) -> Result<Arc<Link>, Error> {
        let (place, hello) = {
            let state = self.lock();
            (state.place.clone(), self.hello(&state))
        };
        let link = Link::connect(&place, limit, Arc::clone(&self.counters)).map_err(|error| {
            match error.kind() {
                // Waiting would not help, and "no daemon" would be misleading.
                ErrorKind::PermissionDenied => Error::Acces,
                _ => Error::ConnRefused,
            }
        })?;
        let lost = |error: io::Error| of_lost_connection(&error);
        self.send(&link, &Frame::Hello(hello), 0, limit)
            .map_err(lost)?;
        let (header, body) = link.receive_first(limit).map_err(lost)?;
        let Ok(Frame::Welcome(welcome)) = Frame::decode(&header, &body) else {
            return Err(Error::Proto);
        };
        if header.status.is_error() {
            return Err(of_status(header.status));
        }
        if welcome.version != PROTOCOL_VERSION {
            return Err(Error::ProtoNoSupport);
        }
        if welcome.caps.contains(Caps::CLIENT_MEMORY) {
            self.open_memory(&link, limit)?;
        }
        let heartbeat = Duration::from_millis(welcome.heartbeat_ms.max(1).into());
        link.wait_in_calls(self.silence_limit(heartbeat))?;
        let link = Arc::new(link);
        let mut state = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NetDown);
        }
        let before = state.welcome;
        state.welcome = welcome;
        state.credits = welcome.credits;
        state.window = welcome.caps.contains(Caps::INLINE).then_some(0);
        state.server_died = false;
        state.server = state.server.after_connecting(welcome.server_session != 0);
        state.connection = Connection::Up(Arc::clone(&link));
        self.note_limits(&welcome);
        self.compare(state, &before);
        Ok(link)
    }

    /// Handles a new connection: a daemon that has kept this client's place continues its operations; any
    /// other daemon has no counterparts for them.
    // [DEATH-22]
    fn compare(&self, mut state: MutexGuard<'_, State>, before: &Welcome) {
        let welcome = state.welcome;
        let resumed = welcome.caps.contains(Caps::REATTACHED);
        if !resumed {
            state.end_stay();
        }
        if before.pid < 0 {
            return;
        }
        self.counters.reconnects().up();
        if resumed {
            self.counters.sessions_resumed().up();
            return tracing::info!("reconnected to the daemon; nothing was lost");
        }
        self.counters.sessions_lost().up();
        if self.options.keep_on_server_restart {
            return tracing::warn!(
                "the daemon no longer knows this client; operations continue to wait"
            );
        }
        let error = match welcome.epoch == before.epoch {
            true => Error::ConnReset,
            false => Error::NetReset,
        };
        let condemned = state.queue.lose_session(error);
        drop(state);
        let operations = condemned.len();
        tracing::warn!(
            operations,
            "the daemon no longer knows this client; operations fail"
        );
        for op in condemned {
            self.completions.complete(op, Err(error));
        }
    }

    /// Handles the mark of a daemon that wants to copy from and to this process's memory: tells the daemon
    /// where the mark is.
    fn open_memory(&self, link: &Link, limit: Duration) -> Result<(), Error> {
        let lost = |error: io::Error| of_lost_connection(&error);
        let (header, body) = link.receive_first(limit).map_err(lost)?;
        let Ok(Frame::Event(Event::Mark(number))) = Frame::decode(&header, &body) else {
            return Err(Error::Proto);
        };
        if self.options.client_memory == ClientMemory::Reject {
            return Err(Error::Proto);
        }
        let part = [self.hold_mark(link, number).ok_or(Error::Proto)?];
        let places = Frame::Places(Places {
            grant: 0,
            parts: List::new(&part),
        });
        self.send(link, &places, 0, limit).map_err(lost)
    }

    fn hello(&self, state: &State) -> Hello {
        let mut caps = Caps::empty();
        let many = !self.options.single_thread || self.pipelined.load(Ordering::Relaxed);
        caps.set(Caps::MULTIPLEX, many);
        caps.set(Caps::QUIET, self.options.single_thread);
        caps.insert(Caps::REATTACH | Caps::REATTACHED | Caps::INLINE);
        let local = matches!(state.place, Place::Unix(_));
        let offers = self.options.client_memory != ClientMemory::Reject;
        caps.set(Caps::CLIENT_MEMORY, local && offers);
        Hello {
            version_min: PROTOCOL_VERSION,
            version_max: PROTOCOL_VERSION,
            caps,
            uuid: state.uuid,
            unix_pid: std::process::id(),
            previous_epoch: state.welcome.epoch,
            previous_pid: state.welcome.pid,
            job: self.options.job,
        }
    }

    /// Connects for the first time; waits for the daemon.
    ///
    /// # Errors
    ///
    /// [`Error::ConnRefused`]: no daemon in time. [`Error::Acces`]: this user may not use its socket.
    /// [`Error::Intr`]: a signal ended the wait. Errors in the daemon's WELCOME.
    // [DEATH-31]
    pub(in crate::client) fn connect_first(&self) -> Result<(), Error> {
        let deadline = Instant::now().checked_add(self.options.client_connect);
        let limit = self.options.client_connect.min(HANDSHAKE);
        loop {
            match self.connect(limit) {
                Ok(_) => return Ok(()),
                Err(Error::ConnRefused) => {}
                Err(error) => return Err(error),
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(Error::ConnRefused);
            }
            self.sleep(Awaits::default(), Some(now + RETRY), Signals::End, |_| {
                None::<()>
            })?;
        }
    }
}
