//! Messages that the daemon copies directly from and to a raw client's memory, and violations of the rules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use sys::span::Span;
use testkit::QueueTurn;
use zoid_proto::fwd::{
    Caps, Event, Frame, FrameHeader, FrameType, Grant, Hello, MemoryPart, MessageKind, Place,
    Places, Welcome,
};
use zoid_proto::{Extent, List, Status};

use common::client::{Client, introduction};
use common::server::Server;
use common::{Process, be_a_daemon};

#[test]
fn daemon_for_the_other_tests() {
    be_a_daemon();
}

const MIB: u64 = 1 << 20;

/// The shortest message that is copied.
const SHORTEST: u64 = 64 << 10;

/// The server's memory in all of these tests.
const PLACE: [Extent; 1] = [Extent {
    offset: 2 * MIB,
    len: MIB,
}];

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + at / 251) as u8).collect()
}

/// Returns the address and length of a piece of memory.
fn part(memory: &Span) -> MemoryPart {
    MemoryPart {
        address: memory.as_ptr().addr() as u64,
        len: memory.len() as u64,
    }
}

const NOWHERE: MemoryPart = MemoryPart {
    address: 8,
    len: SHORTEST,
};

/// A daemon that copies, a server, and a client that has sent HELLO; and the number to store.
struct Meeting {
    daemon: Process,
    server: Server,
    client: Client,
    number: u64,
}

impl Meeting {
    fn new() -> Self {
        Self::with(&[("client-memory", "on")])
    }

    fn with(settings: &[(&str, &str)]) -> Self {
        let daemon = Process::start(settings);
        // Yama may require it; without Yama there is nothing to allow.
        let _no_yama = sys::allow_trace(daemon.id());
        let server = Server::attach(&daemon);
        let mut client = Client::connect(&daemon);
        let welcome = hello(&mut client);
        assert!(welcome.caps.contains(Caps::CLIENT_MEMORY));
        let mark = client.next().unwrap();
        let Frame::Event(Event::Mark(number)) = mark.frame() else {
            panic!("{mark:?}");
        };
        Self {
            daemon,
            server,
            client,
            number,
        }
    }

    /// Returns a meeting whose client has stored the number. `None` if the kernel forbids the access.
    fn proven() -> Option<Self> {
        Self::new().prove()
    }

    /// The same with a short stall time.
    fn stalling() -> Option<Self> {
        Self::with(&[("client-memory", "on"), ("stall-ms", "200")]).prove()
    }

    fn prove(self) -> Option<Self> {
        let mut meeting = self;
        let mark = Span::from(meeting.number.to_ne_bytes().to_vec());
        meeting.places(0, &[part(&mark)]);
        assert!(meeting.client.ping());
        if meeting.fallbacks("permission") + meeting.fallbacks("kernel") > 0.0 {
            println!("skipped: this kernel lets nobody read this process");
            return None;
        }
        // For the life of the process.
        std::mem::forget(mark);
        Some(meeting)
    }

    fn places(&mut self, grant: u64, parts: &[MemoryPart]) {
        let parts = List::new(parts);
        let frame = Frame::Places(Places { grant, parts });
        let header = FrameHeader::new(FrameType::PLACES, 0);
        self.client.say(header, &frame, &[]);
    }

    fn fallbacks(&self, reason: &str) -> f64 {
        let name = format!("zoidd_client_memory_fallbacks_total{{reason=\"{reason}\"}}");
        self.daemon.metric(&name)
    }

    /// Sends a message that a server's receive matches, by memory. Returns the grant.
    fn granted(&mut self, tag: i32, total: u64) -> u64 {
        self.server
            .post_recv(self.client.pid, tag, 1, &PLACE)
            .unwrap();
        self.client.ask_send(MessageKind::Expected, tag, total, 0);
        self.next_grant(Place::Memory)
    }

    fn next_grant(&mut self, place: Place) -> u64 {
        let got = self.client.hear();
        match got.frame() {
            Frame::Grant(Grant { grant, place: way }) if way == place => grant,
            other => panic!("{other:?}"),
        }
    }

    /// Posts a message for the client, by memory. Returns the grant.
    fn coming(&mut self, tag: i32, message: &[u8]) -> u64 {
        self.server.memory(2 * MIB, message.len()).copy_in(message);
        let place = [Extent {
            offset: 2 * MIB,
            len: message.len() as u64,
        }];
        self.server
            .post_send(self.client.pid, tag, 1, &place)
            .unwrap();
        self.client.ask_recv(tag, message.len() as u64, 0);
        let got = self.client.hear();
        match got.frame() {
            Frame::RecvReply(reply) => {
                assert_eq!(reply.place, Place::Memory);
                reply.grant
            }
            other => panic!("{other:?}"),
        }
    }

    /// Checks that this client and others are still served.
    fn works(&mut self) {
        let mut other = Client::attach(&self.daemon);
        assert_eq!(other.unexpected(1, b"hello"), Status::DONE);
        let memory = Span::from(bytes(SHORTEST));
        let grant = self.granted(99, SHORTEST);
        self.places(grant, &[part(&memory)]);
        assert_eq!(self.client.send_done(), Status::DONE);
        assert_eq!(self.server.test(60_000)[0].outcome, Ok(SHORTEST));
    }

    /// Checks that the daemon closes the connection of a client that breaks this rule, and serves others.
    fn violates(mut self, rule: &str) {
        assert!(self.client.is_closed());
        let name = format!("zoidd_violations_total{{rule=\"{rule}\"}}");
        assert_eq!(self.daemon.metric(&name), 1.0);
        let mut other = Client::attach(&self.daemon);
        assert_eq!(other.unexpected(1, b"hello"), Status::DONE);
    }
}

fn hello(client: &mut Client) -> Welcome {
    let hello = Hello {
        caps: Caps::MULTIPLEX | Caps::CLIENT_MEMORY,
        ..introduction()
    };
    client.hello(hello).unwrap()
}

#[test]
fn a_message_is_read_out_of_the_client_and_written_into_it() {
    let _turn = QueueTurn::take();
    let Some(mut meeting) = Meeting::proven() else {
        return;
    };
    let message = bytes(MIB);
    // Pieces with arbitrary borders, one of them empty.
    let pieces = [
        &message[..7],
        &message[7..7],
        &message[7..700_000],
        &message[700_000..],
    ];
    let pieces = pieces.map(|piece| Span::from(piece.to_vec()));
    let grant = meeting.granted(1, MIB);
    let before = meeting.client.bytes_out;
    meeting.places(grant, &pieces.each_ref().map(part));
    assert_eq!(meeting.client.send_done(), Status::DONE);
    assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(MIB));
    assert!(meeting.server.memory(2 * MIB, 1 << 20).to_vec() == message);
    assert!(meeting.client.bytes_out - before < 256);

    let grant = meeting.coming(2, &message);
    let target = [3, (1 << 20) - 3].map(|len| Span::from(vec![0; len]));
    let before = meeting.client.bytes_in;
    meeting.places(grant, &target.each_ref().map(part));
    let end = meeting.client.hear();
    let Frame::Data(data) = end.frame() else {
        panic!("{end:?}");
    };
    assert_eq!(
        (data.grant, data.offset, end.payload.len()),
        (grant, MIB, 0)
    );
    assert!(meeting.client.bytes_in - before < 256);
    let got: Vec<u8> = target.iter().flat_map(Span::to_vec).collect();
    assert!(got == message);
    assert!(meeting.server.test(0).is_empty());
    meeting.client.acknowledge(grant, Status::DONE);
    assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(MIB));
}

// [FWD-42]
#[test]
fn who_does_not_hold_the_number_gets_the_stream() {
    let _turn = QueueTurn::take();
    let wrong = Span::from(vec![0; 8]);
    let beyond = MemoryPart { len: 8, ..NOWHERE };
    let kernel = MemoryPart {
        address: 0xFFFF_8000_0000_0000,
        len: 8,
    };
    for place in [part(&wrong), beyond, kernel] {
        let mut meeting = Meeting::new();
        meeting.places(0, &[place]);
        meeting
            .server
            .post_recv(meeting.client.pid, 1, 1, &PLACE)
            .unwrap();
        let message = bytes(SHORTEST);
        assert_eq!(
            meeting.client.send(MessageKind::Expected, 1, &message, 0),
            Status::DONE
        );
        let refused = meeting.fallbacks("permission") + meeting.fallbacks("kernel");
        assert_eq!(meeting.fallbacks("mark") + refused, 1.0);
    }
}

// [FWD-44]
#[test]
fn a_number_that_is_gone_ends_copies_and_not_messages() {
    let _turn = QueueTurn::take();
    let mut meeting = Meeting::new();
    let mark = Span::from(meeting.number.to_ne_bytes().to_vec());
    meeting.places(0, &[part(&mark)]);
    assert!(meeting.client.ping());
    if meeting.fallbacks("permission") + meeting.fallbacks("kernel") > 0.0 {
        return;
    }
    let message = bytes(SHORTEST);
    let memory = Span::from(message.clone());
    let grant = meeting.granted(1, SHORTEST);
    let coming = meeting.coming(2, &message);
    // As if another program ran with the id of this process.
    mark.copy_in(&[0; 8]);
    meeting.places(grant, &[part(&memory)]);
    assert_eq!(meeting.next_grant(Place::Stream), grant);
    meeting.client.data(grant, &message);
    assert_eq!(meeting.client.send_done(), Status::DONE);
    let untouched = Span::from(vec![0; message.len()]);
    meeting.places(coming, &[part(&untouched)]);
    let data = meeting.client.hear();
    assert!(data.payload == message);
    assert!(untouched.to_vec().iter().all(|byte| *byte == 0));
    meeting.client.acknowledge(coming, Status::DONE);
    meeting
        .server
        .post_recv(meeting.client.pid, 3, 3, &PLACE)
        .unwrap();
    assert_eq!(
        meeting.client.send(MessageKind::Expected, 3, &message, 0),
        Status::DONE
    );
}

// [FWD-45]
#[test]
fn memory_that_is_not_there_fails_its_operation_alone() {
    let _turn = QueueTurn::take();
    let Some(mut meeting) = Meeting::proven() else {
        return;
    };
    let there = Span::from(bytes(SHORTEST));
    let kernel = MemoryPart {
        address: 0xFFFF_8000_0000_0000,
        ..NOWHERE
    };
    let last = MemoryPart {
        address: u64::MAX - SHORTEST,
        ..NOWHERE
    };
    for (at, bad) in (0..).zip([NOWHERE, kernel, last]) {
        // At the beginning, and halfway.
        for parts in [vec![bad], vec![part(&there), bad]] {
            let total = parts.iter().map(|part| part.len).sum();
            let grant = meeting.granted(10 + at, total);
            meeting.places(grant, &parts);
            assert_eq!(meeting.client.send_done(), Status::FAULT);
            // The server's receive waits for the next message.
            assert!(meeting.server.test(0).is_empty());
            assert_eq!(
                meeting
                    .client
                    .send(MessageKind::Expected, 10 + at, b"short", 0),
                Status::DONE
            );
            assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(5));

            let message = bytes(total);
            let grant = meeting.coming(20 + at, &message);
            meeting.places(grant, &parts);
            let got = meeting.client.hear();
            assert_eq!(
                (got.header.frame_type, got.header.status),
                (FrameType::RECV_REPLY, Status::FAULT)
            );
            meeting.client.acknowledge(grant, Status::FAULT);
            let failed = meeting.server.test(60_000)[0].outcome;
            assert_eq!(failed, Err(Status::CONNECTION_RESET));
        }
    }
    assert_eq!(
        meeting.daemon.metric("zoidd_client_memory_faults_total"),
        12.0
    );
    meeting.works();
}

#[test]
fn ten_thousand_pieces_are_copied_in_order() {
    let _turn = QueueTurn::take();
    let Some(mut meeting) = Meeting::proven() else {
        return;
    };
    let total = 10_000 * 8;
    let message = bytes(total);
    let memory = Span::from(message.clone());
    let all = part(&memory);
    let pieces: Vec<MemoryPart> = (0..10_000)
        .map(|at| MemoryPart {
            address: all.address + at * 8,
            len: 8,
        })
        .collect();
    let grant = meeting.granted(1, total);
    meeting.places(grant, &pieces);
    assert_eq!(meeting.client.send_done(), Status::DONE);
    assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(total));
    assert!(meeting.server.memory(2 * MIB, message.len()).to_vec() == message);
    meeting.works();
}

// [FWD-46]
#[test]
fn places_that_do_not_sum_up_end_the_connection() {
    let _turn = QueueTurn::take();
    let part = |len| MemoryPart { address: 4096, len };
    for lens in [
        vec![SHORTEST + 1],
        vec![SHORTEST - 1],
        vec![u64::MAX - 4096, u64::MAX - 4096],
    ] {
        let Some(mut meeting) = Meeting::proven() else {
            return;
        };
        let grant = meeting.granted(1, SHORTEST);
        let parts: Vec<MemoryPart> = lens.into_iter().map(part).collect();
        meeting.places(grant, &parts);
        meeting.violates("payload");
    }
}

// [FWD-46]
#[test]
fn places_that_nobody_asked_for_end_the_connection() {
    let _turn = QueueTurn::take();
    let memory = Span::from(bytes(SHORTEST));
    let breaks: [fn(&mut Meeting, MemoryPart); 6] = [
        // Another grant; one without a number; the number twice.
        |meeting, memory| meeting.places(7, &[memory]),
        |meeting, _| meeting.places(0, &[]),
        |meeting, memory| meeting.places(0, &[MemoryPart { len: 8, ..memory }]),
        // A message by the stream.
        |meeting, memory| {
            meeting
                .server
                .post_recv(meeting.client.pid, 1, 1, &PLACE)
                .unwrap();
            meeting
                .client
                .ask_send(MessageKind::Expected, 1, SHORTEST - 1, 0);
            let grant = meeting.next_grant(Place::Stream);
            let len = SHORTEST - 1;
            meeting.places(grant, &[MemoryPart { len, ..memory }]);
        },
        // Twice for one message.
        |meeting, memory| {
            let grant = meeting.granted(1, SHORTEST);
            meeting.places(grant, &[memory]);
            meeting.places(grant, &[memory]);
        },
        // A message whose place was not named.
        |meeting, _| {
            let grant = meeting.coming(1, &bytes(SHORTEST));
            meeting.client.acknowledge(grant, Status::DONE);
        },
    ];
    for broken in breaks {
        let Some(mut meeting) = Meeting::proven() else {
            return;
        };
        broken(&mut meeting, part(&memory));
        meeting.violates("grant");
    }
}

// [FWD-46]
#[test]
fn a_client_that_was_not_offered_it_may_not_name_places() {
    let _turn = QueueTurn::take();
    let memory = Span::from(bytes(SHORTEST));
    for setting in ["off", "on"] {
        let daemon = Process::start(&[("client-memory", setting)]);
        let mut client = Client::attach(&daemon);
        let parts = [part(&memory)];
        let frame = Frame::Places(Places {
            grant: 0,
            parts: List::new(&parts),
        });
        client.say(FrameHeader::new(FrameType::PLACES, 0), &frame, &[]);
        assert!(client.is_closed());
    }
}

// [FWD-47]
#[test]
fn a_client_may_give_a_grant_back_or_rather_send() {
    let _turn = QueueTurn::take();
    let Some(mut meeting) = Meeting::proven() else {
        return;
    };
    let message = bytes(SHORTEST);
    let grant = meeting.granted(1, SHORTEST);
    let header = FrameHeader::new(FrameType::ABORT, 0);
    meeting.client.say(header, &Frame::Abort { grant }, &[]);
    assert_eq!(meeting.client.send_done(), Status::NO_MEMORY);
    meeting
        .client
        .ask_send(MessageKind::Expected, 1, SHORTEST, 0);
    let grant = meeting.next_grant(Place::Memory);
    meeting.client.data(grant, &message);
    assert_eq!(meeting.client.send_done(), Status::DONE);
    assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(SHORTEST));
    let grant = meeting.coming(2, &message);
    meeting.places(grant, &[]);
    let data = meeting.client.hear();
    assert!(data.payload == message);
    meeting.client.acknowledge(grant, Status::DONE);
    assert_eq!(meeting.server.test(60_000)[0].outcome, Ok(SHORTEST));
    assert_eq!(meeting.fallbacks("declined"), 1.0);
    meeting.works();
}

#[test]
fn a_transfer_that_stalls_waiting_for_places_ends_and_its_places_come_too_late() {
    let _turn = QueueTurn::take();
    let Some(mut meeting) = Meeting::stalling() else {
        return;
    };
    let memory = Span::from(bytes(SHORTEST));
    let grant = meeting.granted(1, SHORTEST);
    assert!(meeting.client.send_done().is_error());
    meeting.places(grant, &[part(&memory)]);
    assert!(meeting.server.test(60_000)[0].outcome.is_err());
    // On a busy machine the others could stall as well.
    assert!(meeting.client.ping());
}
