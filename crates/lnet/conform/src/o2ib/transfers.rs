//! Payload that is written by RDMA.

use lnet_o2ib::{ConnId, Write};
use lnet_wire::o2ib::{Body, Descriptor, FRAGMENTS_MAX, Fragment, IMMEDIATE_MAX, MessageKind};
use lnet_wire::{Handle, LNET_PORTAL, PING_MATCH_BITS, PingInfo};
use sys::span::Span;

use super::messages::{UNUSED_PORTAL, message, set};
use super::probe::Probe;
use crate::probe::{Stop, ensure, equal};

/// More than an IMMEDIATE message has room for.
const LARGE: usize = 4016;
const _: () = assert!(LARGE > IMMEDIATE_MAX, "a transfer is due");

/// What memory of the checker has before it is written.
const UNTOUCHED: u8 = 0xEE;

/// A cookie of the checker, and one that no node has given out: nodes count, or use addresses.
const COOKIE: u64 = 0x5EED_0000_0000_0007;

/// Match bits that no entry of portal 0 has.
const OTHER_BITS: u64 = 0x7E57;

/// The most entries that any kernel accepts.
const ENTRIES_MAX: u32 = 4096;

pub(super) fn done(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let (memory, status) = get(probe, conn, PING_MATCH_BITS, &[(0, LARGE)])?;
    let length = written(status)?;
    let bytes = memory.to_vec();
    let (info, rest) = bytes.split_at(length.min(bytes.len()));
    valid(info)?;
    ensure(rest.iter().all(|byte| *byte == UNTOUCHED), || {
        format!("GET_DONE names {length} bytes, and more were written")
    })
}

pub(super) fn fragments(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    // With gaps, so that a write beyond a fragment shows.
    let fragments = [(0, 10), (16, 1), (32, 5), (64, 4000)];
    let (memory, status) = get(probe, conn, PING_MATCH_BITS, &fragments)?;
    let length = written(status)?;
    let bytes = memory.to_vec();
    let mut info = Vec::new();
    let mut gaps = vec![true; bytes.len()];
    for (start, len) in fragments {
        info.extend(bytes.iter().skip(start).take(len));
        gaps.iter_mut()
            .skip(start)
            .take(len)
            .for_each(|gap| *gap = false);
    }
    info.truncate(length);
    valid(&info)?;
    let spoiled = bytes
        .iter()
        .zip(&gaps)
        .position(|(byte, gap)| *gap && *byte != UNTOUCHED);
    ensure(spoiled.is_none(), || {
        format!(
            "byte {} was written, which is in no fragment",
            spoiled.unwrap_or_default()
        )
    })
}

pub(super) fn unmatched(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let (memory, status) = get(probe, conn, OTHER_BITS, &[(0, LARGE)])?;
    ensure(status < 0, || {
        format!("the status is {status}, not a negative errno")
    })?;
    let is_untouched = memory.to_vec().iter().all(|byte| *byte == UNTOUCHED);
    ensure(is_untouched, || {
        "memory was written for a GET that failed".to_owned()
    })?;
    probe.ping(conn).map(drop)
}

pub(super) fn put_nak(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let header = probe.put_header(UNUSED_PORTAL, Handle::NONE, LARGE as u32);
    probe.send(
        conn,
        Body::PutReq {
            header,
            cookie: COOKIE,
        },
    )?;
    match answer(probe, conn)? {
        Answered::Nak { cookie, .. } => equal("the cookie", &cookie, &COOKIE)?,
        Answered::Ack { .. } => {
            return Err(Stop::failed("a PUT that matches nothing gets a PUT_ACK"));
        }
    }
    probe.ping(conn).map(drop)
}

pub(super) fn put_ack(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let conn = probe.open()?;
    let handle = probe.handle();
    // A push that cannot be read is acknowledged, and changes nothing.
    let header = probe.put_header(LNET_PORTAL, handle, LARGE as u32);
    probe.send(
        conn,
        Body::PutReq {
            header,
            cookie: COOKIE,
        },
    )?;
    let (sink, descriptor) = match answer(probe, conn)? {
        Answered::Nak { status, .. } => {
            let why = format!("the node does not accept a push of {LARGE} bytes (status {status})");
            return Err(Stop::NotApplicable(why));
        }
        Answered::Ack {
            cookie,
            sink,
            descriptor,
        } => {
            equal("the source's cookie", &cookie, &COOKIE)?;
            (sink, descriptor)
        }
    };
    let room = descriptor.bytes();
    ensure((1..=LARGE as u64).contains(&room), || {
        format!("the descriptor of the PUT_ACK has {room} bytes")
    })?;
    let mapping = probe.source(conn, vec![0; LARGE])?;
    let mut offset = 0;
    let mut writes = Vec::new();
    for fragment in &descriptor.fragments {
        writes.push(Write {
            mapping,
            offset,
            length: fragment.length,
            address: fragment.address,
            rkey: descriptor.rkey,
        });
        // The fragments have at most the bytes of the payload together.
        offset += fragment.length;
    }
    probe.send_after(
        conn,
        &writes,
        Body::PutDone {
            cookie: sink,
            status: 0,
        },
    )?;
    loop {
        let heard = probe.next(conn)?;
        if let Body::Immediate { header, .. } = heard.message()?.body
            && let lnet_wire::Body::Ack(ack) = header.body
            && ack.dst_wmd == handle
        {
            return Ok(());
        }
    }
}

pub(super) fn answer_unknown(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let fragments = vec![Fragment {
        length: 4096,
        address: 4096,
    }];
    let descriptor = Descriptor { rkey: 1, fragments };
    let (cookie, status) = (COOKIE, 0);
    let answers = [
        Body::PutNak { cookie, status },
        Body::PutAck {
            source_cookie: cookie,
            sink_cookie: cookie,
            descriptor,
        },
        Body::PutDone { cookie, status },
        Body::GetDone { cookie, status },
    ];
    for answer in answers {
        let kind = answer.kind();
        let conn = probe.open()?;
        probe.send(conn, answer)?;
        probe
            .closes(conn)
            .map_err(|_| Stop::failed(format!("the node keeps the connection after a {kind:?}")))?;
    }
    Ok(())
}

pub(super) fn no_fragments(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_count(probe, 0)
}

pub(super) fn many_fragments(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes_after_count(probe, u32::from(FRAGMENTS_MAX) + 1)
}

/// Sends a GET_REQ whose descriptor states and has this number of fragments, and waits for the end of the connection.
fn closes_after_count(probe: &mut Probe<'_>, count: u32) -> Result<(), Stop> {
    /// The places of the length of a message, and of the number of fragments in a GET_REQ.
    const LENGTH_AT: usize = 8;
    const COUNT_AT: usize = 132;
    let conn = probe.open()?;
    let (_, rkey, address) = probe.sink(conn, &[UNTOUCHED; LARGE])?;
    let fragments = vec![Fragment {
        length: 16,
        address,
    }];
    let descriptor = Descriptor { rkey, fragments };
    let (header, _) = probe.header_of_get(PING_MATCH_BITS, LARGE as u32);
    let mut bytes = message(
        probe,
        conn,
        Body::GetReq {
            header,
            cookie: COOKIE,
            descriptor,
        },
    )?;
    let fragment = bytes.split_off(MessageKind::GetReq.least_len());
    for _ in 0..count {
        bytes.extend(&fragment);
    }
    let length = bytes.len() as u32;
    set(&mut bytes, LENGTH_AT, &length.to_le_bytes());
    set(&mut bytes, COUNT_AT, &count.to_le_bytes());
    probe.post(conn, &[], &bytes)?;
    probe.closes(conn)
}

/// Sends a GET to portal 0 with memory for the reply, and returns the memory and the status of GET_DONE. The fragments
/// are places and lengths in the memory.
fn get(
    probe: &mut Probe<'_>,
    conn: ConnId,
    match_bits: u64,
    fragments: &[(usize, usize)],
) -> Result<(Span, i32), Stop> {
    let end = fragments.iter().map(|(start, len)| start + len).max();
    let (memory, rkey, address) = probe.sink(conn, &vec![UNTOUCHED; end.unwrap_or_default()])?;
    let room: usize = fragments.iter().map(|(_, len)| len).sum();
    let fragment = |&(start, len): &(usize, usize)| Fragment {
        length: len as u32,
        address: address + start as u64,
    };
    let fragments = fragments.iter().map(fragment).collect();
    let descriptor = Descriptor { rkey, fragments };
    let (header, _) = probe.header_of_get(match_bits, room as u32);
    probe.send(
        conn,
        Body::GetReq {
            header,
            cookie: COOKIE,
            descriptor,
        },
    )?;
    loop {
        let heard = probe.next(conn)?;
        match heard.message()?.body {
            Body::GetDone { cookie, status } => {
                equal("the cookie", &cookie, &COOKIE)?;
                return Ok((memory, status));
            }
            Body::Immediate { header, .. } if matches!(header.body, lnet_wire::Body::Reply(_)) => {
                return Err(Stop::failed("the node answers a GET_REQ with a REPLY"));
            }
            _ => {}
        }
    }
}

/// The answer to a PUT_REQ.
enum Answered {
    Nak {
        cookie: u64,
        status: i32,
    },
    Ack {
        cookie: u64,
        sink: u64,
        descriptor: Descriptor,
    },
}

fn answer(probe: &mut Probe<'_>, conn: ConnId) -> Result<Answered, Stop> {
    loop {
        let heard = probe.next(conn)?;
        match heard.message()?.body {
            Body::PutNak { cookie, status } => return Ok(Answered::Nak { cookie, status }),
            Body::PutAck {
                source_cookie: cookie,
                sink_cookie: sink,
                descriptor,
            } => {
                return Ok(Answered::Ack {
                    cookie,
                    sink,
                    descriptor,
                });
            }
            _ => {}
        }
    }
}

/// The bytes that a status names.
fn written(status: i32) -> Result<usize, Stop> {
    match usize::try_from(status) {
        Ok(length @ 1..=LARGE) => Ok(length),
        _ => Err(Stop::failed(format!(
            "the status of GET_DONE is {status}, not the length of a reply"
        ))),
    }
}

/// Checks that the bytes are ping information.
fn valid(bytes: &[u8]) -> Result<(), Stop> {
    let info = PingInfo::parse(bytes)
        .map_err(|error| Stop::failed(format!("what was written: {error}")))?;
    let valid = info.validate(ENTRIES_MAX);
    valid.map_err(|error| Stop::failed(format!("what was written: {error}")))
}
