//! Peers that break the protocol or leave: their connection is closed and counted, and no other peer is
//! affected.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bmi::tcp::{Counter, Counters, Tcp, Violation};
use bmi::{Address, Bmi, Class, ContextId, Error, Post, Question, Tag};

const LIMIT: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(10);

struct Server {
    bmi: Bmi,
    context: ContextId,
    counters: Arc<Counters>,
}

impl Server {
    fn new() -> Server {
        Server::with(Tcp::new())
    }

    fn with(tcp: Tcp) -> Server {
        let counters = tcp.counters();
        let bmi = Bmi::builder()
            .method(tcp)
            .listen("tcp://127.0.0.1:0")
            .start()
            .unwrap();
        let context = bmi.open_context().unwrap();
        Server {
            bmi,
            context,
            counters,
        }
    }

    fn port(&self) -> u16 {
        self.bmi.get(None, Question::TcpPort).unwrap() as u16
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket
    }

    /// Tests until the condition holds.
    fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            let found = self.bmi.test_context(self.context, 1, NAP).unwrap();
            assert!(found.is_empty());
            assert!(Instant::now() < deadline, "{what}");
        }
    }
}

fn frame(kind: u8, class: u8, tag: i32, length: u64, token: u64) -> Vec<u8> {
    let mut bytes = vec![kind, class, 0xB3, 0x17];
    bytes.extend(tag.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(token.to_le_bytes());
    bytes
}

fn hello() -> Vec<u8> {
    frame(1, 0, 2, 0, 0)
}

/// A request of the original BMI: magic, mode, tag and size in 24 bytes.
fn original() -> Vec<u8> {
    let mut bytes = 51903_u32.to_le_bytes().to_vec();
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(7_u64.to_le_bytes());
    bytes.extend(8_u64.to_le_bytes());
    bytes
}

// [TCP-7]
#[test]
fn a_peer_that_closes_without_a_greeting_is_noticed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = Tcp::new();
    let counters = tcp.counters();
    let bmi = Bmi::builder().method(tcp).start().unwrap();
    let context = bmi.open_context().unwrap();
    let peer = bmi.lookup(&format!("tcp://{}", listener.local_addr().unwrap()));
    let peer = peer.unwrap();
    let post = bmi.post_receive(context, peer, vec![0; 8], Tag(1), 0);
    let Ok(Post::Pending(receive)) = post else {
        panic!("nothing was sent yet: {post:?}");
    };
    let _dials = bmi.post_send(context, peer, vec![0; 8], Tag(1), 0);
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 24]).unwrap();
    });
    let done = bmi.test(receive, LIMIT).unwrap().unwrap();
    assert_eq!(done.result, Err(Error::ConnReset));
    assert_eq!(counters.count(Counter::Unanswered), 1);
}

/// Returns the kind of the first frame that a silent peer receives for a message.
fn first_kind(len: usize) -> u8 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bmi = Bmi::builder().method(Tcp::new()).start().unwrap();
    let context = bmi.open_context().unwrap();
    let peer = bmi.lookup(&format!("tcp://{}", listener.local_addr().unwrap()));
    let post = bmi.post_send(context, peer.unwrap(), vec![0; len], Tag(1), 0);
    assert!(post.is_ok(), "{post:?}");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut frames = [0; 48];
        socket.read_exact(&mut frames).unwrap();
        sender.send(frames[24]).unwrap();
        // Reads until the other side closes the connection.
        let _ends = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline);
        let _maybe_sent = bmi.test_context(context, 1, NAP).unwrap();
        if let Ok(kind) = receiver.try_recv() {
            return kind;
        }
    }
}

// [TCP-10]
#[test]
fn messages_up_to_the_measured_bound_are_sent_without_asking() {
    for len in [0, 16 << 10, (16 << 10) + 1, 512 << 10, 1 << 20] {
        assert_eq!(first_kind(len), 2, "{len}");
    }
    assert_eq!(first_kind((1 << 20) + 1), 4);
}

// [TCP-2] [TCP-5] [TCP-6] [TCP-13] [TCP-20] [TCP-21]
#[test]
fn each_violation_closes_its_connection_and_is_counted() {
    let greeted = |rest: Vec<u8>| [hello(), rest].concat();
    let eager: Vec<u8> = (0..5)
        .flat_map(|_| [frame(2, 0, 1, 1 << 20, 0), vec![0; 1 << 20]].concat())
        .collect();
    let cases = [
        (vec![b'G'; 24], Violation::NotAFrame),
        (original(), Violation::Foreign),
        (greeted(original()), Violation::Foreign),
        (frame(2, 0, 1, 0, 0), Violation::Greeting),
        (frame(1, 0, 1, 0, 0), Violation::Version),
        (frame(1, 0, 2, 0, 1 << 20), Violation::Greeting),
        (greeted(hello()), Violation::Greeting),
        (
            greeted(frame(2, 0, 1, (1 << 20) + 1, 0)),
            Violation::TooLong,
        ),
        (greeted(frame(3, 0, 1, 8193, 0)), Violation::TooLong),
        (
            greeted(frame(4, 0, 1, (128 << 20) + 1, 1)),
            Violation::TooLong,
        ),
        (greeted(frame(4, 0, 1, u64::MAX, 1)), Violation::TooLong),
        (greeted(eager), Violation::Overdrawn),
        (greeted(frame(5, 0, 0, 1, 99)), Violation::Token),
        (greeted(frame(7, 0, 0, 1, 99)), Violation::Token),
        (greeted(frame(9, 0, 0, 1, 0)), Violation::Credit),
        (greeted(frame(9, 2, 0, 0, 0)), Violation::Credit),
        (greeted(frame(9, 0, 0, u64::MAX, 0)), Violation::Credit),
    ];
    let server = Server::new();
    for (bytes, violation) in cases {
        let before = server.counters.violations(violation);
        let mut socket = server.connect();
        let mut writer = socket.try_clone().unwrap();
        // The server may close before it has read everything.
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        server.until("the violation is counted", || {
            server.counters.violations(violation) == before + 1
        });
        let _ = socket.read_to_end(&mut Vec::new());
        let _ = writing.join().unwrap();
    }
}

/// Returns the socket of a peer that the server knows by an unexpected message, and the peer's address.
fn acquainted(server: &Server) -> (TcpStream, Address) {
    let mut socket = server.connect();
    let bytes = [hello(), frame(3, 0, 0, 0, 0)].concat();
    socket.write_all(&bytes).unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut found = server.bmi.test_unexpected(Class(0), 1, NAP).unwrap();
        if let Some(message) = found.pop() {
            return (socket, message.from);
        }
        assert!(Instant::now() < deadline);
    }
}

// [TCP-12]
#[test]
fn a_token_that_comes_again_is_a_violation_and_loses_no_operation() {
    let server = Server::new();
    let (mut socket, peer) = acquainted(&server);
    let mut posted = Vec::new();
    for user in 0..2 {
        let post = server
            .bmi
            .post_receive(server.context, peer, vec![0; 1 << 20], Tag(1), user);
        let Post::Pending(op) = post.unwrap() else {
            panic!("nothing was sent yet");
        };
        posted.push(op);
    }
    let request = frame(4, 0, 1, 1 << 20, 5);
    socket
        .write_all(&[request.clone(), request].concat())
        .unwrap();
    for op in posted {
        let done = server.bmi.test(op, LIMIT).unwrap();
        let done = done.expect("the operation ends with its connection");
        assert_eq!(done.result, Err(Error::Proto));
    }
    assert_eq!(server.counters.violations(Violation::Token), 1);
}

// [TCP-22]
#[test]
fn a_peer_that_asks_without_end_and_never_listens_is_closed() {
    let server = Server::new();
    let (mut socket, peer) = acquainted(&server);
    let post = server
        .bmi
        .post_receive(server.context, peer, vec![0; 1 << 20], Tag(1), 0);
    let Post::Pending(op) = post.unwrap() else {
        panic!("nothing was sent yet");
    };
    let writing = std::thread::spawn(move || {
        // Each round makes the server queue an answer. The server must limit the number of queued answers.
        (1..).step_by(1 << 10).find(|&first| {
            let rounds = (first..first + (1 << 10)).flat_map(|token| {
                [frame(4, 0, 1, 1 << 20, token), frame(8, 0, 1, 0, token)].concat()
            });
            socket.write_all(&rounds.collect::<Vec<u8>>()).is_err()
        })
    });
    let done = server.bmi.test(op, LIMIT).unwrap();
    let done = done.expect("the operation ends with its connection");
    assert_eq!(done.result, Err(Error::Proto));
    assert_eq!(server.counters.violations(Violation::Overdrawn), 1);
    writing.join().unwrap();
}

// [TCP-20]
#[test]
fn unexpected_messages_beyond_the_window_are_a_violation() {
    let server = Server::new();
    let mut socket = server.connect();
    let mut bytes = hello();
    for _ in 0..=(1 << 20) / 64 {
        bytes.extend(frame(3, 0, 0, 0, 0));
    }
    let writing = std::thread::spawn(move || {
        let _ = socket.write_all(&bytes);
        let _ = socket.read_to_end(&mut Vec::new());
    });
    server.until("the violation is counted", || {
        server.counters.violations(Violation::Overdrawn) == 1
    });
    writing.join().unwrap();
    // Messages that arrived within the window were accepted.
    let found = server.bmi.test_unexpected(Class(0), 100_000, NAP).unwrap();
    assert_eq!(found.len(), (1 << 20) / 64);
}

// [TCP-23]
#[test]
fn a_peer_that_comes_again_and_again_is_not_given_memory_each_time() {
    let server = Server::with(Tcp::new().held_limit(1 << 20));
    let messages = |count: usize| {
        let message = [frame(3, 0, 0, 8192, 0), vec![0; 8192]].concat();
        [hello(), message.repeat(count)].concat()
    };
    // What the peer sends over each connection is within the window.
    let mut left = Vec::new();
    for round in 1.. {
        let mut socket = server.connect();
        let writing = std::thread::spawn(move || {
            let _ = socket.write_all(&messages(40));
            let _ = socket.shutdown(Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        });
        left.push(writing);
        server.until("the message arrived or was rejected", || {
            left.iter().all(std::thread::JoinHandle::is_finished)
        });
        if server.counters.violations(Violation::Overdrawn) > 0 {
            assert_eq!(round, 4);
            break;
        }
    }
    let found = server.bmi.test_unexpected(Class(0), 100_000, NAP).unwrap();
    assert_eq!(found.len(), (1 << 20) / (8192 + 64));
    // The program has collected the messages, so there is room for the next ones.
    let mut socket = server.connect();
    socket.write_all(&messages(1)).unwrap();
    let deadline = Instant::now() + LIMIT;
    while server
        .bmi
        .test_unexpected(Class(0), 1, NAP)
        .unwrap()
        .is_empty()
    {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(server.counters.violations(Violation::Overdrawn), 1);
}

// [TCP-8]
#[test]
fn a_frame_may_come_in_single_bytes() {
    let server = Server::new();
    let mut socket = server.connect();
    socket.set_nodelay(true).unwrap();
    for byte in [hello(), frame(3, 7, -5, 3, 0), b"abc".to_vec()].concat() {
        socket.write_all(&[byte]).unwrap();
        let found = server
            .bmi
            .test_unexpected(Class(8), 1, Duration::ZERO)
            .unwrap();
        assert!(found.is_empty());
    }
    let deadline = Instant::now() + LIMIT;
    let mut found = Vec::new();
    while found.is_empty() {
        found = server.bmi.test_unexpected(Class(7), 1, NAP).unwrap();
        assert!(Instant::now() < deadline);
    }
    assert_eq!((found[0].tag, &*found[0].data), (Tag(-5), &b"abc"[..]));
}

// [TCP-30]
#[test]
fn a_lost_connection_fails_what_was_in_flight_and_the_next_send_dials_again() {
    let server = Server::new();
    let client = Bmi::builder().method(Tcp::new()).start().unwrap();
    let context = client.open_context().unwrap();
    let to = client
        .lookup(&format!("tcp://127.0.0.1:{}", server.port()))
        .unwrap();
    for round in 0..2 {
        let receive = client
            .post_receive(context, to, vec![0; 10], Tag(1), 1)
            .unwrap();
        let large = client
            .post_send(context, to, vec![0; 2 << 20], Tag(2), 2)
            .unwrap();
        assert!(matches!(receive, Post::Pending(_)) && matches!(large, Post::Pending(_)));
        let sent = client.post_send_unexpected(context, to, vec![round], Tag(3), Class(0), 3);
        let expected = 2 + usize::from(matches!(sent.unwrap(), Post::Pending(_)));
        let hello = loop {
            client.test_context(context, 0, Duration::ZERO).unwrap();
            let mut found = server.bmi.test_unexpected(Class(0), 1, NAP).unwrap();
            if let Some(hello) = found.pop() {
                break hello;
            }
        };
        assert_eq!(&*hello.data, &[round]);
        server
            .bmi
            .set(Some(hello.from), &bmi::Setting::CloseConnection)
            .unwrap();
        assert_eq!(
            server.bmi.get(Some(hello.from), Question::IsDisconnected),
            Ok(1)
        );
        let rejected = server
            .bmi
            .post_send(server.context, hello.from, vec![1], Tag(1), 0);
        assert_eq!(rejected.unwrap_err().error, Error::ConnReset);
        let mut ended = Vec::new();
        let deadline = Instant::now() + LIMIT;
        while ended.len() < expected {
            ended.extend(client.test_context(context, 8, NAP).unwrap());
            assert!(Instant::now() < deadline, "{ended:?}");
        }
        for done in ended.iter().filter(|done| done.user < 3) {
            assert_eq!(done.result, Err(Error::ConnReset));
        }
    }
}

// [TCP-33]
#[test]
fn nobody_listening_is_a_refused_connection() {
    let port = Server::new().port();
    let client = Bmi::builder().method(Tcp::new()).start().unwrap();
    let context = client.open_context().unwrap();
    let to = client.lookup(&format!("tcp://127.0.0.1:{port}")).unwrap();
    let error = match client.post_send(context, to, vec![1], Tag(1), 0) {
        Err(rejected) => rejected.error,
        Ok(Post::Pending(op)) => client.test(op, LIMIT).unwrap().unwrap().result.unwrap_err(),
        Ok(Post::Immediate(..)) => panic!("the peer does not exist"),
    };
    assert_eq!(error, Error::ConnRefused);
}

// [TCP-31]
#[test]
fn what_was_sent_before_the_sender_left_is_received() {
    let server = Server::new();
    let client = Bmi::builder().method(Tcp::new()).start().unwrap();
    let context = client.open_context().unwrap();
    let to = client
        .lookup(&format!("tcp://127.0.0.1:{}", server.port()))
        .unwrap();
    for post in [
        client.post_send_unexpected(context, to, b"hello".to_vec(), Tag(0), Class(0), 0),
        client.post_send(context, to, b"last words".to_vec(), Tag(1), 0),
    ] {
        if let Post::Pending(op) = post.unwrap() {
            assert!(client.test(op, LIMIT).unwrap().unwrap().result.is_ok());
        }
    }
    client.finalize();
    let hello = loop {
        let mut found = server.bmi.test_unexpected(Class(0), 1, NAP).unwrap();
        if let Some(hello) = found.pop() {
            break hello;
        }
    };
    server.until("the end of the connection", || {
        server.bmi.get(Some(hello.from), Question::IsDisconnected) == Ok(1)
    });
    let post = server
        .bmi
        .post_receive(server.context, hello.from, vec![0; 20], Tag(1), 0);
    let Post::Immediate(len, payload) = post.unwrap() else {
        panic!("the message had arrived");
    };
    assert_eq!(&payload.into_buffer()[..len], b"last words");
}

// [TCP-3] [TCP-4]
#[test]
fn two_servers_talk_in_both_directions_as_one_peer_each() {
    let (one, two) = (Server::new(), Server::new());
    let name = |server: &Server| format!("tcp://127.0.0.1:{}", server.port());
    let to_two = one.bmi.lookup(&name(&two)).unwrap();
    let to_one = two.bmi.lookup(&name(&one)).unwrap();
    let receives = [
        one.bmi
            .post_receive(one.context, to_two, vec![0], Tag(1), 0)
            .unwrap(),
        two.bmi
            .post_receive(two.context, to_one, vec![0], Tag(1), 0)
            .unwrap(),
    ];
    let sends = [
        one.bmi
            .post_send(one.context, to_two, vec![1], Tag(1), 0)
            .unwrap(),
        two.bmi
            .post_send(two.context, to_one, vec![2], Tag(1), 0)
            .unwrap(),
    ];
    let mut pending = receives
        .iter()
        .chain(&sends)
        .filter(|p| matches!(p, Post::Pending(_)))
        .count();
    let deadline = Instant::now() + LIMIT;
    while pending > 0 {
        for server in [&one, &two] {
            let found = server.bmi.test_context(server.context, 4, NAP).unwrap();
            assert!(found.iter().all(|done| done.result == Ok(1)));
            pending -= found.len();
        }
        assert!(Instant::now() < deadline);
    }
}

// [TCP-5]
#[test]
fn a_connection_that_says_nothing_disturbs_nobody() {
    let server = Server::new();
    let mute = server.connect();
    server.until("the connection was accepted", || {
        server.counters.count(Counter::Accepted) == 1
    });
    mute.shutdown(Shutdown::Both).unwrap();
    let mut socket = server.connect();
    socket
        .write_all(&[hello(), frame(3, 0, 1, 0, 0)].concat())
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    while server
        .bmi
        .test_unexpected(Class(0), 1, NAP)
        .unwrap()
        .is_empty()
    {
        assert!(Instant::now() < deadline);
    }
}
