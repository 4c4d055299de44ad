//! Compares the throughput of the `tcp` method with that of a plain socket: messages of 1 MiB, eight in
//! flight, against `writev` and `read` of the same size, in alternating rounds.
//!
//! Both ends are threads; `--one-core` keeps them on one CPU. Prints both rates and their ratio.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bmi::tcp::{Counter, Tcp};
use bmi::{Address, Bmi, Buffer, Class, ContextId, Post, Question, Tag};

const LEN: usize = 1 << 20;
const COUNT: usize = 1500;
const IN_FLIGHT: usize = 8;

fn main() {
    if std::env::args().any(|argument| argument == "--one-core") {
        let cpu = sys::allowed_cpus().unwrap()[0];
        sys::pin_to_cpu(cpu).unwrap();
    }
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let plain = plain();
        let bmi = method();
        println!(
            "plain {plain:7.2} GB/s   bmi {bmi:7.2} GB/s   ratio {:.2}",
            bmi / plain
        );
        ratios.push(bmi / plain);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2}", ratios[ratios.len() / 2]);
}

fn rate(begin: Instant) -> f64 {
    (LEN * COUNT) as f64 / begin.elapsed().as_secs_f64() / 1e9
}

/// One thread writes and another reads, over as many buffers as the method uses: a single buffer would stay
/// in the cache.
fn plain() -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let buffers = vec![vec![7; LEN]; IN_FLIGHT];
            for turn in 0..COUNT {
                near.write_all(&buffers[turn % IN_FLIGHT]).unwrap();
            }
        });
        let mut buffers = vec![vec![0; LEN]; IN_FLIGHT];
        far.read_exact(&mut buffers[0]).unwrap();
        let begin = Instant::now();
        for turn in 1..COUNT {
            far.read_exact(&mut buffers[turn % IN_FLIGHT]).unwrap();
        }
        rate(begin)
    })
}

fn method() -> f64 {
    let tcp = Tcp::new();
    let counters = tcp.counters();
    let server = Bmi::builder()
        .method(tcp)
        .listen("tcp://127.0.0.1:0")
        .start()
        .unwrap();
    let port = server.get(None, Question::TcpPort).unwrap();
    let rate = thread::scope(|scope| {
        scope.spawn(move || {
            let client = Bmi::builder().method(Tcp::new()).start().unwrap();
            let context = client.open_context().unwrap();
            let to = client.lookup(&format!("tcp://127.0.0.1:{port}")).unwrap();
            let hello = client.post_send_unexpected(context, to, vec![1], Tag(0), Class(0), 0);
            wait_for(&client, context, hello.unwrap());
            stream(&client, context, COUNT, |buffer| {
                client.post_send(context, to, buffer, Tag(1), 0).unwrap()
            });
            // The last message is sent; wait until the server has confirmed its arrival.
            let goodbye = client
                .post_receive(context, to, vec![0], Tag(2), 0)
                .unwrap();
            wait_for(&client, context, goodbye);
        });
        let context = server.open_context().unwrap();
        let from = loop {
            let mut hello = server
                .test_unexpected(Class(0), 1, Duration::from_secs(1))
                .unwrap();
            if let Some(hello) = hello.pop() {
                break hello.from;
            }
        };
        let receive = |buffer: Buffer| {
            server
                .post_receive(context, from, buffer, Tag(1), 0)
                .unwrap()
        };
        stream(&server, context, 1, receive);
        let begin = Instant::now();
        stream(&server, context, COUNT - 1, receive);
        let rate = rate(begin);
        say_goodbye(&server, context, from);
        rate
    });
    assert!(
        counters.count(Counter::CopiedBytes) < (COUNT * 100) as u64,
        "large payloads were copied"
    );
    rate
}

fn say_goodbye(server: &Bmi, context: ContextId, to: Address) {
    let post = server.post_send(context, to, vec![1], Tag(2), 0).unwrap();
    wait_for(server, context, post);
}

fn wait_for(bmi: &Bmi, context: ContextId, post: Post) {
    if matches!(post, Post::Pending(_)) {
        while bmi
            .test_context(context, 1, Duration::from_secs(1))
            .unwrap()
            .is_empty()
        {}
    }
}

/// Posts `count` buffers, at most eight at a time.
fn stream(bmi: &Bmi, context: ContextId, count: usize, post: impl Fn(Buffer) -> Post) {
    let mut free: Vec<Buffer> = (0..IN_FLIGHT)
        .map(|_| Buffer::zeroed(LEN).unwrap())
        .collect();
    let (mut posted, mut done) = (0, 0);
    while done < count {
        while posted < count
            && let Some(buffer) = free.pop()
        {
            posted += 1;
            if let Post::Immediate(_, payload) = post(buffer) {
                free.push(payload.into_buffer());
                done += 1;
            }
        }
        if done == count {
            return;
        }
        for completion in bmi
            .test_context(context, IN_FLIGHT, Duration::from_secs(1))
            .unwrap()
        {
            assert_eq!(completion.result, Ok(LEN));
            free.push(completion.payload.into_buffer());
            done += 1;
        }
    }
}
