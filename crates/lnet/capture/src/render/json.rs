//! One JSON object a message, one line each.
//!
//! Keys are sorted, and never change their meaning. Numbers of 64 bits are strings of hex (`"0x…"`), because
//! JSON readers round them; handles are `"interface.object"` in hex, or `"none"`.
//!
//! | Key | In | Meaning |
//! |---|---|---|
//! | `what` | all | `CONNREQ`, `REFUSAL`, `HELLO`, `NOOP`, `ACK`, `PUT`, `GET`, `REPLY`, `BROKEN`, `CUT`, `GAP`, `JOINED`, `RESUMED`, `SKIPPED`; over RDMA `CM_REQ`, `CM_REP`, `CM_REJ`, `CM_RTU`, `CM_DREQ`, `CM_DREP`, `IB_NOOP`, `IMMEDIATE`, `PUT_REQ`, `PUT_NAK`, `PUT_ACK`, `PUT_DONE`, `GET_REQ`, `GET_DONE`, `RDMA_WRITE`, `NAK`; in the last line `summary` |
//! | `time` | all | seconds since the Unix epoch, as text with nine decimals |
//! | `connection`, `from`, `to` | all | number of the connection in the capture; socket addresses |
//! | `joined`, `rejected` | all | the connection's state by then |
//! | `offset`, `length` | all | place in the sender's stream and length there, in bytes |
//! | `version`, `target` | CONNREQ | |
//! | `version`, `ctype`, `src_nid`, `dst_nid`, `src_pid`, `dst_pid`, `src_incarnation`, `dst_incarnation`, `addresses`, `big_endian` | HELLO | |
//! | `csum`, `cookies` | frames | the frame header (none with HELLO version 1); two cookies as read |
//! | `src_nid`, `dest_nid`, `src_pid`, `dest_pid`, `payload_length` | ACK, PUT, GET, REPLY | |
//! | `handle`, `match_bits`, `portal`, `offset_remote`, `hdr_data`, `sink_length`, `mlength` | where the type has them | |
//! | `payload_lost` | PUT, REPLY | payload bytes that are not in the capture |
//! | `ping` | PUT, REPLY | `features`, `pid`, `sequence`, `truncated`, `nis` (each `nid`, `status`) |
//! | `error`, `error_offset` | BROKEN, or bad ping info | what is wrong, and at which offset of `offset` (of the payload) |
//! | `needed` | CUT | bytes of the headers that were not there in full |
//! | `lost`, `undecoded` | GAP | bytes |
//! | `reason`, `skipped` | JOINED, RESUMED, SKIPPED | `joined`, `gap` or `damage`; bytes skipped |
//! | `queue_depth`, `fragments`, `message_size`, `incarnation` | CM_REQ, CM_REP, CM_REJ | what LNet says in the message of the connection manager |
//! | `reason` | CM_REJ | LNet's reason, or that of the connection manager in words |
//! | `lnd_src_nid`, `lnd_dest_nid`, `credits` | messages of the o2ib LND, CM_REQ, CM_REP | the LND's ends, and the credits that it gives back |
//! | `type`, and the keys of that type | IMMEDIATE, PUT_REQ, GET_REQ | the LNet message inside |
//! | `cookie`, `source_cookie`, `sink_cookie`, `status`, `rkey`, `memory` | where the type has them | `memory`: `length` and `address` of each fragment |
//! | `address`, `rkey` | RDMA_WRITE | where `length` bytes went |
//! | `reason` | NAK | in words |
//! | `packets_lost`, `undecoded` | GAP over RDMA | packets; bytes |

use std::io;

use lnet_wire::{
    Body, ByteOrder, Connreq, ConnreqVersion, Header, KsockHeader, PingInfo, ReceivedHello, o2ib,
};
use serde_json::{Map, Value, json};

use super::{HandleText, StatusText, rdma};
use crate::message::{Cm, CmStep, Kind, Lnet, Message, Reason, type_name};
use crate::payload::Payload;

/// Writes a message as one line of JSON. The [module](self) documents the keys.
///
/// # Errors
///
/// Those of `out`.
pub fn write_json(out: &mut dyn io::Write, message: &Message<'_>) -> io::Result<()> {
    let mut object = Map::new();
    put_envelope(&mut object, message);
    match message.kind {
        Kind::Connreq(connreq) => put_connreq(&mut object, &connreq),
        Kind::Rejection => {}
        Kind::Hello(received) => put_hello(&mut object, &received),
        Kind::Noop(frame) => put_frame(&mut object, &frame),
        Kind::Lnet(lnet) => put_lnet(&mut object, &lnet),
        Kind::Broken(error) => put_error(&mut object, &error),
        Kind::Cut { frame, needed } => {
            put(&mut object, "needed", needed);
            frame.iter().for_each(|frame| put_frame(&mut object, frame));
        }
        Kind::Gap { lost, undecoded } => {
            put(&mut object, "lost", lost);
            put(&mut object, "undecoded", undecoded);
        }
        Kind::Resumed {
            reason, skipped, ..
        } => {
            let reason = match reason {
                Reason::Joined => "joined",
                Reason::Gap => "gap",
                Reason::Damage => "damage",
            };
            put(&mut object, "reason", reason);
            put(&mut object, "skipped", skipped);
        }
        Kind::Cm(cm) => put_cm(&mut object, &cm),
        Kind::O2ib(message) => put_o2ib(&mut object, message),
        Kind::Write(write) => {
            put(&mut object, "address", hex(write.address));
            put(&mut object, "rkey", write.rkey);
        }
        Kind::Nak(nak) => put(&mut object, "reason", rdma::nak_text(nak)),
        Kind::PacketsLost { packets, undecoded } => {
            put(&mut object, "packets_lost", packets);
            put(&mut object, "undecoded", undecoded);
        }
    }
    writeln!(out, "{}", Value::Object(object))
}

type Object = Map<String, Value>;

fn put(object: &mut Object, key: &str, value: impl Into<Value>) {
    object.insert(key.to_owned(), value.into());
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}

fn put_envelope(object: &mut Object, message: &Message<'_>) {
    let nanos = message.time.as_nanos();
    let time = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    put(object, "what", message.kind.name());
    put(object, "time", time);
    put(object, "connection", message.connection.id);
    put(object, "from", message.from().to_string());
    put(object, "to", message.to().to_string());
    put(object, "joined", message.connection.joined);
    put(object, "refused", message.connection.rejected);
    put(object, "offset", message.offset);
    put(object, "length", message.length);
}

fn put_connreq(object: &mut Object, connreq: &Connreq) {
    let version = match connreq.version {
        ConnreqVersion::V1 => 1,
        ConnreqVersion::V2 => 2,
    };
    put(object, "version", version);
    put(object, "target", connreq.target.to_string());
}

fn put_hello(object: &mut Object, received: &ReceivedHello<'_>) {
    let hello = &received.hello;
    let addresses: Vec<_> = received
        .addresses
        .iter()
        .map(|address| address.to_string())
        .collect();
    put(object, "version", hello.version.number());
    put(object, "ctype", hello.ctype.to_string());
    put(object, "src_nid", hello.src_nid.to_string());
    put(object, "dst_nid", hello.dst_nid.to_string());
    put(object, "src_pid", hello.src_pid);
    put(object, "dst_pid", hello.dst_pid);
    put(object, "src_incarnation", hex(hello.src_incarnation));
    put(object, "dst_incarnation", hex(hello.dst_incarnation));
    put(object, "addresses", addresses);
    put(object, "big_endian", received.order == ByteOrder::Big);
}

fn put_frame(object: &mut Object, frame: &KsockHeader) {
    put(object, "csum", frame.csum);
    put(object, "cookies", frame.cookies.map(hex).to_vec());
}

fn put_lnet(object: &mut Object, lnet: &Lnet<'_>) {
    if let Some(frame) = &lnet.frame {
        put_frame(object, frame);
    }
    put_header(object, &lnet.header);
    match &lnet.payload {
        Payload::None | Payload::Opaque { lost: 0, .. } => {}
        Payload::Opaque { lost, .. } => put(object, "payload_lost", *lost),
        Payload::Ping(info) => put(object, "ping", ping(info)),
        Payload::BadPing(error) => put_error(object, error),
    }
}

fn put_header(object: &mut Object, header: &Header) {
    put(object, "src_nid", header.src_nid.to_string());
    put(object, "dest_nid", header.dest_nid.to_string());
    put(object, "src_pid", header.src_pid);
    put(object, "dest_pid", header.dest_pid);
    put(object, "payload_length", header.payload_length);
    put_body(object, &header.body);
}

fn put_cm(object: &mut Object, cm: &Cm<'_>) {
    if let Some(message) = cm.message {
        put_o2ib(object, message);
        put(
            object,
            "incarnation",
            hex(message.envelope.source_incarnation),
        );
    }
    if let Some(rejection) = &cm.rejection {
        put(object, "reason", format!("{:?}", rejection.reason));
        put(object, "incarnation", hex(rejection.incarnation));
        put_parameters(object, &rejection.parameters);
    } else if let CmStep::Reject(reason) = cm.step {
        put(object, "reason", rdma::reason_text(reason));
    }
}

fn put_o2ib(object: &mut Object, message: &o2ib::Message<'_>) {
    let envelope = &message.envelope;
    put(object, "lnd_src_nid", envelope.source.to_string());
    put(object, "lnd_dest_nid", envelope.destination.to_string());
    put(object, "credits", envelope.credits);
    match &message.body {
        o2ib::Body::Connreq(parameters) | o2ib::Body::Connack(parameters) => {
            put_parameters(object, parameters);
        }
        o2ib::Body::Noop => {}
        o2ib::Body::Immediate { header, .. } => put_inner(object, header),
        o2ib::Body::PutReq { header, cookie } => {
            put_inner(object, header);
            put(object, "cookie", hex(*cookie));
        }
        o2ib::Body::PutNak { cookie, status }
        | o2ib::Body::PutDone { cookie, status }
        | o2ib::Body::GetDone { cookie, status } => {
            put(object, "cookie", hex(*cookie));
            put(object, "status", *status);
        }
        o2ib::Body::PutAck {
            source_cookie,
            sink_cookie,
            descriptor,
        } => {
            put(object, "source_cookie", hex(*source_cookie));
            put(object, "sink_cookie", hex(*sink_cookie));
            put_descriptor(object, descriptor);
        }
        o2ib::Body::GetReq {
            header,
            cookie,
            descriptor,
        } => {
            put_inner(object, header);
            put(object, "cookie", hex(*cookie));
            put_descriptor(object, descriptor);
        }
    }
}

fn put_inner(object: &mut Object, header: &Header) {
    put(object, "type", type_name(header.message_type()));
    put_header(object, header);
}

fn put_parameters(object: &mut Object, parameters: &o2ib::Parameters) {
    put(object, "queue_depth", parameters.queue_depth);
    put(object, "fragments", parameters.fragments);
    put(object, "message_size", parameters.message_size);
}

fn put_descriptor(object: &mut Object, descriptor: &o2ib::Descriptor) {
    let fragments = descriptor.fragments.iter();
    let memory = fragments.map(|one| json!({"length": one.length, "address": hex(one.address)}));
    put(object, "rkey", descriptor.rkey);
    put(object, "memory", memory.collect::<Vec<_>>());
}

fn put_body(object: &mut Object, body: &Body) {
    let handle = match body {
        Body::Ack(ack) => {
            put(object, "match_bits", hex(ack.match_bits));
            put(object, "mlength", ack.mlength);
            ack.dst_wmd
        }
        Body::Put(body) => {
            put(object, "match_bits", hex(body.match_bits));
            put(object, "hdr_data", hex(body.hdr_data));
            put(object, "portal", body.ptl_index);
            put(object, "offset_remote", body.offset);
            body.ack_wmd
        }
        Body::Get(get) => {
            put(object, "match_bits", hex(get.match_bits));
            put(object, "portal", get.ptl_index);
            put(object, "offset_remote", get.src_offset);
            put(object, "sink_length", get.sink_length);
            get.return_wmd
        }
        Body::Reply(reply) => reply.dst_wmd,
    };
    put(object, "handle", HandleText(handle).to_string());
}

fn put_error(object: &mut Object, error: &lnet_wire::DecodeError) {
    put(object, "error", error.to_string());
    put(object, "error_offset", error.offset);
}

fn ping(info: &PingInfo<'_>) -> Value {
    let nis: Vec<_> = info
        .nis()
        .map(|ni| json!({"nid": ni.nid.to_string(), "status": StatusText(ni.status).to_string()}))
        .collect();
    json!({
        "features": hex(info.features().bits().into()),
        "pid": info.pid(),
        "sequence": info.sequence(),
        "truncated": info.is_truncated(),
        "nis": nis,
    })
}
