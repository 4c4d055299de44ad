//! The cases T-H without recovery: the effect of failures and successes on health, and which messages are resent.

use std::time::Duration;

use lnet_types::ProcessId;

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";

const LOCAL_RESENDABLE: [MessageStatus; 5] = [
    MessageStatus::LocalInterrupt,
    MessageStatus::LocalDropped,
    MessageStatus::LocalAborted,
    MessageStatus::LocalNoRoute,
    MessageStatus::LocalTimeout,
];

fn single_rail() -> Bench {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1]);
    bench
}

/// Fails every attempt with one class. Returns the number of attempts.
fn fail_all(bench: &mut Bench, status: MessageStatus) -> u64 {
    let mut transmit = bench.send(P1);
    let mut attempts = 1;
    loop {
        match bench.answer(&transmit, status) {
            Step::Sent(next) => transmit = *next,
            Step::Ended(result) => {
                assert!(result.is_err());
                return attempts;
            }
        }
        attempts += 1;
        assert!(attempts < 10, "there is no end to it");
    }
}

/// Returns the numbers of resends, of resends that succeeded, and of resends that failed.
fn resends(bench: &Bench) -> (u64, u64, u64) {
    let counters = bench.core.counters();
    (
        counters.resend_count,
        counters.successful_resends,
        counters.failed_resends,
    )
}

/// Returns the lowest health of the local interfaces, and of the peer's.
fn lowest(bench: &Bench) -> (u16, u16) {
    let ours = bench.core.nis().skip(1).map(|ni| ni.health.health.value());
    let peers = bench.core.peers().flat_map(|peer| peer.nis);
    let theirs = peers.map(|peer_ni| peer_ni.health.health.value());
    (ours.min().unwrap(), theirs.min().unwrap())
}

#[test]
pub(super) fn t_h01_everything_begins_in_full_health_and_up() {
    let bench = Bench::two_by_two();
    assert_eq!(lowest(&bench), (1000, 1000));
    assert!(bench.core.nis().all(|ni| ni.up));
    assert!(bench.core.peers().flat_map(|peer| peer.nis).all(|ni| ni.up));
}

#[test]
fn t_h02_design_and_2_17_with_one_rail_a_local_failure_costs_health_and_is_not_sent_again() {
    for setting in [DESIGN, LUSTRE_217] {
        for status in LOCAL_RESENDABLE {
            let mut bench = single_rail().with(setting);
            assert_eq!(fail_all(&mut bench, status), 1);
            assert_eq!(resends(&bench), (0, 0, 0), "{status:?}");
            assert_eq!(lowest(&bench), (900, 1000), "{status:?}");
        }
    }
}

#[test]
fn t_h02_lustre_up_to_2_16_the_only_interface_keeps_its_health() {
    for status in LOCAL_RESENDABLE {
        let mut bench = single_rail().with(LUSTRE);
        assert_eq!(fail_all(&mut bench, status), 1);
        assert_eq!(resends(&bench), (0, 0, 0), "{status:?}");
        assert_eq!(lowest(&bench), (1000, 1000), "{status:?}");
    }
}

#[test]
fn t_h03_lustre_a_local_failure_is_sent_again_retry_count_times() {
    for status in LOCAL_RESENDABLE {
        let mut bench = Bench::two_by_two().with(LUSTRE);
        assert_eq!(fail_all(&mut bench, status), 3);
        assert_eq!(resends(&bench), (2, 0, 1), "{status:?}");
        assert_eq!(bench.core.counters().ended(status), 3);
        assert!(lowest(&bench).0 < 1000);
    }
}

#[test]
fn t_h03s_design_a_local_failure_is_sent_again_while_there_are_paths() {
    for setting in [PAIR, LITERAL] {
        for status in LOCAL_RESENDABLE {
            let mut bench = Bench::two_by_two().with(setting);
            assert_eq!(fail_all(&mut bench, status), 2);
            assert_eq!(resends(&bench), (1, 0, 1), "{status:?}");
            assert_eq!(lowest(&bench), (900, 1000));
        }
    }
}

#[test]
pub(super) fn t_h04_an_unspecified_local_failure_costs_health_and_is_not_sent_again() {
    let mut bench = Bench::two_by_two();
    assert_eq!(fail_all(&mut bench, MessageStatus::LocalError), 1);
    assert_eq!(resends(&bench), (0, 0, 0));
    assert_eq!(lowest(&bench), (900, 1000));
}

#[test]
pub(super) fn t_h05_the_only_interface_of_a_peer_is_not_blamed() {
    for status in [
        MessageStatus::RemoteDropped,
        MessageStatus::RemoteError,
        MessageStatus::RemoteTimeout,
    ] {
        let mut bench = single_rail();
        assert_eq!(fail_all(&mut bench, status), 1);
        assert_eq!(resends(&bench), (0, 0, 0));
        assert_eq!(lowest(&bench), (1000, 1000), "{status:?}");
    }
}

#[test]
fn t_h06_lustre_what_the_peer_did_not_get_is_sent_again() {
    let mut bench = Bench::two_by_two().with(LUSTRE);
    assert_eq!(fail_all(&mut bench, MessageStatus::RemoteDropped), 3);
    assert_eq!(resends(&bench), (2, 0, 1));
    let (ours, theirs) = lowest(&bench);
    assert_eq!(ours, 1000);
    assert!(theirs < 1000);
}

#[test]
pub(super) fn t_h07_what_the_peer_may_have_got_is_not_sent_again() {
    for status in [MessageStatus::RemoteError, MessageStatus::RemoteTimeout] {
        let mut bench = Bench::two_by_two();
        assert_eq!(fail_all(&mut bench, status), 1);
        assert_eq!(resends(&bench), (0, 0, 0));
        assert_eq!(lowest(&bench), (1000, 900), "{status:?}");
    }
}

#[test]
fn t_h08_design_and_2_17_with_one_rail_a_network_timeout_blames_our_side_only() {
    for setting in [DESIGN, LUSTRE_217] {
        let mut bench = single_rail().with(setting);
        assert_eq!(fail_all(&mut bench, MessageStatus::NetworkTimeout), 1);
        assert_eq!(resends(&bench), (0, 0, 0));
        assert_eq!(lowest(&bench), (900, 1000));
    }
}

#[test]
fn t_h08_lustre_up_to_2_16_with_one_rail_a_network_timeout_costs_no_health() {
    let mut bench = single_rail().with(LUSTRE);
    assert_eq!(fail_all(&mut bench, MessageStatus::NetworkTimeout), 1);
    assert_eq!(resends(&bench), (0, 0, 0));
    assert_eq!(lowest(&bench), (1000, 1000));
}

#[test]
pub(super) fn t_h09_a_network_timeout_blames_both_sides() {
    let mut bench = Bench::two_by_two();
    assert_eq!(fail_all(&mut bench, MessageStatus::NetworkTimeout), 1);
    assert_eq!(resends(&bench), (0, 0, 0));
    assert_eq!(lowest(&bench), (900, 900));
}

#[test]
pub(super) fn t_h10_a_resend_that_succeeds_is_counted() {
    for profile in [PAIR, LITERAL, LUSTRE] {
        for status in LOCAL_RESENDABLE
            .into_iter()
            .chain([MessageStatus::RemoteDropped])
        {
            let mut bench = Bench::two_by_two().with(profile);
            let rule = DropRule {
                filter: FaultFilter::default(),
                pace: Pace::Rate(2),
                classes: vec![status],
                all: false,
            };
            bench.core.add_drop_rule(rule).unwrap();
            // At this pace the rule hits the first attempt and not the second.
            let transmit = bench.send(P1);
            assert_eq!(
                bench.answer(&transmit, MessageStatus::Ok),
                Step::Ended(Ok(()))
            );
            let (resends, succeeded, _) = resends(&bench);
            assert!(resends >= 1);
            assert_eq!(succeeded, 1, "{status:?}");
        }
    }
}

#[test]
pub(super) fn t_h11_a_failed_ping_of_ourselves_is_no_evidence_against_a_peer() {
    let mut bench = Bench::new(&[N1, N2]).with(|globals| globals.own_nids_by_loopback = false);
    // This is the state after a discovery of the node itself.
    bench.peer(&[N1, N2]);
    let transmit = bench.send(N2);
    assert_ne!(transmit.ni, NiId::LOOPBACK);
    let (source, target) = bench.pair(&transmit);
    bench.failed(&transmit, MessageStatus::NetworkTimeout);
    assert!(bench.in_recovery(&source));
    let own = bench.peer_ni(nid(&target));
    assert_eq!((own.health, own.recovery.at), (Health::MAX, None));
}

#[test]
pub(super) fn t_h18_health_set_by_hand_sets_the_status() {
    let mut bench = Bench::new(&[N1]).with(|globals| globals.health_sensitivity = 0);
    let ni = bench.ni(N1).id;
    let up = |bench: &Bench| bench.core.nis().nth(1).unwrap().up;
    bench
        .core
        .set_ni_health(ni, Health::ZERO, bench.now)
        .unwrap();
    assert!(!up(&bench));
    let half = Health::new(500).unwrap();
    bench.core.set_ni_health(ni, half, bench.now).unwrap();
    assert!(!up(&bench), "in between the status stays");
    bench
        .core
        .set_ni_health(ni, Health::MAX, bench.now)
        .unwrap();
    assert!(up(&bench));
}

#[test]
pub(super) fn t_h20_a_link_that_goes_down_takes_its_interface_down_and_no_other() {
    let mut bench = Bench::new(&[N1, N2]);
    let ni = bench.ni(N2).id;
    let up = |bench: &Bench| -> Vec<bool> { bench.core.nis().map(|ni| ni.up).collect() };
    bench.core.set_ni_fatal(ni, true, bench.now);
    assert_eq!(up(&bench), [true, true, false]);
    assert_eq!(bench.health(N2), 1000, "a link is no matter of health");
    bench.core.set_ni_fatal(ni, false, bench.now);
    assert_eq!(up(&bench), [true; 3]);
}

#[test]
pub(super) fn t_h23_health_of_peers_is_set_by_nid_and_for_all() {
    let mut bench = Bench::two_by_two();
    let now = bench.now;
    let healths = |bench: &Bench| [bench.health(P1), bench.health(P2)];
    bench
        .core
        .set_peer_ni_health(nid(P1), Health::ZERO, now)
        .unwrap();
    assert_eq!(healths(&bench), [0, 1000]);
    let half = Health::new(500).unwrap();
    bench.core.set_all_peer_health(half, now);
    assert_eq!(healths(&bench), [500, 500]);
    bench.core.set_all_peer_health(Health::MAX, now);
    assert_eq!(healths(&bench), [1000, 1000]);
    let unknown = bench.core.set_peer_ni_health(nid(N2), half, now);
    assert_eq!(unknown.unwrap_err().errno(), Errno::ENOENT);
}

#[test]
pub(super) fn t_h25_without_sensitivity_nothing_changes_and_nothing_recovers() {
    let mut bench = Bench::two_by_two();
    let globals = Globals {
        health_sensitivity: 0,
        ..net::globals()
    };
    bench.core.change_globals(globals, bench.now).unwrap();
    assert_eq!(bench.core.ground().config.globals.retry_count, 0);
    assert_eq!(
        bench.core.ground().config.globals.lnd_timeout(),
        Duration::from_secs(149)
    );
    for status in MessageStatus::ALL.into_iter().skip(1) {
        assert_eq!(fail_all(&mut bench, status), 1, "{status:?}");
    }
    assert_eq!(lowest(&bench), (1000, 1000));
    assert!(![N1, N2, P1, P2].iter().any(|text| bench.in_recovery(text)));
}

#[test]
pub(super) fn t_h26_without_retries_nothing_is_sent_again_and_none_has_failed() {
    let mut bench = Bench::two_by_two().with(|globals| globals.retry_count = 0);
    assert_eq!(fail_all(&mut bench, MessageStatus::LocalTimeout), 1);
    assert_eq!(resends(&bench), (0, 0, 0));
}

/// Returns the result of a change of the parameters.
fn changed(from: fn(&mut Globals), to: fn(&mut Globals)) -> Result<Globals, ConfigError> {
    let mut bench = Bench::new(&[N1]).with(from);
    let mut globals = bench.core.ground().config.globals;
    to(&mut globals);
    bench.core.change_globals(globals, bench.now)?;
    Ok(bench.core.ground().config.globals)
}

#[test]
pub(super) fn t_h27_resends_without_health_are_refused() {
    let off = |globals: &mut Globals| (globals.health_sensitivity, globals.retry_count) = (0, 0);
    let error = changed(off, |globals| globals.retry_count = 1).unwrap_err();
    assert_eq!(error, ConfigError::RetryWithoutHealth);
    assert_eq!(error.errno(), Errno::EINVAL);
}

#[test]
pub(super) fn t_h28_a_transaction_shorter_than_its_retries_is_refused() {
    let error = changed(
        |globals| globals.retry_count = 3,
        |globals| globals.transaction_timeout = Duration::from_secs(3),
    );
    assert!(matches!(error, Err(ConfigError::TimeoutTooShort(_))));
    let error = changed(
        |globals| globals.transaction_timeout = Duration::from_secs(5),
        |globals| globals.retry_count = 6,
    );
    assert_eq!(error, Err(ConfigError::TooManyRetries(6)));
}

#[test]
pub(super) fn t_h29_the_lnd_timeout_follows_from_timeout_and_retries() {
    let timeout = |seconds, retry_count| {
        let globals = Globals {
            transaction_timeout: Duration::from_secs(seconds),
            retry_count,
            ..net::globals()
        };
        globals.lnd_timeout().as_secs()
    };
    assert_eq!(timeout(10, 2), 3);
    assert_eq!(timeout(150, 2), 49);
    assert_eq!(timeout(5, 5), 1);
    let equal = changed(
        |globals| globals.transaction_timeout = Duration::from_secs(5),
        |globals| globals.retry_count = 5,
    );
    assert_eq!(equal.unwrap().lnd_timeout(), Duration::from_secs(1));
}

#[test]
pub(super) fn t_h30_more_sensitivity_than_full_health_is_refused() {
    let error = changed(|_| {}, |globals| globals.health_sensitivity = 1001).unwrap_err();
    assert_eq!(error, ConfigError::SensitivityOutOfRange(1001));
    assert!(changed(|_| {}, |globals| globals.health_sensitivity = 1000).is_ok());
}

/// Creates a node with a peer from which messages were received, and which drops every response.
fn swallowed() -> Net {
    let mut net = Net::pair();
    net.attach(0, any_me(), open_md(8));
    net.put(1, b"x", false, "10.0.0.1@tcp");
    net.run();
    net.take_events(0);
    net.nodes[1].alive = false;
    net.keep_answers = true;
    net
}

fn timed_out(net: &mut Net) -> (Vec<EventKind>, u64, u16) {
    net.run();
    while let Some(transmit) = net.nodes[0].kept.pop_front() {
        let now = net.now;
        net.core(0).sent(transmit.tx, MessageStatus::Ok, now);
    }
    net.advance(Duration::from_secs(150));
    let count = net.core(0).counters().response_timeout_count;
    let health = net.core(0).peers().next().unwrap().nis[0].health.health;
    (net.kinds(0), count, health.value())
}

#[test]
pub(super) fn t_h31_a_swallowed_ack_or_reply_is_a_timeout_and_costs_the_next_hop() {
    use EventKind::{Send, Timeout, Unlink};
    let mut net = swallowed();
    net.put(0, b"x", true, "10.0.0.2@tcp");
    assert_eq!(timed_out(&mut net), (vec![Send, Timeout, Unlink], 1, 900));
    let mut net = swallowed();
    net.get(0, 4, "10.0.0.2@tcp");
    assert_eq!(timed_out(&mut net), (vec![Send, Timeout, Unlink], 1, 900));
}

#[test]
pub(super) fn t_h32_response_tracking_decides_what_is_waited_for() {
    for (setting, put, get) in [
        (0, false, false),
        (1, false, true),
        (2, true, false),
        (3, true, true),
    ] {
        let timeouts = |start: fn(&mut Net)| {
            let mut net = swallowed();
            let mut globals = net.core(0).ground().config.globals;
            globals.response_tracking = setting;
            let now = net.now;
            net.core(0).set_globals(globals, now);
            start(&mut net);
            timed_out(&mut net).1 == 1
        };
        let of_put = timeouts(|net| _ = net.put(0, b"x", true, "10.0.0.2@tcp"));
        let of_get = timeouts(|net| _ = net.get(0, 4, "10.0.0.2@tcp"));
        assert_eq!((of_put, of_get), (put, get), "response_tracking {setting}");
    }
    // The node always waits for the answer to its own ping.
    let mut bench = single_rail().with(|globals| globals.response_tracking = 0);
    let health = Health::new(500).unwrap();
    bench
        .core
        .set_peer_ni_health(nid(P1), health, bench.now)
        .unwrap();
    bench.wait(1, MessageStatus::Ok);
    assert_eq!(bench.core.counters().rst_alloc, 1);
}

fn with_md(bench: &mut Bench) -> (MdHandle, Transmit) {
    let md = MdSpec {
        options: MdOptions::empty(),
        threshold: Some(1),
        ..super::net::one_shot(4)
    };
    let md = bench.core.md_bind(md).unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(nid(P1)),
        portal: 30,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    bench.core.put(put, bench.now).unwrap();
    match bench.step() {
        Step::Sent(transmit) => (md, *transmit),
        Step::Ended(result) => panic!("{result:?}"),
    }
}

#[test]
pub(super) fn t_h33_a_descriptor_unlinked_while_its_message_waits_cancels_the_resend() {
    let mut bench = Bench::two_by_two();
    let (md, transmit) = with_md(&mut bench);
    let now = bench.now;
    bench
        .core
        .sent(transmit.tx, MessageStatus::LocalDropped, now);
    bench.core.md_unlink(md, now).unwrap();
    assert_eq!(bench.step(), Step::Ended(Err(Errno::ECANCELED)));
    assert_eq!(bench.events.len(), 0);
    assert_eq!(resends(&bench).0, 0);
    assert!(bench.core.is_idle());
}

#[test]
pub(super) fn t_h33_a_descriptor_unlinked_while_the_lnd_has_its_message_is_not_sent_again() {
    let mut bench = Bench::two_by_two();
    let (md, transmit) = with_md(&mut bench);
    bench.core.md_unlink(md, bench.now).unwrap();
    bench.failed(&transmit, MessageStatus::LocalDropped);
    assert_eq!(resends(&bench), (0, 0, 0));
    assert!(bench.core.is_idle());
}

#[test]
pub(super) fn t_h34_a_message_that_fails_twice_and_then_works_has_one_send_event() {
    let mut bench = Bench::new(&[N1, N2, "10.0.0.3@tcp"]);
    bench.peer(&[P1, P2, "10.0.1.3@tcp"]);
    let (md, first) = with_md(&mut bench);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    assert!(bench.core.traffic().mds.get(md).is_some_and(|md| !md.dead));
    let third = bench.retried(&second, MessageStatus::RemoteDropped);
    assert!(bench.core.traffic().mds.get(md).is_some_and(|md| !md.dead));
    assert_eq!(third.payload, first.payload, "the same memory");
    bench.core.sent(third.tx, MessageStatus::Ok, bench.now);
    assert_eq!(bench.step(), Step::Ended(Ok(())));
    assert!(bench.events.is_empty(), "exactly one event");
    assert_eq!(resends(&bench), (2, 1, 0));
    assert!(bench.core.traffic().mds.get(md).is_none());
}

#[test]
pub(super) fn t_h35_a_failure_after_the_deadline_says_nothing() {
    let mut bench = Bench::two_by_two();
    let transmit = bench.send(P1);
    bench.now = bench.now + Duration::from_secs(153);
    bench.failed(&transmit, MessageStatus::LocalDropped);
    assert_eq!(lowest(&bench), (1000, 1000));
    assert_eq!(resends(&bench), (0, 0, 0));
    let counters = bench.core.counters();
    assert_eq!(
        (counters.late_count, counters.late_nanoseconds),
        (1, 3_000_000_000)
    );
}

#[test]
pub(super) fn t_h36_health_does_not_fall_below_zero() {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1]);
    for own in [N1, N2] {
        bench.set_health(own, 50);
    }
    fail_all(&mut bench, MessageStatus::LocalError);
    assert_eq!(lowest(&bench).0, 0);
    assert_eq!(bench.core.nis().filter(|ni| !ni.up).count(), 1);
}

#[test]
pub(super) fn t_h37_health_does_not_rise_above_full() {
    let mut bench = single_rail();
    bench.set_health(N1, 950);
    bench.carry(P1);
    assert_eq!(bench.health(N1), 1000);
}

#[test]
pub(super) fn t_h38_a_peer_never_heard_of_loses_health_and_is_not_pinged() {
    let mut bench = Bench::new(&[N1]);
    bench
        .core
        .add_peer(nid(P1), &[nid(P1), nid(P2)], true)
        .unwrap();
    let transmit = bench.send(P1);
    bench.failed(&transmit, MessageStatus::RemoteError);
    assert_eq!(bench.health(P1), 900);
    assert!(!bench.in_recovery(P1));
}

#[test]
pub(super) fn t_h40_a_message_from_a_gateway_restores_it_at_once() {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp9", P1, None, 0);
    bench.set_health(P1, 300);
    bench.hear(P1, N1);
    assert_eq!(bench.health(P1), 1000);
    // Another peer gains one step of health.
    bench.peer(&[P2]);
    bench.set_health(P2, 300);
    bench.hear(P2, N1);
    assert_eq!(bench.health(P2), 400);
}

#[test]
pub(super) fn t_h41_each_class_is_counted_as_itself() {
    let counts = |bench: &Bench| -> Vec<u64> {
        let counters = bench.core.counters();
        MessageStatus::ALL
            .iter()
            .skip(1)
            .map(|&status| counters.ended(status))
            .collect()
    };
    let one = |at: usize| -> Vec<u64> { (0..10).map(|n| u64::from(n == at)).collect() };
    for (at, &status) in MessageStatus::ALL[1..].iter().enumerate() {
        let mut bench = failing(vec![status]);
        assert!(matches!(
            bench.start(None, P1, SendHints::default()),
            Step::Ended(Err(_))
        ));
        assert_eq!(counts(&bench), one(at), "{status:?}");
    }
    let mut bench = failing(MessageStatus::ALL[1..].to_vec());
    assert!(matches!(
        bench.start(None, P1, SendHints::default()),
        Step::Ended(Err(_))
    ));
    assert_eq!(counts(&bench).iter().sum::<u64>(), 1, "one of the ten");
}

/// Creates a node of one rail that fails every message with one of these classes.
fn failing(classes: Vec<MessageStatus>) -> Bench {
    let mut bench = single_rail();
    let rule = DropRule {
        filter: FaultFilter::default(),
        pace: Pace::Rate(1),
        classes,
        all: false,
    };
    bench.core.add_drop_rule(rule).unwrap();
    bench
}

#[test]
pub(super) fn t_h42_an_interface_has_the_nodes_lnd_timeout_unless_it_has_its_own() {
    let mut bench = single_rail();
    let ni = bench.ni(N1).id;
    let shown = |bench: &Bench| bench.core.nis().nth(1).unwrap().lnd_timeout.as_secs();
    assert_eq!(shown(&bench), 49);
    bench
        .core
        .set_ni_lnd_timeout(ni, Some(Duration::from_secs(50)))
        .unwrap();
    assert_eq!(shown(&bench), 50);
    bench.core.set_ni_lnd_timeout(ni, None).unwrap();
    assert_eq!(shown(&bench), 49);
}

#[test]
fn t_h43_lustre_the_lnds_own_timeout_is_shown_and_makes_the_deadline() {
    let mut bench = single_rail().with(LUSTRE);
    let ni = bench.ni(N1).id;
    let timeout = Duration::from_secs(65);
    bench.core.set_ni_lnd_timeout(ni, Some(timeout)).unwrap();
    assert_eq!(bench.core.nis().nth(1).unwrap().lnd_timeout, timeout);
    let transmit = bench.send(P1);
    assert_eq!(
        transmit.deadline,
        bench.now + Duration::from_secs(65 * 3 + 1)
    );
}

#[test]
pub(super) fn t_h35_a_failure_after_the_deadline_is_counted_as_late_and_under_no_class() {
    let mut bench = Bench::two_by_two();
    let transmit = bench.send(P1);
    bench.now = bench.now + Duration::from_secs(150);
    bench.failed(&transmit, MessageStatus::LocalDropped);
    let counters = bench.core.counters();
    assert_eq!(counters.ended(MessageStatus::LocalDropped), 0);
    assert_eq!(counters.late_count, 1);
    assert_eq!(bench.ni(N1).health_stats, NiHealthStats::default());
}

#[test]
pub(super) fn t_h45_ten_pings_of_ourselves_have_a_round_trip_time_until_the_reset() {
    let mut net = Net::new();
    net.add(&[N1, N2]);
    let now = net.now;
    let globals = Globals {
        own_nids_by_loopback: false,
        ..net::globals()
    };
    net.core(0).set_globals(globals, now);
    let delay = DelayRule {
        filter: FaultFilter::default(),
        pace: Pace::Rate(1),
        latency: Duration::from_millis(3),
    };
    net.core(0).add_delay_rule(delay).unwrap();
    net.attach(0, any_me(), open_md(64));
    for _ in 0..10 {
        net.get(0, 64, N1);
        net.advance(Duration::from_secs(1));
        net.take_events(0);
    }
    let rtts = |net: &mut Net| {
        let ours: Vec<Latency> = net.core(0).nis().map(|ni| ni.latency.get_rtt).collect();
        let peers = net.core(0).peers().flat_map(|peer| peer.nis);
        let theirs: Vec<Latency> = peers.map(|ni| ni.latency.get_rtt).collect();
        (ours, theirs)
    };
    let (ours, theirs) = rtts(&mut net);
    let samples = |list: &[Latency]| list.iter().map(|rtt| rtt.samples).sum::<u64>();
    assert_eq!((samples(&ours), samples(&theirs)), (10, 10));
    let taken = ours.iter().chain(&theirs).filter(|rtt| rtt.samples > 0);
    assert!(
        taken
            .clone()
            .all(|rtt| rtt.min >= 3_000_000 && rtt.max >= rtt.average())
    );
    net.core(0).reset_stats();
    let (ours, theirs) = rtts(&mut net);
    assert!(
        ours.into_iter()
            .chain(theirs)
            .all(|rtt| rtt == Latency::default())
    );
    assert_eq!(net.core(0).counters().send_count, 0);
}

#[test]
fn the_last_attempt_of_a_put_counts_for_its_latency_on_its_own_path() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    bench.now = bench.now + Duration::from_secs(7);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    bench.now = bench.now + Duration::from_secs(2);
    bench.answer(&second, MessageStatus::Ok);
    let egress = |bench: &Bench, text: &str| {
        let ni = bench.core.nis().find(|ni| ni.nid == nid(text)).unwrap();
        (ni.latency.put_egress.samples, ni.latency.put_egress.max)
    };
    let (before, after) = (bench.pair(&first).0, bench.pair(&second).0);
    assert_eq!(egress(&bench, &before), (0, 0));
    assert_eq!(egress(&bench, &after), (1, 2_000_000_000));
    let spread = |bench: &Bench, text: &str| {
        let ni = bench.core.nis().find(|ni| ni.nid == nid(text)).unwrap();
        let ranges = ni.histograms.put_egress.ranges();
        ranges.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    assert_eq!(spread(&bench, &before), []);
    assert_eq!(spread(&bench, &after), [(Some(2_000_000_000), 1)]);
    bench.core.reset_stats();
    assert_eq!(spread(&bench, &after), [], "as the other times");
}
