//! The cases T-S20 to T-S28: the paths that a resend may use. Each test runs with both settings of used paths.

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";

const BOTH: [fn(&mut Globals); 2] = [PAIR, LITERAL];

#[test]
fn t_s20_design_without_an_optimal_local_interface_nothing_is_sent_again() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        bench.set_health(N1, 900);
        bench.set_health(N2, 900);
        let first = bench.send(P1);
        assert_eq!(
            bench.failed(&first, MessageStatus::LocalTimeout),
            Errno::ETIMEDOUT,
            "a route is there: the message ends with what its attempt failed of"
        );
        assert_eq!(bench.core.counters().failed_resends, 1);
        assert_eq!(bench.core.counters().resend_count, 0);
    }
}

#[test]
fn t_s21_design_without_an_optimal_peer_interface_nothing_is_sent_again() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        bench.set_health(P1, 900);
        bench.set_health(P2, 900);
        let first = bench.send(P1);
        bench.failed(&first, MessageStatus::RemoteDropped);
        assert_eq!(bench.core.counters().resend_count, 0);
    }
}

#[test]
fn t_s22_design_a_given_source_to_a_single_rail_peer_is_not_sent_again() {
    for setting in BOTH {
        let mut bench = Bench::new(&[N1, N2]).with(setting);
        let first = bench.send_from(Some(N1), P1);
        assert_eq!(
            bench.failed(&first, MessageStatus::LocalTimeout),
            Errno::ETIMEDOUT
        );
    }
    let mut lustre = Bench::new(&[N1, N2]).with(LUSTRE);
    let first = lustre.send_from(Some(N1), P1);
    let second = lustre.retried(&first, MessageStatus::LocalTimeout);
    assert_eq!(lustre.pair(&second), lustre.pair(&first), "the same pair");
}

#[test]
fn t_s23_design_a_given_source_over_a_router_is_not_sent_again() {
    for setting in BOTH {
        let mut bench = Bench::new(&[N1, N2]).with(setting);
        bench.route("tcp9", "10.0.0.9@tcp", None, 0);
        let first = bench.send_from(Some(N1), "10.9.0.1@tcp9");
        bench.failed(&first, MessageStatus::LocalTimeout);
        assert_eq!(bench.core.counters().resend_count, 0);
    }
}

#[test]
fn t_s24_design_a_single_rail_peer_that_is_ill_is_tried_once() {
    for setting in BOTH {
        let mut bench = Bench::new(&[N1, N2]).with(setting);
        bench.carry(P1);
        bench.set_health(P1, 900);
        let first = bench.send(P1);
        bench.failed(&first, MessageStatus::LocalDropped);
    }
}

#[test]
fn t_s25_design_a_resend_to_a_single_rail_peer_leaves_the_pinned_interface() {
    for setting in BOTH {
        let mut bench = Bench::new(&[N1, N2]).with(setting);
        let first = bench.send(P1);
        let second = bench.retried(&first, MessageStatus::LocalDropped);
        assert_eq!(bench.pair(&second), (N2.into(), P1.into()));
        assert_eq!(
            bench.answer(&second, MessageStatus::Ok),
            Step::Ended(Ok(()))
        );
        bench.set_health(N1, 1000);
        assert_eq!(bench.carry(P1).0, N1, "the pin stays");
    }
    let mut lustre = Bench::new(&[N1, N2]).with(LUSTRE);
    let first = lustre.send(P1);
    let second = lustre.retried(&first, MessageStatus::LocalDropped);
    assert_eq!(lustre.pair(&second).0, N1);
}

#[test]
fn t_s26_design_two_by_two_has_two_attempts_of_a_local_failure() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        let first = bench.send(P1);
        assert_eq!(bench.pair(&first), (N1.into(), P1.into()));
        let second = bench.retried(&first, MessageStatus::LocalDropped);
        assert_eq!(bench.pair(&second), (N2.into(), P2.into()));
        bench.failed(&second, MessageStatus::LocalDropped);
    }
}

/// Makes the attempts of the table in `docs/selection/resend.md`: returns them until no path is left, for a failure of
/// the given class.
fn attempts(
    locals: usize,
    peers: usize,
    setting: fn(&mut Globals),
    status: MessageStatus,
) -> usize {
    let nids = |prefix: &str, count| -> Vec<String> {
        (1..=count).map(|n| format!("{prefix}.{n}@tcp")).collect()
    };
    let (own, theirs) = (nids("10.0.0", locals), nids("10.0.1", peers));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&own).with(setting);
    bench.peer(&theirs);
    let mut transmit = bench.send(P1);
    let mut attempts = 1;
    while let Step::Sent(next) = bench.answer(&transmit, status) {
        transmit = *next;
        attempts += 1;
    }
    attempts
}

#[test]
fn t_s26_design_and_lustre_the_number_of_attempts_is_that_of_the_table() {
    let local = MessageStatus::LocalDropped;
    let remote = MessageStatus::RemoteDropped;
    let cases = [
        // Each row: (locals, peers), then attempts by literal, by pair, by kernels, for a local failure and for a
        // remote failure.
        ((1, 1), [1, 1, 1], [1, 1, 1]),
        ((2, 1), [1, 2, 3], [1, 1, 1]),
        ((1, 2), [1, 1, 1], [1, 2, 3]),
        ((2, 2), [2, 2, 3], [2, 2, 3]),
        ((3, 3), [3, 3, 3], [3, 3, 3]),
    ];
    for ((locals, peers), of_local, of_remote) in cases {
        for (at, setting) in [LITERAL, PAIR, LUSTRE].into_iter().enumerate() {
            let found = [local, remote].map(|status| attempts(locals, peers, setting, status));
            assert_eq!(
                found,
                [of_local[at], of_remote[at]],
                "{locals} x {peers}, setting {at}"
            );
        }
    }
}

fn named(peer: &str) -> SendHints {
    SendHints {
        resend_to: Some(nid(peer)),
        ..SendHints::default()
    }
}

#[test]
fn t_s27_design_a_named_peer_interface_in_full_health_is_taken_though_used() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        let Step::Sent(first) = bench.start(None, P1, named(P1)) else {
            panic!("not sent")
        };
        assert_eq!(bench.pair(&first), (N1.into(), P1.into()));
        let second = bench.retried(&first, MessageStatus::LocalDropped);
        assert_eq!(bench.pair(&second), (N2.into(), P1.into()));
    }
}

#[test]
fn t_s27_design_the_lnd_may_name_the_next_peer_interface() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        let first = bench.send(P1);
        let status = MessageStatus::LocalDropped;
        bench
            .core
            .sent_try_next(first.tx, status, nid(P1), bench.now);
        let Step::Sent(second) = bench.step() else {
            panic!("not sent again")
        };
        assert_eq!(bench.pair(&second), (N2.into(), P1.into()));
    }
}

/// Messages to a Multi-Rail peer take its interfaces in turns.
#[test]
fn a_message_that_names_its_targets_own_interface_goes_there_first() {
    let mut bench = Bench::two_by_two();
    for target in [P1, P2, P2, P1, P1, P1] {
        let Step::Sent(sent) = bench.start(None, target, named(target)) else {
            panic!("not sent")
        };
        assert_eq!(bench.pair(&sent).1, target);
        bench.answer(&sent, MessageStatus::Ok);
    }
    let Step::Sent(first) = bench.start(None, P1, named(P1)) else {
        panic!("not sent")
    };
    bench.set_health(P1, 900);
    let second = bench.retried(&first, MessageStatus::RemoteDropped);
    assert_eq!(
        bench.pair(&second).1,
        P2,
        "another attempt takes another one"
    );
}

#[test]
fn t_s28_design_a_named_peer_interface_that_is_ill_is_not_taken() {
    for setting in BOTH {
        let mut bench = Bench::two_by_two().with(setting);
        let Step::Sent(first) = bench.start(None, P1, named(P1)) else {
            panic!("not sent")
        };
        let second = bench.retried(&first, MessageStatus::RemoteDropped);
        assert_eq!(bench.pair(&second), (N2.into(), P2.into()));
    }
}

#[test]
fn t_s26_design_by_pair_an_unused_interface_comes_before_rules() {
    let mut bench = Bench::two_by_two();
    bench.rule(N1, "", "", Some(0));
    bench.rule("", P1, "", Some(0));
    let first = bench.send(P1);
    assert_eq!(bench.pair(&first), (N1.into(), P1.into()));
    let second = bench.retried(&first, MessageStatus::RemoteDropped);
    assert_eq!(bench.pair(&second), (N2.into(), P2.into()));
    let mut bench = Bench::two_by_two();
    bench.rule("", P1, "", Some(0));
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    assert_eq!(bench.pair(&second), (N2.into(), P2.into()));
}

#[test]
fn resends_are_counted_by_what_had_failed() {
    let mut bench = Bench::two_by_two();
    for status in [
        MessageStatus::LocalDropped,
        MessageStatus::RemoteDropped,
        MessageStatus::LocalDropped,
    ] {
        for interface in [N1, N2, P1, P2] {
            bench.set_health(interface, 1000);
        }
        let first = bench.send(P1);
        let second = bench.retried(&first, status);
        bench.answer(&second, MessageStatus::Ok);
    }
    let counters = bench.core.counters();
    assert_eq!(counters.resent_after(MessageStatus::LocalDropped), 2);
    assert_eq!(counters.resent_after(MessageStatus::RemoteDropped), 1);
    let all = MessageStatus::ALL.into_iter();
    let sum: u64 = all.map(|status| counters.resent_after(status)).sum();
    assert_eq!(sum, counters.resend_count);
}
