//! Tests a peer that closes its connections and at once connects again with the same incarnation: the node sees the
//! end of the old connections late, or after the new connection is there.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use lnet_node::{MatchEntry, Md, MdOptions};
use lnet_types::Nid;
use lnet_wire::{Body, ByteOrder, FrameType, Handle, Header, HeaderForm, KsockHeader, Put};

use common::raw::{dial, frame};
use common::{nid, start};

const PEER: &str = "127.0.0.2@tcp";

fn put(own: Nid, number: u64) -> Vec<u8> {
    let header = Header {
        dest_nid: own,
        src_nid: nid(PEER),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 4,
        body: Body::Put(Put {
            ack_wmd: Handle {
                interface: 7,
                object: number,
            },
            match_bits: 1,
            hdr_data: 0,
            ptl_index: 40,
            offset: 0,
        }),
    };
    frame(&header, b"data")
}

/// Reads up to the next ACK and returns its number.
fn ack(stream: &mut TcpStream) -> u64 {
    let mut bytes = [0; KsockHeader::LEN + 72];
    loop {
        stream.read_exact(&mut bytes[..KsockHeader::LEN]).unwrap();
        let ksock = KsockHeader::decode(ByteOrder::Little, &bytes).unwrap();
        if ksock.frame_type == FrameType::Lnet {
            break;
        }
    }
    stream.read_exact(&mut bytes[KsockHeader::LEN..]).unwrap();
    let header = Header::decode(HeaderForm::Nid4, &bytes[KsockHeader::LEN..]).unwrap();
    match header.body {
        Body::Ack(ack) => ack.dst_wmd.object,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn whoever_connects_again_at_once_gets_every_answer_to_what_is_asked_then() {
    let (port, own) = (testkit::port(), nid("127.0.0.1@tcp"));
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let queue = node.event_queue();
    let room = Md::sink(vec![0; 4]).options(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
    node.attach(&queue, MatchEntry::exact(40, 1), room).unwrap();
    let mut number = 0;
    let mut old = dial(nid(PEER), own, port);
    for round in 0..50 {
        for _ in 0..20 {
            number += 1;
            old.write_all(&put(own, number)).unwrap();
        }
        let begun = number + 1;
        let mut new = match round % 3 {
            // The old connection closes before the new one opens, as if the process died; after, as if the process
            // had not yet noticed; or in one direction only.
            0 => {
                drop(old);
                dial(nid(PEER), own, port)
            }
            1 => {
                let new = dial(nid(PEER), own, port);
                drop(old);
                new
            }
            _ => {
                old.shutdown(Shutdown::Write).unwrap();
                dial(nid(PEER), own, port)
            }
        };
        for _ in 0..20 {
            number += 1;
            new.write_all(&put(own, number)).unwrap();
        }
        let mut missing: Vec<u64> = (begun..=number).collect();
        while !missing.is_empty() {
            let answered = ack(&mut new);
            missing.retain(|number| *number != answered);
        }
        old = new;
    }
}
