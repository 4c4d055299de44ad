//! Nodes with a defect, and the checks that must fail for each.

use std::cell::Cell;

use lnet_o2ib::Event;
use lnet_wire::o2ib::{MAGIC, VERSION, checksum, seal};

/// A defect of a node.
pub(crate) struct Defect {
    /// What the node does, after "a node that".
    pub(crate) name: &'static str,
    /// The checks that fail, in the order of the table.
    pub(crate) fails: &'static [&'static str],
    /// Changes a request on the way to the node.
    pub(crate) asked: fn(&mut Vec<u8>),
    /// Changes a message on the way to the node.
    pub(crate) sent: fn(&mut Vec<u8>),
    /// Changes or hides what comes from the node.
    pub(crate) told: fn(Event) -> Option<Event>,
}

/// Answers no ping.
pub(crate) const SILENT: Defect = Defect {
    name: "sends no IMMEDIATE",
    told: |event| unless(event, |bytes| bytes[KIND] == 0xD1),
    ..NONE
};

/// No defect.
pub(crate) const NONE: Defect = Defect {
    name: "has none",
    fails: &[],
    asked: |_| {},
    sent: |_| {},
    told: Some,
};

thread_local! {
    /// True until one message was spoiled.
    pub(crate) static SPOILS: Cell<bool> = const { Cell::new(false) };
    /// Credits that a node without patience takes by itself.
    static TAKEN: Cell<u8> = const { Cell::new(0) };
}

/// Spoils one message.
pub(crate) const ONCE: Defect = Defect {
    name: "spoils one message",
    told: |event| {
        heard(event, |bytes| {
            if SPOILS.replace(false) {
                flip(bytes, DEST_INCARNATION);
            }
        })
    },
    ..NONE
};

// Offsets in messages.
const KIND: usize = 6;
const CREDITS: usize = 7;
const LENGTH: usize = 8;
const CHECKSUM: usize = 12;
const SOURCE_INCARNATION: usize = 24;
const DEST_NID: usize = 32;
const DEST_INCARNATION: usize = 40;
const DEPTH: usize = 48;
const FRAGMENTS: usize = 50;
const SIZE: usize = 52;
const COOKIE: usize = 48;
const STATUS: usize = 56;
const COUNT: usize = 132;
// Offsets in rejections.
const REASON: usize = 6;
const REJECTION_INCARNATION: usize = 8;
const REJECTION_DEPTH: usize = 16;

/// The NID of the node on the wire: its address, below its network.
const NODE: [u8; 8] = [1, 0, 7, 10, 0, 0, 5, 0];
/// The incarnation of the node.
const INCARNATION: u8 = 77;

#[rustfmt::skip]
pub(crate) const DEFECTS: &[Defect] = &[
    Defect { name: "names another incarnation of the dialler", fails: &["connack-ends"],
        told: |event| accepted(event, |data| flip(data, DEST_INCARNATION)), ..NONE },
    Defect { name: "deepens a queue", fails: &["connack-parameters"],
        told: |event| accepted(event, |data| if data[DEPTH] == 2 { data[DEPTH] = 3 }), ..NONE },
    Defect { name: "has the incarnation 0", fails: &["connack-incarnation"],
        sent: |bytes| hide(bytes, DEST_INCARNATION, 0, INCARNATION),
        told: |event| {
            let event = accepted(event, |data| hide(data, SOURCE_INCARNATION, INCARNATION, 0))?;
            let event = rejected(event, |data| hide(data, REJECTION_INCARNATION, INCARNATION, 0))?;
            heard(event, |bytes| hide(bytes, SOURCE_INCARNATION, INCARNATION, 0))
        }, ..NONE },
    Defect { name: "does not know its own incarnation", fails: &["connreq-known", "connreq-stale"],
        asked: |data| if data[DEST_INCARNATION] != 0 { flip(data, DEST_NID) }, ..NONE },
    Defect { name: "ignores the incarnation in a request", fails: &["connreq-stale"],
        asked: |data| put(data, DEST_INCARNATION, &[0; 8]), ..NONE },
    Defect { name: "ignores the magic number of a request", fails: &["connreq-junk"],
        asked: |data| put(data, 0, &MAGIC.to_le_bytes()), ..NONE },
    Defect { name: "ignores the version of a request", fails: &["connreq-version"],
        asked: |data| put(data, 4, &VERSION.to_le_bytes()), ..NONE },
    Defect { name: "takes requests for other nodes", fails: &["connreq-other-nid", "connreq-order"],
        asked: |data| put(data, DEST_NID, &NODE), ..NONE },
    Defect { name: "takes a CONNACK for a request", fails: &["connreq-type"],
        asked: |data| data[KIND] = 0xC0, ..NONE },
    Defect { name: "accepts every queue depth", fails: &["connreq-depth", "rejection-fields", "rejection-offer"],
        asked: |data| if data[DEPTH + 1] != 0 { put(data, DEPTH, &[8, 0]) }, ..NONE },
    Defect { name: "accepts every number of fragments", fails: &["connreq-fragments"],
        asked: |data| if data[FRAGMENTS..FRAGMENTS + 2] == [2, 1] { data[FRAGMENTS] = 1 }, ..NONE },
    Defect { name: "accepts every message size", fails: &["connreq-size"],
        asked: |data| data[SIZE] = 0, ..NONE },
    Defect { name: "checks the queue depth first", fails: &["connreq-order"],
        asked: |data| if data[DEPTH + 1] != 0 { put(data, DEST_NID, &NODE) }, ..NONE },
    Defect { name: "rejects without its incarnation", fails: &["connreq-stale", "rejection-fields"],
        told: |event| rejected(event, |data| put(data, REJECTION_INCARNATION, &[0; 8])), ..NONE },
    Defect { name: "rejects in an old version", fails: &["connreq-version", "rejection-fields"],
        told: |event| rejected(event, |data| data[4] = 0x11), ..NONE },
    Defect { name: "offers more than it accepts", fails: &["rejection-offer"],
        told: |event| rejected(event, |data| if data[REASON] == 7 { data[REJECTION_DEPTH] = 200 }), ..NONE },
    Defect { name: "offers no queue", fails: &["connreq-depth", "rejection-offer"],
        told: |event| rejected(event, |data| data[REJECTION_DEPTH] = 0), ..NONE },
    Defect { name: "calls everything FATAL that is stale", fails: &["connreq-stale", "peer-restart"],
        told: |event| rejected(event, |data| if data[REASON] == 5 { data[REASON] = 3 }), ..NONE },

    Defect { name: "names another incarnation in its messages", fails: &["message-ends"],
        told: |event| heard(event, |bytes| flip(bytes, DEST_INCARNATION)), ..NONE },
    Defect { name: "computes another checksum", fails: &["message-checksum"],
        sent: |bytes| if is_sealed(bytes) { flip(bytes, CHECKSUM) }, ..NONE },
    Defect { name: "closes at a NOOP", fails: &["noop-free", "credits-limit"],
        sent: |bytes| if bytes[KIND] == 0xD0 { put(bytes, 0, &[0; 4]) }, ..NONE },
    Defect { name: "gives no credits back", fails: &["noop-free", "credits-return", "credits-noop", "credits-limit"],
        told: |event| heard(event, |bytes| bytes[CREDITS] = 0), ..NONE },
    Defect { name: "gives credits back twice", fails: &["credits-return"],
        told: |event| heard(event, |bytes| bytes[CREDITS] *= 2), ..NONE },
    Defect { name: "sends no NOOP", fails: &["credits-noop", "credits-limit"],
        told: |event| unless(event, |bytes| bytes[KIND] == 0xD0), ..NONE },
    Defect { name: "does not wait for credits", fails: &["credits-limit"],
        sent: |bytes| {
            let own = TAKEN.replace(0);
            if bytes[CREDITS] == 0 && !is_sealed(bytes) { bytes[CREDITS] = own }
        },
        told: |event| {
            if matches!(event, Event::Established(..)) { TAKEN.set(0) }
            heard(event, |bytes| if bytes[KIND] == 0xD1 { TAKEN.set(TAKEN.get() + 1) })
        }, ..NONE },
    Defect { name: "ignores too many credits", fails: &["credits-overrun"],
        sent: |bytes| if bytes[CREDITS] == u8::MAX { bytes[CREDITS] = 0 }, ..NONE },
    Defect { name: "ignores the magic number of a message", fails: &["message-magic"],
        sent: |bytes| put(bytes, 0, &MAGIC.to_le_bytes()), ..NONE },
    Defect { name: "ignores the version of a message", fails: &["message-version"],
        sent: |bytes| put(bytes, 4, &VERSION.to_le_bytes()), ..NONE },
    Defect { name: "skips messages of undefined types", fails: &["message-undefined"],
        sent: |bytes| if bytes[KIND] == 0xDF { bytes[KIND] = 0xD0 }, ..NONE },
    Defect { name: "skips a CONNREQ on a connection", fails: &["message-connreq"],
        sent: |bytes| if bytes[KIND] == 0xC0 { bytes[KIND] = 0xD0 }, ..NONE },
    Defect { name: "takes the length from the device", fails: &["message-cut", "message-short"],
        sent: |bytes| { let len = bytes.len() as u32; put(bytes, LENGTH, &len.to_le_bytes()) }, ..NONE },
    Defect { name: "ignores a wrong checksum", fails: &["message-bad-checksum"],
        sent: |bytes| if !is_sealed(bytes) { put(bytes, CHECKSUM, &[0; 4]) }, ..NONE },
    Defect { name: "ignores the destination of a message", fails: &["message-destination"],
        sent: |bytes| put(bytes, DEST_NID, &NODE), ..NONE },
    Defect { name: "keeps every connection",
        fails: &["peer-restart", "credits-overrun", "message-magic", "message-version", "message-undefined",
            "message-connreq", "message-cut", "message-short", "message-bad-checksum", "message-source",
            "message-destination", "message-sender", "message-receiver", "answer-unknown", "descriptor-empty",
            "descriptor-258"],
        told: |event| Some(event).filter(|event| !matches!(event, Event::Disconnected(_))), ..NONE },

    Defect { name: "does not say how long a reply is", fails: &["get-done", "get-fragments"],
        told: |event| heard(event, |bytes| if bytes[KIND] == 0xD7 && bytes[STATUS + 3] == 0 { bytes[STATUS] = 0 }), ..NONE },
    Defect { name: "writes the fragments as one", fails: &["get-fragments"],
        sent: |bytes| join_fragments(bytes), ..NONE },
    Defect { name: "knows no failure of a GET", fails: &["get-unmatched"],
        told: |event| heard(event, |bytes| if bytes[KIND] == 0xD7 && bytes[STATUS + 3] != 0 { put(bytes, STATUS, &[0; 4]) }), ..NONE },
    Defect { name: "takes a descriptor without fragments", fails: &["descriptor-empty"],
        sent: |bytes| if bytes[KIND] == 0xD6 && bytes[COUNT] == 0 { bytes.truncate(120); bytes[KIND] = 0xD1; bytes[LENGTH] = 120 }, ..NONE },
    Defect { name: "takes 258 fragments", fails: &["descriptor-258"],
        sent: |bytes| if bytes[KIND] == 0xD6 && bytes[COUNT..COUNT + 2] == [2, 1] { bytes[COUNT] = 1 }, ..NONE },
    Defect { name: "names another cookie in a PUT_NAK", fails: &["put-nak"],
        told: |event| heard(event, |bytes| if bytes[KIND] == 0xD3 { flip(bytes, COOKIE) }), ..NONE },
    Defect { name: "names another cookie in a PUT_ACK", fails: &["put-ack"],
        told: |event| heard(event, |bytes| if bytes[KIND] == 0xD4 { flip(bytes, COOKIE) }), ..NONE },
];

/// Changes the private data of a connection that the node accepts.
fn accepted(event: Event, change: impl FnOnce(&mut Vec<u8>)) -> Option<Event> {
    Some(match event {
        Event::Established(conn, mut data) => {
            change(&mut data);
            Event::Established(conn, data)
        }
        other => other,
    })
}

/// Changes a rejection.
fn rejected(event: Event, change: impl FnOnce(&mut Vec<u8>)) -> Option<Event> {
    Some(match event {
        Event::Failed(conn, failure, mut data) if !data.is_empty() => {
            change(&mut data);
            Event::Failed(conn, failure, data)
        }
        other => other,
    })
}

/// Changes a message of the node.
fn heard(event: Event, change: impl FnOnce(&mut Vec<u8>)) -> Option<Event> {
    Some(match event {
        Event::Received(conn, buffer, mut bytes) => {
            change(&mut bytes);
            Event::Received(conn, buffer, bytes)
        }
        other => other,
    })
}

/// Hides messages of the node.
fn unless(event: Event, is_hidden: impl FnOnce(&[u8]) -> bool) -> Option<Event> {
    match &event {
        Event::Received(_, _, bytes) if is_hidden(bytes) => None,
        _ => Some(event),
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn flip(bytes: &mut [u8], at: usize) {
    bytes[at] = !bytes[at];
}

/// Replaces the number of eight bytes, if it is this one. A checksum stays right.
fn hide(bytes: &mut [u8], at: usize, number: u8, shown: u8) {
    let is_sealed = is_sealed(bytes);
    if bytes[at..at + 8] == u64::from(number).to_le_bytes() {
        put(bytes, at, &u64::from(shown).to_le_bytes());
    }
    if is_sealed {
        seal(bytes);
    }
}

/// Returns true if the bytes are a message with a right checksum.
fn is_sealed(bytes: &[u8]) -> bool {
    let sum = bytes[CHECKSUM..CHECKSUM + 4]
        .try_into()
        .map(u32::from_le_bytes)
        .unwrap();
    let mut plain = bytes.to_vec();
    put(&mut plain, CHECKSUM, &[0; 4]);
    sum != 0 && checksum(&plain) == sum
}

/// Puts the fragments of a GET_REQ one behind the other.
fn join_fragments(bytes: &mut [u8]) {
    const FIRST: usize = 136;
    if bytes[KIND] != 0xD6 {
        return;
    }
    let count = u32::from_le_bytes(bytes[COUNT..COUNT + 4].try_into().unwrap()) as usize;
    let mut next = None;
    for fragment in bytes[FIRST..].chunks_exact_mut(12).take(count) {
        let length = u32::from_le_bytes(fragment[..4].try_into().unwrap());
        let address = u64::from_le_bytes(fragment[4..].try_into().unwrap());
        let joined = next.unwrap_or(address);
        fragment[4..].copy_from_slice(&joined.to_le_bytes());
        next = Some(joined.wrapping_add(length.into()));
    }
}
