//! File formats and link types: the same packets give the same messages.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::cell::Cell;
use std::io::{self, Read};

use lnet_capture::{CaptureError, LNET_PORT, Skipped, decode_capture};

use common::capture::{ACK, SYN, Segment, pcap, pcap_in, pcap_of, pcapng};
use common::listen_to;
use common::talk::{DIALLER_SAYS, conversation};

fn segments() -> Vec<Segment> {
    let talk = conversation();
    let (first, second) = talk.dialler.split_at(500);
    vec![
        Segment::from_dialler(100, SYN, &[]),
        Segment::from_dialler(101, ACK, first),
        Segment::from_dialler(601, ACK, second),
    ]
}

fn ip_packets() -> Vec<Vec<u8>> {
    segments().iter().map(Segment::ip_packet).collect()
}

/// The packets behind a link-layer header.
fn behind(head: &[u8]) -> Vec<Vec<u8>> {
    ip_packets()
        .iter()
        .map(|packet| [head, packet].concat())
        .collect()
}

#[test]
fn every_link_type_gives_the_same_messages() {
    let macs = [2u8; 12];
    let ethernet = [macs.as_slice(), &[0x08, 0x00]].concat();
    let vlans = [
        macs.as_slice(),
        &[0x88, 0xA8, 0, 5, 0x81, 0x00, 0, 6, 0x08, 0x00],
    ]
    .concat();
    let cooked = [[0u8; 14].as_slice(), &[0x08, 0x00]].concat();
    let cooked2 = [[0x08u8, 0x00].as_slice(), &[0; 18]].concat();
    let cases: [(u32, &[u8]); 8] = [
        (1, &ethernet),
        (1, &vlans),
        (113, &cooked),
        (276, &cooked2),
        (101, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
    ];
    for (link_type, head) in cases {
        let said = listen_to(&pcap(link_type, &behind(head)));
        assert_eq!(
            said.dialler, DIALLER_SAYS,
            "link type {link_type}, {head:02x?}"
        );
    }
}

#[test]
fn every_file_format_gives_the_same_messages() {
    let packets = ip_packets();
    let files = [
        pcap_in(u32::to_le_bytes, 0xA1B2_C3D4, 101, &packets),
        pcap_in(u32::to_be_bytes, 0xA1B2_C3D4, 101, &packets),
        pcap_in(u32::to_le_bytes, 0xA1B2_3C4D, 101, &packets),
        pcap_in(u32::to_be_bytes, 0xA1B2_3C4D, 101, &packets),
        pcapng(101, &packets),
    ];
    for file in files {
        assert_eq!(listen_to(&file).dialler, DIALLER_SAYS);
    }
}

#[test]
fn times_are_in_the_unit_of_the_file() {
    let micro = first_time(&pcap_in(u32::to_le_bytes, 0xA1B2_C3D4, 101, &ip_packets()));
    let nano = first_time(&pcap_in(u32::to_le_bytes, 0xA1B2_3C4D, 101, &ip_packets()));
    let ng = first_time(&pcapng(101, &ip_packets()));
    // The last byte of the first message is in the second packet.
    assert_eq!(
        (micro, nano, ng),
        (1_000_001_000, 1_000_000_001, 1_000_001_000)
    );
}

fn first_time(file: &[u8]) -> u64 {
    let mut time = None;
    let (_, read) = decode_capture(file, &[LNET_PORT], |message| {
        time.get_or_insert(message.time.as_nanos());
        Ok(())
    });
    read.expect("the capture is whole");
    time.expect("there is a message")
}

#[test]
fn a_truncated_file_gives_what_was_readable_and_says_where_it_ends() {
    let whole = pcap_of(&segments());
    let mut names = Vec::new();
    let cut = &whole[..whole.len() - 100];
    let (summary, read) = decode_capture(cut, &[LNET_PORT], |message| {
        names.push(message.kind.name());
        Ok(())
    });
    assert!(
        matches!(read, Err(CaptureError::Truncated { offset }) if offset > 24),
        "{read:?}"
    );
    assert_eq!(names, ["CONNREQ", "HELLO", "GET", "PUT"]);
    assert!(summary.bytes.decoded > 0);
}

#[test]
fn what_is_no_capture_is_rejected() {
    let read = |file: &[u8]| decode_capture(file, &[LNET_PORT], |_| Ok(())).1;
    assert!(matches!(read(b""), Err(CaptureError::Empty)));
    assert!(matches!(
        read(b"#!/bin/sh\necho this is no capture at all"),
        Err(CaptureError::NotACapture)
    ));
    assert!(matches!(
        read(&[0xD4, 0xC3, 0xB2, 0xA1, 2]),
        Err(CaptureError::Truncated { offset: 0 })
    ));
}

#[test]
fn a_record_beyond_any_packet_is_rejected() {
    let mut file = pcap(101, &[]);
    file.extend(
        [1, 0, u32::MAX / 2, 100]
            .into_iter()
            .flat_map(u32::to_le_bytes),
    );
    file.resize(40 << 20, 0);
    let (_, read) = decode_capture(file.as_slice(), &[LNET_PORT], |_| Ok(()));
    assert!(
        matches!(read, Err(CaptureError::RecordTooLarge { offset: 24, .. })),
        "{read:?}"
    );
}

#[test]
fn a_record_larger_than_the_buffer_is_read() {
    let mut packets = ip_packets();
    packets.insert(1, vec![0; 3 << 20]);
    let said = listen_to(&pcap(101, &packets));
    assert_eq!(said.dialler, DIALLER_SAYS);
}

#[test]
fn a_pipe_that_gives_a_byte_at_a_time_is_read() {
    struct Trickle(io::Cursor<Vec<u8>>);
    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let end = buffer.len().min(1);
            self.0.read(&mut buffer[..end])
        }
    }
    for file in [pcap_of(&segments()), pcapng(101, &ip_packets())] {
        let (summary, read) =
            decode_capture(Trickle(io::Cursor::new(file)), &[LNET_PORT], |_| Ok(()));
        read.expect("the capture is whole");
        assert_eq!(summary.bytes.decoded, conversation().dialler.len() as u64);
    }
}

#[test]
fn a_live_capture_shows_a_message_before_the_next_packet_comes() {
    /// A source that delivers the last packet only after a message of the earlier ones was
    /// received.
    struct Live<'a> {
        parts: Vec<Vec<u8>>,
        shown: &'a Cell<u32>,
    }
    impl Read for Live<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(
                self.parts.len() != 1 || self.shown.get() > 0,
                "the last packet was waited for"
            );
            let Some(part) = self.parts.first_mut() else {
                return Ok(0);
            };
            let length = buffer.len().min(part.len());
            buffer[..length].copy_from_slice(&part[..length]);
            part.drain(..length);
            self.parts.retain(|part| !part.is_empty());
            Ok(length)
        }
    }
    let until = |count: usize| [&segments()[..count], &[]].concat();
    let ip_until = |count: usize| ip_packets()[..count].to_vec();
    for (before, whole) in [
        (pcap_of(&until(2)), pcap_of(&until(3))),
        (pcapng(101, &ip_until(2)), pcapng(101, &ip_until(3))),
    ] {
        let shown = Cell::new(0);
        let parts = vec![before.clone(), whole[before.len()..].to_vec()];
        let live = Live {
            parts,
            shown: &shown,
        };
        let (_, read) = decode_capture(live, &[LNET_PORT], |_| {
            shown.set(shown.get() + 1);
            Ok(())
        });
        read.expect("the capture is whole");
    }
}

#[test]
fn what_is_not_tcp_is_counted_with_its_reason() {
    let mut fragment = ip_packets().remove(1);
    fragment[6] = 0x20;
    let mut udp = ip_packets().remove(1);
    udp[9] = 17;
    let short = ip_packets().remove(1)[..30].to_vec();
    let skipped = listen_to(&pcap(101, &[fragment, udp, short]))
        .summary
        .skipped;
    let reasons = [
        Skipped::OtherProtocol,
        Skipped::IpFragment,
        Skipped::Malformed,
    ];
    assert_eq!(
        skipped,
        reasons.into_iter().map(|reason| (reason, 1)).collect()
    );
    let unknown = listen_to(&pcap(147, &ip_packets())).summary.skipped;
    assert_eq!(unknown, [(Skipped::LinkType(147), 3)].into());
}

#[test]
fn ipv6_with_extension_headers_is_read() {
    let with_options = |segment: &Segment| {
        let v6 = |last: u8| std::net::Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, last.into()).into();
        let mut segment = segment.clone();
        (segment.from.0, segment.to.0) = (v6(1), v6(2));
        let mut packet = segment.ip_packet();
        // Hop-by-hop options of eight bytes between the IPv6 and the TCP header.
        let tcp_len = packet.len() - 40;
        packet[4..6].copy_from_slice(&((tcp_len + 8) as u16).to_be_bytes());
        packet[6] = 0;
        packet.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
        packet
    };
    let packets: Vec<_> = segments().iter().map(with_options).collect();
    assert_eq!(listen_to(&pcap(101, &packets)).dialler, DIALLER_SAYS);
}

#[test]
fn padding_of_the_link_layer_is_no_payload() {
    let mut packets = behind(&[[2u8; 12].as_slice(), &[0x08, 0x00]].concat());
    packets.iter_mut().for_each(|packet| packet.extend([0; 6]));
    assert_eq!(listen_to(&pcap(1, &packets)).dialler, DIALLER_SAYS);
}

#[test]
fn an_output_error_ends_the_reading() {
    let file = pcap_of(&segments());
    let (_, read) = decode_capture(file.as_slice(), &[LNET_PORT], |_| {
        Err(io::ErrorKind::BrokenPipe.into())
    });
    assert!(
        matches!(read, Err(CaptureError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    );
}
