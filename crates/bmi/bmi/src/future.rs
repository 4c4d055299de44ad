//! Futures for operations and unexpected messages, and a descriptor to poll.
//!
//! ```text
//!  task ── await Operation ──▶ its waker ◀── wake ──┐
//!  loop ── poll descriptor ──▶ eventfd   ◀── ring ──┤ driver: a thread that tests the context
//! ```
//!
//! Methods make progress only while a thread tests. A [`Driver`] is a thread that does nothing else, so the
//! futures need no runtime and work in any executor. No other thread should test the context of a driver,
//! because an operation is collected once.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use sys::{Alarm, Event};

use crate::bmi::Bmi;
use crate::error::Error;
use crate::id::{Class, ContextId, OpId};
use crate::ops::Completion;
use crate::payload::Payload;
use crate::post::Post;
use crate::test::Unexpected;

/// A thread that tests one context and wakes the futures that wait.
///
/// Unexpected messages are noticed only while [`Setting::CheckUnexpected`](crate::Setting::CheckUnexpected)
/// is on, which is the default.
///
/// With the zoid method, set its option `pipelined` and leave `single_thread` off; otherwise a post waits in
/// the daemon and blocks the caller before a future exists.
pub struct Driver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The result of an awaited operation.
#[derive(Debug)]
pub struct Completed {
    /// The number of bytes sent or received, or why the operation failed.
    pub result: Result<usize, Error>,
    /// The memory given when the operation was posted.
    pub payload: Payload,
}

/// Completes with its operation. Dropping this future does not cancel the operation; its result is then
/// dropped when the operation completes.
#[must_use = "a future does nothing until it is awaited"]
pub struct Operation {
    shared: Arc<Shared>,
    state: Awaited,
}

enum Awaited {
    /// The operation completed inside the post.
    Immediate(Completed),
    Pending(OpId),
    Over,
}

/// Completes with the next unexpected message of a class.
#[must_use = "a future does nothing until it is awaited"]
pub struct Incoming {
    shared: Arc<Shared>,
    class: Class,
    /// Its number among the waiting futures; none before the first poll.
    number: Option<u64>,
}

struct Shared {
    bmi: Arc<Bmi>,
    context: ContextId,
    state: Mutex<State>,
    /// Signals the thread that its work has changed.
    changed: Event,
    /// The descriptor; readable while there is something to collect.
    news: Alarm,
}

#[derive(Default)]
struct State {
    /// Completed operations that nobody has collected, with a sequence number.
    done: FxHashMap<OpId, (u64, Completion)>,
    awaited: FxHashMap<OpId, Waker>,
    /// Operations whose futures were dropped before completion.
    dropped: FxHashSet<OpId>,
    messages: BTreeMap<Class, VecDeque<Unexpected>>,
    listeners: BTreeMap<(Class, u64), Waker>,
    /// Counts completions and waiting futures.
    number: u64,
    over: Option<Error>,
}

/// The most completions or messages that one test collects.
const AT_ONCE: usize = 64;

/// The longest single test.
const TEST: Duration = Duration::from_secs(3600);

/// How often the thread polls while it cannot sleep in a test: if messages of a class wait that no future
/// awaits, and if no method has started.
const LOOK: Duration = Duration::from_millis(10);

impl Driver {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// No descriptor or no thread could be created.
    pub fn start(bmi: Arc<Bmi>, context: ContextId) -> io::Result<Driver> {
        let shared = Arc::new(Shared {
            bmi,
            context,
            state: Mutex::default(),
            changed: Event::default(),
            news: Alarm::new()?,
        });
        let thread = std::thread::Builder::new().name("bmi".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        Ok(Driver {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns a future of an operation that was posted in the context of this driver.
    pub fn operation(&self, post: Post) -> Operation {
        let state = match post {
            Post::Immediate(len, payload) => Awaited::Immediate(Completed {
                result: Ok(len),
                payload,
            }),
            Post::Pending(op) => Awaited::Pending(op),
        };
        Operation {
            shared: Arc::clone(&self.shared),
            state,
        }
    }

    /// Returns a future of the next unexpected message of a class.
    pub fn unexpected(&self, class: Class) -> Incoming {
        Incoming {
            shared: Arc::clone(&self.shared),
            class,
            number: None,
        }
    }

    /// Takes every completed operation that no future awaits, in the order of completion. The descriptor is
    /// not readable afterwards until another operation completes.
    #[must_use]
    pub fn collect(&self) -> Vec<Completion> {
        let mut state = self.shared.lock();
        self.shared.news.clear();
        let mut done: Vec<_> = state.done.drain().map(|(_, done)| done).collect();
        drop(state);
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, completion)| completion).collect()
    }
}

impl AsFd for Driver {
    /// Readable while [`Driver::collect`] has something to return.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.news.as_fd()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end(Error::NetDown);
        self.shared.interrupt();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended as well.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread look at its work again.
    fn interrupt(&self) {
        self.changed.notify();
        self.bmi.wake();
    }

    /// Completes everything that is awaited with an error.
    fn end(&self, error: Error) {
        let mut state = self.lock();
        state.over.get_or_insert(error);
        let State {
            awaited, listeners, ..
        } = &mut *state;
        let listeners = std::mem::take(listeners).into_values();
        let wakers: Vec<Waker> = awaited
            .drain()
            .map(|(_, waker)| waker)
            .chain(listeners)
            .collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn run(&self) {
        loop {
            let seen = self.changed.count();
            if self.lock().over.is_some() {
                return;
            }
            if let Err(error) = self.turn(seen) {
                return self.end(error);
            }
        }
    }

    fn turn(&self, seen: u32) -> Result<(), Error> {
        let listens = self.fetch()?;
        if self.bmi.active().next().is_none() {
            self.changed.wait(seen, LOOK);
            return Ok(());
        }
        // Messages that still wait after a fetch have a class that no future awaits.
        let others = listens && self.bmi.unexpected_waiting();
        let time = if others { LOOK } else { TEST };
        let stop = || self.changed.count() != seen;
        let unexpected = listens && !others;
        let done = self
            .bmi
            .test_until(self.context, AT_ONCE, time, unexpected, &stop)?;
        self.deliver(done);
        Ok(())
    }

    /// Fetches messages for the futures that wait. Returns whether any future still waits.
    fn fetch(&self) -> Result<bool, Error> {
        let mut wanted: BTreeMap<Class, usize> = BTreeMap::new();
        for (class, _) in self.lock().listeners.keys() {
            *wanted.entry(*class).or_default() += 1;
        }
        let mut listens = false;
        for (class, count) in wanted {
            let found = self.bmi.test_unexpected(class, count, Duration::ZERO)?;
            listens |= found.len() < count;
            let mut state = self.lock();
            for message in found {
                state.messages.entry(class).or_default().push_back(message);
                let first = state.listeners.range((class, 0)..=(class, u64::MAX)).next();
                let first = first.map(|(key, _)| *key);
                if let Some(waker) = first.and_then(|key| state.listeners.remove(&key)) {
                    waker.wake();
                }
            }
        }
        Ok(listens)
    }

    fn deliver(&self, done: Vec<Completion>) {
        let mut state = self.lock();
        let mut news = false;
        for completion in done {
            let op = completion.op;
            if state.dropped.remove(&op) {
                continue;
            }
            state.number += 1;
            let number = state.number;
            state.done.insert(op, (number, completion));
            match state.awaited.remove(&op) {
                Some(waker) => waker.wake(),
                None => news = true,
            }
        }
        if news {
            self.news.ring();
        }
    }
}

impl Future for Operation {
    /// [`Error::NetDown`]: the driver or the interface has ended.
    type Output = Result<Completed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let op = match std::mem::replace(&mut self.state, Awaited::Over) {
            Awaited::Immediate(finished) => return Poll::Ready(Ok(finished)),
            Awaited::Pending(op) => op,
            Awaited::Over => return Poll::Ready(Err(Error::Inval)),
        };
        let mut state = self.shared.lock();
        if let Some((
            _,
            Completion {
                result, payload, ..
            },
        )) = state.done.remove(&op)
        {
            return Poll::Ready(Ok(Completed { result, payload }));
        }
        if let Some(error) = state.over {
            return Poll::Ready(Err(error));
        }
        state.awaited.insert(op, cx.waker().clone());
        drop(state);
        self.state = Awaited::Pending(op);
        Poll::Pending
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let Awaited::Pending(op) = self.state else {
            return;
        };
        let mut state = self.shared.lock();
        state.awaited.remove(&op);
        if state.done.remove(&op).is_none() && state.over.is_none() {
            state.dropped.insert(op);
        }
    }
}

impl Future for Incoming {
    /// [`Error::NetDown`]: the driver or the interface has ended.
    type Output = Result<Unexpected, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let class = self.class;
        let mut state = self.shared.lock();
        let waiting = state.messages.get_mut(&class);
        if let Some(message) = waiting.and_then(VecDeque::pop_front) {
            return Poll::Ready(Ok(message));
        }
        if let Some(error) = state.over {
            return Poll::Ready(Err(error));
        }
        let number = self.number.unwrap_or(state.number + 1);
        state.number = state.number.max(number);
        let known = state.listeners.insert((class, number), cx.waker().clone());
        drop(state);
        self.number = Some(number);
        if known.is_none() {
            self.shared.interrupt();
        }
        Poll::Pending
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.shared.lock();
        if state.listeners.remove(&(self.class, number)).is_some() {
            return;
        }
        // This future was woken for a message that it did not take; wake the next one.
        let next = state
            .listeners
            .range((self.class, 0)..=(self.class, u64::MAX))
            .next();
        let left = state
            .messages
            .get(&self.class)
            .is_some_and(|queue| !queue.is_empty());
        if left && let Some((_, waker)) = next {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests;
