//! Tests which settings a node takes from its configuration, and which from the program that starts it.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use lnet_node::{AcceptMode, Globals, NodeOptions};
use lnet_noded::{ManagedNode, StartError};
use lnet_policy::Profile;

const NET: &str = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
const INTERVAL: Duration = Duration::from_secs(7);

fn start(yaml: &str) -> Result<ManagedNode, StartError> {
    let options = NodeOptions {
        accept: Some(AcceptMode::None),
        globals: Globals {
            alive_router_check_interval: INTERVAL,
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options)
}

fn globals(node: &ManagedNode) -> Globals {
    node.node().look(|engine| *engine.core().globals())
}

#[test]
fn a_configuration_without_a_network_is_refused_as_such_though_it_has_routes() {
    let routes = "route:\n- net: tcp1\n  gateway: 127.0.0.2@tcp\n";
    match start(routes) {
        Err(StartError::NoNetwork) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it starts"),
    }
}

const O2IB: &str = "net:\n- net type: o2ib\n  local NI(s):\n  - nid: 127.0.0.1@o2ib\n";

fn refused(yaml: &str) -> String {
    start(yaml).err().unwrap().to_string()
}

#[test]
fn a_node_without_the_means_for_o2ib_says_what_is_missing() {
    let why = refused(O2IB);
    // Of libraries, kernel modules and a device, whatever is missing first.
    let known = ["apt-get install", "rdma_ucm", "no RDMA device"];
    assert!(known.iter().any(|words| why.contains(words)), "{why}");
    let why = refused(&O2IB.replace("o2ib", "gni").replace("127.0.0.1", "5"));
    assert!(why.contains("neither a tcp nor an o2ib network"), "{why}");
}

#[test]
fn settings_of_o2ib_are_numbers_in_their_range() {
    for (setting, most) in [
        ("peercredits_hiw: 256", 255),
        ("concurrent_sends: many", 65535),
    ] {
        let why = refused(&format!("{O2IB}    lnd tunables:\n      {setting}\n"));
        let (key, value) = setting.split_once(": ").unwrap();
        let expected = format!("o2ib: {key} is '{value}', which is no number from 0 to {most}");
        assert_eq!(why, expected);
    }
}

#[test]
fn parameters_that_no_configuration_names_are_those_of_the_start_also_after_a_change() {
    let node = start(&format!("{NET}global:\n  retry_count: 1\n")).unwrap();
    let begun = globals(&node);
    assert_eq!(begun.retry_count, 1);
    assert_eq!(begun.alive_router_check_interval, INTERVAL);
    let wanted = lnet_config::parse(&format!("{NET}global:\n  retry_count: 2\n")).unwrap();
    assert_eq!(node.reconfigure(&wanted), Ok(1));
    let changed = globals(&node);
    assert_eq!(changed.retry_count, 2);
    assert_eq!(changed.alive_router_check_interval, INTERVAL);
}

#[test]
fn parameters_that_no_change_could_make_are_refused_at_the_start_too() {
    // Of two that a document names, it is the parser that compares them.
    for (parameter, retries) in [("retry_count: 151", 151), ("transaction_timeout: 1", 2)] {
        let why = match start(&format!("{NET}global:\n  {parameter}\n")) {
            Err(StartError::Core(error)) => error.to_string(),
            Err(other) => panic!("{other}"),
            Ok(node) => format!("{:?}", globals(&node)),
        };
        let expected = "is more than transaction_timeout has seconds";
        assert_eq!(why, format!("retry_count {retries} {expected}"));
    }
    let equal = start(&format!("{NET}global:\n  transaction_timeout: 2\n"));
    assert_eq!(globals(&equal.unwrap()).retry_count, 2);
    let yaml = format!("{NET}global:\n  health_sensitivity: 0\n");
    let without_health = start(&yaml).unwrap();
    assert_eq!(globals(&without_health).retry_count, 0);
    let same = lnet_config::parse(&yaml).unwrap();
    assert_eq!(without_health.reconfigure(&same), Ok(0));
}

#[test]
fn the_profile_and_the_parameters_of_routers_come_from_the_document() {
    let parameters = "global:
  profile: lustre
  alive_router_check_interval: 5
  router_ping_timeout: 6
  check_routers_before_use: 1
  avoid_asym_router_failure: 0
  discovery: 0
";
    let wanted = Globals {
        profile: Profile::Lustre,
        alive_router_check_interval: Duration::from_secs(5),
        router_ping_timeout: Duration::from_secs(6),
        check_routers_before_use: true,
        avoid_asym_router_failure: false,
        discovery: false,
        own_nids_by_loopback: false,
        ..Globals::default()
    };
    let node = start(&format!("{NET}{parameters}")).unwrap();
    assert_eq!(globals(&node), wanted);
    let other = format!("{NET}global:\n  profile: design\n  discovery: 1\n");
    assert_eq!(
        node.reconfigure(&lnet_config::parse(&other).unwrap()),
        Ok(1)
    );
    let changed = globals(&node);
    assert_eq!(
        (changed.profile, changed.discovery),
        (Profile::Design, true)
    );
    assert!(changed.own_nids_by_loopback);
}
