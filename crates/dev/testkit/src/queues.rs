//! Turns of tests that use POSIX message queues, which the kernel limits per user, not per process.

use std::fs::File;

use nix::sched::{CloneFlags, unshare};

/// A test's right to use message queues, until it is dropped.
#[derive(Debug)]
#[must_use = "the next test begins as soon as this is dropped"]
pub struct QueueTurn {
    _locks: Vec<File>,
}

/// How many tests with a daemon each run at the same time: the queues of two need half of what Linux allows a user.
const DAEMONS: usize = 2;

impl QueueTurn {
    /// Waits until no other test of this user uses queues, in whatever checkout it runs: for tests of the limit.
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
        let lock = lock_file("");
        lock.lock().expect("the lock can be taken");
        Self::of(vec![lock])
    }

    /// Does the same for a test with one daemon and a few programs, of which two run at the same time.
    ///
    /// # Panics
    ///
    /// As [`QueueTurn::take`].
    #[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
    pub fn share() -> Self {
        let lock = lock_file("");
        lock.lock_shared().expect("the lock can be taken");
        let mut places = (0..DAEMONS).map(|place| lock_file(&format!("-{place}")));
        let free = places.find(|place| place.try_lock().is_ok());
        let place = free.unwrap_or_else(|| {
            let last = lock_file(&format!("-{}", DAEMONS - 1));
            last.lock().expect("the lock can be taken");
            last
        });
        Self::of(vec![place, lock])
    }

    fn of(locks: Vec<File>) -> Self {
        // An ordinary user may not; then the namespace stays the one that all processes share.
        let _ = unshare(CloneFlags::CLONE_NEWIPC);
        Self { _locks: locks }
    }
}

#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
fn lock_file(which: &str) -> File {
    let name = format!("finerail-queues-{}{which}.lock", sys::effective_user());
    let path = std::env::temp_dir().join(name);
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).expect("the lock can be opened")
}
