//! The reader of records of nodes, and the core that takes what they say.

use lnet_record::{Log, Replay};

/// Events of one input: each may take its time, and a record of many events repeats itself.
const EVENTS_MAX: usize = 2_000;

/// A record: rejected, or replayed up to its end or its first damage. What a core makes of inputs that no node ever gave it
/// is its own affair, as long as it ends and does not panic.
pub fn record(data: &[u8]) {
    let Ok(log) = Log::open(data) else {
        return;
    };
    let mut replay = Replay::new(log);
    for number in 1..=EVENTS_MAX {
        let Ok(Some(step)) = replay.step(true) else {
            return;
        };
        assert_eq!(step.number, number as u64);
        assert!(!lnet_record::told_input(&step.input).is_empty());
        assert!(step.input.now().is_none_or(|now| now == step.at));
    }
}
