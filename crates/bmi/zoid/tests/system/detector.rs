//! Planted defects for `.ci/races`: under its detector these two tests must fail, otherwise its silence about
//! the others would prove nothing. Without a detector they pass.

use std::sync::Mutex;

/// Two threads write the same bytes, without unsafe code: both copy to the same span.
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

/// Takes two locks in either order, one after the other, so that no thread blocks forever.
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
