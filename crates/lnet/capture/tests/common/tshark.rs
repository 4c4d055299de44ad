//! Compares our messages of any capture with those of tshark's LNet dissector.
//!
//! tshark decodes frame headers and 72-byte LNet headers. It does not decode handshakes and ping
//! info, misreads 20-byte NIDs (such captures are rejected here), marks pushes and selftest
//! payloads as malformed although they are right, labels the two process ids in the wrong order,
//! and reads the handle of an ACK with its bytes reversed. The comparison covers for each message:
//! type, NIDs, process ids, payload length, match bits, portal, handle, accepted and wanted length,
//! remote offset, header data, zero-copy cookies.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use lnet_capture::{Kind, Lnet, decode_capture};
use lnet_wire::{Body, HeaderForm, KsockHeader};

/// Why the outputs of two decoders cannot be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incomparable {
    /// tshark does not know the 96-byte header.
    LargeNids,
    /// The outputs differ.
    Differs(String),
}

/// Compares the outputs for each frame of a capture with nodes that listen on `port`, in the order
/// of each direction's stream. Returns the number of frames.
pub(crate) fn compare(capture: &Path, port: u16) -> Result<usize, Incomparable> {
    let ours = our_flows(capture, port)?;
    let theirs = their_flows(capture, port);
    for (flow, frames) in &ours {
        let none = Vec::new();
        let found = difference(frames, theirs.get(flow).unwrap_or(&none));
        if let Some(what) = found {
            return Err(Incomparable::Differs(format!("{flow}: {what}")));
        }
    }
    let extra = theirs.keys().find(|flow| !ours.contains_key(*flow));
    match extra {
        Some(flow) => Err(Incomparable::Differs(format!("only tshark has {flow}"))),
        None => Ok(ours.values().map(Vec::len).sum()),
    }
}

/// Fields of one frame under tshark's names.
pub(crate) type Fields = BTreeMap<&'static str, u64>;

/// Frames from one socket to another, in order.
type Flows = BTreeMap<String, Vec<Fields>>;

pub(crate) fn difference(ours: &[Fields], theirs: &[Fields]) -> Option<String> {
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        if ours != theirs {
            return Some(format!("frame {index}: ours {ours:?}, tshark's {theirs:?}"));
        }
    }
    (ours.len() != theirs.len()).then(|| format!("{} frames, tshark {}", ours.len(), theirs.len()))
}

pub(crate) fn has_tshark() -> bool {
    let found = Command::new("tshark")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: tshark is not installed");
    }
    found
}

fn our_flows(capture: &Path, port: u16) -> Result<Flows, Incomparable> {
    let bytes = std::fs::read(capture).expect("the capture is readable");
    let mut flows = Flows::new();
    let mut large = false;
    let (_, read) = decode_capture(bytes.as_slice(), &[port], |message| {
        let fields = match message.kind {
            Kind::Noop(frame) => frame_fields(&frame),
            Kind::Lnet(lnet) => {
                large |= lnet.form == HeaderForm::Nid16;
                lnet_fields(&lnet)
            }
            _ => return Ok(()),
        };
        let (from, to) = (message.from(), message.to());
        let flow = format!("{} {} {} {}", from.ip(), from.port(), to.ip(), to.port());
        flows.entry(flow).or_default().push(fields);
        Ok(())
    });
    read.expect("the capture is whole");
    if large {
        Err(Incomparable::LargeNids)
    } else {
        Ok(flows)
    }
}

fn frame_fields(frame: &KsockHeader) -> Fields {
    Fields::from([
        ("lnet.ksm_zc_req_cookie", frame.cookies[0]),
        ("lnet.ksm_zc_ack_cookie", frame.cookies[1]),
    ])
}

fn lnet_fields(lnet: &Lnet<'_>) -> Fields {
    let header = &lnet.header;
    let mut fields = frame_fields(
        &lnet
            .frame
            .expect("HELLO version 1 has no frames for tshark"),
    );
    let mut put = |name, value: u64| {
        fields.insert(name, value);
    };
    put(
        "lnet.dest_nid",
        header.dest_nid.to_nid4().unwrap_or_default(),
    );
    put("lnet.src_nid", header.src_nid.to_nid4().unwrap_or_default());
    // tshark's two labels are exchanged.
    put("lnet.src_pid", header.dest_pid.into());
    put("lnet.dest_pid", header.src_pid.into());
    put("lnet.msg_type", u64::from(header.message_type() as u32));
    put("lnet.payload_length", header.payload_length.into());
    let handle = match header.body {
        Body::Ack(ack) => {
            put("lnet.msg_dst_match_bits", ack.match_bits);
            put("lnet.msg_length", ack.mlength.into());
            ack.dst_wmd
        }
        Body::Put(body) => {
            put("lnet.msg_dst_match_bits", body.match_bits);
            put("lnet.msg_hdr_data", body.hdr_data);
            put("lnet.ptl_index", body.ptl_index.into());
            put("lnet.offset", body.offset.into());
            body.ack_wmd
        }
        Body::Get(get) => {
            put("lnet.msg_dst_match_bits", get.match_bits);
            put("lnet.ptl_index", get.ptl_index.into());
            put("lnet.src_offset", get.src_offset.into());
            put("lnet.sink_length", get.sink_length.into());
            get.return_wmd
        }
        Body::Reply(reply) => reply.dst_wmd,
    };
    put("lnet.msg_dst_interface_cookie", handle.interface);
    put("lnet.msg_dst_object_cookie", handle.object);
    fields
}

/// The frames that tshark dissects, from its PDML, which separates several frames of one packet.
fn their_flows(capture: &Path, port: u16) -> Flows {
    let output = Command::new("tshark")
        .args([
            "-d",
            &format!("tcp.port=={port},lnet"),
            // Two processors may write the packets of one connection to a capture in another order.
            "-o",
            "tcp.reassemble_out_of_order:TRUE",
            "-T",
            "pdml",
            "-Y",
            "lnet.ksm_type",
            "-r",
        ])
        .arg(capture)
        .output()
        .expect("tshark runs");
    assert!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("PDML is UTF-8");
    let mut reader = PdmlReader::default();
    text.lines().for_each(|line| reader.line(line.trim()));
    reader.flows.values_mut().flatten().for_each(straighten_ack);
    reader.flows
}

/// Reads the PDML line by line: each line holds one field.
#[derive(Default)]
struct PdmlReader {
    flows: Flows,
    ends: [String; 4],
    nid: &'static str,
}

impl PdmlReader {
    fn line(&mut self, line: &str) {
        let Some((name, show)) = attribute(line, "name").zip(attribute(line, "show")) else {
            return;
        };
        match name {
            "ip.src" | "ipv6.src" => self.ends[0] = show.to_owned(),
            "tcp.srcport" => self.ends[1] = show.to_owned(),
            "ip.dst" | "ipv6.dst" => self.ends[2] = show.to_owned(),
            "tcp.dstport" => self.ends[3] = show.to_owned(),
            "lnet.ksm_type" => self.frames().push(Fields::new()),
            "lnet.dest_nid" => self.nid = "lnet.dest_nid",
            "lnet.src_nid" => self.nid = "lnet.src_nid",
            "lnet.nid.addr" => {
                let address: Ipv4Addr = show.parse().expect("an IPv4 address");
                self.add_to_nid(address.to_bits().into());
            }
            "lnet.nid.net_interface" => self.add_to_nid(number(show) << 32),
            "lnet.nid.type" => self.add_to_nid(number(show) << 48),
            _ => {
                if let Some(known) = COMPARED.iter().find(|known| **known == name) {
                    self.frame().insert(known, number(show));
                }
            }
        }
    }

    fn frames(&mut self) -> &mut Vec<Fields> {
        self.flows.entry(self.ends.join(" ")).or_default()
    }

    fn frame(&mut self) -> &mut Fields {
        self.frames()
            .last_mut()
            .expect("a frame starts with its type")
    }

    fn add_to_nid(&mut self, part: u64) {
        let nid = self.nid;
        *self.frame().entry(nid).or_default() |= part;
    }
}

/// tshark's fields that carry one number each.
const COMPARED: [&str; 15] = [
    "lnet.ksm_zc_req_cookie",
    "lnet.ksm_zc_ack_cookie",
    "lnet.src_pid",
    "lnet.dest_pid",
    "lnet.msg_type",
    "lnet.payload_length",
    "lnet.msg_dst_interface_cookie",
    "lnet.msg_dst_object_cookie",
    "lnet.msg_dst_match_bits",
    "lnet.msg_length",
    "lnet.msg_hdr_data",
    "lnet.ptl_index",
    "lnet.offset",
    "lnet.src_offset",
    "lnet.sink_length",
];

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("a hex number"),
        None => text.parse().expect("a decimal number"),
    }
}

/// tshark reads the handle of an ACK with the bytes of its words reversed.
fn straighten_ack(frame: &mut Fields) {
    const ACK: u64 = 0;
    if frame.get("lnet.msg_type") != Some(&ACK) {
        return;
    }
    for name in [
        "lnet.msg_dst_interface_cookie",
        "lnet.msg_dst_object_cookie",
    ] {
        if let Some(word) = frame.get_mut(name) {
            *word = word.swap_bytes();
        }
    }
}
