//! The zbmi engine under arbitrary inputs: clients and servers that lie, repeat and use stale names.

use std::collections::BTreeSet;
use std::time::Duration;

use zoidd::zbmi::{
    Answer, Attach, BmiId, CallId, Class, Config, Departure, Direction, Engine, Errno, Gauges,
    GrantId, JobId, Limits, Output, Peer, Pid, PluginId, Post, PreviousStay, RecvRequest,
    RequestId, Segment, Selection, SendKind, SendRequest, ServerTest, Session, Tag, TestEntry,
    TestKind, TestRequest, Time, UnexpTest,
};

/// A run of the engine: no panic, consistent tables, exactly one end for each transfer, and nothing
/// left after both sides have gone.
pub fn zbmi_inputs(data: &[u8]) {
    let mut bytes = Bytes(data);
    let Ok(engine) = Engine::new(config(&mut bytes)) else {
        return;
    };
    let mut run = Run {
        engine,
        now: Time::ZERO,
        peers: Vec::new(),
        session: Session(1),
        calls: 0,
        last: None,
        running: BTreeSet::new(),
    };
    while !bytes.0.is_empty() {
        run.input(&mut bytes);
        run.settle();
    }
    run.end();
}

fn config(bytes: &mut Bytes<'_>) -> Config {
    let millis = |byte: u8| Duration::from_millis(u64::from(byte));
    Config {
        unexpected_size: 1024 + u64::from(bytes.next()) * 16,
        total_size: 1 << 20,
        max_unexpected: 256,
        max_expected: 1 << 18,
        hold: millis(bytes.next() % 4),
        stall: millis(50),
        reattach: millis(bytes.next() % 64),
        bulk_slots: u32::from(bytes.next() % 3),
        unexpected_share: Some(u64::from(bytes.next()) * 8).filter(|&share| share >= 256),
        credits: u32::from(bytes.next() % 4),
        limits: Limits {
            clients: 5,
            requests_per_client: 6,
            test_entries: 8,
            posts: 12,
            segments: 16,
            server_calls: 4,
            test_ids: 4,
        },
        ..Config::default()
    }
}

/// The input, followed by zeros without end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn size(&mut self) -> u64 {
        let (base, shift) = (u64::from(self.next()), self.next() % 64);
        base << shift
    }

    fn wait(&mut self) -> Duration {
        match self.next() {
            255 => Duration::MAX,
            millis => Duration::from_millis(u64::from(millis % 100)),
        }
    }

    fn direction(&mut self) -> Direction {
        if self.next() & 1 == 0 {
            Direction::ToServer
        } else {
            Direction::ToClient
        }
    }

    fn departure(&mut self) -> Departure {
        if self.next() & 1 == 0 {
            Departure::Orderly
        } else {
            Departure::Broken
        }
    }

    fn tag(&mut self) -> Tag {
        Tag(i32::from(self.next() % 3))
    }
}

struct Run {
    engine: Engine,
    now: Time,
    /// Every client so far.
    peers: Vec<Peer>,
    session: Session,
    calls: u64,
    last: Option<Answer>,
    running: BTreeSet<GrantId>,
}

impl Run {
    fn input(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() % 24 {
            0..=1 => self.attach(bytes),
            2 => {
                let peer = self.peer(bytes);
                self.engine.client_lost(self.now, peer, bytes.departure());
            }
            3..=5 => self.send(bytes),
            6..=7 => self.recv(bytes),
            8 => self.test(bytes),
            9 => {
                let (peer, request) = (self.peer(bytes), request(bytes));
                self.engine.wake(self.now, peer, request);
            }
            10..=13 => self.report(bytes),
            14 => {
                self.session = self.engine.server_attached().unwrap_or(self.session);
            }
            15 => {
                let how = bytes.departure();
                self.engine.server_lost(self.now, self.session, how);
            }
            16..=18 => self.post(bytes),
            19 => self.server_test(bytes),
            20 => self.unexp_test(bytes),
            21 => self
                .engine
                .unexp_free(self.now, self.session, u64::from(bytes.next()) * 64),
            22 => self.server_word(bytes),
            _ => {
                self.now = self.now + Duration::from_millis(u64::from(bytes.next() % 64));
                self.engine.tick(self.now);
            }
        }
    }

    fn attach(&mut self, bytes: &mut Bytes<'_>) {
        let uuid = [bytes.next() % 3; 16];
        let previous = Some(PreviousStay {
            epoch: 1,
            pid: Pid(u32::from(bytes.next() % 8)),
        });
        let attach = Attach {
            uuid,
            job: JobId(u32::from(bytes.next() % 3)),
            previous,
        };
        if let Ok(attached) = self.engine.client_attached(self.now, attach) {
            self.peers.push(attached.peer);
        }
    }

    /// A client, usually an existing one.
    fn peer(&self, bytes: &mut Bytes<'_>) -> Peer {
        let index = usize::from(bytes.next());
        let nobody = Peer {
            pid: Pid(index as u32),
            generation: 0,
        };
        let known = index
            .checked_rem(self.peers.len())
            .and_then(|nth| self.peers.get(nth));
        known.copied().unwrap_or(nobody)
    }

    fn send(&mut self, bytes: &mut Bytes<'_>) {
        let (peer, request, kind) = (self.peer(bytes), request(bytes), bytes.next());
        let class = Class(kind >> 6);
        let kind = match kind % 4 {
            0 | 1 => SendKind::Expected,
            2 => SendKind::Unexpected {
                class,
                inline: false,
            },
            _ => SendKind::Unexpected {
                class,
                inline: true,
            },
        };
        let (tag, total) = (bytes.tag(), bytes.size());
        let (timeout, order) = (bytes.wait(), u64::from(bytes.next() % 8));
        let send = SendRequest {
            kind,
            tag,
            total,
            timeout,
            order,
        };
        self.engine.send(self.now, peer, request, send);
    }

    fn recv(&mut self, bytes: &mut Bytes<'_>) {
        let (peer, request) = (self.peer(bytes), request(bytes));
        let (tag, capacity, timeout) = (bytes.tag(), bytes.size(), bytes.wait());
        self.engine.recv(
            self.now,
            peer,
            request,
            RecvRequest {
                tag,
                capacity,
                timeout,
            },
        );
    }

    fn test(&mut self, bytes: &mut Bytes<'_>) {
        let (peer, request, count) = (self.peer(bytes), request(bytes), bytes.next() % 10);
        let entries = (0..count).map(|_| {
            let kind = match bytes.next() % 2 {
                0 => TestKind::Expected(bytes.direction(), bytes.tag()),
                _ => TestKind::Unexpected { size: bytes.size() },
            };
            TestEntry {
                kind,
                multiplicity: u32::from(bytes.next()) << 20 | 1,
            }
        });
        let entries = entries.collect();
        let timeout = bytes.wait();
        self.engine
            .test(self.now, peer, request, TestRequest { entries, timeout });
    }

    fn report(&mut self, bytes: &mut Bytes<'_>) {
        let (what, nth) = (bytes.next() % 4, usize::from(bytes.next()));
        let real = nth
            .checked_rem(self.running.len())
            .and_then(|nth| self.running.iter().nth(nth));
        let grant = real.copied().unwrap_or(GrantId(nth as u64));
        let before = self.engine.gauges().transfers;
        match what {
            0 => self.engine.transfer_progressed(self.now, grant),
            1 => self.engine.transfer_arrived(self.now, grant),
            2 => self.engine.transfer_aborted(self.now, grant),
            _ => {
                let result = if bytes.next() & 1 == 0 {
                    Ok(())
                } else {
                    Err(Errno::ConnectionReset)
                };
                self.engine.transfer_acknowledged(self.now, grant, result);
            }
        }
        // A call that the engine gave back may begin again under another name.
        if self.engine.gauges().transfers < before || what == 2 {
            self.forget_ended(grant, what);
        }
    }

    /// The engine accepted the report: a second report about the same transfer is stale.
    fn forget_ended(&mut self, grant: GrantId, what: u8) {
        let stale = self
            .engine
            .counters()
            .rejections(zoidd::zbmi::Rejection::StaleReport);
        self.engine.transfer_progressed(self.now, grant);
        let is_over = self
            .engine
            .counters()
            .rejections(zoidd::zbmi::Rejection::StaleReport)
            > stale;
        if is_over {
            self.running.remove(&grant);
        }
        assert!(is_over || what == 2, "{grant:?} ended and runs");
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) -> CallId {
        // Sometimes a name that is in use.
        self.calls += u64::from(!bytes.next().is_multiple_of(8));
        CallId(self.calls)
    }

    fn post(&mut self, bytes: &mut Bytes<'_>) {
        let (call, peer) = (self.call(bytes), self.peer(bytes));
        let direction = bytes.direction();
        let (bmi, tag, not_immediate) =
            (BmiId(call.0), bytes.tag(), bytes.next().is_multiple_of(4));
        let count = bytes.next() % 4;
        let segments: Vec<Segment> = (0..count)
            .map(|_| Segment {
                offset: 8192 + bytes.size(),
                len: bytes.size(),
            })
            .collect();
        let sum = segments
            .iter()
            .fold(0_u64, |sum, piece| sum.wrapping_add(piece.len));
        let total = sum.wrapping_add(u64::from(bytes.next() == 255));
        let post = Post {
            direction,
            bmi,
            peer,
            tag,
            segments,
            total,
            not_immediate,
        };
        self.engine.post(self.now, self.session, call, post);
    }

    fn server_test(&mut self, bytes: &mut Bytes<'_>) {
        let call = self.call(bytes);
        let selection = match bytes.next() % 3 {
            0 => {
                let count = bytes.next() % 6;
                Selection::Ids(
                    (0..count)
                        .map(|_| PluginId(u64::from(bytes.next())))
                        .collect(),
                )
            }
            _ => Selection::Any(usize::from(bytes.next() % 4)),
        };
        let (timeout, wake_on_unexpected) = (bytes.wait(), bytes.next() & 1 == 0);
        let test = ServerTest {
            selection,
            timeout,
            wake_on_unexpected,
        };
        self.engine.server_test(self.now, self.session, call, test);
    }

    fn unexp_test(&mut self, bytes: &mut Bytes<'_>) {
        let call = self.call(bytes);
        let (capacity, class) = (usize::from(bytes.next() % 4), Class(bytes.next() >> 6));
        let timeout = bytes.wait();
        self.engine.unexp_test(
            self.now,
            self.session,
            call,
            UnexpTest {
                capacity,
                class,
                timeout,
            },
        );
    }

    fn server_word(&mut self, bytes: &mut Bytes<'_>) {
        let (what, number) = (bytes.next() % 32, u64::from(bytes.next()));
        match what {
            0..=15 => self.engine.cancel(self.now, self.session, PluginId(number)),
            16..=19 => {
                let _ = self.engine.drop_peer(self.session, Pid(number as u32 % 8));
            }
            20..=22 => self.engine.server_wake(self.session),
            23..=25 => self.engine.cancel_call(self.session, CallId(number)),
            26..=30 => {
                if let Some(answer) = self.last.take() {
                    self.engine.undelivered(self.session, answer);
                }
            }
            _ => self.engine.drain(self.now),
        }
    }

    fn settle(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Grant(transfer) | Output::Deliver(transfer) => {
                    let pieces: u64 = transfer.segments.iter().map(|piece| piece.len).sum();
                    assert_eq!(pieces, transfer.total);
                    assert!(self.running.insert(transfer.grant), "a name used twice");
                }
                Output::Stop { grant, .. } => {
                    assert!(self.running.remove(&grant), "{grant:?} does not run");
                }
                Output::Answer { answer, .. } => self.last = Some(answer),
                Output::Reply { .. } | Output::Credits { .. } | Output::Drained => {}
            }
        }
        assert_eq!(self.engine.audit(), Ok(()));
    }

    /// Both sides go: no transfer, request or operation is left, and no memory except that of
    /// messages that nobody fetched.
    fn end(&mut self) {
        for peer in self.peers.clone() {
            self.engine.client_lost(self.now, peer, Departure::Orderly);
            self.settle();
        }
        self.engine
            .server_lost(self.now, self.session, Departure::Orderly);
        self.now = self.now + Duration::from_secs(60);
        self.engine.tick(self.now);
        self.settle();
        assert!(
            self.running.is_empty(),
            "transfers without an end: {:?}",
            self.running
        );
        let gauges = self.engine.gauges();
        let unexpected = gauges.unexpected_ready;
        let left = Gauges {
            unexpected,
            unexpected_ready: unexpected,
            pool_used: gauges.pool_used,
            ..Gauges::default()
        };
        assert_eq!(gauges, left);
        assert_eq!(gauges.pool_used > 0, unexpected > 0);
    }
}

fn request(bytes: &mut Bytes<'_>) -> RequestId {
    RequestId(u32::from(bytes.next() % 16))
}
