//! The server: exports a file system to clients of BMI.
//!
//! ```text
//!   receivers   wait for messages ──▶ Core (decides) ──▶ posts, cancels; a receiver executes tasks while another waits
//!   loop        waits for completions ──▶ Core ──▶ posts, cancels
//!   workers     take tasks from Core's queue, call the file system ──▶ Core ──▶ posts
//! ```
//!
//! A lone request is executed and answered by the thread that receives it, without a switch to another thread.

mod buffers;
mod core;
#[cfg(test)]
mod core_tests;
mod exchange;
mod exposition;
mod pieces;
mod schedule;
mod sessions;
mod work;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bmi::{
    Address, Bmi, Class, ContextId, Error, OpId, Payload, Post, Question, Rejected, Setting,
    Unexpected,
};
use files::FileSystem;

use self::buffers::Buffers;
use self::core::{Action, Actions, Core};
use self::work::{Task, execute};
use crate::PIPELINED;
use crate::counters::Counters;
use crate::options::ForwarderOptions;
use crate::proto::{ANSWER_BYTES, COUNTS_BYTES, PIECE_MIN};

/// A running forwarder. Dropping it is the same as [`Forwarder::shutdown`] without grace.
pub struct Forwarder {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The present state of a forwarder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Number of exchanges in flight.
    pub exchanges: usize,
    /// Number of operations that wait for a worker.
    pub queued: usize,
    /// Number of exchanges that wait for memory.
    pub waiting_for_memory: usize,
    /// Bytes of buffers in use.
    pub memory: u64,
    /// Limit of the buffers in use, in bytes.
    pub memory_limit: u64,
    /// Number of clients in memory.
    pub clients: usize,
    /// Number of addresses of clients.
    pub peers: usize,
}

struct Shared {
    bmi: Arc<Bmi>,
    context: ContextId,
    files: Arc<dyn FileSystem>,
    core: Mutex<Core>,
    /// Signals that there are tasks, or that the forwarder ends.
    work: Condvar,
    buffers: Buffers,
    counters: Arc<Counters>,
    /// Whether the forwarder accepts no further exchanges.
    drains: AtomicBool,
    ends: AtomicBool,
    /// Number of receivers that wait for messages.
    listening: AtomicUsize,
}

/// Number of receivers, if there are as many workers.
const RECEIVERS: usize = 2;
/// Limit of the messages or completions of one test, and how long a test waits for messages.
const AT_ONCE: usize = 64;
const TEST: Duration = Duration::from_secs(1);
/// How long a test waits for completions.
const TEST_IDLE: Duration = Duration::from_millis(200);
/// How long the test waits while there are exchanges, which may have to be cancelled.
const TEST_BUSY: Duration = Duration::from_millis(50);
/// How often the forwarder looks for exchanges without progress.
const TICK: Duration = Duration::from_millis(10);
/// How often the forwarder looks for addresses of disconnected clients.
const FORGET: Duration = Duration::from_secs(1);
/// Least memory for buffers, in bytes: two appends of the greatest length.
const MEMORY_MIN: u64 = 2 * files::APPEND_MAX;
/// Pause after a test that failed, and between wakes of threads that are to end.
const PAUSE: Duration = Duration::from_millis(10);

impl Forwarder {
    /// Exports `files` to the clients of `bmi`, which was started with a listen address. Only the forwarder may
    /// receive the unexpected messages of `bmi`.
    ///
    /// # Errors
    ///
    /// The system has no further context, thread or random number.
    pub fn start(
        bmi: Arc<Bmi>,
        files: Arc<dyn FileSystem>,
        options: ForwarderOptions,
    ) -> io::Result<Self> {
        let mut epoch = [0; 8];
        getrandom::fill(&mut epoch).map_err(|error| io::Error::other(error.to_string()))?;
        let context = bmi.open_context().map_err(io::Error::other)?;
        bmi.set(None, &PIPELINED).map_err(io::Error::other)?;
        // The receivers notice messages.
        bmi.set(None, &Setting::CheckUnexpected(false))
            .map_err(io::Error::other)?;
        let options = fitting(options, &bmi);
        let counters = Arc::new(Counters::default());
        // Epoch 0 means that a client knows no forwarder yet.
        let core = Core::new(
            options,
            u64::from_le_bytes(epoch).max(1),
            Arc::clone(&counters),
        );
        let longest = options.piece as usize + ANSWER_BYTES + COUNTS_BYTES;
        let max = options.memory as usize / longest;
        let shared = Arc::new(Shared {
            context,
            files,
            core: Mutex::new(core),
            work: Condvar::new(),
            buffers: Buffers::new(Arc::clone(&bmi), Arc::clone(&counters), longest, max),
            bmi,
            counters,
            drains: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            listening: AtomicUsize::new(0),
        });
        let mut forwarder = Self {
            shared,
            threads: Vec::new(),
        };
        forwarder.spawn("forward", Shared::run)?;
        for _ in 0..options.workers.clamp(1, RECEIVERS) {
            forwarder.spawn("forward-receive", Shared::receive)?;
        }
        for _ in 0..options.workers.max(1) {
            forwarder.spawn("forward-work", Shared::work)?;
        }
        Ok(forwarder)
    }

    fn spawn(&mut self, name: &str, run: fn(&Shared)) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(name.to_owned());
        self.threads.push(thread.spawn(move || run(&shared))?);
        Ok(())
    }

    /// Returns the counters of this forwarder.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Returns the present state of this forwarder.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let core = self.shared.lock();
        Standing {
            exchanges: core.exchanges.len(),
            queued: core.queue.len(),
            waiting_for_memory: core.wanting.len(),
            memory: core.used,
            memory_limit: core.options.memory,
            clients: core.sessions.count(),
            peers: core.peers.len(),
        }
    }

    /// Accepts no further exchanges, waits at most `grace` for those in flight, and ends. The interface stays open:
    /// messages that were not received stay there for the next receiver.
    pub fn shutdown(mut self, grace: Duration) {
        self.end(grace);
    }

    fn end(&mut self, grace: Duration) {
        self.shared.drains.store(true, Ordering::SeqCst);
        self.shared.bmi.wake();
        let until = Instant::now() + grace;
        let mut core = self.shared.lock();
        while !core.exchanges.is_empty() && !self.shared.ends.load(Ordering::SeqCst) {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            let waited = self.shared.work.wait_timeout(core, left.min(TEST_BUSY));
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.shared.ends.store(true, Ordering::SeqCst);
        drop(core);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                // Again: a thread that was about to wait has not noticed the last one.
                self.shared.bmi.wake();
                thread::park_timeout(PAUSE);
            }
            // A thread that panicked has ended, too.
            let _ended = thread.join();
        }
        self.shared.leave();
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Returns the options, adjusted to their limits.
fn fitting(options: ForwarderOptions, bmi: &Bmi) -> ForwarderOptions {
    let memory = options.memory.max(MEMORY_MIN);
    let largest = bmi.get(None, Question::MaxSize).unwrap_or(u64::MAX);
    let largest = largest.saturating_sub((ANSWER_BYTES + COUNTS_BYTES) as u64);
    let largest = u32::try_from(largest.min(memory / 4)).unwrap_or(u32::MAX);
    ForwarderOptions {
        memory,
        piece: options.piece.min(largest).max(PIECE_MIN),
        ..options
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels all posted operations and closes the context.
    fn leave(&self) {
        let ops: Vec<OpId> = self.lock().ops.values().filter_map(|op| op.id).collect();
        for op in ops {
            // `cancel` fails only if the interface was finalized: then the operations have ended already.
            let _nobody_is_left = self.bmi.cancel(op);
        }
        self.bmi.close_context(self.context);
    }

    /// Receives messages until the forwarder accepts no more.
    fn receive(&self) {
        let stop = || self.drains.load(Ordering::SeqCst) || self.ends.load(Ordering::SeqCst);
        while !stop() {
            self.listening.fetch_add(1, Ordering::SeqCst);
            let found = self
                .bmi
                .test_unexpected_until(Class(0), AT_ONCE, TEST, &stop);
            let others = self.listening.fetch_sub(1, Ordering::SeqCst) > 1;
            match found {
                Ok(messages) => self.received(messages, others),
                Err(error) if self.is_over(error) => return,
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Processes messages. Executes what they ask for if others listen meanwhile; otherwise the workers do.
    fn received(&self, mut messages: Vec<Unexpected>, others: bool) {
        let (mut tasks, count) = (0, messages.len());
        for message in &messages {
            let decide = |core: &mut Core, actions: &mut Actions| {
                core.message(message.from, message.tag, &message.data, actions);
            };
            tasks = tasks.max(self.decide(decide));
        }
        if count > 1 {
            messages.clear();
        }
        if !others {
            return self.call_workers(tasks);
        }
        self.call_workers(tasks.saturating_sub(1));
        loop {
            // Not in the condition of the loop, which would hold the lock during the execution.
            let next = self.lock().queue.pop();
            let Some(tasks) = next else { break };
            self.execute(tasks);
        }
        // The memory of a single message is freed last, when the answer is on its way.
    }

    /// Handles an error of a test. Returns whether the interface was finalized, which ends the forwarder.
    fn is_over(&self, error: Error) -> bool {
        if error != Error::NetDown {
            tracing::warn!(%error, "a test failed");
            return false;
        }
        if !self.ends.swap(true, Ordering::SeqCst) {
            tracing::info!("the interface was finalized");
        }
        drop(self.lock());
        self.work.notify_all();
        true
    }

    /// Runs the loop that tests for completions.
    fn run(&self) {
        let mut looked = Instant::now();
        let mut ticked = Instant::now();
        while !self.ends.load(Ordering::SeqCst) {
            match self.turn() {
                Ok(()) => {}
                Err(error) if self.is_over(error) => return,
                Err(_) => thread::sleep(PAUSE),
            }
            // Not in every turn, because it looks at all posted operations.
            if ticked.elapsed() > TICK {
                ticked = Instant::now();
                self.change(|core, actions| core.tick(ticked, actions));
            }
            if looked.elapsed() > FORGET {
                looked = Instant::now();
                self.forget_peers();
            }
        }
    }

    fn turn(&self) -> Result<(), Error> {
        let is_idle = self.lock().exchanges.is_empty();
        let wait = if is_idle { TEST_IDLE } else { TEST_BUSY };
        let stop = || self.ends.load(Ordering::SeqCst);
        let done = self
            .bmi
            .test_context_until(self.context, AT_ONCE, wait, &stop)?;
        for completion in done {
            self.note(completion.user, completion.result, completion.payload);
        }
        Ok(())
    }

    /// Processes a completed operation.
    fn note(&self, number: u64, result: Result<usize, Error>, payload: Payload) {
        // Free the payload: the exchange then owns the memory alone.
        drop(payload);
        if matches!(result, Err(Error::NetReset | Error::NetDown)) {
            self.buffers.forget();
        }
        self.change(|core, actions| core.completed(number, result, actions));
    }

    fn work(&self) {
        loop {
            let mut core = self.lock();
            let tasks = loop {
                if let Some(tasks) = core.queue.pop() {
                    break tasks;
                }
                if self.ends.load(Ordering::SeqCst) {
                    return;
                }
                core = self.work.wait(core).unwrap_or_else(PoisonError::into_inner);
            };
            drop(core);
            self.execute(tasks);
        }
    }

    fn execute(&self, tasks: Vec<Task>) {
        let done = execute(&*self.files, &self.buffers, &self.counters, tasks);
        for (exchange, done) in done {
            self.change(|core, actions| core.done(exchange, done, actions));
        }
    }

    /// Lets the core decide, and workers execute the tasks.
    fn change(&self, decide: impl FnOnce(&mut Core, &mut Actions)) {
        let tasks = self.decide(decide);
        self.call_workers(tasks);
    }

    fn call_workers(&self, tasks: usize) {
        for _ in 0..tasks.min(2) {
            self.work.notify_one();
        }
    }

    /// Lets the core decide and executes its actions, until no action is left. Returns the number of tasks that wait.
    fn decide(&self, decide: impl FnOnce(&mut Core, &mut Actions)) -> usize {
        let mut actions = Vec::new();
        let mut core = self.lock();
        decide(&mut core, &mut actions);
        let mut tasks = core.queue.len();
        drop(core);
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in actions {
                self.act(action, &mut next);
            }
            tasks = tasks.max(self.lock().queue.len());
            actions = next;
        }
        tasks
    }

    fn act(&self, action: Action, next: &mut Actions) {
        match action {
            Action::Receive {
                exchange,
                number,
                from,
                tag,
                length,
            } => {
                let posted = match self.buffers.take(from, length) {
                    Some(held) => {
                        let part = held.span.part(0..length);
                        let payload = Payload::from_spans(part.into_iter().collect(), held.memory);
                        self.lock().posting(number, held);
                        self.bmi
                            .post_receive(self.context, from, payload, tag, number)
                    }
                    None => Err(Rejected {
                        error: Error::NoMem,
                        payload: Payload::default(),
                    }),
                };
                self.posted(exchange, number, posted, next);
            }
            Action::Send {
                exchange,
                number,
                to,
                tag,
                payload,
            } => {
                let posted = self.bmi.post_send(self.context, to, payload, tag, number);
                self.posted(exchange, number, posted, next);
            }
            Action::Cancel(op) => {
                if let Err(error) = self.bmi.cancel(op) {
                    tracing::debug!(%error, "cannot cancel");
                }
            }
            Action::Release(held) => self.buffers.give(held),
        }
    }

    fn posted(
        &self,
        exchange: u64,
        number: u64,
        posted: Result<Post, Rejected>,
        next: &mut Actions,
    ) {
        let (id, ended) = match posted {
            Ok(Post::Pending(id)) => (Some(id), None),
            Ok(Post::Immediate(length, payload)) => {
                drop(payload);
                (None, Some(Ok(length)))
            }
            Err(refused) => (None, Some(Err(refused.error))),
        };
        let mut core = self.lock();
        if let Some(result) = ended {
            core.completed(number, result, next);
        }
        core.posted(number, exchange, id, next);
    }

    /// Forgets the addresses of disconnected clients without exchanges.
    fn forget_peers(&self) {
        let idle: Vec<Address> = {
            let core = self.lock();
            let idle = core.peers.iter().filter(|(_, count)| **count == 0);
            idle.map(|(address, _)| *address).collect()
        };
        for address in idle {
            let is_gone = self.bmi.get(Some(address), Question::IsDisconnected) == Ok(1);
            let mut core = self.lock();
            if is_gone && core.peers.get(&address) == Some(&0) {
                core.peers.remove(&address);
                drop(core);
                self.counters.addresses_forgotten.up();
                // The address is forgotten here. The method may have forgotten the address before.
                let _known = self.bmi.set(Some(address), &Setting::DropAddress);
            }
        }
    }
}
