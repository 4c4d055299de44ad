//! A router inside a program: it joins two nets, and a node of each reaches the other.
//!
//! cargo run -p lnet-node --example router

use std::error::Error;
use std::time::Duration;

use lnet_node::{NiSettings, Node, NodeOptions, Route};
use lnet_types::Nid;

fn start(nids: &[&str], routes: &[(&str, &str)], routing: bool) -> Result<Node, Box<dyn Error>> {
    let options = NodeOptions {
        port: 9988,
        routing,
        ..NodeOptions::default()
    };
    Node::start_with(options, |engine, now| {
        for nid in nids {
            engine.add_interface(nid.parse()?, NiSettings::default(), now)?;
        }
        for (net, gateway) in routes {
            let route = Route::new(net.parse()?, gateway.parse()?);
            engine.core_mut().add_route(route, now)?;
        }
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let router = start(&["127.0.0.1@tcp", "127.0.0.1@tcp1"], &[], true)?;
    let near = start(&["127.0.0.2@tcp"], &[("tcp1", "127.0.0.1@tcp")], false)?;
    let _far = start(&["127.0.0.3@tcp1"], &[("tcp", "127.0.0.1@tcp1")], false)?;

    let far: Nid = "127.0.0.3@tcp1".parse()?;
    let reply = near.ping(far, None, Duration::from_secs(10))?;
    println!("{} answers after {:?}", reply.primary_nid, reply.round_trip);
    println!(
        "the router has forwarded {} messages",
        router.stats().route_count
    );
    Ok(())
}
