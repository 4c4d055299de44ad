//! Every operation that was posted and has not been collected.
//!
//! ```text
//!              the method's post said                    the method completed it
//!  reserve ─▶ POSTING ── Immediate, error ─▶ (gone)
//!                │  └─── Pending ──────────▶ PENDING ───────────────▶ DONE ── collected ─▶ (gone)
//!                └ completed already ─▶ EARLY ── Pending ──────────────▲
//! ```
//!
//! EARLY keeps another thread's test from collecting an operation before its post has returned the id.
//!
//! Completed operations wait in one queue per context, in the order of completion. An operation that is
//! collected by its id leaves its queue entry behind; the queue skips the entry later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::id::{ContextId, OpId};
use crate::payload::Payload;
use crate::table::Table;

/// The most contexts that may be open at a time.
// [BMI-30]
const CONTEXTS_MAX: usize = 16;

/// A collected operation.
#[derive(Debug)]
pub struct Completion {
    /// Its id, which is no longer valid.
    pub op: OpId,
    /// The number of bytes sent or received, or why the operation failed: [`Error::Cancel`] if it was
    /// cancelled in time.
    pub result: Result<usize, Error>,
    /// The value given when it was posted.
    pub user: u64,
    /// The memory given when it was posted.
    pub payload: Payload,
}

/// The table of operations and the queues of completed ones.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    inner: Mutex<Inner>,
    /// Completions of operations that were not pending.
    strays: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    table: Table<Op>,
    contexts: Table<Queue>,
    /// The number of operations that each method has yet to complete.
    pending: Vec<usize>,
}

#[derive(Debug)]
struct Op {
    state: State,
    owner: Owner,
    payload: Payload,
}

/// The properties of an operation that are known before its post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Index of the method.
    pub(crate) method: usize,
    pub(crate) context: ContextId,
    pub(crate) user: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Posting,
    Early(Result<usize, Error>),
    Pending,
    Done(Result<usize, Error>),
}

/// Completed operations, oldest first, and stale entries of operations collected by id.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<OpId>,
    /// The number of entries that can still be collected.
    live: usize,
}

impl Ops {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a context.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: sixteen contexts are open.
    pub(crate) fn open_context(&self) -> Result<ContextId, Error> {
        let mut inner = self.lock();
        if inner.contexts.len() == CONTEXTS_MAX {
            return Err(Error::Busy);
        }
        inner.contexts.insert(Queue::default()).ok_or(Error::NoMem)
    }

    /// Closes a context. Its operations stay and can be collected by their ids.
    // [BMI-33]
    pub(crate) fn close_context(&self, context: ContextId) {
        self.lock().contexts.remove(context);
    }

    pub(crate) fn is_open(&self, context: ContextId) -> bool {
        self.lock().contexts.get(context).is_some()
    }

    /// Creates the id of an operation that is about to be posted.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such context. [`Error::NoMem`]: 2³² operations exist.
    // [BMI-31]
    pub(crate) fn reserve(&self, owner: Owner) -> Result<OpId, Error> {
        let mut inner = self.lock();
        if inner.contexts.get(owner.context).is_none() {
            return Err(Error::Inval);
        }
        let op = Op {
            state: State::Posting,
            owner,
            payload: Payload::default(),
        };
        inner.table.insert(op).ok_or(Error::NoMem)
    }

    /// Frees the id of an operation that completed or failed in its post.
    pub(crate) fn release(&self, op: OpId) {
        self.lock().table.remove(op);
    }

    /// Records that the post has left the operation pending. Returns whether the operation has completed
    /// meanwhile.
    // [BMI-21]
    pub(crate) fn publish(&self, op: OpId, payload: Payload) -> bool {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(entry) = inner.table.get_mut(op) else {
            return false;
        };
        entry.payload = payload;
        let owner = entry.owner;
        let early = match entry.state {
            State::Early(result) => Some(result),
            _ => None,
        };
        entry.state = early.map_or(State::Pending, State::Done);
        if early.is_some() {
            inner.enqueue(op, owner);
        } else {
            inner.count_pending(owner.method);
        }
        early.is_some()
    }

    // [BMI-20]
    pub(crate) fn complete(&self, op: OpId, result: Result<usize, Error>) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(entry) = inner.table.get_mut(op) else {
            return self.stray(op);
        };
        match entry.state {
            State::Posting => entry.state = State::Early(result),
            State::Pending => {
                entry.state = State::Done(result);
                let owner = entry.owner;
                inner.enqueue(op, owner);
                inner.pending[owner.method] -= 1;
            }
            State::Early(_) | State::Done(_) => self.stray(op),
        }
    }

    fn stray(&self, op: OpId) {
        self.strays.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(?op, "a method completed an operation that was not pending");
    }

    /// Returns the number of completions of operations that were not pending.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Returns the number of operations that a method has yet to complete.
    pub(crate) fn pending_at(&self, method: usize) -> usize {
        self.lock().pending.get(method).copied().unwrap_or(0)
    }

    /// Returns the index of the method of an operation that can be tested.
    pub(crate) fn method_of(&self, op: OpId) -> Option<usize> {
        let inner = self.lock();
        let entry = inner.table.get(op)?;
        (!matches!(entry.state, State::Posting | State::Early(_))).then_some(entry.owner.method)
    }

    /// Returns whether one of the operations can be collected or has been collected by another thread.
    pub(crate) fn any_done(&self, ops: &[OpId]) -> bool {
        let inner = self.lock();
        ops.iter().any(|&op| match inner.table.get(op) {
            Some(entry) => matches!(entry.state, State::Done(_)),
            None => true,
        })
    }

    /// Returns whether a test of the context would collect something.
    pub(crate) fn context_done(&self, context: ContextId) -> bool {
        let inner = self.lock();
        let own = inner.contexts.get(context);
        own.is_none_or(|queue| queue.live > 0)
    }

    /// Collects an operation, if it has completed.
    pub(crate) fn collect(&self, op: OpId) -> Option<Completion> {
        self.lock().take(op)
    }

    /// Collects at most `capacity` operations of a context, oldest first.
    // [BMI-26]
    pub(crate) fn collect_any(
        &self,
        context: ContextId,
        capacity: usize,
        completions: &mut Vec<Completion>,
    ) {
        let mut inner = self.lock();
        for _ in 0..capacity {
            let Some(op) = inner.next_done(context) else {
                return;
            };
            completions.extend(inner.take(op));
        }
    }

    /// Removes all operations, collected or not.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *self.lock());
        // Outside of the lock: freeing memory may call the allocator of its method.
        drop(gone);
    }
}

impl Inner {
    fn count_pending(&mut self, method: usize) {
        if self.pending.len() <= method {
            self.pending.resize(method + 1, 0);
        }
        self.pending[method] += 1;
    }

    /// Queues a completed operation. An operation whose context was closed is in no queue.
    // [BMI-32]
    fn enqueue(&mut self, op: OpId, owner: Owner) {
        if let Some(queue) = self.contexts.get_mut(owner.context) {
            queue.entries.push_back(op);
            queue.live += 1;
        }
    }

    // [BMI-4]
    fn take(&mut self, op: OpId) -> Option<Completion> {
        let State::Done(result) = self.table.get(op)?.state else {
            return None;
        };
        let entry = self.table.remove(op)?;
        if let Some(queue) = self.contexts.get_mut(entry.owner.context) {
            queue.live -= 1;
        }
        self.compact(entry.owner);
        Some(Completion {
            op,
            result,
            user: entry.owner.user,
            payload: entry.payload,
        })
    }

    /// Removes the entries of operations that were collected by id once they outnumber the others.
    fn compact(&mut self, owner: Owner) {
        let Inner {
            table, contexts, ..
        } = self;
        let Some(queue) = contexts.get_mut(owner.context) else {
            return;
        };
        if queue.live == 0 {
            queue.entries.clear();
        } else if queue.entries.len() > 2 * queue.live + 64 {
            queue.entries.retain(|&op| table.get(op).is_some());
        }
    }

    fn next_done(&mut self, context: ContextId) -> Option<OpId> {
        let Inner {
            table, contexts, ..
        } = self;
        let queue = contexts.get_mut(context)?;
        while let Some(op) = queue.entries.pop_front() {
            if table.get(op).is_some() {
                return Some(op);
            }
        }
        None
    }
}
