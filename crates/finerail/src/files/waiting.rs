//! Reports on standard error that a server does not answer, and the reason if the node knows it. Otherwise the
//! program would seem to hang.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use files::{Caller, Data, Errno, FileSystem, Reply, Request};

use crate::common::complaint;

/// A file system that reports a silent server once, and each new reason why the server cannot be reached.
pub(super) struct Watched {
    files: Arc<dyn FileSystem>,
    calls: Arc<Calls>,
    reasons: Arc<Reasons>,
    _ended: Sender<()>,
}

/// Returns why no message can reach the server, for example that a gateway does not forward messages.
pub(super) type Obstacle = dyn Fn() -> Option<String> + Send + Sync;

/// Asks why the server cannot be reached, and remembers the last reported reason.
struct Reasons {
    obstacle: Box<Obstacle>,
    reported: Mutex<Option<String>>,
}

#[derive(Default)]
struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How long a server must be silent before the silence is reported.
const SILENCE: Duration = Duration::from_secs(2);

impl Watched {
    /// Watches the calls of `files`. `server` is the name for messages, `limit` the timeout of each call
    /// and the argument that sets it.
    pub(super) fn new(
        files: Arc<dyn FileSystem>,
        server: String,
        (limit, word): (Duration, String),
        obstacle: Box<Obstacle>,
    ) -> Arc<Self> {
        let (ended, watch) = mpsc::channel();
        let calls = Arc::<Calls>::default();
        let reported = Mutex::default();
        let reasons = Arc::new(Reasons { obstacle, reported });
        let (watched, asked) = (Arc::clone(&calls), Arc::clone(&reasons));
        thread::spawn(move || {
            loop {
                let before = watched.ended.load(Ordering::Relaxed);
                match watch.recv_timeout(SILENCE) {
                    Err(RecvTimeoutError::Timeout) if watched.is_silent_since(before) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
            let reason = asked
                .news()
                .map_or_else(String::new, |reason| format!(": {reason}"));
            complaint(&format!(
                "waiting for an answer of {server}, {} s at most for each call ({word}){reason}",
                limit.as_secs()
            ));
        });
        Arc::new(Self {
            files,
            calls,
            reasons,
            _ended: ended,
        })
    }
}

impl Reasons {
    /// Returns the reason why the server cannot be reached; `None` if it was the last reported reason, or is
    /// not known.
    fn news(&self) -> Option<String> {
        let reason = (self.obstacle)()?;
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = reported.as_ref() != Some(&reason);
        is_new.then(|| reported.insert(reason).clone())
    }
}

impl Calls {
    fn is_silent_since(&self, ended: u64) -> bool {
        let now = self.ended.load(Ordering::Relaxed);
        now == ended && self.begun.load(Ordering::Relaxed) > now
    }
}

impl FileSystem for Watched {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        self.calls.begun.fetch_add(1, Ordering::Relaxed);
        let reply = self.files.call(caller, request, data);
        self.calls.ended.fetch_add(1, Ordering::Relaxed);
        if let Err(Errno::ETIMEDOUT | Errno::EHOSTUNREACH) = reply
            && let Some(reason) = self.reasons.news()
        {
            complaint(&reason);
        }
        reply
    }
}
