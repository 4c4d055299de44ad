//! Tells the user on standard error that a server is silent, and why if the node knows: silence looks like a hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use files::{Caller, Data, Errno, FileSystem, Reply, Request};

use crate::common::complaint;

/// A file system whose silence is reported once, and so is the reason why its server cannot be reached.
pub(super) struct Watched {
    files: Arc<dyn FileSystem>,
    calls: Arc<Calls>,
    obstacle: Arc<Obstacle>,
    is_explained: AtomicBool,
    _ended: Sender<()>,
}

/// Returns why no message can reach the server, for example that a gateway does not forward messages.
pub(super) type Obstacle = dyn Fn() -> Option<String> + Send + Sync;

#[derive(Default)]
struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How long a silence is not reported.
const SILENCE: Duration = Duration::from_secs(2);

impl Watched {
    /// Watches the calls of `files`, whose server has this name and this long for each.
    pub(super) fn new(
        files: Arc<dyn FileSystem>,
        server: String,
        limit: Duration,
        obstacle: Arc<Obstacle>,
    ) -> Arc<Self> {
        let (ended, watch) = mpsc::channel();
        let calls = Arc::<Calls>::default();
        let (watched, asked) = (Arc::clone(&calls), Arc::clone(&obstacle));
        thread::spawn(move || {
            loop {
                let before = watched.ended.load(Ordering::Relaxed);
                match watch.recv_timeout(SILENCE) {
                    Err(RecvTimeoutError::Timeout) if watched.is_silent_since(before) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
            let reason = asked().map_or_else(String::new, |reason| format!(": {reason}"));
            complaint(&format!(
                "waiting for an answer of {server}, {} s at most for each call (--timeout){reason}",
                limit.as_secs()
            ));
        });
        Arc::new(Self {
            files,
            calls,
            obstacle,
            is_explained: AtomicBool::new(false),
            _ended: ended,
        })
    }

    /// Prints why the server cannot be reached, if the node knows, with the first call that got no answer.
    fn explain(&self) {
        if let Some(reason) = (self.obstacle)()
            && !self.is_explained.swap(true, Ordering::Relaxed)
        {
            complaint(&reason);
        }
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
        if let Err(Errno::ETIMEDOUT | Errno::EHOSTUNREACH) = reply {
            self.explain();
        }
        reply
    }
}
