//! Tests over real sockets that a third party that knows the handle of a request cannot answer in place of the node
//! that was asked.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lnet_node::{EventQueue, GetRequest, Md, Node, NodeEvent};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Header, Reply};

use common::raw::{dial, frame, serve};
use common::{PATIENCE, next, nid, start};

const HONEST: [u8; 16] = *b"what is so truly";
const FORGED: [u8; 16] = *b"what is not so !";

/// Sends a REPLY to a GET, with `source` as the source NID.
fn answer(stream: &mut TcpStream, asked: &Header, source: Nid, data: &[u8; 16]) {
    let Body::Get(get) = asked.body else {
        unreachable!("the node sends one GET")
    };
    let reply = Header {
        dest_nid: asked.src_nid,
        src_nid: source,
        dest_pid: asked.src_pid,
        src_pid: asked.dest_pid,
        payload_length: 16,
        body: Body::Reply(Reply {
            dst_wmd: get.return_wmd,
        }),
    };
    stream.write_all(&frame(&reply, data)).unwrap();
}

fn refused(node: &Node) -> u64 {
    let drops = node.stats().drops;
    let reasons = ["wrong_responder", "bad_source"];
    reasons.iter().filter_map(|reason| drops.get(*reason)).sum()
}

fn ask(node: &Node, server: Nid) -> EventQueue {
    let queue = node.event_queue();
    let md = Md::sink(vec![0; 16]).threshold(2);
    let md = node.bind(&queue, md).unwrap();
    node.get(GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(server),
        portal: 40,
        match_bits: 1,
        offset: 0,
    })
    .unwrap();
    queue
}

fn memory(event: NodeEvent) -> Option<Vec<u8>> {
    assert_eq!(event.event.status, Ok(()));
    event.memory.map(lnet_node::Memory::into_vec)
}

#[test]
fn a_get_is_completed_by_the_node_that_was_asked_and_by_no_other() {
    let port = testkit::port();
    let [client, server, stranger] = ["127.0.0.1@tcp", "127.0.0.2@tcp", "127.0.0.3@tcp"].map(nid);
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), port)).unwrap();
    let requests = serve(listener, server);
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let queue = ask(&node, server);
    let (mut honest, asked) = requests.recv_timeout(PATIENCE).unwrap();

    let mut forger = dial(stranger, client, port);
    for (round, source) in (1..).zip([stranger, server, nid("10.0.0.1@tcp9")]) {
        answer(&mut forger, &asked, source, &FORGED);
        let limit = Instant::now() + PATIENCE;
        while refused(&node) < round {
            assert!(Instant::now() < limit, "{source} was not refused");
            let early = queue.wait(Some(Duration::from_millis(10)));
            assert!(early.ok().and_then(memory).is_none(), "{source} answered");
        }
    }
    answer(&mut honest, &asked, server, &HONEST);
    let landed = loop {
        if let Some(landed) = memory(next(&queue)) {
            break landed;
        }
    };
    assert_eq!(landed, HONEST);
}
