//! Sites of the field: chains of routers, routers of several nets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use fgr::check::{Finding, check};
use fgr::config::Site;
use fgr::evaluate::bounds::by_module;
use fgr::evaluate::{Evaluation, Gateways};
use fgr::job::{Job, Limit};
use fgr::links::LinkNames;
use fgr::{Metric, Options, Policy, assign, preset, read_machine};
use lnet_config::Config;

/// The nodes of the chained site: compute, cluster routers, building A, Ethernet, building B, servers.
fn chained() -> Option<Vec<(String, Config)>> {
    let directory = testkit::shared_data("trials/fgr/llnl")?;
    let mut nodes = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let config = lnet_config::parse(&std::fs::read_to_string(&path).unwrap());
        nodes.push((name, config.expect("a document")));
    }
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    Some(nodes)
}

fn findings(nodes: &[(String, Config)]) -> Vec<Finding> {
    let servers = "o2ib200".parse().unwrap();
    let site = Site::from_nodes(nodes.to_vec(), |net| net == servers);
    let report = check(&site);
    assert!(report.pairs > 0);
    report.findings
}

#[test]
fn a_working_chain_of_routers_is_proved_and_a_broken_one_is_not() {
    let Some(nodes) = chained() else { return };
    let found = findings(&nodes);
    let errors: Vec<&Finding> = found.iter().filter(|found| found.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    // LNet does not see the far side of a router of a chain.
    let unwatched = |found: &Finding| matches!(found, Finding::Unwatched { .. });
    assert!(found.iter().any(unwatched));

    for router in ["cr4", "bA2", "bB5"] {
        let mut broken = nodes.clone();
        let of = broken.iter_mut().find(|(name, _)| name == router).unwrap();
        of.1.routes.clear();
        let found = findings(&broken);
        assert!(found.iter().any(Finding::is_error), "{router}");
    }
    let mut alone = nodes;
    alone.retain(|(name, _)| name != "cr5");
    let found = findings(&alone);
    let after = found.iter().filter(|found| found.is_error());
    assert!(
        after
            .map(ToString::to_string)
            .any(|text| text.contains("router cr4"))
    );
}

/// Two nets; one router of both, and one of each.
const OF_TWO_NETS: &str = "
machine: two nets
fabric:
  kind: fat-tree
  levels:
    - {down: 12, up: 1, capacity: 12.5}
    - {down: 2, up: 4, capacity: 25}
clients:
  list:
    - {id: 0, name: n0, at: [0]}
    - {id: 1, name: n1, at: [1]}
    - {id: 2, name: n2, at: [2]}
    - {id: 3, name: n3, at: [3]}
    - {id: 4, name: n4, at: [12]}
    - {id: 5, name: n5, at: [13]}
    - {id: 6, name: n6, at: [14]}
    - {id: 7, name: n7, at: [15]}
groups:
  - name: G1
    nets: [o2ib1, o2ib2]
    sub-groups:
      - modules:
          - {blade: r1, at: [6], nodes: [{id: 20, nets: [o2ib1, o2ib2]}]}
          - {blade: r2, at: [18], nodes: [{id: 21, nets: [o2ib1]}, {id: 22, nets: [o2ib2]}]}
";

#[test]
fn a_router_of_two_nets_counts_once_and_is_loaded_as_the_others() {
    let machine = read_machine("two.yaml", OF_TWO_NETS).unwrap();
    let policy = Policy::Balanced {
        by: fgr::Metric::Cost,
    };
    let plan = assign(&machine, policy, &Options::default()).unwrap();
    let figures = Evaluation::new(&machine, &plan, Gateways::Primary);
    // Sixteen pairs on three nodes: node 20 serves two or three clients on each of its nets, the others five or six.
    assert_eq!(figures.router_load.count, 3);
    assert!(figures.router_load.max <= 6.0, "{:?}", figures.router_load);
    let clients: Vec<usize> = (0..8).collect();
    let job = Job {
        machine: &machine,
        plan: &plan,
        clients: &clients,
        nets: &[0, 1],
        router_rate: None,
        client_rate: 25.0,
    };
    // 16 units, of which the busiest node carries 6 at 2.6 GB/s.
    let write = job.report().unwrap().write;
    assert!(
        (write.rate - 16.0 / 6.0 * 2.6).abs() < 1e-9,
        "{}",
        write.rate
    );
    assert_eq!(write.limit, Limit::Router);
}

#[test]
fn a_router_forwards_no_more_than_its_slower_side() {
    let gateway = OF_TWO_NETS.replace(
        "{id: 20, nets: [o2ib1, o2ib2]}",
        "{id: 20, name: gw1, nets: [o2ib1, o2ib2], nics: [{interface: hsn0, rate: 2}, {interface: ib0, net: o2ib1, rate: 9}, \
         {interface: ib1, net: o2ib2, rate: 9}]}",
    );
    let machine = read_machine("gateway.yaml", &gateway).unwrap();
    let by = fgr::Metric::Cost;
    let plan = assign(&machine, Policy::Balanced { by }, &Options::default()).unwrap();
    let clients: Vec<usize> = (0..8).collect();
    let job = Job {
        machine: &machine,
        plan: &plan,
        clients: &clients,
        nets: &[0, 1],
        router_rate: None,
        client_rate: 25.0,
    };
    // Of the 16 units node 20 carries two or three of each net at the 2 GB/s of its side towards the clients, the
    // busiest other node six at 2.6 GB/s.
    let of_gateway: f64 = job
        .report()
        .unwrap()
        .routers
        .iter()
        .filter(|used| machine.routers[usize::from(used.router)].id == 20)
        .map(|used| used.clients)
        .sum();
    let write = job.report().unwrap().write;
    let expected = (16.0 / of_gateway * 2.0).min(16.0 / 6.0 * 2.6);
    assert!(
        (write.rate - expected).abs() < 1e-9,
        "{}: {of_gateway}",
        write.rate
    );
    assert_eq!(machine.router_name(20), "gw1");
}

#[test]
fn a_job_gets_no_more_than_its_clients_inject() {
    let machine = read_machine("two.yaml", OF_TWO_NETS).unwrap();
    let plan = assign(
        &machine,
        Policy::Nearest {
            by: fgr::Metric::Cost,
        },
        &Options::default(),
    );
    let plan = plan.unwrap();
    let job = Job {
        machine: &machine,
        plan: &plan,
        clients: &[0],
        nets: &[0, 1],
        router_rate: Some(20.0),
        client_rate: 3.0,
    };
    let report = job.report().unwrap();
    assert_eq!(report.write.limit, Limit::Client);
    assert!((report.write.rate - 3.0).abs() < 1e-9);
    let name = LinkNames::new(&machine).name(report.write.hottest[0].0);
    assert!(name.ends_with(" → leaf 0"), "{name}");
}

#[test]
fn balanced_spreads_a_dragonflys_ties_over_its_links_without_longer_paths() {
    // By slot order the hottest link of Frontier had 4.9, and with ties broken by chance 3.0.
    for (name, most) in [("frontier", 1.7), ("lumi", 2.6), ("perlmutter", 8.5)] {
        let machine = preset(name).unwrap().unwrap();
        let policy = Policy::Balanced { by: Metric::Cost };
        let options = Options {
            backups: 0,
            ..Options::default()
        };
        let plan = assign(&machine, policy, &options).unwrap();
        let figures = Evaluation::new(&machine, &plan, Gateways::Primary);
        assert!(
            (figures.balance() - 1.0).abs() < 0.01,
            "{name}: {}",
            figures.balance()
        );
        let optimum = by_module(&machine, Metric::Cost, true).unwrap();
        let mean = figures.cost.mean;
        assert!(mean < optimum + 1e-9, "{name}: {mean}, {optimum}");
        let hottest = figures.write.max.max(figures.read.max);
        assert!(hottest < most, "{name}: {hottest}");
        let link = figures.write.hottest.unwrap();
        let link = LinkNames::new(&machine).name(link);
        assert!(link.starts_with("group "), "{link}");
    }
}
