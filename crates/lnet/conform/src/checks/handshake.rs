//! Handshakes that the node must accept.

use std::thread;
use std::time::Duration;

use lnet_types::{Net, Nid, ProcessId};
use lnet_wire::{
    ACCEPTOR_MAGIC, ByteOrder, Connreq, ConnreqVersion, Ctype, HelloVersion, KsockHeader,
};

use crate::probe::{Probe, SINK_MAX, Stop, ensure, equal, hello_of, request_of};

pub(super) fn version(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let ours = probe.hello(Ctype::CONTROL);
    let (_link, heard) = probe.handshake(&ours)?;
    equal("the version", &heard.hello.version, &ours.version)
}

pub(super) fn order(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (_link, heard) = probe.handshake(&probe.hello(Ctype::CONTROL))?;
    equal("the byte order", &heard.order, &ByteOrder::Little)
}

pub(super) fn source(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (_link, heard) = probe.handshake(&probe.hello(Ctype::CONTROL))?;
    equal("the source NID", &heard.hello.src_nid, &probe.nid())?;
    let due = ProcessId::LUSTRE_PID;
    equal("the source process", &heard.hello.src_pid, &due)
}

pub(super) fn echo(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut ours = probe.hello(Ctype::CONTROL);
    // A dialler normally sends zeros, which would not show that they are copied.
    ours.dst_pid = 0x2B;
    ours.dst_incarnation = 0x1122_3344_5566_7788;
    let (_link, heard) = probe.handshake(&ours)?;
    let hello = heard.hello;
    equal("the destination process", &hello.dst_pid, &ours.dst_pid)?;
    let (found, due) = (hello.dst_incarnation, ours.dst_incarnation);
    equal("the destination incarnation", &found, &due)
}

pub(super) fn destination(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut ours = probe.hello(Ctype::CONTROL);
    ours.dst_nid = probe.me.nid;
    let (mut link, _) = probe.handshake(&ours)?;
    probe.still_answers(&mut link)
}

pub(super) fn version_2(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let mut ours = probe.hello(Ctype::CONTROL);
    ours.version = HelloVersion::V2;
    let (mut link, heard) = probe.handshake(&ours)?;
    equal("the version", &heard.hello.version, &ours.version)?;
    probe.still_answers(&mut link)
}

pub(super) fn addresses(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let ours = probe.hello(Ctype::CONTROL);
    let mut bytes = hello_of(&ours);
    set_u32(&mut bytes, NIPS_AT, 16);
    bytes.extend((1..=16_u8).flat_map(|host| [host, 2, 0, 192]));
    let mut link = probe.dial_with(ours.version, &bytes)?;
    link.hello()?;
    probe.still_answers(&mut link)
}

/// Bytes of a piece; no field of a handshake ends at a multiple at which a reader may stop.
const PIECE: usize = 3;

/// Long enough to keep most pieces apart when threads are late, and short compared with the timeout of a handshake.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

pub(super) fn pieces(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let hello = hello_of(&probe.hello(Ctype::CONTROL));
    let mut link = probe.connect()?;
    for piece in [probe.request(), hello].concat().chunks(PIECE) {
        link.send(piece);
        // Bytes that are sent together may arrive together.
        thread::sleep(PIECE_PAUSE);
    }
    link.hello()?;
    probe.still_answers(&mut link)
}

pub(super) fn control(probe: &mut Probe<'_>) -> Result<(), Stop> {
    answered_with(probe, Ctype::CONTROL, Ctype::CONTROL)
}

pub(super) fn bulk_in(probe: &mut Probe<'_>) -> Result<(), Stop> {
    answered_with(probe, Ctype::BULK_IN, Ctype::BULK_OUT)
}

pub(super) fn bulk_out(probe: &mut Probe<'_>) -> Result<(), Stop> {
    answered_with(probe, Ctype::BULK_OUT, Ctype::BULK_IN)
}

fn answered_with(probe: &mut Probe<'_>, ours: Ctype, due: Ctype) -> Result<(), Stop> {
    let mut link = probe.dial(&probe.hello(ours))?;
    equal("the type", &link.hello()?.hello.ctype, &due)
}

pub(super) fn incarnation(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (_control, first) = probe.handshake(&probe.hello(Ctype::CONTROL))?;
    let (_bulk, second) = probe.handshake(&probe.hello(Ctype::BULK_IN))?;
    let [first, second] = [first, second].map(|heard| heard.hello.src_incarnation);
    ensure(first != 0, || "the incarnation is 0".to_owned())?;
    equal("the incarnation of the second connection", &second, &first)
}

pub(super) fn request_2(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let request = Connreq {
        version: ConnreqVersion::V2,
        target: probe.nid(),
    };
    let mut link = probe.connect()?;
    let hello = hello_of(&probe.hello(Ctype::CONTROL));
    link.send(&[request_of(&request), hello].concat());
    let word = link.read("a HELLO", ACCEPTOR_MAGIC.to_le_bytes().len())?;
    if word == ACCEPTOR_MAGIC.to_le_bytes() {
        return Err(Stop::NotApplicable(
            "the node does not know version 2, as releases up to 2.14".to_owned(),
        ));
    }
    link.hello_behind(word)?;
    probe.still_answers(&mut link)
}

pub(super) fn big_endian(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let ours = probe.hello(Ctype::CONTROL);
    let mut bytes = hello_of(&ours);
    turn(&mut bytes, &[4, 4, 8, 8, 4, 4, 8, 8, 4, 4]);
    let mut link = probe.dial_with(ours.version, &bytes)?;
    let heard = link.hello()?;
    if heard.hello.dst_nid != probe.me.nid {
        return Err(Stop::NotApplicable(
            "the node does not turn the NIDs of a big-endian HELLO, as releases from 2.15 on"
                .to_owned(),
        ));
    }
    equal(
        "the byte order of the answer",
        &heard.order,
        &ByteOrder::Little,
    )?;
    let (header, _) = probe.ping_header(SINK_MAX);
    let mut message = link.message(KsockHeader::LNET, &header, &[])?;
    turn(&mut message, &[4, 4, 8, 8]);
    link.send(&message);
    link.reply().map(drop)
}

/// Turns consecutive integers of these widths into the other byte order.
fn turn(bytes: &mut [u8], widths: &[usize]) {
    let mut rest = bytes;
    for &width in widths {
        let Some((field, behind)) = rest.split_at_mut_checked(width) else {
            return;
        };
        field.reverse();
        rest = behind;
    }
}

/// Offset of the number of addresses in a HELLO of version 2 or 3.
pub(super) const NIPS_AT: usize = 52;

/// Overwrites an integer of an encoded structure.
pub(super) fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// A NID on a net that the node does not have: the last network number.
pub(super) const fn stranger() -> Nid {
    // 192.0.2.1 is for documentation (RFC 5737).
    Nid::from_number(Net::tcp(65_534), 0xC000_0201)
}
