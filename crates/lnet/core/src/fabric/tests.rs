//! Tests of the fabric alone: no message is sent or received.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};

use crate::fabric::Fabric;
use crate::fabric::own::Outdated;
use crate::fabric::select::{Exact, PathRequest, Request, Unobserved};
use crate::ground::config::{NiConfig, Route, Tunables};
use crate::ground::health::Health;
use crate::ground::io::NiId;
use crate::ground::status::MessageStatus;
use crate::tests::net::config;

const NOW: Time = Time::from_secs(100);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Makes a fabric with these interfaces.
fn fabric(nids: &[&str]) -> (Fabric, Vec<NiId>) {
    let mut fabric = Fabric::new(config(1), NOW);
    let add = |text: &&str| {
        let tunables = Tunables::default();
        let nid = nid(text);
        fabric.insert_ni(NiConfig { nid, tunables }, NOW).unwrap()
    };
    let ids = nids.iter().map(add).collect();
    (fabric, ids)
}

fn request(target: &str) -> PathRequest {
    PathRequest::Request(Request {
        source: None,
        target: ProcessId::lustre(nid(target)),
        reserved: false,
        exact: Exact::Never,
        cpt: 0,
        avoid: None,
    })
}

#[test]
fn a_path_is_chosen_without_a_message() {
    let (fabric, ids) = fabric(&["10.0.0.1@tcp"]);
    let path = fabric
        .view()
        .path(&request("10.0.0.2@tcp"), None, &mut Unobserved);
    let path = path.unwrap();
    assert_eq!((path.ni, path.next_hop.nid), (ids[0], nid("10.0.0.2@tcp")));
    let elsewhere = fabric
        .view()
        .path(&request("10.1.0.2@tcp1"), None, &mut Unobserved);
    assert!(elsewhere.is_err());
}

#[test]
fn a_route_leads_to_its_gateway() {
    let (mut fabric, _) = fabric(&["10.0.0.1@tcp"]);
    let gateway = nid("10.0.0.9@tcp");
    let route = Route::new("tcp1".parse().unwrap(), gateway);
    fabric.routes.add(route, true).unwrap();
    fabric.peers.create(gateway, NOW).unwrap();
    fabric.peers.add_gateway(gateway);
    let path = fabric
        .view()
        .path(&request("10.1.0.2@tcp1"), None, &mut Unobserved);
    assert_eq!(path.unwrap().next_hop.nid, gateway);
}

#[test]
fn an_interface_that_fails_is_pinged_in_a_second() {
    let (mut fabric, ids) = fabric(&["10.0.0.1@tcp", "10.0.0.2@tcp"]);
    assert_eq!(fabric.ground.timers.next(), None);
    fabric.lower_ni(ids[0], MessageStatus::LocalError, NOW);
    let health = |fabric: &Fabric| fabric.nis.get(ids[0]).unwrap().health;
    assert!(health(&fabric) < Health::MAX);
    let planned = NOW + Duration::from_secs(1);
    assert_eq!(fabric.ground.timers.next(), Some(planned));
    assert_eq!(fabric.own.take_changes(), Outdated::Nothing);
}

#[test]
fn an_interface_without_health_makes_the_nodes_information_outdated() {
    let (mut fabric, ids) = fabric(&["10.0.0.1@tcp"]);
    fabric.set_ni_health(ids[0], Health::ZERO, NOW).unwrap();
    assert_eq!(fabric.own.take_changes(), Outdated::Interfaces);
    assert_eq!(fabric.own.take_changes(), Outdated::Nothing);
}
