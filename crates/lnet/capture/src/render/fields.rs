//! Every field of a message, with its offset and its bytes.
//!
//! ```text
//!        offset  bytes                     field            value
//!            24  02 00 01 0a 00 00 02 00   dest_nid         10.1.0.2@tcp
//! ```
//!
//! The order of fields is that of the wire. Values
//! come from the decoded structure, bytes from the capture; the fields must end where the structure
//! ends.

use std::io;

use lnet_wire::{
    Body, Connreq, ConnreqVersion, Header, HeaderForm, Hello, HelloVersion, KsockHeader, PingInfo,
    ReceivedHello, o2ib,
};

use super::{FeaturesText, HandleText, StatusText};
use crate::message::{Kind, Lnet, Message, o2ib_name, type_name};
use crate::payload::Payload;

/// Writes every field of a message, one on each line. A message without fields (a gap) writes
/// nothing; a broken structure writes the bytes that are present.
///
/// # Errors
///
/// Those of `out`.
pub fn write_fields(out: &mut dyn io::Write, message: &Message<'_>) -> io::Result<()> {
    let mut offset = 0;
    for Field {
        name,
        length,
        value,
    } in fields(&message.kind)
    {
        let bytes = message.raw.get(offset..).unwrap_or_default();
        let bytes = bytes.get(..length).unwrap_or(bytes);
        write_field(out, offset, bytes, name, &value)?;
        offset += bytes.len();
    }
    let rest = message.raw.get(offset..).unwrap_or_default();
    for (index, chunk) in rest.chunks(BYTES_A_ROW).enumerate() {
        write_field(out, offset + index * BYTES_A_ROW, chunk, "", "")?;
    }
    Ok(())
}

const BYTES_A_ROW: usize = 8;

/// One field: name, bytes on the wire, value.
struct Field {
    name: &'static str,
    length: usize,
    value: String,
}

fn write_field(
    out: &mut dyn io::Write,
    offset: usize,
    bytes: &[u8],
    name: &str,
    value: &str,
) -> io::Result<()> {
    let rows = bytes.chunks(BYTES_A_ROW).enumerate();
    for (index, row) in rows {
        let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, value) = if index == 0 { (name, value) } else { ("", "") };
        let at = offset + index * BYTES_A_ROW;
        let line = format!("{at:>14}  {:<24} {name:<16} {value}", hex.join(" "));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn fields(kind: &Kind<'_>) -> Vec<Field> {
    let mut list = Vec::new();
    match kind {
        Kind::Connreq(connreq) => connreq_fields(&mut list, connreq),
        Kind::Rejection => rejection_fields(&mut list),
        Kind::Hello(received) => hello_fields(&mut list, received),
        Kind::Noop(frame) => frame_fields(&mut list, frame),
        Kind::Lnet(lnet) => lnet_fields(&mut list, lnet),
        Kind::Cut {
            frame: Some(frame), ..
        } => frame_fields(&mut list, frame),
        Kind::O2ib(message) => o2ib_fields(&mut list, message),
        Kind::Cm(cm) => {
            if let Some(message) = cm.message {
                o2ib_fields(&mut list, message);
            }
            if let Some(rejection) = &cm.rejection {
                o2ib_rejection_fields(&mut list, rejection);
            }
        }
        Kind::Cut { .. }
        | Kind::Broken(_)
        | Kind::Gap { .. }
        | Kind::Write(_)
        | Kind::Nak(_)
        | Kind::PacketsLost { .. }
        | Kind::Resumed { .. } => {}
    }
    list
}

fn add(list: &mut Vec<Field>, name: &'static str, length: usize, value: impl ToString) {
    list.push(Field {
        name,
        length,
        value: value.to_string(),
    });
}

fn connreq_fields(list: &mut Vec<Field>, connreq: &Connreq) {
    let (version, nid_len) = match connreq.version {
        ConnreqVersion::V1 => (1, 8),
        ConnreqVersion::V2 => (2, 20),
    };
    add(list, "magic", 4, "acceptor");
    add(list, "version", 4, version);
    add(list, "target_nid", nid_len, connreq.target);
}

fn rejection_fields(list: &mut Vec<Field>) {
    add(list, "magic", 4, "acceptor");
    add(list, "version", 4, 1);
    add(list, "nid", 8, 0);
}

fn hello_fields(list: &mut Vec<Field>, received: &ReceivedHello<'_>) {
    let hello = &received.hello;
    add(
        list,
        "magic",
        4,
        format_args!("HELLO, {:?}-endian", received.order),
    );
    match hello.version {
        HelloVersion::V1 => hello_v1_fields(list, hello, received.addresses.len()),
        HelloVersion::V2 | HelloVersion::V3 => hello_tail_fields(list, received, 8),
        HelloVersion::V4 => hello_tail_fields(list, received, 20),
    }
    for address in received.addresses.iter() {
        add(list, "address", 4, address);
    }
}

fn hello_v1_fields(list: &mut Vec<Field>, hello: &Hello, addresses: usize) {
    add(list, "version", 4, "1.0");
    add(list, "src_nid", 8, hello.src_nid);
    add(list, "", 4, "");
    add(list, "src_pid", 4, hello.src_pid);
    add(list, "type", 4, "HELLO");
    add(list, "payload_length", 4, addresses * 4);
    add(
        list,
        "src_incarnation",
        8,
        format_args!("{:#x}", hello.src_incarnation),
    );
    add(list, "ctype", 4, hello.ctype);
    add(list, "", 28, "");
}

fn hello_tail_fields(list: &mut Vec<Field>, received: &ReceivedHello<'_>, nid_len: usize) {
    let hello = &received.hello;
    add(list, "version", 4, hello.version.number());
    add(list, "src_nid", nid_len, hello.src_nid);
    add(list, "dst_nid", nid_len, hello.dst_nid);
    add(list, "src_pid", 4, hello.src_pid);
    add(list, "dst_pid", 4, hello.dst_pid);
    add(
        list,
        "src_incarnation",
        8,
        format_args!("{:#x}", hello.src_incarnation),
    );
    add(
        list,
        "dst_incarnation",
        8,
        format_args!("{:#x}", hello.dst_incarnation),
    );
    add(list, "ctype", 4, hello.ctype);
    add(list, "nips", 4, received.addresses.len());
}

fn frame_fields(list: &mut Vec<Field>, frame: &KsockHeader) {
    add(
        list,
        "frame_type",
        4,
        format_args!("{:?}", frame.frame_type)
            .to_string()
            .to_uppercase(),
    );
    add(list, "csum", 4, format_args!("{:#x}", frame.csum));
    add(
        list,
        "cookie[0]",
        8,
        format_args!("{:#x}", frame.cookies[0]),
    );
    add(
        list,
        "cookie[1]",
        8,
        format_args!("{:#x}", frame.cookies[1]),
    );
}

fn lnet_fields(list: &mut Vec<Field>, lnet: &Lnet<'_>) {
    if let Some(frame) = &lnet.frame {
        frame_fields(list, frame);
    }
    header_fields(list, lnet.form, &lnet.header, lnet.name());
    match &lnet.payload {
        Payload::Ping(info) => ping_fields(list, info),
        Payload::None | Payload::Opaque { .. } | Payload::BadPing(_) => {}
    }
}

fn header_fields(list: &mut Vec<Field>, form: HeaderForm, header: &Header, name: &str) {
    let nid_len = match form {
        HeaderForm::Nid4 => 8,
        HeaderForm::Nid16 => 20,
    };
    add(list, "dest_nid", nid_len, header.dest_nid);
    add(list, "src_nid", nid_len, header.src_nid);
    add(list, "dest_pid", 4, header.dest_pid);
    add(list, "src_pid", 4, header.src_pid);
    add(list, "type", 4, name);
    add(list, "payload_length", 4, header.payload_length);
    body_fields(list, &header.body);
}

fn body_fields(list: &mut Vec<Field>, body: &Body) {
    match body {
        Body::Ack(ack) => {
            add(list, "dst_wmd", 16, HandleText(ack.dst_wmd));
            add(list, "match_bits", 8, format_args!("{:#x}", ack.match_bits));
            add(list, "mlength", 4, ack.mlength);
            add(list, "", 12, "");
        }
        Body::Put(put) => {
            add(list, "ack_wmd", 16, HandleText(put.ack_wmd));
            add(list, "match_bits", 8, format_args!("{:#x}", put.match_bits));
            add(list, "hdr_data", 8, format_args!("{:#x}", put.hdr_data));
            add(list, "ptl_index", 4, put.ptl_index);
            add(list, "offset", 4, put.offset);
        }
        Body::Get(get) => {
            add(list, "return_wmd", 16, HandleText(get.return_wmd));
            add(list, "match_bits", 8, format_args!("{:#x}", get.match_bits));
            add(list, "ptl_index", 4, get.ptl_index);
            add(list, "src_offset", 4, get.src_offset);
            add(list, "sink_length", 4, get.sink_length);
            add(list, "", 4, "");
        }
        Body::Reply(reply) => {
            add(list, "dst_wmd", 16, HandleText(reply.dst_wmd));
            add(list, "", 24, "");
        }
    }
}

fn o2ib_fields(list: &mut Vec<Field>, message: &o2ib::Message<'_>) {
    let envelope = &message.envelope;
    let hex = |value: u64| format!("{value:#x}");
    add(list, "magic", 4, "o2ib");
    add(list, "version", 2, format_args!("{:#x}", o2ib::VERSION));
    add(list, "type", 1, o2ib_name(message.body.kind()));
    add(list, "credits", 1, envelope.credits);
    add(list, "length", 4, "");
    add(list, "checksum", 4, "");
    add(list, "src_nid", 8, envelope.source);
    add(list, "src_incarnation", 8, hex(envelope.source_incarnation));
    add(list, "dst_nid", 8, envelope.destination);
    add(
        list,
        "dst_incarnation",
        8,
        hex(envelope.destination_incarnation),
    );
    match &message.body {
        o2ib::Body::Connreq(parameters) | o2ib::Body::Connack(parameters) => {
            parameter_fields(list, parameters);
        }
        o2ib::Body::Noop => {}
        o2ib::Body::Immediate { header, .. } => inner_fields(list, header),
        o2ib::Body::PutReq { header, cookie } => {
            inner_fields(list, header);
            add(list, "cookie", 8, hex(*cookie));
        }
        o2ib::Body::PutNak { cookie, status }
        | o2ib::Body::PutDone { cookie, status }
        | o2ib::Body::GetDone { cookie, status } => {
            add(list, "cookie", 8, hex(*cookie));
            add(list, "status", 4, status);
        }
        o2ib::Body::PutAck {
            source_cookie,
            sink_cookie,
            descriptor,
        } => {
            add(list, "source_cookie", 8, hex(*source_cookie));
            add(list, "sink_cookie", 8, hex(*sink_cookie));
            descriptor_fields(list, descriptor);
        }
        o2ib::Body::GetReq {
            header,
            cookie,
            descriptor,
        } => {
            inner_fields(list, header);
            add(list, "cookie", 8, hex(*cookie));
            descriptor_fields(list, descriptor);
        }
    }
}

fn inner_fields(list: &mut Vec<Field>, header: &Header) {
    let name = type_name(header.message_type());
    header_fields(list, HeaderForm::Nid4, header, name);
}

fn parameter_fields(list: &mut Vec<Field>, parameters: &o2ib::Parameters) {
    add(list, "queue_depth", 2, parameters.queue_depth);
    add(list, "fragments", 2, parameters.fragments);
    add(list, "message_size", 4, parameters.message_size);
}

fn descriptor_fields(list: &mut Vec<Field>, descriptor: &o2ib::Descriptor) {
    add(list, "rkey", 4, format_args!("{:#x}", descriptor.rkey));
    add(list, "fragments", 4, descriptor.fragments.len());
    for fragment in &descriptor.fragments {
        add(list, "length", 4, fragment.length);
        add(list, "address", 8, format_args!("{:#x}", fragment.address));
    }
}

fn o2ib_rejection_fields(list: &mut Vec<Field>, rejection: &o2ib::Rejection) {
    add(list, "magic", 4, "o2ib");
    add(list, "version", 2, format_args!("{:#x}", rejection.version));
    add(list, "reason", 1, format_args!("{:?}", rejection.reason));
    add(list, "", 1, "");
    add(
        list,
        "incarnation",
        8,
        format_args!("{:#x}", rejection.incarnation),
    );
    parameter_fields(list, &rejection.parameters);
}

fn ping_fields(list: &mut Vec<Field>, info: &PingInfo<'_>) {
    add(list, "magic", 4, "ping");
    add(list, "features", 4, FeaturesText(info.features()));
    add(list, "pid", 4, info.pid());
    add(list, "nnis", 4, info.nnis());
    if let Some(sequence) = info.sequence() {
        add(list, "nid", 8, "0@lo");
        add(list, "sequence", 4, sequence);
        add(list, "info_size", 4, info.info_size());
    }
    let small = (info.nnis() as usize).saturating_sub(1);
    for ni in info.nis().take(small) {
        add(list, "nid", 8, ni.nid);
        add(list, "status", 4, StatusText(ni.status));
        add(list, "", 4, "");
    }
    for ni in info.nis().skip(small) {
        add(list, "status", 4, StatusText(ni.status));
        add(list, "nid", if ni.nid.is_large() { 20 } else { 8 }, ni.nid);
    }
}
