//! Sites with chains of routers: planned, configured, proved.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;

use fgr::chain::{Chain, read_chain};
use fgr::check::{Finding, When, check, rollout};
use fgr::config::{Site, Timing};
use lnet_config::RouteConfig;

/// A published site of a national laboratory, with its bandwidths assumed.
const LABORATORY: &str = include_str!("chain/laboratory.yaml");

fn laboratory() -> Chain {
    read_chain("laboratory.yaml", LABORATORY).unwrap()
}

fn routes(routes: &[RouteConfig]) -> BTreeSet<String> {
    let words = routes.iter().map(|route| format!("{route:?}"));
    words.collect()
}

#[test]
fn the_laboratory_is_planned_as_published() {
    let Some(directory) = testkit::shared_data("trials/fgr/llnl") else {
        return;
    };
    let site = laboratory().site(Timing::PLANNED);
    assert_eq!(site.nodes.len(), 15);
    for node in &site.nodes {
        let published = std::fs::read_to_string(directory.join(format!("{}.yaml", node.name)));
        let published = lnet_config::parse(&published.unwrap()).unwrap();
        let planned = site.node_config(node);
        assert_eq!(
            routes(&planned.routes),
            routes(&published.routes),
            "{}",
            node.name
        );
        assert_eq!(planned.routing, published.routing, "{}", node.name);
        let nids = |config| BTreeSet::from_iter(fgr::config::nids(config));
        assert_eq!(nids(&planned), nids(&published), "{}", node.name);
    }
}

#[test]
fn a_planned_chain_is_proved_and_rolled_out_without_losses() {
    let site = laboratory().site(Timing::PLANNED);
    let report = check(&site);
    assert!(
        report.is_proved() && report.pairs == 6,
        "{:?}",
        report.findings
    );
    let order = rollout(&Site::default(), &site);
    assert!(order.open.is_empty(), "{:?}", order.open);
}

/// A second pair of router stages beside the Ethernet, over another net.
const DETOUR: &str = "groups:
  - nodes: bX[1-2]
    role: router
    on:
      - {net: o2ib100, first: 172.9.2.51, interface: ib0, rate: 12.5}
      - {net: tcp9, first: 10.8.1.1, interface: eth0, rate: 10}
  - nodes: bY[1-2]
    role: router
    on:
      - {net: o2ib200, first: 172.9.3.51, interface: ib0, rate: 12.5}
      - {net: tcp9, first: 10.8.2.1, interface: eth0, rate: 10}
";

/// The laboratory, with messages over the Ethernet or over the detour instead.
fn moved() -> [Site; 2] {
    let detour = LABORATORY.replacen("groups:\n", DETOUR, 1);
    let without = |text: &str, net: &str| {
        // A router without the net between its stages is on no way.
        let apart = text.replacen(&format!("net: {net},"), "net: tcp77,", 1);
        read_chain("moved", &apart).unwrap().site(Timing::PLANNED)
    };
    [without(&detour, "tcp9"), without(&detour, "tcp")]
}

/// Puts the nodes of a site that are `is_new` beside the others of another site.
fn mixed([old, new]: [&Site; 2], is_new: impl Fn(&str) -> bool) -> Site {
    let mut site = Site {
        classes: [&old.classes[..], &new.classes[..]].concat(),
        ..Site::default()
    };
    let stay = old.nodes.iter().filter(|node| !is_new(&node.name));
    site.nodes.extend(stay.cloned());
    for node in new.nodes.iter().filter(|node| is_new(&node.name)) {
        let mut node = node.clone();
        node.class += old.classes.len();
        site.nodes.push(node);
    }
    site
}

fn loses_now(site: &Site) -> bool {
    let mut findings = check(site).findings.into_iter();
    findings.any(|found| {
        matches!(
            found,
            Finding::Lost {
                when: When::Now,
                ..
            }
        )
    })
}

#[test]
fn routers_of_chains_are_rolled_out_class_by_class_and_no_pair_is_lost_on_the_way() {
    let [old, new] = moved();
    assert!(!loses_now(&old) && !loses_now(&new));
    // The routers that leave the way first: they and those of the detour send messages to each other.
    assert!(loses_now(
        &mixed([&old, &new], |name| name.starts_with("bA"))
    ));
    let order = rollout(&old, &new);
    assert!(order.open.is_empty(), "{:?}", order.open);
    assert!(order.steps.len() > 3, "{:?}", order.steps);

    let mut done: BTreeSet<String> = BTreeSet::new();
    for step in &order.steps {
        let of_step = new.nodes.iter().filter(|node| {
            let class = new.class_of(node);
            class.role == step.role && step.class.as_ref().is_none_or(|name| *name == class.name)
        });
        for node in of_step {
            done.insert(node.name.clone());
            let now = mixed([&old, &new], |name| done.contains(name));
            assert!(!loses_now(&now), "{} of {step:?}", node.name);
        }
    }
    assert_eq!(done.len(), new.nodes.len());
}

#[test]
fn a_stage_carries_what_the_slower_side_of_its_routers_does() {
    let ways = laboratory().ways();
    let [way] = &ways[..] else { panic!("{ways:?}") };
    let stages: Vec<(usize, f64)> = way
        .stages
        .iter()
        .map(|stage| (stage.count, stage.rate))
        .collect();
    // Two routers of 12.5 GB/s, then four and four whose Ethernet side has 10 GB/s.
    assert_eq!(stages, [(2, 25.0), (4, 40.0), (4, 40.0)]);
    assert!((way.stages[1].idle - 10.0).abs() < 1e-9);
    assert!((way.stages[0].rate_without_one() - 12.5).abs() < 1e-9);
    assert_eq!(way.narrowest().unwrap().count, 2);
}

#[test]
fn gateways_of_published_sites_promise_no_more_than_their_slower_side_and_are_proved() {
    // The routers, GB/s of their slower sides together, and what the faster sides could carry beyond that.
    let sites = [
        (
            "slingshot",
            include_str!("chain/slingshot.yaml"),
            (160, 4_000.0, 4_000.0),
        ),
        (
            "omni-path",
            include_str!("chain/omni-path.yaml"),
            (14, 175.0, 175.0),
        ),
        (
            "gateways",
            include_str!("chain/gateways.yaml"),
            (24, 1_200.0, 1_200.0),
        ),
    ];
    for (name, text, (count, rate, idle)) in sites {
        let chain = read_chain(name, text).unwrap();
        let ways = chain.ways();
        let [way] = &ways[..] else { panic!("{ways:?}") };
        let [stage] = &way.stages[..] else {
            panic!("{way:?}")
        };
        assert_eq!(
            (stage.count, stage.rate, stage.idle),
            (count, rate, idle),
            "{name}"
        );
        let report = check(&chain.site(Timing::PLANNED));
        assert!(
            report.is_proved() && report.pairs > 0,
            "{name}: {:?}",
            report.findings
        );
    }
}

#[test]
fn a_cluster_without_a_way_has_no_stages() {
    let cut = LABORATORY.replace(
        "nodes: bA[2-5]\n    role: router",
        "nodes: bA[2-5]\n    role: client",
    );
    let chain = read_chain("cut", &cut).unwrap();
    assert!(chain.ways().iter().any(|way| way.stages.is_empty()));
    let findings = check(&chain.site(Timing::PLANNED)).findings;
    assert!(
        findings
            .iter()
            .any(|found| matches!(found, Finding::NoRoute { .. }))
    );
}

#[test]
fn several_clusters_and_tunables_are_configured() {
    let second = LABORATORY.replace(
        "groups:\n",
        "groups:\n  - nodes: dn[1-9]\n    role: client\n    on:\n      - {net: tcp7, first: 10.9.0.1, interface: eth0, \
         rate: 1.25}\n  - nodes: dr[1-2]\n    role: router\n    on:\n      - {net: tcp7, first: 10.9.0.101, interface: eth0, \
         rate: 12.5}\n      - {net: o2ib100, first: 172.9.2.31, interface: ib0, rate: 12.5, tunables: {peer_credits: 32}, \
         lnd-tunables: {conns_per_peer: 4}}\n",
    );
    let chain = read_chain("two", &second).unwrap();
    assert_eq!(chain.ways().len(), 2);
    let site = chain.site(Timing::PLANNED);
    let report = check(&site);
    assert!(report.is_proved(), "{:?}", report.findings);
    let router = site.nodes.iter().find(|node| node.name == "dr1").unwrap();
    let yaml = site.class_of(router).yaml();
    assert!(
        yaml.contains("peer_credits: 32") && yaml.contains("conns_per_peer: 4"),
        "{yaml}"
    );
    let options = site.class_of(router).modprobe(Timing::PLANNED).unwrap();
    for option in ["peer_credits=32", "conns_per_peer=4"] {
        let line = format!("options ko2iblnd {option}\n");
        assert!(options.contains(&line), "{options}");
    }
}

#[test]
fn wrong_descriptions_are_rejected_with_their_lines() {
    let cases = [
        ("", "is empty"),
        (
            "site: a\ngroups: []\n",
            "a group with role: client is missing",
        ),
        ("site: a\nnets: 1\ngroups: []\n", "unknown key 'nets'"),
        (
            "site: a\ngroups:\n  - {nodes: r1, role: router, on: [{net: tcp, first: 10.0.0.1, interface: e, rate: 1}]}\n",
            "a:3: on: '1' is not two nets at least",
        ),
        (
            "site: a\ngroups:\n  - {nodes: 'r[1-3]', role: client, on: [{net: tcp, first: 255.255.255.254, interface: e, rate: 1}]}\n",
            "a:3: first: 'r3' is not an address with enough",
        ),
        (
            "site: a\ngroups:\n  - {nodes: r1, role: client, on: [{net: tcp, first: 10.0.0.1, interface: e, rate: -1}]}\n",
            "a:3: rate: '-1' is not a number of GB/s from 0.001 to 1,000,000",
        ),
        (
            "site: a\ngroups:\n  - {nodes: r1, role: client, on: [{net: tcp, first: 10.0.0.1, interface: e, rate: 1, tunables: {nonsense: 1}}]}\n",
            "a:3: on: 'invalid key 'nonsense''",
        ),
    ];
    for (text, wanted) in cases {
        let error = read_chain("a", text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
