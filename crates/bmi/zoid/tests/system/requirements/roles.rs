//! Requirements about the two roles: their purpose, the meaning of each call, and what may be posted.

use std::time::Duration;

use bmi::{Bmi, Buffer, Class, Error, Memory, OpId, Payload, Post, Question, Setting, Tag};
use testkit::workspace::{directory_of, root};
use zoid::Zoid;

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};

#[test]
fn r01_the_method_is_chosen_by_its_name_and_scheme() {
    let bed = Bed::new();
    let builder = || Bmi::builder().method(Zoid::new(bed.options()));
    let server = builder().only("bmi_zoid").listen("zoid://").start();
    let client = builder().only("bmi_zoid").start().unwrap();
    assert_eq!(client.method_names().collect::<Vec<_>>(), ["zoid"]);
    assert!(client.lookup("zoid://").is_ok());
    assert_eq!(server.unwrap().method_names().count(), 1);
    assert_eq!(
        builder().only("bmi_zoidd").start().err(),
        Some(Error::NoProtoOpt)
    );
}

/// Returns a message of `len` bytes, in one piece or in three.
fn pieces(end: &End, len: usize, list: bool) -> Vec<Buffer> {
    match list {
        false => vec![end.outside(len)],
        true => vec![
            end.outside(len / 2),
            end.outside(0),
            end.outside(len - len / 2),
        ],
    }
}

#[test]
fn r03_the_limit_of_expected_messages_is_inclusive_in_both_roles() {
    let max = 128 << 20;
    let bed = Bed::with(|options| options.total = 160 << 20);
    let (server, client) = bed.greeted_pair();
    for end in [&server, &client] {
        let (bmi, context, peer) = (&end.bmi, end.context, end.peer);
        assert_eq!(bmi.get(None, Question::MaxSize), Ok(max as u64));
        for list in [false, true] {
            let sent = bmi.post_send(context, peer, pieces(end, max + 1, list), Tag(1), 0);
            assert_eq!(sent.unwrap_err().error, Error::MsgSize);
            let received = bmi.post_receive(context, peer, pieces(end, max + 1, list), Tag(1), 0);
            assert_eq!(received.unwrap_err().error, Error::MsgSize);
            let op = pending(end.receive(2, pieces(end, max, list)));
            bmi.cancel(op).unwrap();
            assert_eq!(end.wait(op).result, Err(Error::Cancel));
        }
    }
    let op = pending(server.receive(3, server.memory(max)));
    assert_eq!(immediate(client.send(3, pieces(&client, max, true))).0, max);
    assert_eq!(server.wait(op).result, Ok(max));
}

/// Returns the results of the calls that take an operation or a context.
fn answers_about_ids(end: &End) -> [Result<(), Error>; 5] {
    let (bmi, context) = (&end.bmi, end.context);
    let stranger = OpId::from_number(1 << 40 | 77).unwrap();
    [
        bmi.test(stranger, Duration::ZERO).map(drop),
        bmi.test_some(&[stranger], Duration::ZERO).map(drop),
        bmi.test_some(&[], Duration::ZERO).map(drop),
        bmi.test_context(context, 0, LIMIT).map(drop),
        bmi.cancel(stranger),
    ]
}

#[test]
fn r06_every_call_has_a_defined_answer_in_both_roles() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for (end, is_server) in [(&server, true), (&client, false)] {
        let (bmi, peer) = (&end.bmi, end.peer);
        let refused = Err(Error::Inval);
        assert_eq!(
            answers_about_ids(end),
            [refused, refused, Ok(()), Ok(()), Ok(())]
        );
        assert_eq!(bmi.in_range(peer, "zoid://*", 8), Err(Error::NoSys));
        assert_eq!(bmi.receives_unexpected(peer), Some(is_server));
        assert!(bmi.test_unexpected(Class(0), 0, LIMIT).unwrap().is_empty());
        assert!(
            bmi.test_unexpected(Class(255), 1, Duration::ZERO)
                .unwrap()
                .is_empty()
        );
        let name = bmi.peer_name(peer).unwrap();
        assert!(name.starts_with("zoid://"), "{name}");
        assert_eq!(end.memory(0).len(), 0);
        assert_eq!(bmi.get(Some(peer), Question::IsDisconnected), Ok(0));
        assert_eq!(bmi.get(None, Question::MaxSize), Ok(128 << 20));
        assert_eq!(
            bmi.get(Some(peer), Question::Other(4711)),
            Err(Error::NoSys)
        );
        assert_eq!(bmi.stray_completions(), 0);
        let settings = [
            Setting::IncrementReferences,
            Setting::ForcefulCancel,
            Setting::TcpSendBuffer(4096),
            Setting::TcpReceiveBuffer(4096),
            Setting::OptimisticRegistration,
            Setting::CheckUnexpected(true),
            Setting::PostTimeout(Duration::ZERO),
            Setting::Other(4711),
            Setting::DecrementReferences,
        ];
        for setting in settings {
            assert_eq!(bmi.set(Some(peer), &setting), Ok(()), "{setting:?}");
        }
    }
    // Both still work.
    let op = pending(server.receive_into(1, 8));
    immediate(client.send(1, vec![1; 8]));
    assert_eq!(server.wait(op).result, Ok(8));
}

#[test]
fn r17_a_role_ends_with_finalize_and_not_before() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for end in [server, client] {
        assert!(end.bmi.open_context().is_ok());
        end.bmi.finalize();
        assert_eq!(end.bmi.open_context(), Err(Error::NetDown));
        assert_eq!(end.bmi.lookup("zoid://"), Err(Error::NetDown));
        let post = end.bmi.post_send(end.context, end.peer, vec![1], Tag(1), 0);
        assert_eq!(post.unwrap_err().error, Error::NetDown);
    }
    // Then the process takes the other role.
    let (_server, _client) = bed.greeted_pair();
}

#[test]
fn r19_the_libraries_and_the_plugin_share_the_protocol_and_nothing_else() {
    let dependencies = |name: &str| {
        let manifest =
            std::fs::read_to_string(root().join(directory_of(name)).join("Cargo.toml")).unwrap();
        let after = manifest
            .split("\n[dependencies]\n")
            .nth(1)
            .unwrap()
            .to_owned();
        after.split("\n[").next().unwrap().to_owned()
    };
    for library in ["zoid", "finerail-bmi", "bmi-ffi", "zoid-proto"] {
        assert!(
            !dependencies(library).contains("zoidd"),
            "{library} has the plugin"
        );
    }
    assert!(!dependencies("zoidd").contains("\nbmi."));
    assert!(dependencies("zoidd").contains("zoid-proto"));
    let design =
        std::fs::read_to_string(root().join(directory_of("zoidd")).join("DESIGN.md")).unwrap();
    assert!(design.len() > 4000);
}

/// Posts an expected or unexpected send.
fn post_send(client: &End, parts: Vec<Buffer>, unexpected: bool) -> Result<Post, Error> {
    let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
    let post = match unexpected {
        false => bmi.post_send(context, peer, parts, Tag(1), 7),
        true => bmi.post_send_unexpected(context, peer, parts, Tag(1), Class(0), 7),
    };
    post.map_err(|refused| refused.error)
}

#[test]
fn r22_r36_all_four_kinds_of_send_behave_alike() {
    for unexpected in [false, true] {
        for list in [false, true] {
            let bed = Bed::with(|options| options.max_expected = 8192);
            let (server, client) = bed.greeted_pair();
            let large = post_send(&client, pieces(&client, 8193, list), unexpected);
            assert_eq!(large.err(), Some(Error::MsgSize));
            if unexpected {
                for _ in 0..128 {
                    immediate(client.unexpected(9, &[0; 8192]));
                }
            }
            // Without a counterpart both are pending, and a cancelled one as well.
            let parts = || pieces(&client, 1000, list);
            let cancelled = pending(post_send(&client, parts(), unexpected).unwrap());
            client.bmi.cancel(cancelled).unwrap();
            assert_eq!(client.wait(cancelled).result, Err(Error::Cancel));
            let op = pending(post_send(&client, parts(), unexpected).unwrap());
            let receive = (!unexpected).then(|| pending(server.receive_into(1, 1000)));
            if unexpected {
                drop(server.next_unexpected());
            }
            let done = client.bmi.test_context(client.context, 4, LIMIT).unwrap();
            assert_eq!(
                (done[0].op, done[0].result, done[0].user),
                (op, Ok(1000), 7)
            );
            if let Some(receive) = receive {
                assert_eq!(server.wait(receive).result, Ok(1000));
            }
        }
    }
}

#[test]
fn r31_r33_receives_of_one_piece_and_of_several_behave_alike() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for list in [false, true] {
        let bytes = pattern(900);
        let joined = |payload: Payload| {
            let parts = payload.into_buffers();
            parts
                .iter()
                .flat_map(|part| part.to_vec())
                .collect::<Vec<u8>>()
        };
        let expected = [&bytes[..], &[0; 100]].concat();
        // The message is sent before the receive.
        let sent = pending(server.send(1, bytes.clone()));
        let (len, payload) = immediate(client.receive(1, pieces(&client, 1000, list)));
        assert_eq!((len, joined(payload)), (900, expected.clone()));
        assert_eq!(server.wait(sent).result, Ok(900));
        // The message is sent later.
        let op = pending(client.receive(2, pieces(&client, 1000, list)));
        let sent = server.send(2, bytes.clone());
        let done = client.bmi.test_context(client.context, 4, LIMIT).unwrap();
        let done = done.into_iter().next().unwrap();
        assert_eq!((done.op, done.result), (op, Ok(900)));
        assert_eq!(joined(done.payload), expected);
        assert_eq!(server.finish(sent).0, Ok(900));
        // The message is too long: both sides fail.
        let sent = pending(server.send(3, pattern(1001)));
        let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
        let long = bmi.post_receive(context, peer, pieces(&client, 1000, list), Tag(3), 0);
        assert_eq!(long.unwrap_err().error, Error::MsgSize);
        assert_eq!(server.wait(sent).result, Err(Error::MsgSize));
    }
}

#[test]
fn r44_the_list_of_a_post_may_be_overwritten_after_it() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let spans = |len: usize| [0, 1, 2].map(|_| client.outside(len).into_span());
    let (mut list, original) = {
        let list = spans(100);
        (list.clone(), list)
    };
    let payload = Payload::from_spans(list.iter().cloned().collect(), Memory::External);
    let op = pending(client.receive(1, payload));
    list.clone_from(&spans(10));
    let sent = server.send(1, pattern(300));
    assert_eq!(client.wait(op).result, Ok(300));
    assert_eq!(server.finish(sent).0, Ok(300));
    let received: Vec<u8> = original.iter().flat_map(|span| span.to_vec()).collect();
    assert_eq!(received, pattern(300));
    assert!(list.iter().all(|span| span.to_vec() == [0; 10]));
}

// [MEM-2]
#[test]
fn r13_r68_memory_need_not_be_aligned() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for at in 0..16 {
        let bytes = pattern(333);
        let part = |buffer: Buffer, memory| {
            let span = buffer.into_span().part(at..at + 333).unwrap();
            (
                span.clone(),
                Payload::from_spans([span].into_iter().collect(), memory),
            )
        };
        let (inside, receive) = part(server.memory(400), Memory::PreAllocated);
        let op = pending(server.receive(1, receive));
        let (outside, send) = part(client.outside(400), Memory::External);
        outside.copy_in(&bytes);
        assert_eq!(immediate(client.send(1, send)).0, 333);
        assert_eq!(server.wait(op).result, Ok(333));
        assert_eq!(inside.to_vec(), bytes);
        let (target, receive) = part(client.outside(400), Memory::External);
        let op = pending(client.receive(2, receive));
        let (_, again) = part(server.memory(400), Memory::PreAllocated);
        again.segments()[0].copy_in(&bytes);
        let sent = server.send(2, again);
        assert_eq!(client.wait(op).result, Ok(333));
        assert_eq!(server.finish(sent).0, Ok(333));
        assert_eq!(target.to_vec(), bytes);
    }
}

#[test]
fn r69_three_hundred_clients_have_addresses_and_a_dropped_one_returns() {
    let bed = Bed::new();
    let server = bed.serve();
    let single = || {
        End::client(zoid::Options {
            single_thread: true,
            ..bed.options()
        })
    };
    let clients: Vec<End> = (0..300).map(|_| single()).collect();
    let peers: Vec<_> = clients
        .iter()
        .map(|client| server.greeted_by(client))
        .collect();
    let mut distinct = peers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 300);
    server
        .bmi
        .set(Some(peers[7]), &Setting::DropAddress)
        .unwrap();
    let again = server.greeted_by(&clients[7]);
    let op = pending(
        server
            .bmi
            .post_receive(server.context, again, server.memory(8), Tag(1), 0)
            .unwrap(),
    );
    immediate(clients[7].send(1, vec![1; 8]));
    assert_eq!(server.wait(op).result, Ok(8));
}
