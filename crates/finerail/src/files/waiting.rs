//! A line on standard error when nothing comes from a server for a while: silence looks like a hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use files::{Caller, Data, Errno, FileSystem, Reply, Request};

use crate::common::complaint;

/// A file system whose silence is told of once.
pub(super) struct Watched {
    files: Arc<dyn FileSystem>,
    calls: Arc<Calls>,
    _ended: Sender<()>,
}

#[derive(Default)]
struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How long nobody is told.
const SILENCE: Duration = Duration::from_secs(2);

impl Watched {
    /// Watches the calls of `files`, whose server has this name and this long for each.
    pub(super) fn new(files: Arc<dyn FileSystem>, server: String, limit: Duration) -> Arc<Self> {
        let (ended, watch) = mpsc::channel();
        let calls = Arc::<Calls>::default();
        let watched = Arc::clone(&calls);
        thread::spawn(move || {
            loop {
                let before = watched.ended.load(Ordering::Relaxed);
                match watch.recv_timeout(SILENCE) {
                    Err(RecvTimeoutError::Timeout) if watched.is_silent_since(before) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
            complaint(&format!(
                "waiting for an answer of {server}, {} s at most for each call (--timeout)",
                limit.as_secs()
            ));
        });
        Arc::new(Self {
            files,
            calls,
            _ended: ended,
        })
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
        reply
    }
}
