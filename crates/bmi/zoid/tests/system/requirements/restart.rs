//! A daemon that ends and comes back, from the point of view of both sides.

use std::time::{Duration, Instant};

use bmi::{Error, Post};

use crate::bed::{Bed, End, LIMIT, pending};

/// Sends a greeting as soon as the daemon is back.
fn greet(client: &End) {
    let began = Instant::now();
    loop {
        let buffer = bmi::Buffer::from(&b"again"[..]);
        let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
        let post = bmi.post_send_unexpected(context, peer, buffer, bmi::Tag(5), bmi::Class(0), 0);
        match post {
            Ok(Post::Immediate(..)) => return,
            Ok(Post::Pending(op)) => {
                assert_eq!(client.wait(op).result, Ok(5));
                return;
            }
            Err(refused) => assert_eq!(refused.error, Error::ConnReset),
        }
        assert!(began.elapsed() < LIMIT);
    }
}

// [DEATH-20]
#[test]
fn the_servers_operations_fail_with_the_daemon_and_the_next_one_serves_both_sides() {
    let mut bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive_into(1, 8));
    let kept = server.memory(64);
    let queued = pending(client.receive_into(2, 8));
    bed.restart();
    let failed = server.wait(op).result;
    assert!(matches!(failed, Err(Error::NetDown | Error::NetReset)));
    drop(kept);
    std::thread::scope(|scope| {
        scope.spawn(|| greet(&client));
        let began = Instant::now();
        let message = loop {
            let found = server
                .bmi
                .test_unexpected(bmi::Class(0), 1, Duration::from_millis(50));
            if let Some(message) = found.unwrap().pop() {
                break message;
            }
            assert!(began.elapsed() < LIMIT);
        };
        assert_eq!(&*message.data, b"again");
        // Its counterpart, if there was one, was lost with the daemon.
        assert_eq!(client.wait(queued).result, Err(Error::NetReset));
        let again = pending(client.receive_into(2, 8));
        let (bmi, context) = (&server.bmi, server.context);
        let post = bmi.post_send(context, message.from, vec![4; 8], bmi::Tag(2), 0);
        let sent = post.unwrap();
        assert_eq!(client.wait(again).result, Ok(8));
        assert_eq!(server.finish(sent).0, Ok(8));
    });
}
