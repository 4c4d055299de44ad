//! Connections of an endpoint, each served by a thread of its own.
//!
//! ```text
//!  accept ── admit ──▶ Clients::serve ──▶ thread: serve the connection, forget it
//!                        │ as many as there may be: refused, which closes it
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

/// What can be served: a stream socket.
pub(crate) trait Connection: Sized + Send + 'static {
    /// Another handle to the same connection.
    fn duplicate(&self) -> io::Result<Self>;
    /// Ends it under whoever reads or writes.
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

/// The connections of an endpoint, so that they can be ended from outside.
#[derive(Debug)]
pub(crate) struct Clients<C> {
    /// The endpoint's name, for logs and threads.
    name: &'static str,
    max: usize,
    stopping: AtomicBool,
    open: Mutex<Slab<C>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Between two attempts to accept when the system has no room.
const RETRY: Duration = Duration::from_millis(100);

/// Hands over what arrives until the endpoint stops; a last connection must wake it then.
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
                // Out of descriptors, mostly: they come back when somebody leaves.
                std::thread::sleep(RETRY);
            }
        }
    }
}

impl<C> Clients<C> {
    /// Nobody yet, and never more than `max`.
    pub(crate) fn new(name: &'static str, max: usize) -> Self {
        Self {
            name,
            max,
            stopping: AtomicBool::new(false),
            open: Mutex::new(Slab::new()),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Admits nobody any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }
}

impl<C: Connection> Clients<C> {
    /// Serves a connection in a thread of its own.
    ///
    /// # Errors
    ///
    /// There are as many as there may be, or the system has no room for one more.
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

    /// Ends every connection and waits for its thread.
    pub(crate) fn end(&self) {
        for (_, stream) in &*lock(&self.open) {
            // One that has ended already needs no end.
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
        warn!("a thread of an endpoint ended by a panic");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
