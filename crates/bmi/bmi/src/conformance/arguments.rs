//! Tests of invalid arguments, and of what the interface reports about itself.

use std::thread;
use std::time::{Duration, Instant};

use super::{Bed, LIMIT, Must, connected_pair, pending, rejection};
use crate::{Address, Buffer, Class, ContextId, Error, Memory, OpId, Question, Setting, Tag};

/// Sixteen contexts may be open. Posts and tests reject a context that is not open; close ignores it.
// [BMI-30] [BMI-31]
pub fn contexts_are_sixteen(bed: &impl Bed) {
    let (server, _client) = connected_pair(bed, Memory::External);
    let more: Vec<ContextId> = (1..16)
        .map(|_| server.bmi.open_context().must("a context"))
        .collect();
    assert_eq!(server.bmi.open_context(), Err(Error::Busy));
    server.bmi.close_context(more[3]);
    server.bmi.close_context(more[3]);
    let again = server.bmi.open_context().must("a context");
    assert_ne!(again, more[3]);
    let tested = server.bmi.test_context(more[3], 1, Duration::ZERO);
    assert_eq!(tested.err(), Some(Error::Inval));
    let post = server
        .bmi
        .post_receive(more[3], server.peer, vec![0; 8], Tag(1), 0);
    assert_eq!(rejection(post), Error::Inval);
}

/// Ids of operations and addresses that name nothing are rejected, also if they once named something.
// [BMI-2] [BMI-24] [BMI-25] [BMI-27] [BMI-41]
pub fn ids_that_name_nothing_are_refused(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    let bmi = &client.bmi;
    let unknown = OpId::from_number(77 << 32 | 5).must("positive");
    let tested = bmi.test(unknown, Duration::ZERO);
    assert_eq!(tested.err(), Some(Error::Inval));
    assert_eq!(
        bmi.test_some(&[unknown], Duration::ZERO).err(),
        Some(Error::Inval)
    );
    assert!(
        bmi.test_some(&[], LIMIT)
            .must("a test of no ids")
            .is_empty()
    );
    bmi.cancel(unknown).must("ignored");

    let nobody = Address::from_number(77 << 32 | 5).must("positive");
    let post = bmi.post_send(client.context, nobody, vec![1], Tag(1), 0);
    assert_eq!(rejection(post), Error::Proto);
    assert_eq!(bmi.allocate(nobody, 8).err(), Some(Error::Inval));
    assert_eq!(bmi.name(nobody), None);
    assert_eq!(bmi.peer_name(nobody), None);
    assert_eq!(
        bmi.set(Some(nobody), &Setting::IncrementReferences),
        Err(Error::Inval)
    );
    assert_eq!(
        bmi.get(Some(nobody), Question::UnexpectedSize),
        Err(Error::Inval)
    );

    let op = pending(server.post_receive(Tag(1), vec![0; 4], 1));
    let twice = server.bmi.test_some(&[op, unknown, op], Duration::ZERO);
    assert!(twice.must("one exists").is_empty());
    server.bmi.cancel(op).must("cancel");
    let mut found = Vec::new();
    while found.is_empty() {
        found = server
            .bmi
            .test_some(&[unknown, op, op], LIMIT)
            .must("one exists");
    }
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].1.result), (1, Err(Error::Cancel)));
    let nothing = server.bmi.test_unexpected(Class(0), 0, LIMIT);
    assert!(nothing.must("a capacity of 0").is_empty());
    let nothing = server.bmi.test_context(server.context, 0, LIMIT);
    assert!(nothing.must("a capacity of 0").is_empty());
}

/// The same string has the same address; strings that are no addresses are rejected.
// [ADDR-1] [ADDR-2] [ADDR-6]
pub fn addresses_are_checked_and_stable(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    let name = bed.address(&server.bmi);
    assert_eq!(client.bmi.lookup(&name), Ok(client.peer));
    assert_eq!(client.bmi.name(client.peer).as_deref(), Some(&*name));
    let scheme = name.split("://").next().must("a scheme");
    let long = |len: usize| format!("{scheme}://{}", "x".repeat(len - scheme.len() - 3));
    assert_eq!(client.bmi.lookup(&long(256)), Err(Error::NameTooLong));
    assert_eq!(client.bmi.lookup(&long(1000)), Err(Error::NameTooLong));
    let upper = name.replace(scheme, &scheme.to_uppercase());
    let bad = [
        long(255),
        upper,
        String::new(),
        scheme.to_owned(),
        format!("{name} "),
        "x://y".into(),
    ];
    for address in bad {
        let rejected = client.bmi.lookup(&address);
        assert!(
            matches!(rejected, Err(Error::Inval | Error::NoProtoOpt)),
            "{address}: {rejected:?}"
        );
    }
}

/// A message of exactly the limit is posted; one byte more is rejected.
// [BMI-3] [TCP-13]
pub fn limits_are_inclusive(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    let bmi = &client.bmi;
    let limit = bmi
        .get(Some(client.peer), Question::UnexpectedSize)
        .must("the limit") as usize;
    let post = |len| {
        let buffer = Buffer::zeroed(len).must("memory");
        bmi.post_send_unexpected(client.context, client.peer, buffer, Tag(1), Class(0), 0)
    };
    assert_eq!(rejection(post(limit + 1)), Error::MsgSize);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(server.next_unexpected().data.len(), limit));
        client.succeed(post(limit).must("the limit itself"));
    });

    let limit = bmi.get(None, Question::MaxSize).must("the limit") as usize;
    let buffer = |len| Buffer::zeroed(len).must("memory");
    let post = bmi.post_receive(client.context, client.peer, buffer(limit + 1), Tag(1), 0);
    assert_eq!(rejection(post), Error::MsgSize);
    let post = bmi.post_send(client.context, client.peer, buffer(limit + 1), Tag(1), 0);
    assert_eq!(rejection(post), Error::MsgSize);
    let halves = vec![buffer(limit / 2 + 1), buffer(limit / 2)];
    let post = bmi.post_send(client.context, client.peer, halves, Tag(1), 0);
    assert_eq!(rejection(post), Error::MsgSize);
    let op = pending(client.post_receive(Tag(1), buffer(limit), 0));
    bmi.cancel(op).must("cancel");
    assert_eq!(client.wait(op).result, Err(Error::Cancel));
}

/// Every option is accepted, or rejected with a reason.
// [OPT-1] [OPT-2] [OPT-3] [OPT-4]
pub fn options_are_answered(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    let settings = [
        Setting::ForcefulCancel,
        Setting::TcpSendBuffer(1 << 20),
        Setting::TcpReceiveBuffer(1 << 20),
        Setting::OptimisticRegistration,
        Setting::CheckUnexpected(true),
        Setting::PostTimeout(Duration::ZERO),
        Setting::Other(4711),
    ];
    for end in [&server, &client] {
        for setting in settings {
            assert_eq!(end.bmi.set(None, &setting), Ok(()), "{setting:?}");
            assert_eq!(end.bmi.set(Some(end.peer), &setting), Ok(()), "{setting:?}");
        }
        assert!(end.bmi.get(None, Question::MaxSize).must("an answer") > 0);
        assert_eq!(
            end.bmi.get(None, Question::UnexpectedSize),
            Err(Error::Inval)
        );
        assert_eq!(end.bmi.get(Some(end.peer), Question::IsDisconnected), Ok(0));
        assert_eq!(end.bmi.get(None, Question::Other(4711)), Err(Error::NoSys));
        assert!(end.bmi.method_names().count() > 0);
    }
}

/// An address can lose as many references as were taken.
// [OPT-7] [OPT-8] [OPT-9]
pub fn references_are_counted(bed: &impl Bed) {
    let (server, _client) = connected_pair(bed, Memory::External);
    let set = |setting| server.bmi.set(Some(server.peer), &setting);
    assert_eq!(set(Setting::DecrementReferences), Err(Error::Inval));
    assert_eq!(set(Setting::IncrementReferences), Ok(()));
    assert_eq!(set(Setting::IncrementReferences), Ok(()));
    assert_eq!(set(Setting::DecrementReferences), Ok(()));
    assert_eq!(set(Setting::DecrementReferences), Ok(()));
    // A connected address is not forgotten.
    assert!(server.bmi.name(server.peer).is_some());
    assert_eq!(set(Setting::DropAddress), Ok(()));
    assert_eq!(server.bmi.name(server.peer), None);
    assert_eq!(set(Setting::DropAddress), Err(Error::Inval));
}

/// A test that sleeps while the interface is finalized ends with an error, and so does every later call.
// [BMI-52]
pub fn finalize_ends_a_sleeping_test(bed: &impl Bed) {
    let (server, _client) = connected_pair(bed, Memory::External);
    let op = pending(server.post_receive(Tag(1), vec![0; 4], 0));
    thread::scope(|scope| {
        let sleepers = [
            scope.spawn(|| server.bmi.test(op, 2 * LIMIT).err()),
            scope.spawn(|| server.bmi.test_context(server.context, 1, 2 * LIMIT).err()),
            scope.spawn(|| server.bmi.test_unexpected(Class(0), 1, 2 * LIMIT).err()),
        ];
        let begin = Instant::now();
        server.bmi.finalize();
        for sleeper in sleepers {
            assert_eq!(sleeper.join().must("a sleeper"), Some(Error::NetDown));
        }
        assert!(
            begin.elapsed() < LIMIT,
            "the test still slept after finalize"
        );
    });
    server.bmi.finalize();
    assert_eq!(server.bmi.open_context(), Err(Error::NetDown));
    let post = server
        .bmi
        .post_send(server.context, server.peer, vec![1], Tag(1), 0);
    assert_eq!(rejection(post), Error::NetDown);
    assert_eq!(
        server.bmi.test(op, Duration::ZERO).err(),
        Some(Error::NetDown)
    );
}
