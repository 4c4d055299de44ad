//! `finerail lst`: a session whose commands are separate processes, and flows from a file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::finerail;
use common::process::{Ended, Process, run};
use common::site::{Site, yaml};

/// Two test nodes, and the configuration of a console.
struct Bed {
    site: Site,
    _nodes: [Process; 2],
}

impl Bed {
    fn new() -> Self {
        let site = Site::new();
        let start = |name: &str, nid: &str| {
            site.write(&format!("{name}.yaml"), yaml(&[nid], ""));
            let process = Process::start(site.command(name, &["lst", "serve"]));
            process.wait_for_output("ready: test node");
            process
        };
        let nodes = [start("one", "127.0.0.5@tcp"), start("two", "127.0.0.6@tcp")];
        site.write("console.yaml", yaml(&["127.0.0.1@tcp"], ""));
        fs::set_permissions(site.path("."), Permissions::from_mode(0o700)).unwrap();
        Self {
            site,
            _nodes: nodes,
        }
    }

    fn command(&self, words: &str) -> Command {
        let words = ["lst"].into_iter().chain(words.split(' '));
        let mut command = finerail(words);
        command
            .env("LST_SESSION", "77")
            .env("XDG_RUNTIME_DIR", self.site.path("."));
        command
    }

    fn lst(&self, words: &str) -> Ended {
        run(self.command(words))
    }

    /// Returns the output of a command, which must succeed.
    fn ok(&self, words: &str) -> String {
        self.lst(words).expect_code(0).out
    }

    fn new_session(&self) -> Ended {
        let mut command = self.command("new_session --timeout 60 test");
        command.arg("--config").arg(self.site.path("console.yaml"));
        command.args(["--port", &self.site.port.to_string()]);
        run(command)
    }
}

#[test]
fn a_script_for_lst_runs_a_batch_and_ends_its_session() {
    let bed = Bed::new();
    let begun = bed.new_session().expect_code(0);
    assert_eq!(
        begun.out,
        "SESSION: test FEATURES: 1 TIMEOUT: 60 FORCE: No\n"
    );
    assert_eq!(
        bed.ok("add_group servers 127.0.0.[5-6]@tcp"),
        "127.0.0.[5-6]@tcp are added to session\n"
    );
    bed.ok("add_group clients 127.0.0.1@tcp");
    assert_eq!(
        bed.ok("list_group"),
        "1) servers\n2) clients\nTotal 2 groups\n"
    );
    assert_eq!(
        bed.ok("list_group servers"),
        "ACTIVE BUSY DOWN UNKNOWN TOTAL\n2 0 0 0 2\n"
    );
    assert_eq!(
        bed.ok("list_group --all servers"),
        "127.0.0.5@tcp Active\n127.0.0.6@tcp Active\nTotal 2 nodes\n"
    );
    bed.ok("add_batch bulk");
    let test = "--loop 20 --concurrency 2 --distribute 1:2 --from clients --to servers";
    assert_eq!(
        bed.ok(&format!(
            "add_test --batch bulk {test} brw write size=64K check=full"
        )),
        "Test was added successfully\n"
    );
    assert_eq!(bed.ok("list_batch"), "batch\nbulk\n");
    assert!(
        bed.ok("list_batch bulk")
            .contains("Test 1(brw) (loop: 20, concurrency: 2)")
    );
    assert_eq!(bed.ok("run bulk"), "bulk is running now\n");
    testkit::eventually("the batch ends", || {
        bed.ok("query bulk") == "Batch is idle\n"
    });
    assert_eq!(
        bed.ok("show_error servers"),
        "servers\nNo error nodes found in servers\n"
    );
    let stat = bed.ok("stat --delay 1 --count 1 --rate servers");
    assert!(
        stat.starts_with("[LNet Rates of servers]\n[R] Avg: "),
        "{stat}"
    );
    assert!(
        bed.ok("ping servers")
            .contains("12345-127.0.0.5@tcp: Active [session: test")
    );
    ping_all_ways(&bed);
    assert_eq!(bed.ok("end_session"), "session is ended\n");
    testkit::eventually("the console ends", || {
        bed.lst("show_session").status.code() == Some(1)
    });
    bed.lst("show_session").expect_error("there is no session");
}

/// Pings with each option that selects nodes.
fn ping_all_ways(bed: &Bed) {
    let all = "12345-127.0.0.1@tcp 12345-127.0.0.5@tcp 12345-127.0.0.6@tcp";
    for (words, pinged) in [
        ("ping", all),
        ("ping --session", all),
        ("ping --session servers", all),
        ("ping --group clients", "12345-127.0.0.1@tcp"),
        ("ping --batch bulk", "12345-127.0.0.1@tcp"),
        (
            "ping --batch bulk --server --timeout 20",
            "12345-127.0.0.5@tcp 12345-127.0.0.6@tcp",
        ),
        (
            "ping --group clients --nodes 127.0.0.[5,1]@tcp",
            "12345-127.0.0.1@tcp 12345-127.0.0.5@tcp",
        ),
    ] {
        let out = bed.ok(words);
        let mut names: Vec<&str> = out
            .lines()
            .filter_map(|line| line.split(": ").next())
            .collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), pinged, "{words}");
    }
    bed.lst("ping --group nobody")
        .expect_code(1)
        .expect_error("there is no group nobody");
    bed.lst("ping --server").expect_code(2);
}

#[test]
fn what_is_wrong_is_said_with_the_node_and_an_exit_code() {
    let bed = Bed::new();
    bed.lst("show_session")
        .expect_code(1)
        .expect_error("begin one with new_session");
    bed.new_session().expect_code(0);
    bed.new_session()
        .expect_code(1)
        .expect_error("session test exists");
    bed.lst("run nothing")
        .expect_code(1)
        .expect_error("there is no batch nothing");
    bed.lst("add_group bad 1.2.3@tcp")
        .expect_code(2)
        .expect_error("1.2.3@tcp");
    let mut other = bed.command("new_session other");
    other.env("LST_SESSION", "78");
    other
        .arg("--config")
        .arg(bed.site.write("other.yaml", yaml(&["127.0.0.9@tcp"], "")));
    other.args(["--port", &bed.site.port.to_string()]);
    run(other).expect_code(0);
    bed.ok("add_group g 127.0.0.5@tcp");
    let mut busy = bed.command("add_group g 127.0.0.5@tcp");
    busy.env("LST_SESSION", "78");
    run(busy)
        .expect_code(1)
        .expect_error("create session RPC failed on 12345-127.0.0.5@tcp: the node is busy");
    for key in ["77", "78"] {
        let mut end = bed.command("end_session");
        end.env("LST_SESSION", key);
        run(end).expect_code(0);
    }
    let mut without = finerail(["lst", "show_session"]);
    without.env_remove("LST_SESSION");
    run(without)
        .expect_code(2)
        .expect_error("export LST_SESSION=$$");
}

#[test]
fn what_a_console_logs_is_kept_in_a_file_and_commands_may_name_a_level() {
    let bed = Bed::new();
    let mut begin = bed.command("new_session --log info test --config");
    begin.arg(bed.site.path("console.yaml"));
    begin.args(["--port", &bed.site.port.to_string()]);
    let begun = run(begin).expect_code(0);
    let log = bed.site.path("finerail/lst/77.log");
    assert!(begun.err.contains("the console logs to "), "{begun:?}");
    assert!(begun.err.ends_with("/finerail/lst/77.log\n"), "{begun:?}");
    let length = || fs::metadata(&log).unwrap().len();
    let before = length();
    // The command that began the session has ended, and its standard error is closed.
    bed.lst("add_group --log debug servers 127.0.0.77@tcp")
        .expect_code(1);
    testkit::eventually("the console logs that nobody listens there", || {
        length() > before
    });
    bed.ok("end_session --log=info");
}

#[test]
fn a_node_serves_selftest_where_it_is_told_to() {
    let bed = Bed::new();
    bed.site.write("three.yaml", yaml(&["127.0.0.7@tcp"], ""));
    let node = Process::start(bed.site.command("three", &["node", "--selftest"]));
    node.wait_for_output("; serves selftest");
    bed.new_session().expect_code(0);
    bed.ok("add_group servers 127.0.0.7@tcp");
    bed.ok("add_group clients 127.0.0.1@tcp");
    bed.ok("add_test --loop 3 --from clients --to servers brw read size=4K check=simple");
    bed.ok("run batch");
    testkit::eventually("the batch ends", || bed.ok("query") == "Batch is idle\n");
    assert!(bed.ok("show_error servers").contains("No error nodes"));
    bed.ok("end_session");
    node.stop().expect_code(0);
}

#[test]
fn flows_of_a_file_are_run_and_measured() {
    let bed = Bed::new();
    let flows = bed.site.write(
        "flows.yaml",
        "flows:
  - name: mixed
    to: 127.0.0.[5-6]@tcp
    mix: { read: 2, write: 1, ping: 1 }
    sizes: { 64K: 1, 1M: 1 }
    check: full
    concurrency: 2
    count: 60
  - name: paced
    to: 127.0.0.5@tcp
    mix: { ping: 1 }
    rate: 100
    seconds: 0.5
",
    );
    let words = ["lst", "run", "--json", flows.to_str().unwrap()];
    let ended = run(bed.site.command("console", &words)).expect_code(0);
    let figures: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let of = |flow: usize, key: &str| &figures["flows"][flow][key];
    let done = ["read", "write", "ping"].map(|name| of(0, name)["done"].as_u64().unwrap());
    assert_eq!(done.iter().sum::<u64>(), 60, "{figures}");
    assert!(done.iter().all(|count| *count > 0), "{figures}");
    assert!(of(0, "read")["latency_us"]["p99"].as_u64().unwrap() > 0);
    // 100 pings a second for half a second are 50, and the first one is sent at once. A late ping is sent later, but
    // only once.
    assert!(of(1, "ping")["done"].as_u64().unwrap() <= 51, "{figures}");
    let table = run(bed
        .site
        .command("console", &["lst", "run", flows.to_str().unwrap()]));
    assert!(table.expect_code(0).out.contains("p99.9 ms"));
}

#[test]
fn a_file_of_flows_that_is_wrong_is_refused_with_the_flow() {
    let site = Site::new();
    site.write("console.yaml", yaml(&["127.0.0.1@tcp"], ""));
    let flows = site.write(
        "f.yaml",
        "flows:\n  - name: x\n    to: 127.0.0.5@tcp\n    sizes: 2M\n",
    );
    let ended = run(site.command("console", &["lst", "run", flows.to_str().unwrap()]));
    ended
        .expect_code(2)
        .expect_error("flow x: a size of 2M is not between");
    let flows = site.write("f.yaml", "flows:\n  - name: x\n    to: 127.0.0.5@tcp\n");
    let ended = run(site.command("console", &["lst", "run", flows.to_str().unwrap()]));
    ended
        .expect_code(2)
        .expect_error("neither seconds nor count");
}
