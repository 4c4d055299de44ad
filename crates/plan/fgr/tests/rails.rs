//! Rails of an AI fabric: configured, proved, and what a leaf switch costs.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::net::Ipv4Addr;

use fgr::import::{RailAdapter, RailHost, RailHosts};
use fgr::rails::{RailError, RailFinding, RailForm, RailPlan, RailScheme, prove};

/// Hosts on these rails, from 0; four hosts share a leaf of each rail.
fn hosts(of: &[(&str, &[usize])], rails: usize) -> RailHosts {
    let host = |(number, (name, on)): (usize, &(&str, &[usize]))| RailHost {
        name: (*name).to_owned(),
        adapters: (0..rails)
            .map(|rail| {
                on.contains(&rail).then(|| RailAdapter {
                    name: format!("mlx5_{rail}"),
                    leaf: format!("leaf{}-rail{}", number / 4, rail + 1),
                    rate: 50.0,
                })
            })
            .collect(),
    };
    RailHosts {
        hosts: of.iter().enumerate().map(host).collect(),
        rails,
        warnings: Vec::new(),
        skipped: Vec::new(),
    }
}

const ALL: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7];

/// Six clients on eight rails and two servers on `servers`.
fn eight(servers: &[usize]) -> RailHosts {
    let mut of: Vec<(&str, &[usize])> = vec![
        ("g1", ALL),
        ("g2", ALL),
        ("g3", ALL),
        ("g4", ALL),
        ("g5", ALL),
        ("g6", ALL),
    ];
    of.extend([("oss1", servers), ("oss2", servers)]);
    hosts(&of, 8)
}

fn scheme(form: RailForm) -> RailScheme {
    RailScheme {
        form,
        net: "o2ib10".parse().unwrap(),
        addresses: Ipv4Addr::new(10, 20, 0, 0),
        interface: "ib0".to_owned(),
        partitions: vec![0, 0, 0, 0, 1, 1, 1, 1],
    }
}

fn servers() -> Vec<String> {
    vec!["oss1".to_owned(), "oss2".to_owned()]
}

#[test]
fn each_rail_has_a_net_an_interface_and_the_partition_of_its_gpu() {
    let plan = RailPlan::new(&eight(ALL), &servers(), &scheme(RailForm::Nets)).unwrap();
    let config = plan.site.node_config(&plan.site.nodes[2]);
    let nids: Vec<String> = config
        .nets
        .iter()
        .map(|net| net.nis[0].nid.unwrap().to_string())
        .collect();
    assert_eq!(
        (nids[0].as_str(), nids[7].as_str()),
        ("10.20.0.3@o2ib10", "10.27.0.3@o2ib17")
    );
    let class = plan.site.class_of(&plan.site.nodes[2]);
    let (third, last) = (&class.config.nets[2].nis[0], &class.config.nets[7].nis[0]);
    assert_eq!(
        (third.interfaces[0].as_str(), &third.cpts[..]),
        ("ib2", &[0][..])
    );
    assert_eq!(
        (last.interfaces[0].as_str(), &last.cpts[..]),
        ("ib7", &[1][..])
    );
    let proof = prove(&plan);
    assert_eq!((proof.findings, proof.pairs), (vec![], 12));
}

#[test]
fn a_leaf_costs_its_hosts_one_rail_and_their_pairs_nothing_else() {
    for form in [RailForm::Nets, RailForm::Pairs] {
        let plan = RailPlan::new(&eight(ALL), &servers(), &scheme(form)).unwrap();
        let proof = prove(&plan);
        assert_eq!(proof.leaves.len(), 16);
        let first = proof
            .leaves
            .iter()
            .find(|loss| loss.leaf == "leaf0-rail3")
            .unwrap();
        assert_eq!((first.hosts, first.lost), (4, 0));
        // Four clients of the leaf, and two servers on the other one.
        assert_eq!((first.reduced, first.left), (8, Some((7, 8))), "{form:?}");
        // Two clients and both servers.
        let second = proof
            .leaves
            .iter()
            .find(|loss| loss.leaf == "leaf1-rail3")
            .unwrap();
        let reduced = if form == RailForm::Nets { 12 } else { 4 };
        assert_eq!(
            (second.reduced, second.left),
            (reduced, Some((7, 8))),
            "{form:?}"
        );
    }
}

#[test]
fn servers_with_two_rails_leave_six_idle_with_nets_and_none_with_rules() {
    let nets = RailPlan::new(&eight(&[0, 4]), &servers(), &scheme(RailForm::Nets)).unwrap();
    let findings = prove(&nets).findings;
    assert_eq!(findings.len(), 6);
    assert!(
        matches!(&findings[0], RailFinding::Idle { rail: 2, .. }),
        "{}",
        findings[0]
    );
    let pairs = RailPlan::new(&eight(&[0, 4]), &servers(), &scheme(RailForm::Pairs)).unwrap();
    let client = pairs.site.class_of(&pairs.site.nodes[0]);
    let rules: Vec<String> = client.rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        rules,
        [
            "--src 10.[20,21,23,26].*.*@o2ib10 --dst 10.20.*.*@o2ib10",
            "--src 10.[22,24,25,27].*.*@o2ib10 --dst 10.24.*.*@o2ib10",
        ]
    );
    assert_eq!(prove(&pairs).findings, []);
    let lost = prove(&pairs)
        .leaves
        .into_iter()
        .find(|loss| loss.leaf == "leaf1-rail1")
        .unwrap();
    assert_eq!((lost.lost, lost.left), (0, Some((7, 8))));
}

#[test]
fn a_rail_of_its_own_for_each_side_and_a_rule_without_effect_are_found() {
    let apart = hosts(&[("g1", &[0, 1]), ("oss1", &[2])], 3);
    let plan = RailPlan::new(
        &apart,
        &["oss1".to_owned()],
        &RailScheme {
            partitions: vec![],
            ..scheme(RailForm::Nets)
        },
    )
    .unwrap();
    let findings: Vec<String> = prove(&plan)
        .findings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        findings,
        ["client-001 and server-001 have no net in common"]
    );
    let mut plan = RailPlan::new(&eight(ALL), &servers(), &scheme(RailForm::Pairs)).unwrap();
    let rule = plan.site.classes[0].rules[0].to_string();
    // The same rule for a rail that no peer has, as the command that adds the rule.
    let command = format!(
        "lnetctl udsp add {}\n",
        rule.replace("--dst 10.20.", "--dst 10.99.")
    );
    plan.site.classes[0].rules[0] = fgr::config::read_udsp("rules", &command).unwrap().remove(0);
    let findings = prove(&plan).findings;
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, RailFinding::NoEffect { .. })),
        "{findings:?}"
    );
}

#[test]
fn a_rail_that_only_some_peers_lack_is_uneven_and_not_idle() {
    let mut all = eight(ALL);
    all.hosts[7].adapters[2] = None;
    all.hosts[0].adapters[5] = None;
    let proof = prove(&RailPlan::new(&all, &servers(), &scheme(RailForm::Nets)).unwrap());
    assert_eq!(proof.findings, []);
    let uneven: Vec<String> = proof.uneven.iter().map(ToString::to_string).collect();
    assert_eq!(uneven.len(), 4, "{uneven:?}");
    assert!(
        uneven[0].starts_with("rail 3 of client-001 is idle towards server-00"),
        "{uneven:?}"
    );
}

#[test]
fn what_cannot_be_addressed_is_rejected() {
    let rejection = |servers: &[&str], scheme: RailScheme| {
        let servers: Vec<String> = servers.iter().map(|name| (*name).to_owned()).collect();
        RailPlan::new(&eight(ALL), &servers, &scheme).unwrap_err()
    };
    let nets = || scheme(RailForm::Nets);
    assert!(matches!(
        rejection(&["oss9"], nets()),
        RailError::UnknownServer(_)
    ));
    assert_eq!(rejection(&[], nets()), RailError::Roles(0, 8));
    let first = Ipv4Addr::new(10, 250, 0, 0);
    assert!(matches!(
        rejection(
            &["oss1"],
            RailScheme {
                addresses: first,
                ..nets()
            }
        ),
        RailError::Addresses { .. }
    ));
    let odd = Ipv4Addr::new(10, 20, 0, 1);
    assert!(matches!(
        rejection(
            &["oss1"],
            RailScheme {
                addresses: odd,
                ..nets()
            }
        ),
        RailError::Addresses { .. }
    ));
    let net = "o2ib65530".parse().unwrap();
    assert!(matches!(
        rejection(&["oss1"], RailScheme { net, ..nets() }),
        RailError::NoNet { rail: 7, .. }
    ));
    let net = "gni1".parse().unwrap();
    assert!(matches!(
        rejection(&["oss1"], RailScheme { net, ..nets() }),
        RailError::NoNet { rail: 1, .. }
    ));
    let partitions = vec![0; 3];
    assert!(matches!(
        rejection(
            &["oss1"],
            RailScheme {
                partitions,
                ..nets()
            }
        ),
        RailError::Partitions { found: 3, rails: 8 }
    ));
}
