//! Calls when an interface goes down: a call that waits for a reply, which may have been on this path, retries at once.
//!
//! The client's own timeout is a minute, and the network layer loses nothing. So an earlier retry happens because the
//! node knows that its interface is down.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use lnet_dlc::Dlc;
use lnet_dlc::protocol::{Fault, FaultPace, FaultRule, Request as Control};
use lnet_node::Node;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use lnet_rpc::{
    Bulk, Call, Client, Entropy, Handler, Idempotence, Reply, Request, Server, ServerOptions,
};

use common::{PATIENCE, client_with_long_timeouts, nid, start, start_managed};

const CLIENT: [&str; 2] = ["127.0.0.31@tcp", "127.0.1.31@tcp1"];
const SERVER: [&str; 2] = ["127.0.0.32@tcp", "127.0.1.32@tcp1"];
/// Half of what the client waits for an answer.
const SOONER: u32 = 3000;

/// Begins a call, and ends it when it is told to.
struct Service {
    begun: Sender<()>,
    end: Mutex<Receiver<()>>,
}

impl Handler for Service {
    fn call(&self, call: &mut Call<'_>) -> Reply {
        if call.opcode() == 1 {
            self.begun.send(()).unwrap();
            self.end.lock().unwrap().recv().unwrap();
        }
        Reply::ok(Vec::new())
    }
}

fn request(opcode: u32) -> Request {
    Request {
        opcode,
        body: Vec::new(),
        bulk: Bulk::None,
        idempotence: Idempotence::Once,
        deadline: PATIENCE,
    }
}

/// The link under this interface is down, as far as the node knows.
fn cut(node: &Node, text: &str) {
    node.with_engine(|engine, now| {
        let found = engine.core().nis().find(|ni| ni.nid == nid(text));
        let ni = found.unwrap().id;
        engine.core_mut().set_ni_fatal(ni, true, now);
    });
}

/// Both nodes know each other without discovery, so that neither says that an interface of its own is down.
fn peer(nids: [&str; 2]) -> String {
    let [first, second] = nids;
    format!(
        "global:\n  discovery: 0\npeer:\n- primary nid: {first}\n  Multi-Rail: True\n  peer ni:\n  - nid: {first}\n  - nid: {second}\n"
    )
}

struct Bed {
    near: ManagedNode,
    server: Server,
    client: Client,
    begun: Mutex<Receiver<()>>,
    may_end: Sender<()>,
}

impl Bed {
    /// A client that is connected to a server with these sections of configuration.
    fn new(of_server: &str) -> Self {
        let port = testkit::port();
        let near = start_managed(port, &CLIENT, &peer(SERVER));
        let far = start(port, &SERVER, &(peer(CLIENT) + of_server));
        let (has_begun, begun) = channel();
        let (may_end, end) = channel();
        let service = Service {
            begun: has_begun,
            end: Mutex::new(end),
        };
        let entropy = Entropy::new([1; 32]);
        let server = Server::start(far, service, &entropy, ServerOptions::default()).unwrap();
        let client = client_with_long_timeouts(near.node(), SERVER[0], 9);
        client.call(request(0)).unwrap();
        Self {
            near,
            server,
            client,
            begun: Mutex::new(begun),
            may_end,
        }
    }

    /// Begins a call, cuts the client's first interface in the middle of it, and lets the call end when it was asked
    /// again.
    fn call_while_cut(&self) {
        thread::scope(|scope| {
            let call = scope.spawn(|| self.client.call(request(1)));
            self.begun.lock().unwrap().recv().unwrap();
            cut(self.near.node(), CLIENT[0]);
            let (_keep, never) = channel::<()>();
            let mut looks = 0;
            while self.server.counters().repeated == 0 && looks < SOONER {
                looks += 1;
                // No event arrives: the queue only limits the wait of the test.
                let _none = never.recv_timeout(Duration::from_millis(10));
            }
            self.may_end.send(()).unwrap();
            call.join().unwrap().unwrap();
        });
        let counters = self.server.counters();
        assert_eq!(counters.repeated, 1, "the client did not ask again");
        assert_eq!(counters.executed, 2);
    }
}

#[test]
fn a_call_is_asked_again_at_once_when_an_interface_goes_down() {
    Bed::new("").call_while_cut();
}

/// The server prefers the rail that is cut, and has not heard of that.
#[test]
fn a_call_that_was_asked_again_is_answered_the_way_it_came() {
    let bed = Bed::new("udsp:\n- src: tcp\n  action:\n    priority: 0\n");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    let options = ControlOptions { path, group: None };
    let endpoint = ControlEndpoint::open(&bed.near, &options).unwrap();
    let mut dlc = Dlc::connect(endpoint.path()).unwrap();
    // What comes for the client on that rail is lost, in silence.
    let rule = FaultRule {
        source: "*".into(),
        dest: CLIENT[0].into(),
        pace: FaultPace::Rate(1),
        random_interval: false,
        all: false,
        messages: vec!["PUT".into()],
        portal: None,
        local_nid: None,
        errors: Vec::new(),
        delay: None,
    };
    dlc.request(&Control::Fault(Fault::Add(rule))).unwrap();
    bed.call_while_cut();
}
