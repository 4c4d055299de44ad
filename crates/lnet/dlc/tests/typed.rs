//! Tests of the typed requests, one function after the other.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fmt::Debug;
use std::time::Duration;

use lnet_config::{Buffers, Config, Globals, NetConfig, NiConfig, PeerConfig, RouteConfig, Status};
use lnet_dlc::protocol::{FaultPace, FaultRule, HealthTarget, RuleChange, Tune, UdspRule};
use lnet_dlc::{DlcError, Run};
use lnet_types::{Net, Nid};

use common::Bed;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn net(text: &str) -> Net {
    text.parse().unwrap()
}

fn errno<T: Debug>(result: Result<T, DlcError>) -> i32 {
    result.unwrap_err().errno()
}

fn rail() -> NetConfig {
    NetConfig {
        net: net("tcp1"),
        nis: vec![NiConfig {
            nid: Some(nid("127.0.0.2@tcp1")),
            ..NiConfig::default()
        }],
    }
}

#[test]
fn nets_come_are_seen_tuned_and_go() {
    let (_bed, mut dlc) = Bed::new();
    dlc.add_net(rail()).unwrap();
    assert_eq!(errno(dlc.add_net(rail())), -17);
    dlc.tune(Tune {
        net: Some("tcp1".to_owned()),
        conns_per_peer: Some(3),
        ..Tune::default()
    })
    .unwrap();
    let all = HealthTarget::Net("tcp1".to_owned());
    dlc.set_health(all, 1000).unwrap();
    let none = HealthTarget::Net("tcp7".to_owned());
    assert_eq!(errno(dlc.set_health(none, 1000)), -2);
    let nets = dlc.nets(Some(net("tcp1"))).unwrap();
    let ni = &nets[0].nis[0];
    assert_eq!(ni.config.lnd_tunables.conns_per_peer, Some(3));
    assert_eq!(ni.status, Some(Status::Up));
    assert_eq!(ni.health.unwrap().health_value, 1000);
    assert_eq!(dlc.local_recovery().unwrap(), []);
    assert_eq!(dlc.nets(None).unwrap().len(), 3);
    let whole = NetConfig {
        nis: Vec::new(),
        ..rail()
    };
    dlc.del_net(whole).unwrap();
    assert_eq!(errno(dlc.nets(Some(net("tcp1")))), -3);
}

#[test]
fn routes_and_peers_come_are_seen_and_go() {
    let (_bed, mut dlc) = Bed::new();
    let (far, gateway) = (net("tcp9"), nid("127.0.0.9@tcp"));
    let route = RouteConfig {
        net: far,
        gateway,
        hop: Some(2),
        priority: 7,
    };
    dlc.add_route(route).unwrap();
    assert_eq!(dlc.routes().unwrap()[0].config(), route);
    assert_eq!(errno(dlc.del_peer(gateway, &[])), -16, "it is a gateway");
    dlc.del_route(far, gateway).unwrap();
    assert_eq!(errno(dlc.del_route(far, gateway)), -2);

    let peer = PeerConfig {
        nids: ["127.0.0.7@tcp", "127.0.0.8@tcp", "127.0.0.9@tcp"]
            .map(nid)
            .to_vec(),
        multi_rail: true,
    };
    dlc.add_peer(peer.clone()).unwrap();
    let primary = peer.nids[0];
    assert_eq!(dlc.peer(peer.nids[1]).unwrap().unwrap().config(), peer);
    assert_eq!(dlc.peer(nid("10.9.9.9@tcp")).unwrap(), None);
    dlc.del_peer(primary, &peer.nids[1..2]).unwrap();
    assert_eq!(dlc.peer(primary).unwrap().unwrap().nis.len(), 2);
    assert!(dlc.peer_list().unwrap().contains(&primary));
    dlc.set_health(HealthTarget::PeerNi(primary.to_string()), 500)
        .unwrap();
    assert_eq!(dlc.peer_recovery().unwrap(), [primary]);
    dlc.del_peer(primary, &[]).unwrap();
    assert!(
        dlc.peers()
            .unwrap()
            .iter()
            .all(|peer| peer.primary != primary)
    );
}

#[test]
fn parameters_router_counters_and_faults_are_set_and_seen() {
    let (_bed, mut dlc) = Bed::new();
    let given = Globals {
        retry_count: Some(1),
        ..Globals::default()
    };
    dlc.set_globals(given).unwrap();
    let (globals, derived) = dlc.globals().unwrap();
    assert_eq!(
        (globals.retry_count, derived.recovery_interval),
        (Some(1), Some(1))
    );

    assert!(!dlc.routing().unwrap().enabled);
    dlc.set_routing(true).unwrap();
    let sizes = Buffers {
        tiny: Some(700),
        ..Buffers::default()
    };
    dlc.set_buffers(sizes).unwrap();
    let router = dlc.routing().unwrap();
    assert_eq!((router.enabled, router.buffers.tiny), (true, Some(700)));
    assert_eq!(router.pools[0].tiny.buffers, 700);

    dlc.ping(&[nid("127.0.0.1@tcp")], None, DEFAULT_TIMEOUT)
        .unwrap();
    assert!(dlc.statistics().unwrap().send_count > 0);
    dlc.reset_statistics().unwrap();
    assert_eq!(dlc.statistics().unwrap().send_count, 0);

    let fault = FaultRule {
        source: "*".to_owned(),
        dest: "*@tcp5".to_owned(),
        pace: FaultPace::Rate(3),
        random_interval: false,
        all: false,
        messages: Vec::new(),
        portal: None,
        local_nid: None,
        errors: Vec::new(),
        delay: None,
    };
    dlc.add_fault(fault).unwrap();
    assert!(dlc.faults(false).unwrap().contains("*->*@tcp5 (1/3"));
    dlc.clear_faults(false).unwrap();
    assert_eq!(dlc.faults(false).unwrap(), "");
}

#[test]
fn peers_are_asked_and_those_that_do_not_answer_are_named() {
    let (_bed, mut dlc) = Bed::new();
    let (own, nobody) = (nid("127.0.0.1@tcp"), nid("127.0.0.77@tcp"));
    let answers = dlc
        .ping(&[own, nobody], Some(own), DEFAULT_TIMEOUT)
        .unwrap();
    assert_eq!(answers.replies.len(), 1);
    assert_eq!(
        (answers.replies[0].primary, answers.failures.len()),
        (own, 1)
    );
    assert!(answers.failures[0].descr.contains("127.0.0.77@tcp"));
    let answers = dlc.discover(&[own], DEFAULT_TIMEOUT).unwrap();
    assert_eq!((answers.replies.len(), answers.failures.len()), (1, 0));
}

#[test]
fn a_whole_configuration_is_carried_from_node_to_node() {
    let (_one, mut from) = Bed::new();
    let route = RouteConfig {
        net: net("tcp9"),
        gateway: nid("127.0.0.9@tcp"),
        hop: None,
        priority: 0,
    };
    from.add_route(route).unwrap();
    let rule = UdspRule {
        dst: Some("tcp9".to_owned()),
        rte: Some("127.0.0.9@tcp".to_owned()),
        ..UdspRule::default()
    };
    from.change_rule(RuleChange::Add { rule, idx: None })
        .unwrap();
    let wanted = from.configuration().unwrap();
    assert_eq!((wanted.routes.len(), wanted.rules.rules().len()), (1, 1));

    let (_two, mut to) = Bed::new();
    for (run, routes) in [(Run::Dry, 0), (Run::Real, 1)] {
        to.replace(&wanted, run).unwrap();
        assert_eq!(to.routes().unwrap().len(), routes);
    }
    assert_eq!(to.configuration().unwrap(), wanted);
    let rules = Config {
        rules: wanted.rules.clone(),
        ..Config::default()
    };
    to.remove(&rules, Run::Real).unwrap();
    assert!(to.all_rules().unwrap().rules().is_empty());
    to.apply(&rules, Run::Real).unwrap();
    to.unconfigure().unwrap();
    assert_eq!(to.nets(None).unwrap().len(), 1, "loopback is left");
}
