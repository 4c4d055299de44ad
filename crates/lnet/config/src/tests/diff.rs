//! Differences of configurations.

use proptest::prelude::*;

use super::strategies::{any_config, cases};
use crate::{ApplyError, Change, Config, deletion, diff, parse, parse_document};

fn config(source: &str) -> Config {
    parse(source).unwrap_or_else(|error| panic!("{}", error.render("test")))
}

fn changes(old: &str, new: &str) -> Vec<String> {
    let changes = diff(&config(old), &config(new));
    changes.iter().map(ToString::to_string).collect()
}

/// Sorts everything whose order is not a difference.
fn sorted(mut config: Config) -> Config {
    config.nets.sort_by_key(|net| net.net);
    config
        .nets
        .iter_mut()
        .for_each(|net| net.nis.sort_by_key(|ni| ni.name()));
    config
        .routes
        .sort_by_key(|route| (route.net, route.gateway));
    config
        .peers
        .iter_mut()
        .for_each(|peer| peer.nids[1..].sort());
    config.peers.sort_by_key(|peer| peer.nids[0]);
    config
}

fn applied(mut config: Config, changes: &[Change]) -> Config {
    for change in changes {
        change
            .apply(&mut config)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    config
}

/// A configuration similar to `old`: some of its parts are replaced by those of `other`.
fn mixed(old: &Config, other: &Config, choices: u32) -> Config {
    let has = |bit: u32| choices >> bit & 1 == 1;
    let mut new = old.clone();
    if has(0) {
        new.nets.clone_from(&other.nets);
        new.routes.clone_from(&other.routes);
    }
    if has(1) {
        new.routes.truncate(1);
        new.routes.iter_mut().for_each(|route| route.priority ^= 1);
    }
    if has(2) {
        new.nets.iter_mut().for_each(|net| net.nis.truncate(1));
        new.nets
            .iter_mut()
            .for_each(|net| net.nis[0].tunables.credits = Some(77));
    }
    if has(3) {
        new.peers.reverse();
        new.peers.iter_mut().for_each(|peer| peer.nids.truncate(2));
    }
    if has(4) {
        new.peers
            .iter_mut()
            .for_each(|peer| peer.multi_rail ^= true);
    }
    if has(5) {
        new.rules = reversed(old);
    }
    if has(6) {
        new.rules.clone_from(&other.rules);
        new.globals = other.globals;
        new.buffers = other.buffers;
        new.routing = other.routing;
        new.ip2nets.clone_from(&other.ip2nets);
    }
    new
}

fn reversed(config: &Config) -> lnet_policy::RuleList {
    let mut rules = lnet_policy::RuleList::new();
    for rule in config.rules.rules() {
        rules.add(rule.clone(), Some(0)).unwrap();
    }
    rules
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn applying_the_difference_in_order_gives_the_second(
        old in any_config(),
        other in any_config(),
        choices in any::<u32>(),
    ) {
        for new in [mixed(&old, &other, choices), other] {
            let changes = diff(&old, &new);
            prop_assert_eq!(sorted(applied(old.clone(), &changes)), sorted(new));
        }
    }

    #[test]
    fn a_configuration_does_not_differ_from_itself(config in any_config()) {
        prop_assert_eq!(diff(&config, &sorted(config.clone())), []);
    }
}

const OLD: &str = "
net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}, {interfaces: {0: eth1}}]}]
route: [{net: o2ib, gateway: 10.0.0.1@tcp}, {net: tcp9, gateway: '10.0.0.[1-2]@tcp'}]
peer: [{primary nid: 10.0.0.5@tcp, peer ni: [{nid: 10.0.0.6@tcp}, {nid: 10.0.0.7@tcp}]}]
udsp: [{src: tcp, priority: 1}, {src: o2ib, priority: 2}, {dst: tcp, priority: 3}]
";

const NEW: &str = "
net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, tunables: {credits: 64}}]},
      {net type: o2ib, local NI(s): [{interfaces: {0: ib0}}]}]
route: [{net: tcp9, gateway: 10.0.0.1@tcp, priority: 4}, {net: tcp9, gateway: 10.0.0.2@tcp},
        {net: tcp8, gateway: 10.9.0.1@o2ib, hop: 1}]
peer: [{primary nid: 10.0.0.5@tcp, peer ni: [{nid: 10.0.0.7@tcp}]},
       {primary nid: 10.0.0.8@tcp, peer ni: [{nid: 10.0.0.6@tcp}]}]
global: {retry_count: 1}
routing: {enable: 1}
udsp: [{dst: tcp, priority: 3}, {src: tcp, priority: 5}, {dst: tcp7, rte: 10.0.0.1@tcp}]
";

#[test]
fn changes_come_in_an_order_that_a_running_node_can_make() {
    insta::assert_snapshot!(changes(OLD, NEW).join("\n"), @r#"
    set global parameters
    route del --net o2ib --gateway 10.0.0.1@tcp
    peer del --prim_nid 10.0.0.5@tcp --nid 10.0.0.6@tcp
    net del --net tcp --if eth1
    net set --net tcp --if eth0
    net add --net o2ib --if ib0
    peer add --nid 10.0.0.8@tcp,10.0.0.6@tcp
    route set --net tcp9 --gateway 10.0.0.1@tcp --hop -1 --priority 4
    route add --net tcp8 --gateway 10.9.0.1@o2ib --hop 1 --priority 0
    set routing 1
    udsp del --idx 1
    udsp del --idx 1
    udsp add --idx 0 --dst tcp --priority 3
    udsp add --src tcp --priority 5
    udsp add --idx 2 --dst tcp7 --rte 10.0.0.1@tcp
    "#);
}

// [CONF-5]
#[test]
fn a_deletion_names_what_goes_and_leaves_the_rest() {
    let named = parse_document(
        "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth1}}]}]\n\
         route: [{net: tcp9, gateway: 10.0.0.1@tcp}]\n\
         global: {discovery: 1, retry_count: 3}\n\
         udsp: [{dst: tcp}, {src: tcp}]\n",
    );
    let mut current = config(OLD);
    current.globals.discovery = Some(false);
    current.globals.retry_count = Some(1);
    let changes = deletion(&current, &named.unwrap());
    let shown: Vec<_> = changes.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    route del --net tcp9 --gateway 10.0.0.1@tcp
    net del --net tcp --if eth1
    set global parameters
    udsp del --idx 2
    udsp del --idx 0
    "#);
    let left = applied(current, &changes);
    assert_eq!(
        (left.globals.discovery, left.globals.retry_count),
        (None, Some(1))
    );
    assert_eq!(
        (
            left.nets[0].nis.len(),
            left.routes.len(),
            left.rules.rules().len()
        ),
        (1, 2, 1)
    );
}

#[test]
fn a_change_that_does_not_fit_is_rejected() {
    let mut empty = Config::default();
    for change in diff(&config(OLD), &Config::default()) {
        let error = change.apply(&mut empty).unwrap_err();
        assert!(
            matches!(error, ApplyError::NotFound(_) | ApplyError::Rule(_)),
            "{error}"
        );
    }
    assert_eq!(empty, Config::default());
    let mut there = config(OLD);
    for change in diff(&Config::default(), &config(OLD)) {
        assert!(change.apply(&mut there).is_err(), "{change}");
    }
    assert_eq!(there, config(OLD));
}
