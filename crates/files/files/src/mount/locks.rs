//! The locks of programs of this mount, which the server has.
//!
//! The mount knows the locks that programs have, to lock them again if the server forgets them: after a restart of the
//! server, or after this mount was silent for too long. A lock that another client got meanwhile is lost: operations on
//! the open file end with `EIO` from then on, until the program closes the file.
//!
//! A program that waits asks the server again and again, because servers answer each request at once. The pauses grow,
//! and an unlock by a program of the same mount ends them. The server keeps the order of those who wait.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use tracing::{debug, warn};

use crate::held_locks::HeldLocks;
use crate::{
    Caller, Data, Errno, FileSystem, Handle, LOCK_GRACE, Lock, LockAction, LockOutcome, Reply,
    Request,
};

/// The pauses between two requests of a program that waits: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// How long to wait until a server that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// The first and the last byte of a whole file, as the kernel gives them.
const ALL: (u64, u64) = (0, i64::MAX as u64);

/// The locks of this mount.
pub(crate) struct Locks {
    files: Arc<dyn FileSystem>,
    /// The number of this mount among the clients of the server.
    holder: u64,
    state: Mutex<State>,
    /// A program of this mount has released a lock.
    released: Condvar,
    /// The thread that renews the locks has something to do.
    work: Condvar,
    /// Requests of programs share this lock. Whoever locks everything again has it alone, so that no lock comes back that
    /// a program released meanwhile.
    order: RwLock<()>,
    has_lost: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The number of the last request.
    last: u64,
    under_way: BTreeSet<u64>,
    /// The session at the server that has the locks.
    session: Option<u64>,
    held: FxHashMap<Handle, HeldLocks<u64>>,
    /// Files with a lock that another client got.
    lost: FxHashSet<Handle>,
    /// Owners of a file whose request for a lock had no answer: they perhaps have the lock.
    doubtful: FxHashSet<(Handle, u64)>,
    /// Whether the server has forgotten locks.
    is_forgotten: bool,
    /// Whether the thread sleeps until there is a lock. It does so only after some time without locks, because to wake it
    /// costs more than a lock.
    is_idle: bool,
    has_ended: bool,
}

/// A request under way. Its number is below the floor of others once this value is dropped.
struct Turn<'a> {
    locks: &'a Locks,
    sequence: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.locks.state().under_way.remove(&self.sequence);
    }
}

impl Locks {
    pub(crate) fn new(files: Arc<dyn FileSystem>, holder: u64) -> Arc<Self> {
        Arc::new(Self {
            files,
            holder,
            state: Mutex::default(),
            released: Condvar::new(),
            work: Condvar::new(),
            order: RwLock::default(),
            has_lost: AtomicBool::new(false),
        })
    }

    /// Starts the thread that renews the locks.
    pub(crate) fn start(self: &Arc<Self>) {
        let locks = Arc::clone(self);
        let thread = thread::Builder::new().name("locks".to_owned());
        if let Err(error) = thread.spawn(move || locks.renew()) {
            warn!(%error, "no thread renews the locks of programs");
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.work.notify_all();
    }

    /// Locks bytes of a file. If `waits`, waits for others until `is_over` returns `true`.
    pub(crate) fn lock(
        &self,
        handle: Handle,
        lock: Lock,
        waits: bool,
        is_over: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        self.check(handle)?;
        let turn = self.turn();
        let action = if waits {
            LockAction::Wait
        } else {
            LockAction::Try
        };
        let mut pause = PAUSES.0;
        loop {
            let outcome = {
                let _shared = self.order.read().unwrap_or_else(PoisonError::into_inner);
                let outcome = self.ask(&turn, handle, action, lock);
                self.note_outcome(handle, lock, outcome);
                outcome?
            };
            match outcome {
                LockOutcome::Done => return Ok(()),
                LockOutcome::Blocked(..) if !waits => return Err(Errno::EAGAIN),
                LockOutcome::Blocked(..) | LockOutcome::Later => {}
            }
            if is_over() {
                return Err(Errno::EINTR);
            }
            drop(self.released.wait_timeout(self.state(), pause));
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn note_outcome(&self, handle: Handle, lock: Lock, outcome: Result<LockOutcome, Errno>) {
        let mut state = self.state();
        match outcome {
            Ok(LockOutcome::Done) => {
                state.held.entry(handle).or_default().lock(lock.owner, lock);
                if std::mem::take(&mut state.is_idle) {
                    self.work.notify_all();
                }
            }
            Ok(_) | Err(Errno::EDEADLK | Errno::ENOLCK | Errno::ESTALE | Errno::EINVAL) => {}
            Err(_) => {
                state.doubtful.insert((handle, lock.owner));
            }
        }
    }

    /// Returns a lock that conflicts, and whether a program of this mount has it.
    pub(crate) fn test(&self, handle: Handle, lock: Lock) -> Result<Option<(Lock, bool)>, Errno> {
        let turn = self.turn();
        match self.ask(&turn, handle, LockAction::Test, lock)? {
            LockOutcome::Blocked(lock, is_own) => Ok(Some((lock, is_own))),
            LockOutcome::Done => Ok(None),
            LockOutcome::Later => Err(Errno::EAGAIN),
        }
    }

    /// Unlocks bytes of a file. An unlock that does not reach the server is made up for by the end of the session, since
    /// the locks are not locked again.
    pub(crate) fn unlock(&self, handle: Handle, bytes: Lock) -> Result<(), Errno> {
        let turn = self.turn();
        let _shared = self.order.read().unwrap_or_else(PoisonError::into_inner);
        {
            let mut state = self.state();
            if let Some(held) = state.held.get_mut(&handle) {
                held.unlock(bytes.owner, &bytes);
                if held.count() == 0 {
                    state.held.remove(&handle);
                }
            }
            if (bytes.first, bytes.last) == ALL {
                state.doubtful.remove(&(handle, bytes.owner));
            }
        }
        let unlocked = self.ask(&turn, handle, LockAction::Release, bytes);
        self.released.notify_all();
        unlocked.map(|_| ())
    }

    /// Unlocks a whole file, if the owner has locks there.
    pub(crate) fn unlock_all(&self, handle: Handle, owner: u64) {
        if !self.has_locks(handle, owner) {
            return;
        }
        let all = Lock {
            owner,
            process: 0,
            is_exclusive: false,
            first: ALL.0,
            last: ALL.1,
        };
        if let Err(errno) = self.unlock(handle, all) {
            debug!(%errno, "a closed file is unlocked with the end of the session only");
        }
    }

    /// Returns whether an owner has, or perhaps has, locks on a file.
    pub(crate) fn has_locks(&self, handle: Handle, owner: u64) -> bool {
        let state = self.state();
        let held = state.held.get(&handle);
        held.is_some_and(|held| held.count_of(owner) > 0)
            || state.doubtful.contains(&(handle, owner))
    }

    /// Forgets what is known of a file that nobody has open.
    pub(crate) fn forget(&self, handle: Handle) {
        let mut state = self.state();
        state.held.remove(&handle);
        state.lost.remove(&handle);
        state.doubtful.retain(|(doubtful, _)| *doubtful != handle);
        self.has_lost
            .store(!state.lost.is_empty(), Ordering::Relaxed);
    }

    /// Checks that no lock on a file was lost.
    pub(crate) fn check(&self, handle: Handle) -> Result<(), Errno> {
        if self.has_lost.load(Ordering::Relaxed) && self.state().lost.contains(&handle) {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    fn turn(&self) -> Turn<'_> {
        let mut state = self.state();
        state.last += 1;
        let sequence = state.last;
        state.under_way.insert(sequence);
        Turn {
            locks: self,
            sequence,
        }
    }

    fn ask(
        &self,
        turn: &Turn<'_>,
        handle: Handle,
        action: LockAction,
        lock: Lock,
    ) -> Result<LockOutcome, Errno> {
        let floor = self.state().under_way.first().copied();
        self.send(&Request::Lock {
            holder: self.holder,
            sequence: turn.sequence,
            floor: floor.unwrap_or(turn.sequence),
            handle,
            action,
            lock,
        })
    }

    fn send(&self, request: &Request) -> Result<LockOutcome, Errno> {
        match self.files.call(&Caller::default(), request, Data::None)? {
            Reply::Lock(session, outcome) => {
                self.note_session(session);
                Ok(outcome)
            }
            _ => Err(Errno::EPROTO),
        }
    }

    fn note_session(&self, session: u64) {
        let mut state = self.state();
        if state.session != Some(session) {
            state.is_forgotten |= state.session.is_some() && !state.held.is_empty();
            state.session = Some(session);
            if state.is_forgotten {
                self.work.notify_all();
            }
        }
    }

    /// Renews the locks until the end of the mount.
    fn renew(&self) {
        let period = LOCK_GRACE / 6;
        let mut due = Instant::now() + period;
        while self.wait(due) {
            if self.state().is_forgotten && !self.reclaim() {
                // Give a server that was restarted a moment, unless the mount ends.
                drop(self.work.wait_timeout(self.state(), AGAIN));
            }
            if Instant::now() >= due {
                due = Instant::now() + period;
                let holder = self.holder;
                if let Err(errno) = self.send(&Request::KeepLocks { holder }) {
                    debug!(%errno, "the locks were not renewed");
                }
            }
        }
    }

    /// Waits until there are locks and `due` has passed, or until the server has forgotten some. Returns `false` at the
    /// end.
    fn wait(&self, due: Instant) -> bool {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if state.is_forgotten || (left.is_zero() && !state.held.is_empty()) {
                return true;
            }
            state = if left.is_zero() {
                state.is_idle = true;
                let waited = self.work.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.work.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Locks again what programs had locked. Returns whether the server answered.
    fn reclaim(&self) -> bool {
        let _alone = self.order.write().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<(Handle, Lock)> = {
            let mut state = self.state();
            state.is_forgotten = false;
            let each = state.held.iter().flat_map(|(handle, held)| {
                let locks = held.iter();
                locks.map(move |(_, lock)| (*handle, *lock))
            });
            each.collect()
        };
        for (handle, lock) in held {
            let turn = self.turn();
            match self.ask(&turn, handle, LockAction::Reclaim, lock) {
                Ok(LockOutcome::Done) => {}
                Ok(_) | Err(Errno::ESTALE | Errno::ENOLCK) => self.lose(handle),
                // Without an answer the server has perhaps been restarted once more.
                Err(errno) => {
                    debug!(%errno, "a lock was not locked again");
                    let mut state = self.state();
                    (state.session, state.is_forgotten) = (None, true);
                    return false;
                }
            }
        }
        true
    }

    fn lose(&self, handle: Handle) {
        warn!("a lock was lost: the server forgot it, and another client has it now");
        let mut state = self.state();
        state.held.remove(&handle);
        state.lost.insert(handle);
        self.has_lost.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const FILE: Handle = Handle([1; 32]);

    /// A server that can forget the locks, and give them to others.
    #[derive(Default)]
    struct Server {
        session: AtomicU64,
        is_taken: AtomicBool,
        reclaimed: Mutex<Vec<Lock>>,
    }

    impl FileSystem for Server {
        fn call(&self, _: &Caller, request: &Request, _: Data<'_>) -> Result<Reply, Errno> {
            let session = self.session.load(Ordering::SeqCst);
            let outcome = match request {
                Request::Lock {
                    action: LockAction::Reclaim,
                    lock,
                    ..
                } => {
                    self.reclaimed.lock().unwrap().push(*lock);
                    match self.is_taken.load(Ordering::SeqCst) {
                        true => LockOutcome::Blocked(*lock, false),
                        false => LockOutcome::Done,
                    }
                }
                _ => LockOutcome::Done,
            };
            Ok(Reply::Lock(session, outcome))
        }
    }

    fn lock(owner: u64, last: u64) -> Lock {
        Lock {
            owner,
            process: 0,
            is_exclusive: true,
            first: 0,
            last,
        }
    }

    /// Returns the locks of a program, once the server has forgotten them.
    fn forgotten(server: &Arc<Server>) -> Arc<Locks> {
        let locks = Locks::new(Arc::clone(server) as Arc<dyn FileSystem>, 5);
        locks.lock(FILE, lock(1, 9), false, || false).unwrap();
        locks.lock(FILE, lock(2, 9), false, || false).unwrap();
        locks.unlock(FILE, lock(2, 9)).unwrap();
        server.session.store(1, Ordering::SeqCst);
        locks.test(FILE, lock(3, 3)).unwrap();
        assert!(locks.state().is_forgotten);
        assert!(locks.reclaim());
        assert!(!locks.state().is_forgotten);
        locks
    }

    #[test]
    fn locks_that_the_server_forgot_are_locked_again_without_those_that_were_released() {
        let server = Arc::<Server>::default();
        let locks = forgotten(&server);
        assert_eq!(*server.reclaimed.lock().unwrap(), [lock(1, 9)]);
        assert_eq!(locks.check(FILE), Ok(()));
        assert!(locks.has_locks(FILE, 1) && !locks.has_locks(FILE, 2));
    }

    #[test]
    fn a_file_whose_lock_another_client_got_gives_errors_until_it_is_closed() {
        let server = Arc::<Server>::default();
        server.is_taken.store(true, Ordering::SeqCst);
        let locks = forgotten(&server);
        assert_eq!(locks.check(FILE), Err(Errno::EIO));
        let again = locks.lock(FILE, lock(1, 9), false, || false);
        assert_eq!(again, Err(Errno::EIO));
        assert_eq!(locks.check(Handle([2; 32])), Ok(()));
        locks.forget(FILE);
        assert_eq!(locks.check(FILE), Ok(()));
    }

    #[test]
    fn a_lock_without_an_answer_is_released_at_the_close() {
        struct Silent;
        impl FileSystem for Silent {
            fn call(&self, _: &Caller, _: &Request, _: Data<'_>) -> Result<Reply, Errno> {
                Err(Errno::ETIMEDOUT)
            }
        }
        let locks = Locks::new(Arc::new(Silent), 5);
        let asked = locks.lock(FILE, lock(1, 9), true, || false);
        assert_eq!(asked, Err(Errno::ETIMEDOUT));
        assert!(locks.has_locks(FILE, 1) && !locks.has_locks(FILE, 2));
        locks.unlock_all(FILE, 1);
        assert!(!locks.has_locks(FILE, 1));
    }
}
