//! Requirements about the three forwarded calls, tested with a scripted daemon.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use bmi::{Buffer, Error};
use zoid_proto::Status;
use zoid_proto::fwd::{FrameType, TestEntry};

use crate::bed::{LIMIT, immediate, pattern, pending};
use crate::stub::{Call, Reply, Stub};

const NOT_NOW: Reply = Reply::Refused(Status::NO_MEMORY);

#[test]
fn r20_r40_a_client_asks_with_three_calls_and_acts_on_what_is_ready() {
    let mut tests = 0;
    let stub = Stub::new(move |call| match call {
        Call::Send { .. } if tests == 0 => NOT_NOW,
        Call::Send { .. } => Reply::Taken,
        Call::Receive { .. } if tests == 1 => Reply::Refused(Status::NONE),
        Call::Receive { .. } => Reply::Message(pattern(8)),
        Call::Test(entries) => {
            tests += 1;
            Reply::Ready(vec![1; entries.len()])
        }
    });
    let client = stub.client();
    let send = pending(client.send(1, vec![1; 8]));
    assert_eq!(client.wait(send).result, Ok(8));
    let receive = pending(client.receive_into(2, 8));
    assert_eq!(client.wait(receive).result, Ok(8));
    drop(client);
    let (send, test) = (FrameType::SEND_REQ, FrameType::TEST_REQ);
    let frames = stub.frames();
    assert_eq!(frames[..3], [send, test, send]);
    for kind in frames {
        let known = [
            send,
            FrameType::RECV_REQ,
            test,
            FrameType::RECV_ACK,
            FrameType::BYE,
        ];
        assert!(known.contains(&kind), "{kind:?}");
    }
}

#[test]
fn r22_r23_r31_what_the_daemon_says_is_what_the_post_returns() {
    let refusals = [
        (Status::MESSAGE_SIZE, Error::MsgSize),
        (Status::NO_SYSTEM, Error::NoSys),
        (Status::INVALID, Error::Inval),
        (Status::PROTOCOL, Error::Proto),
        (Status::CONNECTION_RESET, Error::ConnReset),
    ];
    let mut calls = 0;
    let stub = Stub::new(move |_| {
        calls += 1;
        Reply::Refused(refusals[(calls - 1) / 6].0)
    });
    let client = stub.client();
    let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
    let tag = bmi::Tag(1);
    let buffers = |pieces: usize| {
        (0..pieces)
            .map(|_| client.memory(4))
            .collect::<Vec<Buffer>>()
    };
    for (_, error) in refusals {
        for pieces in [1, 3] {
            let sent = bmi.post_send(context, peer, buffers(pieces), tag, 0);
            assert_eq!(sent.unwrap_err().error, error);
            let class = bmi::Class(0);
            let sent = bmi.post_send_unexpected(context, peer, buffers(pieces), tag, class, 0);
            assert_eq!(sent.unwrap_err().error, error);
            let received = bmi.post_receive(context, peer, buffers(pieces), tag, 0);
            assert_eq!(received.unwrap_err().error, error);
        }
    }
}

#[test]
fn r23_taken_is_immediate_and_no_memory_is_pending() {
    let stub = Stub::new(|call| match call {
        Call::Send { tag: 1 } => Reply::Taken,
        _ => NOT_NOW,
    });
    let client = stub.client();
    assert_eq!(immediate(client.send(1, vec![1; 8])).0, 8);
    assert_eq!(immediate(client.unexpected(1, &[1; 8])).0, 8);
    pending(client.send(2, vec![1; 8]));
    pending(client.unexpected(2, &[1; 8]));
}

#[test]
fn r37_r38_a_cancelled_operation_is_not_asked_for_and_shifts_nothing() {
    let mut ready = false;
    let stub = Stub::new(move |call| match call {
        Call::Test(_) => {
            ready = true;
            Reply::Ready(vec![0, 1])
        }
        Call::Receive { tag: 3 } if ready => Reply::Message(pattern(8)),
        _ => Reply::Refused(Status::NONE),
    });
    let client = stub.client();
    let ops: Vec<_> = (1..=3)
        .map(|tag| pending(client.receive_into(tag, 8)))
        .collect();
    client.bmi.cancel(ops[0]).unwrap();
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(client.bmi.test_some(&ops, LIMIT).unwrap());
    }
    found.sort_by_key(|(at, _)| *at);
    let results: Vec<_> = found.iter().map(|(at, done)| (*at, done.result)).collect();
    assert_eq!(results, [(0, Err(Error::Cancel)), (2, Ok(8))]);
    let recv = |tag| TestEntry::Recv {
        tag,
        multiplicity: 1,
    };
    let calls = stub.calls();
    let mut tests = calls.iter().filter(|call| matches!(call, Call::Test(_)));
    assert_eq!(tests.next_back(), Some(&Call::Test(vec![recv(2), recv(3)])));
}

/// The answer to a test names an operation that another thread has completed meanwhile. The test asks for the others
/// again.
#[test]
fn r11_a_test_whose_answer_is_out_of_date_asks_again() {
    let (asks, asked) = mpsc::channel();
    let mut has_asked = false;
    let stub = Stub::new(move |call| match call {
        Call::Test(entries) if entries.len() == 3 => {
            has_asked = true;
            asks.send(()).unwrap();
            Reply::ReadyLater(vec![1, 0, 0])
        }
        Call::Test(entries) if entries.len() == 2 => Reply::Ready(vec![1, 0]),
        Call::Test(entries) => {
            let is_first = matches!(entries[..], [TestEntry::Recv { tag: 1, .. }]);
            Reply::Ready(vec![u32::from(is_first)])
        }
        Call::Receive { .. } if has_asked => Reply::Message(pattern(8)),
        _ => Reply::Refused(Status::NONE),
    });
    let client = stub.client();
    let (bmi, peer) = (&client.bmi, client.peer);
    let other = bmi.open_context().unwrap();
    let [ends, waits] = [1, 3].map(|tag| {
        pending(
            bmi.post_receive(other, peer, vec![0; 8], bmi::Tag(tag), 0)
                .unwrap(),
        )
    });
    let asks_again = pending(client.receive_into(2, 8));
    let began = Instant::now();
    let found = std::thread::scope(|scope| {
        let found = scope.spawn(|| bmi.test_context(client.context, 2, LIMIT).unwrap());
        asked.recv().unwrap();
        assert_eq!(bmi.test(ends, LIMIT).unwrap().unwrap().result, Ok(8));
        assert!(bmi.test(waits, Duration::ZERO).unwrap().is_none());
        found.join().unwrap()
    });
    let found: Vec<_> = found.iter().map(|done| (done.op, done.result)).collect();
    assert_eq!(found, [(asks_again, Ok(8))]);
    assert!(began.elapsed() < LIMIT, "the test slept until its end");
}

#[test]
fn r41_a_retry_that_is_refused_stays_and_later_completes() {
    let mut sends = 0;
    let stub = Stub::new(move |call| match call {
        Call::Test(_) => Reply::Ready(vec![1]),
        _ => {
            sends += 1;
            // As if the server had cancelled its receive between the two calls, three times.
            if sends < 5 { NOT_NOW } else { Reply::Taken }
        }
    });
    let client = stub.client();
    let op = pending(client.send(1, vec![1; 8]));
    assert_eq!(client.wait(op).result, Ok(8));
    let (send, test) = (
        Call::Send { tag: 1 },
        TestEntry::Send {
            tag: 1,
            multiplicity: 1,
        },
    );
    let mut expected = vec![send.clone()];
    for _ in 0..4 {
        expected.extend([Call::Test(vec![test]), send.clone()]);
    }
    assert_eq!(stub.calls(), expected);
}

#[test]
fn r41_ready_but_refused_again_and_again_is_no_busy_loop() {
    let stub = Stub::new(|call| match call {
        Call::Test(_) => Reply::Ready(vec![1]),
        _ => NOT_NOW,
    });
    let client = stub.client();
    let op = pending(client.send(1, vec![1; 8]));
    let wait = Duration::from_millis(200);
    let began = Instant::now();
    assert!(client.bmi.test(op, wait).unwrap().is_none());
    let took = began.elapsed();
    assert!(took >= wait);
    // At least a millisecond passes between a rejection and the next request.
    let rounds = stub.calls().len() / 2;
    assert!(
        rounds as u128 <= took.as_millis() + 1,
        "{rounds} in {took:?}"
    );
}

#[test]
fn a_connection_that_ends_amid_a_call_does_not_hang_it() {
    let stub = Stub::new(|_| Reply::Hangup);
    let client = stub.client();
    let post = client
        .bmi
        .post_send(client.context, client.peer, vec![1; 8], bmi::Tag(1), 0);
    match post {
        Ok(post) => {
            // Kept for a daemon that comes back; this one does not.
            assert_eq!(client.wait(pending(post)).result, Err(Error::ConnReset));
        }
        Err(refused) => assert_eq!(refused.error, Error::ConnReset),
    }
}
