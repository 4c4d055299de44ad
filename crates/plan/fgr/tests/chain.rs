//! Sites with chains of routers: planned, configured, proved.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;

use fgr::chain::{Chain, read_chain};
use fgr::check::{Finding, check, rollout};
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
            "GB/s above 0",
        ),
        (
            "site: a\ngroups:\n  - {nodes: r1, role: client, on: [{net: tcp, first: 10.0.0.1, interface: e, rate: 1, tunables: {nonsense: 1}}]}\n",
            "a:3: on: ",
        ),
    ];
    for (text, wanted) in cases {
        let error = read_chain("a", text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
