//! Explanations of a route that is down: the one test that fails, and the time of the gateway's next ping.

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
use lnet_explain::{Code, Finding, Node, Question, explain};
use lnet_types::{Net, Nid, Time};

const NOW: Time = Time::from_secs(1000);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A node with one route.
fn state() -> SelectionState {
    let config = CoreConfig {
        entropy: Entropy::from_seed(1),
        seed: 1,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let mut core = Core::new(config, NOW);
    let ni = NiConfig {
        nid: nid("10.0.0.1@tcp"),
        tunables: Tunables::default(),
    };
    core.add_ni(ni, NOW).unwrap();
    let route = Route {
        net: Net::tcp(1),
        gateway: nid("10.0.0.9@tcp"),
        hops: Some(1),
        priority: 0,
    };
    core.add_route(route, NOW).unwrap();
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
