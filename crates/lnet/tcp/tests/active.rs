//! Tests dialling, with dialled peers that the test plays.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::net::TcpListener;
use std::time::Duration;

use lnet_tcp::{
    AcceptMode, AddNiError, CloseReason, DialFailure, Failure, LndNi, NiId, NiTuning, Refusal,
    SocklndConfig, SourcePorts, TxId,
};
use lnet_types::{Net, Nid, ProcessId};
use lnet_wire::{Connreq, Ctype, Hello, HelloVersion};

use common::{Node, Raw, accept, config, frame, opening, put, raw_peer, until};

/// A node that has sent a message to a peer that the test plays.
struct Dial {
    node: Node,
    listener: TcpListener,
    peer: Nid,
    tx: TxId,
}

impl Dial {
    fn new(config: SocklndConfig) -> Self {
        let (listener, peer) = raw_peer();
        let mut node = Node::new(config);
        let tx = node.send(ProcessId::lustre(peer), vec![1, 2, 3]);
        Self {
            node,
            listener,
            peer,
            tx,
        }
    }

    /// Accepts the next connection and reads its HELLO.
    fn next(&mut self) -> (Raw, Hello) {
        let mut raw = accept(&mut self.node, &self.listener);
        let request = raw.expect(&mut self.node, 16);
        assert_eq!(Connreq::decode(&request).unwrap().target, self.peer);
        let bytes = raw.expect(&mut self.node, 56);
        (raw, Hello::decode(&bytes).unwrap().hello)
    }

    /// Answers the next connection with a reply that `edit` has changed.
    fn answer(&mut self, edit: impl FnOnce(&mut Hello)) -> Raw {
        let (mut raw, asked) = self.next();
        let mut reply = asked.reply(self.peer, 55, asked.ctype.inverse().unwrap());
        edit(&mut reply);
        raw.write(&encoded(&reply));
        raw
    }

    /// Dials the node from the peer's address, as the peer.
    fn cross(&self, ctype: Ctype) -> Raw {
        let domain = socket2::Domain::IPV4;
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        let from = std::net::SocketAddr::new(self.peer.ip().unwrap(), 0);
        socket.bind(&from.into()).unwrap();
        socket.connect(&self.node.socket_address().into()).unwrap();
        let mut raw = Raw::new(socket.into());
        let hello = Hello::dial(self.peer, self.node.nid, 55, ctype);
        raw.write(&opening(self.node.nid, &hello));
        raw
    }

    /// Reads the answer to a dial of the peer.
    fn answered(&mut self, raw: &mut Raw) -> Ctype {
        let bytes = raw.expect(&mut self.node, 56);
        Hello::decode(&bytes).unwrap().hello.ctype
    }

    /// Waits for the result of the message.
    fn result(&mut self) -> Result<(), Failure> {
        let tx = self.tx;
        until(&mut self.node, |node| node.result(tx))
    }

    fn failures(&self) -> Vec<(DialFailure, u64)> {
        self.node.lnd.stats().dial_failures.iter().collect()
    }
}

fn encoded(hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; Hello::MAX_LEN];
    let len = hello.encode(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

// [CONN-4] [HELLO-1] [HELLO-12] [REQ-1]
#[test]
fn the_opening_is_that_of_a_kernel_node() {
    let mut dial = Dial::new(config());
    let (_raw, asked) = dial.next();
    let expected = Hello {
        version: HelloVersion::V3,
        src_nid: dial.node.nid,
        dst_nid: dial.peer,
        src_pid: 12345,
        dst_pid: 0,
        src_incarnation: 1,
        dst_incarnation: 0,
        ctype: Ctype::CONTROL,
    };
    assert_eq!(asked, expected);
}

// [CONN-7]
#[test]
fn nothing_follows_the_opening_before_the_answer() {
    let mut dial = Dial::new(config());
    let (mut raw, _) = dial.next();
    for _ in 0..100 {
        dial.node.turn();
        raw.poll();
    }
    assert!(raw.read.is_empty());
}

// [SET-1] [SET-3]
#[test]
fn the_message_follows_the_answer_on_control_and_the_bulk_types_are_dialled_in_order() {
    let mut dial = Dial::new(config());
    let mut control = dial.answer(|_| {});
    let bytes = control.expect(&mut dial.node, 99);
    assert_eq!(
        bytes,
        frame(0, &put(dial.node.nid, dial.peer, 3), &[1, 2, 3])
    );
    assert_eq!(dial.result(), Ok(()));
    let (mut bulk, asked) = dial.next();
    assert_eq!(asked.ctype, Ctype::BULK_IN);
    bulk.write(&encoded(&asked.reply(dial.peer, 55, Ctype::BULK_OUT)));
    let (_raw, asked) = dial.next();
    assert_eq!(asked.ctype, Ctype::BULK_OUT);
}

// [CONN-2]
#[test]
fn dialling_from_privileged_ports_begins_at_1023_and_skips_those_in_use() {
    let privileged = SocklndConfig {
        source_ports: SourcePorts::Privileged,
        ..config()
    };
    let bound = std::net::TcpListener::bind(("127.0.0.1", 1023));
    if bound.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        println!("skipped: this user may not use ports below 1024");
        return;
    }
    let mut dial = Dial::new(privileged);
    let ports: Vec<_> = (0..3)
        .map(|_| {
            let raw = dial.answer(|_| {});
            let port = raw.stream.peer_addr().unwrap().port();
            std::mem::forget(raw);
            port
        })
        .collect();
    assert_eq!(ports, [1023, 1022, 1021]);
}

// [HELLO-8]
#[test]
fn an_answer_from_somebody_else_is_refused() {
    let mut dial = Dial::new(config());
    let mut raw = dial.answer(|reply| reply.src_nid = "10.4.4.4@tcp".parse().unwrap());
    assert_eq!(dial.result(), Err(Failure::LocalError));
    assert_eq!(dial.failures(), [(DialFailure::WrongPeer, 1)]);
    raw.expect_close(&mut dial.node);
}

// [HELLO-8]
#[test]
fn an_answer_with_another_pid_is_refused() {
    let mut dial = Dial::new(config());
    dial.answer(|reply| reply.src_pid = 1);
    assert_eq!(dial.result(), Err(Failure::LocalError));
    assert_eq!(dial.failures(), [(DialFailure::WrongPeer, 1)]);
}

// [HELLO-10]
#[test]
fn an_answer_whose_type_is_not_the_inverse_is_refused() {
    let mut dial = Dial::new(config());
    dial.answer(|reply| reply.ctype = Ctype::BULK_IN);
    assert_eq!(dial.result(), Err(Failure::LocalError));
    assert_eq!(dial.failures(), [(DialFailure::WrongType, 1)]);
}

// [REQ-9]
#[test]
fn an_acceptors_refusal_is_no_hello() {
    let mut dial = Dial::new(config());
    let (mut raw, _) = dial.next();
    raw.write(&Connreq::REJECTION);
    assert_eq!(dial.result(), Err(Failure::LocalError));
    assert_eq!(dial.failures(), [(DialFailure::HelloMalformed, 1)]);
}

#[test]
fn a_peer_that_closes_without_an_answer_fails_the_pass() {
    let mut dial = Dial::new(config());
    drop(dial.next());
    assert_eq!(dial.result(), Err(Failure::RemoteDropped));
    assert_eq!(dial.failures(), [(DialFailure::Disconnected, 1)]);
}

// [SET-13]
#[test]
fn a_peer_that_never_answers_fails_the_pass_after_the_socket_timeout() {
    let mut dial = Dial::new(config());
    let _raw = dial.next();
    dial.node.pass(Duration::from_secs(49));
    assert_eq!(dial.node.result(dial.tx), None);
    dial.node.pass(Duration::from_secs(1));
    assert_eq!(dial.result(), Err(Failure::NetworkTimeout));
    assert_eq!(dial.failures(), [(DialFailure::TimedOut, 1)]);
}

#[test]
fn a_message_whose_time_is_up_before_there_is_a_connection_fails() {
    let mut dial = Dial::new(config());
    let deadline = dial.node.now + Duration::from_secs(3);
    let short = dial
        .node
        .send_before(ProcessId::lustre(dial.peer), vec![4], deadline);
    let _raw = dial.next();
    dial.node.pass(Duration::from_secs(4));
    assert_eq!(dial.node.result(short), Some(Err(Failure::NetworkTimeout)));
    assert_eq!(dial.node.result(dial.tx), None);
}

// [SET-7] [SET-8]
#[test]
fn none_is_asked_again_within_a_second_for_as_long_as_a_pass_may_take() {
    let mut dial = Dial::new(config());
    let begun = dial.node.now;
    let mut refusals = 0;
    while dial.node.result(dial.tx).is_none() {
        let mut raw = dial.answer(|reply| reply.ctype = Ctype::NONE);
        raw.expect_close(&mut dial.node);
        refusals += 1;
        dial.node.pass(Duration::from_millis(499));
        assert_eq!(
            dial.listener
                .accept()
                .map(|_| ())
                .map_err(|error| error.kind()),
            Err(std::io::ErrorKind::WouldBlock)
        );
        dial.node.pass(Duration::from_millis(501));
    }
    assert!(dial.node.now - begun >= Duration::from_secs(49));
    assert!(refusals >= 49, "{refusals}");
    assert_eq!(dial.result(), Err(Failure::NetworkTimeout));
    assert!(dial.failures().contains(&(DialFailure::Declined, refusals)));
}

// [SET-7]
#[test]
fn a_peer_that_accepts_after_many_refusals_gets_its_message_and_was_never_down() {
    let mut dial = Dial::new(config());
    for _ in 0..5 {
        let mut raw = dial.answer(|reply| reply.ctype = Ctype::NONE);
        raw.expect_close(&mut dial.node);
        dial.node.pass(Duration::from_secs(1));
    }
    let _control = dial.answer(|_| {});
    assert_eq!(dial.result(), Ok(()));
    assert!(dial.node.upper.changes.iter().all(|change| change.1));
}

// [SET-17]
#[test]
fn a_peer_with_another_incarnation_in_each_answer_is_dialled_again_after_a_pause() {
    let mut dial = Dial::new(config());
    let mut kept = Vec::new();
    for incarnation in 55..59 {
        kept.push(dial.answer(|reply| reply.src_incarnation = incarnation));
    }
    until(&mut dial.node, |node| (node.open() == 0).then_some(()));
    dial.node.send(ProcessId::lustre(dial.peer), vec![4]);
    for _ in 0..100 {
        dial.node.turn();
    }
    let waits = dial
        .listener
        .accept()
        .map(|_| ())
        .map_err(|error| error.kind());
    assert_eq!(waits, Err(std::io::ErrorKind::WouldBlock));
    assert_eq!(dial.failures(), [(DialFailure::Unsteady, 1)]);
    dial.node.pass(Duration::from_secs(1));
    dial.node.send(ProcessId::lustre(dial.peer), vec![5]);
    let (_raw, asked) = dial.next();
    assert_eq!(asked.ctype, Ctype::CONTROL);
}

// [SET-13]
#[test]
fn a_peer_that_does_not_connect_is_tried_anew_within_the_pass() {
    // Of this backlog the test accepts none: further attempts to connect get no answer.
    let (listener, peer) = common::full_peer();
    let mut node = Node::new(config());
    let tx = node.send(ProcessId::lustre(peer), vec![1]);
    node.turn();
    node.pass(Duration::from_secs(9));
    assert_eq!(node.result(tx), None);
    assert_eq!(node.lnd.stats().dial_failures.total(), 0);
    drop(listener);
    node.pass(Duration::from_secs(4));
    assert_eq!(
        until(&mut node, |node| node.result(tx)),
        Err(Failure::RemoteDropped)
    );
}

#[test]
fn the_wait_after_none_ends_when_the_peer_connects() {
    let mut dial = Dial::new(config());
    let mut raw = dial.answer(|reply| reply.ctype = Ctype::NONE);
    raw.expect_close(&mut dial.node);
    let mut theirs = Raw::connect(&dial.node);
    let hello = Hello::dial(dial.peer, dial.node.nid, 55, Ctype::CONTROL);
    theirs.write(&opening(dial.node.nid, &hello));
    // No time passes, and yet the message is sent and the next type is dialled.
    assert_eq!(dial.result(), Ok(()));
    let (_raw, asked) = dial.next();
    assert_eq!(asked.ctype, Ctype::BULK_IN);
}

// [HELLO-17]
#[test]
fn none_in_another_version_is_followed_at_once_by_that_version() {
    let mut dial = Dial::new(config());
    dial.answer(|reply| {
        reply.version = HelloVersion::V2;
        reply.ctype = Ctype::NONE;
    });
    let (mut raw, asked) = dial.next();
    assert_eq!(asked.version, HelloVersion::V2);
    raw.write(&encoded(&asked.reply(dial.peer, 55, Ctype::CONTROL)));
    assert_eq!(dial.result(), Ok(()));
}

// [SET-9]
#[test]
fn another_incarnation_closes_the_connections_of_the_old_one() {
    let mut dial = Dial::new(config());
    let mut control = dial.answer(|_| {});
    assert_eq!(dial.result(), Ok(()));
    let _bulk = dial.answer(|reply| reply.src_incarnation = 56);
    control.expect_close(&mut dial.node);
    assert_eq!(
        dial.node.lnd.stats().closed.of(CloseReason::PeerRestarted),
        1
    );
    let (mut raw, asked) = dial.next();
    assert_eq!(asked.ctype, Ctype::CONTROL);
    // The first one is back: it was no restart.
    raw.write(&encoded(&asked.reply(dial.peer, 55, Ctype::CONTROL)));
    let _next = dial.next();
    let closed = &dial.node.lnd.stats().closed;
    assert_eq!(closed.of(CloseReason::NidClaimedTwice), 1);
    assert_eq!(closed.of(CloseReason::PeerRestarted), 1);
}

// [SET-5]
#[test]
fn the_lower_nid_is_refused_while_we_dial_it_and_the_higher_is_not() {
    let mut dial = Dial::new(config());
    let _dialling = dial.next();
    let mut theirs = dial.cross(Ctype::CONTROL);
    let answer = dial.answered(&mut theirs);
    if dial.peer < dial.node.nid {
        assert_eq!(answer, Ctype::NONE);
        assert_eq!(dial.node.lnd.stats().refused.of(Refusal::Race), 1);
    } else {
        assert_eq!(answer, Ctype::CONTROL);
        assert_eq!(dial.result(), Ok(()));
    }
}

// [SET-14]
#[test]
fn a_dial_that_crossed_ours_is_answered_with_none_and_a_later_one_is_not() {
    let mut dial = Dial::new(config());
    let mut ours = [0; 3].map(|_| dial.answer(|_| {}));
    assert_eq!(dial.result(), Ok(()));
    until(&mut dial.node, |node| (node.open() == 3).then_some(()));
    for asked in [Ctype::CONTROL, Ctype::BULK_IN, Ctype::BULK_OUT] {
        let mut theirs = dial.cross(asked);
        assert_eq!(dial.answered(&mut theirs), Ctype::NONE, "{asked:?}");
        theirs.expect_close(&mut dial.node);
    }
    assert_eq!(dial.node.lnd.stats().refused.of(Refusal::Duplicate), 3);
    assert_eq!(dial.node.open(), 3);
    ours.iter_mut().for_each(Raw::poll);
    assert!(ours.iter().all(|link| !link.closed));
    // The peer has lost the connection, or it would not dial.
    dial.node.pass(Duration::from_secs(1));
    let mut theirs = dial.cross(Ctype::BULK_IN);
    assert_eq!(dial.answered(&mut theirs), Ctype::BULK_OUT);
}

#[test]
fn a_nid_without_an_ip_address_cannot_be_dialled() {
    let mut node = Node::new(config());
    let tx = node.send(ProcessId::lustre("27@gni".parse().unwrap()), vec![1]);
    assert_eq!(node.result(tx), Some(Err(Failure::LocalError)));
    assert_eq!(node.lnd.stats().dial_failures.of(DialFailure::NoAddress), 1);
}

fn add(node: &mut Node, nid: &str) -> AddNiError {
    let ni = LndNi {
        ni: NiId(9),
        nid: nid.parse().unwrap(),
        tuning: NiTuning::default(),
        incarnation: 1,
    };
    node.lnd.add_ni(ni).unwrap_err()
}

#[test]
fn an_address_that_is_not_here_is_refused_by_name() {
    for accept in [AcceptMode::All, AcceptMode::None] {
        let mut node = Node::new(SocklndConfig { accept, ..config() });
        let error = add(&mut node, "192.0.2.1@tcp");
        assert!(matches!(error, AddNiError::AddressNotHere(_)), "{error}");
        assert!(
            error
                .to_string()
                .starts_with("192.0.2.1 is not an address of this machine")
        );
    }
}

#[test]
fn a_port_in_use_is_refused_by_its_number() {
    let (_listener, taken) = raw_peer();
    let error = add(&mut Node::new(config()), &taken.to_string());
    assert!(
        matches!(error, AddNiError::PortInUse { port: 9988, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("port 9988"), "{error}");
}

#[test]
fn a_nid_of_another_network_type_or_a_second_time_is_refused() {
    let mut node = Node::new(config());
    assert!(matches!(
        add(&mut node, "10.0.0.1@o2ib"),
        AddNiError::NotTcp(_)
    ));
    let again = node.nid.to_string();
    assert!(matches!(
        add(&mut node, &again),
        AddNiError::Duplicate { .. }
    ));
}

#[test]
fn an_unknown_congestion_control_is_refused() {
    let odd = SocklndConfig {
        congestion: Some("nosuch".to_owned()),
        ..config()
    };
    let poll = mio::Poll::new().unwrap();
    let registry = poll.registry().try_clone().unwrap();
    let mut lnd = lnet_tcp::Socklnd::new(odd, lnet_tcp::Sockets::new(registry, 1), 1);
    let nid = Nid::from_ip(Net::tcp(0), common::address());
    let ni = LndNi {
        ni: NiId(1),
        nid,
        tuning: NiTuning::default(),
        incarnation: 1,
    };
    let error = lnd.add_ni(ni).unwrap_err();
    assert!(matches!(error, AddNiError::Congestion { .. }), "{error}");
}

/// After the final failure of a pass the peer is down, and is reported so before its messages fail.
#[test]
fn a_peer_whose_port_is_closed_is_down_once_for_each_pass() {
    let (listener, peer) = raw_peer();
    drop(listener);
    let id = ProcessId::lustre(peer);
    let mut node = Node::new(config());
    for pass in 1..=3 {
        let tx = node.send(id, vec![1]);
        let result = until(&mut node, |node| node.result(tx));
        assert_eq!(result, Err(Failure::RemoteDropped));
        assert_eq!(node.upper.changes, vec![(id, false); pass]);
        // During the pause nothing is dialled, so there is no further report.
        let tx = node.send(id, vec![1]);
        assert!(node.result(tx).unwrap().is_err());
        assert_eq!(node.upper.changes.len(), pass);
        node.pass(Duration::from_secs(8));
    }
}

#[test]
fn a_peer_that_never_answers_the_opening_is_down_when_the_pass_is_over() {
    let mut dial = Dial::new(config());
    let _raw = dial.next();
    assert_eq!(dial.node.upper.changes, []);
    dial.node.pass(Duration::from_secs(100));
    assert_eq!(dial.result(), Err(Failure::NetworkTimeout));
    assert_eq!(
        dial.node.upper.changes,
        [(ProcessId::lustre(dial.peer), false)]
    );
}

#[test]
fn a_peer_that_takes_no_second_connection_is_not_down() {
    let mut dial = Dial::new(config());
    let _control = dial.answer(|_| {});
    assert_eq!(dial.result(), Ok(()));
    let mut bulk = dial.answer(|reply| reply.ctype = Ctype::CONTROL);
    bulk.expect_close(&mut dial.node);
    assert_eq!(dial.failures(), [(DialFailure::WrongType, 1)]);
    assert_eq!(
        dial.node.upper.changes,
        [(ProcessId::lustre(dial.peer), true)]
    );
    // The open connection continues to carry messages.
    let tx = dial.node.send(ProcessId::lustre(dial.peer), vec![4]);
    assert_eq!(until(&mut dial.node, |node| node.result(tx)), Ok(()));
    assert_eq!(dial.node.open(), 1);
}

#[test]
fn an_interface_that_goes_while_it_dials_says_nothing_of_the_peer() {
    let mut dial = Dial::new(config());
    let _raw = dial.next();
    dial.node
        .lnd
        .remove_ni(common::NI, dial.node.now, &mut dial.node.upper);
    assert_eq!(dial.result(), Err(Failure::LocalError));
    assert_eq!(dial.node.upper.changes, []);
}
