//! The cases T-U: the effect of rules on traffic, and when they are applied. The syntax, the lists and the transfer of
//! rules are tested in `lnet-policy`.

use lnet_policy::{Added, PolicyError, Priority};

use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const N3: &str = "10.0.0.3@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";
const O1: &str = "10.9.0.1@o2ib";
const Q1: &str = "10.9.1.1@o2ib";
const R1: &str = "10.0.0.8@tcp";
const R2: &str = "10.0.0.9@tcp";
const FAR: &str = "10.5.0.1@tcp5";

fn local_priority(bench: &Bench, text: &str) -> i64 {
    let ni = bench.core.nis().find(|ni| ni.nid == nid(text)).unwrap();
    shown(ni.health.priority.priority)
}

fn local_net_priority(bench: &Bench, text: &str) -> i64 {
    let ni = bench.core.nis().find(|ni| ni.nid == nid(text)).unwrap();
    shown(ni.net_priority.priority)
}

fn peer_view(bench: &Bench, text: &str) -> PeerNiView {
    let mut nis = bench.core.peers().flat_map(|peer| peer.nis);
    nis.find(|peer_ni| peer_ni.nid == nid(text)).unwrap()
}

fn shown(priority: Priority) -> i64 {
    priority.to_string().parse().unwrap()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list.dedup();
    list
}

fn sources_of(bench: &Bench, text: &str) -> Vec<String> {
    let preferred = bench.core.preferred_sources(nid(text)).iter();
    preferred.map(|entry| entry.nid.to_string()).collect()
}

/// Creates two local interfaces, and a peer with one.
fn two_by_one() -> Bench {
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1]);
    bench
}

fn two_nets() -> Bench {
    let mut bench = Bench::new(&[N1, O1]);
    bench.peer(&[P1, Q1]);
    bench
}

#[test]
pub(super) fn t_u01_there_are_no_rules_at_first() {
    assert!(two_by_one().core.rules().rules().is_empty());
}

#[test]
pub(super) fn t_u02_a_rule_for_a_bare_net_name_is_added_and_deleted() {
    let mut bench = two_by_one();
    bench.rule("tcp", "", "", Some(0));
    assert_eq!(local_net_priority(&bench, N1), 0);
    bench.core.delete_rule(0).unwrap();
    assert_eq!(local_net_priority(&bench, N1), -1);
}

#[test]
pub(super) fn t_u03_a_net_rule_gives_a_later_peers_net_its_priority() {
    let mut bench = Bench::new(&[N1]);
    bench.rule("", "tcp", "", Some(1));
    bench.peer(&[P1]);
    let view = peer_view(&bench, P1);
    assert_eq!(shown(view.net_priority.priority), 1);
    assert_eq!(view.net_priority.set_by, Some(0));
    assert_eq!(shown(view.health.priority.priority), -1);
}

#[test]
pub(super) fn t_u04_a_peer_on_a_net_of_numbers_is_added_under_a_net_rule() {
    let mut bench = Bench::new(&[N1]);
    bench.rule("", "kfi", "", Some(0));
    bench.peer(&["402@kfi"]);
    assert_eq!(shown(peer_view(&bench, "402@kfi").net_priority.priority), 0);
}

#[test]
pub(super) fn t_u09_a_nid_rule_takes_all_fresh_traffic() {
    let mut bench = two_by_one();
    bench.rule(N2, "", "", Some(0));
    assert_eq!(bench.sources(4, P1), [N2; 4]);
}

#[test]
pub(super) fn t_u10_without_the_rule_interfaces_take_turns_again() {
    let mut bench = two_by_one();
    bench.rule(N2, "", "", Some(0));
    bench.sources(2, P1);
    bench.core.delete_rule(0).unwrap();
    assert_eq!(sorted(bench.sources(2, P1)), [N1, N2]);
    assert_eq!(local_priority(&bench, N2), -1);
}

/// Creates n1 and n2 with priority 0, and n3 without a priority.
fn two_of_three() -> Bench {
    let mut bench = Bench::new(&[N1, N2, N3]);
    bench.peer(&[P1]);
    bench.rule(N1, "", "", Some(0));
    bench.rule(N2, "", "", Some(0));
    bench
}

#[test]
pub(super) fn t_u11_interfaces_of_the_same_priority_take_turns_among_themselves() {
    assert_eq!(two_of_three().sources(4, P1), [N1, N2, N1, N2]);
}

#[test]
pub(super) fn t_u12_the_only_one_left_of_a_priority_takes_all() {
    let mut bench = two_of_three();
    bench.core.delete_rule(1).unwrap();
    assert_eq!(bench.sources(3, P1), [N1; 3]);
}

#[test]
pub(super) fn t_u13_the_net_is_decided_before_the_interface() {
    let mut bench = two_nets();
    bench.rule("tcp", "", "", Some(0));
    bench.rule(O1, "", "", Some(0));
    assert_eq!(bench.sources(3, P1), [N1; 3]);
}

#[test]
pub(super) fn t_u14_each_rule_alone_does_its_part() {
    let both = || {
        let mut bench = Bench::new(&[N1, O1, "10.9.0.2@o2ib"]);
        bench.peer(&[P1, Q1]);
        bench.rule("tcp", "", "", Some(0));
        bench.rule(O1, "", "", Some(0));
        bench
    };
    let mut without_nid = both();
    without_nid.core.delete_rule(1).unwrap();
    assert_eq!(without_nid.sources(3, P1), [N1; 3]);
    let mut without_net = both();
    without_net.core.delete_rule(0).unwrap();
    assert_eq!(without_net.sources(4, P1), [N1, O1, N1, O1]);
}

#[test]
pub(super) fn t_u15_a_remote_nid_rule_takes_all_until_it_goes() {
    let mut bench = Bench::two_by_two();
    bench.rule("", P2, "", Some(0));
    assert_eq!(bench.hops(3, P1), [P2; 3]);
    bench.core.delete_rule(0).unwrap();
    assert_eq!(sorted(bench.hops(4, P1)), [P1, P2]);
}

#[test]
pub(super) fn t_u16_a_rule_for_what_is_not_there_holds_when_it_appears() {
    let mut bench = two_by_one();
    bench.rule(N3, "", "", Some(0));
    assert_eq!(sorted(bench.sources(2, P1)), [N1, N2]);
    bench.add_ni(N3);
    assert_eq!(bench.sources(2, P1), [N3; 2]);
}

#[test]
pub(super) fn t_u17_a_rule_that_is_not_there_cannot_be_deleted() {
    let mut bench = two_of_three();
    assert_eq!(bench.core.delete_rule(7), Err(PolicyError::NotFound));
    assert_eq!(bench.core.rules().rules().len(), 2);
}

#[test]
pub(super) fn t_u18_a_preferred_interface_that_fails_is_left_until_it_is_well() {
    let mut bench = two_by_one();
    bench.rule(N1, "", "", Some(0));
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    assert_eq!(bench.pair(&second).0, N2);
    bench.answer(&second, MessageStatus::Ok);
    assert_eq!(bench.sources(2, P1), [N2; 2]);
    // The recovery ping of the interface is answered.
    bench.hear(P1, N1);
    assert_eq!(bench.health(N1), 1000);
    assert_eq!(bench.sources(2, P1), [N1; 2]);
}

#[test]
pub(super) fn t_u19_a_preferred_net_that_is_down_is_left() {
    let mut bench = two_nets();
    bench.rule("tcp", "", "", Some(0));
    let ni = bench.ni(N1).id;
    bench.core.set_ni_fatal(ni, true, bench.now);
    assert_eq!(bench.sources(2, P1), [O1; 2]);
}

/// Creates a node with two gateways to tcp5.
fn two_gateways() -> Bench {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, None, 0);
    bench.route("tcp5", R2, None, 0);
    bench
}

#[test]
pub(super) fn t_u20_a_preferred_router_is_used_while_it_lives() {
    let mut bench = two_gateways();
    bench.rule("", "*.*.*.*@tcp5", R1, None);
    // A peer NI behind a router is in the table from the second message on.
    bench.carry(FAR);
    assert_eq!(bench.hops(3, FAR), [R1; 3]);
    bench
        .core
        .fabric_mut()
        .routes
        .gateway_mut(nid(R1))
        .unwrap()
        .alive = false;
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
    bench.hear_from(FAR, R1, N1);
    assert_eq!(bench.hops(3, FAR), [R1; 3]);
}

#[test]
pub(super) fn t_u21_a_preferred_router_is_used_over_its_other_interface() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[R1, P1]);
    bench.route("tcp5", R1, None, 0);
    bench.route("tcp5", R2, None, 0);
    bench.rule("", "*.*.*.*@tcp5", R1, None);
    bench.carry(FAR);
    bench.set_health(R1, 0);
    assert_eq!(bench.hops(3, FAR), [P1; 3]);
}

#[test]
pub(super) fn t_u22_a_pair_steers_only_what_its_source_sends() {
    let mut bench = Bench::two_by_two();
    bench.rule(N1, P2, "", None);
    for _ in 0..6 {
        let (source, hop) = bench.carry(P1);
        assert!(source == N2 || hop == P2, "{source} {hop}");
    }
}

#[test]
fn t_u22_design_a_pair_steers_what_is_sent_from_its_source_by_request() {
    let mut bench = Bench::two_by_two();
    bench.rule(N1, P2, "", None);
    for _ in 0..3 {
        assert_eq!(bench.carry_from(Some(N1), P1).1, P2);
    }
}

#[test]
pub(super) fn t_u23_a_pair_of_several_sources_leaves_no_list_behind() {
    let mut bench = Bench::two_by_two();
    bench.rule("10.0.0.*@tcp", P2, "", None);
    assert_eq!(sources_of(&bench, P2), [N1, N2]);
    bench.core.delete_rule(0).unwrap();
    assert_eq!(sources_of(&bench, P2), [""; 0]);
}

#[test]
pub(super) fn t_u24_a_pair_works_with_one_interface() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1, P2]);
    bench.rule(N1, P2, "", None);
    assert_eq!(bench.hops(3, P1), [P2; 3]);
    assert_eq!(sources_of(&bench, P2), [N1]);
}

#[test]
pub(super) fn t_u25_the_same_rule_again_is_refused() {
    let mut bench = two_by_one();
    bench.rule(N1, "", "", Some(0));
    let again = bench.core.add_rule(rule(N1, "", "", Some(0)), None);
    assert_eq!(again.unwrap_err().lnetctl_errno(), 114);
}

#[test]
pub(super) fn t_u26_a_new_priority_is_put_in_place() {
    let mut bench = two_of_three();
    let added = bench.core.add_rule(rule(N1, "", "", Some(3)), None);
    assert_eq!(added, Ok(Added::Updated(0)));
    assert_eq!(local_priority(&bench, N1), 3);
    assert_eq!(bench.sources(2, P1), [N2; 2]);
}

#[test]
pub(super) fn t_u27_a_rule_is_inserted_before_the_one_at_its_index() {
    let mut bench = two_of_three();
    let added = bench.core.add_rule(rule(N3, "", "", Some(0)), Some(1));
    assert_eq!(added, Ok(Added::Inserted(1)));
    let ni = bench.core.nis().find(|ni| ni.nid == nid(N2)).unwrap();
    assert_eq!(ni.health.priority.set_by, Some(2), "later rules have moved");
}

#[test]
pub(super) fn t_u28_an_index_beyond_the_end_appends() {
    let mut bench = two_of_three();
    let added = bench.core.add_rule(rule(N3, "", "", Some(0)), Some(99));
    assert_eq!(added, Ok(Added::Inserted(2)));
}

/// Adds a rule for `tcp*` with priority 5 before a rule for `tcp` with priority 1.
fn overlapping() -> Bench {
    let mut bench = two_by_one();
    bench.rule("tcp*", "", "", Some(5));
    bench.rule("tcp", "", "", Some(1));
    bench
}

#[test]
pub(super) fn t_u29_of_overlapping_rules_the_lowest_index_counts() {
    assert_eq!(local_net_priority(&overlapping(), N1), 5);
}

#[test]
pub(super) fn t_u30_a_rule_that_goes_uncovers_the_one_it_hid() {
    let mut bench = overlapping();
    bench.core.delete_rule(0).unwrap();
    assert_eq!(local_net_priority(&bench, N1), 1);
}

#[test]
pub(super) fn t_u31_a_new_interface_joins_the_pairs_that_match_it() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1, P2]);
    bench.rule("10.0.0.*@tcp", P2, "", None);
    assert_eq!(sources_of(&bench, P2), [N1]);
    bench.add_ni(N2);
    assert_eq!(sources_of(&bench, P2), [N1, N2]);
    assert_eq!(bench.hops(4, P1), [P2; 4]);
    let n1 = bench.ni(N1).id;
    bench.core.remove_ni(n1, bench.now).unwrap();
    assert_eq!(sources_of(&bench, P2), [N2]);
    assert_eq!(bench.hops(2, P1), [P2; 2]);
}

#[test]
pub(super) fn t_u32_a_router_rule_holds_for_a_peer_that_appears_later() {
    let mut bench = two_gateways();
    bench.rule("", "tcp5", R2, None);
    bench.carry(FAR);
    let preferred = bench.core.preferred_gateways(nid(FAR));
    assert_eq!(
        preferred.iter().map(|entry| entry.nid).collect::<Vec<_>>(),
        [nid(R2)]
    );
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
}

#[test]
pub(super) fn t_u33_a_route_added_later_is_preferred() {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, None, 0);
    bench.carry(FAR);
    bench.rule("", "*.*.*.*@tcp5", R2, None);
    assert!(bench.core.preferred_gateways(nid(FAR)).is_empty());
    bench.route("tcp5", R2, None, 0);
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
    bench
        .core
        .remove_route("tcp5".parse().unwrap(), nid(R2))
        .unwrap();
    assert!(bench.core.preferred_gateways(nid(FAR)).is_empty());
}

#[test]
pub(super) fn t_u34_a_net_rule_holds_for_a_net_that_is_added_later() {
    let mut bench = Bench::new(&[N1]);
    bench.rule("o2ib", "", "", Some(0));
    bench.add_ni(O1);
    bench.peer(&[P1, Q1]);
    assert_eq!(local_net_priority(&bench, O1), 0);
    assert_eq!(bench.sources(3, P1), [O1; 3]);
}

#[test]
pub(super) fn a_rule_holds_for_an_interface_that_a_peer_gets_later() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1]);
    bench.rule("", P2, "", Some(0));
    bench.core.add_peer(nid(P1), &[nid(P2)], true).unwrap();
    assert_eq!(bench.hops(3, P1), [P2; 3]);
}

#[test]
pub(super) fn a_rule_holds_for_a_net_that_a_peer_gets_later() {
    let mut bench = Bench::new(&[N1, O1]);
    bench.rule("", "o2ib", "", Some(0));
    bench.peer(&[P1]);
    bench.core.add_peer(nid(P1), &[nid(Q1)], true).unwrap();
    assert_eq!(shown(peer_view(&bench, Q1).net_priority.priority), 0);
    assert_eq!(bench.hops(3, P1), [Q1; 3]);
}

#[test]
pub(super) fn a_rule_holds_for_the_net_of_a_peer_that_becomes_a_gateway() {
    let mut bench = Bench::new(&[N1]);
    bench.rule("", "tcp", "", Some(4));
    bench.route("tcp5", R1, None, 0);
    assert_eq!(shown(peer_view(&bench, R1).net_priority.priority), 4);
}

#[test]
pub(super) fn t_u39_without_rules_everything_is_without_priority() {
    let mut bench = Bench::two_by_two();
    bench.rule("tcp", "", "", Some(1));
    bench.rule(N1, "", "", Some(1));
    bench.rule("", "tcp", "", Some(1));
    bench.rule("", P1, "", Some(1));
    bench.rule(N1, P2, "", None);
    bench.core.clear_rules();
    assert!(bench.core.rules().rules().is_empty());
    let view = peer_view(&bench, P1);
    assert_eq!(
        [
            local_priority(&bench, N1),
            local_net_priority(&bench, N1),
            shown(view.health.priority.priority),
            shown(view.net_priority.priority)
        ],
        [-1; 4]
    );
    assert_eq!(sources_of(&bench, P2), [""; 0]);
}

#[test]
fn t_u42_design_pairs_are_compared_by_their_rank() {
    let mut bench = Bench::two_by_two();
    bench.rule(N1, P2, "", Some(1));
    bench.rule(N1, P1, "", Some(0));
    for _ in 0..3 {
        assert_eq!(bench.carry_from(Some(N1), P1).1, P1);
    }
    bench.set_health(P1, 900);
    assert_eq!(bench.carry_from(Some(N1), P1).1, P2);
}

#[test]
fn t_u43_design_several_interfaces_may_prefer_one_peer_interface() {
    let mut bench = Bench::new(&[N1, N2, N3]);
    bench.peer(&[P1, P2]);
    bench.rule("10.0.0.[1-2]@tcp", P1, "", None);
    bench.rule(N3, P2, "", None);
    for _ in 0..9 {
        let (source, hop) = bench.carry(P1);
        assert_eq!(hop, if source == N3 { P2 } else { P1 });
    }
}

#[test]
fn t_u44_design_and_lustre_a_client_takes_the_direct_path_and_the_routed_one_only_in_need() {
    // The client is on MLX (o2ib). The server is on MLX and on OPA (o2ib1), with a router between them.
    let (client, mlx, opa) = ("10.2.0.1@o2ib", "10.2.1.1@o2ib", "10.3.1.1@o2ib1");
    let client = || {
        let mut bench = Bench::new(&[client]);
        bench.peer(&[mlx, opa]);
        bench.route("o2ib1", "10.2.0.9@o2ib", None, 0);
        bench.rule("", mlx, "", Some(0));
        bench
    };
    // Kernels never leave a net that both ends are on.
    let mut lustre = client().with(LUSTRE);
    let direct = lustre.send(mlx);
    let again = lustre.retried(&direct, MessageStatus::RemoteDropped);
    assert_eq!(lustre.pair(&again).1, mlx);
    let mut bench = client();
    assert_eq!(bench.hops(3, mlx), [mlx; 3]);
    let direct = bench.send(mlx);
    let routed = bench.retried(&direct, MessageStatus::RemoteDropped);
    assert_eq!(bench.pair(&routed).1, "10.2.0.9@o2ib");
    assert_eq!(routed.header.dest_nid, nid(opa));
    bench.answer(&routed, MessageStatus::Ok);
    bench.set_health(mlx, 1000);
    assert_eq!(bench.hops(3, mlx), [mlx; 3]);
}

#[test]
pub(super) fn t_u45_the_interface_on_the_optimal_link_is_used_while_it_is_well() {
    let mut bench = two_by_one();
    bench.rule(N2, "", "", Some(0));
    assert_eq!(bench.sources(3, P1), [N2; 3]);
    bench.set_health(N2, 900);
    assert_eq!(bench.sources(3, P1), [N1; 3]);
}

#[test]
pub(super) fn t_u49_a_recovery_ping_goes_to_the_interface_that_is_ill() {
    let mut bench = Bench::two_by_two();
    bench.rule("", P2, "", Some(0));
    bench.rule(N2, "", "", Some(0));
    let ill = Health::new(500).unwrap();
    bench
        .core
        .set_peer_ni_health(nid(P1), ill, bench.now)
        .unwrap();
    let sent = bench.wait(1, MessageStatus::Ok);
    assert_eq!(sent, [(1, P1.to_string())]);
    assert_eq!(bench.ni(N2).stats.sent.get, 1, "from where policy says");
}

/// Creates both ends with two interfaces on tcp and one on tcp1, and a rule for a local interface on tcp.
fn two_and_one() -> Bench {
    let mut bench = Bench::new(&[N1, N2, "10.1.0.1@tcp1"]);
    bench.peer(&[P1, P2, "10.1.1.1@tcp1"]);
    bench.rule(N2, "", "", Some(0));
    bench
}

#[test]
pub(super) fn t_u50_a_nid_rule_decides_within_its_net_only() {
    let mut bench = two_and_one();
    assert_eq!(
        bench.sources(4, P1),
        [N2, "10.1.0.1@tcp1", N2, "10.1.0.1@tcp1"]
    );
}

#[test]
pub(super) fn t_u51_a_net_rule_decides_before_a_nid_rule() {
    let mut bench = two_and_one();
    bench.rule("tcp1", "", "", Some(0));
    assert_eq!(bench.sources(3, P1), ["10.1.0.1@tcp1"; 3]);
}

#[test]
pub(super) fn t_u53_a_router_rule_sends_all_over_its_gateway() {
    let mut bench = two_gateways();
    bench.carry(FAR);
    bench.rule("", FAR, R1, None);
    let before = bench.peer_ni(nid(R2)).stats.sent.total();
    assert_eq!(bench.hops(6, FAR), [R1; 6]);
    assert_eq!(bench.peer_ni(nid(R2)).stats.sent.total(), before);
}

// [UDSP-11]
#[test]
fn in_the_lustre_profile_a_single_rail_peer_has_one_preferred_source() {
    let mut bench = Bench::new(&[N1, N2]);
    bench.carry(P1);
    bench.rule("10.0.0.*@tcp", P1, "", None);
    assert_eq!(sources_of(&bench, P1), [N1, N2]);
    bench.set(LUSTRE);
    assert_eq!(sources_of(&bench, P1), [N1]);
    bench.set(|globals| globals.profile = lnet_policy::Profile::Design);
    assert_eq!(sources_of(&bench, P1), [N1, N2]);
}

#[test]
pub(super) fn a_router_rule_holds_for_the_first_message_to_a_stranger() {
    for gateway in [R1, R2] {
        let mut bench = two_gateways();
        bench.rule("", "tcp5", gateway, None);
        assert_eq!(bench.carry(FAR).1, gateway);
    }
}

#[test]
pub(super) fn a_pair_rule_holds_for_the_first_message_to_a_stranger() {
    for source in [N1, N2] {
        let mut bench = Bench::new(&[N1, N2]);
        bench.rule(source, P1, "", None);
        assert_eq!(bench.sources(2, P1), [source; 2]);
    }
}

#[test]
fn a_question_about_a_stranger_is_answered_by_the_rules() {
    for gateway in [R1, R2] {
        let mut bench = two_gateways();
        bench.rule("", "tcp5", gateway, None);
        let choice = bench.core.choose(&SendQuery::to(nid(FAR))).unwrap();
        assert_eq!(choice.next_hop, nid(gateway));
        assert!(
            bench.core.fabric().peers.by_nid(nid(FAR)).is_none(),
            "nothing has changed"
        );
    }
}
