//! How `finerail node` starts and ends: messages to the service manager, signals, and what remains afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdOptions, Node, NodeOptions, Progress, PutRequest,
};
use lnet_types::ProcessId;
use nix::sys::signal::Signal;

use common::process::{Process, run};
use common::site::{CLIENT, ROUTER, STORAGE, Site, yaml};
use common::{PATIENCE, eventually, finerail, pattern};

/// Returns a site with the configuration of one node.
fn lonely() -> Site {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    site
}

fn ends_well(signal: Signal) {
    let site = lonely();
    let node = site.start_node("node");
    site.ping(CLIENT, &[]).expect_code(0);
    node.signal(signal);
    let ended = node.wait().expect_code(0);
    assert_eq!(ended.err, "", "nothing to complain about");
    let stats = site.stats("node");
    assert_eq!(stats["recv_count"], 1, "{stats:#}");
    assert_eq!(stats["socklnd"]["accepted"], 1, "{stats:#}");
    // The port is free at once, although one of its connections ended a moment ago.
    let again = site.start_node("node");
    again.stop().expect_code(0);
}

#[test]
fn sigterm_ends_a_node_with_its_counters_written_and_its_port_free() {
    ends_well(Signal::SIGTERM);
}

#[test]
fn sigint_ends_a_node_with_its_counters_written_and_its_port_free() {
    ends_well(Signal::SIGINT);
}

#[test]
fn a_node_leaves_nothing_behind() {
    let site = lonely();
    let private = site.path("tmp");
    fs::create_dir(&private).unwrap();
    let before = [names(&site.path("")), names(&private)];
    let mut command = site.command("node", &["node"]);
    command.env("TMPDIR", &private).current_dir(site.path(""));
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    node.stop().expect_code(0);
    assert_eq!([names(&site.path("")), names(&private)], before);
}

fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(site: &Site) -> Self {
        let socket = UnixDatagram::bind(site.path("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn next(&self) -> String {
        let mut buffer = [0; 256];
        let count = self.0.recv(&mut buffer).expect("the node says something");
        String::from_utf8_lossy(&buffer[..count]).trim().to_owned()
    }
}

fn start_managed(site: &Site, node: &str) -> Process {
    let mut command = site.command(node, &["node"]);
    command.env("NOTIFY_SOCKET", site.path("notify"));
    command.arg("--stats").arg(site.stats_path(node));
    Process::start(command)
}

#[test]
fn the_service_manager_is_told_ready_when_the_node_answers_and_stopping_when_it_ends() {
    let site = lonely();
    let manager = Manager::listen(&site);
    let node = start_managed(&site, "node");
    assert_eq!(manager.next(), "READY=1");
    site.ping(CLIENT, &[]).expect_code(0);
    node.signal(Signal::SIGTERM);
    assert_eq!(manager.next(), "STOPPING=1");
    node.wait().expect_code(0);
}

/// A node with a control socket.
struct Asked {
    site: Site,
    node: Process,
}

impl Asked {
    fn start(config: &str) -> Self {
        let site = Site::new();
        site.write("node.yaml", config);
        let control = format!("--control={}", site.path("control.sock").display());
        let node = Process::start(site.command("node", &["node", &control]));
        node.wait_for_output("ready: ");
        Self { site, node }
    }

    fn ctl(&self, words: &[&str]) -> String {
        let socket = self.site.path("control.sock");
        let mut command = finerail(["ctl"]);
        command.arg("--node").arg(socket).args(words);
        run(command).expect_code(0).out
    }

    fn configuration(&self) -> String {
        self.ctl(&["export", "--backup"])
    }

    /// Writes another configuration file, and signals the node to read it.
    fn reread(&self, config: &str) {
        self.site.write("node.yaml", config);
        self.node.signal(Signal::SIGHUP);
    }
}

#[test]
fn routes_that_go_down_are_in_the_log_once_and_say_why() {
    let asked = Asked::start(&yaml(&[CLIENT], ROUTE));
    let down = "routes by 127.0.0.9@tcp are down: 1 of 1 (does not answer)";
    asked.node.wait_for_error(down);
    let ended = asked.node.stop().expect_code(0);
    assert_eq!(ended.err.matches(down).count(), 1, "{}", ended.err);
}

#[test]
fn an_interrupted_row_of_pings_prints_what_it_has_so_far() {
    let site = lonely();
    let node = site.start_node("node");
    let port = site.port.to_string();
    let words = [
        "ping",
        "--port",
        &port,
        CLIENT,
        "--count",
        "1000",
        "--interval",
        "60",
    ];
    let ping = Process::start(finerail(words));
    ping.wait_for_error(" ms");
    ping.signal(Signal::SIGINT);
    let ended = ping.wait().expect_code(0);
    assert!(
        ended.out.contains("    sent: 1\n    received: 1\n"),
        "{}",
        ended.out
    );
    node.stop().expect_code(0);
}

#[test]
fn an_interrupted_simulation_prints_what_it_has_so_far() {
    let sim = Process::start(finerail(["sim", "failing-rail", "--for", "1h"]));
    let status = format!("/proc/{}/status", sim.id());
    eventually("the signal is taken", || {
        let status = fs::read_to_string(&status).ok()?;
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught >> (Signal::SIGINT as u32 - 1) & 1 == 1).then_some(())
    });
    sim.signal(Signal::SIGINT);
    let ended = sim.wait().expect_code(0);
    assert!(ended.out.contains("seed"), "{}", ended.out);
}

#[test]
fn who_waits_for_a_silent_node_is_told_after_two_seconds() {
    // The listener accepts connections and sends nothing.
    let site = lonely();
    let silent = std::net::TcpListener::bind(("127.0.0.9", site.port)).unwrap();
    let port = site.port.to_string();
    let ping = run(finerail([
        "ping",
        "--port",
        &port,
        "127.0.0.9@tcp",
        "--timeout",
        "3",
    ]));
    ping.expect_code(1)
        .expect_error("waiting for 127.0.0.9@tcp, 3 s at most (--timeout)");
    let list = ["files", "ls", "lnet:127.0.0.9@tcp:/", "--timeout", "4"];
    let ended = run(site.command("node", &list)).expect_code(1);
    ended.expect_error("waiting for an answer of 127.0.0.9@tcp, 4 s at most for each call");
    drop(silent);
}

#[test]
fn a_ping_that_a_gateway_keeps_to_itself_names_the_gateway_with_the_reason() {
    let site = Site::new();
    site.write_routed_nodes();
    site.write("router.yaml", yaml(&ROUTER, ""));
    let router = site.start_node("router");
    let ask = |question: &str| {
        let words = [question, STORAGE, "--timeout", "2"];
        let ended = run(site.command("client", &words)).expect_code(1);
        ended.expect_error("no live route to tcp1: gateway 127.0.0.2@tcp ")
    };
    for question in ["ping", "discover"] {
        ask(question).expect_error(&format!("no reply from {STORAGE} within 2 s: "));
        ask(question).expect_error("does not forward messages");
    }
    // It has not answered, or its connection came to nothing meanwhile.
    router.signal(Signal::SIGSTOP);
    ask("ping").expect_error(STORAGE);
    router.signal(Signal::SIGCONT);
}

#[test]
fn directories_on_the_way_are_made_when_that_is_asked_for() {
    let site = Site::new();
    site.write("server.yaml", yaml(&[CLIENT], ""));
    site.write("client.yaml", yaml(&["127.0.0.2@tcp"], ""));
    let files = site.path("files");
    fs::create_dir(&files).unwrap();
    let mut serve = site.command("server", &["store", "serve", "--identity", "server"]);
    serve.arg(&files);
    let server = Process::start(serve);
    server.wait_for_output("ready: ");
    let text = site.write("text", "text");
    let text = text.to_str().unwrap();
    let at = |name: &str| format!("lnet:{CLIENT}:/{name}");
    let (stored, moved) = (at("a/b/text"), at("c/text"));
    let files_at = |words: &[&str]| run(site.command("client", &[&["files"], words].concat()));
    let put = ["put", text, &stored];
    files_at(&put).expect_code(1).expect_error("-p makes");
    assert!(!files.join("a").exists());
    files_at(&[&put[..], &["-p"]].concat()).expect_code(0);
    files_at(&["mv", &stored, &moved]).expect_code(1);
    files_at(&["mv", "-p", &stored, &moved]).expect_code(0);
    let there = site.path("x/y/text");
    let get = ["get", &moved, there.to_str().unwrap()];
    files_at(&get).expect_code(2).expect_error("-p makes it");
    files_at(&[&get[..], &["-p"]].concat()).expect_code(0);
    assert_eq!(fs::read(there).unwrap(), b"text");
    server.stop().expect_code(0);
}

const ROUTE: &str = "route:\n- net: tcp5\n  gateway: 127.0.0.9@tcp\n";

#[test]
fn sighup_makes_what_is_new_in_the_file_and_removes_what_is_gone_from_it() {
    let asked = Asked::start(&yaml(&[CLIENT], ROUTE));
    assert!(asked.configuration().contains("net: tcp5"));
    let parameter = "global:\n  retry_count: 7\n";
    asked.reread(&yaml(&[CLIENT, "127.0.0.2@tcp1"], parameter));
    let after = eventually("the file is read again", || {
        let shown = asked.configuration();
        (!shown.contains("net: tcp5")).then_some(shown)
    });
    assert!(after.contains("net type: tcp1"), "{after}");
    assert!(after.contains("retry_count: 7"), "{after}");
    asked.site.ping("127.0.0.2@tcp1", &[]).expect_code(0);
    asked.node.stop().expect_code(0);
}

#[test]
fn sighup_leaves_alone_what_the_file_still_has() {
    let asked = Asked::start(&yaml(&[CLIENT], ROUTE));
    asked.site.ping(CLIENT, &[]).expect_code(0);
    let counters = || asked.ctl(&["net", "show", "--net", "tcp", "-v", "2"]);
    let before = counters();
    assert!(before.contains("recv_count: 1"), "{before}");
    asked.reread(&yaml(&[CLIENT], ""));
    eventually("the file is read again", || {
        (!asked.configuration().contains("net: tcp5")).then_some(())
    });
    assert_eq!(
        counters(),
        before,
        "an interface that was set up anew counts from 0"
    );
    asked.node.stop().expect_code(0);
}

/// Checks that the node rejects a file with a warning that contains `complaint`, and stays unchanged.
fn is_left_alone_by(config: &str, complaint: &str) {
    let asked = Asked::start(&yaml(&[CLIENT], ROUTE));
    let before = asked.configuration();
    asked.reread(config);
    asked
        .node
        .wait_for_error("the configuration was read again and rejected");
    let said = asked.node.errors();
    assert!(said.contains("WARN") && said.contains(complaint), "{said}");
    assert_eq!(asked.configuration(), before);
    // The node accepts the next valid file.
    asked.reread(&yaml(&[CLIENT], ""));
    eventually("the file is read again", || {
        (asked.configuration() != before).then_some(())
    });
    asked.node.stop().expect_code(0);
}

#[test]
fn sighup_with_a_file_that_cannot_be_read_leaves_the_node_as_it_is_and_warns_with_the_line() {
    is_left_alone_by("net:\n- net type: [tcp\n", "node.yaml:");
}

#[test]
fn sighup_with_a_file_that_cannot_be_made_changes_none_of_it_and_warns() {
    // An address for documentation, which no machine has.
    let elsewhere = yaml(&[CLIENT, "192.0.2.1@tcp7"], "global:\n  retry_count: 7\n");
    is_left_alone_by(&elsewhere, "nothing was changed");
}

/// A router with more messages to the storage node than sockets hold, because the storage node does not read.
struct Congested {
    router: Process,
    rest: Surroundings,
}

/// Everything that must outlive the router.
struct Surroundings {
    site: Site,
    manager: Manager,
    _client: Node,
    _storage: Node,
    /// Events at the storage node. A wait on this queue makes the node read.
    arrivals: EventQueue,
    /// Events at the client.
    sent: EventQueue,
}

const MESSAGES: u32 = 24;
const LENGTH: usize = 1 << 20;

fn node(site: &Site, name: &str, progress: Progress) -> Node {
    let text = fs::read_to_string(site.path(format!("{name}.yaml"))).unwrap();
    let options = NodeOptions {
        port: site.port,
        progress,
        ..NodeOptions::default()
    };
    let config = lnet_config::parse(&text).unwrap();
    lnet_noded::start(&config, options).unwrap().into_node()
}

fn congested() -> Congested {
    let site = Site::new();
    site.write_routed_nodes();
    // No message must expire here, and only the test's messages may be routed.
    for name in ["client", "router", "storage"] {
        let path = site.path(format!("{name}.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            path,
            text.replace(
                "transaction_timeout: 4",
                "discovery: 0\n  transaction_timeout: 200",
            ),
        )
        .unwrap();
    }
    let manager = Manager::listen(&site);
    let router = start_managed(&site, "router");
    assert_eq!(manager.next(), "READY=1");
    let storage = node(&site, "storage", Progress::Caller);
    let arrivals = storage.event_queue();
    let room = Md::sink(vec![0; LENGTH])
        .options(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE)
        .threshold(MESSAGES + 1);
    storage
        .attach(&arrivals, MatchEntry::exact(40, 7), room)
        .unwrap();
    let client = node(&site, "client", Progress::Thread);
    let sent = client.event_queue();
    put(&client, &sent, 0);
    // After one message has arrived, the connections are open.
    assert_eq!(
        arrivals.wait(Some(PATIENCE)).unwrap().event.kind,
        EventKind::Put
    );
    assert_eq!(sent.wait(Some(PATIENCE)).unwrap().event.status, Ok(()));
    for _ in 0..MESSAGES {
        put(&client, &sent, LENGTH);
    }
    let first = sent.wait(Some(PATIENCE)).unwrap();
    assert_eq!(first.event.status, Ok(()));
    let rest = Surroundings {
        site,
        manager,
        _client: client,
        _storage: storage,
        arrivals,
        sent,
    };
    Congested { router, rest }
}

fn put(client: &Node, queue: &EventQueue, length: usize) {
    let md = client
        .bind(queue, Md::source(pattern(length)).threshold(1))
        .unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(STORAGE.parse().unwrap()),
        portal: 40,
        match_bits: 7,
        offset: 0,
        hdr_data: 0,
    };
    client.put(put).unwrap();
}

impl Surroundings {
    /// Reads at the storage node until the router has ended. Returns the number of messages that arrived in that
    /// time.
    fn drain(&self, router: &mut Process) -> u64 {
        let mut arrived = 0;
        eventually("the router ends", || {
            while let Ok(event) = self.arrivals.wait(Some(Duration::from_millis(20))) {
                assert_eq!(event.event.status, Ok(()));
                arrived += u64::from(event.event.kind == EventKind::Put);
            }
            (!router.is_running()).then_some(arrived)
        })
    }
}

#[test]
fn a_router_that_is_stopped_passes_on_what_it_has() {
    let Congested { mut router, rest } = congested();
    router.signal(Signal::SIGTERM);
    assert_eq!(rest.manager.next(), "STOPPING=1");
    // The router has every byte of these messages in memory or in its socket.
    let sent = 2 + std::iter::from_fn(|| rest.sent.try_next()).count() as u64;
    // From here on the storage node reads.
    let arrived = 1 + rest.drain(&mut router);
    let ended = router.wait().expect_code(0);
    assert_eq!(ended.err, "", "it ended with nothing under way");
    let stats = rest.site.stats("router");
    assert_eq!(stats["route_count"], arrived, "{stats:#}");
    assert_eq!(stats["drop_count"], 0, "{stats:#}");
    assert!(
        arrived >= sent,
        "{arrived} arrived, {sent} were sent before"
    );
}

#[test]
fn a_second_signal_ends_a_node_at_once_whatever_is_under_way() {
    let Congested { mut router, rest } = congested();
    router.signal(Signal::SIGTERM);
    assert_eq!(rest.manager.next(), "STOPPING=1");
    assert!(router.is_running(), "it has something to finish");
    router.signal(Signal::SIGTERM);
    let ended = router.wait_within(Duration::from_secs(5));
    assert_eq!(
        ended.status.signal(),
        Some(Signal::SIGTERM as i32),
        "{ended:#?}"
    );
}

#[test]
fn a_node_whose_peers_do_not_let_it_finish_ends_after_its_grace_and_says_so() {
    let Congested { router, rest } = congested();
    router.signal(Signal::SIGINT);
    assert_eq!(rest.manager.next(), "STOPPING=1");
    let ended = router.wait().expect_code(0);
    assert!(ended.err.contains("messages in flight"), "{ended:#?}");
    assert!(rest.site.stats("router")["route_count"].is_u64());
}
