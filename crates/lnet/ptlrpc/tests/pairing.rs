//! Requests, replies and bulk that come late, twice, from elsewhere, or not at all.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::time::Duration;

use lnet_ptlrpc::{End, FindingKind, OPEN_MAX, Pairer, RESEND_WAIT, Role, Rpc, Seen};
use lnet_types::{Nid, Time};
use lnet_wire::{Body, Get, Handle, Header, Put, Reply};

use crate::common::{body, message};

const CLIENT: &str = "10.0.0.1@tcp";
const OTHER_CLIENT: &str = "10.0.0.2@tcp";
const SERVER: &str = "10.0.1.1@tcp1";
const OTHER_SERVER: &str = "10.0.1.2@tcp1";

#[derive(Default)]
struct World {
    pairer: Pairer,
    ended: Vec<Rpc>,
    now: u64,
}

impl World {
    /// Shows a message at a place, a millisecond after the last.
    fn see(&mut self, place: u64, from: &str, to: &str, body: Body, payload: &[u8]) -> Role {
        self.now += 1;
        self.see_at(self.now, place, (from, to), body, payload)
    }

    fn see_at(
        &mut self,
        ms: u64,
        place: u64,
        ends: (&str, &str),
        body: Body,
        payload: &[u8],
    ) -> Role {
        self.now = ms;
        let nid = |text: &str| text.parse::<Nid>().expect("a NID");
        let header = Header {
            dest_nid: nid(ends.1),
            src_nid: nid(ends.0),
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: payload.len() as u32,
            body,
        };
        let seen = Seen {
            time: Time::from_nanos(ms * 1_000_000),
            place,
            header: &header,
            head: payload,
        };
        let ended = &mut self.ended;
        self.pairer.take(&seen, &mut |rpc| ended.push(rpc))
    }

    fn finish(&mut self) {
        let ended = &mut self.ended;
        self.pairer.finish(&mut |rpc| ended.push(rpc));
    }

    /// Lets time pass without a message.
    fn wait_until(&mut self, ms: u64) {
        self.now = ms;
        let ended = &mut self.ended;
        self.pairer
            .tick(Time::from_nanos(ms * 1_000_000), &mut |rpc| ended.push(rpc));
    }

    fn ends(&self) -> Vec<(u64, End)> {
        self.ended.iter().map(|rpc| (rpc.xid, rpc.end)).collect()
    }

    fn count(&self, kind: FindingKind) -> u64 {
        self.pairer.tally.count_of(kind)
    }
}

fn put(portal: u32, match_bits: u64, offset: u32) -> Body {
    Body::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits,
        hdr_data: 0,
        ptl_index: portal,
        offset,
    })
}

/// A request; `at` says that the requester takes early replies.
fn request(opc: u32, flags: u32, at: bool) -> Vec<u8> {
    let mut head = body(4711, opc);
    head[56..60].copy_from_slice(&flags.to_le_bytes());
    head[152..156].copy_from_slice(b"dd.0");
    let mut bytes = message(0, &[&head]);
    bytes[20] = u8::from(at);
    bytes
}

/// A write with one part of bulk that says its match bits.
fn write(flags: u32, mbits: u64) -> Vec<u8> {
    let mut bytes = request(4, flags, true);
    bytes[40 + 120..40 + 128].copy_from_slice(&mbits.to_le_bytes());
    bytes
}

fn early(opc: u32, timeout: u32) -> Vec<u8> {
    let mut bytes = reply(opc, 0);
    bytes[40 + 68..40 + 72].copy_from_slice(&timeout.to_le_bytes());
    bytes
}

/// The milliseconds from a request until it counts as unanswered.
fn patience(seconds: u64) -> u64 {
    seconds * 1000 + RESEND_WAIT.as_millis() as u64
}

fn get(match_bits: u64, object: u64) -> Body {
    Body::Get(Get {
        return_wmd: Handle {
            interface: 9,
            object,
        },
        match_bits,
        ptl_index: 8,
        src_offset: 0,
        sink_length: 4096,
    })
}

fn reply(opc: u32, status: i32) -> Vec<u8> {
    let mut head = body(4713, opc);
    head[20..24].copy_from_slice(&status.to_le_bytes());
    message(0, &[&head])
}

#[test]
fn request_and_reply_are_one_rpc() {
    let mut world = World::default();
    assert_eq!(
        world.see(0, CLIENT, SERVER, put(28, 640, 0), &request(400, 0, true)),
        Role::Request(None)
    );
    assert_eq!(
        world.see(1, SERVER, CLIENT, put(4, 640, 224), &reply(400, -19)),
        Role::Reply(None)
    );
    let [rpc] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!(
        (rpc.end, rpc.status, rpc.opc),
        (End::Answered, Some(-19), Some(400))
    );
    assert_eq!(
        (&*rpc.job, rpc.took()),
        ("dd.0", Some(Duration::from_millis(1)))
    );
    assert_eq!(world.count(FindingKind::Failed), 1);
    assert_eq!(world.pairer.outstanding(), 0);
}

// [PTLRPC-6]
#[test]
fn clients_with_the_same_xid_keep_their_own_replies() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(28, 640, 0), &request(400, 0, false));
    world.see(
        2,
        OTHER_CLIENT,
        SERVER,
        put(28, 640, 0),
        &request(13, 0, false),
    );
    world.see(3, SERVER, OTHER_CLIENT, put(4, 640, 0), &reply(13, 0));
    world.see(1, SERVER, CLIENT, put(4, 640, 0), &reply(400, 0));
    let opcodes: Vec<_> = world
        .ended
        .iter()
        .map(|rpc| (rpc.client.to_string(), rpc.opc))
        .collect();
    assert_eq!(
        opcodes,
        [
            (OTHER_CLIENT.to_owned(), Some(13)),
            (CLIENT.to_owned(), Some(400))
        ]
    );
}

#[test]
fn reply_from_another_nid_of_the_server_is_found() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(28, 640, 0), &request(400, 0, false));
    world.see(1, OTHER_SERVER, CLIENT, put(4, 640, 0), &reply(400, 0));
    assert_eq!(world.ended.len(), 1);
    // A reply to another client's request of the same number is none.
    world.see(0, CLIENT, SERVER, put(28, 768, 0), &request(400, 0, false));
    world.see(
        1,
        OTHER_SERVER,
        OTHER_CLIENT,
        put(4, 768, 0),
        &reply(400, 0),
    );
    assert_eq!(world.ended.len(), 1);
    assert_eq!(world.pairer.tally.orphan_replies, 1);
}

#[test]
fn both_sides_of_a_router_are_one_rpc_with_the_time_beyond() {
    let mut world = World::default();
    let ask = request(400, 0, false);
    world.see_at(1000, 0, (CLIENT, SERVER), put(28, 640, 0), &ask);
    world.see_at(1010, 2, (CLIENT, SERVER), put(28, 640, 0), &ask);
    world.see_at(1040, 3, (SERVER, CLIENT), put(4, 640, 0), &reply(400, 0));
    assert!(
        world.ended.is_empty(),
        "the router has not sent the reply on"
    );
    world.see_at(1050, 1, (SERVER, CLIENT), put(4, 640, 0), &reply(400, 0));
    let [rpc] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!(rpc.took(), Some(Duration::from_millis(50)));
    assert_eq!(
        (rpc.beyond, rpc.resends),
        (Some(Duration::from_millis(30)), 0)
    );
}

// [PTLRPC-7]
#[test]
fn early_reply_gives_more_time_and_is_not_the_end() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(6, 640, 0), &request(4, 0, true));
    let early = early(4, 120);
    assert_eq!(
        world.see(1, SERVER, CLIENT, put(4, 640, 0), &early),
        Role::Early
    );
    world.see_at(60_000, 1, (SERVER, CLIENT), put(4, 640, 224), &reply(4, 0));
    assert_eq!(
        (world.ended.len(), world.count(FindingKind::NoReply)),
        (1, 0)
    );
    assert_eq!(
        (world.ended[0].early, world.count(FindingKind::Early)),
        (1, 1)
    );
}

#[test]
fn request_that_is_sent_again_is_a_resend() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(28, 640, 0), &request(400, 0, false));
    world.see(0, CLIENT, SERVER, put(28, 640, 0), &request(400, 2, false));
    world.see(1, SERVER, CLIENT, put(4, 640, 0), &reply(400, 0));
    assert_eq!((world.ended.len(), world.ended[0].resends), (1, 1));
    assert_eq!(world.count(FindingKind::Resent), 1);
    // The server answers both.
    world.see(1, SERVER, CLIENT, put(4, 640, 0), &reply(400, 0));
    assert_eq!(
        (
            world.pairer.tally.repeated_replies,
            world.pairer.tally.orphan_replies
        ),
        (1, 0)
    );
}

// [PTLRPC-25]
#[test]
fn resend_with_new_match_bits_keeps_its_bulk_and_its_reply() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(6, 640, 0), &write(0, 640));
    world.see(1, SERVER, CLIENT, get(640, 1), &[]);
    world.see(0, CLIENT, SERVER, put(6, 640, 0), &write(2, 1280));
    world.see(1, SERVER, CLIENT, get(1280, 2), &[]);
    for object in [1, 2] {
        let dst_wmd = Handle {
            interface: 9,
            object,
        };
        let reply = Body::Reply(Reply { dst_wmd });
        world.see(0, CLIENT, SERVER, reply, &[0; 4096]);
    }
    world.see(1, SERVER, CLIENT, put(4, 1280, 224), &reply(4, 0));
    let [rpc] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!((rpc.end, rpc.resends), (End::Answered, 1));
    assert_eq!((rpc.bulk, rpc.bulk_parts), (4096, 1));
    // What belongs to the first sending comes late.
    world.see(1, SERVER, CLIENT, get(640, 3), &[]);
    world.see(1, SERVER, CLIENT, put(4, 640, 224), &reply(4, 0));
    world.finish();
    let tally = &world.pairer.tally;
    assert_eq!((tally.orphan_replies, tally.orphan_bulk), (0, 0));
    assert_eq!((tally.repeated_replies, tally.late_bulk), (1, 1));
    assert_eq!(world.count(FindingKind::NoReply), 0);
}

// [PTLRPC-25]
#[test]
fn resend_that_passes_a_router_is_one_resend() {
    // The places of the first sending and of two resends, and how often the request was sent again.
    let sendings: [([&[u64]; 3], u32); 5] = [
        ([&[0], &[0, 2], &[]], 1),
        ([&[0, 2], &[0, 2], &[0, 2]], 2),
        ([&[0, 2], &[4, 6], &[]], 1),
        ([&[0], &[4], &[]], 1),
        ([&[0, 2], &[], &[]], 0),
    ];
    for is_marked in [true, false] {
        for (places, resends) in sendings {
            let mut world = World::default();
            for (number, places) in places.into_iter().enumerate() {
                let number = number as u64;
                // Releases before 2.15 keep the match bits.
                let mbits = if is_marked { 640 + 128 * number } else { 640 };
                let ask = write(if number > 0 { 2 } else { 0 }, mbits);
                for place in places {
                    world.see(*place, CLIENT, SERVER, put(6, 640, 0), &ask);
                }
            }
            let hops = places.into_iter().map(<[u64]>::len).max();
            for place in [3, 1].into_iter().take(hops.unwrap_or_default()) {
                assert_eq!(world.ended.len(), 0);
                world.see(place, SERVER, CLIENT, put(4, 640, 224), &reply(4, 0));
            }
            let [rpc] = &world.ended[..] else {
                panic!("{places:?}: {:?}", world.ended);
            };
            assert_eq!(rpc.resends, resends, "{places:?}");
        }
    }
}

#[test]
fn first_sending_that_passes_behind_its_resend_is_no_resend() {
    let mut world = World::default();
    for (place, ask) in [
        (0, write(0, 640)),
        (0, write(2, 768)),
        (2, write(0, 640)),
        (2, write(2, 768)),
    ] {
        world.see(place, CLIENT, SERVER, put(6, 640, 0), &ask);
    }
    for place in [3, 1] {
        world.see(place, SERVER, CLIENT, put(4, 768, 224), &reply(4, 0));
    }
    assert_eq!((world.ended.len(), world.ended[0].resends), (1, 1));
}

#[test]
fn resends_for_ever_are_one_rpc_of_limited_memory() {
    let mut world = World::default();
    for number in 0..100_000 {
        let ask = write(if number > 0 { 2 } else { 0 }, 640 + number * 128);
        world.see(number % 50, CLIENT, SERVER, put(6, 640, 0), &ask);
    }
    // The first bits and those of the last resends are known.
    for bits in [640, 640 + 99_999 * 128] {
        let role = world.see(1, SERVER, CLIENT, get(bits, bits), &[]);
        assert_eq!((role, world.pairer.tally.orphan_bulk), (Role::Bulk, 0));
    }
    world.see(1, SERVER, CLIENT, get(640 + 50_000 * 128, 7), &[]);
    assert_eq!(world.pairer.tally.orphan_bulk, 1);
    world.see(
        1,
        SERVER,
        CLIENT,
        put(4, 640 + 99_999 * 128, 224),
        &reply(4, 0),
    );
    assert_eq!((world.ended.len(), world.ended[0].resends), (1, 99_999));
}

#[test]
fn resend_has_time_of_its_own() {
    let mut world = World::default();
    world.see_at(1000, 0, (CLIENT, SERVER), put(6, 640, 0), &write(0, 640));
    world.see_at(80_000, 0, (CLIENT, SERVER), put(6, 640, 0), &write(2, 768));
    world.wait_until(80_000 + patience(30));
    assert_eq!(world.ends(), []);
    world.wait_until(81_001 + patience(30));
    assert_eq!(world.ends(), [(640, End::Unanswered)]);
}

#[test]
fn lost_request_counts_when_its_time_is_over_whatever_hangs_before_it() {
    let mut world = World::default();
    // The oldest has early replies: 600 s since it was sent.
    world.see_at(1000, 0, (CLIENT, SERVER), put(6, 640, 0), &write(0, 640));
    world.see_at(20_000, 1, (SERVER, CLIENT), put(4, 640, 0), &early(4, 600));
    // The time in the network is beside the server's.
    let mut ask = request(400, 0, false);
    ask[40 + 72] = 5;
    world.see_at(21_000, 0, (CLIENT, SERVER), put(28, 768, 0), &ask);
    world.wait_until(21_000 + patience(35));
    assert_eq!((world.ends(), world.pairer.outstanding()), (vec![], 2));
    world.wait_until(22_001 + patience(35));
    assert_eq!(world.ends(), [(768, End::Unanswered)]);
    assert_eq!(world.pairer.outstanding(), 1);
    world.wait_until(1000 + patience(600));
    assert_eq!(world.pairer.outstanding(), 1);
    world.wait_until(2001 + patience(600));
    assert_eq!(
        world.ends(),
        [(768, End::Unanswered), (640, End::Unanswered)]
    );
    // What comes now is late, and belongs to no other RPC.
    world.see(1, SERVER, CLIENT, put(4, 768, 0), &reply(400, 0));
    world.see(1, SERVER, CLIENT, get(640, 1), &[]);
    let tally = &world.pairer.tally;
    assert_eq!((tally.late_replies, tally.orphan_replies), (1, 0));
    assert_eq!((tally.late_bulk, tally.orphan_bulk), (1, 0));
}

#[test]
fn time_of_a_connect_and_of_an_encrypted_request_is_no_time_in_the_network() {
    let mut world = World::default();
    let mut connect = request(8, 0, false);
    connect[40 + 72] = 200;
    world.see_at(1000, 0, (CLIENT, SERVER), put(28, 640, 0), &connect);
    let private = message(0x3_0312, &[&[0; 36], &[1; 300]]);
    world.see_at(1000, 0, (CLIENT, SERVER), put(28, 768, 0), &private);
    world.wait_until(3000 + patience(30));
    assert_eq!(world.ends(), [(640, End::Unanswered)]);
    // An encrypted request does not say its time: it has the most that there is.
    world.finish();
    assert_eq!(world.ends()[1], (768, End::InFlight));
}

#[test]
fn silence_is_a_finding_and_the_end_of_the_capture_is_none() {
    let mut world = World::default();
    world.see_at(
        1000,
        0,
        (CLIENT, SERVER),
        put(28, 640, 0),
        &request(400, 0, false),
    );
    world.see_at(
        90_000,
        0,
        (CLIENT, SERVER),
        put(28, 768, 0),
        &request(400, 0, false),
    );
    world.finish();
    let ends: Vec<End> = world.ended.iter().map(|rpc| rpc.end).collect();
    assert_eq!(ends, [End::Unanswered, End::InFlight]);
    assert_eq!(world.count(FindingKind::NoReply), 1);
}

// [PTLRPC-4]
#[test]
fn bulk_of_several_messages_counts_each_once() {
    let mut world = World::default();
    let mut head = body(4711, 4);
    head[120..128].copy_from_slice(&643u64.to_le_bytes());
    let object = [&[0; 16][..], &[0, 0, 3, 0, 1, 0, 0, 0]].concat();
    let ask = message(0, &[&head, &[0; 208], &object, &[0; 16]]);
    world.see(0, CLIENT, SERVER, put(6, 640, 0), &ask);
    for part in 0..4 {
        let handle = Handle {
            interface: 9,
            object: part,
        };
        let role = world.see(1, SERVER, CLIENT, get(640 + part, part), &[]);
        assert_eq!(role, Role::Bulk);
        for place in [0, 2] {
            let reply = Body::Reply(Reply { dst_wmd: handle });
            world.see(place, CLIENT, SERVER, reply, &[0; 4096]);
        }
    }
    world.see(1, SERVER, CLIENT, put(4, 643, 0), &reply(4, 0));
    let [rpc] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!((rpc.bulk, rpc.bulk_parts), (16384, 4));
    assert_eq!(world.pairer.tally.orphan_bulk, 0);
}

// A read of 4096 bytes is answered with less, more, or nothing: what came is what counts, and a piece that comes again is
// the same piece.
#[test]
fn bulk_that_is_shorter_or_longer_than_announced_counts_as_it_came() {
    for (came, counts) in [
        (vec![], 0),
        (vec![0], 0),
        (vec![1000], 1000),
        (vec![70_000], 70_000),
        (vec![4096; 100], 4096),
    ] {
        let mut world = World::default();
        let object = [&[0; 16][..], &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        let mut extent = [0; 16];
        extent[8..12].copy_from_slice(&4096u32.to_le_bytes());
        let ask = message(0, &[&body(4711, 3), &[0; 208], &object, &extent]);
        world.see(0, CLIENT, SERVER, put(6, 640, 0), &ask);
        for len in &came {
            let bulk = vec![0; *len];
            let role = world.see(1, SERVER, CLIENT, put(8, 640, 0), &bulk);
            assert_eq!(role, Role::Bulk);
        }
        world.see(1, SERVER, CLIENT, put(4, 640, 0), &reply(3, 0));
        let [rpc] = &world.ended[..] else {
            panic!("{:?}", world.ended);
        };
        assert_eq!(
            (rpc.asked, rpc.bulk, rpc.end),
            (4096, counts, End::Answered)
        );
    }
}

// [PTLRPC-7]
#[test]
fn early_replies_for_ever_are_one_rpc_that_is_not_answered() {
    let mut world = World::default();
    world.see(0, CLIENT, SERVER, put(6, 640, 0), &request(4, 0, true));
    let early = early(4, 120);
    for _ in 0..100_000 {
        world.see(1, SERVER, CLIENT, put(4, 640, 0), &early);
    }
    assert_eq!((world.pairer.outstanding(), world.ended.len()), (1, 0));
    world.see_at(
        2_000_000,
        0,
        (CLIENT, SERVER),
        put(6, 768, 0),
        &request(4, 0, true),
    );
    let ends: Vec<(End, u32)> = world.ended.iter().map(|rpc| (rpc.end, rpc.early)).collect();
    assert_eq!(ends, [(End::Unanswered, 100_000)]);
}

#[test]
fn callback_without_an_answer_and_a_lock_that_is_kept_are_findings() {
    let mut world = World::default();
    let mut lock = [0; 104];
    lock[96] = 77;
    let callback = message(0, &[&body(4711, 104), &lock]);
    world.see_at(1000, 0, (SERVER, CLIENT), put(15, 640, 0), &callback);
    world.see_at(
        90_000,
        0,
        (SERVER, CLIENT),
        put(15, 768, 0),
        &request(400, 0, false),
    );
    world.finish();
    assert_eq!(world.count(FindingKind::CallbackUnanswered), 1);
    assert_eq!(world.count(FindingKind::LockKept), 1);

    let mut world = World::default();
    world.see(0, SERVER, CLIENT, put(15, 640, 0), &callback);
    world.see(1, CLIENT, SERVER, put(16, 640, 0), &reply(104, 0));
    lock[96] = 0;
    lock[4] = 1;
    lock[88] = 77;
    world.see(
        1,
        CLIENT,
        SERVER,
        put(17, 896, 0),
        &message(0, &[&body(4711, 103), &lock[..96]]),
    );
    world.see(0, SERVER, CLIENT, put(18, 896, 0), &reply(103, 0));
    world.finish();
    assert_eq!(world.count(FindingKind::CallbackUnanswered), 0);
    assert_eq!(world.count(FindingKind::LockKept), 0);
}

/// A request with locks: for a callback the server's handle, for others the handles that are given back.
fn locks(opc: u32, handles: &[u64]) -> Vec<u8> {
    let mut lock = vec![0; 88];
    lock[4..8].copy_from_slice(&(handles.len() as u32).to_le_bytes());
    for handle in handles {
        lock.extend(handle.to_le_bytes());
    }
    message(0, &[&body(4711, opc), &lock])
}

#[test]
fn a_lock_that_is_given_back_while_its_callback_is_on_the_way_is_not_kept() {
    let kept = |first: &[u8], status: i32| {
        let mut world = World::default();
        world.see_at(1000, 1, (CLIENT, SERVER), put(17, 896, 0), first);
        let callback = locks(104, &[5, 77]);
        world.see_at(1000, 0, (SERVER, CLIENT), put(15, 640, 0), &callback);
        let answer = reply(104, status);
        world.see_at(1000, 1, (CLIENT, SERVER), put(16, 640, 0), &answer);
        let ping = request(400, 0, false);
        world.see_at(90_000, 0, (CLIENT, SERVER), put(28, 768, 0), &ping);
        world.finish();
        world.count(FindingKind::LockKept)
    };
    let nothing = request(400, 0, false);
    assert_eq!(kept(&nothing, 0), 1);
    // The client knows no such lock any more.
    assert_eq!(kept(&nothing, -22), 0);
    assert_eq!(kept(&locks(103, &[76, 77]), 0), 0);
    assert_eq!(kept(&locks(103, &[76]), 0), 1);
    // Behind the handle of the lock that is asked for, those that are given back with it.
    assert_eq!(kept(&locks(101, &[5, 77]), 0), 0);
    assert_eq!(kept(&locks(101, &[77, 76]), 0), 1);
    // The server grants the lock, or the client changes it: both name it, and nobody gives it back.
    assert_eq!(kept(&locks(105, &[5, 77]), 0), 1);
    assert_eq!(kept(&locks(102, &[77]), 0), 1);
}

#[test]
fn a_lock_is_kept_only_if_its_holder_had_time_to_give_it_back() {
    let kept = |end: u64| {
        let mut world = World::default();
        let mut lock = [0; 104];
        lock[96] = 77;
        let callback = message(0, &[&body(4711, 104), &lock]);
        world.see_at(1000, 0, (SERVER, CLIENT), put(15, 640, 0), &callback);
        world.see_at(1000, 1, (CLIENT, SERVER), put(16, 640, 0), &reply(104, 0));
        let ping = request(400, 0, false);
        world.see_at(end, 0, (CLIENT, SERVER), put(28, 768, 0), &ping);
        world.finish();
        world.count(FindingKind::LockKept)
    };
    assert_eq!([1001, 7000, 7001, 90_000].map(kept), [0, 0, 1, 1]);
}

#[test]
fn more_rpcs_than_fit_are_forgotten_and_counted() {
    let mut world = World::default();
    let ask = request(400, 0, false);
    for number in 0..=OPEN_MAX as u64 + 9 {
        world.see_at(1, 0, (CLIENT, SERVER), put(28, 128 * (number + 1), 0), &ask);
    }
    assert!(world.pairer.outstanding() <= OPEN_MAX + 1);
    world.finish();
    assert_eq!(world.pairer.outstanding(), 0);
    assert_eq!(world.ended.len(), OPEN_MAX + 10);
    assert!(
        world.pairer.tally.forgotten >= 9,
        "{}",
        world.pairer.tally.forgotten
    );
}

#[test]
fn rpcs_with_many_messages_of_bulk_are_forgotten_sooner() {
    let mut world = World::default();
    let object = [&[0; 16][..], &[0, 0, 63, 0, 1, 0, 0, 0]].concat();
    let ask = message(0, &[&body(4711, 4), &[0; 208], &object, &[0; 16]]);
    for number in 1..=10_000 {
        world.see_at(1, 0, (CLIENT, SERVER), put(6, 128 * number + 63, 0), &ask);
    }
    assert_eq!(world.pairer.outstanding(), OPEN_MAX * 8 / 64);
    let forgotten = world.pairer.tally.forgotten as usize;
    assert_eq!(forgotten, 10_000 - OPEN_MAX * 8 / 64);
}

#[test]
fn encrypted_rpcs_are_paired_without_their_contents() {
    let mut world = World::default();
    let private = message(0x3_0312, &[&[0; 36], &[1; 300]]);
    assert_eq!(
        world.see(0, CLIENT, SERVER, put(28, 640, 0), &private),
        Role::Encrypted
    );
    assert_eq!(
        world.see(1, SERVER, CLIENT, put(4, 640, 0), &private),
        Role::Encrypted
    );
    let [rpc] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!(
        (rpc.end, rpc.operation()),
        (End::Answered, "encrypted".to_owned())
    );
}

// [PTLRPC-5]
#[test]
fn other_portals_carry_no_rpcs() {
    let mut world = World::default();
    assert_eq!(
        world.see(0, CLIENT, SERVER, put(50, 640, 0), &request(400, 0, false)),
        Role::Other
    );
    assert_eq!(
        world.see(0, CLIENT, SERVER, put(28, 640, 0), b"no RPC"),
        Role::Other
    );
    assert_eq!(world.pairer.tally.malformed, 1);
}
