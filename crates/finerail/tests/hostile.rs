//! A running node among hostile peers: thousands of silent connections, garbage, bytes that arrive one at a
//! time, a peer that never reads. The node still serves others, its memory and its log stay within limits, and its
//! counters show what happened.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lnet_types::Nid;
use lnet_wire::{
    Body, Connreq, Ctype, Get, Handle, Header, HeaderForm, Hello, HelloVersion, KsockHeader,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

use common::process::Process;
use common::site::{CLIENT, Site, yaml};
use common::{PATIENCE, eventually, pattern, scaled};

/// Returns the number of silent connections: about twice the number of unfinished handshakes that the node keeps.
fn idle_count() -> usize {
    scaled(2_000, 15_000)
}

/// Connections that the system accepts before the node does: less than the backlog.
const BURST: usize = 100;
/// Limit of the node's memory under this load, in KiB: the 20 MiB of an idle endpoint, and the same amount for its
/// peers.
const RESIDENT_KIB_MAX: u64 = 40 * 1024;
/// Limit of the lines on standard error at `--log warn`, for any behaviour of peers.
const LOG_LINES_MAX: usize = 20;

/// A node that accepts connections from every peer.
struct Victim {
    site: Site,
    node: Process,
}

impl Victim {
    fn start() -> Self {
        Self::start_with("")
    }

    fn start_with(settings: &str) -> Self {
        let site = Site::new();
        site.write("node.yaml", yaml(&[CLIENT], settings));
        let node = site.start_node("node");
        Self { site, node }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.site.port))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Checks that the node serves others.
    fn answers(&self) {
        self.site.ping(CLIENT, &[]).expect_code(0);
    }

    /// Checks the limits of memory and log. Returns the node's counters after its end.
    fn end(self) -> Value {
        let resident = self.node.resident_kib();
        println!("resident: {resident} KiB");
        assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB resident");
        let ended = self.node.stop().expect_code(0);
        let lines = ended.err.lines().count();
        assert!(lines <= LOG_LINES_MAX, "{lines} lines: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        self.site.stats("node")
    }
}

/// Waits until the node has closed a connection. Returns the number of bytes that the node sent.
fn wait_for_close(stream: &mut TcpStream) -> usize {
    let mut sent = 0;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return sent,
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return sent,
            Err(error) => panic!("the node did not close the connection: {error}"),
        }
    }
}

/// Raises the limit of open files for this process and its nodes, for thousands of connections. If that is not
/// permitted, prints the reason and returns false.
fn may_open(files: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = files.max(soft);
    let allowed =
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).is_ok() && hard >= files;
    if !allowed {
        eprintln!("skipped: this process may open {hard} files, not {files}");
    }
    allowed
}

#[test]
fn thousands_of_idle_connections_keep_nobody_from_being_served() {
    let count = idle_count();
    if !may_open(count as u64 + 500) {
        return;
    }
    let victim = Victim::start();
    let before = victim.node.resident_kib();
    let connect = |number: usize| {
        if number.is_multiple_of(BURST) {
            // The answer shows that the node has accepted all earlier connections.
            victim.answers();
        }
        victim.connect()
    };
    let mut idle: Vec<TcpStream> = (0..count).map(connect).collect();
    victim.answers();
    println!(
        "{} KiB for {count} connections",
        victim.node.resident_kib() - before
    );
    // The node closes each connection when its handshake expires, or earlier if there are too many.
    let total: usize = idle.iter_mut().map(wait_for_close).sum();
    assert_eq!(total, 0, "nobody was told anything");
    victim.answers();
    let stats = victim.end();
    let refused = &stats["socklnd"]["refused"];
    let refusals = |reason: &str| refused[reason].as_u64().unwrap_or(0);
    assert_eq!(
        refusals("too_slow") + refusals("too_many_handshakes"),
        count as u64,
        "{refused:#}"
    );
}

#[test]
fn a_node_that_may_open_few_files_serves_again_when_idle_connections_ended() {
    const FILES: usize = 64;
    if !common::can_run("prlimit", &["--nofile=64", "true"]) || !may_open(4 * FILES as u64) {
        eprintln!("skipped: no 'prlimit' (Debian: util-linux)");
        return;
    }
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let with_node = site.command("node", &["node"]);
    let mut command = std::process::Command::new("prlimit");
    command
        .arg("--nofile=64")
        .arg(with_node.get_program())
        .args(with_node.get_args());
    command.arg("--stats").arg(site.stats_path("node"));
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let victim = Victim { site, node };
    let idle: Vec<TcpStream> = (0..2 * FILES).map(|_| victim.connect()).collect();
    eventually("the node serves again", || {
        let answered = victim.site.ping(CLIENT, &["--timeout", "10"]).code() == Some(0);
        answered.then_some(())
    });
    drop(idle);
    victim.end();
}

#[test]
fn garbage_is_refused_and_counted_and_logged_once() {
    let victim = Victim::start();
    let noise = pattern(4096);
    for round in 0..500 {
        let mut stream = victim.connect();
        // The node may close the connection before everything is written.
        let _cut = stream.write_all(&noise[round..round + 256 + round]);
        wait_for_close(&mut stream);
    }
    victim.answers();
    let stats = victim.end();
    let refused = stats["socklnd"]["refused"].as_object().unwrap();
    let total: u64 = refused.values().filter_map(Value::as_u64).sum();
    assert_eq!(total, 500, "{refused:#?}");
    println!("{refused:?}");
}

/// Returns a connection request and the HELLO of a stranger.
fn opening(stranger: Nid) -> Vec<u8> {
    let node: Nid = CLIENT.parse().unwrap();
    let mut bytes = vec![0; Connreq::MAX_LEN + Hello::MAX_LEN];
    let request = Connreq::to(node).encode(&mut bytes).unwrap();
    let hello = Hello::dial(stranger, node, 77, Ctype::CONTROL);
    let hello = hello.encode(&mut bytes[request..]).unwrap();
    bytes.truncate(request + hello);
    bytes
}

fn stranger() -> Nid {
    "10.9.9.9@tcp".parse().unwrap()
}

/// Opens a connection and completes the handshake.
fn establish(victim: &Victim) -> TcpStream {
    establish_as(victim, stranger())
}

fn establish_as(victim: &Victim, stranger: Nid) -> TcpStream {
    let mut stream = victim.connect();
    stream.write_all(&opening(stranger)).unwrap();
    let mut answer = [0; Hello::MAX_LEN];
    let length = HelloVersion::V3.base_len();
    stream.read_exact(&mut answer[..length]).unwrap();
    stream
}

/// Returns a request that the node answers: a GET of the ping info.
fn question() -> Vec<u8> {
    let header = Header {
        dest_nid: CLIENT.parse().unwrap(),
        src_nid: stranger(),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: Body::Get(Get {
            return_wmd: Handle {
                interface: 1,
                object: 2,
            },
            match_bits: 0x8000_0000_0000_0000,
            ptl_index: 0,
            src_offset: 0,
            sink_length: 4096,
        }),
    };
    let mut bytes = KsockHeader::LNET.to_bytes().to_vec();
    let start = bytes.len();
    bytes.resize(start + HeaderForm::Nid4.len(), 0);
    header
        .encode(HeaderForm::Nid4, &mut bytes[start..])
        .unwrap();
    bytes
}

/// By the option, by the key of the configuration, and not if the key says no.
#[test]
fn with_match_addresses_a_peer_that_borrows_a_nid_is_refused() {
    let option = ["--match-addresses"].as_slice();
    for (options, key, is_refused) in [
        (option, "", true),
        (&[], "global: {match_addresses: 1}", true),
        (option, "global: {match_addresses: 0}", false),
    ] {
        assert_eq!(
            refuses_a_borrowed_nid(options, key),
            is_refused,
            "{options:?} {key}"
        );
    }
}

fn refuses_a_borrowed_nid(options: &[&str], key: &str) -> bool {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], key));
    let mut command = site.command("node", &["node"]);
    command
        .args(options)
        .arg("--stats")
        .arg(site.stats_path("node"));
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let victim = Victim { site, node };
    // The stranger connects from 127.0.0.1.
    let mut stream = victim.connect();
    stream.write_all(&opening(stranger())).unwrap();
    let is_refused = stream.read(&mut [0]).unwrap_or_default() == 0;
    let stats = victim.end();
    let refused = &stats["socklnd"]["refused"]["hello_address"];
    assert_eq!(refused.as_u64().unwrap_or_default(), u64::from(is_refused));
    is_refused
}

#[test]
fn thousands_of_peers_that_say_nothing_keep_nobody_from_being_served() {
    let count = idle_count();
    if !may_open(count as u64 + 500) {
        return;
    }
    let victim = Victim::start();
    let before = victim.node.resident_kib();
    let peer = |number: usize| format!("10.9.{}.{}@tcp", number / 250, number % 250 + 1);
    let idle: Vec<TcpStream> = (0..count)
        .map(|number| establish_as(&victim, peer(number).parse().unwrap()))
        .collect();
    victim.answers();
    println!(
        "{} KiB for {count} peers",
        victim.node.resident_kib() - before
    );
    let stats = victim.end();
    assert_eq!(stats["socklnd"]["accepted"], count + 1, "{stats:#}");
    drop(idle);
}

#[test]
fn a_peer_may_have_only_so_many_connections_of_a_type() {
    const MANY: usize = 200;
    const KEPT: usize = 128;
    let victim = Victim::start();
    let streams: Vec<TcpStream> = (0..MANY).map(|_| establish(&victim)).collect();
    victim.answers();
    let stats = victim.end();
    let refused = &stats["socklnd"]["refused"];
    assert_eq!(refused["duplicate"], MANY - KEPT, "{refused:#}");
    drop(streams);
}

#[test]
fn handshakes_that_come_byte_by_byte_end_at_their_deadline() {
    const SENDERS: usize = 50;
    const PAUSE: Duration = Duration::from_millis(300);
    let victim = Victim::start();
    let bytes = opening(stranger());
    let mut senders: Vec<TcpStream> = (0..SENDERS).map(|_| victim.connect()).collect();
    let begun = Instant::now();
    senders[0].set_read_timeout(Some(PAUSE)).unwrap();
    for byte in &bytes {
        for sender in &mut senders {
            // The node has closed the connections whose writes fail.
            let _cut = sender.write_all(&[*byte]);
        }
        // Waits for the pause, or until the node closes the connection, which is the expected end.
        let waited = senders[0].read(&mut [0]);
        if !waited.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            break;
        }
    }
    assert!(
        begun.elapsed() < PAUSE * u32::try_from(bytes.len()).unwrap(),
        "nobody was stopped"
    );
    senders
        .iter_mut()
        .for_each(|sender| assert_eq!(wait_for_close(sender), 0));
    victim.answers();
    let stats = victim.end();
    assert_eq!(
        stats["socklnd"]["refused"]["too_slow"], SENDERS,
        "{stats:#}"
    );
}

#[test]
fn a_frame_that_does_not_go_on_ends_its_connection() {
    let victim = Victim::start_with("global:\n  transaction_timeout: 5\n  retry_count: 0\n");
    let mut stream = establish(&victim);
    stream.write_all(&question()[..50]).unwrap();
    victim.answers();
    assert_eq!(wait_for_close(&mut stream), 0);
    let stats = victim.end();
    assert_eq!(stats["socklnd"]["closed"]["frame_stalled"], 1, "{stats:#}");
}

#[test]
fn garbage_behind_a_good_handshake_ends_the_connection_and_is_counted() {
    let victim = Victim::start();
    for _ in 0..100 {
        let mut stream = establish(&victim);
        let _cut = stream.write_all(&pattern(500));
        wait_for_close(&mut stream);
    }
    victim.answers();
    let stats = victim.end();
    let closed = &stats["socklnd"]["closed"];
    assert_eq!(closed["protocol_frame_type"], 100, "{closed:#}");
}

#[test]
fn a_peer_that_asks_and_never_reads_the_answers_is_cut_off() {
    /// Less than the node's timeout for half a frame, 5 s.
    const LATE: Duration = Duration::from_secs(3);
    let victim = Victim::start_with("global:\n  transaction_timeout: 5\n  retry_count: 0\n");
    let mut stream = establish(&victim);
    stream
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let questions = question().repeat(1000);
    let mut next = 0;
    let mut asked = 0;
    // If a ping took long on a busy machine, a frame stayed half sent for that time.
    let mut was_late = false;
    let mut last = Instant::now();
    let asked = eventually("the node closes the connection", || {
        was_late |= std::mem::replace(&mut last, Instant::now()).elapsed() > LATE;
        match stream.write(&questions[next..]) {
            Ok(count) => {
                next = (next + count) % questions.len();
                asked += count;
                None
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                victim.answers();
                None
            }
            Err(_) => Some(asked),
        }
    });
    println!("{asked} bytes of questions");
    victim.answers();
    let stats = victim.end();
    let closed = &stats["socklnd"]["closed"];
    let is_late = was_late && closed["frame_stalled"] == 1;
    assert!(is_late || closed["send_stalled"] == 1, "{stats:#}");
}
