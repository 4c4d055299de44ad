//! Asks a node, of a kernel or ours, for its interfaces. Needs no privilege if the node accepts any port.
//!
//! cargo run -p lnet-node --example ping -- 10.0.0.1@tcp 10.0.0.9@tcp

use std::error::Error;
use std::time::Duration;

use lnet_node::{AcceptMode, Node, NodeOptions};
use lnet_types::Nid;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(own), Some(target)) = (words.next(), words.next()) else {
        return Err("usage: ping OWN_NID TARGET_NID, such as 10.0.0.1@tcp 10.0.0.9@tcp".into());
    };
    let port = words
        .next()
        .map_or(Ok(NodeOptions::LNET_PORT), |port| port.parse());
    let options = NodeOptions {
        port: port?,
        accept: Some(AcceptMode::None), // it only asks
        one_shot: true,                 // and leaves a node of this machine alone
        ..NodeOptions::default()
    };
    let own: Nid = own.parse()?;
    let node = Node::start_on(options, &[own])?;
    let reply = node.ping(target.parse()?, None, Duration::from_secs(10))?;
    println!(
        "{} after {:?}, features {:?}",
        reply.primary_nid, reply.round_trip, reply.features
    );
    for ni in reply.nis {
        println!("  {} is {:?}", ni.nid, ni.status);
    }
    Ok(())
}
