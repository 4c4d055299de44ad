//! The cases T-H about recovery.

use std::time::Duration;

use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const O1: &str = "10.9.0.1@o2ib";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";

fn seconds(sent: &[(u64, String)], to: &str) -> Vec<u64> {
    let to = sent.iter().filter(|(_, hop)| hop == to);
    to.map(|&(second, _)| second).collect()
}

/// Creates two interfaces on two nets. The first has health 0, and none of its pings succeeds.
fn ill_ni(change: fn(&mut Globals)) -> Bench {
    let mut bench = Bench::new(&[N1, O1]).with(change);
    let ni = bench.ni(N1).id;
    bench
        .core
        .set_ni_health(ni, Health::ZERO, bench.now)
        .unwrap();
    bench
}

#[test]
pub(super) fn t_h12_pings_of_an_ill_interface_double_their_pauses_and_go_on() {
    let mut bench = ill_ni(|globals| globals.recovery_limit = Duration::from_secs(10));
    let sent = bench.wait(30, MessageStatus::LocalDropped);
    assert_eq!(seconds(&sent, N1), [0, 2, 6, 14, 30]);
    assert!(bench.in_recovery(N1), "the limit is for peers");
}

#[test]
pub(super) fn t_h13_pauses_grow_to_the_longest_one() {
    let mut bench = ill_ni(|globals| globals.max_recovery_ping_interval = Duration::from_secs(4));
    let sent = bench.wait(18, MessageStatus::LocalDropped);
    assert_eq!(seconds(&sent, N1), [0, 2, 6, 10, 14, 18]);
}

/// Creates a peer of one interface from which a message was just received.
fn with_peer(change: fn(&mut Globals)) -> Bench {
    let mut bench = Bench::new(&[N1, N2]).with(change);
    bench.peer(&[P1]);
    bench
}

#[test]
pub(super) fn t_h14_a_silent_peer_is_given_up_after_the_limit() {
    let mut bench = with_peer(|globals| globals.recovery_limit = Duration::from_secs(10));
    bench
        .core
        .set_peer_ni_health(nid(P1), Health::ZERO, bench.now)
        .unwrap();
    bench.wait(9, MessageStatus::RemoteDropped);
    assert!(bench.in_recovery(P1));
    bench.wait(11, MessageStatus::RemoteDropped);
    assert!(!bench.in_recovery(P1));
    assert_eq!(bench.peer_ni(nid(P1)).recovery.ping_count, 0);
}

#[test]
pub(super) fn t_h15_a_peer_that_answers_is_well_after_one_answer_a_step() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    net.add(&["10.0.0.2@tcp"]);
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.attach(0, any_me(), open_md(8));
    net.put(1, b"x", false, "10.0.0.1@tcp");
    net.run();
    let (now, peer) = (net.now, nid("10.0.0.2@tcp"));
    let health = |net: &mut Net| {
        let peer_ni = net.core(0).fabric().peers.by_nid(peer).unwrap();
        (peer_ni.health.value(), peer_ni.recovery.at.is_some())
    };
    net.core(0)
        .set_peer_ni_health(peer, Health::new(500).unwrap(), now)
        .unwrap();
    assert_eq!(health(&mut net), (500, true));
    // An answer resets the pauses, so pings follow after 1, 2, 2, 2, 2 seconds.
    net.advance(Duration::from_secs(9));
    assert_eq!(health(&mut net), (1000, false));
    let pings = net
        .trace
        .iter()
        .filter(|(node, header)| *node == 0 && matches!(header.body, lnet_wire::Body::Get(_)));
    assert_eq!(pings.count(), 5);
    net.take_events(1);
    net.assert_at_rest();
}

#[test]
pub(super) fn t_h16_pings_of_a_silent_peer_reach_the_longest_pause() {
    let mut bench =
        with_peer(|globals| globals.max_recovery_ping_interval = Duration::from_secs(4));
    bench
        .core
        .set_peer_ni_health(nid(P1), Health::ZERO, bench.now)
        .unwrap();
    bench.wait(2, MessageStatus::RemoteDropped);
    assert_eq!(bench.peer_ni(nid(P1)).recovery.ping_count, 1);
    bench.wait(14, MessageStatus::RemoteDropped);
    assert!(bench.peer_ni(nid(P1)).recovery.ping_count >= 4);
}

#[test]
pub(super) fn t_h17_an_ill_interface_is_pinged_from_a_healthy_one() {
    let mut net = Net::new();
    net.add(&[N1, N2]);
    let (now, n1) = (net.now, nid(N1));
    // Messages of n1 to itself fail; one such message has failed.
    net.core(0)
        .add_drop_rule(DropRule {
            filter: FaultFilter {
                source: NidFilter::Nid(n1),
                destination: NidFilter::Nid(n1),
                ..FaultFilter::default()
            },
            pace: Pace::Rate(1),
            classes: vec![MessageStatus::LocalDropped],
            all: false,
        })
        .unwrap();
    let ni = net.nodes[0].nis[0].0;
    let ill = Health::new(900).unwrap();
    net.core(0).set_ni_health(ni, ill, now).unwrap();
    net.advance(Duration::from_secs(5));
    let healths: Vec<u16> = net
        .core(0)
        .nis()
        .skip(1)
        .map(|ni| ni.health.health.value())
        .collect();
    assert_eq!(healths, [1000, 1000]);
    let rules: Vec<u64> = net
        .core(0)
        .drop_rules()
        .map(|(_, stats)| stats.struck)
        .collect();
    assert_eq!(rules, [0], "no ping went from n1 to n1");
}

#[test]
pub(super) fn t_h19_a_recovery_ping_that_fails_here_takes_the_interface_down() {
    let mut bench = Bench::new(&[N1, O1]);
    let ni = bench.ni(N1).id;
    let up = |bench: &Bench| -> Vec<bool> { bench.core.nis().skip(1).map(|ni| ni.up).collect() };
    let health = Health::new(100).unwrap();
    bench.core.set_ni_health(ni, health, bench.now).unwrap();
    bench.wait(0, MessageStatus::LocalTimeout);
    assert_eq!(bench.health(N1), 0);
    assert_eq!(up(&bench), [false, true]);
    let health = Health::new(900).unwrap();
    bench.core.set_ni_health(ni, health, bench.now).unwrap();
    bench.wait(3, MessageStatus::Ok);
    assert_eq!(up(&bench), [true, true]);
}

#[test]
pub(super) fn t_h39_a_peer_that_was_given_up_recovers_when_it_speaks() {
    let mut bench = with_peer(|globals| globals.recovery_limit = Duration::from_secs(10));
    bench
        .core
        .set_peer_ni_health(nid(P1), Health::ZERO, bench.now)
        .unwrap();
    bench.wait(25, MessageStatus::RemoteDropped);
    assert!(!bench.in_recovery(P1));
    bench.hear(P1, N1);
    assert_eq!(bench.health(P1), 100);
    assert!(bench.in_recovery(P1));
}

// [HEALTH-22]
#[test]
pub(super) fn a_failure_is_followed_by_a_ping_after_a_second() {
    let mut bench = Bench::two_by_two();
    let transmit = bench.send(P1);
    bench.failed(&transmit, MessageStatus::RemoteError);
    let sent = bench.wait(15, MessageStatus::RemoteDropped);
    assert_eq!(seconds(&sent, P1), [1, 3, 7, 15]);
    assert_eq!(seconds(&sent, P2), [0; 0]);
    assert_eq!(
        bench.health(P1),
        900,
        "a failed recovery ping costs nothing"
    );
}

// [RECOV-3]
#[test]
pub(super) fn one_ping_at_a_time_and_the_next_when_it_is_over() {
    let mut bench = Bench::two_by_two().with(|globals| {
        globals.transaction_timeout = Duration::from_secs(20);
    });
    bench
        .core
        .set_peer_ni_health(nid(P1), Health::new(500).unwrap(), bench.now)
        .unwrap();
    // The ping is sent but never answered: the second ping follows when the first times out.
    let sent = bench.wait(22, MessageStatus::Ok);
    assert_eq!(seconds(&sent, P1), [1, 21]);
    assert_eq!(bench.health(P1), 400, "a missing answer counts");
}

#[test]
pub(super) fn an_interface_of_ours_gains_from_every_message_of_its_ping() {
    let mut net = Net::new();
    net.add(&[N1]);
    let (now, ni) = (net.now, net.nodes[0].nis[0].0);
    let globals = Globals {
        health_sensitivity: 50,
        ..net::globals()
    };
    net.core(0).set_globals(globals, now);
    let health = Health::new(700).unwrap();
    net.core(0).set_ni_health(ni, health, now).unwrap();
    net.advance(Duration::ZERO);
    let ni = net.core(0).nis().nth(1).unwrap();
    assert_eq!(
        ni.health.health.value(),
        950,
        "two sent, two received, and the answer"
    );
}

/// Creates a local interface and a peer interface that are both in recovery.
fn all_ill() -> Bench {
    let mut bench = with_peer(|_| {});
    let ill = Health::new(500).unwrap();
    let ni = bench.ni(N1).id;
    bench.core.set_ni_health(ni, ill, bench.now).unwrap();
    bench
        .core
        .set_peer_ni_health(nid(P1), ill, bench.now)
        .unwrap();
    bench
}

#[test]
pub(super) fn without_sensitivity_recovery_ends_and_with_it_goes_on() {
    let mut bench = all_ill();
    let globals = bench.core.ground().config.globals;
    let off = Globals {
        health_sensitivity: 0,
        ..globals
    };
    bench.core.change_globals(off, bench.now).unwrap();
    assert!(!bench.in_recovery(N1) && !bench.in_recovery(P1));
    assert_eq!(bench.wait(10, MessageStatus::LocalDropped), []);
    // A value that an administrator sets meanwhile waits, too.
    let ni = bench.ni(N2).id;
    bench
        .core
        .set_ni_health(ni, Health::ZERO, bench.now)
        .unwrap();
    assert_eq!(bench.wait(10, MessageStatus::LocalDropped), []);
    bench.core.change_globals(globals, bench.now).unwrap();
    let sent = bench.wait(2, MessageStatus::LocalDropped);
    for ill in [N1, N2, P1] {
        assert_eq!(seconds(&sent, ill), [1], "{ill}");
    }
}

#[test]
pub(super) fn a_recovery_that_ended_leaves_no_pause_to_the_next_one() {
    let mut bench = ill_ni(|_| {});
    bench.wait(10, MessageStatus::LocalDropped);
    assert!(bench.ni(N1).recovery.ping_count > 2);
    let ni = bench.ni(N1).id;
    bench
        .core
        .set_ni_health(ni, Health::MAX, bench.now)
        .unwrap();
    assert_eq!(bench.ni(N1).recovery.ping_count, 0);
    bench.peer(&[P1]);
    let transmit = bench.send(P1);
    bench.failed(&transmit, MessageStatus::LocalError);
    let sent = bench.wait(1, MessageStatus::LocalDropped);
    assert_eq!(seconds(&sent, N1), [1]);
}
