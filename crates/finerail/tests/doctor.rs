//! `finerail doctor` with real peers, healthy and faulty: each finding appears once, and a healthy node has none.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use common::process::{Ended, Process, run};
use common::site::{ROUTER, STORAGE, Site, yaml};
use common::{finerail, is_root};

const NODE: &str = "127.0.0.2@tcp";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Timeouts in seconds: `AMPLE` exceeds every step on a busy machine. `SHORT` suffices if silence is the finding.
const AMPLE: &str = "60";
const SHORT: &str = "1";

fn doctor(port: u16, timeout: &str, more: &[&str]) -> Ended {
    let port = port.to_string();
    let mut words = vec!["doctor", "--port", &port, "--timeout", timeout];
    words.extend(more);
    run(finerail(words))
}

/// Returns the names of the findings. Only one node is examined.
fn findings(port: u16, timeout: &str, more: &[&str]) -> Vec<String> {
    let ended = doctor(port, timeout, &[more, &["--json"]].concat());
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = report[0]["findings"].as_array().unwrap();
    let names: Vec<String> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    ended.expect_code(i32::from(!names.is_empty()));
    names
}

/// Starts a site with one node.
fn site(nid: &str) -> (Site, Process) {
    let site = Site::new();
    site.write("node.yaml", yaml(&[nid], ""));
    let node = site.start_node("node");
    (site, node)
}

/// Starts a peer that calls `serve` for each connection, with its number. Returns its port.
fn peer(serve: impl Fn(TcpStream, usize) + Send + Sync + Clone + 'static) -> u16 {
    let port = testkit::port();
    let listener = TcpListener::bind((ADDRESS, port)).unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let serve = serve.clone();
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream, number));
        }
    });
    port
}

/// Forwards a connection to a node. Forwards at most `budget` bytes from the client.
fn carry(client: TcpStream, port: u16, budget: u64) {
    let node = TcpStream::connect((ADDRESS, port)).unwrap();
    node.set_nodelay(true).unwrap();
    client.set_nodelay(true).unwrap();
    let (mut said, mut heard) = (node.try_clone().unwrap(), client.try_clone().unwrap());
    let answers = thread::spawn(move || {
        let _ends_when_either_does = std::io::copy(&mut said, &mut heard);
        let _closed = heard.shutdown(Shutdown::Both);
    });
    let mut rest = client;
    let _ends_when_either_does = std::io::copy(&mut (&rest).take(budget), &mut &node);
    // Bytes beyond the budget are lost, but the connection stays open.
    let _ends_when_the_client_does = std::io::copy(&mut rest, &mut std::io::sink());
    let _closed = node.shutdown(Shutdown::Both);
    answers.join().unwrap();
}

#[test]
fn a_node_in_good_order_has_no_findings() {
    let (site, node) = site(NODE);
    let ended = doctor(site.port, AMPLE, &[NODE]).expect_code(0);
    let text = ended.out;
    assert!(text.ends_with("127.0.0.2@tcp: no findings\n"), "{text}");
    for seen in [
        "an LNet node answers, to an unprivileged port",
        "primary NID 127.0.0.2@tcp, NIs: 1, Multi-Rail, discovery\n",
        "fits 2.16 or later, or Finerail",
        "the same node on 8 connections",
        "24576 bytes at once to the node",
        "not tested: --listen is not given",
    ] {
        assert!(text.contains(seen), "no '{seen}' in {text}");
    }
    // The node must log nothing: its warnings go to standard error.
    assert_eq!(node.errors(), "");
    drop(node.stop());
}

#[test]
fn a_name_is_resolved_and_one_without_an_address_is_a_finding() {
    let (site, node) = site("127.0.0.1@tcp");
    let text = doctor(site.port, AMPLE, &["localhost@tcp"])
        .expect_code(0)
        .out;
    assert!(text.contains("localhost@tcp is 127.0.0.1@tcp"), "{text}");
    drop(node.stop());
    let nobody = findings(site.port, AMPLE, &["no-such-host.invalid@tcp"]);
    assert_eq!(nobody, ["name-unknown"]);
}

#[test]
fn a_node_that_no_route_leads_to_is_a_finding_and_the_others_are_examined() {
    let port = testkit::port();
    let text = doctor(port, AMPLE, &["fe80::1@tcp", NODE])
        .expect_code(1)
        .out;
    assert!(
        text.contains("no-way") && text.contains("port-refused"),
        "{text}"
    );
}

#[test]
fn nothing_that_listens_is_a_refused_port_and_further_ports_need_no_listener() {
    let port = testkit::port();
    assert_eq!(findings(port, AMPLE, &[NODE]), ["port-refused"]);
    let (site, node) = site(NODE);
    let ports = port.to_string();
    let ended = doctor(site.port, AMPLE, &["--ports", &ports, NODE]).expect_code(0);
    let seen = format!("{port}: reachable, but no process listens");
    assert!(ended.out.contains(&seen), "{}", ended.out);
    drop(node.stop());
}

#[test]
fn a_port_that_answers_no_attempt_is_filtered() {
    // A listener with a full queue drops connection attempts, as a firewall does.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = (ADDRESS, 0).into();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting: Vec<Socket> = (0..4)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _in_progress = socket.connect(&address);
            socket
        })
        .collect();
    let port = address.as_socket().unwrap().port();
    assert_eq!(findings(port, SHORT, &[NODE]), ["port-filtered"]);
    drop(waiting);
}

#[test]
fn a_node_that_is_stopped_is_a_silent_port() {
    let (site, node) = site(NODE);
    node.signal(Signal::SIGSTOP);
    assert_eq!(findings(site.port, SHORT, &[NODE]), ["port-silent"]);
    node.signal(Signal::SIGCONT);
    drop(node.stop());
}

#[test]
fn a_node_of_another_net_and_of_another_address_are_told_apart() {
    let (site, node) = site("127.0.0.2@tcp3");
    let ended = doctor(site.port, AMPLE, &[NODE]).expect_code(1);
    let seen = "error wrong-net: the node at ";
    assert!(ended.out.contains(seen), "{}", ended.out);
    assert!(
        ended.out.contains("answers as 127.0.0.2@tcp3"),
        "{}",
        ended.out
    );
    // Address translation: the address of one NID leads to the node of another NID.
    let real = site.port;
    let port = peer(move |client, _| carry(client, real, u64::MAX));
    drop(node.stop());
    site.write("node.yaml", yaml(&["127.0.0.3@tcp"], ""));
    let elsewhere = site.start_node("node");
    let moved = peer(move |client, _| {
        let node = TcpStream::connect((Ipv4Addr::new(127, 0, 0, 3), real)).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), node.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ends_when_either_does = std::io::copy(&mut &node, &mut &client);
        let _closed = client.shutdown(Shutdown::Both);
    });
    assert_ne!(port, moved);
    assert_eq!(findings(moved, AMPLE, &[NODE]), ["wrong-nid"]);
    drop(elsewhere.stop());
}

#[test]
fn an_acceptor_of_privileged_ports_refuses_others_and_the_doctor_says_what_to_do() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[NODE], ""));
    let mut command = site.command("node", &["node"]);
    command.args(["--accept", "secure"]);
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let ended = doctor(site.port, AMPLE, &[NODE]).expect_code(1);
    for text in [
        "warning unprivileged-refused: ",
        "--privileged",
        ": 1 finding\n",
    ] {
        assert!(ended.out.contains(text), "no '{text}' in {}", ended.out);
    }
    if is_root() {
        assert_eq!(findings(site.port, AMPLE, &["--privileged", NODE]), [""; 0]);
    }
    drop(node.stop());
}

#[test]
fn a_node_that_can_connect_to_this_machine_is_seen_to() {
    if !is_root() {
        return eprintln!("skipped: source ports below 1024 need root");
    }
    let (site, node) = site(NODE);
    let ended = doctor(site.port, AMPLE, &["--privileged", "--listen", NODE]).expect_code(0);
    let seen = "way back      the node connected from 127.0.0.2:";
    assert!(ended.out.contains(seen), "{}", ended.out);
    drop(node.stop());
}

/// A kernel node never dials a peer that it knows only by the peer's connections. The ping on a connection of type
/// BULK_OUT then gets no answer.
#[test]
fn a_node_that_does_not_dial_proves_nothing_about_the_way_back() {
    if !is_root() {
        return eprintln!("skipped: source ports below 1024 need root");
    }
    let (site, node) = site(NODE);
    let real = site.port;
    // Behind the proxy the node knows the doctor by connections from another address, which it cannot dial.
    let port = peer(move |client, _| carry(client, real, u64::MAX));
    let ended = doctor(port, "3", &["--privileged", "--listen", NODE]).expect_code(0);
    assert!(
        ended.out.contains("way back      not tested: "),
        "{}",
        ended.out
    );
    drop(node.stop());
}

#[test]
fn a_node_behind_a_router_is_examined_by_pings() {
    let site = Site::new();
    site.write_routed_nodes();
    let router = site.start_node("router");
    let storage = site.start_node("storage");
    let through = ["--gateway", ROUTER[0], STORAGE];
    let ended = doctor(site.port, AMPLE, &through).expect_code(0);
    let seen = "5 answers through 127.0.0.2@tcp";
    assert!(ended.out.contains(seen), "{}", ended.out);
    assert!(
        ended
            .out
            .contains("not tested: only messages pass a router"),
        "{}",
        ended.out
    );
    let config = site.path("client.yaml");
    let routed = ["--config", config.to_str().unwrap(), STORAGE];
    let ended = doctor(site.port, AMPLE, &routed).expect_code(0);
    assert!(ended.out.contains(seen), "{}", ended.out);
    drop(storage.stop());
    let ended = doctor(site.port, "3", &through).expect_code(1);
    assert!(ended.out.contains("error far-silent: "), "{}", ended.out);
    drop(router.stop());
    let (plain, node) = self::site(NODE);
    let ended = doctor(plain.port, AMPLE, &through).expect_code(1);
    assert!(ended.out.contains("error not-a-router: "), "{}", ended.out);
    drop(node.stop());
}

#[test]
fn a_ping_through_routers_may_come_from_a_privileged_port() {
    if !is_root() {
        return eprintln!("skipped: source ports below 1024 need root");
    }
    let site = Site::new();
    site.write_routed_nodes();
    let mut command = site.command("router", &["node"]);
    command.args(["--accept", "secure"]);
    let router = Process::start(command);
    router.wait_for_output("ready: ");
    let storage = site.start_node("storage");
    let config = site.path("client.yaml");
    let config = config.to_str().unwrap();
    site.ping(STORAGE, &["--privileged", "--config", config])
        .expect_code(0);
    drop(storage.stop());
    drop(router.stop());
}

#[test]
fn two_nodes_that_claim_one_nid_are_told_apart() {
    let (first, node) = site(NODE);
    let (second, other) = site(NODE);
    let ports = [first.port, second.port];
    let port = peer(move |client, number| carry(client, ports[number % 2], u64::MAX));
    assert_eq!(findings(port, AMPLE, &[NODE]), ["nid-claimed-twice"]);
    drop(node.stop());
    drop(other.stop());
}

#[test]
fn a_path_that_loses_what_is_large_is_seen_by_its_stall() {
    let (site, node) = site(NODE);
    let real = site.port;
    // 4000 bytes suffice for a handshake and the small pings.
    let port = peer(move |client, _| carry(client, real, 4000));
    let ended = doctor(port, SHORT, &[NODE]).expect_code(1);
    assert!(ended.out.contains("error large-stalls: "), "{}", ended.out);
    assert!(
        ended.out.contains("1536 bytes at once to the node"),
        "{}",
        ended.out
    );
    assert!(ended.out.ends_with(": 1 finding\n"), "{}", ended.out);
    drop(node.stop());
}

/// Closes a connection with a reset.
fn reset(client: TcpStream) {
    let client = Socket::from(client);
    client.set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

#[test]
fn a_peer_that_accepts_and_resets_is_no_firewall() {
    let port = peer(|client, _| reset(client));
    let ended = doctor(port, AMPLE, &[NODE]).expect_code(1);
    let seen = "port-closes: 127.0.0.2:";
    assert!(ended.out.contains(seen), "{}", ended.out);
    let how = "accepts the connection and resets it before it reads a byte";
    assert!(ended.out.contains(how), "{}", ended.out);
    assert!(!ended.out.contains("no-way"), "{}", ended.out);
    if is_root() {
        assert_eq!(
            findings(port, AMPLE, &["--privileged", NODE]),
            ["port-closes"]
        );
    }
    let open = doctor(
        testkit::port(),
        AMPLE,
        &["--ports", &port.to_string(), NODE],
    );
    let seen = format!("{port}: open");
    assert!(open.out.contains(&seen), "{}", open.out);
}

#[test]
fn a_peer_that_closes_unheard_whoever_asks_is_not_one_without_this_nid() {
    let port = peer(|client, _| drop(client));
    assert_eq!(findings(port, AMPLE, &[NODE]), ["unprivileged-refused"]);
    if is_root() {
        assert_eq!(
            findings(port, AMPLE, &["--privileged", NODE]),
            ["privileged-refused"]
        );
    }
}

#[test]
fn a_node_that_is_given_twice_is_examined_once_and_said_so() {
    let port = testkit::port();
    let nodes = ["localhost@tcp", "127.0.0.1@tcp", "127.0.0.1@tcp"];
    let ended = doctor(port, AMPLE, &nodes).expect_code(1);
    assert_eq!(ended.out.matches("1 finding").count(), 1, "{}", ended.out);
    ended.expect_error("127.0.0.1@tcp is given more than once, and examined once");
}

#[test]
fn wrong_usage_is_told_before_a_node_is_examined() {
    let ended = doctor(testkit::port(), AMPLE, &[NODE, "0.0.0.0@tcp"]).expect_code(2);
    assert_eq!(ended.out, "");
}

#[test]
fn a_peer_of_another_protocol_shows_its_first_words() {
    let port = peer(|mut client, _| {
        let _sent = client.read(&mut [0; 256]);
        let _closed = client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let ended = doctor(port, AMPLE, &[NODE]).expect_code(1);
    let seen = "error other-protocol: ";
    assert!(ended.out.contains(seen), "{}", ended.out);
    assert!(
        ended
            .out
            .contains("sends \"HTTP/1.1 400 Bad Request\" instead of a HELLO"),
        "{}",
        ended.out
    );
}

#[test]
fn a_peer_that_greets_first_and_in_pieces_shows_its_whole_first_line() {
    let port = peer(|mut client, _| {
        for piece in ["SSH-2.0", "-OpenSSH_9.2p1 ", "Debian-2\r\nmore"] {
            let _closed = client.write_all(piece.as_bytes());
            std::thread::yield_now();
        }
        let _sent = client.read(&mut [0; 256]);
        let _more = client.read(&mut [0; 256]);
    });
    let ended = doctor(port, AMPLE, &[NODE]).expect_code(1);
    let seen = "sends \"SSH-2.0-OpenSSH_9.2p1 Debian-2\" instead of a HELLO";
    assert!(ended.out.contains(seen), "{}", ended.out);
}

#[test]
fn a_peer_that_never_stops_sending_holds_nobody_up() {
    let port = peer(|mut client, _| while client.write_all(&[0x55; 4096]).is_ok() {});
    assert_eq!(findings(port, AMPLE, &[NODE]), ["flood"]);
}

#[test]
fn what_cannot_be_examined_is_wrong_usage() {
    for (more, complaint) in [
        (&["1@gni"][..], "not on a tcp network"),
        (&["0.0.0.0@o2ib"], "not the address of one interface"),
        (&["0.0.0.0@tcp"], "not the address of one interface"),
        (&["255.255.255.255@tcp"], "not the address of one interface"),
        (&["224.0.0.1@tcp1"], "not the address of one interface"),
        (&["::@tcp"], "not the address of one interface"),
        (&["ff02::1@tcp"], "not the address of one interface"),
        (&["[::]@tcp"], "not an address on a tcp network"),
        (&["10.0.0 .1@tcp"], "not an address on a tcp network"),
        (&["nonsense@nowhere"], "nowhere"),
        (&[NODE, "--source", NODE], "is the node to examine"),
        (&[NODE, "--timeout", "0"], "leaves no time"),
        (&[NODE, "--listen"], "--privileged"),
    ] {
        let words = ["doctor"].iter().chain(more);
        run(finerail(words)).expect_code(2).expect_error(complaint);
    }
}

#[test]
fn a_node_over_rdma_is_a_finding_where_this_machine_has_no_device_under_the_address() {
    // No RDMA device is under the loopback interface; of a machine without RDMA the libraries are missing, too.
    let nid = "127.0.0.9@o2ib";
    let loopback = ["--source", "127.0.0.1@o2ib", nid];
    let ended = doctor(987, AMPLE, &loopback).expect_code(1);
    let text = ended.out;
    assert!(text.contains("error no-rdma-device: "), "{text}");
    assert!(
        text.contains("connection    not tested: no endpoint of this machine can dial"),
        "{text}"
    );
    assert_eq!(findings(987, AMPLE, &loopback), ["no-rdma-device"]);
    let pinged = [&["ping"], &loopback[..]].concat();
    let pinged = run(finerail(pinged)).expect_code(2);
    assert!(
        pinged.err.contains("cannot start the endpoint"),
        "{}",
        pinged.err
    );
    // An address of this machine leads to no other node.
    for command in ["ping", "doctor"] {
        let own = run(finerail([command, "127.0.0.1@o2ib"])).expect_code(2);
        assert!(own.err.contains("--source"), "{}", own.err);
    }
}
