//! Handshakes that are broken or rejected, or that have another version, byte order or place.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_capture::{Kind, LNET_PORT, decode_capture};
use lnet_wire::{Connreq, Ctype, HeaderForm, Hello, HelloVersion, KsockHeader, Problem};

use common::capture::{ACK, FIN, SYN, Segment, pcap_of};
use common::talk::{Talk, answer, connreq, conversation, dial_hello, hello, nid, ping, put};
use common::{Said, listen_to};

/// A capture of a connection from its SYN to its end.
fn capture(talk: &Talk) -> Vec<u8> {
    pcap_of(&[
        Segment::from_dialler(1, SYN, &[]),
        Segment::from_listener(1, SYN, &[]).acknowledging(2),
        Segment::from_dialler(2, ACK, &talk.dialler),
        Segment::from_listener(2, ACK, &talk.listener),
        Segment::from_dialler(2 + talk.dialler.len() as u32, ACK | FIN, &[]),
        Segment::from_listener(2 + talk.listener.len() as u32, ACK | FIN, &[]),
    ])
}

fn listen(dialler: &[&[u8]], listener: &[&[u8]]) -> Said {
    listen_to(&capture(&Talk {
        dialler: dialler.concat(),
        listener: listener.concat(),
    }))
}

/// The problem of the first broken structure, and its offset there.
fn first_error(dialler: &[&[u8]], listener: &[&[u8]]) -> (Problem, usize) {
    let talk = Talk {
        dialler: dialler.concat(),
        listener: listener.concat(),
    };
    let mut found = None;
    let (_, read) = decode_capture(capture(&talk).as_slice(), &[LNET_PORT], |message| {
        if let Kind::Broken(error) = message.kind {
            assert!(message.connection.rejected);
            found.get_or_insert((error.problem, error.offset));
        }
        Ok(())
    });
    read.expect("the capture is whole");
    found.expect("something is broken")
}

#[test]
fn a_hello_of_type_none_rejects() {
    let said = listen(
        &[&connreq(), &hello(&dial_hello())],
        &[&answer(Ctype::NONE)],
    );
    assert_eq!(
        (said.dialler, said.listener),
        (
            vec!["CONNREQ".to_owned(), "HELLO".to_owned()],
            vec!["HELLO".to_owned()]
        )
    );
    assert_eq!(said.summary.rejected, 1);
    assert!(said.summary.is_complete());
}

#[test]
fn bytes_behind_a_rejection_are_not_undecoded() {
    let junk = [0x5A; 50];
    let said = listen(
        &[&connreq(), &hello(&dial_hello())],
        &[&answer(Ctype::NONE), &junk],
    );
    assert_eq!(
        (said.summary.bytes.unaccepted, said.summary.bytes.undecoded),
        (50, 0)
    );
}

#[test]
fn a_request_with_a_wrong_version_is_broken_and_its_rejection_is_shown() {
    let mut request = connreq();
    request[4] = 9;
    let said = listen(&[&request, &hello(&dial_hello())], &[&Connreq::REJECTION]);
    assert_eq!(
        (said.dialler, said.listener),
        (vec!["BROKEN".to_owned()], vec!["REFUSAL".to_owned()])
    );
    assert_eq!(said.summary.rejected, 1);
    assert_eq!(
        first_error(&[&request], &[]),
        (Problem::UnknownVersion(9), 4)
    );
}

#[test]
fn a_connection_that_starts_with_a_hello_is_broken_at_its_magic() {
    let (problem, offset) = first_error(&[&hello(&dial_hello())], &[&Connreq::REJECTION]);
    assert_eq!((problem, offset), (Problem::BadMagic(0x4572_6963), 0));
}

#[test]
fn a_hello_of_an_unknown_version_is_broken_and_its_answer_is_shown() {
    let mut unknown = hello(&dial_hello());
    unknown[4] = 99;
    let said = listen(&[&connreq(), &unknown], &[&answer(Ctype::NONE)]);
    assert_eq!(
        (said.dialler, said.listener),
        (
            vec!["CONNREQ".to_owned(), "BROKEN".to_owned()],
            vec!["HELLO".to_owned()]
        )
    );
    assert!(said.summary.is_complete());
}

#[test]
fn a_hello_shorter_than_its_version_is_broken_at_its_end() {
    let v4 = Hello {
        version: HelloVersion::V4,
        ..dial_hello()
    };
    let short = &hello(&v4)[..56];
    let truncated = Problem::Truncated {
        needed: 80,
        available: 56,
    };
    assert_eq!(first_error(&[&connreq(), short], &[]), (truncated, 56));
}

#[test]
fn frames_follow_the_version_of_the_acceptors_hello() {
    let v2 = Hello {
        version: HelloVersion::V2,
        ..dial_hello()
    };
    let said = listen(
        &[&connreq(), &hello(&v2), &ping()],
        &[&answer(Ctype::CONTROL)],
    );
    assert_eq!(said.dialler, ["CONNREQ", "HELLO", "GET"]);
}

#[test]
fn version_1_has_no_frame_headers() {
    let v1 = Hello {
        version: HelloVersion::V1,
        ..dial_hello()
    };
    let reply = hello(&v1.reply(nid("10.0.0.2@tcp"), 5, Ctype::CONTROL));
    let (get, put) = (
        ping()[KsockHeader::LEN..].to_vec(),
        put(80)[KsockHeader::LEN..].to_vec(),
    );
    let said = listen(&[&connreq(), &hello(&v1), &get, &put], &[&reply]);
    assert_eq!(said.dialler, ["CONNREQ", "HELLO", "GET", "PUT"]);
    assert!(said.summary.is_complete());
}

/// The same bytes with consecutive integers of these widths in the other byte order.
fn turned(mut bytes: Vec<u8>, widths: &[usize]) -> Vec<u8> {
    let mut at = 0;
    for width in widths {
        bytes[at..at + width].reverse();
        at += width;
    }
    bytes
}

const HELLO_FIELDS: [usize; 10] = [4, 4, 8, 8, 4, 4, 8, 8, 4, 4];
const FRAME_FIELDS: [usize; 4] = [4, 4, 8, 8];

#[test]
fn a_flipped_hello_flips_the_frame_headers_behind_it() {
    let flipped = turned(hello(&dial_hello()), &HELLO_FIELDS);
    let frame = turned(ping(), &FRAME_FIELDS);
    let said = listen(&[&connreq(), &flipped, &frame], &[&answer(Ctype::CONTROL)]);
    assert_eq!(said.dialler, ["CONNREQ", "HELLO", "GET"]);
}

#[test]
fn a_frame_is_read_in_the_order_that_its_type_shows_whatever_the_hello_before_it_said() {
    let flipped = turned(hello(&dial_hello()), &HELLO_FIELDS);
    let frame = turned(put(10), &FRAME_FIELDS);
    let keepalive = turned(KsockHeader::KEEPALIVE.to_bytes().to_vec(), &FRAME_FIELDS);
    let said = listen(
        &[&connreq(), &flipped, &ping()],
        &[&answer(Ctype::CONTROL), &frame, &keepalive],
    );
    assert_eq!(said.dialler, ["CONNREQ", "HELLO", "GET"]);
    assert_eq!(said.listener, ["HELLO", "PUT", "NOOP"]);
    assert!(said.summary.is_complete());
}

#[test]
fn a_flipped_connection_that_began_before_the_capture_is_read() {
    let frames = [ping(), put(10)].map(|frame| turned(frame, &FRAME_FIELDS));
    let said = listen_to(&pcap_of(&[Segment::from_dialler(2, ACK, &frames.concat())]));
    assert_eq!(said.dialler, ["JOINED", "GET", "PUT"]);
    assert_eq!(said.summary.bytes.undecoded, 0);
}

#[test]
fn a_broken_frame_is_shown_with_its_offset_and_the_next_frame_is_found() {
    let mut broken = ping();
    broken[KsockHeader::LEN + HeaderForm::Nid4.len() - 48] = 7;
    let talk = Talk {
        dialler: [connreq(), hello(&dial_hello()), broken, put(10)].concat(),
        listener: answer(Ctype::CONTROL),
    };
    let mut errors = Vec::new();
    let (summary, read) = decode_capture(capture(&talk).as_slice(), &[LNET_PORT], |message| {
        if let Kind::Broken(error) = message.kind {
            errors.push((message.offset, error.offset));
        }
        Ok(())
    });
    read.expect("the capture is whole");
    // The type is 24 bytes into the LNet header.
    assert_eq!(errors, [(16 + 56, KsockHeader::LEN + 24)]);
    assert_eq!((summary.bytes.undecoded, summary.rejected), (96, 0));
    assert_eq!(summary.messages["PUT"], 1);
}

#[test]
fn another_port_is_recognised_by_the_request() {
    let talk = conversation();
    let mut to_listener = Segment::from_dialler(2, ACK, &talk.dialler);
    to_listener.to.1 = 7988;
    let mut to_dialler = Segment::from_listener(2, ACK, &talk.listener);
    to_dialler.from.1 = 7988;
    let said = listen_to(&pcap_of(&[to_listener, to_dialler]));
    assert_eq!(said.summary.connections, 1);
    assert_eq!(
        said.summary.bytes.decoded,
        (talk.dialler.len() + talk.listener.len()) as u64
    );
}

#[test]
fn other_traffic_is_left_alone() {
    let mut web = Segment::from_dialler(2, ACK, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
    web.to.1 = 80;
    assert_eq!(listen_to(&pcap_of(&[web])).summary.connections, 0);
}
