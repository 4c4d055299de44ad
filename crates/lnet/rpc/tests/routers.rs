//! A router that stops or dies beside a healthy one: a call goes on through the healthy router within a few
//! attempts, long before a connection, a transaction or the deadline expires.
//!
//! The routers are processes of their own, so that a signal can stop them.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lnet_node::{Node, NodeOptions};
use lnet_rpc::{
    Bulk, Call, Client, ClientOptions, Entropy, Handler, Idempotence, Reply, Request, Server,
    ServerOptions,
};
use nix::sys::signal::Signal;

use common::{configuration, nid};

/// The variable that tells a router process its two NIDs and the port.
const ROUTER: &str = "FINERAIL_TEST_ROUTER";
const BULK: u32 = 16 << 20;
/// The router fails when this many bytes have been handed to the network.
const MIDDLE: u32 = 4 << 20;
const DEADLINE: Duration = Duration::from_secs(60);
/// Such calls took 44 s and more before clients avoided a silent gateway. An attempt expires after 5 s.
const LIMIT: Duration = Duration::from_secs(20);

/// The direction of a call's bulk.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// A service that moves bulk, and the first time stops in the middle until the router has failed.
struct Service(Mutex<Option<Middle>>);

struct Middle {
    reached: Sender<()>,
    router_failed: Receiver<()>,
}

impl Service {
    fn at(&self, offset: u32) {
        if offset >= MIDDLE
            && let Some(middle) = self.0.lock().unwrap().take()
        {
            middle.reached.send(()).unwrap();
            middle.router_failed.recv().unwrap();
        }
    }
}

impl Handler for Service {
    fn call(&self, call: &mut Call<'_>) -> Reply {
        let moved = match call.opcode() {
            0 => Ok(()),
            1 => call.write_bulk(BULK, |offset, piece| {
                self.at(offset);
                piece.copy_from_slice(&content()[offset as usize..][..piece.len()]);
                Ok(())
            }),
            _ => call.read_bulk(|offset, piece| {
                self.at(offset);
                assert!(piece == &content()[offset as usize..][..piece.len()]);
                Ok(())
            }),
        };
        match moved {
            Ok(()) => Reply::ok(Vec::new()),
            Err(error) => {
                let error: lnet_rpc::BulkError = error;
                Reply::error(error.errno(), Vec::new())
            }
        }
    }
}

fn content() -> &'static [u8] {
    static CONTENT: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    CONTENT.get_or_init(|| testkit::pattern(BULK as usize))
}

/// A router in a process of its own; killed on drop, even if the process is stopped.
struct Router(Child);

impl Router {
    fn start(port: u16, near: &str, far: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "router_process", "--nocapture"])
            .env(ROUTER, format!("{near} {far} {port}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let ready = out.lines().any(|line| line.unwrap().contains("ready"));
        assert!(ready, "the router did not start");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        testkit::process::signal(self.0.id(), signal);
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs a router if this program was started as a router; otherwise tests nothing.
#[test]
fn router_process() {
    let Ok(told) = std::env::var(ROUTER) else {
        return;
    };
    let [near, far, port] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let _node = node(
        port.parse().unwrap(),
        &[near, far],
        "routing: {enable: 1}\n",
    );
    println!("ready");
    // Wait until the process that started this router exits.
    let _ended = std::io::stdin().read(&mut [0]);
}

/// Starts a node with the defaults that a user gets.
fn node(port: u16, nids: &[&str], more: &str) -> Node {
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    let node = lnet_noded::start(&configuration(nids, more), options);
    node.unwrap().into_node()
}

/// Returns routes to the net by both gateways; the second gateway has this priority.
fn routes(net: &str, gateways: [&str; 2], second: u32) -> String {
    format!(
        "route:\n  - {{net: {net}, gateway: {}}}\n  - {{net: {net}, gateway: {}, priority: {second}}}\n",
        gateways[0], gateways[1]
    )
}

/// Makes calls through two routers. The first router gets a signal in the middle of the bulk. Returns how long
/// the calls took from then on.
fn call_while(direction: Direction, signal: Signal, second: u32) -> Duration {
    // Make the bulk now: if it were made during a call, an attempt of the client would expire meanwhile.
    let _made = content();
    let port = testkit::port();
    let near = ["127.0.0.3@tcp", "127.0.0.6@tcp"];
    let far = ["127.0.0.4@tcp1", "127.0.0.7@tcp1"];
    let failing = Router::start(port, near[0], far[0]);
    let _healthy = Router::start(port, near[1], far[1]);
    let to_server = routes("tcp1", near, second);
    let client_node = node(port, &["127.0.0.2@tcp"], &to_server);
    let to_client = routes("tcp", far, second);
    let server_node = node(port, &["127.0.0.5@tcp1"], &to_client);
    let (is_reached, reached) = channel();
    let (has_failed, router_failed) = channel();
    let service = Service(Mutex::new(Some(Middle {
        reached: is_reached,
        router_failed,
    })));
    let entropy = Entropy::new([1; 32]);
    let options = ServerOptions::default();
    let _server = Server::start(server_node, service, &entropy, options).unwrap();
    let client = Client::new(
        client_node,
        nid("127.0.0.5@tcp1"),
        Entropy::new([9; 32]),
        ClientOptions::default(),
    );
    let greeting = request(0, Bulk::None);
    client.call(greeting).unwrap();

    thread::scope(|scope| {
        let failing = &failing;
        let failed = scope.spawn(move || {
            reached.recv().unwrap();
            failing.signal(signal);
            has_failed.send(()).unwrap();
            Instant::now()
        });
        let bulk = match direction {
            Direction::Read => Bulk::Receive(BULK),
            Direction::Write => Bulk::Send(content().into()),
        };
        let opcode = match direction {
            Direction::Read => 1,
            Direction::Write => 2,
        };
        let response = client.call(request(opcode, bulk)).unwrap();
        if matches!(direction, Direction::Read) {
            assert!(response.bulk == content());
        }
        let failed = failed.join().unwrap();
        println!("bulk: {:?}, {:?}", failed.elapsed(), client.counters());
        // Later calls are quick, too, in both directions.
        for _ in 0..4 {
            client.call(request(0, Bulk::None)).unwrap();
        }
        failed.elapsed()
    })
}

fn request(opcode: u32, bulk: Bulk) -> Request {
    Request {
        opcode,
        body: Vec::new(),
        bulk,
        idempotence: Idempotence::Once,
        deadline: DEADLINE,
    }
}

fn assert_within_limit(took: Duration) {
    println!("took {took:?}");
    assert!(took < LIMIT, "the healthy router was left for {took:?}");
}

#[test]
fn a_bulk_read_goes_on_through_the_other_router_when_one_hangs() {
    assert_within_limit(call_while(Direction::Read, Signal::SIGSTOP, 0));
}

#[test]
fn a_bulk_write_goes_on_through_the_other_router_when_one_hangs() {
    assert_within_limit(call_while(Direction::Write, Signal::SIGSTOP, 0));
}

#[test]
fn a_bulk_read_leaves_a_preferred_router_that_hangs() {
    assert_within_limit(call_while(Direction::Read, Signal::SIGSTOP, 1));
}

#[test]
fn a_bulk_read_leaves_a_preferred_router_that_is_killed() {
    assert_within_limit(call_while(Direction::Read, Signal::SIGKILL, 1));
}
