//! Recorded traffic of kernel nodes, from the listings beside the reference captures: every
//! handshake, frame header, LNet header and ping info decodes, and encodes to the same bytes.

use std::path::PathBuf;

use lnet_wire::{
    ByteOrder, Connreq, FrameType, Header, HeaderForm, Hello, KsockHeader, LNET_PORTAL, PingInfo,
    PingInfoRepr, PingNi,
};

/// One message of a listing: its one-line description and its bytes (long payloads are cut).
struct Message {
    line: String,
    bytes: Vec<u8>,
}

/// The reference data; `None`, with a message, if this machine has none.
fn captures() -> Option<PathBuf> {
    testkit::shared_data("captures")
}

fn messages(listing: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for line in listing.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.first(), messages.last_mut()) {
            (Some(offset), Some(message)) if line.starts_with("      ") && is_offset(offset) => {
                // Two blanks stand between the hex digits and the same bytes as text.
                let digits = line.trim_start()[6..].split("  ").next().unwrap();
                message.bytes.extend(crate::hex(digits));
            }
            (Some(_), _) if words.get(1).is_some_and(|word| word.starts_with('f')) => {
                messages.push(Message {
                    line: line.to_owned(),
                    bytes: Vec::new(),
                });
            }
            _ => {}
        }
    }
    messages
}

fn is_offset(word: &str) -> bool {
    word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Counts of recognised structures; a listing without any recognised structure fails the test.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    requests: usize,
    hellos: usize,
    noops: usize,
    messages: usize,
    ping_infos: usize,
}

fn check(message: &Message, seen: &mut Seen) {
    let Message { line, bytes } = message;
    if line.contains("ACCEPTOR_CONNREQ") {
        let mut encoded = [0; Connreq::MAX_LEN];
        let len = Connreq::decode(bytes)
            .unwrap()
            .encode(&mut encoded)
            .unwrap();
        assert_eq!(encoded[..len], **bytes, "{line}");
        seen.requests += 1;
    } else if line.contains("HELLO v") {
        let mut encoded = [0; Hello::MAX_LEN];
        let len = Hello::decode(bytes)
            .unwrap()
            .hello
            .encode(&mut encoded)
            .unwrap();
        assert_eq!(encoded[..len], **bytes, "{line}");
        seen.hellos += 1;
    } else if !bytes.is_empty() {
        check_frame(line, bytes, seen);
    }
}

fn check_frame(line: &str, bytes: &[u8], seen: &mut Seen) {
    let ksock = KsockHeader::decode(ByteOrder::Little, bytes).unwrap();
    assert_eq!(ksock.to_bytes(), bytes[..24], "{line}");
    if ksock.frame_type == FrameType::Noop {
        seen.noops += 1;
        return;
    }
    let form = if line.contains("size=12") {
        HeaderForm::Nid16
    } else {
        HeaderForm::Nid4
    };
    let header = Header::decode(form, &bytes[24..]).unwrap();
    let mut encoded = [0; 96];
    let len = header.encode(form, &mut encoded).unwrap();
    assert_eq!(encoded[..len], bytes[24..24 + len], "{line}");
    assert!(Header::reserved_is_zero(form, &bytes[24..]), "{line}");
    seen.messages += 1;
    let payload = &bytes[24 + len..];
    if payload.starts_with(b"gnip") {
        check_ping_info(line, payload);
        seen.ping_infos += 1;
    } else if let lnet_wire::Body::Put(put) = header.body {
        assert_ne!(
            put.ptl_index, LNET_PORTAL,
            "a push without ping info: {line}"
        );
    }
}

fn check_ping_info(line: &str, payload: &[u8]) {
    let info = PingInfo::parse(payload).unwrap();
    assert_eq!(info.validate(200), Ok(()), "{line}");
    let nis: Vec<PingNi> = info.nis().collect();
    let (features, pid, sequence) = (info.features(), info.pid(), info.sequence().unwrap());
    let repr = PingInfoRepr {
        features,
        pid,
        sequence,
        nis: &nis,
    };
    let mut encoded = vec![0; repr.encoded_len()];
    repr.encode(&mut encoded).unwrap();
    assert_eq!(encoded, payload, "{line}");
}

#[test]
fn every_recorded_message_decodes_and_encodes_to_the_same_bytes() {
    let Some(captures) = captures() else { return };
    let mut seen = Seen::default();
    for entry in captures.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".msgs.txt") {
            let listing = std::fs::read_to_string(&path).unwrap();
            messages(&listing)
                .iter()
                .for_each(|message| check(message, &mut seen));
        }
    }
    println!("{seen:?}");
    assert!(
        seen.requests > 0 && seen.hellos > 0 && seen.noops > 0,
        "{seen:?}"
    );
    assert!(seen.messages > 0 && seen.ping_infos > 0, "{seen:?}");
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_recorded_byte_that_no_field_holds_is_noticed() {
    let line = "HELLO v4".to_owned();
    let nid: lnet_types::Nid = "fd00::1@tcp".parse().unwrap();
    let mut bytes = vec![0; 80];
    Hello::dial(nid, nid, 1, lnet_wire::Ctype::CONTROL)
        .encode(&mut bytes)
        .unwrap();
    bytes[79] = 1;
    check(&Message { line, bytes }, &mut Seen::default());
}
