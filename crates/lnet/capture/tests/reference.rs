//! Compares every message of the kernels' captures with the output of an independent decoder: time,
//! sockets, type, NIDs, process ids, match bits, portal, lengths, cookies, ping info.
//!
//! Beside each capture, `NAME.msgs.txt` has a line for each message, and a second line for its
//! payload:
//!
//! ```text
//!    0.031792 f12    c0   10.1.0.1:1023 -> 10.1.0.2:988   LNET csum=0x0 zc_req=0x0 … sink_len=3960 (96B)
//!    0.037500 f13    c0   10.1.0.2:988 -> 10.1.0.1:1023   LNET csum=0x0 zc_req=0x0 … dst_wmd=18e9c8d5c777e488.d
//!       PINGINFO magic=70696e67 feat=0x1e(NI_STATUS|…) pid=12345 nnis=2 len=48 [0@lo/seq=2, …/UP] (144B)
//! ```
//!
//! The test makes the same lines of our messages.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use lnet_capture::{Kind, LNET_PORT, Lnet, Message, Payload, decode_capture};
use lnet_wire::{
    Body, ConnreqVersion, Ctype, Handle, KsockHeader, NiStatus, PingInfo, ReceivedHello,
};

#[test]
fn messages_are_those_of_the_independent_decoder() {
    for path in common::shared_captures().unwrap_or_default() {
        let theirs = read_reference(&path.with_extension("msgs.txt"));
        let capture = std::fs::read(&path).expect("the capture is readable");
        let ours = decode(&capture, theirs.start_nanos);
        for (flow, lines) in &theirs.flows {
            assert_eq!(ours.get(flow), Some(lines), "{} {flow}", path.display());
        }
        assert_eq!(ours.len(), theirs.flows.len(), "{}", path.display());
        let compared: usize = theirs.flows.values().map(Vec::len).sum();
        println!("{}: {compared} messages", path.display());
        assert!(compared > 0, "{}", path.display());
    }
}

/// Shows that the comparison can fail.
#[test]
fn a_flipped_match_bit_differs_from_the_independent_decoder() {
    let Some(captures) = common::shared_captures() else {
        return;
    };
    let path = captures
        .iter()
        .find(|path| path.ends_with("a-ping.pcap"))
        .expect("it is there");
    let theirs = read_reference(&path.with_extension("msgs.txt"));
    let mut capture = std::fs::read(path).expect("the capture is readable");
    let match_bits = [0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0];
    let at = capture
        .windows(match_bits.len())
        .position(|window| window == match_bits);
    capture[at.expect("there is a ping")] ^= 1;
    assert_ne!(decode(&capture, theirs.start_nanos), theirs.flows);
}

/// Messages from one socket to another, in order.
type Flows = BTreeMap<String, Vec<String>>;

struct Reference {
    start_nanos: u64,
    flows: Flows,
}

fn read_reference(path: &Path) -> Reference {
    let text = std::fs::read_to_string(path).expect("each capture has its messages in a text");
    let start = text
        .lines()
        .find_map(|line| line.split("t0=").nth(1))
        .expect("t0 is in the head");
    let mut flows = Flows::new();
    let mut last_flow = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let line = line.replace("(size=12)", "");
        if let Some(payload) = line.strip_prefix("      ") {
            let extends = ["PINGINFO", "SRPC"]
                .iter()
                .any(|name| payload.starts_with(name));
            if let Some(message) = flows.get_mut(&last_flow).and_then(|lines| lines.last_mut())
                && extends
            {
                *message += &format!(" {}", without_selftest(payload));
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, _frame, _connection, from, "->", to, what @ ..] = words.as_slice() else {
            panic!("not a message: {line}");
        };
        if what.first() != Some(&"TCP") {
            last_flow = format!("{from} -> {to}");
            let message = format!("{time} {}", what.join(" "));
            flows.entry(last_flow.clone()).or_default().push(message);
        }
    }
    Reference {
        start_nanos: micros(start) * 1000,
        flows,
    }
}

/// Removes the selftest payload, which is opaque to us; the message's length stays.
fn without_selftest(payload: &str) -> &str {
    match payload.starts_with("SRPC") {
        true => payload
            .rsplit_once(' ')
            .map_or(payload, |(_, length)| length),
        false => payload,
    }
}

fn micros(seconds: &str) -> u64 {
    seconds
        .replace('.', "")
        .trim()
        .parse()
        .expect("seconds with six decimals")
}

fn decode(capture: &[u8], start_nanos: u64) -> Flows {
    let mut flows = Flows::new();
    let (_, read) = decode_capture(capture, &[LNET_PORT], |message| {
        if let Some(text) = describe(message) {
            let micros = (message.time.as_nanos() - start_nanos) / 1000;
            let time = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            let line = format!("{time} {text} ({}B)", message.length);
            let unbracketed = |end: std::net::SocketAddr| format!("{}:{}", end.ip(), end.port());
            let flow = format!(
                "{} -> {}",
                unbracketed(message.from()),
                unbracketed(message.to())
            );
            flows.entry(flow).or_default().push(line);
        }
        Ok(())
    });
    read.expect("the capture is whole");
    flows
}

/// The line of a message; `None` for items that the reference does not list.
fn describe(message: &Message<'_>) -> Option<String> {
    match message.kind {
        Kind::Connreq(connreq) => {
            let version = match connreq.version {
                ConnreqVersion::V1 => 1,
                ConnreqVersion::V2 => 2,
            };
            let target = connreq.target;
            Some(format!(
                "ACCEPTOR_CONNREQ magic=acce7100 ver={version} target_nid={target}"
            ))
        }
        Kind::Hello(received) => Some(describe_hello(&received)),
        Kind::Noop(frame) => Some(format!("NOOP {}", describe_frame(&frame))),
        Kind::Lnet(lnet) => Some(describe_lnet(&lnet)),
        Kind::Cut { .. } | Kind::Resumed { .. } => None,
        ref other => panic!("the kernels' captures hold no {other:?}"),
    }
}

fn describe_hello(received: &ReceivedHello<'_>) -> String {
    let hello = &received.hello;
    let ctype = match hello.ctype {
        Ctype::NONE => "?".to_owned(),
        ctype => ctype.to_string(),
    };
    format!(
        "HELLO v{} src={} dst={} src_pid={} dst_pid={} src_inc={:#x} dst_inc={:#x} ctype={}({ctype}) nips={}",
        hello.version.number(),
        hello.src_nid,
        hello.dst_nid,
        hello.src_pid,
        hello.dst_pid,
        hello.src_incarnation,
        hello.dst_incarnation,
        hello.ctype.0,
        received.addresses.len(),
    )
}

fn describe_frame(frame: &KsockHeader) -> String {
    let [request, ack] = frame.cookies;
    format!("csum={:#x} zc_req={request:#x} zc_ack={ack:#x}", frame.csum)
}

fn describe_lnet(lnet: &Lnet<'_>) -> String {
    let header = &lnet.header;
    let frame = lnet.frame.expect("no capture has HELLO version 1");
    let body = match header.body {
        Body::Ack(ack) => {
            let wmd = describe_handle(ack.dst_wmd);
            format!(
                "dst_wmd={wmd} match={:#x} mlength={}",
                ack.match_bits, ack.mlength
            )
        }
        Body::Put(put) => format!(
            "ack_wmd={} match={:#x} hdr_data={:#x} ptl={} offset={}",
            describe_handle(put.ack_wmd),
            put.match_bits,
            put.hdr_data,
            put.ptl_index,
            put.offset,
        ),
        Body::Get(get) => format!(
            "return_wmd={} match={:#x} ptl={} src_offset={} sink_len={}",
            describe_handle(get.return_wmd),
            get.match_bits,
            get.ptl_index,
            get.src_offset,
            get.sink_length,
        ),
        Body::Reply(reply) => format!("dst_wmd={}", describe_handle(reply.dst_wmd)),
    };
    let ping = match &lnet.payload {
        Payload::Ping(info) => describe_ping(info, header.payload_length),
        _ => String::new(),
    };
    format!(
        "LNET {} {} src={} dst={} pids {}->{} plen={} {body}{ping}",
        describe_frame(&frame),
        lnet.name(),
        header.src_nid,
        header.dest_nid,
        header.src_pid,
        header.dest_pid,
        header.payload_length,
    )
}

fn describe_handle(handle: Handle) -> String {
    format!("{:x}.{:x}", handle.interface, handle.object)
}

fn describe_ping(info: &PingInfo<'_>, length: u32) -> String {
    let names: Vec<_> = info.features().iter_names().map(|(name, _)| name).collect();
    let sequence = info
        .sequence()
        .expect("no capture holds a ping info that short");
    let has_large = info.nids().any(|nid| nid.is_large());
    let size = if has_large {
        format!(" msg_size={}", info.info_size())
    } else {
        String::new()
    };
    let mut nis = vec![format!("0@lo/seq={sequence}{size}")];
    for ni in info.nis() {
        let large = if ni.nid.is_large() { "LARGE " } else { "" };
        let status = match ni.status {
            NiStatus::UP => "UP",
            NiStatus::DOWN => "DOWN",
            _ => "?",
        };
        nis.push(format!("{large}{}/{status}", ni.nid));
    }
    format!(
        " PINGINFO magic=70696e67 feat={:#x}({}) pid={} nnis={} len={length} [{}]",
        info.features().bits(),
        names.join("|"),
        info.pid(),
        info.nnis(),
        nis.join(", "),
    )
}
