//! Tests the lock and the wake-up protocol of the driver under every interleaving of a few threads, with a limit on
//! the preemptions in each. The protocol is the node's: the same files, compiled with the primitives of loom.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../src/alarm.rs"]
mod alarm;
#[path = "../src/fair.rs"]
mod fair;
#[path = "../src/rest.rs"]
mod rest;

use lnet_types::Time;
use loom::sync::Arc;
use loom::thread;

use self::alarm::Alarm;
use self::fair::Fair;
use self::rest::Rest;
use self::sync::{Condvar, Mutex};

/// The limit of forced switches between threads in one interleaving.
const PREEMPTIONS_MAX: usize = 3;

/// The work that callers add and the driver carries out.
struct Node {
    work: Fair<u32>,
    alarm: Alarm,
    waker: Waker,
}

/// Behaves as an eventfd: a wake-up while no thread sleeps ends the next sleep at once.
struct Waker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Polls without a sleep.
    fn look(&self) -> bool {
        std::mem::take(&mut *self.woken.lock().unwrap())
    }

    /// Sleeps until a wake-up; nothing else ends the sleep.
    fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl Node {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            work: Fair::new(0),
            alarm: Alarm::new(),
            waker: Waker {
                woken: Mutex::new(false),
                changed: Condvar::new(),
            },
        })
    }

    /// Carries out the callers' work until `until` pieces are done. If `spins` is true, polls first, and sleeps only
    /// if no wake-up had come.
    fn drive(&self, until: u32, spins: bool) {
        let mut done = 0;
        loop {
            let mut work = self.work.lock();
            done += std::mem::take(&mut *work);
            if done == until {
                return;
            }
            self.alarm.set(Time::from_secs(1));
            drop(work);
            if !spins || !self.waker.look() {
                self.waker.wait();
            }
            self.alarm.clear();
            assert!(!self.alarm.is_set());
        }
    }

    fn call(&self) {
        let mut work = self.work.lock();
        *work += 1;
        let must_wake = self.alarm.is_too_late(true, None);
        drop(work);
        if must_wake {
            self.waker.wake();
        }
    }

    /// The planted defect: this call reads the alarm before it takes the lock.
    fn hasty_call(&self) {
        let must_wake = self.alarm.is_too_late(true, None);
        *self.work.lock() += 1;
        if must_wake {
            self.waker.wake();
        }
    }
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    explore_with(PREEMPTIONS_MAX, body);
}

fn explore_with(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn driver_and_callers(call: fn(&Node), spins: bool) {
    explore(move || {
        let node = Node::new();
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let node = Arc::clone(&node);
                thread::spawn(move || call(&node))
            })
            .collect();
        node.drive(2, spins);
        for caller in callers {
            caller.join().unwrap();
        }
    });
}

#[test]
fn no_work_is_left_to_a_driver_that_sleeps() {
    driver_and_callers(Node::call, false);
}

#[test]
fn no_work_is_left_to_a_driver_that_looks_before_it_sleeps() {
    driver_and_callers(Node::call, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_looks_at_the_alarm_without_the_lock_is_found() {
    driver_and_callers(Node::hasty_call, true);
}

#[test]
fn the_fair_lock_lets_one_in_at_a_time_and_everybody_in_the_end() {
    explore(|| {
        let lock = Arc::new(Fair::new((0_u32, false)));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || enter(&lock))
            })
            .collect();
        enter(&lock);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(lock.lock().0, 3);
        assert!(!lock.is_awaited());
    });
}

fn enter(lock: &Fair<(u32, bool)>) {
    let mut owned = lock.lock();
    assert!(!owned.1, "somebody is inside");
    owned.1 = true;
    thread::yield_now();
    owned.0 += 1;
    owned.1 = false;
}

/// The state that I/O threads share with the thread that leaves bytes to them.
struct Hall {
    work: Fair<u32>,
    rest: Rest,
}

impl Hall {
    /// Takes the work that is there, then rests.
    fn move_bytes(&self) {
        loop {
            let more = std::mem::take(&mut *self.work.lock()) > 0;
            if !self.rest.rest(more) {
                return;
            }
        }
    }
}

#[test]
fn io_threads_all_leave_in_the_end_and_who_offers_work_takes_what_they_leave() {
    // This test takes more locks than the others, and a third thread adds preemptions. A limit lower by one keeps it
    // to seconds.
    explore_with(PREEMPTIONS_MAX - 1, || {
        let hall = Arc::new(Hall {
            work: Fair::new(0),
            rest: Rest::new(),
        });
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let hall = Arc::clone(&hall);
                thread::spawn(move || hall.move_bytes())
            })
            .collect();
        *hall.work.lock() += 1;
        hall.rest.offer();
        // The thread that makes the offer continues to work itself.
        *hall.work.lock() = 0;
        hall.rest.end();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!hall.rest.rest(false));
    });
}
