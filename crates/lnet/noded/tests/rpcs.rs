//! The RPCs that pass a router are counted exactly, at the router and at their end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "metrics/openmetrics.rs"]
#[allow(dead_code, reason = "each test binary uses a part")]
mod openmetrics;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lnet_node::{AcceptMode, Inbox, Md, Node, NodeOptions, PutRequest};
use lnet_noded::RpcCounts;
use lnet_ptlrpc::client::{Exchange, Export, Limits, Service, Start, Step};
use lnet_ptlrpc::server::{Served, Server};
use lnet_types::{ProcessId, Time};

use openmetrics::Exposition;

const CLIENTS: u64 = 64;
const SERVER: &str = "127.0.0.7@tcp1";
const TARGET: &str = "fs1-OST0000_UUID";

/// The RPCs of one conversation: connect, ping, statfs, disconnect.
const EACH: u64 = 4;

fn node(port: u16, document: &str, accept: Option<AcceptMode>) -> Node {
    let options = NodeOptions {
        port,
        accept,
        ..NodeOptions::default()
    };
    let config = lnet_config::parse(document).unwrap();
    lnet_noded::start(&config, options).unwrap().into_node()
}

fn put(node: &Node, to: ProcessId, portal: u32, match_bits: u64, bytes: Vec<u8>) {
    let queue = node.event_queue();
    let md = node.bind(&queue, Md::source(bytes).threshold(1)).unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: to,
        portal,
        match_bits,
        offset: 0,
        hdr_data: 0,
    };
    node.put(put).unwrap();
    // The descriptor ends with its message.
    queue.wait(Some(Duration::from_secs(60))).unwrap();
}

fn serve(node: &Node) {
    let server = Arc::new(Mutex::new(Server::new(vec![Served::new(
        Service::Ost,
        TARGET,
    )])));
    let mut inbox = Inbox::new(node, Service::Ost.request_portal(), 4096).unwrap();
    let node = node.clone();
    thread::spawn(move || {
        while let Ok(message) = inbox.next(None) {
            let portal = Service::Ost.request_portal();
            let answers = server
                .lock()
                .unwrap()
                .request(portal, message.match_bits, &message.data);
            for answer in answers {
                put(
                    &node,
                    message.from,
                    answer.portal,
                    answer.match_bits,
                    answer.bytes,
                );
            }
        }
    });
}

/// Holds conversations with the server, one after the other.
fn converse(node: &Node, client: u64, rounds: u64) {
    let mut inbox = Inbox::new(node, Service::Ost.reply_portal(), 4096).unwrap();
    let target = ProcessId::lustre(SERVER.parse().unwrap());
    let begun = Instant::now();
    let now = || Time::ZERO + begun.elapsed();
    for round in 0..rounds {
        let uuid = format!("00000000-0000-4000-8000-{client:04}{round:08}");
        let start = Start {
            first_xid: (client << 44) + (round << 12) + 128,
            limits: Limits::within(Duration::from_secs(720)),
            now: now(),
        };
        let mut exchange = Exchange::knock(Export::new(Service::Ost, TARGET, uuid, 7), start);
        loop {
            match exchange.step(now()) {
                Step::Over => break,
                Step::Send(request) => {
                    put(
                        node,
                        target,
                        request.portal,
                        request.match_bits,
                        request.bytes,
                    );
                }
                Step::Wait(until) => {
                    if let Ok(reply) = inbox.next(Some(until.saturating_since(now()))) {
                        exchange.answer(reply.match_bits, &reply.data, reply.length, now());
                    }
                }
            }
        }
        assert_eq!(exchange.failure(), None);
    }
}

#[test]
fn sums_of_a_router_are_those_of_its_clients() {
    let rounds = if std::env::var_os("FINERAIL_LONG").is_some() {
        4000
    } else {
        8
    };
    let port = testkit::port();
    let near = "net: [{net type: tcp, local NI(s): [{nid: 127.0.0.5@tcp}]}, {net type: tcp1, local NI(s): \
                [{nid: 127.0.0.6@tcp1}]}]\nrouting: {enable: 1}\n";
    let router = node(port, near, None);
    let far = "net: [{net type: tcp1, local NI(s): [{nid: 127.0.0.7@tcp1}]}]\n\
               route: [{net: tcp, gateway: 127.0.0.6@tcp1}]\n";
    let server = node(port, far, None);
    serve(&server);
    let counts = RpcCounts::start(&router).unwrap();
    let at_server = RpcCounts::start(&server).unwrap();
    let clients = (1..=CLIENTS).map(|client| {
        thread::spawn(move || {
            let document = format!(
                "net: [{{net type: tcp, local NI(s): [{{nid: 127.0.1.{client}@tcp}}]}}]\n\
                 route: [{{net: tcp1, gateway: 127.0.0.5@tcp}}]\n"
            );
            let node = node(port, &document, Some(AcceptMode::None));
            converse(&node, client, rounds);
            node.shutdown(Duration::ZERO);
        })
    });
    let clients: Vec<_> = clients.collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    for counts in [counts, at_server] {
        is_exact(&counts, rounds);
    }
    router.shutdown(Duration::ZERO);
    server.shutdown(Duration::ZERO);
}

/// Checks that the sums are those of the clients.
fn is_exact(counts: &RpcCounts, rounds: u64) {
    testkit::eventually("every message is counted", || counts.is_current());
    assert_eq!(counts.missed(), 0);
    let text = counts.metrics()();
    for client in 1..=CLIENTS {
        let line = format!(
            "finerail_rpc_client_rpcs_total{{client=\"127.0.1.{client}@tcp\"}} {}\n",
            EACH * rounds
        );
        assert!(text.contains(&line), "no {line} in {text}");
    }
    for operation in ["OST_CONNECT", "OBD_PING", "OST_STATFS", "OST_DISCONNECT"] {
        let line = format!(
            "finerail_rpc_operation_rpcs_total{{operation=\"{operation}\"}} {}\n",
            CLIENTS * rounds
        );
        assert!(text.contains(&line), "no {line} in {text}");
    }
    let job = format!("{{job=\"finerail-doctor\"}} {}\n", CLIENTS * EACH * rounds);
    assert!(
        text.contains(&format!("finerail_rpc_job_rpcs_total{job}")),
        "{text}"
    );
    assert!(text.contains("finerail_rpc_outstanding 0\n"), "{text}");
    let read = Exposition::parse(&format!("{text}# EOF\n")).unwrap();
    let (name, ping) = (
        "finerail_rpc_operation_latency_seconds",
        [("operation", "OBD_PING")],
    );
    let answered = read.value(&format!("{name}_count"), &ping);
    assert_eq!(answered, Some((CLIENTS * rounds) as f64));
    assert!(read.value(&format!("{name}_sum"), &ping) > Some(0.0));
    let of_clients = read.sum("finerail_rpc_client_latency_seconds_total");
    let of_operations = read.sum(&format!("{name}_sum"));
    assert!(
        (of_clients - of_operations).abs() < 1e-3,
        "{of_clients} {of_operations}"
    );
}
