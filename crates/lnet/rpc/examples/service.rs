//! A service with many clients: each call is executed exactly once, whatever the network loses or repeats.
//!
//! cargo run -p lnet-rpc --example service

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lnet_node::{Node, NodeOptions};
use lnet_rpc::{
    Bulk, Call, Client, ClientOptions, Entropy, Handler, Idempotence, Reply, Request, Server,
    ServerOptions,
};

/// A counter to which clients add.
struct Counter(AtomicU64);

impl Handler for Counter {
    fn call(&self, call: &mut Call<'_>) -> Reply {
        let Ok(bytes) = call.body().try_into() else {
            return Reply::error(22, Vec::new()); // EINVAL
        };
        let added = u64::from_le_bytes(bytes);
        let sum = self.0.fetch_add(added, Ordering::Relaxed) + added;
        Reply::ok(sum.to_le_bytes().to_vec())
    }
}

fn start(nid: &str) -> Result<Node, Box<dyn Error>> {
    let options = NodeOptions {
        port: 9988,
        ..NodeOptions::default()
    };
    Ok(Node::start_on(options, &[nid.parse()?])?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let node = start("127.0.0.2@tcp")?;
    let server = Server::start(
        node.clone(),
        Counter(AtomicU64::new(0)),
        &Entropy::from_system()?,
        ServerOptions::default(),
    )?;

    let clients = start("127.0.0.1@tcp")?;
    let mut threads = Vec::new();
    for number in 1..=8_u64 {
        let (clients, entropy) = (clients.clone(), Entropy::from_system()?);
        let client = Client::new(
            clients,
            node.primary_nid(),
            entropy,
            ClientOptions::default(),
        );
        threads.push(thread::spawn(move || {
            let request = Request {
                opcode: 1,
                body: number.to_le_bytes().to_vec(),
                bulk: Bulk::None,
                idempotence: Idempotence::Once,
                deadline: Duration::from_secs(10),
            };
            (0..100).try_for_each(|_| client.call(request.clone()).map(drop))
        }));
    }
    for thread in threads {
        thread.join().map_err(|_| "a client panicked")??;
    }
    println!("{} calls, executed once each", server.counters().executed);
    server.shutdown(Duration::from_secs(1));
    Ok(())
}
