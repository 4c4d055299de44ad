//! Messages on an established connection: their fields, credits, and what closes a connection.

use std::time::Duration;

use lnet_o2ib::ConnId;
use lnet_wire::o2ib::{Body, Envelope, Message, MessageKind, seal};
use lnet_wire::{Handle, PING_MATCH_BITS};

use super::probe::{Probe, encode};
use crate::probe::{SINK_MAX, Stop, ensure, equal};

/// A portal that has no entry on a node without a file system.
pub(super) const UNUSED_PORTAL: u32 = 63;

/// How long a node that may not send must be silent.
const QUIET: Duration = Duration::from_millis(500);

/// Offsets of fields in a message.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 4;
const KIND_AT: usize = 6;
const LENGTH_AT: usize = 8;
const CHECKSUM_AT: usize = 12;

pub(super) fn ends(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (conn, _) = probe.connect()?;
    probe.send_ping(conn)?;
    let heard = probe.next(conn)?;
    let found = heard.message()?.envelope;
    let known = probe.link(conn)?.incarnation;
    let ours = probe.envelope(known);
    let due = Envelope {
        credits: found.credits,
        source: ours.destination,
        source_incarnation: ours.destination_incarnation,
        destination: ours.source,
        destination_incarnation: ours.source_incarnation,
    };
    equal("the envelope", &found, &due)
}

pub(super) fn checksum(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let (mut bytes, handle) = ping(probe, conn)?;
    seal(&mut bytes);
    probe.link(conn)?.credits -= 1;
    probe.post(conn, &[], &bytes)?;
    probe.reply(conn, handle).map(drop)
}

pub(super) fn noop(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    // More than the credits of the connection, one after the other.
    for _ in 0..=probe.link(conn)?.depth {
        probe.send(conn, Body::Noop)?;
        probe.ping(conn)?;
    }
    Ok(())
}

pub(super) fn credits_return(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let depth = probe.link(conn)?.depth;
    for _ in 0..3 * depth {
        probe.ping(conn)?;
    }
    // Each ping took one credit, so there cannot be more than in the beginning.
    let credits = probe.link(conn)?.credits;
    ensure(credits <= depth, || {
        format!("there are {credits} credits now, and {depth} were agreed")
    })
}

pub(super) fn credits_by_noop(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let depth = probe.link(conn)?.depth;
    for _ in 0..depth {
        let header = probe.put_header(UNUSED_PORTAL, Handle::NONE, 0);
        probe.send(
            conn,
            Body::Immediate {
                header,
                payload: &[],
            },
        )?;
    }
    // The high-water mark is below the depth.
    loop {
        let heard = probe.next(conn)?;
        let message = heard.message()?;
        if message.body.kind() == MessageKind::Noop && message.envelope.credits > 0 {
            return Ok(());
        }
    }
}

pub(super) fn credits_limit(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let depth = probe.link(conn)?.depth;
    probe.link(conn)?.withholds = true;
    let mut handles = Vec::new();
    for _ in 0..2 * depth {
        handles.push(probe.send_ping(conn)?);
    }
    probe.pass(QUIET.min(probe.timeout() / 4))?;
    let link = probe.link(conn)?;
    let (taken, most) = (link.taken, depth + link.returned);
    ensure(taken <= most, || {
        format!("the node used {taken} credits, and had {most}")
    })?;
    probe.link(conn)?.withholds = false;
    probe.send(conn, Body::Noop)?;
    let mut replies = 0;
    while replies < handles.len() {
        let heard = probe.next(conn)?;
        if let Body::Immediate { header, .. } = heard.message()?.body
            && let lnet_wire::Body::Reply(reply) = header.body
            && handles.contains(&reply.dst_wmd)
        {
            replies += 1;
        }
    }
    Ok(())
}

pub(super) fn credits_overrun(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_envelope(probe, |envelope| envelope.credits = u8::MAX)
}

pub(super) fn magic(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| flip(bytes, MAGIC_AT))
}

pub(super) fn version(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| flip(bytes, VERSION_AT))
}

pub(super) fn undefined(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| set(bytes, KIND_AT, &[0xDF]))
}

pub(super) fn connreq(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let parameters = probe.node.parameters;
    probe.send(conn, Body::Connreq(parameters))?;
    probe.closes(conn)
}

pub(super) fn cut(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| {
        let more = bytes.len() as u32 + 1;
        set(bytes, LENGTH_AT, &more.to_le_bytes());
    })
}

pub(super) fn short(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| {
        let less = bytes.len() as u32 - 1;
        set(bytes, LENGTH_AT, &less.to_le_bytes());
    })
}

pub(super) fn bad_checksum(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after(probe, |bytes| {
        seal(bytes);
        flip(bytes, CHECKSUM_AT);
    })
}

pub(super) fn source(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_envelope(probe, |envelope| envelope.source = envelope.destination)
}

pub(super) fn destination(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_envelope(probe, |envelope| envelope.destination = envelope.source)
}

pub(super) fn source_incarnation(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_envelope(probe, |envelope| envelope.source_incarnation += 1)
}

pub(super) fn destination_incarnation(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_envelope(probe, |envelope| envelope.destination_incarnation ^= 1)
}

/// Sends a ping with a spoiled envelope, and waits for the end of the connection.
fn closes_after_envelope(probe: &mut Probe<'_>, spoil: fn(&mut Envelope)) -> Result<(), Stop> {
    let conn = probe.open()?;
    let known = probe.link(conn)?.incarnation;
    let mut envelope = probe.envelope(known);
    spoil(&mut envelope);
    let (header, _) = probe.header_of_get(PING_MATCH_BITS, SINK_MAX);
    let body = Body::Immediate {
        header,
        payload: &[],
    };
    let bytes = encode(&Message { envelope, body })?;
    probe.post(conn, &[], &bytes)?;
    probe.closes(conn)
}

/// Sends a ping with spoiled bytes, and waits for the end of the connection.
fn closes_after(probe: &mut Probe<'_>, spoil: fn(&mut [u8])) -> Result<(), Stop> {
    let conn = probe.open()?;
    let (mut bytes, _) = ping(probe, conn)?;
    spoil(&mut bytes);
    probe.post(conn, &[], &bytes)?;
    probe.closes(conn)
}

/// The bytes of a good ping, and the handle of its reply.
fn ping(probe: &mut Probe<'_>, conn: ConnId) -> Result<(Vec<u8>, Handle), Stop> {
    let (header, handle) = probe.header_of_get(PING_MATCH_BITS, SINK_MAX);
    let payload = &[];
    let bytes = message(probe, conn, Body::Immediate { header, payload })?;
    Ok((bytes, handle))
}

/// The bytes of a good message.
pub(super) fn message(
    probe: &mut Probe<'_>,
    conn: ConnId,
    body: Body<'_>,
) -> Result<Vec<u8>, Stop> {
    let known = probe.link(conn)?.incarnation;
    let envelope = probe.envelope(known);
    encode(&Message { envelope, body })
}

fn flip(bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = !*byte;
    }
}

pub(super) fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}
