//! Tests operations and events by the hundred: none is lost, and order and errors are those of single calls.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::VecDeque;
use std::time::Duration;

use lnet_node::{
    EventKind, EventQueue, GetRequest, ManyError, MatchEntry, Md, MdHandle, MdOptions, Node,
    NodeError, NodeEvent, PortalError, PutRequest, WaitError,
};
use lnet_types::ProcessId;
use sys::span::Span;

use common::{PATIENCE, start, start_caller};

const PORTAL: u32 = 40;
const BITS: u64 = 7;
const COUNT: usize = 500;

fn put(md: MdHandle, to: &Node, hdr_data: u64) -> PutRequest {
    PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(to.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data,
    }
}

/// Takes events until there are `count`.
fn take(queue: &EventQueue, count: usize) -> Vec<NodeEvent> {
    let mut taken = Vec::new();
    let mut events = VecDeque::new();
    while taken.len() < count {
        queue.wait_many(&mut events, Some(PATIENCE)).unwrap();
        assert!(!events.is_empty());
        taken.extend(events.drain(..));
    }
    assert_eq!(taken.len(), count);
    taken
}

fn sink(node: &Node, queue: &EventQueue) -> MdHandle {
    let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
    let room = Md::sink(vec![0; 64]).options(options);
    node.attach(queue, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap()
}

fn puts_arrive_in_order(from: &Node, to: &Node) {
    let (sent, arrived) = (from.event_queue(), to.event_queue());
    sink(to, &arrived);
    let md = from.bind(&sent, Md::source(vec![1; 64])).unwrap();
    let puts: Vec<_> = (0..COUNT).map(|n| put(md, to, n as u64)).collect();
    from.put_many(&puts).unwrap();
    // Both ends move on only while somebody waits, if callers drive.
    let of_sender = take(&sent, COUNT);
    assert!(of_sender.iter().all(|event| event.event.status.is_ok()));
    let numbers: Vec<_> = take(&arrived, COUNT)
        .iter()
        .map(|event| event.event.hdr_data)
        .collect();
    assert_eq!(numbers, (0..COUNT as u64).collect::<Vec<_>>());
}

#[test]
fn hundreds_of_puts_of_one_call_arrive_in_their_order() {
    let port = testkit::port();
    let from = start(port, &["127.0.0.1@tcp"], &[]);
    let to = start(port, &["127.0.0.2@tcp"], &[]);
    puts_arrive_in_order(&from, &to);
}

#[test]
fn hundreds_of_puts_arrive_in_their_order_if_callers_drive() {
    let port = testkit::port();
    let from = start_caller(port, &["127.0.0.1@tcp"]);
    let to = start(port, &["127.0.0.2@tcp"], &[]);
    puts_arrive_in_order(&from, &to);
}

#[test]
fn the_operations_in_front_of_a_rejected_one_have_begun() {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let (sent, arrived) = (node.event_queue(), node.event_queue());
    sink(&node, &arrived);
    let source = Md::source(vec![1; 8]).threshold(3);
    let md = node.bind(&sent, source).unwrap();
    let rejected = node.put_many(&[put(md, &node, 0); 5]).unwrap_err();
    let error = NodeError::Portal(PortalError::Exhausted);
    assert_eq!(rejected, ManyError { begun: 3, error });
    assert_eq!(
        rejected.to_string().split(':').next(),
        Some("operation 3 of the call, counted from 0")
    );
    take(&sent, 3);
    take(&arrived, 3);
    assert_eq!(node.put_many(&[]), Ok(()));
}

#[test]
fn many_gets_bring_what_single_gets_bring_and_need_a_sink() {
    let port = testkit::port();
    let client = start(port, &["127.0.0.1@tcp"], &[]);
    let server = start(port, &["127.0.0.2@tcp"], &[]);
    let (replies, served) = (client.event_queue(), server.event_queue());
    let options = MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
    let offered = Md::source(b"payload".to_vec()).options(options);
    server
        .attach(&served, MatchEntry::exact(PORTAL, BITS), offered)
        .unwrap();
    let get = |md| GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(server.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
    };
    let bind = |md: Md| client.bind(&replies, md).unwrap();
    let rooms: Vec<_> = (0..40)
        .map(|_| bind(Md::sink(vec![0; 7]).threshold(2)))
        .collect();
    let source = bind(Md::source(vec![0; 7]));
    let gets: Vec<_> = rooms.iter().map(|&md| get(md)).collect();
    client.get_many(&gets).unwrap();
    let mut events = take(&replies, 80);
    events.retain(|event| event.event.kind == EventKind::Reply);
    assert_eq!(events.len(), 40);
    for event in events {
        let memory = event.memory.map(lnet_node::Memory::into_vec);
        assert!(memory.is_none_or(|bytes| bytes == b"payload"));
    }
    let rejected = client.get_many(&[get(source)]).unwrap_err();
    let error = NodeError::NotWritable;
    assert_eq!(rejected, ManyError { begun: 0, error });
}

#[test]
fn a_drain_keeps_what_is_there_and_a_wait_for_many_ends_as_any_wait() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], &[]);
    let queue = node.event_queue();
    sink(&node, &queue);
    let md = node.bind(&queue, Md::source(vec![1; 8])).unwrap();
    let mut events = VecDeque::new();
    let nothing = queue.wait_many(&mut events, Some(Duration::from_millis(1)));
    assert_eq!(nothing, Err(WaitError::TimedOut));
    for number in 0..2 {
        node.put(put(md, &node, number)).unwrap();
        let due = events.len() + 2;
        testkit::eventually("both events of the message are taken", || {
            queue.drain(&mut events);
            events.len() == due
        });
    }
    let arrivals = events
        .iter()
        .filter(|event| event.event.kind == EventKind::Put);
    let numbers: Vec<_> = arrivals.map(|event| event.event.hdr_data).collect();
    assert_eq!(numbers, [0, 1]);
    node.shutdown(PATIENCE);
    events.clear();
    queue.drain(&mut events);
    assert_eq!(queue.wait_many(&mut events, None), Err(WaitError::Closed));
}

#[test]
fn memory_of_another_language_comes_back_when_nobody_moves_its_bytes() {
    let port = testkit::port();
    let from = start(port, &["127.0.0.1@tcp"], &[]);
    let to = start(port, &["127.0.0.2@tcp"], &[]);
    let (sent, arrived) = (from.event_queue(), to.event_queue());
    sink(&to, &arrived);
    let span = Span::from(vec![5; 64]);
    // A thread that moves bytes has a span of its own.
    let used = span.clone();
    let memory = Md::foreign(span.into()).threshold(1);
    let lent = from.bind(&sent, memory).unwrap();
    from.put(put(lent, &to, 1)).unwrap();
    take(&arrived, 1);
    let others = from.event_queue();
    let other = from.bind(&others, Md::source(vec![1; 8])).unwrap();
    from.put(put(other, &to, 2)).unwrap();
    take(&others, 1);
    assert!(sent.try_next().is_none());
    drop(used);
    from.put(put(other, &to, 3)).unwrap();
    let last = take(&sent, 1).remove(0);
    assert!(last.event.unlinked && last.event.status.is_ok());
    assert_eq!(last.memory.map(|memory| memory.len()), Some(64));
}

#[test]
fn a_node_that_stops_waits_for_the_threads_that_move_bytes_of_another_language() {
    for attached in [false, true] {
        let port = testkit::port();
        let from = start(port, &["127.0.0.1@tcp"], &[]);
        let to = start(port, &["127.0.0.2@tcp"], &[]);
        let (sent, arrived) = (from.event_queue(), to.event_queue());
        sink(&to, &arrived);
        let span = Span::from(vec![5; 64]);
        let used = span.clone();
        let memory = Md::foreign(span.into()).threshold(if attached { 2 } else { 1 });
        let lent = from.bind(&sent, memory).unwrap();
        from.put(put(lent, &to, 1)).unwrap();
        take(&arrived, 1);
        let (tell, told) = std::sync::mpsc::channel();
        let stopping = from.clone();
        let thread = std::thread::spawn(move || {
            stopping.shutdown(Duration::ZERO);
            tell.send(()).unwrap();
        });
        // Until then the queue gives the program no sign that the memory is free.
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
        drop(used);
        told.recv_timeout(PATIENCE).unwrap();
        thread.join().unwrap();
    }
}
