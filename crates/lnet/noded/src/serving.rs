//! Serves the connections of an endpoint, each in its own thread.
//!
//! ```text
//!  accept ── admit ──▶ Clients::serve ──▶ thread: serve the connection, forget it
//!                        │ at the limit (Full): the connection is rejected and closed,
//!                        │ or the oldest idle one is shut down in its favour
//!  stop ─────────────▶ end: every open connection is shut down, every thread waited for
//! ```

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use slab::Slab;
use tracing::warn;

/// A stream socket that can be served.
pub(crate) trait Connection: Sized + Send + 'static {
    /// Returns another handle of the same connection.
    fn duplicate(&self) -> io::Result<Self>;
    /// Shuts the connection down, also for threads that read or write it.
    fn end(&self) -> io::Result<()>;
}

impl Connection for UnixStream {
    fn duplicate(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

impl Connection for TcpStream {
    fn duplicate(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

/// The connections of an endpoint, kept so that another thread can shut them down.
#[derive(Debug)]
pub(crate) struct Clients<C> {
    /// The endpoint's name, for logs and threads.
    name: &'static str,
    max: usize,
    stopping: AtomicBool,
    full: Full,
    open: Mutex<Slab<Open<C>>>,
    arrivals: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What happens to a connection that arrives at the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It is closed: the others may be long conversations.
    Reject,
    /// It takes the place of the oldest connection that keeps the endpoint waiting.
    EndOldest,
}

/// An open connection.
#[derive(Debug)]
struct Open<C> {
    stream: C,
    /// The number of its arrival.
    arrival: u64,
    busy: Arc<Busy>,
}

/// Whether the endpoint is at work for a connection, and not waiting for its client.
#[derive(Debug, Default)]
pub(crate) struct Busy(AtomicBool);

impl Busy {
    /// Does work for the connection, which is not ended meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.store(true, Ordering::Relaxed);
        let done = work();
        self.0.store(false, Ordering::Relaxed);
        done
    }
}

/// The pause before the next attempt to accept when the system has no room.
const RETRY: Duration = Duration::from_millis(100);

/// Passes on arriving connections until the endpoint stops. To stop it, set the flag and then wake it with a
/// connection.
pub(crate) fn accept<C>(
    clients: &Clients<C>,
    arriving: impl Iterator<Item = io::Result<C>>,
    admit: impl Fn(C),
) {
    for stream in arriving {
        if clients.stopping.load(Ordering::Acquire) {
            return;
        }
        match stream {
            Ok(stream) => admit(stream),
            Err(error) => {
                warn!(%error, endpoint = clients.name, "cannot accept a connection");
                // The usual reason is a lack of descriptors; some are free again when a client closes its connection.
                std::thread::sleep(RETRY);
            }
        }
    }
}

impl<C> Clients<C> {
    /// Makes a list without connections that never has more than `max`.
    pub(crate) fn new(name: &'static str, max: usize, full: Full) -> Self {
        Self {
            name,
            max,
            full,
            arrivals: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            open: Mutex::new(Slab::new()),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Accepts no further connection.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }
}

impl<C: Connection> Clients<C> {
    /// Serves a connection in its own thread.
    ///
    /// # Errors
    ///
    /// The limit of connections is reached, or the system has no room for one more.
    pub(crate) fn serve(
        self: &Arc<Self>,
        stream: C,
        serve: impl FnOnce(&C, &Busy) + Send + 'static,
    ) -> io::Result<()> {
        let handle = stream.duplicate()?;
        let busy = Arc::<Busy>::default();
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let key = {
            let mut open = lock(&self.open);
            if open.len() >= self.max && !(self.full == Full::EndOldest && end_oldest(&mut open)) {
                let what = format!("{} connections are open already", self.max);
                return Err(io::Error::other(what));
            }
            open.insert(Open {
                stream: handle,
                arrival,
                busy: Arc::clone(&busy),
            })
        };
        let clients = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("lnet-{}", self.name))
            .spawn(move || {
                serve(&stream, &busy);
                clients.forget(key, arrival);
            });
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.forget(key, arrival);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes a connection from the list, unless another one has its place already.
    fn forget(&self, key: usize, arrival: u64) {
        let mut open = lock(&self.open);
        if open.get(key).is_some_and(|open| open.arrival == arrival) {
            open.remove(key);
        }
    }

    /// Shuts down every connection and waits for its thread.
    pub(crate) fn end(&self) {
        for (_, open) in &*lock(&self.open) {
            // A connection that has already ended needs no shutdown.
            let _ended = open.stream.end();
        }
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            join(thread);
        }
    }
}

/// Shuts the oldest idle connection down, so that its thread ends at once, and forgets it. Returns false if there is
/// none.
fn end_oldest<C: Connection>(open: &mut Slab<Open<C>>) -> bool {
    let idle = open
        .iter()
        .filter(|(_, open)| !open.busy.0.load(Ordering::Relaxed));
    let Some((key, _)) = idle.min_by_key(|(_, open)| open.arrival) else {
        return false;
    };
    // A connection that has already ended needs no shutdown.
    let _ended = open.remove(key).stream.end();
    true
}

/// Waits for a thread of an endpoint.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        warn!("a thread of an endpoint ended with a panic");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
