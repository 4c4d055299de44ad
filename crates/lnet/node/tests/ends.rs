//! Tests the two ends for the common case between real nodes: what arrives, and what each error says.

mod common;

use std::net::TcpListener;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lnet_node::{
    Access, Address, EventKind, Inbox, Initiator, MatchEntry, Md, MdOptions, Node, NodeError,
    OperationError, WaitError, Window,
};
use lnet_types::ProcessId;

use common::{PATIENCE, nid, start};

const PORTAL: u32 = 40;
const BITS: u64 = 7;
const SHORT: Duration = Duration::from_millis(300);

fn two() -> (Node, Node) {
    let port = testkit::port();
    let [from, to] = ["127.0.0.1@tcp", "127.0.0.2@tcp"].map(|nid| start(port, &[nid], &[]));
    (from, to)
}

fn address(of: &Node) -> Address {
    Address::new(of.primary_nid(), PORTAL, BITS)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

#[test]
fn a_put_arrives_in_an_inbox_with_its_bits_its_number_and_its_sender() {
    let (from, to) = two();
    let mut inbox = Inbox::new(&to, PORTAL, 100).unwrap();
    let mut initiator = Initiator::new(&from);
    initiator.put(address(&to), &b"first"[..]).unwrap();
    initiator.put_with(address(&to), Vec::new(), 99).unwrap();
    let first = inbox.next(Some(PATIENCE)).unwrap();
    assert_eq!(
        (&first.data[..], first.length, first.match_bits),
        (&b"first"[..], 5, BITS)
    );
    assert_eq!(first.from, ProcessId::lustre(from.primary_nid()));
    let second = inbox.next(Some(PATIENCE)).unwrap();
    assert_eq!((second.data.len(), second.hdr_data), (0, 99));
    assert_eq!(inbox.next(Some(Duration::ZERO)), Err(WaitError::TimedOut));
    to.shutdown(PATIENCE);
    assert_eq!(inbox.next(None), Err(WaitError::Closed));
}

#[test]
fn messages_wait_for_a_slow_program_and_keep_their_order() {
    let (from, to) = two();
    let mut inbox = Inbox::new(&to, PORTAL, 100).unwrap();
    let target = address(&to);
    let sender = thread::spawn(move || {
        let mut initiator = Initiator::new(&from);
        (0..100).for_each(|number| initiator.put_with(target, &b"x"[..], number).unwrap());
        from
    });
    // As many as the inbox has buffers are acknowledged; the next one waits.
    let node = to.clone();
    testkit::eventually("all buffers are full", || node.stats().recv_count >= 16);
    for number in 0..100 {
        assert_eq!(inbox.next(Some(PATIENCE)).unwrap().hdr_data, number);
    }
    sender.join().unwrap();
}

#[test]
fn a_message_that_is_too_long_for_the_inbox_is_no_secret_to_either_end() {
    let (from, to) = two();
    let mut inbox = Inbox::new(&to, PORTAL, 4).unwrap();
    let failed = Initiator::new(&from)
        .put(address(&to), &b"longer"[..])
        .unwrap_err();
    let short = OperationError::Short {
        to: address(&to),
        got: 4,
        wanted: 6,
    };
    assert_eq!(failed, short);
    assert_eq!(
        failed.to_string(),
        "127.0.0.2@tcp took or gave 4 of 6 bytes: its memory there ends behind them"
    );
    let message = inbox.next(Some(PATIENCE)).unwrap();
    assert_eq!((&message.data[..], message.length), (&b"long"[..], 6));
}

#[test]
fn a_window_takes_and_gives_more_than_one_message_carries() {
    let (from, to) = two();
    let mut window = Window::writable(&to, PORTAL, BITS, vec![0; 5 << 20]).unwrap();
    let mut initiator = Initiator::new(&from);
    let data = pattern((3 << 20) + 5);
    initiator.write(address(&to), 1000, data.clone()).unwrap();
    assert_eq!(
        initiator.read(address(&to), 1000, data.len()).unwrap(),
        data
    );
    assert_eq!(initiator.read(address(&to), 999, 2).unwrap(), [0, data[0]]);
    let access = window.next(Some(PATIENCE)).unwrap();
    let first = Access {
        from: ProcessId::lustre(from.primary_nid()),
        is_write: true,
        offset: 1000,
        length: 1 << 20,
    };
    assert_eq!(access, first);
    let memory = window.close().unwrap();
    assert_eq!(memory.len(), 5 << 20);
    assert!(memory[1000..1000 + data.len()] == data);
}

#[test]
fn beyond_the_end_of_a_window_there_is_nothing_to_read_or_write() {
    let (from, to) = two();
    let _window = Window::writable(&to, PORTAL, BITS, vec![1; 10]).unwrap();
    let mut initiator = Initiator::new(&from);
    let short = |got, wanted| OperationError::Short {
        to: address(&to),
        got,
        wanted,
    };
    assert_eq!(initiator.read(address(&to), 8, 4), Err(short(2, 4)));
    assert_eq!(
        initiator.write(address(&to), 10, &b"xy"[..]),
        Err(short(0, 2))
    );
    assert_eq!(initiator.read(address(&to), u32::MAX, 1), Err(short(0, 1)));
    assert_eq!(initiator.read(address(&to), 3, 0), Ok(Vec::new()));
}

#[test]
fn what_nobody_accepts_fails_with_the_advice_to_ping() {
    let (from, to) = two();
    let mut initiator = Initiator::new(&from).with_timeout(SHORT);
    let window = Window::read_only(&to, PORTAL, BITS, &b"bytes"[..]).unwrap();
    assert_eq!(initiator.read(address(&to), 0, 5).unwrap(), b"bytes");
    let refused = initiator.write(address(&to), 0, &b"x"[..]).unwrap_err();
    assert!(
        matches!(refused, OperationError::NoAnswer { length: 1, .. }),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("nothing accepts 1 byte there on portal 40 with match bits 0x7"),
        "{text}"
    );
    drop(window);
    let begun = Instant::now();
    assert!(initiator.read(address(&to), 0, 5).is_err());
    assert!(begun.elapsed() < PATIENCE);
    // A node goes on after failures.
    let _window = Window::read_only(&to, PORTAL, BITS, &b"again"[..]).unwrap();
    assert_eq!(initiator.read(address(&to), 0, 5).unwrap(), b"again");
}

#[test]
fn a_peer_that_stands_still_holds_a_call_no_longer_than_its_timeout() {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    // Accepts a connection, and neither reads nor says anything.
    let _still = TcpListener::bind(("127.0.0.3", port)).unwrap();
    let mut initiator = Initiator::new(&node).with_timeout(SHORT);
    let still = Address::new(nid("127.0.0.3@tcp"), PORTAL, BITS);
    let failed = initiator.write(still, 0, vec![0; 3 << 20]).unwrap_err();
    assert!(
        matches!(failed, OperationError::NoAnswer { .. }),
        "{failed}"
    );
    assert!(
        !node.look(|engine| engine.core().is_idle()),
        "the LND still tries"
    );
}

#[test]
fn a_net_without_a_path_is_named_at_once() {
    let (from, _to) = two();
    let far = Address::new(nid("10.0.0.1@tcp7"), PORTAL, BITS);
    let failed = Initiator::new(&from).put(far, &b"x"[..]).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "no path to 10.0.0.1@tcp7: this node has no interface on tcp7 and no route to tcp7; add an interface or a route"
    );
}

#[test]
fn a_node_that_does_not_run_is_named_with_the_error_of_the_dial() {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let mut initiator = Initiator::new(&node);
    let nobody = Address::new(nid("127.0.0.77@tcp"), PORTAL, BITS);
    // The first attempt, and those that follow the failure.
    for _ in 0..3 {
        let failed = initiator.read(nobody, 0, 5).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "127.0.0.77@tcp cannot be reached: Connection refused (os error 111); does a node run there, on the same port?"
        );
    }
}

#[test]
fn calls_with_bad_arguments_or_after_the_end_are_refused() {
    let (from, to) = two();
    let mut initiator = Initiator::new(&from);
    let long = vec![0; (1 << 20) + 1];
    let failed = initiator.put(address(&to), long).unwrap_err();
    assert_eq!(failed, OperationError::TooLong((1 << 20) + 1));
    for portal in [0, 64, u32::MAX] {
        let wrong = Address::new(to.primary_nid(), portal, BITS);
        let said = [
            initiator.put(wrong, &b"x"[..]).unwrap_err().to_string(),
            initiator.read(wrong, 0, 1).unwrap_err().to_string(),
        ];
        let why = format!("portal {portal} cannot be used: those of programs are 1 to 63");
        assert_eq!(said, [why.clone(), why]);
    }
    assert!(Inbox::new(&to, 64, 10).is_err());
    assert!(Window::read_only(&to, 64, BITS, &b""[..]).is_err());
    from.shutdown(PATIENCE);
    let failed = initiator.put(address(&to), &b"x"[..]).unwrap_err();
    assert_eq!(failed, OperationError::Node(NodeError::ShutDown));
}

/// Wakes the thread that runs a task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn a_task_gets_each_event_and_the_end() {
    let (from, to) = two();
    let queue = to.event_queue();
    let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
    let sink = Md::sink(vec![0; 10]).options(options);
    to.attach(&queue, MatchEntry::exact(PORTAL, BITS), sink)
        .unwrap();
    let target = address(&to);
    let sender = thread::spawn(move || {
        let mut initiator = Initiator::new(&from);
        for number in 0..50 {
            initiator.put_with(target, &b"x"[..], number).unwrap();
        }
    });
    let numbers = block_on(async {
        let mut numbers = Vec::new();
        while numbers.len() < 50 {
            let event = queue.next().await.unwrap().event;
            assert_eq!(event.kind, EventKind::Put);
            numbers.push(event.hdr_data);
        }
        numbers
    });
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    sender.join().unwrap();
    let ending = to.clone();
    let ender = thread::spawn(move || ending.shutdown(PATIENCE));
    let end = block_on(async {
        loop {
            if let Err(end) = queue.next().await {
                return end;
            }
        }
    });
    assert_eq!(end, WaitError::Closed);
    ender.join().unwrap();
}
