//! Every byte of every conversation in captures of kernel nodes is decoded, and encoding the
//! decoded structures returns the same bytes. The payload of selftest stays opaque.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_capture::{Cm, Kind, LNET_PORT, Lnet, Message, Payload, Summary, decode_capture, render};
use lnet_wire::o2ib::MESSAGE_MAX;
use lnet_wire::{Connreq, PingInfoRepr};

#[test]
fn every_capture_is_decoded_to_the_last_byte() {
    for path in common::shared_captures().unwrap_or_default() {
        let capture = std::fs::read(&path).expect("the capture is readable");
        let (summary, difference) = decode_and_encode(&capture);
        assert_eq!(difference, None, "{}", path.display());
        assert!(summary.is_complete(), "{}: {summary:?}", path.display());
        assert!(summary.bytes.decoded > 0, "{}: {summary:?}", path.display());
    }
}

#[test]
fn a_small_capture_is_decoded_to_the_last_byte() {
    let (summary, difference) = decode_and_encode(common::PING_CAPTURE);
    assert_eq!(difference, None);
    assert!(summary.is_complete(), "{summary:?}");
    assert_eq!(
        (summary.connections, summary.joined, summary.rejected),
        (3, 0, 0)
    );
}

/// Shows that the check can fail: every flipped byte of LNet is noticed.
#[test]
fn a_flipped_byte_fails_the_proof_or_changes_a_message() {
    let original = messages(common::PING_CAPTURE);
    for at in lnet_bytes(common::PING_CAPTURE) {
        let mut capture = common::PING_CAPTURE.to_vec();
        capture[at] ^= 0x40;
        let (summary, difference) = decode_and_encode(&capture);
        let fails = difference.is_some() || !summary.is_complete() || summary.rejected > 0;
        assert!(
            fails || messages(&capture) != original,
            "byte {at} was flipped unseen"
        );
    }
}

#[test]
fn a_flipped_frame_type_makes_a_capture_incomplete() {
    let needle = [
        0xC1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let mut capture = common::PING_CAPTURE.to_vec();
    let at = capture
        .windows(needle.len())
        .position(|window| window == needle);
    capture[at.expect("the capture holds a frame")] ^= 0x40;
    let (summary, _) = decode_and_encode(&capture);
    assert!(!summary.is_complete(), "{summary:?}");
    assert_eq!(summary.messages["BROKEN"], 1);
}

/// Decodes a capture and compares each structure with its encoding; returns the first difference.
fn decode_and_encode(capture: &[u8]) -> (Summary, Option<String>) {
    let mut difference = None;
    let (summary, read) = decode_capture(capture, &[LNET_PORT], |message| {
        let encoded = encode(message);
        let same = encoded
            .as_deref()
            .is_none_or(|encoded| encoded == message.raw);
        if !same && difference.is_none() {
            difference = Some(format!("{message:?}\nencoded as {encoded:02x?}"));
        }
        Ok(())
    });
    read.expect("the capture is whole");
    (summary, difference)
}

/// The encoding of a message; `None` for items that are not structures.
fn encode(message: &Message<'_>) -> Option<Vec<u8>> {
    let mut bytes = vec![0xEE; 128];
    let length = match message.kind {
        Kind::Connreq(connreq) => connreq
            .encode(&mut bytes)
            .expect("a decoded request encodes"),
        Kind::Rejection => return Some(Connreq::REJECTION.to_vec()),
        Kind::Hello(received) => received
            .hello
            .encode(&mut bytes)
            .expect("a decoded HELLO encodes"),
        Kind::Noop(frame) => return Some(frame.to_bytes().to_vec()),
        Kind::Lnet(lnet) => return Some(encode_lnet(&lnet)),
        Kind::Cut { frame, .. } => return frame.map(|frame| frame.to_bytes().to_vec()),
        Kind::O2ib(o2ib)
        | Kind::Cm(Cm {
            message: Some(o2ib),
            ..
        }) => {
            bytes.resize(MESSAGE_MAX, 0xEE);
            let length = o2ib.encode(&mut bytes).expect("a decoded message encodes");
            // The payload of a message is not among the raw bytes.
            length.min(message.raw.len())
        }
        Kind::Broken(_)
        | Kind::Gap { .. }
        | Kind::Resumed { .. }
        | Kind::Cm(_)
        | Kind::Write(_)
        | Kind::Nak(_)
        | Kind::PacketsLost { .. } => return None,
    };
    bytes.truncate(length);
    Some(bytes)
}

fn encode_lnet(lnet: &Lnet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(lnet.frame.iter().flat_map(|frame| frame.to_bytes()));
    let mut header = vec![0xEE; lnet.form.len()];
    lnet.header
        .encode(lnet.form, &mut header)
        .expect("a decoded header encodes");
    bytes.extend(header);
    if let Payload::Ping(info) = lnet.payload {
        let nis: Vec<_> = info.nis().collect();
        let sequence = info
            .sequence()
            .expect("no capture holds a ping info that short");
        let (features, pid) = (info.features(), info.pid());
        let repr = PingInfoRepr {
            features,
            pid,
            sequence,
            nis: &nis,
        };
        let mut payload = vec![0xEE; repr.encoded_len()];
        repr.encode(&mut payload)
            .expect("a decoded ping info encodes");
        bytes.extend(payload);
    }
    bytes
}

/// The output for a capture, without its bytes.
fn messages(capture: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    let (_, read) = decode_capture(capture, &[LNET_PORT], |message| {
        render::write_json(&mut lines, message)
    });
    read.expect("the capture is whole");
    lines
}

/// Offsets in the file of the bytes of LNet structures, found by comparing bytes.
fn lnet_bytes(capture: &[u8]) -> Vec<usize> {
    let mut offsets = Vec::new();
    let (_, read) = decode_capture(capture, &[LNET_PORT], |message| {
        let raw = message.raw;
        let found = capture.windows(raw.len()).position(|window| window == raw);
        let start = found.expect("a message that came in one packet");
        offsets.extend(start..start + raw.len());
        Ok(())
    });
    read.expect("the capture is whole");
    offsets
}
