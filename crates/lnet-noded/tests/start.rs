//! What a node gets from its configuration, and what from whoever starts it.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use lnet_node::{AcceptMode, Globals, NodeOptions};
use lnet_noded::{ManagedNode, StartError};

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
