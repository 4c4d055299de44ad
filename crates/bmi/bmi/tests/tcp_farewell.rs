//! A process that finalizes right after its sends have completed: its peer still receives them.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{Address, Bmi, Class, ContextId, Error, Post, Question, Tag};

const LIMIT: Duration = Duration::from_secs(30);
/// Short enough to be sent without a request, long enough to exceed the receive buffer of a new connection.
const LENGTHS: [usize; 3] = [200_000, 600_000, 1 << 20];
/// What the buffer of a Unix-domain socket takes.
const LOCAL_LENGTHS: [usize; 2] = [1, 100_000];
const ROUNDS: usize = 5;

fn server(listen: &str) -> Bmi {
    let builder = Bmi::builder().method(Tcp::new());
    builder.listen(listen).start().unwrap()
}

fn finish(bmi: &Bmi, post: Post) -> Result<usize, Error> {
    match post {
        Post::Immediate(count, _) => Ok(count),
        Post::Pending(op) => bmi.test(op, LIMIT).unwrap().expect("no end").result,
    }
}

fn send(bmi: &Bmi, context: ContextId, to: Address, len: usize) {
    let post = bmi.post_send(context, to, vec![7; len], Tag(5), 0);
    assert_eq!(finish(bmi, post.unwrap()), Ok(len));
}

/// Finalizes the sender in a thread of its own, and receives its message once the sender takes no more calls.
fn part(sender: Bmi, receiver: &Bmi, context: ContextId, from: Address, len: usize) {
    let sender = Arc::new(sender);
    let ending = Arc::clone(&sender);
    let ends = std::thread::spawn(move || ending.finalize());
    while sender.open_context() != Err(Error::NetDown) {
        std::thread::yield_now();
    }
    let post = receiver.post_receive(context, from, vec![0; len], Tag(5), 0);
    assert_eq!(finish(receiver, post.unwrap()), Ok(len));
    ends.join().unwrap();
}

/// Connects a client with a server. Returns the client's and the server's view of the other.
fn connected(listen: &str) -> (Bmi, ContextId, Address, Bmi, ContextId, Address) {
    let server = server(listen);
    let port = server.get(None, Question::TcpPort).unwrap();
    let client = Bmi::builder().method(Tcp::new()).start().unwrap();
    let own = client.open_context().unwrap();
    let address = match port {
        0 => listen.to_owned(),
        port => format!("tcp://127.0.0.1:{port}"),
    };
    let to = client.lookup(&address).unwrap();
    let post = client.post_send_unexpected(own, to, vec![1], Tag(1), Class(0), 0);
    assert_eq!(finish(&client, post.unwrap()), Ok(1));
    let from = server.test_unexpected(Class(0), 1, LIMIT).unwrap()[0].from;
    let context = server.open_context().unwrap();
    (client, own, to, server, context, from)
}

/// Either side of a connection sends and finalizes.
fn both_sides(lengths: &[usize], listen: impl Fn() -> String) {
    for &len in lengths {
        for _ in 0..ROUNDS {
            let (client, own, to, server, context, from) = connected(&listen());
            send(&client, own, to, len);
            part(client, &server, context, from, len);

            let (client, own, to, server, context, from) = connected(&listen());
            send(&server, context, from, len);
            part(server, &client, own, to, len);
        }
    }
}

// [TCP-32]
#[test]
fn a_completed_send_arrives_although_the_sender_finalizes() {
    both_sides(&LENGTHS, || "tcp://127.0.0.1:0".to_owned());
}

#[test]
fn a_completed_send_arrives_although_the_sender_on_this_machine_finalizes() {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let directory = std::env::temp_dir();
    both_sides(&LOCAL_LENGTHS, || {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("finerail-farewell.{}.{number}", std::process::id());
        format!("tcp://unix:{}/{name}", directory.display())
    });
}

/// One of two servers: sends a byte, receives one, and finalizes.
fn exchange(own: &Bmi, peer: &str, start: &Barrier) -> Result<usize, Error> {
    let context = own.open_context().unwrap();
    let to = own.lookup(peer).unwrap();
    start.wait();
    send(own, context, to, 1);
    let post = own.post_receive(context, to, vec![0; 1], Tag(5), 0);
    let result = finish(own, post.unwrap());
    own.finalize();
    result
}

// [TCP-31]
#[test]
fn two_servers_that_end_together_receive_each_others_last_message() {
    for round in 0..200 {
        let servers = [server("tcp://127.0.0.1:0"), server("tcp://127.0.0.1:0")];
        let ports = [0, 1].map(|at: usize| servers[at].get(None, Question::TcpPort).unwrap());
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = format!("tcp://127.0.0.1:{}", ports[1]);
            let (first, start) = (&servers[0], &start);
            let first = scope.spawn(move || exchange(first, &other, start));
            let other = format!("tcp://127.0.0.1:{}", ports[0]);
            assert_eq!(exchange(&servers[1], &other, start), Ok(1), "round {round}");
            assert_eq!(first.join().unwrap(), Ok(1), "round {round}");
        });
    }
}

// [TCP-32]
#[test]
fn a_peer_that_reads_nothing_does_not_keep_the_sender_for_ever() {
    let (client, own, to, server, context, from) = connected("tcp://127.0.0.1:0");
    send(&client, own, to, 1 << 20);
    client.finalize();
    // The kernel goes on with what it has accepted, until the receiver returns window to nobody.
    let post = server.post_receive(context, from, vec![0; 1 << 20], Tag(5), 0);
    let result = finish(&server, post.unwrap());
    assert!(
        [Ok(1 << 20), Err(Error::ConnReset)].contains(&result),
        "{result:?}"
    );
}
