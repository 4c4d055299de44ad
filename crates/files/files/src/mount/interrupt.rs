//! Ends the wait of programs that a signal ends while the server does not answer.
//!
//! The crate `fuser` answers the kernel's request FUSE_INTERRUPT itself, with "not supported". From then on a program
//! cannot be ended while it waits for an answer. Therefore each operation that waits is listed here, and a thread looks
//! at the signals of the programs that wait for long (proc_pid_status(5)). If a signal that ends programs is pending, the
//! operation is answered with `EINTR`. The thread of the operation goes on until the server's answer or its timeout.
//!
//! The signals are SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGKILL: a program with a handler for another signal, such as a
//! timer, expects that access to a file goes on.

use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use slab::Slab;
use tracing::warn;

use crate::Errno;
use crate::mount::convert::errno;

/// How long an operation waits before the signals of its program are examined.
const PATIENCE: Duration = Duration::from_millis(300);
/// The pause between two examinations.
const PAUSE: Duration = Duration::from_millis(200);

/// The operations that wait.
#[derive(Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waits: Slab<Arc<dyn Wait>>,
    /// Number of operations that were listed so far.
    begun: u64,
    /// Whether the thread sleeps until the next operation. It does so only after a pause without operations, because to
    /// wake it costs more than a short operation.
    is_idle: bool,
    has_ended: bool,
}

/// An operation that waits for its reply.
trait Wait: Send + Sync {
    /// Returns the thread that waits, if the operation has lasted long, and the signals that end its wait.
    fn long_waiter(&self, now: Instant) -> Option<(u32, u64)>;
    /// Answers the operation with `EINTR`, if it has no answer yet.
    fn interrupt(&self);
}

/// A reply to the kernel that can be an error.
pub(crate) trait Fails: Send + 'static {
    /// Answers with an error.
    fn fail(self, errno: Errno);
}

macro_rules! fails {
    ($($reply:ident),*) => {$(
        impl Fails for fuser::$reply {
            fn fail(self, error: Errno) {
                self.error(errno(error));
            }
        }
    )*};
}
fails!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

struct Waiting<R> {
    thread: u32,
    /// The signals that end the wait.
    signals: u64,
    since: Instant,
    reply: Mutex<Option<R>>,
}

/// The reply of an operation that waits.
pub(crate) struct Pending<'a, R: Fails> {
    waits: &'a Waits,
    key: usize,
    waiting: Arc<Waiting<R>>,
}

impl Waits {
    /// Starts the thread that looks at signals. Without the thread, programs wait for the server's answer.
    pub(crate) fn start(self: &Arc<Self>) {
        let waits = Arc::clone(self);
        let thread = thread::Builder::new().name("interrupts".to_owned());
        if let Err(error) = thread.spawn(move || waits.look()) {
            warn!(%error, "no thread ends the wait of programs that are killed");
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Lists an operation of a thread. 0 is the kernel itself, or a thread outside of this process's namespace: such an
    /// operation is not interrupted.
    pub(crate) fn begin<R: Fails>(&self, thread: u32, reply: R) -> Pending<'_, R> {
        self.begin_with(thread, ENDING, reply)
    }

    /// Lists an operation of a thread that waits for another program. Each signal ends the wait.
    pub(crate) fn begin_long<R: Fails>(&self, thread: u32, reply: R) -> Pending<'_, R> {
        self.begin_with(thread, u64::MAX, reply)
    }

    fn begin_with<R: Fails>(&self, thread: u32, signals: u64, reply: R) -> Pending<'_, R> {
        let waiting = Arc::new(Waiting {
            thread,
            signals,
            since: Instant::now(),
            reply: Mutex::new(Some(reply)),
        });
        let mut state = self.state();
        state.begun += 1;
        if std::mem::take(&mut state.is_idle) {
            self.changed.notify_all();
        }
        let key = state.waits.insert(Arc::clone(&waiting) as Arc<dyn Wait>);
        Pending {
            waits: self,
            key,
            waiting,
        }
    }

    fn look(&self) {
        let (mut state, mut seen) = (self.state(), 0);
        while !state.has_ended {
            if state.waits.is_empty() && state.begun == seen {
                state.is_idle = true;
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            seen = state.begun;
            let waited = self.changed.wait_timeout(state, PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now = Instant::now();
            let long = |(_, wait): (usize, &Arc<dyn Wait>)| {
                let waiter = wait.long_waiter(now)?;
                Some((waiter, Arc::clone(wait)))
            };
            let long: Vec<_> = state.waits.iter().filter_map(long).collect();
            drop(state);
            for ((thread, signals), wait) in long {
                if is_ending(thread, signals) {
                    wait.interrupt();
                }
            }
            state = self.state();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Fails> Wait for Waiting<R> {
    fn long_waiter(&self, now: Instant) -> Option<(u32, u64)> {
        let is_long = now.saturating_duration_since(self.since) >= PATIENCE;
        (is_long && self.thread != 0).then_some((self.thread, self.signals))
    }

    fn interrupt(&self) {
        if let Some(reply) = self.take() {
            reply.fail(Errno::EINTR);
        }
    }
}

impl<R> Waiting<R> {
    fn take(&self) -> Option<R> {
        let mut reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        reply.take()
    }
}

impl<R: Fails> Pending<'_, R> {
    /// Returns the reply; `None` if the operation was interrupted.
    pub(crate) fn take(self) -> Option<R> {
        self.waiting.take()
    }

    /// Returns whether the operation was interrupted.
    pub(crate) fn is_over(&self) -> bool {
        let reply = self.waiting.reply.lock();
        reply.unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Answers with a result. Returns whether the operation waited until now.
    pub(crate) fn finish<T>(self, result: Result<T, Errno>, done: impl FnOnce(R, T)) -> bool {
        let Some(reply) = self.take() else {
            return false;
        };
        match result {
            Ok(value) => done(reply, value),
            Err(errno) => reply.fail(errno),
        }
        true
    }
}

impl<R: Fails> Drop for Pending<'_, R> {
    fn drop(&mut self) {
        self.waits.state().waits.try_remove(self.key);
    }
}

/// Returns the reply of a listing, which the first entry takes from those that wait. `None` if the operation was
/// interrupted.
pub(crate) fn first<'r, R: Fails>(
    pending: &mut Option<Pending<'_, R>>,
    reply: &'r mut Option<R>,
) -> Option<&'r mut R> {
    if let Some(pending) = pending.take() {
        *reply = pending.take();
    }
    reply.as_mut()
}

/// Answers a listing with its result.
pub(crate) fn end_listing<R: Fails>(
    listed: Result<(), Errno>,
    pending: Option<Pending<'_, R>>,
    reply: Option<R>,
    done: impl FnOnce(R),
) {
    let reply = reply.or_else(|| pending.and_then(Pending::take));
    match (reply, listed) {
        (Some(reply), Ok(())) => done(reply),
        (Some(reply), Err(errno)) => reply.fail(errno),
        (None, _) => {}
    }
}

/// Bits of the signals that end programs: SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM (signal(7)).
const ENDING: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;
/// Flag of a process that exits, in proc_pid_stat(5): `PF_EXITING`.
const EXITING: u64 = 4;

/// Returns whether one of some signals is about to reach a thread, or has ended it while the thread closes its files.
fn is_ending(thread: u32, signals: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    let stat = || fs::read_to_string(format!("/proc/{thread}/stat"));
    is_signalled(&status.unwrap_or_default(), signals) || was_killed(&stat().unwrap_or_default())
}

fn is_signalled(status: &str, signals: u64) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & signals != 0
}

/// Returns whether a signal ended the process of `/proc/PID/stat`: field 9 has its flags, field 52 its exit status.
fn was_killed(stat: &str) -> bool {
    // The name of the program, in parentheses, may contain anything.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let field = |number: usize| {
        let word = behind.split_ascii_whitespace().nth(number - 3);
        word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    field(9) & EXITING != 0 && field(52) & 0x7f != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_end_a_program_are_seen_unless_they_are_blocked() {
        let status = |pending: u64, shared: u64, blocked: u64| {
            format!("SigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n")
        };
        let is_signalled = |status: &str| super::is_signalled(status, ENDING);
        assert!(is_signalled(&status(1 << 8, 0, 0)));
        assert!(is_signalled(&status(0, 1 << 1, 0)));
        assert!(!is_signalled(&status(0, 1 << 1, 1 << 1)));
        let alarm = status(0, 1 << 13, 0);
        assert!(!is_signalled(&alarm), "SIGALRM");
        assert!(super::is_signalled(&alarm, u64::MAX));
        assert!(!is_signalled(""));
    }

    #[test]
    fn a_process_that_a_signal_ended_is_seen_while_it_exits() {
        let stat = |flags: u64, status: u64| {
            let zeros = "0 ".repeat(42);
            format!("7 (a) b) D 1 1 1 0 -1 {flags} {zeros}{status}\n")
        };
        assert!(was_killed(&stat(EXITING, 9)));
        assert!(!was_killed(&stat(EXITING, 1 << 8)));
        assert!(!was_killed(&stat(0, 9)));
        assert!(!was_killed(""));
    }
}
