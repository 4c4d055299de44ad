//! What the o2ib LND counts, for `finerail top`.

use std::fmt::Debug;

use lnet_dlc::protocol::O2ibNumber;
use lnet_node::{Engine, reason_name};
use lnet_o2ib::{Counts, O2ibStats};

/// Returns the counters of the o2ib LND; `None` if the node has none.
pub(super) fn numbers(engine: &Engine) -> Option<Vec<O2ibNumber>> {
    let stats = engine.o2iblnd_stats()?;
    let mut numbers = of_stats(stats);
    let open = engine.o2ib_connections().filter(|conn| conn.is_open);
    numbers.extend([
        level("connections", open.count() as u64),
        level("registrations", engine.registrations() as u64),
        in_bytes(level("pinned", engine.pinned_bytes() as u64)),
    ]);
    Some(numbers)
}

fn of_stats(stats: &O2ibStats) -> Vec<O2ibNumber> {
    let mut numbers = by("sent", &stats.sent);
    numbers.extend(by("received", &stats.received));
    numbers.extend([
        count("waited for credits", stats.waited_for_credit),
        in_bytes(count("written by RDMA", stats.bytes_written)),
        in_bytes(count("landed by RDMA", stats.bytes_landed)),
        in_bytes(count("copied", stats.bytes_copied)),
        count("not registered", stats.unmapped),
        count("connected", stats.established),
        count("dialled again", stats.retries),
    ]);
    numbers.extend(by("rejected by a peer", &stats.rejections));
    numbers.extend(by("rejected here", &stats.rejected));
    numbers.extend(by("not connected", &stats.failed));
    numbers.extend(by("closed", &stats.closed));
    numbers
}

/// Returns what occurred of a counter, by type or reason.
fn by<K: Ord + Copy + Debug>(counter: &str, counts: &Counts<K>) -> Vec<O2ibNumber> {
    let counts = counts.iter();
    let numbers = counts.map(|(what, value)| O2ibNumber {
        of: reason_name(&what),
        ..count(counter, value)
    });
    numbers.collect()
}

fn count(counter: &str, value: u64) -> O2ibNumber {
    O2ibNumber {
        counter: counter.to_owned(),
        value,
        ..O2ibNumber::default()
    }
}

fn level(counter: &str, value: u64) -> O2ibNumber {
    O2ibNumber {
        is_level: true,
        ..count(counter, value)
    }
}

fn in_bytes(number: O2ibNumber) -> O2ibNumber {
    O2ibNumber {
        is_bytes: true,
        ..number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_occurred_is_left_out_only_if_it_has_a_reason() {
        let stats = O2ibStats {
            waited_for_credit: 3,
            ..O2ibStats::default()
        };
        let numbers = of_stats(&stats);
        assert!(numbers.iter().all(|number| number.of.is_empty()));
        assert_eq!((numbers.len(), numbers[0].value), (7, 3));
    }
}
