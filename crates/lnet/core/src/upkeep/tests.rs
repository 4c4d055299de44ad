//! Tests of upkeep alone: what follows from an input.

use lnet_types::{Net, Nid, Time};

use crate::ground::config::{NiConfig, Route, Tunables};
use crate::ground::health::Health;
use crate::ground::io::Output;
use crate::tests::net::config;
use crate::upkeep::Upkeep;

const NOW: Time = Time::from_secs(100);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Makes upkeep with one interface, 10.0.0.1@tcp.
fn upkeep() -> Upkeep {
    let mut upkeep = Upkeep::new(config(1), NOW);
    let (nid, tunables) = (nid("10.0.0.1@tcp"), Tunables::default());
    upkeep.add_ni(NiConfig { nid, tunables }, NOW).unwrap();
    upkeep.settle();
    upkeep
}

#[test]
fn outdated_information_is_written_anew_once() {
    let mut upkeep = upkeep();
    let version = |upkeep: &Upkeep| upkeep.traffic.fabric.own.version;
    let before = version(&upkeep);
    let ni = upkeep.traffic.fabric.nis.by_nid(nid("10.0.0.1@tcp"));
    let ni = ni.unwrap().id;
    for health in [Health::ZERO, Health::MAX, Health::ZERO] {
        let fabric = &mut upkeep.traffic.fabric;
        fabric.set_ni_health(ni, health, NOW).unwrap();
    }
    upkeep.settle();
    upkeep.settle();
    assert_eq!(version(&upkeep), before + 1);
}

#[test]
fn a_gateway_that_cannot_be_pinged_is_dead_after_the_timer_that_pinged_it() {
    let mut upkeep = upkeep();
    let gateway = nid("10.0.0.9@tcp");
    upkeep
        .add_route(Route::new(Net::tcp(1), gateway), NOW)
        .unwrap();
    // The interface is gone before the ping: there is no path.
    let ni = upkeep.traffic.fabric.nis.by_nid(nid("10.0.0.1@tcp"));
    let ni = ni.unwrap().id;
    upkeep.remove_ni(ni, NOW).unwrap();
    upkeep.tick(NOW);
    let known = upkeep.traffic.fabric.routes.gateway(gateway).unwrap();
    assert!(!known.alive);
    assert!(upkeep.traffic.later.is_empty(), "nothing is left to settle");
    let outputs = &upkeep.traffic.fabric.ground.outputs;
    let said = |output: &Output| matches!(output, Output::Gateway { alive: false, .. });
    assert_eq!(outputs.iter().filter(|output| said(output)).count(), 1);
}
