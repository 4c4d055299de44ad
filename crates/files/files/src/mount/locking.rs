//! Answers the kernel's requests for locks.
//!
//! A lock has a thread of its own until it is granted or refused: the threads of the mount stay free for others, of which
//! one may have to release the lock. As on NFS, a lock by `flock` is a lock of the whole file, so locks by `flock` and
//! `fcntl` exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fuser::{INodeNo, ReplyEmpty};
use nix::libc::{F_RDLCK, F_UNLCK, F_WRLCK};

use crate::mount::adapter::Adapter;
use crate::mount::session::Locking;
use crate::mount::tree::{Opened, Tree, lock as guard};
use crate::{Errno, Lock};

/// Limit of the programs that wait for a lock. Each has a thread.
const WAITS_MAX: usize = 512;

/// Returns a lock as the kernel describes it.
pub(super) fn lock(owner: u64, (first, last): (u64, u64), kind: i32, process: u32) -> Lock {
    Lock {
        owner,
        process,
        is_exclusive: kind == F_WRLCK,
        first,
        last,
    }
}

/// Returns a lock that conflicts, with its kind and process. Without a conflict, the kind is `F_UNLCK`. The process of
/// another client is 0, because its number means nothing here.
pub(super) fn test(adapter: &Adapter, key: u64, asked: Lock) -> Result<(Lock, i32, u32), Errno> {
    if adapter.locks != Locking::Gateway {
        return Err(Errno::ENOLCK);
    }
    let tree = &adapter.tree;
    let found = tree.locks.test(tree.opened(key)?.handle, asked)?;
    Ok(match found {
        None => (asked, F_UNLCK, 0),
        Some((lock, is_own)) => {
            let kind = if lock.is_exclusive { F_WRLCK } else { F_RDLCK };
            (lock, kind, if is_own { lock.process } else { 0 })
        }
    })
}

/// Unlocks bytes of an open file. What was written before is at the server then.
pub(super) fn unlock(adapter: &Adapter, key: u64, bytes: Lock) -> Result<(), Errno> {
    if adapter.locks != Locking::Gateway {
        // There is no lock, so there is nothing to release.
        return Ok(());
    }
    let file = adapter.tree.opened(key)?;
    adapter.tree.settle_file(&file);
    adapter.tree.locks.unlock(file.handle, bytes)
}

/// Ends the locks of an owner that closes a file, as fcntl(2) requires.
pub(super) fn closed(tree: &Tree, file: &Opened, owner: u64) {
    guard(&file.lockers).retain(|locker| *locker != owner);
    tree.locks.unlock_all(file.handle, owner);
}

/// Locks bytes of an open file for a thread, in a thread of its own.
pub(super) fn set(
    adapter: &Adapter,
    (thread, ino): (u32, INodeNo),
    key: u64,
    asked: Lock,
    waits: bool,
    reply: ReplyEmpty,
) {
    let file = match (adapter.locks, adapter.tree.opened(key)) {
        (Locking::Gateway, Ok(file)) => file,
        (Locking::Gateway, Err(_)) => return reply.error(fuser::Errno::EBADF),
        _ => return reply.error(fuser::Errno::ENOLCK),
    };
    let Some(place) = Place::take(&adapter.lock_threads) else {
        return reply.error(fuser::Errno::ENOLCK);
    };
    let (tree, listed) = (Arc::clone(&adapter.tree), Arc::clone(&adapter.waits));
    let notifier = Arc::clone(&adapter.notifier);
    let work = move || {
        let _place = place;
        let pending = listed.begin_long(thread, reply);
        let had_locks = tree.locks.has_locks(file.handle, asked.owner);
        {
            let mut lockers = guard(&file.lockers);
            if !lockers.contains(&asked.owner) {
                lockers.push(asked.owner);
            }
        }
        let locked = tree
            .locks
            .lock(file.handle, asked, waits, || pending.is_over());
        if locked.is_ok()
            && let Some(notifier) = notifier.get()
        {
            // The program must see what the last owner of the lock wrote. This fails if the kernel has nothing to drop.
            let _dropped = notifier.inval_inode(ino, 0, 0);
        }
        let waited = pending.finish(locked, |reply: ReplyEmpty, ()| reply.ok());
        if locked.is_ok() && !waited && !had_locks {
            // The program was interrupted. If it had locks before, the new one may be a part of them.
            tree.locks.unlock_all(file.handle, asked.owner);
        }
    };
    // If there is no thread, the reply is dropped, and `fuser` answers with EIO.
    let _started = thread::Builder::new().name("lock".to_owned()).spawn(work);
}

/// One of the [`WAITS_MAX`] threads.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(count));
        // The place is given back when it is dropped.
        (count.fetch_add(1, Ordering::Relaxed) < WAITS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
