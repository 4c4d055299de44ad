//! Time and threads, which a spread takes from outside.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Work for [`Surroundings::together`].
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;
/// Work for [`Surroundings::later`].
pub type Later = Box<dyn FnOnce() + Send>;

/// Where a spread takes time and threads from. Tests bring a clock of their own and no threads.
pub trait Surroundings: Send + Sync {
    /// Time since some beginning; never goes back.
    fn now(&self) -> Duration;

    /// Carries out the parts at the same time, and returns when all are done. Leaves out what gets no thread.
    fn together(&self, parts: Vec<Part<'_>>);

    /// Carries out work without the caller waiting for it.
    fn later(&self, work: Later);
}

/// The clock and the threads of this machine.
#[derive(Debug)]
pub struct Real {
    start: Instant,
}

impl Real {
    /// The clock begins now.
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
                // A part that got no thread is left out; its result stays what it was.
                drop(thread::Builder::new().spawn_scoped(scope, part));
            }
            own();
        });
    }

    fn later(&self, work: Later) {
        let started = thread::Builder::new().name("spread".into()).spawn(work);
        // Without a thread a gateway that is down is asked again by the next operation that finds none.
        drop(started);
    }
}
