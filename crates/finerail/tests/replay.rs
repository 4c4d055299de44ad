//! A node records its inputs under traffic, with peers that are killed, stopped and restarted. The record replays to
//! the same decisions, contains no payload, and shows the place of a change.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use common::process::{Ended, Process, run};
use common::site::{STORAGE, Site, yaml};
use common::{eventually, finerail};

/// A text that occurs in the payload only.
const MARK: &[u8] = b"this text is payload and stands in no record";

/// Three nodes. The router records.
struct Recorded {
    site: Site,
    router: Process,
    storage: Option<Process>,
}

impl Recorded {
    fn start() -> Self {
        let site = Site::new();
        site.write_routed_nodes();
        fs::create_dir(site.path("kept")).unwrap();
        site.write("sent", MARK.repeat(100_000));
        let record = site.path("router.rec");
        let words = ["node", "--record", record.to_str().unwrap()];
        let router = Process::start(site.command("router", &words));
        router.wait_for_output("ready: ");
        let mut recorded = Self {
            site,
            router,
            storage: None,
        };
        recorded.start_storage();
        recorded
    }

    fn start_storage(&mut self) {
        let mut serve = self
            .site
            .command("storage", &["store", "serve", "--identity", "server"]);
        serve.arg(self.site.path("kept"));
        let storage = Process::start(serve);
        storage.wait_for_output("ready: ");
        self.storage = Some(storage);
    }

    fn put(&self, name: &str) -> Process {
        let sent = self.site.path("sent");
        let stored = format!("lnet:{STORAGE}:/{name}");
        let words = ["files", "put", sent.to_str().unwrap(), &stored];
        let words = [&words[..], &["--deadline", "30"]].concat();
        Process::start(self.site.command("client", &words))
    }

    fn record(&self) -> PathBuf {
        self.site.path("router.rec")
    }
}

fn replay(record: &Path, more: &[&str]) -> Ended {
    let words = [&["replay", record.to_str().unwrap()], more].concat();
    run(finerail(words))
}

/// Returns the result of a replay, as JSON.
fn summary(ended: &Ended) -> Value {
    let last = ended.out.lines().last().unwrap();
    serde_json::from_str(last).unwrap()
}

/// Puts files. The storage node is killed during one put, stopped during another, and then works again.
fn troubled(recorded: &mut Recorded) {
    recorded.put("first").wait().expect_code(0);
    let hit = recorded.put("second");
    recorded.storage.take().unwrap().kill();
    recorded.start_storage();
    // Another test checks whether the put succeeds.
    hit.wait();
    let hit = recorded.put("third");
    let storage = recorded.storage.as_ref().unwrap();
    storage.signal(Signal::SIGSTOP);
    recorded.site.ping(STORAGE, &["--timeout", "1"]);
    storage.signal(Signal::SIGCONT);
    hit.wait();
}

#[test]
fn a_recorded_router_replays_to_the_same_decisions() {
    let mut recorded = Recorded::start();
    troubled(&mut recorded);
    let record = recorded.record();
    recorded.storage.take().unwrap().stop().expect_code(0);
    let Recorded { site, router, .. } = recorded;
    router.stop().expect_code(0);

    let mode = fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bytes = fs::read(&record).unwrap();
    let has_mark = bytes.windows(16).any(|window| window == &MARK[..16]);
    assert!(!has_mark, "payload stands in the record");

    let ended = replay(&record, &["--json"]).expect_code(0);
    let told = summary(&ended);
    assert_eq!(told["differs_at"], Value::Null);
    assert!(told["end"].as_str().unwrap().contains("stopped"), "{told}");
    let events = told["events"].as_u64().unwrap();
    println!("{events} events in {} bytes: {told}", bytes.len());
    assert!(events > 100);
    explain_a_forwarded_message(&record);
    states_agree(&site, &record, events);
    changes_are_named(&site, &bytes);
}

/// Finds an event that forwards a message. The explanation must name the path and the reason.
fn explain_a_forwarded_message(record: &Path) {
    let listed = replay(record, &["--list", "--json"]).expect_code(0);
    let forwards = |event: &Value| {
        let outputs = event["outputs"].as_array();
        let is_put = |output: &Value| output.as_str().unwrap().contains(": PUT 127.0.0.1@tcp to");
        outputs.is_some_and(|outputs| outputs.iter().any(is_put))
    };
    let events = listed
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let event: Value = events.into_iter().find(forwards).unwrap();
    let number = event["event"].to_string();
    let told = replay(record, &["--explain", &number]).expect_code(0);
    for text in ["forwarded message of ", "because ", "Case "] {
        assert!(told.out.contains(text), "{text}\n{}", told.out);
    }
    let told = replay(record, &["--explain", &number, "--json"]).expect_code(0);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert!(
        !told["selections"][0]["levels"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Checks that `explain` can read the state at an event.
fn states_agree(site: &Site, record: &Path, events: u64) {
    let state = site.path("state.json");
    let (until, path) = (events.to_string(), state.to_str().unwrap());
    replay(record, &["--until", &until, "--state", path]).expect_code(0);
    run(finerail(["explain", "--state", path, "--to", STORAGE])).expect_code(0);
    let beyond = (events + 1).to_string();
    replay(record, &["--until", &beyond]).expect_code(1);
}

/// Flips a bit at several places of the file: exit code 2, the number of an event, and the place in the file.
fn changes_are_named(site: &Site, bytes: &[u8]) {
    for part in 1..8 {
        let at = bytes.len() * part / 8;
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << part;
        let path = site.write("changed.rec", &changed);
        replay(&path, &[])
            .expect_code(2)
            .expect_error("the record is damaged at event ")
            .expect_error("(byte ");
    }
}

#[test]
fn the_record_of_a_killed_node_replays_up_to_its_death() {
    let recorded = Recorded::start();
    recorded.put("first").wait().expect_code(0);
    let hit = recorded.put("second");
    let record = recorded.record();
    // The beginning of the record is shorter.
    eventually("events are on the disk", || {
        let length = fs::metadata(&record).unwrap().len();
        (length > 2_000).then_some(())
    });
    let Recorded { site, router, .. } = recorded;
    router.kill();
    hit.kill();
    let told = summary(&replay(&record, &["--json"]).expect_code(0));
    assert!(told["end"].as_str().unwrap().contains("killed"), "{told}");
    drop(site);
}

#[test]
fn a_full_record_ends_and_the_node_goes_on() {
    let site = Site::new();
    site.write_routed_nodes();
    let record = site.path("router.rec");
    let words = [
        "node",
        "--record",
        record.to_str().unwrap(),
        "--record-size",
        "64K",
    ];
    let router = Process::start(site.command("router", &words));
    router.wait_for_output("ready: ");
    let nid = "127.0.0.2@tcp";
    while !router
        .errors()
        .contains("the record ends: the record reached its size limit")
    {
        site.ping(nid, &["--count", "100", "--interval", "0"]);
    }
    site.ping(nid, &[]).expect_code(0);
    router.stop().expect_code(0);
    assert!(fs::metadata(&record).unwrap().len() <= 64 << 10);
    let ended = replay(&record, &[]).expect_code(0);
    assert!(
        ended.out.contains("later events are missing"),
        "{}",
        ended.out
    );
}

#[test]
fn what_is_no_record_is_said_to_be_none() {
    let site = Site::new();
    let path = site.write("node.yaml", "net:\n");
    replay(&path, &[])
        .expect_code(2)
        .expect_error("not a record of a node");
    replay(&site.path("missing"), &[])
        .expect_code(2)
        .expect_error("cannot read");
    let config = site.write("empty.yaml", "");
    let words = [
        "node",
        "--config",
        config.to_str().unwrap(),
        "--record",
        "/dev/null",
    ];
    run(finerail(words))
        .expect_code(2)
        .expect_error("cannot record into /dev/null");
}

#[test]
fn a_record_of_a_running_node_is_looked_at_and_ended_over_its_control_socket() {
    let site = Site::new();
    site.write("node.yaml", yaml(&["127.0.0.1@tcp"], ""));
    let (record, socket) = (site.path("node.rec"), site.path("node.sock"));
    let (record, socket) = (record.to_str().unwrap(), socket.to_str().unwrap());
    let words = ["node", "--record", record, "--control", socket];
    let node = Process::start(site.command("node", &words));
    node.wait_for_output("ready: ");
    let ctl = |words: &[&str]| run(finerail([&["ctl", "--node", socket], words].concat()));
    let events = |ended: &Ended| -> u64 {
        let (_, rest) = ended.out.split_once("events: ").unwrap();
        rest.lines().next().unwrap().parse().unwrap()
    };
    let status = ctl(&["record", "status"]).expect_code(0);
    assert!(
        events(&status) > 0 && status.out.contains("missing: 0"),
        "{}",
        status.out
    );
    let last = events(&ctl(&["record", "stop"]).expect_code(0));
    ended_and_not_forgotten(&ctl, record, last);
    ctl(&["net", "show"]).expect_code(0);
    eventually("the end of the record", || {
        let ended = replay(Path::new(record), &["--json"]);
        (ended.code() == Some(0) && ended.out.contains("stopped")).then_some(())
    });
    let replayed = summary(&replay(Path::new(record), &["--json"]));
    assert_eq!(replayed["events"], last);
    node.stop().expect_code(0);
}

/// A record that has ended: where the file is, and how many events are in it.
fn ended_and_not_forgotten(ctl: &impl Fn(&[&str]) -> Ended, record: &str, events: u64) {
    let status = ctl(&["record", "status"]).expect_code(0).out;
    for text in [
        format!("events: {events}\n"),
        format!("file: {record}\n"),
        "ended: the node or the record was stopped\n".to_owned(),
    ] {
        assert!(status.contains(&text), "no '{text}' in {status}");
    }
    ctl(&["record", "stop"])
        .expect_error("stop:\n    - record:\n")
        .expect_error(&format!(
            "the record has ended: {events} events are in {record}"
        ));
}

#[test]
fn a_node_without_a_record_says_so_under_what_was_asked() {
    let site = Site::new();
    site.write("node.yaml", yaml(&["127.0.0.1@tcp"], ""));
    let socket = site.path("node.sock");
    let socket = socket.to_str().unwrap();
    let node = Process::start(site.command("node", &["node", "--control", socket]));
    node.wait_for_output("ready: ");
    for verb in ["status", "stop"] {
        run(finerail(["ctl", "--node", socket, "record", verb]))
            .expect_error(&format!("{verb}:\n    - record:\n"))
            .expect_error("there is no record: it must begin with the start of the node");
    }
    node.stop().expect_code(0);
}
