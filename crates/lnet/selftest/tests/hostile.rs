//! Peers that break the protocol: memory stays limited, each drop is counted, and other peers are served.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use bytes::Bytes;
use lnet_node::{EventQueue, MatchEntry, Md, MdOptions, Node, PutRequest};
use lnet_selftest::TestNode;
use lnet_selftest::driver::Request;
use lnet_selftest::wire::{
    Body, BulkRequest, MESSAGE_LEN, MakeRequest, Message, PING_MAGIC, PingRequest, Service,
    SessionId, TestRequest,
};
use lnet_types::ProcessId;

use common::{nid, node, node_with_long_timeouts, test_node};

/// The RPCs of one peer that a test node serves at once: a third of the limit.
const SHARE: usize = 5462;

/// A node without a test node, which sends to a test node whatever a test wants.
struct Client {
    node: Node,
    queue: EventQueue,
}

/// A test node, and a client of it.
struct Pair {
    target: TestNode,
    client: Client,
}

impl Pair {
    fn new() -> Self {
        let port = testkit::port();
        Self {
            target: test_node(port, "127.0.0.2@tcp"),
            client: Client::new(port, "127.0.0.1@tcp"),
        }
    }
}

impl std::ops::Deref for Pair {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Client {
    fn new(port: u16, own: &str) -> Self {
        let node = node_with_long_timeouts(port, own);
        let queue = node.event_queue();
        Self { node, queue }
    }

    /// Sends these bytes to a service.
    fn send(&self, service: Service, bytes: Vec<u8>) {
        let md = Md::source(bytes).threshold(1);
        let md = self.node.bind(&self.queue, md).unwrap();
        let put = PutRequest {
            md,
            ack: false,
            source: None,
            target: ProcessId::lustre(nid("127.0.0.2@tcp")),
            portal: service.portal(),
            match_bits: service.0.into(),
            offset: 0,
            hdr_data: 0,
        };
        self.node.put(put).unwrap();
    }

    fn say(&self, body: Body) {
        let message = Message::new(1, body);
        self.send(body.service().unwrap(), message.encode().to_vec());
    }

    /// Attaches memory for a reply at these match bits.
    fn expect_reply(&self, bits: u64) {
        let entry = MatchEntry::exact(Service::REPLY_PORTAL, bits);
        let md = Md::sink(vec![0; MESSAGE_LEN])
            .options(MdOptions::OP_PUT)
            .threshold(1)
            .user(bits);
        self.node.attach(&self.queue, entry, md).unwrap();
    }

    /// Waits for the reply at these match bits.
    fn reply(&self, bits: u64) -> Message {
        loop {
            let event = self.queue.wait(Some(testkit::TIME_LIMIT)).unwrap();
            if event.event.user == bits && event.event.unlinked {
                let bytes = event.memory.unwrap().into_vec();
                return Message::decode(&bytes).unwrap().0;
            }
        }
    }

    /// Checks that the test node still serves.
    fn check_service(&self) {
        self.expect_reply(99);
        self.say(ping(99));
        assert_eq!(self.reply(99).body.status(), Some(0));
    }
}

fn ping(reply_id: u64) -> Body {
    Body::PingRequest(PingRequest {
        reply_id,
        magic: PING_MAGIC,
        ..PingRequest::default()
    })
}

fn write(bulk_id: u64, len: u32) -> Body {
    Body::BulkRequest(BulkRequest {
        reply_id: 1,
        bulk_id,
        operation: BulkRequest::WRITE,
        len,
        flags: 1,
    })
}

// [LST-4]
#[test]
fn what_is_no_request_is_dropped_with_its_reason_and_its_buffer_is_used_again() {
    let pair = Pair::new();
    let good = Message::new(1, ping(1)).encode().to_vec();
    // Far more requests than there are buffers.
    for _ in 0..400 {
        pair.send(Service::PING, good[..159].to_vec());
        let mut magic = good.clone();
        magic[0] ^= 1;
        pair.send(Service::PING, magic);
        let mut kind = good.clone();
        kind[8] = 99;
        pair.send(Service::PING, kind);
        // A request for another service.
        pair.send(Service::DEBUG, good.clone());
        let mut ping_magic = good.clone();
        ping_magic[32] ^= 1;
        pair.send(Service::PING, ping_magic);
    }
    testkit::eventually("all are counted", || {
        pair.target.counters().dropped.total() == 2000
    });
    let dropped = pair.target.counters().dropped;
    assert_eq!((dropped.length, dropped.magic), (400, 400));
    assert_eq!((dropped.message_type, dropped.ping_magic), (800, 400));
    pair.check_service();
}

// [LST-5]
#[test]
fn a_request_of_another_version_is_answered_with_eproto() {
    let pair = Pair::new();
    for body in [
        ping(7),
        write(8, 4096),
        Body::MakeRequest(MakeRequest {
            reply_id: 7,
            ..MakeRequest::default()
        }),
    ] {
        let bits = body.reply_id().unwrap();
        pair.expect_reply(bits);
        let message = Message {
            version: 2,
            ..Message::new(1, body)
        };
        pair.send(body.service().unwrap(), message.encode().to_vec());
        assert_eq!(pair.reply(bits).body.status(), Some(71), "{body:?}");
    }
}

// [LST-19]
#[test]
fn bulk_out_of_range_is_refused_without_memory() {
    let pair = Pair::new();
    let good = BulkRequest {
        reply_id: 5,
        bulk_id: 6,
        operation: BulkRequest::READ,
        len: 4096,
        flags: 1,
    };
    for wrong in [
        BulkRequest {
            operation: 3,
            ..good
        },
        BulkRequest { flags: 5, ..good },
        BulkRequest { len: 0, ..good },
        BulkRequest {
            len: (1 << 20) + 1,
            ..good
        },
        BulkRequest {
            len: u32::MAX,
            ..good
        },
    ] {
        pair.expect_reply(5);
        pair.say(Body::BulkRequest(wrong));
        assert_eq!(pair.reply(5).body, Body::BulkReply(22), "{wrong:?}");
    }
    // Without the feature bit, lengths are whole pages.
    pair.expect_reply(5);
    let odd = Message::new(0, Body::BulkRequest(BulkRequest { len: 4097, ..good }));
    pair.send(Service::BULK, odd.encode().to_vec());
    assert_eq!(pair.reply(5).body, Body::BulkReply(22));
    // A request with unknown features is answered with the known ones.
    pair.expect_reply(5);
    let unknown = Message::new(3, Body::BulkRequest(good));
    pair.send(Service::BULK, unknown.encode().to_vec());
    let reply = pair.reply(5);
    assert_eq!((reply.features, reply.body), (1, Body::BulkReply(71)));
}

// [LST-23]
#[test]
fn writes_whose_data_never_comes_take_bounded_memory_and_end() {
    let pair = Pair::new();
    // Nothing is attached at these match bits, so every GET waits until LNet's timeout.
    for _ in 0..50 {
        pair.say(write(77, 1 << 20));
    }
    testkit::eventually("all are taken", || pair.target.under_way().1 == 50);
    pair.check_service();
    testkit::eventually("all have been given up", || {
        pair.target.counters().dropped.bulk == 50
    });
    assert_eq!(pair.target.under_way(), (0, 0));
    pair.check_service();
}

/// Rooms for data, and a number of RPCs, are left to others.
#[test]
fn a_peer_whose_data_never_comes_leaves_room_to_its_neighbours() {
    let port = testkit::port();
    let target = node_with_long_timeouts(port, "127.0.0.2@tcp");
    let target = TestNode::start(target).unwrap();
    let [stranger, neighbour] =
        ["127.0.0.1@tcp", "127.0.0.3@tcp"].map(|own| Client::new(port, own));
    for _ in 0..SHARE + 100 {
        stranger.say(write(77, 1 << 20));
    }
    testkit::eventually("the stranger has its share", || {
        target.counters().dropped.crowded > 0
    });
    let entry = MatchEntry::exact(Service::REPLY_PORTAL, 78);
    let data = Md::source(vec![0; 1 << 20])
        .options(MdOptions::OP_GET)
        .threshold(1);
    neighbour
        .node
        .attach(&neighbour.queue, entry, data)
        .unwrap();
    for (bits, request) in [(1, write(78, 1 << 20)), (99, ping(99))] {
        neighbour.expect_reply(bits);
        neighbour.say(request);
        assert_eq!(neighbour.reply(bits).body.status(), Some(0));
    }
    assert_eq!(target.counters().dropped.bulk, 0, "none was given up");
}

// [LST-10] [LST-14]
#[test]
fn a_test_of_an_unknown_session_and_a_list_that_never_comes_leave_nothing() {
    let pair = Pair::new();
    let session = SessionId { nid: 5, stamp: 6 };
    let test = TestRequest {
        reply_id: 3,
        bulk_id: 4,
        session,
        batch: 1,
        service: Service::PING.0,
        repeat: 1,
        concurrency: 1,
        is_client: 1,
        destinations: 341,
        ..TestRequest::default()
    };
    pair.expect_reply(3);
    pair.say(Body::TestRequest(test));
    assert_eq!(pair.reply(3).body.status(), Some(2));
    pair.expect_reply(3);
    let make = MakeRequest {
        reply_id: 3,
        session,
        ..MakeRequest::default()
    };
    pair.say(Body::MakeRequest(make));
    assert_eq!(pair.reply(3).body.status(), Some(0));
    pair.say(Body::TestRequest(test));
    testkit::eventually("it is given up", || {
        pair.target.counters().dropped.bulk == 1
    });
    assert_eq!(pair.target.under_way().1, 0);
}

#[test]
fn a_client_is_not_fooled_by_a_server_that_answers_something_else() {
    let port = testkit::port();
    let client = test_node(port, "127.0.0.1@tcp");
    let server = node(port, "127.0.0.2@tcp");
    let queue = server.event_queue();
    let entry = MatchEntry::exact(Service::TEST_PORTAL, Service::PING.0.into());
    let md = Md::sink(vec![0; MESSAGE_LEN])
        .options(MdOptions::OP_PUT)
        .threshold(1);
    server.attach(&queue, entry, md).unwrap();
    let liar = std::thread::spawn(move || {
        let request = loop {
            let event = queue.wait(Some(testkit::TIME_LIMIT)).unwrap();
            if let Some(memory) = event.memory {
                break Message::decode(memory.as_slice()).unwrap().0;
            }
        };
        // A reply of another service.
        let reply = Message::new(1, Body::BulkReply(0)).encode();
        let md = Md::source(Bytes::copy_from_slice(&reply)).threshold(1);
        let put = PutRequest {
            md: server.bind(&queue, md).unwrap(),
            ack: false,
            source: None,
            target: ProcessId::lustre(nid("127.0.0.1@tcp")),
            portal: Service::REPLY_PORTAL,
            match_bits: request.body.reply_id().unwrap(),
            offset: 0,
            hdr_data: 0,
        };
        server.put(put).unwrap();
        server
    });
    let request = Request {
        target: nid("127.0.0.2@tcp"),
        features: 1,
        body: ping(0),
        source: None,
    };
    let results = client.call(vec![request], testkit::TIME_LIMIT);
    assert_eq!(results, [Err(lnet_selftest::CallError::BadReply)]);
    drop(liar.join().unwrap());
}

// [LST-6]
#[test]
fn a_server_that_stands_still_costs_a_timeout_and_nothing_else() {
    let port = testkit::port();
    let client = test_node(port, "127.0.0.1@tcp");
    // The server's node takes the request, because its portal is lazy, and does not answer.
    let server = node(port, "127.0.0.2@tcp");
    server.set_lazy(Service::TEST_PORTAL, true).unwrap();
    let request = Request {
        target: nid("127.0.0.2@tcp"),
        features: 1,
        body: ping(0),
        source: None,
    };
    let results = client.call(vec![request; 50], Duration::from_millis(1500));
    assert!(
        results
            .iter()
            .all(|result| *result == Err(lnet_selftest::CallError::TimedOut))
    );
    let counters = client.counters();
    assert_eq!((counters.expired, counters.failed), (50, 50));
    assert_eq!(client.under_way().0, 0);
}
