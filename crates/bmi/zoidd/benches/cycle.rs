//! Measures one expected message from post to collection with 64 clients attached, and for comparison a push
//! and a pop on one queue per client, which no implementation can avoid.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use zoidd::zbmi::{
    Answer, Attach, BmiId, CallId, Config, Direction, Engine, JobId, Output, Peer, Post, RequestId,
    Segment, Selection, SendKind, SendRequest, ServerTest, Session, Tag, Time,
};

const CLIENTS: usize = 64;
/// The number of waiting operations of the server for each client.
const BACKLOG: i32 = 16;

struct Setup {
    engine: Engine,
    session: Session,
    peers: Vec<Peer>,
    names: u64,
}

fn setup() -> Option<Setup> {
    let mut engine = Engine::new(Config::default()).ok()?;
    let session = engine.server_attached().ok()?;
    let mut setup = Setup {
        session,
        peers: Vec::new(),
        names: 0,
        engine,
    };
    for client in 0..CLIENTS {
        let attach = Attach {
            uuid: [client as u8; 16],
            job: JobId(0),
            previous: None,
        };
        let peer = setup.engine.client_attached(Time::ZERO, attach).ok()?.peer;
        setup.peers.push(peer);
        (1..=BACKLOG).for_each(|tag| setup.post(peer, tag));
    }
    while setup.engine.poll_output().is_some() {}
    Some(setup)
}

impl Setup {
    fn call(&mut self) -> CallId {
        self.names += 1;
        CallId(self.names)
    }

    fn post(&mut self, peer: Peer, tag: i32) {
        let call = self.call();
        let post = Post {
            direction: Direction::ToServer,
            bmi: BmiId(call.0),
            peer,
            tag: Tag(tag),
            segments: vec![Segment {
                offset: 1 << 20,
                len: 4096,
            }],
            total: 4096,
            not_immediate: false,
        };
        self.engine.post(Time::ZERO, self.session, call, post);
    }

    /// Posts, claims, completes and collects one message. Returns the number of operations collected.
    fn cycle(&mut self, client: usize) -> usize {
        let Some(&peer) = self.peers.get(client % CLIENTS) else {
            return 0;
        };
        self.post(peer, 0);
        let send = SendRequest {
            kind: SendKind::Expected,
            tag: Tag(0),
            total: 4096,
            timeout: Duration::ZERO,
            order: self.names,
        };
        self.engine.send(Time::ZERO, peer, RequestId(1), send);
        while let Some(output) = self.engine.poll_output() {
            if let Output::Grant(transfer) = output {
                self.engine.transfer_arrived(Time::ZERO, transfer.grant);
            }
        }
        let call = self.call();
        let selection = Selection::Any(1);
        let test = ServerTest {
            selection,
            timeout: Duration::ZERO,
            wake_on_unexpected: true,
        };
        self.engine
            .server_test(Time::ZERO, self.session, call, test);
        match self.engine.poll_output() {
            Some(Output::Answer {
                answer: Answer::Completions { completions, .. },
                ..
            }) => completions.len(),
            _ => 0,
        }
    }
}

fn cycle(criterion: &mut Criterion) {
    let Some(mut setup) = setup() else {
        return;
    };
    let mut client = 0;
    criterion.bench_function(
        "post, claim, complete, collect with 64 clients",
        |bencher| {
            bencher.iter(|| {
                client += 1;
                black_box(setup.cycle(client))
            });
        },
    );
    let mut queues = vec![VecDeque::from([0_u64; 16]); CLIENTS];
    criterion.bench_function("one push and one pop on 64 queues", |bencher| {
        bencher.iter(|| {
            client += 1;
            let queue = &mut queues[client % CLIENTS];
            queue.push_back(black_box(client as u64));
            black_box(queue.pop_front())
        });
    });
}

criterion_group!(benches, cycle);
criterion_main!(benches);
