//! Tests payload that goes through pipes from one connection to another, as in a router.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use lnet_tcp::{Failure, Source};
use sys::Pipe;

use common::{Node, config, control, frame, pattern, put, run, until};

const LARGE: usize = 1 << 20;

fn pipe(room: usize) -> Arc<Pipe> {
    Arc::new(Pipe::with_room(room).unwrap())
}

/// Returns two nodes with all their connections, so that a connection for large messages exists.
fn connected() -> (Node, Node) {
    let (mut first, mut second) = (Node::new(config()), Node::new(config()));
    connect(&mut first, &mut second);
    second.upper.received.clear();
    (first, second)
}

fn connect(first: &mut Node, second: &mut Node) {
    first.send(second.id(), pattern(1));
    run(&mut [first, second], |nodes| {
        nodes.iter().all(|node| node.open() >= 3) && !nodes[1].upper.received.is_empty()
    });
}

/// Forwards `payload` from the pipe, or from memory if the pipe is empty.
fn forward(from: &mut Node, to: &Node, pipe: &Arc<Pipe>, payload: &[u8]) {
    let source = match pipe.held() {
        0 => Source::Shared(payload.to_vec().into()),
        held => Source::Pipe(Arc::clone(pipe), held),
    };
    let deadline = from.now + Duration::from_secs(1000);
    let over = (common::NI, from.nid);
    from.send_source(over, to.id(), Some(source), deadline);
}

#[test]
fn large_payload_goes_through_a_pipe_without_a_byte_in_memory() {
    let (mut first, mut router) = connected();
    let mut last = Node::new(config());
    let payload = pattern(LARGE);
    let pipes = [pipe(LARGE), pipe(LARGE)];
    router.upper.pipes.extend(pipes.iter().cloned());
    for _ in &pipes {
        first.send(router.id(), payload.clone());
    }
    run(&mut [&mut first, &mut router], |nodes| {
        nodes[1].upper.received.len() == 2
    });
    let stats = router.lnd.stats();
    assert_eq!(stats.piped_payload_bytes, 2 * LARGE as u64, "{stats:?}");
    for (pipe, (rx, result)) in pipes.iter().zip(router.upper.received.clone()) {
        assert_eq!((result, pipe.held()), (Ok(()), LARGE));
        assert!(router.upper.landed(rx).iter().all(|&byte| byte == 0));
        forward(&mut router, &last, pipe, &[]);
    }
    // Frames from memory follow the frames from pipes.
    router.send(last.id(), payload.clone());
    run(&mut [&mut router, &mut last], |nodes| {
        nodes[1].upper.received.len() == 3
    });
    for (rx, result) in last.upper.received.clone() {
        assert_eq!(result, Ok(()));
        assert_eq!(last.upper.landed(rx), payload);
    }
    assert!(pipes.iter().all(|pipe| pipe.held() == 0));
}

#[test]
fn payload_that_does_not_fit_into_its_pipe_goes_to_memory_and_so_does_the_next() {
    let (mut first, mut router) = connected();
    let payload = pattern(LARGE);
    let pipes = [pipe(4096), pipe(LARGE)];
    router.upper.pipes.extend(pipes.iter().cloned());
    for _ in &pipes {
        first.send(router.id(), payload.clone());
    }
    run(&mut [&mut first, &mut router], |nodes| {
        nodes[1].upper.received.len() == 2
    });
    for (pipe, (rx, result)) in pipes.iter().zip(router.upper.received.clone()) {
        assert_eq!((result, pipe.held()), (Ok(()), 0));
        assert_eq!(router.upper.landed(rx), payload);
    }
}

#[test]
fn payload_whose_beginning_came_with_its_header_goes_to_memory() {
    let mut node = Node::new(config());
    let pipe = pipe(LARGE);
    node.upper.pipes.push_back(Arc::clone(&pipe));
    let payload = pattern(LARGE);
    // A connection for small messages reads ahead.
    let mut peer = control(&mut node);
    let header = put("10.9.9.9@tcp".parse().unwrap(), node.nid, LARGE);
    let bytes = frame(0, &header, &payload);
    peer.stream.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || {
        peer.write(&bytes);
        peer
    });
    until(&mut node, |node| {
        (!node.upper.received.is_empty()).then_some(())
    });
    let _peer = writer.join().unwrap();
    let (rx, result) = node.upper.received[0];
    assert_eq!((result, pipe.held()), (Ok(()), 0));
    assert_eq!(node.upper.landed(rx), payload);
}

#[test]
fn a_connection_that_ends_within_a_payload_fails_the_message_and_leaves_the_pipe() {
    let mut node = Node::new(config());
    let pipe = pipe(LARGE);
    node.upper.pipes.push_back(Arc::clone(&pipe));
    let hello = common::hello(node.nid, lnet_wire::Ctype::BULK_OUT);
    let mut peer = common::Raw::establish(&mut node, &hello);
    let header = put("10.9.9.9@tcp".parse().unwrap(), node.nid, LARGE);
    let bytes = frame(0, &header, &pattern(LARGE));
    peer.write(&bytes[..96]);
    until(&mut node, |node| {
        (!node.upper.headers.is_empty()).then_some(())
    });
    peer.write(&bytes[96..5000]);
    until(&mut node, |_| (pipe.held() == 4904).then_some(()));
    drop(peer);
    let failed = |node: &mut Node| node.upper.received.first().copied();
    let (_, result) = until(&mut node, failed);
    assert!(
        matches!(result, Err(Failure::RemoteError | Failure::LocalError)),
        "{result:?}"
    );
    assert_eq!(Arc::strong_count(&pipe), 1);
}
