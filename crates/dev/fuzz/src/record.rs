//! The reader of records, and the core that replays them.

use lnet_core::record_file::{Log, Replay, with_checks};

/// The most events of one input: each may take some time, and a longer record adds nothing new.
const EVENTS_MAX: usize = 2_000;

/// A record: rejected, or replayed up to its end or its first damage. The decisions of a core about
/// inputs of no real node are not checked; the replay only has to end without a panic.
pub fn record(data: &[u8]) {
    replay(data);
    // Behind the checksums, which keep nearly all changes away.
    replay(&with_checks(data));
}

fn replay(data: &[u8]) {
    let Ok(log) = Log::open(data) else {
        return;
    };
    let mut replay = Replay::new(log);
    for number in 1..=EVENTS_MAX {
        let Ok(Some(step)) = replay.step(true) else {
            return;
        };
        assert_eq!(step.number, number as u64);
        assert!(!lnet_core::record_file::input_text(&step.input).is_empty());
        assert!(step.input.now().is_none_or(|now| now == step.at));
    }
}
