//! Tests of lazy portals: PUTs that wait for a descriptor.

use super::Net;
use super::net::{any_me, one_shot};
use crate::*;

fn lazy_pair() -> Net {
    let mut net = Net::pair();
    net.core(1).set_lazy(30).unwrap();
    net
}

// [DATA-17]
#[test]
fn a_held_put_lands_when_a_descriptor_comes() {
    let mut net = lazy_pair();
    net.put(0, b"early", true, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.held(), 1);
    assert_eq!(net.kinds(1), []);

    net.attach(1, any_me(), one_shot(16));
    net.run();
    assert_eq!(net.kinds(1), [EventKind::Put]);
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
    net.assert_at_rest();
}

#[test]
fn held_puts_are_offered_in_order_until_the_descriptor_is_exhausted() {
    let mut net = lazy_pair();
    net.add(&["10.0.0.3@tcp"]);
    net.put(0, b"1", false, "10.0.0.2@tcp");
    net.run();
    net.put(2, b"2", false, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.held(), 2);

    net.attach(1, any_me(), one_shot(16));
    net.run();
    let events = net.take_events(1);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].sender, super::nid("10.0.0.1@tcp"));
    assert_eq!(net.held(), 1);
}

#[test]
fn a_held_put_that_is_too_long_is_dropped() {
    let mut net = lazy_pair();
    net.put(0, b"too long", false, "10.0.0.2@tcp");
    net.run();
    net.attach(1, any_me(), one_shot(2));
    net.run();
    assert_eq!(net.core(1).counters().dropped(DropReason::TooLong), 1);
    assert_eq!(net.held(), 0);
    net.assert_at_rest();
}

#[test]
fn clearing_lazy_drops_what_is_held() {
    let mut net = lazy_pair();
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    let now = net.now;
    net.core(1).clear_lazy(30, now).unwrap();
    net.run();
    assert_eq!(net.core(1).counters().dropped(DropReason::LazyPortal), 1);
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.core(1).counters().dropped(DropReason::NoMatch), 1);
    net.assert_at_rest();
}

#[test]
fn a_held_put_whose_connection_breaks_is_forgotten() {
    let mut net = lazy_pair();
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    net.break_held(1);
    net.attach(1, any_me(), one_shot(16));
    net.run();
    assert_eq!(net.kinds(1), []);
    net.assert_at_rest();
}

#[test]
fn a_get_on_a_lazy_portal_is_dropped() {
    let mut net = lazy_pair();
    net.get(0, 4, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.core(1).counters().dropped(DropReason::NoMatch), 1);
}
