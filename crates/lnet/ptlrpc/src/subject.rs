//! What an RPC is about, in a few words: names, FIDs, objects, extents, locks.

use std::fmt::{self, Write as _};

use crate::body::Body;
use crate::layouts::{flag_names, names};
use crate::message::Message;
use crate::opcode::opc;
use crate::schema::intent_of;
use crate::text::{Fid, ObjectId, Text};
use crate::view::View;

/// The most extents of a request that are looked at.
const EXTENTS_MAX: usize = 4096;

/// The most extents that are printed.
const EXTENTS_SHOWN: usize = 4;

/// Describes a request, in one line without control characters; empty if there is nothing to say.
#[must_use]
pub fn subject(message: &Message<'_>) -> String {
    let mut text = String::new();
    let Some(body) = Body::of(message).filter(Body::is_request) else {
        return text;
    };
    // Writing to a string cannot fail.
    let _written = describe(&mut text, message, &body);
    text
}

fn describe(text: &mut String, message: &Message<'_>, body: &Body<'_>) -> fmt::Result {
    let name = |index| message.buffer(index).map(|view| Text::new(view.bytes()));
    match body.opc() {
        opc::OST_READ | opc::OST_WRITE => extents(text, message),
        opc::OST_CONNECT | opc::MDS_CONNECT | opc::MGS_CONNECT => put(text, "", name(1)),
        opc::LLOG_CREATE => put(text, "", name(2)),
        opc::MGS_CONFIG_READ => put(text, "", name(1)),
        opc::MDS_REINT => reint(text, message, 1),
        opc::MDS_CLOSE => close(text, message),
        opc::MDS_GETATTR_NAME | opc::MDS_GETXATTR => {
            fid(text, message.buffer(1), 0)?;
            put(text, " ", name(3))
        }
        // The info, quota and batch operations have something else there.
        7 | 17 | 19 | 46 | 48 | 53 | 63 => Ok(()),
        33..=64 => fid(text, message.buffer(1), 0),
        1..=23 => object(text, message.buffer(1), 8),
        opc::LDLM_ENQUEUE => enqueue(text, message, body),
        102..=106 => lock(text, message),
        opc::LLOG_NEXT_BLOCK | opc::LLOG_PREV_BLOCK => {
            let index = message.buffer(1).and_then(|view| view.u32(28));
            put(text, "from record ", index)
        }
        _ => Ok(()),
    }
}

fn put(text: &mut String, before: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(text, "{before}{value}"),
        None => Ok(()),
    }
}

fn fid(text: &mut String, view: Option<View<'_>>, at: usize) -> fmt::Result {
    let fid = view.and_then(|view| Fid::read(view, at));
    put(text, "", fid.filter(|fid| !fid.is_zero()))
}

fn object(text: &mut String, view: Option<View<'_>>, at: usize) -> fmt::Result {
    put(text, "", view.and_then(|view| ObjectId::read(view, at)))
}

/// Writes the object and the ranges of a read or a write; ranges that touch are one.
// [PTLRPC-15]
fn extents(text: &mut String, message: &Message<'_>) -> fmt::Result {
    object(text, message.buffer(2), 0)?;
    let Some(list) = message.buffer(3) else {
        return Ok(());
    };
    let mut merged: Vec<(u64, u64)> = Vec::new();
    let mut total = 0u64;
    for index in 0..(list.bytes().len() / 16).min(EXTENTS_MAX) {
        let start = list.u64(16 * index).unwrap_or_default();
        let len = u64::from(list.u32(16 * index + 8).unwrap_or_default());
        total = total.saturating_add(len);
        match merged.last_mut() {
            Some((from, held)) if from.checked_add(*held) == Some(start) => {
                *held = held.saturating_add(len)
            }
            _ => merged.push((start, len)),
        }
    }
    for (start, len) in merged.iter().take(EXTENTS_SHOWN) {
        write!(text, " [{start},+{len}]")?;
    }
    if merged.len() > EXTENTS_SHOWN {
        write!(text, " … {} extents, {total} bytes", merged.len())?;
    }
    Ok(())
}

/// Returns the bytes that a read or a write asks for.
#[must_use]
pub fn bytes_asked(message: &Message<'_>) -> u64 {
    let Some(body) = Body::of(message) else {
        return 0;
    };
    if !matches!(body.opc(), opc::OST_READ | opc::OST_WRITE) {
        return 0;
    }
    let Some(list) = message.buffer(3) else {
        return 0;
    };
    let count = (list.bytes().len() / 16).min(EXTENTS_MAX);
    let lengths = (0..count).filter_map(|index| list.u32(16 * index + 8));
    lengths.fold(0, |sum, len| sum.saturating_add(u64::from(len)))
}

fn reint(text: &mut String, message: &Message<'_>, at: usize) -> fmt::Result {
    let Some(record) = message.buffer(at) else {
        return Ok(());
    };
    let sub_op = record.u32(0).unwrap_or_default();
    let known = names::REINT.iter().find(|(known, _)| *known == sub_op);
    match known {
        Some((_, name)) => write!(text, "{name} ")?,
        None => write!(text, "operation {sub_op} ")?,
    }
    let parent = if sub_op == 3 { 56 } else { 40 };
    fid(text, Some(record), parent)?;
    let name = |index| {
        let view: Option<View<'_>> = message.buffer(at + index);
        view.map(|view| Text::new(view.bytes()))
    };
    match sub_op {
        2 => {
            put(text, "/", name(2))?;
            let is_link = record.u32(112).unwrap_or_default() & 0o170_000 == 0o120_000;
            put(text, " -> ", name(3).filter(|_| is_link))
        }
        4 | 7 => put(text, "/", name(2)),
        3 | 6 => put(text, "/", name(3)),
        5 | 9 => {
            put(text, "/", name(3))?;
            text.push_str(" to ");
            fid(text, Some(record), 56)?;
            put(text, "/", name(4))
        }
        _ => Ok(()),
    }
}

fn close(text: &mut String, message: &Message<'_>) -> fmt::Result {
    fid(text, message.buffer(2), 40)
}

fn enqueue(text: &mut String, message: &Message<'_>, body: &Body<'_>) -> fmt::Result {
    lock(text, message)?;
    let Some(intent) = intent_of(message, body) else {
        return Ok(());
    };
    for name in flag_names(names::INTENT, intent) {
        write!(text, " {name}")?;
    }
    let name = |index| {
        message
            .buffer(index)
            .map(|view: View<'_>| Text::new(view.bytes()))
    };
    match intent {
        1..=3 => {
            text.push(' ');
            fid(text, message.buffer(3), 40)?;
            // A create alone has one buffer less in front of its name.
            let place = if intent == 2 { 5 } else { 6 };
            put(text, "/", name(place).filter(|name| !name.is_empty()))
        }
        4 | 8 | 0x10 => put(text, " /", name(5).filter(|name| !name.is_empty())),
        _ => Ok(()),
    }
}

/// Writes type, mode and resource of the lock, and the extent of an extent lock.
fn lock(text: &mut String, message: &Message<'_>) -> fmt::Result {
    let Some(request) = message.buffer(1) else {
        return Ok(());
    };
    let Some(kind) = request.u32(8).filter(|kind| *kind != 0) else {
        let count = request.u32(4).unwrap_or_default();
        return match message.buffer(1).map(|view| view.bytes().len()) {
            Some(len) if len > 88 => write!(text, "{count} locks"),
            _ => Ok(()),
        };
    };
    let named = names::LOCK_TYPES.iter().find(|(known, _)| *known == kind);
    let kind_name = named.map_or("lock", |(_, name)| *name);
    let mode = u64::from(request.u32(48).unwrap_or_default());
    let mode = flag_names(names::MODES, mode).next().unwrap_or("-");
    write!(text, "{mode} {kind_name} ")?;
    resource(text, kind, request)?;
    if let (11, Some(start), Some(end)) = (kind, request.u64(56), request.u64(64)) {
        match end {
            u64::MAX => write!(text, " [{start},EOF]")?,
            end => write!(text, " [{start},{end}]")?,
        }
    }
    Ok(())
}

/// Writes the resource: a FID, an old object, or the name of a configuration.
// [PTLRPC-16]
fn resource(text: &mut String, kind: u32, request: View<'_>) -> fmt::Result {
    let word = |index: usize| request.u64(16 + 8 * index).unwrap_or_default();
    if kind == 10 {
        let name = word(0).to_le_bytes();
        return write!(text, "{}:{}", Text::new(&name), word(1));
    }
    match word(1) {
        0 => write!(text, "object {}", word(0)),
        second => {
            let fid = Fid {
                seq: word(0),
                oid: second as u32,
                ver: (second >> 32) as u32,
            };
            write!(text, "{fid}")
        }
    }
}
