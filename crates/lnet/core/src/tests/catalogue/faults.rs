//! Injected faults.

use std::time::Duration;

use super::*;

const TO: &str = "10.0.0.2@tcp";

fn drops(classes: Vec<MessageStatus>, filter: FaultFilter) -> DropRule {
    DropRule {
        filter,
        pace: Pace::Rate(1),
        classes,
        all: false,
    }
}

fn ready() -> Net {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(8));
    net
}

#[test]
fn a_rule_without_classes_loses_what_arrives_silently() {
    let mut net = ready();
    let rule = drops(vec![], FaultFilter::default());
    net.core(1).add_drop_rule(rule).unwrap();
    net.put(0, b"x", false, TO);
    net.run();
    assert_eq!(net.take_events(0)[0].status, Ok(()));
    assert_eq!(net.take_events(1), []);
    assert_eq!(net.core(1).counters().dropped(DropReason::FaultInjected), 1);
    net.put(0, b"x", false, "0@lo");
    net.run();
    net.assert_at_rest();
}

#[test]
fn a_rule_with_classes_fails_what_is_sent() {
    let mut net = ready();
    let rule = drops(vec![MessageStatus::LocalNoRoute], FaultFilter::default());
    net.core(0).add_drop_rule(rule).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::ZERO);
    assert_eq!(net.take_events(0)[0].status, Err(Errno::EHOSTUNREACH));
    assert_eq!(net.trace.len(), 0, "nothing was transmitted");
    let (_, stats) = net.core(0).drop_rules().next().unwrap();
    assert_eq!((stats.matched, stats.struck, stats.put), (1, 1, 1));
    net.assert_at_rest();
}

#[test]
fn filters_are_by_source_destination_interface_type_and_portal() {
    let other = nid("10.0.0.77@tcp");
    let own = nid("10.0.0.1@tcp");
    let at = nid(TO);
    let any = FaultFilter::default();
    let source = |source| FaultFilter { source, ..any };
    let destination = |destination| FaultFilter { destination, ..any };
    let local = |local| FaultFilter { local, ..any };
    let types = |types| FaultFilter { types, ..any };
    let portals = |portals| FaultFilter { portals, ..any };
    let net = |text: &str| NidFilter::Net(text.parse().unwrap());
    let cases = [
        (any, true),
        (source(NidFilter::Nid(own)), true),
        (source(NidFilter::Nid(other)), false),
        (destination(net("tcp")), true),
        (destination(net("tcp1")), false),
        (local(NidFilter::Nid(at)), true),
        (local(NidFilter::Nid(own)), false),
        (types(FaultTypes::PUT), true),
        (types(FaultTypes::GET | FaultTypes::ACK), false),
        (portals(1 << 30), true),
        (portals(1 << 29), false),
    ];
    for (filter, strikes) in cases {
        let mut net = ready();
        net.core(1).add_drop_rule(drops(vec![], filter)).unwrap();
        net.put(0, b"x", false, TO);
        net.run();
        assert_eq!(net.take_events(1).is_empty(), strikes, "{filter:?}");
    }
}

#[test]
fn a_rule_about_an_interface_is_never_met_by_what_is_sent() {
    let mut net = ready();
    let filter = FaultFilter {
        local: NidFilter::Nid(nid("10.0.0.1@tcp")),
        ..FaultFilter::default()
    };
    let rule = drops(vec![MessageStatus::LocalDropped], filter);
    net.core(0).add_drop_rule(rule).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::ZERO);
    assert_eq!(net.take_events(0)[0].status, Ok(()));
}

#[test]
fn everything_is_dropped_in_both_directions_by_drop_all() {
    let rule = DropRule {
        all: true,
        pace: Pace::Interval(Duration::from_secs(3600)),
        ..drops(vec![], FaultFilter::default())
    };
    let mut net = ready();
    net.core(0).add_drop_rule(rule.clone()).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::ZERO);
    assert_eq!(net.take_events(0)[0].status, Err(Errno::EIO));
    let mut net = ready();
    net.core(1).add_drop_rule(rule).unwrap();
    net.put(0, b"x", false, TO);
    net.run();
    assert_eq!(net.take_events(1), []);
}

// [FAULT-5]
#[test]
fn newer_rules_are_asked_first_and_the_first_that_strikes_ends_the_search() {
    let mut net = ready();
    for status in [MessageStatus::LocalTimeout, MessageStatus::RemoteError] {
        let rule = drops(vec![status], FaultFilter::default());
        net.core(0).add_drop_rule(rule).unwrap();
    }
    net.put(0, b"x", false, TO);
    net.advance(Duration::ZERO);
    assert_eq!(net.core(0).counters().ended(MessageStatus::RemoteError), 1);
    let matched: Vec<u64> = net
        .core(0)
        .drop_rules()
        .map(|(_, stats)| stats.matched)
        .collect();
    assert_eq!(matched, [1, 0]);
}

fn delay(latency: u64) -> DelayRule {
    DelayRule {
        filter: FaultFilter::default(),
        pace: Pace::Rate(1),
        latency: Duration::from_secs(latency),
    }
}

// [FAULT-4]
#[test]
fn what_is_sent_waits_with_its_credits_and_then_goes() {
    let mut net = ready();
    net.core(0).add_delay_rule(delay(3)).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::from_secs(2));
    assert_eq!(net.take_events(0), []);
    assert_eq!(net.core(0).nis().nth(1).unwrap().tx_credits, 255);
    net.advance(Duration::from_secs(1));
    assert_eq!(net.kinds(0), [EventKind::Send]);
    net.assert_at_rest();
}

#[test]
fn what_arrives_is_held_in_its_order_and_then_received() {
    let mut net = ready();
    net.core(1).add_delay_rule(delay(3)).unwrap();
    net.put(0, b"first", true, TO);
    net.put(0, b"second", true, TO);
    net.advance(Duration::from_secs(2));
    assert_eq!(net.take_events(1), []);
    net.advance(Duration::from_secs(20));
    let lengths: Vec<u32> = net
        .take_events(1)
        .iter()
        .map(|event| event.mlength)
        .collect();
    assert_eq!(lengths, [5, 6]);
    net.assert_at_rest();
}

#[test]
fn a_held_message_that_nothing_takes_any_more_is_dropped_and_counted() {
    let mut net = Net::pair();
    net.core(1).add_delay_rule(delay(3)).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::from_secs(4));
    assert_eq!(net.core(1).counters().dropped(DropReason::NoMatch), 1);
    net.assert_at_rest();
}

#[test]
fn a_held_message_may_go_on_to_a_lazy_portal() {
    let mut net = Net::pair();
    net.core(1).set_lazy(30).unwrap();
    net.core(1).add_delay_rule(delay(3)).unwrap();
    net.put(0, b"x", false, TO);
    net.advance(Duration::from_secs(4));
    assert_eq!(net.held(), 1);
    net.attach(1, any_me(), open_md(8));
    net.run();
    assert_eq!(net.kinds(1), [EventKind::Put]);
    net.assert_at_rest();
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let mut bench = Bench::new(&["10.0.0.1@tcp"]);
    let good = drops(vec![], FaultFilter::default());
    let no_pace = DropRule {
        pace: Pace::Rate(0),
        all: true,
        ..good.clone()
    };
    let no_span = DropRule {
        pace: Pace::Interval(Duration::ZERO),
        ..good.clone()
    };
    let filter = FaultFilter {
        portals: 1,
        types: FaultTypes::ACK | FaultTypes::REPLY,
        ..FaultFilter::default()
    };
    let no_portal = DropRule {
        filter,
        ..good.clone()
    };
    let success = drops(vec![MessageStatus::Ok], FaultFilter::default());
    for (rule, error) in [
        (no_pace, FaultError::NoPace),
        (no_span, FaultError::NoPace),
        (no_portal, FaultError::NoPortal),
        (success, FaultError::NotAFailure),
    ] {
        assert_eq!(bench.core.add_drop_rule(rule), Err(error));
        assert_eq!(error.errno(), Errno::EINVAL);
    }
    assert_eq!(
        bench.core.add_delay_rule(delay(0)),
        Err(FaultError::NoLatency)
    );
    for _ in 0..1024 {
        bench.core.add_drop_rule(good.clone()).unwrap();
    }
    let full = bench.core.add_drop_rule(good).unwrap_err();
    assert_eq!(full.errno(), Errno::ENOMEM);
}

#[test]
fn rules_are_deleted_by_their_filters_and_reset() {
    let mut net = ready();
    let own = NidFilter::Nid(nid("10.0.0.1@tcp"));
    let filter = FaultFilter {
        source: own,
        ..FaultFilter::default()
    };
    net.core(1).add_drop_rule(drops(vec![], filter)).unwrap();
    net.core(1)
        .add_drop_rule(drops(vec![], FaultFilter::default()))
        .unwrap();
    net.core(1).add_delay_rule(delay(1)).unwrap();
    net.put(0, b"x", false, TO);
    net.run();
    assert_eq!(net.core(1).drop_rules().next().unwrap().1.struck, 1);
    net.core(1).reset_fault_rules();
    assert_eq!(
        net.core(1).drop_rules().next().unwrap().1,
        FaultStats::default()
    );
    assert_eq!(net.core(1).delete_drop_rules(own, NidFilter::Any), 1);
    assert_eq!(
        net.core(1)
            .delete_drop_rules(NidFilter::Any, NidFilter::Any),
        1
    );
    assert_eq!(
        net.core(1)
            .delete_delay_rules(NidFilter::Any, NidFilter::Any),
        1
    );
    assert_eq!(net.core(1).drop_rules().count(), 0);
    assert_eq!(net.core(1).delay_rules().count(), 0);
}
