//! Tests of the counts of routes.

use std::time::Duration;

use super::Net;
use super::net::{any_me, open_md};
use crate::*;

const BEYOND: &str = "10.1.0.2@tcp1";
const BUFFERS: RouterBuffers = RouterBuffers {
    tiny: 8,
    small: 8,
    large: 4,
};

fn stats(net: &mut Net, node: usize) -> RouteStats {
    net.core(node).routes().next().unwrap().stats
}

/// Creates a client and a server at rest, whose answers are held back.
fn routed() -> Net {
    let mut net = Net::routed(BUFFERS);
    net.attach(2, any_me(), open_md(1 << 20));
    net.run();
    net
}

#[test]
fn what_goes_along_a_route_counts_there_and_its_answer_does_not() {
    let mut net = routed();
    let (before, back) = (stats(&mut net, 0), stats(&mut net, 2));
    net.put(0, &[7; 5000], true, BEYOND);
    net.run();
    net.get(0, 300, BEYOND);
    net.run();
    let after = stats(&mut net, 0);
    assert_eq!(after.sent - before.sent, 2, "the PUT and the GET");
    assert_eq!(after.sent_length - before.sent_length, 5000);
    assert_eq!(after.dropped, before.dropped);
    let ni = |net: &mut Net, node| net.core(node).nis().last().unwrap().stats;
    let (client, server) = (ni(&mut net, 0), ni(&mut net, 2));
    assert!(client.sent_length >= 5000 && server.received_length >= 5000);
    assert!(client.received_length >= 300 && server.sent_length >= 300);
    assert_eq!(
        stats(&mut net, 2),
        back,
        "ACK and REPLY go back as they came"
    );
}

#[test]
fn an_attempt_that_fails_counts_at_its_route() {
    let mut net = routed();
    net.keep_answers = true;
    let before = stats(&mut net, 0);
    net.put(0, b"x", false, BEYOND);
    net.run();
    net.answer(0, MessageStatus::LocalError);
    let after = stats(&mut net, 0);
    assert_eq!(
        (after.sent, after.dropped),
        (before.sent, before.dropped + 1)
    );
}

#[test]
fn a_message_given_up_in_a_queue_counts_at_its_route() {
    let mut net = routed();
    net.keep_answers = true;
    let before = stats(&mut net, 0);
    for _ in 0..12 {
        net.put(0, b"x", false, BEYOND);
    }
    net.run();
    assert_eq!(net.nodes[0].kept.len(), 8, "the credits of the gateway");
    // Pings that become due meanwhile wait behind these messages, and fail like them.
    net.advance(Duration::from_secs(200));
    let after = stats(&mut net, 0);
    assert!(after.dropped >= before.dropped + 4, "{after:?}");
    assert_eq!(after.sent, before.sent);
}
