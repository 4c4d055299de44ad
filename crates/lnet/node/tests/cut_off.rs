//! Tests that a peer that stops in the middle of a message does not keep a program's memory after a cancel.

mod common;

use std::io::Write;
use std::time::Instant;

use lnet_node::{Errno, MatchEntry, Md, MdOptions};
use lnet_wire::{Body, Handle, Header, Put};

use common::raw::{dial, frame};
use common::{PATIENCE, next, nid, start};

const LENGTH: usize = 100_000;

#[test]
fn memory_that_a_peer_fills_no_further_is_given_back_when_it_is_cancelled() {
    let port = testkit::port();
    let (own, peer) = (nid("127.0.0.1@tcp"), nid("127.0.0.2@tcp"));
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let queue = node.event_queue();
    let room = Md::sink(vec![0; LENGTH])
        .options(MdOptions::OP_PUT)
        .threshold(1);
    let md = node.attach(&queue, MatchEntry::exact(40, 1), room).unwrap();

    let put = Header {
        dest_nid: own,
        src_nid: peer,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: LENGTH as u32,
        body: Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: 1,
            hdr_data: 0,
            ptl_index: 40,
            offset: 0,
        }),
    };
    let mut stuck = dial(peer, own, port);
    stuck.write_all(&frame(&put, &[7; LENGTH / 2])).unwrap();
    let limit = Instant::now() + PATIENCE;
    while node.stats().msgs_max == 0 {
        assert!(Instant::now() < limit, "the header did not arrive");
        std::thread::yield_now();
    }

    node.cancel(md).unwrap();
    let event = next(&queue);
    assert_eq!(event.event.status, Err(Errno::ECANCELED));
    assert_eq!(event.memory.unwrap().into_vec().len(), LENGTH);
}
