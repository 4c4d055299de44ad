//! Messages that were made to confuse: RPCs that share their bits, names that are like others, subjects of other bytes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_ptlrpc::{By, End, Message, Pairer, Rpc, Seen, Summary, subject};
use lnet_types::{Nid, Time};
use lnet_wire::{Body, Handle, Header, Put};

use crate::common::{body, message};

const CLIENT: &str = "10.0.0.1@tcp";
const SERVER: &str = "10.0.1.1@tcp1";

#[derive(Default)]
struct World {
    pairer: Pairer,
    ended: Vec<Rpc>,
    now: u64,
}

impl World {
    /// Shows a PUT at a place, a microsecond after the last.
    fn see(&mut self, place: u64, ends: (&str, &str), put: Body, payload: &[u8]) {
        self.now += 1000;
        let nid = |text: &str| text.parse::<Nid>().expect("a NID");
        let header = Header {
            dest_nid: nid(ends.1),
            src_nid: nid(ends.0),
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: payload.len() as u32,
            body: put,
        };
        let seen = Seen {
            time: Time::from_nanos(self.now),
            place,
            header: &header,
            head: payload,
        };
        let ended = &mut self.ended;
        self.pairer.take(&seen, &mut |rpc| ended.push(rpc));
    }

    fn finish(&mut self) {
        let ended = &mut self.ended;
        self.pairer.finish(&mut |rpc| ended.push(rpc));
    }
}

fn put(portal: u32, match_bits: u64) -> Body {
    Body::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits,
        hdr_data: 0,
        ptl_index: portal,
        offset: 0,
    })
}

/// A message of this type with a handle, and these buffers behind its body.
fn with_handle(kind: u32, opc: u32, handle: u64, more: &[&[u8]]) -> Vec<u8> {
    let mut head = body(kind, opc);
    head[..8].copy_from_slice(&handle.to_le_bytes());
    let buffers = [&[&head[..]], more].concat();
    message(0, &buffers)
}

#[test]
fn rpcs_under_the_same_bits_are_limited_and_the_oldest_forgotten() {
    let mut head = body(4711, 4);
    head[120..128].copy_from_slice(&64u64.to_le_bytes());
    let write = message(0, &[&head]);
    let mut world = World::default();
    for number in 1..=2000 {
        world.see(0, (CLIENT, SERVER), put(6, 128 * number), &write);
    }
    assert_eq!(world.pairer.outstanding(), 256);
    assert_eq!(world.pairer.tally.forgotten, 2000 - 256);
    let forgotten = |rpc: &Rpc| rpc.end == End::Forgotten && rpc.xid <= 128 * (2000 - 256);
    assert!(world.ended.iter().all(forgotten));
    world.finish();
    assert_eq!(world.ended.len(), 2000);
}

#[test]
fn early_reply_on_both_sides_of_a_router_is_one() {
    let mut world = World::default();
    let mut ask = message(0, &[&body(4711, 4)]);
    ask[20] = 1;
    let early = message(0, &[&body(4713, 4)]);
    (0..2).for_each(|place| world.see(place, (CLIENT, SERVER), put(6, 640), &ask));
    for place in [1, 0, 1, 0] {
        world.see(place, (SERVER, CLIENT), put(4, 640), &early);
    }
    assert_eq!(world.pairer.tally.early, 2);
    world.finish();
    assert_eq!(world.ended[0].early, 2);
}

/// Shows a connect to a target, its reply with a handle, and a ping with it. Returns both.
fn connected(uuid: &str, handle: u64) -> Vec<Rpc> {
    let mut world = World::default();
    let connect = with_handle(4711, 8, 0, &[uuid.as_bytes()]);
    world.see(0, (CLIENT, SERVER), put(28, 640), &connect);
    let accepted = with_handle(4713, 8, handle, &[]);
    world.see(0, (SERVER, CLIENT), put(4, 640), &accepted);
    let ping = with_handle(4711, 400, handle, &[]);
    world.see(0, (CLIENT, SERVER), put(28, 768), &ping);
    world.finish();
    world.ended
}

#[test]
fn handle_of_nothing_names_no_target() {
    let targets = |handle| connected("fs1-OST0000_UUID", handle)[1].target.clone();
    assert_eq!(targets(7).as_deref(), Some("fs1-OST0000"));
    assert_eq!(targets(0), None);
}

#[test]
fn no_target_takes_the_name_of_another_row() {
    for uuid in ["other_UUID", "OST@10.0.1.1@tcp1_UUID"] {
        let mut table = Summary::new(&[By::Target]);
        connected(uuid, 7).iter().for_each(|rpc| table.add(rpc));
        // A server of the name that the target claims.
        connected("", 7).iter().for_each(|rpc| {
            table.add(&Rpc {
                target: None,
                ..rpc.clone()
            });
        });
        let rows = table.rows();
        let mut names: Vec<&str> = rows.iter().map(|(names, _)| names[0].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len(), "{names:?}");
    }
}

#[test]
fn requests_without_a_fid_have_no_subject() {
    for opc in [7, 17, 19, 46, 48, 53, 63] {
        let bytes = message(0, &[&body(4711, opc), &[b'x'; 200]]);
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(subject(&message), "", "opcode {opc}");
    }
}

/// A create alone has its name one buffer before that of an open.
#[test]
fn create_by_an_intent_has_its_name() {
    for (intent, more) in [(2u64, 0), (3, 1)] {
        let mut lock = [0; 104];
        lock[4] = 1;
        lock[8..12].copy_from_slice(&13u32.to_le_bytes());
        let mut head = body(4711, 101);
        head[12..16].copy_from_slice(&3u32.to_le_bytes());
        lock[0..4].copy_from_slice(&0x1000u32.to_le_bytes());
        let (intent, record) = (intent.to_le_bytes(), [0; 136]);
        let mut buffers: Vec<&[u8]> = vec![&head, &lock, &intent, &record, b""];
        (0..more).for_each(|_| buffers.push(b""));
        buffers.push(b"file\0");
        let bytes = message(0, &buffers);
        let message = Message::parse(&bytes).expect("a message");
        let text = subject(&message);
        assert!(text.ends_with("/file"), "{text}");
    }
}

#[test]
fn silence_of_an_encrypted_rpc_names_no_time() {
    let mut world = World::default();
    let private = message(0x3_0312, &[&[0; 36], &[1; 300]]);
    world.see(0, (CLIENT, SERVER), put(28, 640), &private);
    world.now += 2_000_000_000_000;
    let ping = message(0, &[&body(4711, 400)]);
    world.see(0, (CLIENT, SERVER), put(28, 768), &ping);
    let found = &world.pairer.tally.findings()[0].seen;
    assert!(
        found.contains("no reply") && !found.contains("within"),
        "{found}"
    );
}
