//! What `.ci/races` looks for, planted: there these two tests must fail, or its silence about the
//! others would prove nothing. Without a detector there is nothing to see.

use std::sync::Mutex;

/// Two threads write the same bytes. It takes no unsafe code: a span is only copied to.
#[test]
fn a_race_for_detectors() {
    let span = bmi::Buffer::zeroed(64).unwrap().into_span();
    std::thread::scope(|scope| {
        for byte in 0..2 {
            let span = span.clone();
            scope.spawn(move || {
                for _ in 0..1000 {
                    span.copy_in(&[byte; 64]);
                }
            });
        }
    });
}

/// Two locks are taken in either order, one after the other, so that nobody waits for ever.
#[test]
fn a_lock_order_for_detectors() {
    let locks = [Mutex::new(1), Mutex::new(2)];
    for [first, second] in [[0, 1], [1, 0]] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let first = locks[first].lock().unwrap();
                assert_ne!(*first, *locks[second].lock().unwrap());
            });
        });
    }
}
