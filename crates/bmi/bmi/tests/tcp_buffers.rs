//! Sockets whose buffers are much smaller than the messages.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{Bmi, Class, Post, Question, Setting, Tag};

/// Far more than it takes, and less than it took when each segment waited for a delayed acknowledgement.
const LIMIT: Duration = Duration::from_secs(15);
const LEN: usize = 4 << 20;

fn shrink(bmi: &Bmi, len: usize) {
    let settings = [Setting::TcpSendBuffer(len), Setting::TcpReceiveBuffer(len)];
    for setting in settings {
        bmi.set(None, &setting).unwrap();
    }
}

/// Sends a message in both directions, each with a receive that was posted before.
fn exchange(len: usize) {
    let server = Bmi::builder().method(Tcp::new()).listen("tcp://127.0.0.1");
    let server = server.start().unwrap();
    let port = server.get(None, Question::TcpPort).unwrap();
    let client = Bmi::builder().method(Tcp::new()).start().unwrap();
    let to = client.lookup(&format!("tcp://127.0.0.1:{port}")).unwrap();
    shrink(&server, len);
    shrink(&client, len);
    let (own, context) = (
        client.open_context().unwrap(),
        server.open_context().unwrap(),
    );
    let hello = client.post_send_unexpected(own, to, vec![1], Tag(1), Class(0), 0);
    if let Post::Pending(op) = hello.unwrap() {
        client.test(op, LIMIT).unwrap().expect("no greeting");
    }
    let from = server.test_unexpected(Class(0), 1, LIMIT).unwrap()[0].from;
    let ends = [
        (&client, own, to, &server, context, from),
        (&server, context, from, &client, own, to),
    ];
    for (sender, sends, to, receiver, receives, from) in ends {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let post = sender.post_send(sends, to, vec![7; LEN], Tag(2), 0);
                if let Post::Pending(op) = post.unwrap() {
                    sender.test(op, LIMIT).unwrap().expect("not sent");
                }
            });
            let post = receiver.post_receive(receives, from, vec![0; LEN], Tag(2), 0);
            if let Post::Pending(op) = post.unwrap() {
                let done = receiver.test(op, LIMIT).unwrap().expect("not received");
                assert_eq!(done.result, Ok(LEN));
            }
        });
    }
}

// [TCP-9]
#[test]
fn long_messages_pass_through_small_buffers() {
    for len in [4 << 10, 8 << 10, 64 << 10] {
        exchange(len);
    }
}
