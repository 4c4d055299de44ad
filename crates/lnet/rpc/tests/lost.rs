//! Messages that the network loses without an error: the TIMEOUT event of the network layer makes a call retry,
//! and a call completes by its deadline, whatever is lost.
//!
//! The attempts of these clients expire after a minute. So whatever happens earlier is caused by the network
//! layer.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lnet_dlc::Dlc;
use lnet_dlc::protocol::{Fault, FaultPace, FaultRule, Request as Control};
use lnet_node::Node;
use lnet_noded::{ControlEndpoint, ControlOptions};
use lnet_rpc::{
    Bulk, Call, CallError, Client, Entropy, Handler, Idempotence, Reply, Request, Server,
    ServerOptions,
};
use tempfile::TempDir;

use common::{PATIENCE, client_with_long_timeouts, start, start_managed};

const OPCODE: u32 = 1;

/// A response expires after two to three seconds, and no message is resent.
const IMPATIENT: &str = "global:\n  retry_count: 0\n  transaction_timeout: 2\n";

/// A service that counts the calls it executes.
#[derive(Clone, Default)]
struct Service(Arc<AtomicU32>);

impl Handler for Service {
    fn call(&self, _: &mut Call<'_>) -> Reply {
        self.0.fetch_add(1, Ordering::SeqCst);
        Reply::ok(b"done".to_vec())
    }
}

struct Bed {
    service: Service,
    client: Client,
    dlc: Dlc,
    _server: Server,
    _endpoint: ControlEndpoint,
    _nodes: [Node; 2],
    _directory: TempDir,
}

impl Bed {
    /// Makes a client that is connected, and a server whose node the test controls.
    fn new() -> Self {
        let port = testkit::port();
        let near = start(port, &["127.0.0.1@tcp"], IMPATIENT);
        let managed = start_managed(port, &["127.0.0.2@tcp"], IMPATIENT);
        let far = managed.node().clone();
        let service = Service::default();
        let entropy = Entropy::new([1; 32]);
        let options = ServerOptions::default();
        let server = Server::start(far.clone(), service.clone(), &entropy, options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let options = ControlOptions { path, group: None };
        let endpoint = ControlEndpoint::open(&managed, &options).unwrap();
        let dlc = Dlc::connect(endpoint.path()).unwrap();
        let client = client_with_long_timeouts(&near, "127.0.0.2@tcp", 9);
        client.call(request(PATIENCE)).unwrap();
        Self {
            service,
            client,
            dlc,
            _server: server,
            _endpoint: endpoint,
            _nodes: [near, far],
            _directory: directory,
        }
    }

    /// Drops every Put of the client on its arrival, without an error.
    fn lose_requests(&mut self) {
        let rule = FaultRule {
            source: "127.0.0.1@tcp".into(),
            dest: "*".into(),
            pace: FaultPace::Rate(1),
            random_interval: false,
            all: false,
            messages: vec!["PUT".into()],
            portal: None,
            local_nid: None,
            errors: Vec::new(),
            delay: None,
        };
        self.fault(Fault::Add(rule));
    }

    fn lose_nothing(&mut self) {
        self.fault(Fault::Del {
            delay: false,
            source: None,
            dest: None,
        });
    }

    fn wait_for_a_loss(&mut self) {
        let (_keep, never) = channel::<()>();
        while self.fault(Fault::Show { delay: false }).contains(" 0/0,") {
            // No message ever comes: the channel only serves to wait.
            let _none = never.recv_timeout(Duration::from_millis(10));
        }
    }

    fn fault(&mut self, fault: Fault) -> String {
        self.dlc.request(&Control::Fault(fault)).unwrap()
    }
}

fn request(deadline: Duration) -> Request {
    Request {
        opcode: OPCODE,
        body: Vec::new(),
        bulk: Bulk::None,
        idempotence: Idempotence::Once,
        deadline,
    }
}

#[test]
fn a_request_that_is_lost_is_repeated_when_the_network_gives_it_up() {
    let mut bed = Bed::new();
    bed.lose_requests();
    thread::scope(|scope| {
        let client = bed.client.clone();
        let call = scope.spawn(move || client.call(request(PATIENCE)));
        bed.wait_for_a_loss();
        bed.lose_nothing();
        assert_eq!(call.join().unwrap().unwrap().body, b"done");
    });
    assert_eq!(bed.service.0.load(Ordering::SeqCst), 2);
}

#[test]
fn a_call_whose_every_request_is_lost_ends_with_its_deadline() {
    let mut bed = Bed::new();
    bed.lose_requests();
    let deadline = Duration::from_secs(4);
    let ended = bed.client.call(request(deadline));
    assert_eq!(ended, Err(CallError::Deadline(deadline)));
    assert_eq!(bed.service.0.load(Ordering::SeqCst), 1);
}
