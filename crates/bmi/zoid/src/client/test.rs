//! Tests: ask which queued operations would succeed (the forwarded call `zbmi_test`), and complete these with
//! `zbmi_send` and `zbmi_recv`.
//!
//! A test is one exchange with the daemon while nothing is ready, however long it sleeps. Actions of other
//! threads end the sleep: a wake, a completion that the test waits for, and, for a test of all operations, a
//! new operation. So do the end and the arrival of a server, and the time when an operation has waited too
//! long for one.

use std::time::{Duration, Instant};

use bmi::{Error, OpId, Wanted, Which};
use zoid_proto::List;
use zoid_proto::fwd::{Frame, FrameType, TestEntry, TestReq};

use super::Client;
use super::attempt::Outcome;
use super::queue::{Asked, Key, Op, Waits};
use super::session::{Answer, Awaits, Change, NAMED, Server, Signals, State, header, next_answer};

/// How long a test waits before it asks again, after ready operations were rejected twice and nothing
/// completed in between. A daemon or server that behaves so would otherwise be asked without end.
// [ZOID-27]
const BACK_OFF: Duration = Duration::from_millis(1);

/// How long a test waits before it asks again if there is no daemon.
const NO_DAEMON: Duration = Duration::from_millis(20);

/// What a test asks for, and the state of the counts at that time.
struct Plan {
    asked: Vec<Asked>,
    /// The state's counts when the plan was made.
    wakes: u64,
    changes: u64,
    /// Whether the test includes operations queued later.
    open: bool,
    /// The keys of these operations, if they are few; `None` for all keys.
    keys: Option<Vec<Key>>,
    server: Server,
    /// When the oldest queued operation has waited too long for a server.
    overdue_at: Option<Instant>,
}

impl Plan {
    /// Returns whether the state has changed in a way that concerns the test.
    fn is_outdated(&self, state: &State) -> bool {
        let changed = self.open && state.changes.of(self.keys.as_deref()) != self.changes;
        changed || state.wakes != self.wakes || state.server != self.server
    }

    /// Returns how long the test may sleep before an operation is overdue.
    fn patience(&self) -> Duration {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        self.overdue_at
            .map_or(Duration::MAX, |at| left(at).max(BACK_OFF))
    }
}

/// The daemon's answer.
enum Reply {
    /// The number of ready operations of each key.
    Ready(Vec<(Key, usize)>),
    /// None in time, or the sleep was ended.
    Nothing,
    /// There is no daemon.
    Lost,
}

/// What a test does before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Asks at once.
    No,
    /// Sleeps this long: nothing will signal the change it waits for.
    For(Duration),
    /// Sleeps until the progress differs from this: another thread attempts what is ready.
    Change(u64),
}

/// The outcome of attempting the ready operations.
enum Tried {
    /// At least one completed, here or meanwhile in another thread.
    Completed,
    /// All attempts were rejected.
    Rejected,
    /// Other threads attempt them; the value is the progress at that time.
    Elsewhere(u64),
}

impl Client {
    pub(super) fn run_test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error> {
        let deadline = Instant::now().checked_add(wait);
        let wakes = self.lock().wakes;
        if wait.is_zero() && !self.lock().flights.is_empty() {
            // A test without a wait drives flights, too.
            self.poll_once();
        }
        let mut rejected_at = None;
        loop {
            self.fail_overdue();
            let met = wanted.is_satisfied();
            let left = match deadline {
                _ if met => Duration::ZERO,
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => wait,
            };
            let Some(plan) = self.plan(wanted.which(), wakes) else {
                return Ok(());
            };
            let pause = match self.ask(&plan, wanted, left.min(plan.patience()))? {
                Reply::Ready(ready) => self.satisfy(&ready, &mut rejected_at),
                Reply::Nothing => Pause::No,
                Reply::Lost => Pause::For(NO_DAEMON),
            };
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if met || over || left.is_zero() || wanted.is_satisfied() {
                return Ok(());
            }
            self.pause(pause, left, wakes, wanted)?;
        }
    }

    /// Sleeps for a pause, `left` at most. A wake ends the sleep, and so does a completion that the test
    /// waits for.
    fn pause(
        &self,
        pause: Pause,
        left: Duration,
        wakes: u64,
        wanted: &Wanted<'_>,
    ) -> Result<(), Error> {
        let (time, changes) = match pause {
            Pause::No => return Ok(()),
            Pause::For(time) => (time.min(left), None),
            Pause::Change(changes) => (left, Some(changes)),
        };
        let until = Instant::now().checked_add(time);
        let ended = |state: &mut State| {
            let changed = changes.is_some_and(|changes| state.progress() != changes);
            (changed || state.wakes != wakes || wanted.is_satisfied()).then_some(())
        };
        self.lock().pausing += usize::from(changes.is_some());
        let ended = self.sleep(awaits(None, wanted), until, Signals::End, ended);
        self.lock().pausing -= usize::from(changes.is_some());
        if ended?.is_none() && changes.is_none() {
            self.counters.fixed_pauses().up();
        }
        Ok(())
    }

    /// Returns what to ask for; `None` if the interface ends all tests.
    fn plan(&self, which: Which<'_>, wakes: u64) -> Option<Plan> {
        let state = self.lock();
        if state.wakes != wakes {
            return None;
        }
        let (asked, open, keys) = match which {
            Which::Any { .. } => (state.queue.all(), true, None),
            Which::These(ids) => {
                let (asked, complete) = state.queue.covering(ids);
                let few = (ids.len() <= NAMED).then(|| state.queue.keys_of(ids));
                (asked, !complete, few)
            }
        };
        let serverless = self.server_limit().zip(state.server.gone());
        let overdue_at =
            serverless.and_then(|(limit, gone)| gone.max(state.queue.oldest()?).checked_add(limit));
        Some(Plan {
            asked,
            wakes,
            changes: state.changes.of(keys.as_deref()),
            open,
            keys,
            server: state.server,
            overdue_at,
        })
    }

    /// Asks the daemon and sleeps until it answers or the plan is out of date.
    // [ZOID-20]
    fn ask(&self, plan: &Plan, wanted: &Wanted<'_>, left: Duration) -> Result<Reply, Error> {
        let deadline = Instant::now().checked_add(left);
        if plan.asked.is_empty() {
            let ended = |state: &mut State| {
                (plan.is_outdated(state) || wanted.is_satisfied()).then_some(())
            };
            self.sleep(awaits(None, wanted), deadline, Signals::End, ended)?;
            return Ok(Reply::Nothing);
        }
        let calling = match self.begin(None) {
            Ok(calling) => calling,
            Err(Error::NetDown) => return Err(Error::NetDown),
            Err(_) => return Ok(Reply::Lost),
        };
        let (entries, keys) = entries(&plan.asked);
        let request = Frame::TestReq(TestReq {
            timeout_ms: milliseconds(left),
            entries: List::new(&entries),
        });
        self.counters.tests().up();
        if self
            .write_frame(&calling.ticket, &request, header(FrameType::TEST_REQ), &[])
            .is_err()
        {
            return Ok(Reply::Lost);
        }
        let ended = |state: &mut State| {
            if let Some(answer) = next_answer(state, calling.ticket.request) {
                return Some(Some(answer));
            }
            (!left.is_zero() && (plan.is_outdated(state) || wanted.is_satisfied())).then_some(None)
        };
        let signals = match left.is_zero() {
            true => Signals::Resume,
            false => Signals::End,
        };
        let awaits = awaits(Some(calling.ticket.request), wanted);
        let answer = self.sleep(awaits, None, signals, ended);
        if answer == Err(Error::Intr) {
            let _lost =
                self.write_frame(&calling.ticket, &Frame::Wake, header(FrameType::WAKE), &[]);
            return Err(Error::Intr);
        }
        match answer?.flatten() {
            Some(Answer::Ready(counts)) if counts.len() == keys.len() => {
                Ok(Reply::of(&keys, &counts))
            }
            Some(Answer::Lost(_)) => Ok(Reply::Lost),
            Some(_) => {
                self.counters.protocol_errors().up();
                Ok(Reply::Lost)
            }
            None => {
                // The call is removed here; the daemon can drop it, too.
                let wake =
                    self.write_frame(&calling.ticket, &Frame::Wake, header(FrameType::WAKE), &[]);
                Ok(wake.map_or(Reply::Lost, |()| Reply::Nothing))
            }
        }
    }

    /// Attempts the ready operations. `rejected_at` holds the number of completed operations at the last
    /// rejection.
    fn satisfy(&self, ready: &[(Key, usize)], rejected_at: &mut Option<u64>) -> Pause {
        match self.attempt_ready(ready) {
            Tried::Completed => Pause::No,
            Tried::Elsewhere(queued) => Pause::Change(queued),
            Tried::Rejected => {
                let completed = self.lock().completed;
                match rejected_at.replace(completed) == Some(completed) {
                    true => Pause::For(BACK_OFF),
                    false => Pause::No,
                }
            }
        }
    }

    /// Attempts the ready operations, oldest first within each key.
    // [ZOID-26]
    fn attempt_ready(&self, ready: &[(Key, usize)]) -> Tried {
        let (mut completed, mut rejected, mut elsewhere) = (false, false, None);
        for &(key, count) in ready {
            for _ in 0..count {
                let mut state = self.lock();
                let Some(op) = state.queue.begin(key) else {
                    if state.queue.has(key) {
                        elsewhere.get_or_insert(state.progress());
                    } else {
                        // Another thread has completed what was ready: the answer is out of date.
                        completed = true;
                    }
                    break;
                };
                drop(state);
                if !self.retry(op) {
                    rejected = true;
                    break;
                }
                completed = true;
            }
        }
        match elsewhere {
            _ if completed => Tried::Completed,
            Some(queued) if !rejected => Tried::Elsewhere(queued),
            _ => Tried::Rejected,
        }
    }

    /// Attempts a queued operation. Returns whether it completed.
    pub(super) fn retry(&self, op: Op) -> bool {
        let outcome = self.attempt(&op, 0);
        let (id, key) = (op.id, Key::of(op.kind, op.tag));
        // Dropped first: the memory belongs to the program once the operation completes.
        drop(op);
        let completed = self.record_outcome(id, key, outcome);
        if completed {
            let mut state = self.lock();
            if state.queue.has(key) {
                self.note_open(&mut state, key);
            }
        }
        completed
    }

    /// Records the outcome of an attempt of a queued operation. Returns whether it completed; then others of
    /// its key may be attempted.
    pub(super) fn record_outcome(&self, op: OpId, key: Key, outcome: Outcome) -> bool {
        let mut state = self.lock();
        let result = match outcome {
            Outcome::Done(len) => Ok(len),
            Outcome::Failed(error) => Err(error),
            Outcome::Unknown(_) => Err(Error::ConnReset),
            Outcome::NotNow | Outcome::Unasked(_) | Outcome::Lost(_) => {
                match state.queue.wait(op) {
                    Waits::Queued => {
                        self.note_open(&mut state, key);
                        return false;
                    }
                    Waits::Cancelled => Err(Error::Cancel),
                    Waits::Orphaned(error) => Err(error),
                }
            }
        };
        let removed = match result {
            Ok(_) => state.queue.complete(op),
            Err(_) => state.queue.remove(op),
        };
        drop(state);
        if let (Some(removed), Ok(_)) = (&removed, result) {
            self.counters.post_to_end().add(removed.posted.elapsed());
        }
        self.completions.complete(op, result);
        let mut state = self.lock();
        self.note_completed(&mut state);
        // Another thread may wait for this one.
        match removed {
            Some(removed) => self.wake_for(&state, Change::Completed(op, removed.context)),
            // The queue removed it with the outcome: it was cancelled, or its session has ended.
            None => self.wake_sleepers(&state),
        }
        true
    }
}

impl Reply {
    fn of(keys: &[Key], counts: &[u32]) -> Self {
        let mut ready: Vec<(Key, usize)> = Vec::new();
        for (&key, &count) in keys.iter().zip(counts) {
            let count = count as usize;
            match ready.last_mut() {
                Some((last, sum)) if *last == key => *sum += count,
                _ => ready.push((key, count)),
            }
        }
        ready.retain(|&(_, count)| count > 0);
        if ready.is_empty() {
            return Self::Nothing;
        }
        Self::Ready(ready)
    }
}

/// Returns the entries of a request, and the key of each entry, so that a count is never applied to an
/// operation that was not in the request.
// [ZOID-21]
fn entries(asked: &[Asked]) -> (Vec<TestEntry>, Vec<Key>) {
    let mut entries = Vec::new();
    let mut keys = Vec::new();
    for Asked { key, ops } in asked {
        let of_key: Vec<TestEntry> = match *key {
            Key::Send(tag) => vec![TestEntry::Send {
                tag: tag.0,
                multiplicity: count(ops.len()),
            }],
            Key::Recv(tag) => vec![TestEntry::Recv {
                tag: tag.0,
                multiplicity: count(ops.len()),
            }],
            Key::Unexpected(class) => ops
                .chunk_by(|a, b| a == b)
                .map(|run| unexpected(class, run))
                .collect(),
        };
        keys.extend(of_key.iter().map(|_| *key));
        entries.extend(of_key);
    }
    entries.truncate(TestReq::MAX_ENTRIES);
    keys.truncate(TestReq::MAX_ENTRIES);
    (entries, keys)
}

/// Returns an entry for unexpected messages of one tag and size.
fn unexpected(class: bmi::Class, run: &[(bmi::Tag, usize)]) -> TestEntry {
    let (tag, size) = run.first().copied().unwrap_or_default();
    TestEntry::Unexpected {
        tag: tag.0,
        class: class.0,
        size: size as u64,
        multiplicity: count(run.len()),
    }
}

/// Returns what a test sleeps for: an answer, and what it wants.
fn awaits<'a>(request: Option<u32>, wanted: &'a Wanted<'_>) -> Awaits<'a> {
    Awaits {
        request,
        which: Some(wanted.which()),
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Converts to milliseconds, rounded up so that the daemon does not answer too early.
pub(super) fn milliseconds(time: Duration) -> u32 {
    let rounded = time.saturating_add(Duration::from_nanos(999_999));
    u32::try_from(rounded.as_millis().min(i32::MAX as u128)).unwrap_or(u32::MAX)
}
