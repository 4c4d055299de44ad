//! One line for each message.
//!
//! ```text
//!   0.031792  c0  10.1.0.1@tcp -> 10.1.0.2@tcp  GET      portal 0 (ping) match 0x8000000000000000 sink 3960 ...
//!   seconds  connection                         name     the fields that distinguish messages
//! ```
//!
//! Seconds count from the first message. A structure without NIDs shows the socket addresses
//! instead.

use std::fmt::{self, Write as _};
use std::io;

use lnet_types::{Nid, Time};
use lnet_wire::{
    Body, Ctype, DecodeError, Handle, Header, KsockHeader, LNET_PORTAL, PING_MATCH_BITS, PingInfo,
    ReceivedHello, SELFTEST_FRAMEWORK_PORTAL, SELFTEST_REPLY_PORTAL, SELFTEST_TEST_PORTAL, ZcAck,
};

use super::{HandleText, StatusText, rdma};
use crate::message::{Cm, Direction, Kind, Lnet, Message, Reason};
use crate::payload::Payload;

/// Prints messages as lines, with times relative to the first message.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinePrinter {
    start: Option<Time>,
}

impl LinePrinter {
    /// Writes the line of a message.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&mut self, out: &mut dyn io::Write, message: &Message<'_>) -> io::Result<()> {
        let start = *self.start.get_or_insert(message.time);
        let since = message.time.as_nanos().saturating_sub(start.as_nanos());
        let since = Time::from_nanos(since).to_string();
        let ends = Ends(message).to_string();
        let name = message.kind.name();
        let connection = format!("c{}", message.connection.id);
        let details = details(message).map_err(io::Error::other)?;
        let line = format!("{since:>11} {connection:<4} {ends:<32} {name:<8} {details}");
        writeln!(out, "{}", line.trim_end())
    }
}

/// Sender and receiver.
struct Ends<'a, 'b>(&'a Message<'b>);

impl fmt::Display for Ends<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            Kind::Lnet(lnet) => nids(f, lnet.header.src_nid, lnet.header.dest_nid),
            Kind::Hello(received) => nids(f, received.hello.src_nid, received.hello.dst_nid),
            Kind::O2ib(message)
            | Kind::Cm(Cm {
                message: Some(message),
                ..
            }) => nids(f, message.envelope.source, message.envelope.destination),
            _ => write!(f, "{} -> {}", self.0.from(), self.0.to()),
        }
    }
}

fn nids(f: &mut fmt::Formatter<'_>, from: Nid, to: Nid) -> fmt::Result {
    write!(f, "{from} -> {to}")
}

fn details(message: &Message<'_>) -> Result<String, fmt::Error> {
    let mut text = String::new();
    match message.kind {
        Kind::Connreq(connreq) => {
            let version = match connreq.version {
                lnet_wire::ConnreqVersion::V1 => 1,
                lnet_wire::ConnreqVersion::V2 => 2,
            };
            write!(text, "v{version} target {}", connreq.target)?;
        }
        Kind::Rejection => text.push_str("the acceptor understands version 1 requests; rejected"),
        Kind::Hello(received) => hello(&mut text, &received, message.direction)?,
        Kind::Noop(frame) => cookies(&mut text, &frame)?,
        Kind::Lnet(lnet) => lnet_message(&mut text, &lnet)?,
        Kind::Broken(error) => broken(&mut text, message, &error)?,
        Kind::Cut { frame, needed } => {
            let what = if frame.is_some() {
                "frame header"
            } else {
                "part of a frame header"
            };
            let came = message.length;
            write!(
                text,
                "the connection ended inside a frame: {came} of {needed} bytes, {what}"
            )?;
        }
        Kind::Gap { lost, undecoded } => {
            write!(text, "{lost} bytes are not in the capture")?;
            if undecoded > 0 {
                write!(
                    text,
                    ", {undecoded} bytes in front of them cannot be decoded"
                )?;
            }
        }
        Kind::Resumed {
            reason,
            found,
            skipped,
        } => resumed(&mut text, reason, found, skipped)?,
        Kind::Cm(cm) => rdma::cm(&mut text, &cm)?,
        Kind::O2ib(message) => rdma::message(&mut text, message)?,
        Kind::Write(write) => rdma::write(&mut text, write)?,
        Kind::Nak(nak) => text.push_str(&rdma::nak_text(nak)),
        Kind::PacketsLost { packets, undecoded } => {
            rdma::packets_lost(&mut text, packets, undecoded)?;
        }
    }
    Ok(text)
}

fn hello(text: &mut String, received: &ReceivedHello<'_>, direction: Direction) -> fmt::Result {
    let hello = &received.hello;
    write!(text, "v{} {} ", hello.version.number(), hello.ctype)?;
    write!(
        text,
        "pid {} incarnation {:#x}",
        hello.src_pid, hello.src_incarnation
    )?;
    if received.order == lnet_wire::ByteOrder::Big {
        text.push_str(" big-endian");
    }
    if !received.addresses.is_empty() {
        write!(text, " {} addresses", received.addresses.len())?;
    }
    if direction == Direction::FromAcceptor && hello.ctype == Ctype::NONE {
        text.push_str(" rejected");
    }
    Ok(())
}

fn broken(text: &mut String, message: &Message<'_>, error: &DecodeError) -> fmt::Result {
    let at = message.offset + error.offset as u64;
    write!(text, "{error} (byte {at} of the stream)")?;
    if message.connection.rejected {
        text.push_str(" rejected");
    }
    Ok(())
}

fn resumed(text: &mut String, reason: Reason, found: bool, skipped: u64) -> fmt::Result {
    let why = match reason {
        Reason::Joined => "the connection began before the capture",
        Reason::Gap => "after a gap",
        Reason::Damage => "after a broken frame",
    };
    let what = if found {
        "frame boundary found"
    } else {
        "no frame boundary found"
    };
    write!(text, "{why}: {what}, {skipped} bytes skipped")
}

fn lnet_message(text: &mut String, lnet: &Lnet<'_>) -> fmt::Result {
    header(text, &lnet.header)?;
    payload(text, &lnet.payload)?;
    lnet.frame.map_or(Ok(()), |frame| cookies(text, &frame))
}

/// Writes what distinguishes LNet messages of one type.
pub(super) fn header(text: &mut String, header: &Header) -> fmt::Result {
    match header.body {
        Body::Ack(ack) => {
            let (handle, bits) = (HandleText(ack.dst_wmd), ack.match_bits);
            write!(
                text,
                "match {bits:#x} accepted {} handle {handle}",
                ack.mlength
            )?;
        }
        Body::Put(put) => {
            portal(text, put.ptl_index, put.match_bits, "push")?;
            let length = header.payload_length;
            write!(text, " {length} bytes at {}", put.offset)?;
            if put.hdr_data != 0 {
                write!(text, " hdr_data {:#x}", put.hdr_data)?;
            }
            if put.ack_wmd != Handle::NONE {
                write!(text, " handle {}", HandleText(put.ack_wmd))?;
            }
        }
        Body::Get(get) => {
            portal(text, get.ptl_index, get.match_bits, "ping")?;
            let handle = HandleText(get.return_wmd);
            write!(
                text,
                " sink {} at {} handle {handle}",
                get.sink_length, get.src_offset
            )?;
        }
        Body::Reply(reply) => {
            let length = header.payload_length;
            write!(text, "{length} bytes handle {}", HandleText(reply.dst_wmd))?;
        }
    }
    Ok(())
}

fn portal(text: &mut String, index: u32, bits: u64, ping: &str) -> fmt::Result {
    write!(text, "portal {index}")?;
    match index {
        LNET_PORTAL if bits == PING_MATCH_BITS => return write!(text, " ({ping})"),
        SELFTEST_TEST_PORTAL | SELFTEST_FRAMEWORK_PORTAL | SELFTEST_REPLY_PORTAL => {
            text.push_str(" (selftest)");
        }
        _ => {}
    }
    write!(text, " match {bits:#x}")
}

fn payload(text: &mut String, payload: &Payload<'_>) -> fmt::Result {
    match payload {
        Payload::None | Payload::Opaque { lost: 0, .. } => Ok(()),
        Payload::Opaque { lost, .. } => write!(text, " ({lost} bytes are not in the capture)"),
        Payload::Ping(info) => ping(text, info),
        Payload::BadPing(error) => write!(text, " BROKEN {error}"),
    }
}

fn ping(text: &mut String, info: &PingInfo<'_>) -> fmt::Result {
    write!(text, "; features {:#x}", info.features().bits())?;
    if let Some(sequence) = info.sequence() {
        write!(text, " seq {sequence}")?;
    }
    for ni in info.nis() {
        write!(text, " {} {}", ni.nid, StatusText(ni.status))?;
    }
    if info.is_truncated() {
        text.push_str(" (truncated)");
    }
    Ok(())
}

fn cookies(text: &mut String, frame: &KsockHeader) -> fmt::Result {
    let separator = if text.is_empty() { "" } else { " " };
    if let Some(cookie) = frame.zc_request() {
        write!(text, "{separator}zc-request {cookie}")?;
    }
    match frame.zc_ack() {
        Ok(ZcAck::None) => Ok(()),
        Ok(ZcAck::Keepalive) => write!(text, "{separator}keepalive"),
        Ok(ZcAck::One(cookie)) => write!(text, "{separator}zc-ack {cookie}"),
        Ok(ZcAck::Pair(a, b)) => write!(text, "{separator}zc-ack {a} and {b}"),
        Ok(ZcAck::Range { first, last }) => write!(text, "{separator}zc-ack {first}..={last}"),
        Err(error) => write!(text, "{separator}{error}"),
    }
}
