//! Routes: the one test that a route fails which is down, the time of the gateway's next ping, and the paths that equal
//! routes share.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Duration;

use lnet_core::{
    Core, CoreConfig, Entropy, Globals, NiConfig, Route, RouteFault, RouterBuffers, SelectionState,
    Tunables,
};
use lnet_explain::{Code, Finding, Node, Question, explain, ways};
use lnet_types::{Net, Nid, Time};

const NOW: Time = Time::from_secs(1000);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A node with one route.
fn state() -> SelectionState {
    state_by(&["10.0.0.9@tcp"])
}

/// A node with a route to tcp1 by each of these gateways, and an interface on the net of each.
fn state_by(gateways: &[&str]) -> SelectionState {
    let config = CoreConfig {
        entropy: Entropy::from_seed(1),
        seed: 1,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let mut core = Core::new(config, NOW);
    for gateway in gateways.iter().map(|gateway| nid(gateway)) {
        let ni = NiConfig {
            nid: Nid::from_ip(gateway.net(), "10.0.0.1".parse().unwrap()),
            tunables: Tunables::default(),
        };
        core.add_ni(ni, NOW).unwrap();
        let route = Route {
            net: Net::tcp(1),
            gateway,
            hops: Some(1),
            priority: 0,
        };
        core.add_route(route, NOW).unwrap();
    }
    core.selection_state()
}

fn told(state: SelectionState) -> Finding {
    // The state as a tool reads it from a node.
    let text = lnet_core::state_json::to_json(state, NOW).unwrap();
    let (state, now) = lnet_core::state_json::from_json(&text).unwrap();
    let question = Question {
        to: nid("10.1.0.7@tcp1"),
        from: None,
        size: 0,
        sends: 1,
    };
    let explanation = explain(&Node::exact(state, now), &question).unwrap();
    let mut findings = explanation.findings.into_iter();
    let found = findings.find(|finding| finding.code == Code::RouteDown);
    found.unwrap()
}

#[test]
fn a_route_that_is_down_names_exactly_the_test_that_it_fails() {
    use RouteFault::{NiDown, NotAnswered, NotRouting, Silent};
    for (alive, fault, due) in [
        (
            false,
            NotAnswered,
            "test 1, gateway 10.0.0.9@tcp has not answered a ping yet",
        ),
        (
            false,
            Silent,
            "test 1, gateway 10.0.0.9@tcp does not answer pings",
        ),
        (true, Silent, "test 2, the last ping of the gateway"),
        (
            true,
            NiDown(Net::tcp(0)),
            "test 3, no interface of the gateway on tcp is up",
        ),
        (
            true,
            NiDown(Net::tcp(1)),
            "test 4, the gateway's side on tcp1 is not up",
        ),
        (true, NotRouting, "test 5, the gateway does not route"),
    ] {
        let mut state = state();
        state.gateways[0].alive = alive;
        state.routes[0].up = false;
        state.routes[0].fault = Some(fault);
        let Finding { text, advice, .. } = told(state);
        assert!(text.contains(due), "no '{due}' in {text}");
        assert_eq!(text.matches("test ").count(), 1, "{text}");
        let helps = match fault {
            NiDown(_) => "at the gateway: the gateway needs an interface on this net",
            NotRouting => "`lnetctl set routing 1` at the gateway",
            _ => "`lnetctl ping 10.0.0.9@tcp` from this node",
        };
        assert!(advice.contains(helps), "{advice}");
    }
}

#[test]
fn a_gateway_whose_next_ping_is_due_is_asked_now() {
    for (at, due) in [
        (NOW, "The next ping of the gateway is due now"),
        (
            NOW + Duration::from_millis(900),
            "The next ping of the gateway is due now",
        ),
        (
            NOW + Duration::from_secs(7),
            "The next ping of the gateway is in 7 s",
        ),
    ] {
        let mut state = state();
        state.gateways[0].alive = false;
        state.gateways[0].next_check = Some(at);
        state.routes[0].up = false;
        state.routes[0].fault = Some(RouteFault::Silent);
        let text = told(state).text;
        assert!(text.ends_with(due), "{text}");
    }
}

/// A node that sends to a peer that is not Multi-Rail keeps the first of its interfaces. A router does not: messages of
/// others take turns.
#[test]
fn forwarded_messages_share_gateways_of_several_nets_and_own_messages_keep_one() {
    let mut state = state_by(&["10.0.0.9@tcp", "10.0.0.9@tcp2"]);
    for (route, gateway) in state.routes.iter_mut().zip(&mut state.gateways) {
        (route.up, gateway.alive) = (true, true);
    }
    let node = Node::exact(state, NOW);
    for (forwards, due) in [(true, vec![4, 4]), (false, vec![8])] {
        let paths = ways(&node, nid("10.1.0.7@tcp1"), 8, forwards);
        let paths = paths.unwrap().unwrap();
        let sends: Vec<u32> = paths.iter().map(|way| way.sends).collect();
        assert_eq!(sends, due, "{paths:?}");
    }
}
