//! LNet headers and the handling of messages.

use lnet_types::{Nid, ProcessId};
use lnet_wire::{
    Ack, Body, Ctype, Handle, Header, HeaderForm, KsockHeader, LNET_MTU, PORTALS, PingFeatures,
    Reply,
};

use super::handshake::{set_u32, stranger};
use crate::link::Link;
use crate::probe::{Probe, SINK_MAX, Stop, ensure, equal};

/// A portal that LNet, selftest and Lustre do not use, so it has no match entries.
pub(super) const UNUSED_PORTAL: u32 = PORTALS - 1;

pub(super) fn reply_handle(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let (header, handle) = probe.ping_header(SINK_MAX);
    link.send_message(KsockHeader::LNET, &header, &[])?;
    equal("the handle", &handle_of(&link.reply()?.header), &handle)
}

pub(super) fn reply_addresses(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let header = probe.ping_afresh(SINK_MAX)?.header;
    equal("the source NID", &header.src_nid, &probe.nid())?;
    equal(
        "the source process",
        &header.src_pid,
        &ProcessId::LUSTRE_PID,
    )?;
    equal("the destination NID", &header.dest_nid, &probe.me.nid)?;
    if probe.need_siblings().is_ok() {
        equal("the destination process", &header.dest_pid, &probe.me.pid)?;
    }
    Ok(())
}

pub(super) fn reply_reserved(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let form = link.form();
    let heard = probe.ping(&mut link, SINK_MAX)?;
    let clean = Header::reserved_is_zero(form, &heard.header_bytes);
    ensure(clean, || {
        "bytes that a REPLY does not use are not zero".to_owned()
    })
}

pub(super) fn reply_once(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let mut replies = Vec::new();
    for _ in 0..3 {
        let (header, _) = probe.ping_header(SINK_MAX);
        link.send_message(KsockHeader::LNET, &header, &[])?;
    }
    for _ in 0..3 {
        replies.push(handle_of(&link.reply()?.header));
    }
    let repeated = replies
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a == b));
    ensure(!repeated, || "one GET was answered twice".to_owned())
}

pub(super) fn undefined(probe: &mut Probe<'_>) -> Result<(), Stop> {
    with_type(probe, 7)
}

pub(super) fn hello(probe: &mut Probe<'_>) -> Result<(), Stop> {
    with_type(probe, 4)
}

fn with_type(probe: &mut Probe<'_>, number: u32) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let (header, _) = probe.ping_header(SINK_MAX);
    let bytes = link.message(KsockHeader::LNET, &header, &[])?;
    let at = type_at(link.form());
    closes(&mut link, &spoiled(bytes, at, number))
}

pub(super) fn payload_of_get(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let (header, _) = probe.ping_header(SINK_MAX);
    let bytes = link.message(KsockHeader::LNET, &header, &[])?;
    let at = type_at(link.form()) + 4;
    closes(&mut link, &spoiled(bytes, at, 4))
}

pub(super) fn too_long(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::BULK_OUT)?;
    let header = probe.put_header(UNUSED_PORTAL, Handle::NONE, 0);
    let bytes = link.message(KsockHeader::LNET, &header, &[])?;
    let at = type_at(link.form()) + 4;
    closes(&mut link, &spoiled(bytes, at, LNET_MTU + 1))
}

pub(super) fn same_net(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let (mut header, _) = probe.ping_header(SINK_MAX);
    // Our own NID is on the node's net, and is not the node's.
    header.dest_nid = probe.me.nid;
    let bytes = link.message(KsockHeader::LNET, &header, &[])?;
    closes(&mut link, &bytes)
}

pub(super) fn foreign_net(probe: &mut Probe<'_>) -> Result<(), Stop> {
    if !probe.features()?.contains(PingFeatures::RTE_DISABLED) {
        return Err(Stop::NotApplicable("the node is a router".to_owned()));
    }
    let (mut header, handle) = probe.ping_header(SINK_MAX);
    header.dest_nid = stranger();
    dropped(probe, &header, &[], handle)
}

pub(super) fn put_no_match(probe: &mut Probe<'_>) -> Result<(), Stop> {
    put_dropped(probe, UNUSED_PORTAL)
}

pub(super) fn put_portal(probe: &mut Probe<'_>) -> Result<(), Stop> {
    put_dropped(probe, PORTALS)
}

fn put_dropped(probe: &mut Probe<'_>, portal: u32) -> Result<(), Stop> {
    let handle = probe.handle();
    let header = probe.put_header(portal, handle, 8);
    dropped(probe, &header, &[0; 8], handle)
}

pub(super) fn portal_of_get(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (mut header, handle) = probe.ping_header(SINK_MAX);
    if let Body::Get(get) = &mut header.body {
        get.ptl_index = PORTALS;
    }
    dropped(probe, &header, &[], handle)
}

pub(super) fn ack_unknown(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let handle = probe.handle();
    let ack = Ack {
        dst_wmd: handle,
        match_bits: 0,
        mlength: 0,
    };
    dropped(probe, &probe.header(0, Body::Ack(ack)), &[], handle)
}

pub(super) fn reply_unknown(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let handle = probe.handle();
    let header = probe.header(8, Body::Reply(Reply { dst_wmd: handle }));
    dropped(probe, &header, &[0; 8], handle)
}

/// Sends a message, and checks that the connection stays open and that `handle` gets no answer: the
/// next message answers the ping that follows.
pub(super) fn dropped(
    probe: &mut Probe<'_>,
    header: &Header,
    payload: &[u8],
    handle: Handle,
) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    link.send_message(KsockHeader::LNET, header, payload)?;
    let answer = probe.ping(&mut link, SINK_MAX)?;
    ensure(handle_of(&answer.header) != handle, || {
        "the node answered with a REPLY".to_owned()
    })
}

fn closes(link: &mut Link, bytes: &[u8]) -> Result<(), Stop> {
    link.send(bytes);
    link.closed().map(drop)
}

/// The handle that an answer to this message repeats.
pub(super) const fn handle_of(header: &Header) -> Handle {
    match header.body {
        Body::Ack(ack) => ack.dst_wmd,
        Body::Reply(reply) => reply.dst_wmd,
        Body::Put(put) => put.ack_wmd,
        Body::Get(get) => get.return_wmd,
    }
}

/// Offset of the message type in a frame; the payload length follows it.
const fn type_at(form: HeaderForm) -> usize {
    let in_header = match form {
        HeaderForm::Nid4 => 24,
        HeaderForm::Nid16 => 2 * Nid::WIRE_LEN + 8,
    };
    KsockHeader::LEN + in_header
}

/// The same bytes with one integer replaced.
pub(super) fn spoiled(mut bytes: Vec<u8>, at: usize, value: u32) -> Vec<u8> {
    set_u32(&mut bytes, at, value);
    bytes
}
