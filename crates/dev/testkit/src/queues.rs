//! Turns of tests that use POSIX message queues, which the kernel limits per user, not per process.

use std::fs::File;

use nix::sched::{CloneFlags, unshare};

/// A test's right to use message queues, until it is dropped.
#[derive(Debug)]
#[must_use = "the next test begins as soon as this is dropped"]
pub struct QueueTurn {
    _lock: File,
}

impl QueueTurn {
    /// Waits until no other test of this user uses queues, in whatever checkout it runs.
    ///
    /// If this user may make IPC namespaces, the calling thread goes into a new one, and what it
    /// starts from now on is there, too. Queues outlive their processes, but not their namespace: a
    /// test that is killed leaves none behind, which would count to the user's limit until the
    /// machine restarts.
    ///
    /// # Panics
    ///
    /// If the lock in the directory of temporary files cannot be taken.
    #[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
    pub fn take() -> Self {
        let name = format!("finerail-queues-{}.lock", sys::effective_user());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let lock = options.open(path).expect("the lock can be opened");
        lock.lock().expect("the lock can be taken");
        // An ordinary user may not; then the namespace stays the one that all processes share.
        let _ = unshare(CloneFlags::CLONE_NEWIPC);
        Self { _lock: lock }
    }
}
