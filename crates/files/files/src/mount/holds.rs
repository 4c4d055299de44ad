//! The files that the server holds for this mount while they are open.
//!
//! An open asks the server for a hold together with the attributes. Files that this mount created are held a moment
//! later, by the thread that also ends holds in batches and renews all of them ([`HOLD_TIME`]). A server without holds,
//! or with too many, serves the file as long as the file has a name.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tracing::{debug, warn};

use crate::{Attributes, Caller, Data, Errno, FileSystem, HANDLES_MAX, HOLD_TIME, Handle, Request};

/// How long the hold of a new file may wait for others. Most new files are closed before and need no hold.
const GATHER_NEW: Duration = Duration::from_millis(100);
/// How long the end of a hold may wait for others, unless a name is removed meanwhile.
const GATHER_OLD: Duration = Duration::from_secs(1);

/// The holds of this mount.
pub(crate) struct Holds {
    files: Arc<dyn FileSystem>,
    /// The number of this mount among the clients of the server.
    holder: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of opens of each file.
    open: FxHashMap<Handle, u32>,
    /// Open files to hold.
    to_hold: Vec<Handle>,
    /// Closed files whose hold ends.
    to_release: Vec<Handle>,
    /// Number of files that the server did not hold.
    unheld: u64,
    has_ended: bool,
}

impl Holds {
    pub(crate) fn new(files: Arc<dyn FileSystem>, holder: u64) -> Arc<Self> {
        Arc::new(Self {
            files,
            holder,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Starts the thread that renews the holds. Without the thread, holds begin at opens and end after [`HOLD_TIME`].
    pub(crate) fn start(self: &Arc<Self>) {
        let holds = Arc::downgrade(self);
        let thread = thread::Builder::new().name("holds".to_owned());
        if let Err(error) = thread.spawn(move || renew(&holds)) {
            warn!(%error, "no thread renews the holds of open files");
        }
    }

    /// Returns the attributes of a file that is opened, and has the server hold the file.
    pub(crate) fn open(&self, caller: &Caller, handle: Handle) -> Result<Attributes, Errno> {
        let attributes = match self.files.hold(caller, self.holder, handle) {
            Err(errno) if has_no_hold(errno) => {
                self.note_unheld(errno);
                self.files.getattr(caller, handle)?
            }
            held => held?,
        };
        let mut state = self.state();
        *state.open.entry(handle).or_default() += 1;
        state.to_release.retain(|released| *released != handle);
        Ok(attributes)
    }

    fn note_unheld(&self, errno: Errno) {
        let mut state = self.state();
        state.unheld += 1;
        if state.unheld == 1 {
            warn!(
                %errno,
                "the server does not hold open files: a file that another client removes ends with ESTALE"
            );
        }
    }

    /// Records that a new file is open.
    pub(crate) fn created(&self, handle: Handle) {
        let mut state = self.state();
        *state.open.entry(handle).or_default() += 1;
        state.to_hold.push(handle);
        self.wake(&state);
    }

    /// Records that a file was closed. Returns whether nobody has it open any longer.
    pub(crate) fn close(&self, handle: Handle) -> bool {
        let mut state = self.state();
        let Some(opens) = state.open.get_mut(&handle) else {
            return true;
        };
        *opens -= 1;
        if *opens > 0 {
            return false;
        }
        state.open.remove(&handle);
        let asked = state.to_hold.len();
        state.to_hold.retain(|held| *held != handle);
        if state.to_hold.len() == asked {
            state.to_release.push(handle);
            self.wake(&state);
        }
        true
    }

    /// Wakes the thread if there is something new to wait for.
    fn wake(&self, state: &State) {
        let lengths = [state.to_hold.len(), state.to_release.len()];
        if lengths
            .iter()
            .any(|length| [1, HANDLES_MAX].contains(length))
        {
            self.changed.notify_all();
        }
    }

    /// Ends the holds of closed files now, so that a name that is removed next frees its space at once.
    pub(crate) fn settle(&self) {
        while !self.state().to_release.is_empty() {
            if !self.send() {
                return;
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Sends one batch of changes. Returns whether the server answered.
    fn send(&self) -> bool {
        let (held, released) = {
            let mut state = self.state();
            let State {
                to_hold,
                to_release,
                ..
            } = &mut *state;
            (batch(to_hold), batch(to_release))
        };
        let request = Request::Renew {
            holder: self.holder,
            held,
            released: released.clone(),
        };
        let answer = self.files.call(&Caller::default(), &request, Data::None);
        // A file that was opened while its hold ended needs a new one.
        let mut state = self.state();
        let reopened = |handle: &Handle| state.open.contains_key(handle);
        let reopened: Vec<Handle> = released.into_iter().filter(reopened).collect();
        state.to_hold.extend(reopened);
        if let Err(errno) = answer {
            debug!(%errno, "the holds of open files were not renewed");
        }
        answer.is_ok()
    }

    /// Waits until there is something to send, or until the holds have to be renewed at `due`. Returns `false` at the
    /// end.
    fn wait(&self, due: Instant) -> bool {
        let mut state = self.state();
        let mut gathered = None;
        loop {
            let now = Instant::now();
            if state.has_ended {
                return false;
            }
            let most = state.to_hold.len().max(state.to_release.len());
            if most >= HANDLES_MAX {
                return true;
            }
            let since = *gathered.get_or_insert(now);
            let until = match (state.to_hold.is_empty(), state.to_release.is_empty()) {
                (true, true) => {
                    gathered = None;
                    due
                }
                (false, _) => due.min(since + GATHER_NEW),
                (true, false) => due.min(since + GATHER_OLD),
            };
            if now >= until {
                return true;
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn hold_all(&self) {
        let mut state = self.state();
        state.to_hold = state.open.keys().copied().collect();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends changes and renewals until the end of the mount.
fn renew(holds: &Weak<Holds>) {
    let period = HOLD_TIME / 4;
    let mut due = Instant::now() + period;
    while let Some(holds) = holds.upgrade() {
        if !holds.wait(due) {
            return;
        }
        if Instant::now() >= due {
            due = Instant::now() + period;
            holds.hold_all();
        }
        loop {
            let answered = holds.send();
            let state = holds.state();
            if !answered || (state.to_hold.is_empty() && state.to_release.len() < HANDLES_MAX) {
                break;
            }
        }
    }
}

fn batch(list: &mut Vec<Handle>) -> Vec<Handle> {
    list.split_off(list.len().saturating_sub(HANDLES_MAX))
}

/// Returns whether an error means that the server holds no files, or no more of them.
fn has_no_hold(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENFILE
            | Errno::ENOSYS
            | Errno::EOPNOTSUPP
            | Errno::EINVAL
            | Errno::EBADMSG
            | Errno::EPROTO
            | Errno::EPROTONOSUPPORT
    )
}
