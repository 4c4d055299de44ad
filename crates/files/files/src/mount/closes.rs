//! Closes that the kernel has yet to report.
//!
//! When a program closes a descriptor, `close` returns after the flush. The kernel reports the close of the last
//! descriptor of an open file in the background, so the report may arrive after the program's next operation. An
//! operation that treats open files differently waits a moment for the report: otherwise a file that was just closed
//! would be removed to a hidden name, and its directory would not be empty for the program.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

/// How long an operation waits for the report of a close.
const PATIENCE: Duration = Duration::from_secs(1);

/// The open files of which a descriptor was closed.
#[derive(Default)]
pub(crate) struct Closes {
    by_key: Mutex<FxHashMap<u64, Closing>>,
    changed: Condvar,
}

struct Closing {
    node: u64,
    /// Whether an operation waited in vain: a descriptor or a map of the file is left.
    is_shared: bool,
}

impl Closes {
    /// Records that a descriptor of the open file `key` was closed, which may have been the last one.
    pub(crate) fn begin(&self, key: u64, node: u64) {
        self.by_key().entry(key).or_insert(Closing {
            node,
            is_shared: false,
        });
    }

    /// Records that the kernel reported the close of an open file.
    pub(crate) fn end(&self, key: u64) {
        if self.by_key().remove(&key).is_some() {
            self.changed.notify_all();
        }
    }

    /// Waits until the kernel has reported the closes of a node, [`PATIENCE`] at most. Waits once for each open file.
    pub(crate) fn settle(&self, node: u64) {
        let waits = |closing: &Closing| closing.node == node && !closing.is_shared;
        let waited = self
            .changed
            .wait_timeout_while(self.by_key(), PATIENCE, |by_key| by_key.values().any(waits));
        let (mut by_key, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for closing in by_key.values_mut().filter(|closing| waits(closing)) {
            closing.is_shared = true;
        }
    }

    fn by_key(&self) -> MutexGuard<'_, FxHashMap<u64, Closing>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_report_of_a_close_is_awaited_and_a_shared_file_only_once() {
        let closes = Closes::default();
        closes.begin(1, 50);
        closes.begin(2, 51);
        std::thread::scope(|scope| {
            scope.spawn(|| closes.end(1));
            closes.settle(50);
        });
        assert!(!closes.by_key().values().any(|closing| closing.node == 50));
        let begin = Instant::now();
        closes.settle(51);
        assert!(begin.elapsed() >= PATIENCE);
        assert!(closes.by_key()[&2].is_shared);
        closes.begin(2, 51);
        assert!(
            closes.by_key()[&2].is_shared,
            "another descriptor was closed"
        );
        closes.end(2);
        assert!(closes.by_key().is_empty());
    }
}
