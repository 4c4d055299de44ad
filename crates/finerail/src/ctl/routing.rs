//! `finerail ctl set routing VALUE --wait`: waits until a router has stopped, or has started.

use std::thread;
use std::time::Duration;

use lnet_dlc::protocol::{NodeNumbers, Part, Request, RoutingChange};

use super::talk::{Failed, Talk};
use crate::common::complaint;

/// The time between two looks at the node.
const LOOK: Duration = Duration::from_secs(1);

/// Every this many looks a line tells how long the change still takes.
const LOOKS_PER_LINE: u32 = 10;

/// Waits until no change of routing is under way.
pub(super) fn wait(talk: &mut Talk) -> Result<(), Failed> {
    for look in 0_u32.. {
        let node = numbers(talk)?;
        let Some(change) = node.routing_change else {
            complaint(if node.routing {
                "the node forwards, and its peers know"
            } else {
                "forwarding has stopped"
            });
            break;
        };
        if look.is_multiple_of(LOOKS_PER_LINE) {
            complaint(&progress(&node, change));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn progress(node: &NodeNumbers, change: RoutingChange) -> String {
    let [soonest, latest] =
        [change.soonest_nanos, change.latest_nanos].map(|nanos| nanos.div_ceil(1_000_000_000));
    if !change.stops {
        return format!("the node forwards, and tells its peers in {soonest} s");
    }
    let held = |pool: &lnet_dlc::protocol::PoolNumbers| i64::from(pool.buffers) - pool.credits;
    let messages: i64 = node.pools.iter().map(held).sum();
    format!(
        "forwarding stops in {soonest} s, {messages} messages left (at the latest in {latest} s)"
    )
}

/// Returns the numbers of the whole node, which are the first part of the answer.
fn numbers(talk: &mut Talk) -> Result<NodeNumbers, Failed> {
    let mut numbers = NodeNumbers::default();
    talk.follow(&Request::Numbers, |piece| {
        if let Part::Node(node) = Part::from_text(piece)? {
            numbers = *node;
        }
        Ok(false)
    })?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use lnet_dlc::protocol::PoolNumbers;

    use super::*;

    #[test]
    fn progress_tells_the_time_and_the_messages_that_are_left() {
        let pool = |credits| PoolNumbers {
            buffers: 8,
            credits,
            min_credits: credits,
        };
        let node = NodeNumbers {
            pools: vec![pool(8), pool(7), pool(-2)],
            ..NodeNumbers::default()
        };
        let stops = RoutingChange {
            stops: true,
            soonest_nanos: 9_100_000_000,
            latest_nanos: 29_100_000_000,
        };
        let text = "forwarding stops in 10 s, 11 messages left (at the latest in 30 s)";
        assert_eq!(progress(&node, stops), text);
    }
}
