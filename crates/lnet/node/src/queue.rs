//! Event queues: a program waits there for the events of its memory descriptors.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::node::{LONGEST_SLEEP, Shared};
use crate::stack::{EventSink, NodeEvent};

/// A queue of events. Clones are handles to the same queue; any thread may wait on it.
#[derive(Clone)]
pub struct EventQueue {
    state: Arc<QueueState>,
    shared: Arc<Shared>,
}

/// The state of a queue, shared between the engine, which fills it, and the handles.
pub(crate) struct QueueState {
    inner: Mutex<QueueInner>,
    filled: Condvar,
    /// The most events that the queue holds.
    max: usize,
}

#[derive(Default)]
struct QueueInner {
    events: VecDeque<NodeEvent>,
    /// The number of threads that sleep until there is an event.
    waiting: usize,
    closed: bool,
    /// True after [`EventQueue::close`]: events are discarded.
    discards: bool,
    /// True if a wait ends when a path is lost.
    hears_of_paths: bool,
    path_lost: bool,
    /// The tasks that wait for an event.
    tasks: Vec<Waker>,
}

/// The reason why a wait ended without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WaitError {
    /// The timeout expired first; there may be events later.
    #[error("no event came in time")]
    TimedOut,
    /// The node has shut down and every event was taken: no event will come.
    #[error("the node has shut down")]
    Closed,
    /// An interface went down, or a gateway lost its last connection: messages on this path, and their responses, may
    /// never arrive. Only queues that asked for it report this: [`EventQueue::hear_of_lost_paths`].
    #[error("an interface or a gateway went down")]
    PathLost,
}

/// The most tasks that a queue knows to wait, among them tasks that have gone since.
const TASKS_MAX: usize = 64;

/// The most events that a queue holds for a program that does not take them: some 60 MB.
pub(crate) const EVENTS_MAX: usize = 1 << 18;

impl EventQueue {
    pub(crate) fn new(state: Arc<QueueState>, shared: Arc<Shared>) -> Self {
        Self { state, shared }
    }

    pub(crate) fn state(&self) -> &Arc<QueueState> {
        &self.state
    }

    /// Returns the next event, if there is one now.
    #[must_use]
    pub fn try_next(&self) -> Option<NodeEvent> {
        self.state.lock().events.pop_front()
    }

    /// Moves all events that there are now behind those in `events`. Cheapest if `events` is empty: then the queue
    /// goes on with the memory of `events`.
    pub fn drain(&self, events: &mut VecDeque<NodeEvent>) {
        let _any = take_all(&mut self.state.lock().events, events);
    }

    /// Waits as [`EventQueue::wait`] does, and moves all events as [`EventQueue::drain`] does: at least one.
    ///
    /// # Errors
    ///
    /// Those of [`EventQueue::wait`].
    pub fn wait_many(
        &self,
        events: &mut VecDeque<NodeEvent>,
        timeout: Option<Duration>,
    ) -> Result<(), WaitError> {
        self.wait_to(timeout, |held| take_all(held, events))
    }

    /// Waits as [`EventQueue::wait`] does, and gives at most `most` events to `take`, at least one. Returns how many.
    ///
    /// # Errors
    ///
    /// Those of [`EventQueue::wait`].
    pub fn wait_some(
        &self,
        most: usize,
        timeout: Option<Duration>,
        mut take: impl FnMut(NodeEvent),
    ) -> Result<usize, WaitError> {
        self.wait_to(timeout, |held| {
            let count = held.len().min(most);
            held.drain(..count).for_each(&mut take);
            (count > 0).then_some(count)
        })
    }

    /// Ends the queue: waits end with [`WaitError::Closed`], and events are discarded, those that the queue holds and
    /// those that come.
    pub fn close(&self) {
        self.state.end();
    }

    /// Returns true if the node's sockets are driven by threads that wait: [`crate::Progress::Caller`].
    #[must_use]
    pub fn is_driven_by_callers(&self) -> bool {
        self.shared.is_driven_by_callers()
    }

    /// From now on, lets a wait end with [`WaitError::PathLost`], once, after an interface of the node or a gateway has
    /// gone down.
    pub fn hear_of_lost_paths(&self) {
        let mut inner = self.state.lock();
        inner.hears_of_paths = true;
        inner.path_lost = false;
    }

    /// Waits for the next event; without a `timeout`, until an event comes or the node ends.
    ///
    /// With [`crate::Progress::Caller`], the wait drives the node's I/O, for at least one turn. If several
    /// threads wait at the same time, one of them drives for all, and another takes over when that thread
    /// returns.
    ///
    /// # Errors
    ///
    /// [`WaitError`] distinguishes a timeout from the end of the node.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<NodeEvent, WaitError> {
        self.wait_to(timeout, VecDeque::pop_front)
    }

    /// Returns the next event to a task, of any executor. Only for nodes with [`crate::Progress::Thread`]: with
    /// [`crate::Progress::Caller`], nothing moves while a task waits.
    ///
    /// # Errors
    ///
    /// Those of [`EventQueue::wait`], without a timeout.
    pub async fn next(&self) -> Result<NodeEvent, WaitError> {
        poll_fn(|context| self.state.poll_next(context)).await
    }

    /// Waits until `take` takes something out of the events that the queue holds.
    fn wait_to<R>(
        &self,
        timeout: Option<Duration>,
        mut take: impl FnMut(&mut VecDeque<NodeEvent>) -> Option<R>,
    ) -> Result<R, WaitError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if self.shared.is_driven_by_callers() {
            self.drive_until_event(deadline, &mut take)
        } else {
            self.state.wait(deadline, &mut take)
        }
    }

    fn drive_until_event<R>(
        &self,
        deadline: Option<Instant>,
        take: &mut impl FnMut(&mut VecDeque<NodeEvent>) -> Option<R>,
    ) -> Result<R, WaitError> {
        if self.shared.is_turn_overdue() {
            self.shared.turn_of_caller(Some(Duration::ZERO), || {});
        } else if let Some(taken) = take(&mut self.state.lock().events) {
            return Ok(taken);
        }
        self.shared.follow();
        let taken = self.drive_or_follow(deadline, take);
        self.shared.unfollow();
        taken
    }

    fn drive_or_follow<R>(
        &self,
        deadline: Option<Instant>,
        take: &mut impl FnMut(&mut VecDeque<NodeEvent>) -> Option<R>,
    ) -> Result<R, WaitError> {
        let mut is_last_look = false;
        loop {
            let mut inner = self.state.lock();
            if let Some(taken) = take(&mut inner.events) {
                return Ok(taken);
            }
            if inner.closed {
                return Err(WaitError::Closed);
            }
            if std::mem::take(&mut inner.path_lost) {
                return Err(WaitError::PathLost);
            }
            if is_last_look {
                return Err(WaitError::TimedOut);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            is_last_look = left == Some(Duration::ZERO);
            // Unless this thread drives, the queue stays locked until this thread sleeps. So no other thread
            // can add an event or hand over the driving in between.
            let mut locked = Some(inner);
            let unlock = || drop(locked.take());
            if !self.shared.turn_of_caller(left, unlock)
                && let Some(inner) = locked
            {
                let left = left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                drop(self.state.sleep(inner, Some(left)));
            }
        }
    }
}

/// Moves all events behind those that `events` has; `None` if there are none.
fn take_all(held: &mut VecDeque<NodeEvent>, events: &mut VecDeque<NodeEvent>) -> Option<()> {
    if held.is_empty() {
        return None;
    }
    if events.is_empty() {
        std::mem::swap(held, events);
    } else {
        events.append(held);
    }
    Some(())
}

impl EventSink for QueueState {
    // The last event of a descriptor is always accepted: it carries memory, and there are no more such events
    // than descriptors.
    fn push(&self, event: NodeEvent) -> bool {
        let mut inner = self.lock();
        if inner.discards {
            return true;
        }
        if inner.events.len() >= self.max && !event.event.unlinked {
            return false;
        }
        inner.events.push_back(event);
        let waiting = inner.waiting > 0;
        let tasks = std::mem::take(&mut inner.tasks);
        drop(inner);
        tasks.into_iter().for_each(Waker::wake);
        // A wake-up is a system call even if no thread sleeps.
        if waiting {
            self.filled.notify_one();
        }
        true
    }
}

impl QueueState {
    /// Makes an empty queue that holds at most `max` events.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            inner: Mutex::default(),
            filled: Condvar::new(),
            max,
        }
    }

    /// Notes that no more events will come: waiters return once the queue is empty.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        self.wake_all(inner);
    }

    /// The same, and discards all events from now on.
    fn end(&self) {
        let mut inner = self.lock();
        (inner.closed, inner.discards) = (true, true);
        let discarded = std::mem::take(&mut inner.events);
        self.wake_all(inner);
        drop(discarded);
    }

    fn wake_all(&self, mut inner: MutexGuard<'_, QueueInner>) {
        let tasks = std::mem::take(&mut inner.tasks);
        drop(inner);
        self.filled.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    fn poll_next(&self, context: &Context<'_>) -> Poll<Result<NodeEvent, WaitError>> {
        let mut inner = self.lock();
        if let Some(event) = inner.events.pop_front() {
            return Poll::Ready(Ok(event));
        }
        if inner.closed {
            return Poll::Ready(Err(WaitError::Closed));
        }
        if std::mem::take(&mut inner.path_lost) {
            return Poll::Ready(Err(WaitError::PathLost));
        }
        let task = context.waker();
        if inner.tasks.iter().any(|known| known.will_wake(task)) {
            return Poll::Pending;
        }
        inner.tasks.push(task.clone());
        if inner.tasks.len() > TASKS_MAX {
            // Those that still wait come again; those that went leave no waker behind.
            self.wake_all(inner);
        }
        Poll::Pending
    }

    /// Ends the present wait, or the next one, if the program asked for lost paths.
    pub(crate) fn path_lost(&self) {
        let mut inner = self.lock();
        inner.path_lost = inner.hears_of_paths;
        self.wake_all(inner);
    }

    fn wait<R>(
        &self,
        deadline: Option<Instant>,
        take: &mut impl FnMut(&mut VecDeque<NodeEvent>) -> Option<R>,
    ) -> Result<R, WaitError> {
        let mut inner = self.lock();
        loop {
            if let Some(taken) = take(&mut inner.events) {
                return Ok(taken);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if inner.closed {
                return Err(WaitError::Closed);
            }
            if std::mem::take(&mut inner.path_lost) {
                return Err(WaitError::PathLost);
            }
            if left == Some(Duration::ZERO) {
                return Err(WaitError::TimedOut);
            }
            inner = self.sleep(inner, left);
        }
    }

    /// Sleeps until the queue changes or `left` has passed.
    fn sleep<'q>(
        &'q self,
        mut inner: MutexGuard<'q, QueueInner>,
        left: Option<Duration>,
    ) -> MutexGuard<'q, QueueInner> {
        inner.waiting += 1;
        let mut inner = match left {
            None => self
                .filled
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = self.filled.wait_timeout(inner, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        inner.waiting -= 1;
        inner
    }

    /// Wakes one of the threads that sleep on this queue, so that it can drive. Returns false if none sleeps.
    pub(crate) fn nudge(&self) -> bool {
        let sleeps = self.lock().waiting > 0;
        if sleeps {
            self.filled.notify_one();
        }
        sleeps
    }

    fn lock(&self) -> MutexGuard<'_, QueueInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
