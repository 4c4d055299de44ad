//! Starts nodes on loopback addresses, each test on its own port.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

pub(crate) mod raw;

use std::error::Error;
use std::time::Duration;

use lnet_node::{EventKind, EventQueue, NiSettings, Node, NodeEvent, NodeOptions, Progress, Route};
use lnet_types::Nid;

/// Longer than any test here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Returns a route without a hop count.
pub(crate) fn route(net: &str, gateway: &str) -> Route {
    Route {
        net: net.parse().unwrap(),
        gateway: nid(gateway),
        hops: None,
        priority: 0,
    }
}

/// Starts a node with one interface for each NID, in the order given.
pub(crate) fn start(port: u16, nids: &[&str], routes: &[Route]) -> Node {
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    start_so(nids, routes, options)
}

/// Starts a node that forwards between the nets of its NIDs.
pub(crate) fn start_router(port: u16, nids: &[&str]) -> Node {
    let options = NodeOptions {
        port,
        routing: true,
        ..NodeOptions::default()
    };
    start_so(nids, &[], options)
}

/// Starts a node that makes progress only while a caller waits.
pub(crate) fn start_caller(port: u16, nids: &[&str]) -> Node {
    let options = NodeOptions {
        port,
        progress: Progress::Caller,
        ..NodeOptions::default()
    };
    start_so(nids, &[], options)
}

pub(crate) fn start_so(nids: &[&str], routes: &[Route], options: NodeOptions) -> Node {
    let node = Node::start_with(options, |engine, now| -> Result<(), Box<dyn Error>> {
        for text in nids {
            engine.add_interface(nid(text), NiSettings::default(), now)?;
        }
        for &route in routes {
            engine.core_mut().add_route(route, now)?;
        }
        Ok(())
    });
    node.unwrap()
}

/// Returns the next event; panics if none comes in time.
pub(crate) fn next(queue: &EventQueue) -> NodeEvent {
    queue
        .wait(Some(PATIENCE))
        .unwrap_or_else(|error| panic!("after {PATIENCE:?}: {error}"))
}

/// Waits for an event of this kind and skips others. Every event must be a success.
pub(crate) fn expect(queue: &EventQueue, kind: EventKind) -> NodeEvent {
    loop {
        let event = next(queue);
        assert_eq!(event.event.status, Ok(()), "{event:?}");
        if event.event.kind == kind {
            return event;
        }
    }
}
