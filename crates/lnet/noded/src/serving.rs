//! Serves the connections of an endpoint, each in its own thread.
//!
//! ```text
//!  accept ── admit ──▶ Clients::serve ──▶ thread: serve the connection, forget it
//!                        │ at the limit: the connection is rejected and closed
//!  stop ─────────────▶ end: every open connection is shut down, every thread waited for
//! ```

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
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
    open: Mutex<Slab<C>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
    pub(crate) fn new(name: &'static str, max: usize) -> Self {
        Self {
            name,
            max,
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
        serve: impl FnOnce(&C) + Send + 'static,
    ) -> io::Result<()> {
        let handle = stream.duplicate()?;
        let key = {
            let mut open = lock(&self.open);
            if open.len() >= self.max {
                let what = format!("{} connections are open already", self.max);
                return Err(io::Error::other(what));
            }
            open.insert(handle)
        };
        let clients = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("lnet-{}", self.name))
            .spawn(move || {
                serve(&stream);
                lock(&clients.open).try_remove(key);
            });
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                lock(&self.open).try_remove(key);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Shuts down every connection and waits for its thread.
    pub(crate) fn end(&self) {
        for (_, stream) in &*lock(&self.open) {
            // A connection that has already ended needs no shutdown.
            let _ended = stream.end();
        }
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            join(thread);
        }
    }
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
