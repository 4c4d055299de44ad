//! Compares our messages of the o2ib LND with those of tshark's dissectors of InfiniBand and LNet.
//!
//! tshark dissects a message that is in one packet. The comparison covers the messages of at most 1,024 bytes, the path
//! MTU of software RoCE, by the fields below: those of the LND, and those of the LNet message inside. tshark takes the
//! header of a GET for four bytes shorter than it is; what follows it in a GET_REQ is not compared.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use lnet_capture::{Cm, Kind, LNET_PORT, decode_capture};
use lnet_types::Nid;
use lnet_wire::o2ib::{Body, Descriptor, Message};
use lnet_wire::{Body as LnetBody, Header};

/// The most bytes of a message that is in one packet for certain.
const ONE_PACKET: u64 = 1024;

/// tshark's fields: what names the packet, and what is compared.
const NAMING: [&str; 4] = [
    "ip.dst",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.bth.opcode",
];
const COMPARED: [&str; 16] = [
    "lnet.ib.type",
    "lnet.ib.credits",
    "lnet.ib.nob",
    "lnet.nid.addr",
    "lnet.o2ib.cookie",
    "lnet.o2ib.src_cookie",
    "lnet.o2ib.dest_cookie",
    "lnet.o2ib.status",
    "lnet.rdma.key",
    "lnet.rdma.nfrags",
    "lnet.rdma_frag.size",
    "lnet.rdma_frag.addr",
    "lnet.msg_type",
    "lnet.payload_length",
    "lnet.ptl_index",
    "lnet.connparam.qdepth",
];

/// The compared fields that follow the LNet header in a GET_REQ.
const BEHIND_A_GET: [usize; 5] = [4, 8, 9, 10, 11];

/// Returns the number of messages that both decoders say the same of, or the first difference. The order is not compared:
/// ours decodes what follows a lost packet once that was sent again, tshark when it comes.
pub(crate) fn compare(capture: &Path) -> Result<usize, String> {
    let (mut ours, mut theirs) = (our_rows(capture), their_rows(capture));
    ours.sort_unstable();
    theirs.sort_unstable();
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        if ours != theirs {
            return Err(format!(
                "message {index}:\n ours    {ours}\n tshark's {theirs}"
            ));
        }
    }
    match ours.len() == theirs.len() {
        true => Ok(ours.len()),
        false => Err(format!("{} messages, tshark {}", ours.len(), theirs.len())),
    }
}

fn our_rows(capture: &Path) -> Vec<String> {
    let file = std::fs::File::open(capture).expect("the capture is readable");
    let mut rows = Vec::new();
    let (_, read) = decode_capture(file, &[LNET_PORT], |message| {
        let (Kind::O2ib(o2ib)
        | Kind::Cm(Cm {
            message: Some(o2ib),
            ..
        })) = message.kind
        else {
            return Ok(());
        };
        if message.length <= ONE_PACKET {
            rows.push(row(o2ib, message.length));
        }
        Ok(())
    });
    read.expect("the capture is whole");
    rows
}

/// Returns the fields of a message as tshark prints them.
fn row(message: &Message<'_>, length: u64) -> String {
    let mut fields: [String; COMPARED.len()] = Default::default();
    let envelope = &message.envelope;
    fields[0] = format!("{:#04x}", message.body.kind() as u8);
    fields[1] = envelope.credits.to_string();
    fields[2] = length.to_string();
    let mut nids = vec![envelope.source, envelope.destination];
    match &message.body {
        Body::Connreq(parameters) | Body::Connack(parameters) => {
            fields[15] = parameters.queue_depth.to_string();
        }
        Body::Noop => {}
        Body::Immediate { header, .. } => inner(&mut fields, &mut nids, header),
        Body::PutReq { header, cookie } => {
            inner(&mut fields, &mut nids, header);
            fields[4] = format!("{cookie:#018x}");
        }
        Body::PutNak { cookie, status }
        | Body::PutDone { cookie, status }
        | Body::GetDone { cookie, status } => {
            fields[4] = format!("{cookie:#018x}");
            fields[7] = status.to_string();
        }
        Body::PutAck {
            source_cookie,
            sink_cookie,
            descriptor,
        } => {
            fields[5] = format!("{source_cookie:#018x}");
            fields[6] = format!("{sink_cookie:#018x}");
            memory(&mut fields, descriptor);
        }
        Body::GetReq { header, .. } => inner(&mut fields, &mut nids, header),
    }
    let address = |nid: &Nid| nid.ip().map(|ip| ip.to_string()).unwrap_or_default();
    fields[3] = nids.iter().map(address).collect::<Vec<_>>().join(",");
    fields.join("\t")
}

fn inner(fields: &mut [String; COMPARED.len()], nids: &mut Vec<Nid>, header: &Header) {
    nids.extend([header.dest_nid, header.src_nid]);
    fields[12] = (header.message_type() as u32).to_string();
    fields[13] = header.payload_length.to_string();
    let portal = match header.body {
        LnetBody::Put(put) => Some(put.ptl_index),
        LnetBody::Get(get) => Some(get.ptl_index),
        LnetBody::Ack(_) | LnetBody::Reply(_) => None,
    };
    fields[14] = portal.map(|portal| portal.to_string()).unwrap_or_default();
}

fn memory(fields: &mut [String; COMPARED.len()], descriptor: &Descriptor) {
    fields[8] = format!("{:#010x}", descriptor.rkey);
    fields[9] = descriptor.fragments.len().to_string();
    for (index, fragment) in descriptor.fragments.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(fields[10], "{comma}{}", fragment.length).expect("text grows");
        write!(fields[11], "{comma}{:#018x}", fragment.address).expect("text grows");
    }
}

/// Returns tshark's rows, without packets that were sent again.
fn their_rows(capture: &Path) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-Y", "lnet.ib.type", "-T", "fields", "-E", "occurrence=a"]);
    for field in NAMING.into_iter().chain(COMPARED) {
        tshark.args(["-e", field]);
    }
    let output = tshark.arg("-r").arg(capture).output().expect("tshark runs");
    assert!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("fields are UTF-8");
    let mut seen = BTreeSet::new();
    let rows = text.lines().filter_map(|line| {
        let mut fields: Vec<&str> = line.split('\t').collect();
        let named: Vec<&str> = fields.drain(..NAMING.len()).collect();
        const DATAGRAM: &str = "100";
        let is_new = named[3] == DATAGRAM || seen.insert(named.join(" "));
        let length: u64 = fields[2].parse().expect("a length");
        const GET_REQ: &str = "0xd6";
        if fields[0] == GET_REQ {
            BEHIND_A_GET.iter().for_each(|at| fields[*at] = "");
        }
        (is_new && length <= ONE_PACKET).then(|| fields.join("\t"))
    });
    rows.collect()
}
