//! Time and threads, which a spread gets from outside.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Work for [`Surroundings::together`].
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;
/// Work for [`Surroundings::later`].
pub type Later = Box<dyn FnOnce() + Send>;

/// The source of time and threads for a spread. Tests use a clock of their own and no threads.
pub trait Surroundings: Send + Sync {
    /// Returns the time since a fixed start. Never decreases.
    fn now(&self) -> Duration;

    /// Executes the parts at the same time, and returns when all are done. Omits parts for which there is no thread.
    fn together(&self, parts: Vec<Part<'_>>);

    /// Executes work in the background. The caller does not wait.
    fn later(&self, work: Later);
}

/// The clock and the threads of this machine.
#[derive(Debug)]
pub struct Real {
    start: Instant,
}

impl Real {
    /// Creates surroundings whose clock starts now.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let start = Instant::now();
        Arc::new(Self { start })
    }
}

impl Surroundings for Real {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn together(&self, mut parts: Vec<Part<'_>>) {
        let Some(own) = parts.pop() else { return };
        thread::scope(|scope| {
            for part in parts {
                // A part without a thread is omitted, so its result keeps the initial value.
                drop(thread::Builder::new().spawn_scoped(scope, part));
            }
            own();
        });
    }

    fn later(&self, work: Later) {
        let started = thread::Builder::new().name("spread".into()).spawn(work);
        // Without a thread, the next operation that finds no other gateway probes this one.
        drop(started);
    }
}
