//! Control clients that watch RPCs: each has a filter and a queue of limited length, and learns how many it missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lnet_dlc::protocol::{Happened, Happening, RpcFilter};
use lnet_ptlrpc::Rpc;

use super::view::told;

/// The RPCs that wait for a client. Their texts are those of the first KiB of a request.
const QUEUE_MAX: usize = 4096;

/// The most RPCs of one page.
const PAGE_MAX: usize = 512;

/// The clients that watch.
#[derive(Default)]
pub(super) struct Watchers(Mutex<Vec<Watcher>>);

struct Watcher {
    filter: RpcFilter,
    queue: SyncSender<Happening>,
    /// Gone with the watch.
    missed: Weak<AtomicU64>,
}

/// The RPCs for one client. Dropping it ends the watch.
pub(crate) struct Watch {
    rpcs: Receiver<Happening>,
    missed: Arc<AtomicU64>,
}

impl Watchers {
    pub(super) fn add(&self, filter: RpcFilter) -> Watch {
        let (queue, rpcs) = sync_channel(QUEUE_MAX);
        let missed = Arc::<AtomicU64>::default();
        let watcher = Watcher {
            filter,
            queue,
            missed: Arc::downgrade(&missed),
        };
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.missed.strong_count() > 0);
        watchers.push(watcher);
        Watch { rpcs, missed }
    }

    /// Gives an RPC that has ended to the clients whose filter it passes; forgets those that have gone.
    pub(super) fn tell(&self, rpc: &Rpc) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.is_empty() {
            return;
        }
        let told = told(rpc);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = since_1970.map_or(0.0, |time| time.as_secs_f64());
        watchers.retain(|watcher| {
            let Some(missed) = watcher.missed.upgrade() else {
                return false;
            };
            if watcher.filter.has(&told) {
                let what = Happened::Rpc(Box::new(told.clone()));
                if watcher.queue.try_send(Happening { time, what }).is_err() {
                    missed.fetch_add(1, Ordering::Relaxed);
                }
            }
            true
        });
    }
}

impl Watch {
    /// Returns the next RPCs, and how many were missed among them, as soon as there are some; nothing after `patience`.
    pub(crate) fn page(&self, patience: Duration) -> Vec<Happening> {
        let first = self.rpcs.recv_timeout(patience).ok();
        let mut page: Vec<Happening> = first.into_iter().collect();
        page.extend(self.rpcs.try_iter().take(PAGE_MAX - 1));
        let count = self.missed.swap(0, Ordering::Relaxed);
        if count > 0 {
            let time = page.last().map_or(0.0, |last| last.time);
            let what = Happened::LeftOut { count };
            page.push(Happening { time, what });
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpcs::tests::rpc;

    #[test]
    fn a_client_that_does_not_read_learns_how_many_it_missed() {
        let watchers = Watchers::default();
        let other = RpcFilter {
            client: Some("0.0.0.2@tcp".into()),
            ..RpcFilter::default()
        };
        let (slow, other) = (watchers.add(RpcFilter::default()), watchers.add(other));
        for _ in 0..QUEUE_MAX + 7 {
            watchers.tell(&rpc(1));
        }
        let (mut rpcs, mut missed) = (0, 0);
        while rpcs < QUEUE_MAX {
            let page = slow.page(Duration::ZERO);
            assert!(!page.is_empty() && page.len() <= PAGE_MAX + 1);
            for event in page {
                match event.what {
                    Happened::Rpc(_) => rpcs += 1,
                    Happened::LeftOut { count } => missed += count,
                    what => unreachable!("{what}"),
                }
            }
        }
        assert_eq!((rpcs, missed), (QUEUE_MAX, 7));
        assert!(other.page(Duration::ZERO).is_empty());
    }

    #[test]
    fn a_client_that_has_gone_is_forgotten_whatever_its_filter() {
        let watchers = Watchers::default();
        let never = || RpcFilter {
            client: Some("none".into()),
            ..RpcFilter::default()
        };
        let count = || watchers.0.lock().map(|watchers| watchers.len()).ok();
        drop(watchers.add(never()));
        assert_eq!(count(), Some(1));
        let stays = watchers.add(never());
        assert_eq!(count(), Some(1));
        drop(stays);
        watchers.tell(&rpc(1));
        assert_eq!(count(), Some(0));
    }
}
