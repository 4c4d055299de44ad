//! Calls between real nodes over real sockets.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use lnet_node::{Md, Node, PutRequest};
use lnet_rpc::{
    Bulk, BulkError, Call, CallError, Client, ClientId, Entropy, Handler, Idempotence, Reply,
    Request, Response, Server, ServerOptions,
};
use lnet_types::ProcessId;

use common::{PATIENCE, client_with_long_timeouts, nid, quick_client, start};

const ECHO: u32 = 1;
const SUM: u32 = 2;
const PATTERN: u32 = 3;
const COUNT: u32 = 4;
const FAIL: u32 = 5;
const LONG: u32 = 6;
const HELD_SUM: u32 = 8;
const HELD_PATTERN: u32 = 9;

/// A service with operations whose results are easy to check.
#[derive(Clone, Default)]
struct Service {
    executed: Arc<Mutex<BTreeMap<u32, u32>>>,
    gone: Arc<Mutex<Vec<ClientId>>>,
    /// A held call waits for a message here before it moves its bulk.
    held: Arc<Mutex<Option<Receiver<()>>>>,
}

impl Service {
    fn executed(&self, opcode: u32) -> u32 {
        self.executed
            .lock()
            .unwrap()
            .get(&opcode)
            .copied()
            .unwrap_or(0)
    }
}

fn pattern(offset: u32) -> u8 {
    (offset.wrapping_mul(31) % 251) as u8
}

fn data(length: u32) -> Vec<u8> {
    (0..length).map(pattern).collect()
}

impl Service {
    /// Makes the next held call wait until a message is sent on the channel that is returned.
    fn hold(&self) -> Sender<()> {
        let (release, held) = channel();
        *self.held.lock().unwrap() = Some(held);
        release
    }

    /// Reports whether a held call waits.
    fn is_holding(&self) -> bool {
        self.held.lock().unwrap().is_none()
    }

    fn wait_at(&self, opcode: u32, offset: u32) {
        if offset == 0 && matches!(opcode, HELD_SUM | HELD_PATTERN) {
            let held = self.held.lock().unwrap().take().unwrap();
            held.recv_timeout(PATIENCE).unwrap();
        }
    }
}

impl Handler for Service {
    fn call(&self, call: &mut Call<'_>) -> Reply {
        *self
            .executed
            .lock()
            .unwrap()
            .entry(call.opcode())
            .or_default() += 1;
        let opcode = call.opcode();
        let moved: Result<Vec<u8>, BulkError> = match opcode {
            ECHO => Ok(call.body().to_vec()),
            SUM | HELD_SUM => {
                let mut hasher = blake3::Hasher::new();
                let mut expected = 0;
                call.read_bulk(|offset, piece| {
                    self.wait_at(opcode, offset);
                    assert_eq!(offset, expected);
                    expected += piece.len() as u32;
                    hasher.update(piece);
                    Ok(())
                })
                .map(|()| hasher.finalize().as_bytes().to_vec())
            }
            PATTERN | HELD_PATTERN => {
                let length = u32::from_le_bytes(call.body().try_into().unwrap());
                call.write_bulk(length, |offset, piece| {
                    self.wait_at(opcode, offset);
                    for (index, byte) in piece.iter_mut().enumerate() {
                        *byte = pattern(offset + index as u32);
                    }
                    Ok(())
                })
                .map(|()| Vec::new())
            }
            COUNT => Ok(self.executed(COUNT).to_le_bytes().to_vec()),
            FAIL => return Reply::error(2, b"no such thing".to_vec()),
            LONG => Ok(vec![0; 5000]),
            _ => return Reply::error(38, Vec::new()),
        };
        match moved {
            Ok(body) => Reply::ok(body),
            Err(error) => Reply::error(error.errno(), Vec::new()),
        }
    }

    fn session_ended(&self, client: ClientId) {
        self.gone.lock().unwrap().push(client);
    }
}

fn request(opcode: u32, body: &[u8], bulk: Bulk) -> Request {
    Request {
        opcode,
        body: body.to_vec(),
        bulk,
        idempotence: Idempotence::Once,
        deadline: PATIENCE,
    }
}

fn serve(node: &Node, service: &Service, life: u8) -> Server {
    serve_with(node, service, life, ServerOptions::default())
}

fn serve_with(node: &Node, service: &Service, life: u8, options: ServerOptions) -> Server {
    let entropy = Entropy::new([life; 32]);
    Server::start(node.clone(), service.clone(), &entropy, options).unwrap()
}

/// A client and a server, on two nodes.
struct Pair {
    service: Service,
    server: Server,
    client: Client,
    nodes: [Node; 2],
}

fn pair() -> Pair {
    pair_with(client_with_long_timeouts)
}

fn pair_with(make: fn(&Node, &str, u8) -> Client) -> Pair {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let service = Service::default();
    let server = serve(&far, &service, 1);
    let client = make(&near, "127.0.0.2@tcp", 9);
    Pair {
        service,
        server,
        client,
        nodes: [near, far],
    }
}

#[test]
fn a_body_comes_back() {
    let pair = pair();
    let response = pair
        .client
        .call(request(ECHO, b"hello", Bulk::None))
        .unwrap();
    assert_eq!(
        response,
        Response {
            body: b"hello".to_vec(),
            bulk: Vec::new()
        }
    );
    assert_eq!(pair.client.counters().retries, 0);
}

#[test]
fn a_window_of_one_piece_goes_on_as_soon_as_the_piece_is_taken() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let options = ServerOptions {
        piece_len: 4096,
        window: 1,
        ..ServerOptions::default()
    };
    let server = serve_with(&far, &Service::default(), 1, options);
    let client = client_with_long_timeouts(&near, "127.0.0.2@tcp", 9);
    let length = 3 * 4096_u32;
    let sum = request(SUM, b"", Bulk::Send(data(length).into()));
    client.call(sum).unwrap();
    let pattern = request(PATTERN, &length.to_le_bytes(), Bulk::Receive(length));
    assert_eq!(client.call(pattern).unwrap().bulk, data(length));
    assert_eq!(server.counters().bulk_restarts, 0);
    assert_eq!(client.counters().retries, 0);
}

#[test]
fn bulk_goes_both_ways_at_every_piece_border() {
    let pair = pair();
    let piece = 1 << 20;
    for length in [0, 1, piece - 1, piece, piece + 1, 5 * piece + 17] {
        let sent = data(length);
        let digest = blake3::hash(&sent).as_bytes().to_vec();
        let response = pair
            .client
            .call(request(SUM, b"", Bulk::Send(sent.clone().into())))
            .unwrap();
        assert_eq!(response.body, digest, "{length} bytes sent");
        let ask = request(PATTERN, &length.to_le_bytes(), Bulk::Receive(length));
        assert!(
            pair.client.call(ask).unwrap().bulk == sent,
            "{length} bytes received"
        );
    }
    assert_eq!(pair.client.counters().retries, 0);
}

#[test]
fn a_shorter_answer_than_the_room_is_cut() {
    let pair = pair();
    let ask = request(PATTERN, &10_u32.to_le_bytes(), Bulk::Receive(5000));
    assert_eq!(pair.client.call(ask).unwrap().bulk, data(10));
}

#[test]
fn memory_of_one_call_serves_the_next_ones() {
    const LENGTH: u32 = 1 << 20;
    let pair = pair_with(client_with_long_timeouts);
    let pattern = || request(PATTERN, &LENGTH.to_le_bytes(), Bulk::Receive(LENGTH));
    let first = pair.client.call(pattern()).unwrap().bulk;
    let place = first.as_ptr();
    pair.client.reuse(first);
    let second = pair.client.call(pattern()).unwrap().bulk;
    assert_eq!(second.as_ptr(), place);
    assert!(second == data(LENGTH));
    // The last event of what was sent may come a moment later than the reply.
    testkit::eventually("what was sent comes back", || {
        let sent = Bytes::from(data(LENGTH));
        let sum = request(SUM, b"", Bulk::Send(sent.clone()));
        pair.client.call(sum).unwrap();
        pair.client.reuse_sent(sent);
        pair.client.spare_memory().len() == LENGTH as usize
    });
}

#[test]
fn more_bulk_than_offered_fails_in_the_handler() {
    let pair = pair();
    let ask = request(PATTERN, &10_u32.to_le_bytes(), Bulk::Receive(5));
    let refused = pair.client.call(ask);
    assert_eq!(
        refused,
        Err(CallError::Remote {
            errno: 22,
            body: Vec::new()
        })
    );
}

#[test]
fn the_errno_of_a_handler_reaches_the_caller() {
    let pair = pair();
    let failed = pair.client.call(request(FAIL, b"", Bulk::None));
    let body = b"no such thing".to_vec();
    assert_eq!(failed, Err(CallError::Remote { errno: 2, body }));
}

#[test]
fn an_answer_too_long_for_a_message_is_an_error() {
    let pair = pair();
    let failed = pair.client.call(request(LONG, b"", Bulk::None));
    assert_eq!(
        failed,
        Err(CallError::Remote {
            errno: 90,
            body: Vec::new()
        })
    );
}

#[test]
fn many_threads_share_one_client() {
    let pair = pair();
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let client = &pair.client;
            scope.spawn(move || {
                for number in 0..100_u32 {
                    let body = (thread * 1000 + number).to_le_bytes();
                    let response = client.call(request(ECHO, &body, Bulk::None)).unwrap();
                    assert_eq!(response.body, body);
                }
            });
        }
    });
    assert_eq!(pair.service.executed(ECHO), 800);
    assert_eq!(pair.server.counters().executed, 800);
}

#[test]
fn a_client_that_closes_is_forgotten_at_once() {
    let pair = pair();
    pair.client.call(request(ECHO, b"", Bulk::None)).unwrap();
    assert_eq!(pair.server.clients(), 1);
    pair.client.close(PATIENCE);
    assert_eq!(pair.server.clients(), 0);
    assert_eq!(*pair.service.gone.lock().unwrap(), [pair.client.id()]);
    assert_eq!(
        pair.client.call(request(ECHO, b"", Bulk::None)),
        Err(CallError::Closed)
    );
}

#[test]
fn nobody_there_ends_with_the_deadline() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let client = quick_client(&near, "127.0.0.77@tcp", 9);
    let deadline = std::time::Duration::from_millis(700);
    let ask = Request {
        deadline,
        ..request(ECHO, b"", Bulk::None)
    };
    let ended = client.call(ask);
    let is_clear =
        matches!(ended, Err(CallError::Undelivered { within, .. }) if within == deadline);
    assert!(is_clear, "{ended:?}");
}

#[test]
fn a_gateway_that_drops_the_request_is_named_when_the_deadline_comes() {
    let port = testkit::port();
    let _gateway = start(port, &["127.0.0.3@tcp", "127.0.0.4@tcp1"], "");
    let route = "route:\n  - {net: tcp1, gateway: 127.0.0.3@tcp}\n";
    let near = start(port, &["127.0.0.1@tcp"], route);
    // One request, which leaves before the gateway has said that it forwards nothing.
    let client = client_with_long_timeouts(&near, "127.0.0.5@tcp1", 9);
    let deadline = std::time::Duration::from_secs(4);
    let ask = Request {
        deadline,
        ..request(ECHO, b"", Bulk::None)
    };
    let ended = client.call(ask).unwrap_err().to_string();
    let why = "no live route to tcp1: gateway 127.0.0.3@tcp does not forward messages";
    assert_eq!(ended, format!("no answer within {deadline:?}: {why}"));
}

#[test]
fn after_a_restart_one_kind_is_repeated_and_the_other_fails() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let client = quick_client(&near, "127.0.0.2@tcp", 9);
    let service = Service::default();
    let first = start(port, &["127.0.0.2@tcp"], "");
    let server = serve(&first, &service, 1);
    client.call(request(ECHO, b"", Bulk::None)).unwrap();
    // Ends the server as a kill would: without a goodbye, and with calls unfinished.
    drop(server);
    drop(first);
    let second = start(port, &["127.0.0.2@tcp"], "");
    let _server = serve(&second, &service, 2);
    assert_eq!(
        client.call(request(COUNT, b"", Bulk::None)),
        Err(CallError::ServerRestarted)
    );
    assert_eq!(service.executed(COUNT), 0);
    let again = Request {
        idempotence: Idempotence::Idempotent,
        ..request(COUNT, b"", Bulk::None)
    };
    assert_eq!(client.call(again).unwrap().body, 1_u32.to_le_bytes());
    assert_eq!(client.counters().sessions, 2);
}

#[test]
fn two_clients_on_one_node_do_not_disturb_each_other() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let service = Service::default();
    let server = serve(&far, &service, 1);
    for seed in [5, 6] {
        let client = quick_client(&near, "127.0.0.2@tcp", seed);
        client.call(request(ECHO, b"", Bulk::None)).unwrap();
    }
    assert_eq!(server.clients(), 2);
    server.shutdown(PATIENCE);
    assert_eq!(far.primary_nid(), nid("127.0.0.2@tcp"));
}

/// Makes a call whose handler waits until an attempt of the client has expired and the client has retried.
fn call_held(pair: &Pair, ask: Request) -> Response {
    let release = pair.service.hold();
    thread::scope(|scope| {
        let call = scope.spawn(|| pair.client.call(ask).unwrap());
        let begun = std::time::Instant::now();
        while pair.server.counters().repeated == 0 && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        release.send(()).unwrap();
        call.join().unwrap()
    })
}

#[test]
fn bulk_under_way_goes_on_at_the_addresses_of_the_next_attempt() {
    let length = 9 << 20;
    let sent = data(length);
    let digest = blake3::hash(&sent).as_bytes().to_vec();

    let reading = pair_with(quick_client);
    let ask = request(HELD_SUM, b"", Bulk::Send(sent.clone().into()));
    assert_eq!(call_held(&reading, ask).body, digest);
    assert!(reading.server.counters().bulk_restarts > 0);
    assert_eq!(reading.service.executed(HELD_SUM), 1);

    let writing = pair_with(quick_client);
    let ask = request(HELD_PATTERN, &length.to_le_bytes(), Bulk::Receive(length));
    assert!(call_held(&writing, ask).bulk == sent);
    assert_eq!(writing.service.executed(HELD_PATTERN), 1);
}

#[test]
fn a_server_that_stops_does_not_wait_for_a_client_that_died() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let service = Service::default();
    let options = ServerOptions {
        patience: PATIENCE,
        ..ServerOptions::default()
    };
    let entropy = Entropy::new([1; 32]);
    let server = Server::start(far, service.clone(), &entropy, options).unwrap();
    let client = quick_client(&near, "127.0.0.2@tcp", 9);
    let release = service.hold();
    thread::scope(|scope| {
        let ask = request(HELD_SUM, b"", Bulk::Send(data(9 << 20).into()));
        let call = scope.spawn(|| client.call(ask));
        let begun = std::time::Instant::now();
        while server.counters().repeated == 0 && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        near.shutdown(Duration::ZERO);
        assert!(call.join().unwrap().is_err());
    });
    release.send(()).unwrap();
    let begun = std::time::Instant::now();
    server.shutdown(Duration::from_millis(10));
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
}

#[test]
fn a_full_server_puts_calls_off_and_executes_them_all() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let service = Service::default();
    let options = ServerOptions {
        workers: 1,
        running_max: 1,
        ..ServerOptions::default()
    };
    let entropy = Entropy::new([1; 32]);
    let server = Server::start(far, service.clone(), &entropy, options).unwrap();
    let client = quick_client(&near, "127.0.0.2@tcp", 9);
    // One call waits, so that the others find a full server.
    let release = service.hold();
    thread::scope(|scope| {
        let held = request(HELD_SUM, b"", Bulk::Send(vec![1].into()));
        scope.spawn(|| client.call(held).unwrap());
        let begun = std::time::Instant::now();
        let await_that = |holds: &dyn Fn() -> bool| {
            while !holds() && begun.elapsed() < PATIENCE {
                thread::yield_now();
            }
        };
        await_that(&|| service.is_holding());
        for _ in 0..3 {
            scope.spawn(|| client.call(request(ECHO, b"", Bulk::None)).unwrap());
        }
        await_that(&|| server.counters().busy > 0);
        release.send(()).unwrap();
    });
    assert!(server.counters().busy > 0);
    assert_eq!(service.executed(ECHO), 3);
    assert_eq!(service.executed(HELD_SUM), 1);
}

#[test]
fn garbage_at_the_request_portal_is_counted_and_harmless() {
    let pair = pair();
    let [near, far] = &pair.nodes;
    let queue = near.event_queue();
    let md = near
        .bind(&queue, Md::source(vec![7; 100]).threshold(2))
        .unwrap();
    let put = PutRequest {
        md,
        ack: true,
        source: None,
        target: ProcessId::lustre(far.primary_nid()),
        portal: lnet_rpc::proto::REQUEST_PORTAL,
        match_bits: lnet_rpc::proto::REQUEST_MATCH_BITS,
        offset: 0,
        hdr_data: 0,
    };
    near.put(put).unwrap();
    // Messages to one portal keep their order, so the server has received the garbage before this call.
    assert!(pair.client.call(request(ECHO, b"", Bulk::None)).is_ok());
    assert_eq!(pair.server.counters().malformed, 1);
}

#[test]
fn a_client_on_the_servers_own_node_uses_loopback() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let _server = serve(&node, &Service::default(), 1);
    let client = quick_client(&node, "127.0.0.1@tcp", 9);
    let sent = data(3 << 20);
    let digest = blake3::hash(&sent).as_bytes().to_vec();
    let response = client
        .call(request(SUM, b"", Bulk::Send(sent.into())))
        .unwrap();
    assert_eq!(response.body, digest);
}
