//! Posts that do not wait, compared with a model. Whatever is posted, tested and cancelled on both sides,
//! every operation completes once, messages of a key arrive in the order of their posts, and only memory of
//! successful receives is written.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use bmi::conformance::Bed as _;
use bmi::{Class, Error, OpId, Post, Setting, Tag};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use zoid::setting;

use crate::bed::{Bed, End, LIMIT, is_long};

/// Lengths of messages and buffers in bytes, below and above the limit for bulk slots.
const SIZES: [usize; 5] = [0, 8, 300, 5000, 70_000];

/// How long nothing must happen before the remaining operations are cancelled.
const QUIET: Duration = Duration::from_millis(10);

/// The number of tags of each thread of a side.
const TAGS: i32 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// The client sends; the server receives.
    Upward {
        tag: i32,
        size: usize,
    },
    /// The server sends; the client receives.
    Downward {
        tag: i32,
        size: usize,
    },
    /// The client only.
    Unexpected {
        size: usize,
    },
    /// Cancels one of the operations in flight.
    Cancel(prop::sample::Index),
    Test {
        ids: usize,
        wait_ms: u64,
    },
}

/// What one thread does, and whether the other side does the same without cancels, so that all must succeed.
#[derive(Clone, Debug)]
struct Schedule {
    client: Vec<Vec<Step>>,
    server: Vec<Vec<Step>>,
    is_balanced: bool,
    post_timeout_ms: u64,
}

/// An operation and its result.
#[derive(Debug)]
struct Record {
    sends: bool,
    /// `None` for an unexpected message.
    tag: Option<i32>,
    size: usize,
    seed: u8,
    result: Option<Result<usize, Error>>,
    bytes: Vec<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop::sample::select(&SIZES[..]);
    prop_oneof![
        6 => (0..TAGS, size()).prop_map(|(tag, size)| Step::Upward { tag, size }),
        6 => (0..TAGS, size()).prop_map(|(tag, size)| Step::Downward { tag, size }),
        2 => prop::sample::select(&SIZES[..4]).prop_map(|size| Step::Unexpected { size }),
        2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        4 => (1_usize..5, 0_u64..3).prop_map(|(ids, wait_ms)| Step::Test { ids, wait_ms }),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let steps = || prop::collection::vec(step(), 0..40);
    let side = move |threads| prop::collection::vec(steps(), threads);
    let timeout = prop::sample::select(&[0_u64, 5, 60_000][..]);
    (1_usize..=2)
        .prop_flat_map(move |threads| (side(threads), side(threads), any::<bool>()))
        .prop_flat_map(move |sides| (Just(sides), timeout.clone()))
        .prop_map(|((mut client, mut server, is_balanced), post_timeout_ms)| {
            if is_balanced {
                let stays = |step: &Step| !matches!(step, Step::Cancel(_));
                client.iter_mut().for_each(|steps| steps.retain(stays));
                server.clone_from(&client);
            }
            Schedule {
                client,
                server,
                is_balanced,
                post_timeout_ms,
            }
        })
}

fn content(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|at| seed ^ (at * 7) as u8 | 1).collect()
}

/// One thread of a side.
struct Actor<'a> {
    side: &'a End,
    is_client: bool,
    /// The class of its unexpected messages; its tags begin at a multiple of it.
    number: u8,
    records: Vec<Record>,
    open: Vec<(OpId, usize)>,
}

impl Actor<'_> {
    fn act(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Upward { tag, size } => self.post(self.is_client, tag, size),
                Step::Downward { tag, size } => self.post(!self.is_client, tag, size),
                Step::Unexpected { size } if self.is_client => self.post_unexpected(size),
                Step::Unexpected { .. } => {}
                Step::Cancel(which) if !self.open.is_empty() => {
                    let (op, _) = *which.get(&self.open);
                    self.side.bmi.cancel(op).unwrap();
                }
                Step::Cancel(_) => {}
                Step::Test { ids, wait_ms } => {
                    self.test(ids, Duration::from_millis(wait_ms));
                }
            }
        }
    }

    fn record(&mut self, record: Record, post: Post) {
        let at = self.records.len();
        self.records.push(record);
        match post {
            Post::Pending(op) => self.open.push((op, at)),
            Post::Immediate(len, payload) => {
                let bytes = payload.into_buffer()[..].to_vec();
                (self.records[at].result, self.records[at].bytes) = (Some(Ok(len)), bytes);
            }
        }
    }

    fn post(&mut self, sends: bool, tag: i32, size: usize) {
        let (seed, side) = (self.records.len() as u8, self.side);
        let tag = i32::from(self.number) * TAGS + tag;
        let post = match (sends, seed.is_multiple_of(2)) {
            (true, _) => side.send(tag, content(seed, size)),
            (false, true) => side.receive_into(tag, size),
            (false, false) => side.receive(tag, side.outside(size)),
        };
        let record = Record {
            sends,
            tag: Some(tag),
            size,
            seed,
            result: None,
            bytes: Vec::new(),
        };
        self.record(record, post);
    }

    fn post_unexpected(&mut self, size: usize) {
        let (
            seed,
            End {
                bmi, context, peer, ..
            },
        ) = (self.records.len() as u8, self.side);
        let bytes = content(seed, size);
        let class = Class(self.number);
        let post = bmi.post_send_unexpected(*context, *peer, bytes, Tag(1), class, 7);
        let record = Record {
            sends: true,
            tag: None,
            size,
            seed,
            result: None,
            bytes: Vec::new(),
        };
        self.record(record, post.unwrap());
    }

    /// Returns whether anything completed.
    fn test(&mut self, ids: usize, wait: Duration) -> bool {
        let asked: Vec<OpId> = self.open.iter().take(ids).map(|(op, _)| *op).collect();
        if asked.is_empty() {
            return false;
        }
        let found = self.side.bmi.test_some(&asked, wait).unwrap();
        let any = !found.is_empty();
        for (place, completion) in found {
            let at = self.open.iter().position(|(op, _)| *op == asked[place]);
            let (_, at) = self.open.remove(at.expect("an operation completed twice"));
            let record = &mut self.records[at];
            record.result = Some(completion.result);
            record.bytes = completion.payload.into_buffer()[..].to_vec();
        }
        any
    }

    /// Waits for operations that complete by themselves (all if the other side does the same), and cancels
    /// the rest.
    fn finish(&mut self, is_balanced: bool) {
        let patience = if is_balanced { LIMIT } else { QUIET };
        while self.test(usize::MAX, patience) {}
        assert!(
            !is_balanced || self.open.is_empty(),
            "{:?} never completed",
            self.open
        );
        for (op, _) in &self.open {
            self.side.bmi.cancel(*op).unwrap();
        }
        while self.test(usize::MAX, LIMIT) {}
        assert!(self.open.is_empty(), "{:?} never ended", self.open);
    }
}

/// The operations of a thread of the client, those of a thread of the server, and the unexpected messages.
type Done = (Vec<Record>, Vec<Record>, Vec<Vec<u8>>);

fn run(server: &End, client: &End, schedule: &Schedule) -> Vec<Done> {
    let timeout = Duration::from_millis(schedule.post_timeout_ms);
    client
        .bmi
        .set(None, &Setting::PostTimeout(timeout))
        .unwrap();
    let posted = Barrier::new(2 * schedule.client.len());
    let run = |side, is_client, number, steps: &[Step]| {
        let mut actor = Actor {
            side,
            is_client,
            number,
            records: Vec::new(),
            open: Vec::new(),
        };
        actor.act(steps);
        posted.wait();
        actor.finish(schedule.is_balanced);
        actor.records
    };
    let run = &run;
    std::thread::scope(|scope| {
        let pairs = schedule.client.iter().zip(&schedule.server).zip(0..);
        let threads: Vec<_> = pairs
            .map(|((up, down), number)| {
                let up = scope.spawn(move || run(client, true, number, up));
                let down = scope.spawn(move || run(server, false, number, down));
                (up, down)
            })
            .collect();
        threads
            .into_iter()
            .zip(0..)
            .map(|((up, down), number)| {
                let (up, down) = (up.join().unwrap(), down.join().unwrap());
                (up, down, unexpected(server, Class(number)))
            })
            .collect()
    })
}

/// Returns all messages that have arrived.
fn unexpected(server: &End, class: Class) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let found = server.bmi.test_unexpected(class, 16, Duration::ZERO);
        let found = found.unwrap();
        if found.is_empty() {
            return all;
        }
        all.extend(found.into_iter().map(|one| one.data[..].to_vec()));
    }
}

fn check(schedule: &Schedule, done: &[Done]) {
    for (client, server, unexpected) in done {
        for sends in [true, false] {
            for tag in 0..2 * TAGS {
                check_key(
                    &of_key(client, Some(tag), sends),
                    &of_key(server, Some(tag), !sends),
                );
            }
        }
        let sent = of_key(client, None, true);
        let contents: Vec<_> = sent.iter().map(|one| content(one.seed, one.size)).collect();
        assert_eq!(unexpected, &contents, "unexpected messages");
        let ended = |one: &Record| !matches!(one.result, Some(Err(Error::Cancel)));
        let all = client.iter().chain(server).all(ended);
        assert!(!schedule.is_balanced || all, "cancelled by nobody");
    }
}

/// Returns the operations of a key that matched, in the order of their posts.
fn of_key(records: &[Record], tag: Option<i32>, sends: bool) -> Vec<&Record> {
    let met = |one: &&Record| {
        one.tag == tag && one.sends == sends && one.result != Some(Err(Error::Cancel))
    };
    records.iter().filter(met).collect()
}

fn check_key(one: &[&Record], other: &[&Record]) {
    assert_eq!(one.len(), other.len(), "{one:?} {other:?}");
    for (one, other) in one.iter().zip(other) {
        let (sent, received) = if one.sends {
            (one, other)
        } else {
            (other, one)
        };
        let expected = match sent.size <= received.size {
            true => Ok(sent.size),
            false => Err(Error::MsgSize),
        };
        assert_eq!(
            (sent.result, received.result),
            (Some(expected), Some(expected))
        );
        let mut bytes = vec![0; received.size];
        if let Ok(len) = expected {
            bytes[..len].copy_from_slice(&content(sent.seed, len));
        }
        assert!(received.bytes == bytes, "other bytes than were sent");
    }
}

fn agree(bed: &Bed, client: &End, server: &End) {
    let cases = if is_long() { 3000 } else { 150 };
    for side in [server, client] {
        side.bmi.set(None, &setting::PIPELINED).unwrap();
    }
    let mut runner = TestRunner::new(Config {
        cases,
        // The threads' interleaving differs from run to run.
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&schedule(), |schedule| {
        let done = run(server, client, &schedule);
        check(&schedule, &done);
        Ok(())
    });
    result.unwrap();
    for side in [client, server] {
        assert_eq!(side.counters.read().protocol_errors, 0);
    }
    assert_eq!(bed.metric("zoidd_reconnections_total"), 0.0);
}

// [ZOID-64]
#[test]
fn both_sides_agree_with_the_model() {
    let bed = Bed::with(|options| options.credits = 2);
    let (server, client) = bed.greeted_pair();
    agree(&bed, &client, &server);
}

#[test]
fn they_do_where_the_daemon_copies_out_of_and_into_the_clients_memory() {
    let bed = Bed::with(|options| options.client_memory = zoidd::ClientMemory::On);
    let (server, client) = bed.greeted_pair();
    agree(&bed, &client, &server);
    assert!(bed.metric("zoidd_client_memory_copies_total") > 0.0);
}

#[test]
fn they_do_over_tcp() {
    let bed = Bed::with(|options| options.listen = Some("127.0.0.1:0".parse().unwrap()));
    let mut server = bed.serve();
    let bmi = bed.client();
    let client = End {
        context: bmi.open_context().unwrap(),
        peer: bmi.lookup(&bed.address(&server.bmi)).unwrap(),
        bmi,
        counters: Arc::default(),
    };
    server.peer = server.greeted_by(&client);
    agree(&bed, &client, &server);
}
