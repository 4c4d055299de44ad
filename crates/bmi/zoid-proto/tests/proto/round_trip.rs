//! The decoder returns whatever an encoder accepted.

use proptest::prelude::*;
use zoid_proto::ctl::{
    Completion, Init, InitReply, Opcode, Post, PostOutcome, Reply, Request, Test, TestReply,
    TestSelection, UnexpectedMessage, UnexpectedTest,
};
use zoid_proto::fwd::{
    Caps, Data, Event, Frame, Grant, Hello, MemoryPart, MessageKind, Place, Places, Readiness,
    RecvReply, RecvReq, SendInline, SendReq, TestEntry, TestReq, Welcome,
};
use zoid_proto::{Array, Extent, List, Status};

use crate::{command, decode_command, decode_frame, decode_reply, frame, reply};

const MILLISECONDS: std::ops::RangeInclusive<u32> = 0..=i32::MAX as u32;

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let extent = (any::<u64>(), 0..=1_u64 << 40).prop_map(|(offset, len)| Extent { offset, len });
    prop::collection::vec(extent, 0..=250)
}

fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![Just(MessageKind::Expected), Just(MessageKind::Unexpected)]
}

fn entry() -> impl Strategy<Value = TestEntry> {
    let sizes = 0..=i64::MAX as u64;
    (any::<i32>(), any::<u8>(), sizes, 1..=u32::MAX, 0..3).prop_map(
        |(tag, class, size, multiplicity, which)| match which {
            0 => TestEntry::Send { tag, multiplicity },
            1 => TestEntry::Recv { tag, multiplicity },
            _ => TestEntry::Unexpected {
                tag,
                class,
                size,
                multiplicity,
            },
        },
    )
}

fn check_command(request: &Request<'_>) {
    assert_eq!(decode_command(&command(request)).as_ref(), Ok(request));
}

fn check_reply(opcode: Opcode, body: &Reply<'_>) {
    assert_eq!(decode_reply(&reply(opcode, body)).as_ref(), Ok(body));
}

fn check_frame(body: &Frame<'_>, status: i32) {
    assert_eq!(
        decode_frame(&frame(body, Status(status))).as_ref(),
        Ok(body)
    );
}

proptest! {
    #[test]
    fn posts(
        (bmi_id, peer, tag) in any::<(u64, i32, i32)>(),
        not_immediate: bool,
        segments in extents(),
        (offset, count) in (any::<u64>(), 1..=u32::MAX),
    ) {
        let total = segments.iter().map(|segment| segment.len).sum();
        let mut post = Post { bmi_id, peer, tag, not_immediate, total, segments: Array::inline(&segments) };
        check_command(&Request::PostSend(post));
        check_command(&Request::PostRecv(post));
        post.segments = Array::Spilled(Extent { offset, len: u64::from(count) * 16 });
        check_command(&Request::PostSend(post));
        prop_assert!(post.check_total(&List::new(&segments)).is_ok());
        post.total += 1;
        prop_assert!(post.check_total(&List::new(&segments)).is_err());
    }

    #[test]
    fn tests_of_the_server(
        timeout_ms in MILLISECONDS,
        wake_on_unexpected: bool,
        capacity in 1..=i32::MAX as u32,
        ids in prop::collection::vec(any::<u64>(), 1..=500),
        spilled in 1..=i32::MAX as u64,
    ) {
        let place = Extent { offset: capacity.into(), len: spilled * 8 };
        for selection in [
            TestSelection::Any { capacity },
            TestSelection::These(Array::inline(&ids)),
            TestSelection::These(Array::Spilled(place)),
        ] {
            check_command(&Request::Test(Test { timeout_ms, wake_on_unexpected, selection }));
        }
    }

    #[test]
    fn other_commands(
        (unix_pid, uid, library_version) in any::<(u32, u32, u32)>(),
        reply_queue in "/[a-z0-9.]{0,254}",
        (capacity, class, idle_ms) in (1..=u32::MAX, any::<u8>(), MILLISECONDS),
        (long, peer, disconnect) in any::<(u64, i32, bool)>(),
    ) {
        let reply_queue = reply_queue.as_str();
        check_command(&Request::Init(Init { unix_pid, uid, library_version, reply_queue }));
        check_command(&Request::UnexpectedTest(UnexpectedTest { capacity, class, idle_ms }));
        check_command(&Request::UnexpectedFree { offset: long });
        check_command(&Request::Cancel { plugin_id: long });
        check_command(&Request::DropPeer { peer, disconnect });
        check_command(&Request::Stat { first: uid });
    }

    #[test]
    fn replies_with_lists(
        messages in prop::collection::vec(any::<(i32, i32, u8, u32, u64, u64)>(), 0..=126),
        completions in prop::collection::vec((any::<u64>(), 0..=i64::MAX as u64, i32::MIN..0, any::<bool>()), 0..=252),
        values in prop::collection::vec(any::<u64>(), 0..=500),
        (unexpected_pending, woken, counters) in any::<(bool, bool, u32)>(),
    ) {
        let messages: Vec<_> = messages.into_iter().map(|(peer, tag, class, generation, offset, size)| {
            UnexpectedMessage { peer, tag, class, generation, offset, size }
        }).collect();
        check_reply(Opcode::UNEXP_TEST, &Reply::UnexpectedTest(List::new(&messages)));
        let completions: Vec<_> = completions.into_iter().map(|(bmi_id, len, error, good)| {
            Completion { bmi_id, outcome: if good { Ok(len) } else { Err(Status(error)) } }
        }).collect();
        let test = TestReply { unexpected_pending, woken, completions: List::new(&completions) };
        check_reply(Opcode::TEST, &Reply::Test(test));
        check_reply(Opcode::STAT, &Reply::Stat { counters, values: List::new(&values) });
    }

    #[test]
    fn other_replies(
        (session, epoch, total, unexpected, max_unexpected, max_expected, heartbeat_ms, pset_capacity)
            in any::<(u64, u64, u64, u64, u64, u64, u32, u32)>(),
        id in 1..=i64::MAX as u64,
    ) {
        let init = InitReply {
            session, epoch, total, unexpected, max_unexpected, max_expected, heartbeat_ms, pset_capacity,
        };
        check_reply(Opcode::INIT, &Reply::Init(init));
        for outcome in [PostOutcome::Immediate { len: id }, PostOutcome::Registered { plugin_id: id }] {
            check_reply(Opcode::POST_RECV, &Reply::Post(outcome));
        }
    }

    #[test]
    fn frames_of_a_session(
        (version_min, more, caps, uuid) in (any::<u16>(), any::<u16>(), any::<u32>(), any::<[u8; 16]>()),
        (unix_pid, previous_epoch, previous_pid, job) in any::<(u32, u64, i32, u32)>(),
        (pid, epoch, server_session, max_unexpected, max_expected, heartbeat_ms, credits, version)
            in any::<(i32, u64, u64, u64, u64, u32, u32, u16)>(),
        status: i32,
    ) {
        let caps = Caps::from_bits_retain(caps);
        let version_max = version_min.saturating_add(more);
        check_frame(&Frame::Hello(Hello {
            version_min, version_max, caps, uuid, unix_pid, previous_epoch, previous_pid, job,
        }), status);
        check_frame(&Frame::Welcome(Welcome {
            pid, epoch, server_session, max_unexpected, max_expected, heartbeat_ms, credits, caps, version,
        }), status);
        for event in [
            Event::ServerAttached(epoch),
            Event::ServerGone(epoch),
            Event::Draining,
            Event::Credits(credits),
            Event::Mark(epoch),
            Event::Kept(credits.cast_signed()),
            Event::Unknown(credits.saturating_add(7), epoch),
        ] {
            check_frame(&Frame::Event(event), status);
        }
    }

    #[test]
    fn frames_of_a_transfer(
        kind in kind(),
        (class, tag, total, timeout_ms, order) in (any::<u8>(), any::<i32>(), any::<u64>(), MILLISECONDS, any::<u64>()),
        (grant, offset, status) in any::<(u64, u64, i32)>(),
        segments in extents(),
    ) {
        check_frame(&Frame::SendReq(SendReq { kind, class, tag, total, timeout_ms, order }), status);
        check_frame(&Frame::RecvReq(RecvReq { tag, capacity: total, timeout_ms, order }), status);
        let message = vec![7; (total % 4097) as usize];
        let request = SendReq { kind, class, tag, total: total % 4097, timeout_ms, order };
        let inline = SendInline { request, message: &message };
        check_frame(&Frame::SendInline(inline), status);
        check_frame(&Frame::Data(Data { grant, offset }), status);
        for place in [Place::Stream, Place::Memory] {
            check_frame(&Frame::Grant(Grant { grant, place }), status);
            check_frame(&Frame::RecvReply(RecvReply { total, grant, place }), status);
        }
        let part = |segment: &Extent| MemoryPart { address: segment.offset >> 1, len: segment.len };
        let parts: Vec<MemoryPart> = segments.iter().map(part).collect();
        let places = Places { grant, parts: List::new(&parts) };
        check_frame(&Frame::Places(places), status);
        let total: u128 = parts.iter().map(|part| u128::from(part.len)).sum();
        prop_assert_eq!(places.total().map(u128::from), Some(total));
        for frame in [Frame::Abort { grant }, Frame::RecvAck { grant }, Frame::SendDone] {
            check_frame(&frame, status);
        }
    }

    #[test]
    fn r38_frames_of_a_test(
        timeout_ms in MILLISECONDS,
        entries in prop::collection::vec(entry(), 0..100),
        counts in prop::collection::vec(any::<u32>(), 0..100),
        ready: u32,
    ) {
        check_frame(&Frame::TestReq(TestReq { timeout_ms, entries: List::new(&entries) }), 0);
        check_frame(&Frame::TestReply(Readiness { ready, counts: List::new(&counts) }), 0);
    }
}
