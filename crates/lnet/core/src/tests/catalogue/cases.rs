//! The eight cases of a request [PATH-1], as far as the catalogue does not cover them: routed cases, and the
//! choice among devices.

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const R1: &str = "10.0.0.8@tcp";
const R2: &str = "10.0.0.9@tcp";
const FAR1: &str = "10.5.0.1@tcp5";
const FAR2: &str = "10.5.0.2@tcp5";

const DROPPED: MessageStatus = MessageStatus::RemoteDropped;

/// Creates n1 and n2, a gateway with two interfaces, and a Multi-Rail peer behind it with two.
fn behind_a_gateway() -> Bench {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[R1, R2]);
    bench.route("tcp5", R1, None, 0);
    bench.peer(&[FAR1, FAR2]);
    bench
}

/// Returns source, next hop and final destination.
fn way(bench: &Bench, transmit: &Transmit) -> [String; 3] {
    let (source, hop) = bench.pair(transmit);
    assert_eq!(transmit.header.src_nid.to_string(), source);
    [source, hop, transmit.header.dest_nid.to_string()]
}

// [GATE-1]
#[test]
fn b2c_the_best_interface_behind_the_gateway_becomes_the_destination() {
    let mut bench = behind_a_gateway();
    bench.set_health(FAR1, 900);
    let transmit = bench.send(FAR1);
    assert_eq!(way(&bench, &transmit), [N1, R1, FAR2]);
}

#[test]
fn b2c_a_common_net_comes_before_a_route() {
    let mut bench = behind_a_gateway();
    bench.core.add_peer(nid(FAR1), &[nid(P1)], true).unwrap();
    let transmit = bench.send(FAR1);
    assert_eq!(way(&bench, &transmit)[1..], [P1, P1]);
}

#[test]
fn b2c_a_resend_takes_another_pair_towards_the_gateway() {
    for setting in [PAIR, LITERAL] {
        let mut bench = behind_a_gateway().with(setting);
        let first = bench.send(FAR1);
        assert_eq!(bench.pair(&first), (N1.into(), R1.into()));
        let second = bench.retried(&first, DROPPED);
        assert_eq!(bench.pair(&second), (N2.into(), R2.into()));
        bench.failed(&second, DROPPED);
    }
}

#[test]
fn a2c_a_resend_takes_another_interface_of_the_gateway_from_the_same_source() {
    for setting in [PAIR, LITERAL] {
        let mut bench = behind_a_gateway().with(setting);
        let first = bench.send_from(Some(N2), FAR1);
        assert_eq!(way(&bench, &first), [N2, R1, FAR1]);
        let second = bench.retried(&first, DROPPED);
        assert_eq!(bench.pair(&second), (N2.into(), R2.into()));
        bench.failed(&second, DROPPED);
    }
}

#[test]
fn a2c_a_source_that_a_failure_has_made_ill_is_not_tried_again() {
    let mut bench = behind_a_gateway();
    let first = bench.send_from(Some(N2), FAR1);
    bench.failed(&first, MessageStatus::LocalDropped);
}

#[test]
fn b2d_a_resend_uses_the_gateway_from_another_interface_while_it_is_well() {
    for setting in [PAIR, LITERAL] {
        let mut bench = Bench::new(&[N1, N2]).with(setting);
        bench.route("tcp5", R1, None, 0);
        let first = bench.send(FAR1);
        assert_eq!(bench.pair(&first), (N1.into(), R1.into()));
        let second = bench.retried(&first, MessageStatus::LocalDropped);
        assert_eq!(bench.pair(&second), (N2.into(), R1.into()));
        assert_eq!(
            bench.answer(&second, MessageStatus::Ok),
            Step::Ended(Ok(()))
        );
        bench.set_health(N1, 1000);
        bench.set_health(R1, 999);
        let ill = bench.send(FAR1);
        assert_eq!(bench.pair(&ill).1, R1, "a first send goes out");
        bench.failed(&ill, MessageStatus::LocalDropped);
    }
}

#[test]
fn a1c_a_named_peer_interface_is_taken_by_a_resend_from_a_given_source() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1, "10.0.1.2@tcp", "10.0.1.3@tcp"]);
    let hints = SendHints {
        resend_to: Some(nid("10.0.1.3@tcp")),
        ..SendHints::default()
    };
    let Step::Sent(first) = bench.start(Some(N1), P1, hints) else {
        panic!("not sent")
    };
    let second = bench.retried(&first, DROPPED);
    assert_eq!(bench.pair(&second).1, "10.0.1.3@tcp");
}

#[test]
fn a_resend_moves_to_another_net_when_one_is_used_up() {
    for setting in [PAIR, LITERAL] {
        let mut bench = Bench::new(&[N1, "10.9.0.1@o2ib"]).with(setting);
        bench.peer(&[P1, "10.9.1.1@o2ib"]);
        let first = bench.send(P1);
        assert_eq!(bench.pair(&first), (N1.into(), P1.into()));
        let second = bench.retried(&first, DROPPED);
        let expected = ("10.9.0.1@o2ib".into(), "10.9.1.1@o2ib".into());
        assert_eq!(bench.pair(&second), expected);
        assert_eq!(second.header.src_nid, nid("10.9.0.1@o2ib"));
    }
}

#[test]
fn a_better_device_comes_before_distance() {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1]);
    for (text, rank, distance) in [(N1, 1, 10), (N2, 0, 90)] {
        let device = NiDevice {
            rank,
            distances: smallvec::smallvec![distance],
        };
        let ni = bench.ni(text).id;
        bench.core.set_ni_device(ni, device).unwrap();
    }
    assert_eq!(bench.sources(3, P1), [N2; 3]);
}

// [PATH-33]
#[test]
fn distance_is_from_the_memory_of_the_payload() {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1]);
    for (text, distances) in [(N1, [10, 20]), (N2, [20, 10])] {
        let device = NiDevice {
            rank: 0,
            distances: distances.into_iter().collect(),
        };
        let ni = bench.ni(text).id;
        bench.core.set_ni_device(ni, device).unwrap();
    }
    for (cpt, source) in [(0, N1), (1, N2), (0, N1)] {
        let hints = SendHints {
            cpt,
            ..SendHints::default()
        };
        let Step::Sent(transmit) = bench.start(None, P1, hints) else {
            panic!("not sent")
        };
        assert_eq!(bench.pair(&transmit).0, source);
        bench.answer(&transmit, MessageStatus::Ok);
    }
    // If a distance is missing, the device is the farthest.
    let hints = SendHints {
        cpt: 7,
        ..SendHints::default()
    };
    assert!(matches!(bench.start(None, P1, hints), Step::Sent(_)));
}

// [PATH-53]
#[test]
fn a_pair_rule_is_the_pin_of_a_single_rail_peer() {
    let mut bench = Bench::new(&[N1, N2]);
    assert_eq!(bench.carry(P1).0, N1);
    bench.rule(N2, P1, "", None);
    assert_eq!(bench.sources(3, P1), [N2; 3]);
    bench.core.delete_rule(0).unwrap();
    assert_eq!(bench.sources(3, P1), [N1; 3]);
}

#[test]
fn b1d_a_single_rail_peer_sees_one_interface_under_whichever_of_its_nids() {
    let mut bench = Bench::new(&[N1, N2]);
    let others = [nid("10.0.1.2@tcp")];
    bench.core.add_peer(nid(P1), &others, false).unwrap();
    assert_eq!(bench.carry(P1).0, N1);
    assert_eq!(bench.sources(3, "10.0.1.2@tcp"), [N1; 3]);
    // A rule about exactly this NID comes before the interface that another NID has seen.
    bench.rule(N2, "10.0.1.2@tcp", "", None);
    assert_eq!(bench.sources(2, "10.0.1.2@tcp"), [N2; 2]);
    assert_eq!(bench.carry(P1).0, N1);
}

/// Creates gateways to tcp5 on two nets; the peer behind them is not Multi-Rail.
fn gateways_on_two_nets() -> Bench {
    let mut bench = Bench::new(&[N1, "10.9.0.1@o2ib"]);
    bench.route("tcp5", R1, None, 0);
    bench.route("tcp5", "10.9.0.9@o2ib", None, 0);
    bench
}

#[test]
fn b2d_a_single_rail_peer_behind_gateways_on_two_nets_sees_one_interface() {
    for profile in [PAIR, LUSTRE] {
        let mut bench = gateways_on_two_nets().with(profile);
        let first = bench.carry(FAR1);
        for _ in 0..4 {
            assert_eq!(bench.carry(FAR1), first);
        }
    }
}

// [PATH-54]
#[test]
fn b2d_without_a_live_gateway_for_that_interface_design_takes_another_one() {
    let dead = |bench: &mut Bench| {
        let (_, hop) = bench.carry(FAR1);
        bench
            .core
            .fabric_mut()
            .routes
            .gateway_mut(nid(&hop))
            .unwrap()
            .alive = false;
        hop
    };
    let mut bench = gateways_on_two_nets();
    let hop = dead(&mut bench);
    assert_ne!(bench.carry(FAR1).1, hop);
    let mut lustre = gateways_on_two_nets().with(LUSTRE);
    dead(&mut lustre);
    assert_eq!(lustre.refused(None, FAR1), Errno::EHOSTUNREACH);
}
