//! Clients that break the rules, stand still, die, or never stop. They must not harm other clients, and must be
//! counted.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{Address, Bmi, Buffer, Class, ContextId, Tag};
use files::wire::encode_request;
use files::{Caller, Data, Errno, FileSystem, Handle, Reply, Request, Segment};
use files_bmi::{ClientOptions, Counts, ForwarderOptions};

use common::{Exported, TcpSite, at};

/// A client that builds its messages by hand.
struct Stranger {
    bmi: Bmi,
    context: ContextId,
    server: Address,
}

/// The head of a call. The test sets the fields, from slot 0 on.
struct Head {
    flags: u8,
    slot: u16,
    sequence: u32,
    attempt: u32,
    client: u8,
    room: u32,
    piece: u32,
    request: u32,
    data: u32,
}

impl Head {
    fn new(sequence: u32) -> Self {
        Self {
            flags: 0,
            slot: 0,
            sequence,
            attempt: 0,
            client: 1,
            room: 4096,
            piece: 1 << 20,
            request: 0,
            data: 0,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"FBC1".to_vec();
        bytes.extend([self.flags, 0]);
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.attempt.to_le_bytes());
        bytes.extend([self.client; 16]);
        bytes.extend([0; 12]);
        bytes.extend(self.room.to_le_bytes());
        bytes.extend(self.piece.to_le_bytes());
        bytes.extend(self.request.to_le_bytes());
        bytes.extend(self.data.to_le_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

impl Stranger {
    fn new(site: &TcpSite) -> Self {
        let bmi = Bmi::builder().method(Tcp::new()).start().unwrap();
        Self {
            context: bmi.open_context().unwrap(),
            server: bmi.lookup(&site.address).unwrap(),
            bmi,
        }
    }

    fn send(&self, message: Vec<u8>, tag: i32) {
        let sent = self.bmi.post_send_unexpected(
            self.context,
            self.server,
            message,
            Tag(tag),
            Class(0),
            0,
        );
        sent.unwrap();
        self.bmi
            .test_context(self.context, 16, Duration::ZERO)
            .unwrap();
    }

    /// Sends a request with its correct length.
    fn call(&self, mut head: Head, request: &Request, tag: i32) {
        let request = encode_request(&Caller::default(), request);
        head.request = request.len() as u32;
        self.send([head.bytes(), request].concat(), tag);
    }

    /// Returns the error number in the answer with this tag.
    fn answer(&self, tag: i32) -> u16 {
        let room = Buffer::zeroed(4096).unwrap();
        let posted = self
            .bmi
            .post_receive(self.context, self.server, room, Tag(tag), 0)
            .unwrap();
        let buffer = match posted {
            bmi::Post::Immediate(_, payload) => payload.into_buffer(),
            bmi::Post::Pending(op) => {
                let done = self
                    .bmi
                    .test(op, testkit::TIME_LIMIT)
                    .unwrap()
                    .expect("an answer");
                done.result.unwrap();
                done.payload.into_buffer()
            }
        };
        assert_eq!(&buffer[..4], b"FBA1");
        u16::from_le_bytes([buffer[32], buffer[33]])
    }
}

fn small() -> ForwarderOptions {
    ForwarderOptions {
        memory: 8 << 20,
        workers: 2,
        turn: Duration::from_millis(20),
        ..ForwarderOptions::default()
    }
}

fn site(options: ForwarderOptions) -> (Exported, TcpSite) {
    let exported = Exported::new();
    let site = TcpSite::new(Arc::clone(&exported.files) as _, options);
    (exported, site)
}

fn counted(site: &TcpSite, what: &str, holds: impl Fn(&Counts) -> bool) {
    testkit::eventually(what, || holds(&site.forwarder().counters().snapshot()));
}

/// Writes and reads back a whole file as an ordinary client.
fn bystander(site: &TcpSite, name: &str) {
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files
        .create(&caller, at(name), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern(5 << 20);
    assert_eq!(files.write(&caller, file, 0, &bytes), Ok(bytes.len()));
    let mut back = vec![0; bytes.len()];
    assert_eq!(files.read(&caller, file, 0, &mut back), Ok(bytes.len()));
    assert!(back == bytes);
}

fn write(handle: Handle, length: u64) -> Request {
    let segments = vec![Segment { offset: 0, length }];
    Request::Write { handle, segments }
}

fn read(handle: Handle, length: u64) -> Request {
    let segments = vec![Segment { offset: 0, length }];
    Request::Read { handle, segments }
}

#[test]
fn what_is_no_call_is_dropped_and_counted() {
    let (_exported, site) = site(small());
    let stranger = Stranger::new(&site);
    stranger.send(Vec::new(), 1);
    stranger.send(vec![0xA5; 8192], 2);
    stranger.send(Head::new(1).bytes()[..63].to_vec(), 3);
    counted(&site, "garbage", |counts| counts.dropped_garbage == 3);
    let mut head = Head::new(1);
    head.slot = 16;
    stranger.call(head, &Request::Null, 4);
    counted(&site, "a bad slot", |counts| counts.dropped_bad_slot == 1);
    bystander(&site, "f");
}

#[test]
fn lies_about_lengths_are_answered_with_an_error() {
    let (_exported, site) = site(small());
    let stranger = Stranger::new(&site);
    let mut head = Head::new(1);
    (head.request, head.data) = (u32::MAX, u32::MAX);
    stranger.send(head.bytes(), 1);
    assert_eq!(stranger.answer(1), Errno::EPROTO as u16);
    let mut head = Head::new(2);
    head.flags = 2;
    head.request = u32::MAX;
    stranger.send(head.bytes(), 2);
    assert_eq!(stranger.answer(2), Errno::EMSGSIZE as u16);
    for (tag, piece) in [(3, 0), (4, 1), (5, u32::MAX)] {
        let mut head = Head::new(tag as u32);
        head.piece = piece;
        stranger.call(head, &read(Handle::ROOT, 1 << 20), tag);
        assert_eq!(stranger.answer(tag), Errno::EMSGSIZE as u16);
    }
    // Data of another length than the request specifies, and data of another piece.
    let file = site.client(ClientOptions::default());
    let file = file
        .create(&Caller::default(), at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    stranger.call(Head::new(6), &write(file, 100_000), 6);
    let sent = stranger
        .bmi
        .post_send(stranger.context, stranger.server, vec![1; 50], Tag(6), 0);
    sent.unwrap();
    assert_eq!(stranger.answer(6), Errno::EPROTO as u16);
    stranger.call(Head::new(7), &write(file, 100_000), 7);
    let mut elsewhere = b"FBD1\0\0\0\0\x07\0\0\0\0\0\0\0".to_vec();
    elsewhere.resize(100_016, 1);
    stranger
        .bmi
        .post_send(stranger.context, stranger.server, elsewhere, Tag(7), 0)
        .unwrap();
    assert_eq!(stranger.answer(7), Errno::EPROTO as u16);
    counted(&site, "lengths", |counts| {
        counts.bad_lengths == 2 && counts.bad_requests == 2
    });
    let files = site.client(ClientOptions::default());
    assert_eq!(files.getattr(&Caller::default(), file).unwrap().size, 0);
}

#[test]
fn clients_that_do_not_move_give_their_buffers_to_those_who_do() {
    let (_exported, site) = site(small());
    let files = site.client(ClientOptions::default());
    let file = files
        .create(&Caller::default(), at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    files
        .write(&Caller::default(), file, 0, &testkit::pattern(16 << 20))
        .unwrap();
    // Writes that never send and reads that never receive want more than all memory.
    let strangers: Vec<_> = (1..=4).map(|_| Stranger::new(&site)).collect();
    for (number, stranger) in strangers.iter().enumerate() {
        for tag in 1..=8_u16 {
            let mut head = Head::new(1);
            (head.slot, head.client) = (tag, 10 + number as u8);
            let request = match tag % 2 {
                0 => read(file, 16 << 20),
                _ => write(file, 16 << 20),
            };
            stranger.call(head, &request, tag.into());
        }
    }
    counted(&site, "buffers are out", |counts| {
        counts.memory_high_bytes > 7 << 20
    });
    for number in 0..3 {
        bystander(&site, &format!("b{number}"));
    }
    let counts = site.forwarder().counters().snapshot();
    assert!(counts.buffers_taken_back > 0, "{counts:?}");
    assert!(counts.memory_high_bytes <= 8 << 20, "{counts:?}");
    // They die: all their exchanges and memory must be freed.
    drop(strangers);
    testkit::eventually("nothing is left", || {
        let standing = site.forwarder().standing();
        standing.exchanges == 0 && standing.memory == 0
    });
}

#[test]
fn a_client_that_stood_still_gets_all_of_its_bytes_later() {
    let (_exported, site) = site(small());
    let files = site.client(ClientOptions::default());
    let file = files
        .create(&Caller::default(), at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let slow = Stranger::new(&site);
    slow.call(Head::new(1), &write(file, 2 << 20), 1);
    counted(&site, "it has buffers", |counts| {
        counts.memory_high_bytes > 1 << 20
    });
    // Other clients want all memory until the strangers' buffers are taken back.
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..6 {
            let (site, over) = (&site, &over);
            scope.spawn(move || {
                let mut round = 0;
                while !over.load(Ordering::SeqCst) {
                    bystander(site, &format!("{number}.{round}"));
                    round += 1;
                }
            });
        }
        counted(&site, "buffers are taken back", |counts| {
            counts.buffers_taken_back > 0
        });
        over.store(true, Ordering::SeqCst);
    });
    for position in [0_u64, 1 << 20] {
        let mut data = b"FBD1\0\0\0\0".to_vec();
        data.extend(position.to_le_bytes());
        data.resize(16 + (1 << 20), 7);
        slow.bmi
            .post_send(slow.context, slow.server, data, Tag(1), 0)
            .unwrap();
    }
    assert_eq!(slow.answer(1), 0);
    assert_eq!(
        files.getattr(&Caller::default(), file).unwrap().size,
        2 << 20
    );
}

#[test]
fn an_exchange_that_stands_still_is_given_up() {
    let (_exported, site) = site(ForwarderOptions {
        patience: Duration::from_millis(100),
        ..small()
    });
    let stranger = Stranger::new(&site);
    let file = site.client(ClientOptions::default());
    let file = file
        .create(&Caller::default(), at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    stranger.call(Head::new(1), &write(file, 16 << 20), 1);
    counted(&site, "given up", |counts| counts.exchanges_stalled > 0);
    // The slot is free for the next call, and for another attempt of the same call.
    stranger.call(
        Head {
            attempt: 1,
            ..Head::new(1)
        },
        &Request::Null,
        2,
    );
    assert_eq!(stranger.answer(2), 0);
    bystander(&site, "g");
}

#[test]
fn an_attempt_takes_the_place_of_one_that_waits_for_its_client() {
    let (_exported, site) = site(ForwarderOptions {
        patience: Duration::from_secs(3600),
        ..small()
    });
    let stranger = Stranger::new(&site);
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files.create(&caller, at("f"), 0o644, true).unwrap();
    let file = file.0.handle;
    assert_eq!(
        files.write(&caller, file, 0, &vec![7; 3 << 20]),
        Ok(3 << 20)
    );
    // A write whose data never comes, and a read whose data the client never receives.
    for (sequence, stuck) in [(1, write(file, 3 << 20)), (2, read(file, 3 << 20))] {
        let tag = 10 * sequence as i32;
        stranger.call(Head::new(sequence), &stuck, tag);
        for attempt in 1..3 {
            let head = Head {
                attempt,
                ..Head::new(sequence)
            };
            stranger.call(head, &Request::Null, tag + attempt as i32);
            assert_eq!(stranger.answer(tag + attempt as i32), 0, "{stuck:?}");
        }
    }
    testkit::eventually("nothing is under way", || {
        site.forwarder().standing().exchanges == 0
    });
}

#[test]
fn a_client_without_measure_is_cut_off_and_the_others_are_not() {
    let (_exported, site) = site(small());
    let stranger = Stranger::new(&site);
    for number in 0..500_u16 {
        let mut head = Head::new(1);
        (head.slot, head.client) = (number % 16, (number / 16) as u8);
        stranger.call(head, &read(Handle::ROOT, 16 << 20), i32::from(number) + 1);
    }
    bystander(&site, "f");
    counted(&site, "too many", |counts| {
        counts.exchanges + counts.dropped_too_many >= 500
    });
    assert!(site.forwarder().standing().exchanges <= 64);
}

#[test]
fn an_attempt_that_is_repeated_is_carried_out_once() {
    let (exported, site) = site(small());
    let stranger = Stranger::new(&site);
    let mkdir = Request::Mkdir {
        place: at("d"),
        mode: 0o755,
    };
    stranger.call(Head::new(1), &Request::Null, 1);
    assert_eq!(stranger.answer(1), 0);
    stranger.call(Head::new(2), &mkdir, 2);
    // The test ignores the answer, as if it were lost.
    testkit::eventually("it was made", || {
        exported.directory.path().join("d").is_dir()
    });
    for attempt in 1..4 {
        let head = Head {
            attempt,
            ..Head::new(2)
        };
        let tag = 2 + attempt as i32;
        stranger.call(head, &mkdir, tag);
        assert_eq!(stranger.answer(tag), 0, "attempt {attempt}");
    }
    // A late attempt is dropped, and so is an earlier call.
    stranger.call(
        Head {
            attempt: 2,
            ..Head::new(2)
        },
        &mkdir,
        20,
    );
    stranger.call(Head::new(1), &mkdir, 21);
    counted(&site, "late ones", |counts| counts.dropped_late == 2);
    stranger.call(Head::new(3), &mkdir, 22);
    assert_eq!(stranger.answer(22), Errno::EEXIST as u16);
    // An earlier attempt may have reached another forwarder: this forwarder cannot know its outcome.
    let mut head = Head {
        flags: 1,
        attempt: 1,
        ..Head::new(4)
    };
    head.client = 9;
    stranger.call(head, &mkdir, 23);
    assert_eq!(stranger.answer(23), files::OUTCOME_UNKNOWN as u16);
    let counts = site.forwarder().counters().snapshot();
    assert_eq!((counts.answers_repeated, counts.outcome_unknown), (3, 1));
}

/// A file system that holds reads until it is opened, and records their order.
struct Gate {
    open: AtomicBool,
    order: Mutex<Vec<u8>>,
}

impl FileSystem for Gate {
    fn call(&self, _: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        let (Request::Read { handle, segments }, Data::Read(_)) = (request, data) else {
            return Ok(Reply::Done);
        };
        testkit::eventually("the gate is open", || self.open.load(Ordering::SeqCst));
        self.order.lock().unwrap().push(handle.0[0]);
        Ok(Reply::Counts(
            segments.iter().map(|segment| segment.length).collect(),
        ))
    }
}

#[test]
fn one_client_that_never_stops_starves_nobody() {
    let gate = Arc::new(Gate {
        open: AtomicBool::new(false),
        order: Mutex::default(),
    });
    let options = ForwarderOptions {
        workers: 1,
        quantum: 1,
        batch: 1,
        ..small()
    };
    let site = TcpSite::new(Arc::clone(&gate) as _, options);
    let clients = [1, 2].map(|_| site.client(ClientOptions::default()));
    let over = AtomicBool::new(false);
    let read = |client: usize| {
        let handle = Handle([client as u8; 32]);
        let read = clients[client].read(&Caller::default(), handle, 0, &mut [0; 100]);
        assert_eq!(read, Ok(100));
    };
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    read(0);
                }
            });
        }
        testkit::eventually("it queues", || site.forwarder().standing().queued == 15);
        let modest = [0; 4].map(|_| scope.spawn(|| read(1)));
        testkit::eventually("both queue", || site.forwarder().standing().queued == 19);
        gate.open.store(true, Ordering::SeqCst);
        for client in modest {
            client.join().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    // They took turns, although the calls of the greedy client arrived first.
    let order = gate.order.lock().unwrap();
    let last = order.iter().rposition(|&client| client == 1).unwrap();
    assert!(last <= 8, "{order:?}");
}
