//! The cases T-S without resends: first attempts.

use std::time::Duration;

use lnet_types::ProcessId;

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";
const O1: &str = "10.9.0.1@o2ib";
const Q1: &str = "10.9.1.1@o2ib";

/// Creates n1 and n2, and a Multi-Rail peer with one interface.
fn two_by_one() -> Bench {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1]);
    bench
}

/// Creates both ends with an interface on tcp and one on o2ib.
fn two_nets() -> Bench {
    let mut bench = Bench::new(&[N1, O1]);
    bench.peer(&[P1, Q1]);
    bench
}

#[test]
pub(super) fn t_s01_equal_interfaces_take_turns() {
    assert_eq!(two_by_one().sources(4, P1), [N1, N2, N1, N2]);
}

#[test]
pub(super) fn t_s02_more_credits_win() {
    let mut bench = two_by_one();
    bench.use_credits(N1, 1);
    assert_eq!(bench.carry(P1).0, N2);
}

#[test]
pub(super) fn t_s03_distance_comes_before_credits() {
    let mut bench = two_by_one();
    bench.distance(N1, 10);
    bench.distance(N2, 20);
    bench.use_credits(N1, 5);
    assert_eq!(bench.sources(3, P1), [N1; 3]);
}

#[test]
pub(super) fn t_s04_distances_within_numa_range_are_equal() {
    let mut bench = two_by_one().with(|globals| globals.numa_range = 20);
    bench.distance(N1, 10);
    bench.distance(N2, 20);
    assert_eq!(bench.sources(2, P1), [N1, N2]);
}

#[test]
pub(super) fn t_s05_health_comes_before_distance_and_credits() {
    let mut bench = two_by_one();
    bench.distance(N1, 10);
    bench.distance(N2, 20);
    bench.use_credits(N2, 5);
    bench.set_health(N1, 900);
    assert_eq!(bench.carry(P1).0, N2);
}

#[test]
pub(super) fn t_s06_an_interface_without_fatal_error_comes_before_health() {
    let mut bench = two_by_one();
    bench.ni(N1).fatal = true;
    bench.set_health(N2, 0);
    assert_eq!(bench.carry(P1).0, N2);
}

#[test]
pub(super) fn t_s07_if_all_are_fatal_the_healthier_one_sends() {
    let mut bench = two_by_one();
    (bench.ni(N1).fatal, bench.ni(N2).fatal) = (true, true);
    bench.set_health(N1, 500);
    assert_eq!(bench.carry(P1).0, N2);
}

#[test]
pub(super) fn t_s08_a_rule_comes_before_distance() {
    let mut bench = two_by_one();
    bench.distance(N1, 90);
    bench.distance(N2, 10);
    bench.rule(N1, "", "", Some(0));
    assert_eq!(bench.sources(2, P1), [N1; 2]);
}

#[test]
pub(super) fn t_s09_health_of_a_peer_ni_comes_before_rules() {
    let mut bench = Bench::two_by_two();
    bench.rule("", P1, "", Some(0));
    bench.rule("10.0.0.*@tcp", P1, "", None);
    bench.set_health(P1, 900);
    assert_eq!(bench.hops(3, P1), [P2; 3]);
}

#[test]
pub(super) fn t_s10_the_lower_number_is_the_better_priority_of_a_peer_ni() {
    let mut bench = Bench::two_by_two();
    bench.rule("", P1, "", Some(1));
    bench.rule("", P2, "", Some(0));
    assert_eq!(bench.hops(2, P1), [P2; 2]);
}

#[test]
pub(super) fn t_s11_a_pair_comes_before_credits() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1, P2]);
    bench.rule(N1, P2, "", None);
    bench.use_credits(P2, 3);
    assert_eq!(bench.carry(P1), (N1.into(), P2.into()));
}

#[test]
pub(super) fn t_s12_a_pair_does_nothing_for_another_local_interface() {
    let mut bench = Bench::two_by_two();
    bench.rule(N1, P2, "", None);
    bench.use_credits(P2, 3);
    bench.use_credits(N1, 1);
    assert_eq!(bench.carry(P1), (N2.into(), P1.into()));
}

#[test]
pub(super) fn t_s13_two_common_nets_take_turns() {
    assert_eq!(two_nets().sources(4, P1), [N1, O1, N1, O1]);
}

#[test]
pub(super) fn t_s14_health_of_a_peer_net_comes_before_rules() {
    let mut bench = two_nets();
    bench.rule("", "tcp", "", Some(0));
    bench.set_health(P1, 900);
    assert_eq!(bench.sources(2, P1), [O1; 2]);
}

#[test]
pub(super) fn t_s15_health_of_a_local_net_comes_before_its_rule() {
    let mut bench = two_nets();
    bench.rule("tcp", "", "", Some(0));
    bench.set_health(N1, 900);
    assert_eq!(bench.sources(2, P1), [O1; 2]);
}

#[test]
pub(super) fn t_s16_the_rule_of_a_peer_net_comes_before_health_of_the_local_net() {
    let mut bench = two_nets();
    bench.rule("", "tcp", "", Some(0));
    bench.set_health(N1, 900);
    assert_eq!(bench.sources(2, P1), [N1; 2]);
}

#[test]
fn t_s17_lustre_a_given_source_keeps_the_destination_however_ill() {
    let mut bench = Bench::two_by_two().with(LUSTRE);
    bench.set_health(P1, 0);
    assert_eq!(bench.carry_from(Some(N1), P1), (N1.into(), P1.into()));
}

#[test]
fn t_s18_design_a_given_source_takes_the_peers_best_interface() {
    for setting in [PAIR, LITERAL] {
        let mut bench = Bench::two_by_two().with(setting);
        bench.set_health(P1, 0);
        assert_eq!(bench.carry_from(Some(N1), P1), (N1.into(), P2.into()));
    }
    // A resend takes another interface, too.
    let mut bench = Bench::two_by_two();
    let first = bench.send_from(Some(N1), P1);
    assert_eq!(bench.pair(&first).1, P1);
    let second = bench.retried(&first, MessageStatus::RemoteDropped);
    assert_eq!(bench.pair(&second), (N1.into(), P2.into()));
}

#[test]
pub(super) fn t_s19_a_source_that_is_not_ours_fails() {
    let stranger = Some("10.0.0.77@tcp");
    let mut design = Bench::two_by_two().with(DESIGN);
    assert_eq!(design.refused(stranger, P1), Errno::EHOSTUNREACH);
    let mut lustre = Bench::two_by_two().with(LUSTRE);
    assert_eq!(lustre.refused(stranger, P1), Errno::EINVAL);
}

#[test]
fn t_s29_design_a_given_source_that_is_down_fails() {
    let mut bench = Bench::two_by_two();
    bench.ni(N1).fatal = true;
    assert_eq!(bench.refused(Some(N1), P1), Errno::ENETDOWN);
    // The check comes before the destination is looked up or created.
    assert_eq!(bench.refused(Some(N1), "10.0.7.7@tcp"), Errno::ENETDOWN);
    assert!(
        bench
            .core
            .fabric()
            .peers
            .by_nid(nid("10.0.7.7@tcp"))
            .is_none()
    );
}

#[test]
fn t_s30_lustre_a_given_source_that_is_down_sends() {
    let mut bench = Bench::two_by_two().with(LUSTRE);
    bench.ni(N1).fatal = true;
    assert_eq!(bench.carry_from(Some(N1), P1).0, N1);
}

#[test]
pub(super) fn t_s33_without_discovery_nothing_waits_and_unknown_peers_are_single_rail() {
    let mut bench = Bench::new(&[N1]);
    assert_eq!(bench.carry(P1), (N1.into(), P1.into()));
    let peer = bench.core.peers().next().unwrap();
    assert_eq!((peer.primary, peer.multi_rail), (nid(P1), false));
}

#[test]
pub(super) fn t_s34_a_single_rail_peer_always_sees_the_same_interface() {
    let mut bench = Bench::new(&[N1, N2]);
    assert_eq!(bench.sources(5, P1), [N1; 5]);
    bench.use_credits(N1, 50);
    assert_eq!(bench.sources(5, P1), [N1; 5]);
}

#[test]
pub(super) fn t_s34_a_ping_pins_the_source_of_a_single_rail_peer_too() {
    let mut bench = Bench::new(&[N1, N2]);
    bench.ping_from(N2, P1);
    assert_eq!(bench.sources(5, P1), [N2; 5]);
    let mut bench = Bench::new(&[N1, N2]);
    bench.route("tcp5", "10.0.0.9@tcp", None, 0);
    bench.ping_from(N2, "10.5.0.1@tcp5");
    assert_eq!(bench.sources(5, "10.5.0.1@tcp5"), [N2; 5]);
}

#[test]
pub(super) fn t_s35_a_peer_that_turns_out_multi_rail_sees_all_interfaces() {
    let mut bench = Bench::new(&[N1, N2]);
    assert_eq!(bench.sources(2, P1), [N1; 2]);
    bench.peer(&[P1]);
    assert_eq!(bench.peer_ni(nid(P1)).pinned, None);
    let mut sources = bench.sources(2, P1);
    sources.sort();
    assert_eq!(sources, [N1, N2]);
}

#[test]
pub(super) fn t_s36_loopback_delivers_without_credits_from_0_lo() {
    let mut net = Net::new();
    net.add(&[N1]);
    net.attach(0, any_me(), open_md(8));
    net.keep_answers = true;
    net.put(0, b"x", false, "0@lo");
    net.run();
    let transmit = net.nodes[0].kept[0].clone();
    assert_eq!(transmit.ni, NiId::LOOPBACK);
    let lo = nid("0@lo");
    assert_eq!(
        (transmit.header.src_nid, transmit.header.dest_nid),
        (lo, lo)
    );
    let ni = net.core(0).nis().nth(1).unwrap();
    assert_eq!(ni.tx_credits, 256);
    net.answer(0, MessageStatus::Ok);
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Put]);
}

fn ping(net: &mut Net, node: usize, source: Option<&str>, to: &str) {
    let md = net.bind(node, &[0; 272], 2);
    let get = GetRequest {
        md,
        source: source.map(nid),
        target: ProcessId::lustre(nid(to)),
        portal: 0,
        match_bits: lnet_wire::PING_MATCH_BITS,
        offset: 0,
    };
    let now = net.now;
    net.core(node).get(get, now).unwrap();
    net.run();
}

#[test]
pub(super) fn t_s37_a_node_without_or_with_one_interface_pings_itself_and_keeps_nothing() {
    for nids in [&[][..], &[N1]] {
        let mut net = Net::new();
        net.add(nids);
        let md = net.bind(0, &[0; 272], 2);
        let spec = net.core(0).traffic_mut().mds.get_mut(md).unwrap();
        spec.spec.options = MdOptions::TRUNCATE;
        let get = GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(nid("0@lo")),
            portal: 0,
            match_bits: lnet_wire::PING_MATCH_BITS,
            offset: 0,
        };
        let now = net.now;
        net.core(0).get(get, now).unwrap();
        net.run();
        let kinds = net.kinds(0);
        assert_eq!(kinds, [EventKind::Send, EventKind::Reply]);
        net.assert_at_rest();
    }
}

#[test]
pub(super) fn t_s38_the_exact_own_nid_is_nearer_than_its_net() {
    let bench = Bench::new(&[N1, N2]);
    for own in [N1, N2] {
        let own = bench.core.distance(nid(own)).unwrap();
        let neighbour = bench.core.distance(nid(P1)).unwrap();
        assert_eq!((own.hops, own.order), (0, 1));
        assert!(own < neighbour);
    }
    assert_eq!(bench.core.distance(nid("0@lo")).unwrap().order, 0);
    assert!(bench.core.distance(nid(Q1)).is_err());
}

#[test]
pub(super) fn t_s39_a_ping_from_a_given_source_uses_that_interface_only() {
    let mut net = Net::new();
    net.add(&[N1, N2]);
    net.add(&[P1, P2]);
    let sent = |net: &mut Net| -> Vec<u64> {
        let nis = net.core(0).nis().skip(1);
        nis.map(|ni| ni.stats.sent.total()).collect()
    };
    for (source, expected) in [(N1, [1, 0]), (N2, [1, 1]), (N2, [1, 2]), (N1, [2, 2])] {
        ping(&mut net, 0, Some(source), P1);
        assert_eq!(sent(&mut net), expected, "{source}");
    }
}

#[test]
pub(super) fn t_s40_a_message_without_credit_at_its_deadline_is_dropped_once() {
    for multi_rail in [false, true] {
        let mut bench = Bench::new(&[N1]).with(|globals| {
            globals.transaction_timeout = Duration::from_secs(10);
            globals.retry_count = 0;
        });
        bench
            .core
            .add_peer(nid(P1), &[nid(P1), nid(P2)], multi_rail)
            .unwrap();
        let hops: &[&str] = if multi_rail { &[P1, P2] } else { &[P1] };
        for hop in hops {
            bench.use_credits(hop, 8);
        }
        let before = bench.core.counters().ended(MessageStatus::NetworkTimeout);
        let put = put(&mut bench);
        bench.core.put(put, bench.now).unwrap();
        bench.wait(11, MessageStatus::Ok);
        let counters = bench.core.counters();
        assert_eq!(counters.ended(MessageStatus::NetworkTimeout), before + 1);
        assert_eq!(bench.events.len(), 1);
        assert_eq!(bench.events[0].status, Err(Errno::ETIMEDOUT));
        let dropped: u64 = bench.core.nis().map(|ni| ni.stats.dropped.total()).sum();
        let by_peer = bench.core.peers().flat_map(|peer| peer.nis);
        let by_peer: u64 = by_peer.map(|ni| ni.stats.dropped.total()).sum();
        assert_eq!((dropped, by_peer), (1, 1), "multi-rail: {multi_rail}");
    }
}

fn put(bench: &mut Bench) -> PutRequest {
    let md = MdSpec {
        options: MdOptions::empty(),
        threshold: Some(1),
        ..super::net::one_shot(0)
    };
    PutRequest {
        md: bench.core.md_bind(md).unwrap(),
        ack: false,
        source: None,
        target: ProcessId::lustre(nid(P1)),
        portal: 30,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    }
}

#[test]
pub(super) fn t_s41_a_ping_to_a_peer_that_is_down_fails_in_time() {
    let mut net = Net::pair();
    net.nodes[1].alive = false;
    let now = net.now;
    let globals = Globals {
        transaction_timeout: Duration::from_secs(14),
        ..net::globals()
    };
    net.core(0).set_globals(globals, now);
    ping(&mut net, 0, None, "10.0.0.2@tcp");
    net.advance(Duration::from_secs(13));
    assert_eq!(net.kinds(0), [EventKind::Send]);
    net.advance(Duration::from_secs(2));
    assert_eq!(net.kinds(0), [EventKind::Timeout, EventKind::Unlink]);
    net.assert_at_rest();
}

#[test]
pub(super) fn t_s42_a_tie_everywhere_goes_to_the_first_net_of_the_peer() {
    assert_eq!(two_nets().carry(P1).0, N1);
    let mut other = Bench::new(&[N1, O1]);
    other.peer(&[Q1, P1]);
    assert_eq!(other.carry(Q1).0, O1);
}

#[test]
pub(super) fn t_s43_a_change_of_the_configuration_between_attempts_leaves_a_valid_path() {
    let mut bench = Bench::new(&[N1, N2, "10.0.0.3@tcp"]);
    bench.peer(&[P1, P2]);
    let first = bench.send(P1);
    assert_eq!(bench.pair(&first).0, N1);
    // The next message would have used n2.
    bench
        .core
        .sent(first.tx, MessageStatus::LocalDropped, bench.now);
    let n2 = bench.ni(N2).id;
    bench.core.remove_ni(n2, bench.now).unwrap();
    let Step::Sent(second) = bench.step() else {
        panic!("not sent again")
    };
    assert_eq!(bench.pair(&second).0, "10.0.0.3@tcp");
}
