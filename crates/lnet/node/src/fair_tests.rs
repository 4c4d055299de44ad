//! Tests the fair lock with real threads.

use std::sync::Arc;
use std::thread;

use crate::fair::Fair;

#[test]
fn who_waits_comes_before_who_takes_the_lock_again() {
    let lock = Arc::new(Fair::new(0_u32));
    for _ in 0..100 {
        let mut owned = lock.lock();
        *owned = 0;
        let other = Arc::clone(&lock);
        let waiter = thread::spawn(move || *other.lock());
        while !lock.is_awaited() {
            thread::yield_now();
        }
        // The waiter is counted before it holds the door: wait until it does.
        while lock.door.try_lock().is_ok() {
            thread::yield_now();
        }
        for _ in 0..10 {
            drop(owned);
            owned = lock.lock();
            *owned += 1;
        }
        drop(owned);
        assert_eq!(waiter.join().ok(), Some(0), "the owner came first");
    }
}
