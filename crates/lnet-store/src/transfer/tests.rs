//! Tests of the engine with a plan that only counts.

use std::collections::BTreeMap;

use super::*;
use crate::name::Printable;

/// Every third item is long; chunks of failing items fail as told.
#[derive(Default)]
struct Counting {
    items: usize,
    chunks: u64,
    /// Item, and how often its first chunk is refused as stale.
    stale: Mutex<BTreeMap<usize, u32>>,
    /// Item whose chunks get no answer.
    dead: Option<usize>,
    moved: Mutex<BTreeMap<(usize, u64), u32>>,
    finished: Mutex<Vec<usize>>,
    given_up: Mutex<Vec<usize>>,
}

impl Plan for Counting {
    type Long = ();

    fn items(&self) -> usize {
        self.items
    }

    fn begin(&self, item: usize) -> Result<Begun<()>, StoreError> {
        Ok(match item.is_multiple_of(3) {
            true => Begun::Long {
                file: (),
                chunks: self.chunks,
                moved: 1,
            },
            false => Begun::Done(1),
        })
    }

    fn chunk(&self, item: usize, _: &(), chunk: u64) -> Result<u64, StoreError> {
        let name = || Printable::new(b"x");
        if self.dead == Some(item) {
            let source = lnet_rpc::CallError::Closed;
            return Err(StoreError::Call {
                name: name(),
                source,
            });
        }
        if let Some(left) = lock(&self.stale).get_mut(&item)
            && chunk == 0
            && *left > 0
        {
            *left -= 1;
            return Err(StoreError::Refused {
                name: name(),
                errno: 116,
                message: String::new(),
            });
        }
        *lock(&self.moved).entry((item, chunk)).or_default() += 1;
        Ok(10)
    }

    fn finish(&self, item: usize, (): &()) -> Result<(), StoreError> {
        lock(&self.finished).push(item);
        Ok(())
    }

    fn give_up(&self, item: usize, (): &(), _is_reachable: bool) {
        lock(&self.given_up).push(item);
    }
}

#[test]
fn every_chunk_is_moved_once_and_every_file_finished_once() {
    let plan = Counting {
        items: 30,
        chunks: 7,
        ..Counting::default()
    };
    let progress = Progress::default();
    assert!(run(&plan, 4, &progress).is_empty());
    assert_eq!(progress.files(), 30);
    let moved = lock(&plan.moved);
    assert_eq!(moved.len(), 10 * 7);
    assert!(moved.values().all(|&times| times == 1));
    assert_eq!(lock(&plan.finished).len(), 10);
}

#[test]
fn a_stale_file_begins_again_a_few_times() {
    let stale = Mutex::new([(0, 2), (3, 100)].into());
    let plan = Counting {
        items: 6,
        chunks: 3,
        stale,
        ..Counting::default()
    };
    let progress = Progress::default();
    let failed = run(&plan, 2, &progress);
    assert_eq!(
        failed.iter().map(|failed| failed.item).collect::<Vec<_>>(),
        [3]
    );
    assert_eq!(*lock(&plan.finished), [0]);
    assert_eq!(progress.begun_again(), u64::from(2 + BEGINNINGS_MAX - 1));
    // Four short files and one long one, each counted once; the one that failed counts for nothing.
    assert_eq!(progress.bytes(), 4 + 1 + 3 * 10);
}

#[test]
fn when_the_service_is_gone_everything_ends_and_nothing_is_half_finished() {
    for jobs in 1..5 {
        let plan = Counting {
            items: 300,
            chunks: 50,
            dead: Some(6),
            ..Counting::default()
        };
        let progress = Progress::default();
        let failed = run(&plan, jobs, &progress);
        assert_eq!(failed.len(), 1);
        let moved = lock(&plan.moved);
        for item in lock(&plan.finished).iter() {
            assert_eq!(moved.range((*item, 0)..=(*item, u64::MAX)).count(), 50);
        }
        assert!(lock(&plan.finished).len() < 100);
    }
}

#[test]
fn a_cancelled_transfer_finishes_nothing_more() {
    let plan = Counting {
        items: 9,
        chunks: 5,
        ..Counting::default()
    };
    let progress = Progress::default();
    progress.cancel();
    assert!(run(&plan, 3, &progress).is_empty());
    assert_eq!(progress.files(), 0);
}
