//! A socket between a client and the daemon that stops after a given number of bytes.
//!
//! ```text
//!  client ──▶ relay ──▶ daemon      as long as there are bytes left in the allowance,
//!         ◀──       ◀──             which both directions use up
//! ```

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use crate::scene::LIMIT;

/// Forwards one connection.
pub(crate) struct Relay {
    path: PathBuf,
    gate: Arc<Gate>,
}

/// The remaining allowance.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    allowance: usize,
    /// Whether a byte waits that may not pass.
    stopped: bool,
    /// Both connections, to be closed.
    streams: Vec<UnixStream>,
    closed: bool,
}

impl Relay {
    /// Listens for a client beside the daemon's socket.
    pub(crate) fn to(daemon: &Path, name: &str, allowance: usize) -> Relay {
        let path = daemon.with_file_name(name);
        let listener = UnixListener::bind(&path).unwrap();
        let gate = Arc::<Gate>::default();
        gate.state.lock().unwrap().allowance = allowance;
        let (daemon, forwarding) = (daemon.to_path_buf(), Arc::clone(&gate));
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            forwarding.forward(client, UnixStream::connect(daemon).unwrap());
        });
        Relay { path, gate }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets more bytes pass.
    pub(crate) fn allow(&self, bytes: usize) {
        let mut state = self.gate.state.lock().unwrap();
        state.allowance = state.allowance.saturating_add(bytes);
        state.stopped = false;
        self.gate.changed.notify_all();
    }

    /// Sets the number of bytes that may still pass.
    pub(crate) fn limit(&self, bytes: usize) {
        self.gate.state.lock().unwrap().allowance = bytes;
    }

    /// Waits until a byte is held back, or the client is gone.
    pub(crate) fn until_stopped(&self) {
        let state = self.gate.state.lock().unwrap();
        let waits = |state: &mut State| !state.stopped && !state.closed;
        let waited = self.gate.changed.wait_timeout_while(state, LIMIT, waits);
        assert!(!waited.unwrap().1.timed_out(), "the relay never stopped");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.gate.close();
    }
}

impl Gate {
    fn forward(self: &Arc<Self>, client: UnixStream, daemon: UnixStream) {
        let ends = [(&client, &daemon), (&daemon, &client)];
        self.state.lock().unwrap().streams =
            vec![client.try_clone().unwrap(), daemon.try_clone().unwrap()];
        std::thread::scope(|scope| {
            for (from, to) in ends {
                scope.spawn(|| self.pass(from, to));
            }
        });
    }

    /// Forwards bytes until one side closes.
    fn pass(&self, mut from: &UnixStream, mut to: &UnixStream) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let mut rest = &bytes[..read];
            while !rest.is_empty() {
                let Some(allowed) = self.take(rest.len()) else {
                    return;
                };
                let (now, later) = rest.split_at(allowed);
                if to.write_all(now).is_err() {
                    return self.close();
                }
                rest = later;
            }
        }
        self.close();
    }

    /// Waits for an allowance of at least one byte; `None` at the end.
    fn take(&self, wanted: usize) -> Option<usize> {
        let mut state = self.state.lock().unwrap();
        while state.allowance == 0 && !state.closed {
            state.stopped = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
        }
        let taken = wanted.min(state.allowance);
        state.allowance -= taken;
        (!state.closed).then_some(taken)
    }

    fn close(&self) {
        let mut state = self.state.lock().unwrap();
        state.closed = true;
        for stream in state.streams.drain(..) {
            // The other side may have closed already.
            let _closed = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }
}
