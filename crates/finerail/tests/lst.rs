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
fn t_k02_a_script_for_lst_runs_a_batch_and_ends_its_session() {
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
        "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\nservers\t2\t0\t0\t0\t2\n"
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
        "servers:\nTotal 0 error nodes in servers\n"
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
    assert_eq!(bed.ok("end_session"), "");
    testkit::eventually("the console ends", || {
        bed.lst("show_session").status.code() == Some(1)
    });
    bed.lst("show_session").expect_error("there is no session");
}

/// The limits and the check that the table of differences names.
#[test]
fn t_k04_discarded_data_is_moved_and_waits_have_a_limit() {
    let bed = Bed::new();
    bed.new_session().expect_code(0);
    bed.ok("add_group servers 127.0.0.5@tcp");
    bed.ok("add_group clients 127.0.0.6@tcp");
    bed.ok("add_batch bulk");
    let test = "add_test --batch bulk --loop 4 --from clients --to servers brw read size=64K";
    bed.ok(&format!("{test} check=discard"));
    bed.lst(&format!("{test} check=throw"))
        .expect_code(1)
        .expect_error("check is none, simple, full or discard");
    assert_eq!(bed.ok("run --timeout 3600 bulk"), "bulk is running now\n");
    testkit::eventually("the batch ends", || {
        bed.ok("query bulk") == "Batch is idle\n"
    });
    assert_eq!(
        bed.ok("show_error servers clients"),
        "servers:\nTotal 0 error nodes in servers\nclients:\nTotal 0 error nodes in clients\n"
    );
    bed.ok("stat --timeout 3600 --count 1 --delay 1 servers");
    for words in [
        "run --timeout 3601 bulk",
        "stat --timeout 3601 servers",
        "stat --timeout 0 servers",
    ] {
        bed.lst(words).expect_code(2).expect_error("1..=3600");
    }
    bed.ok("end_session");
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
    assert!(bed.ok("show_error servers").contains("Total 0 error nodes"));
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

/// A node that serves selftest and is controlled at a socket, and a peer that serves selftest.
struct OnNode {
    bed: Bed,
    node: Process,
}

impl OnNode {
    fn new(options: &[&str]) -> Self {
        let bed = Bed::new();
        let control = bed.site.path("node.sock");
        let words = [&["node", "--control", control.to_str().unwrap()], options].concat();
        let node = Process::start(bed.site.command("console", &words));
        node.wait_for_output("ready: ");
        Self { bed, node }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bed.command(&words.join(" "));
        command.env("FINERAIL_CONTROL", self.bed.site.path("node.sock"));
        command
    }

    fn lst(&self, words: &str) -> Ended {
        run(self.command(&words.split(' ').collect::<Vec<_>>()))
    }

    fn ok(&self, words: &str) -> String {
        self.lst(words).expect_code(0).out
    }
}

/// Replaces the numbers of `lst stat` by 0, and keeps their width.
fn without_rates(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(": ") {
        let number = after.split(' ').next().unwrap_or_default();
        out += before;
        out += ": ";
        rest = match number.parse::<f64>() {
            Ok(_) => {
                let shown = if number.contains('.') { "0.00" } else { "0" };
                let field = &after[..after.find(['R', 'M']).unwrap()];
                assert_eq!(field.len(), 9, "{after:?}");
                out += &format!("{shown:<9}");
                &after[field.len()..]
            }
            Err(_) => after,
        };
    }
    out + rest
}

/// The commands of the recorded session, on a node that is the console.
#[test]
fn t_k01_t_k02_the_running_node_is_the_console_and_prints_what_a_kernel_node_prints() {
    let here = OnNode::new(&["--selftest"]);
    assert_eq!(
        here.ok("new_session --timeo 100 s_ping"),
        "SESSION: s_ping FEATURES: 1 TIMEOUT: 100 FORCE: No\n"
    );
    assert_eq!(
        here.ok("add_group srv 127.0.0.5@tcp"),
        "127.0.0.5@tcp are added to session\n"
    );
    here.ok("add_group cli 127.0.0.1@tcp");
    assert_eq!(here.ok("add_batch b1"), "");
    let test = "add_test -b b1 --loop 5 -c 1 -f cli -t srv ping";
    assert_eq!(here.ok(test), "Test was added successfully\n");
    assert_eq!(here.ok("run --timeout 10 b1"), "b1 is running now\n");
    let rates = |group: &str| {
        let count = "Avg: 0        RPC/s Min: 0        RPC/s Max: 0        RPC/s";
        let bytes = "Avg: 0.00     MiB/s Min: 0.00     MiB/s Max: 0.00     MiB/s ";
        format!(
            "[LNet Rates of {group}]\n[R] {count}\n[W] {count}\n\
             [LNet Bandwidth of {group}]\n[R] {bytes}\n[W] {bytes}\n"
        )
    };
    let stat = here.ok("stat --count 1 --delay 1 srv cli");
    assert_eq!(without_rates(&stat), rates("srv") + &rates("cli"));
    assert_eq!(
        here.ok("list_batch b1"),
        "Batch: b1 Tests: 1 State: 177\n\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
         client\t1\t0\t0\t0\t1\nserver\t1\t0\t0\t0\t1\n\
         \tTest 1(ping) (loop: 5, concurrency: 1)\n\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
         client\t1\t0\t0\t0\t1\nserver\t1\t0\t0\t0\t1\n"
    );
    assert_eq!(
        here.ok("show_error srv cli"),
        "srv:\nTotal 0 error nodes in srv\ncli:\nTotal 0 error nodes in cli\n"
    );
    assert_eq!(here.ok("stop b1"), "Batch is stopped\n");
    assert!(
        here.ok("list_batch b1")
            .starts_with("Batch: b1 Tests: 1 State: 176\n")
    );
    assert!(
        here.ok("stat --timeout 10 --rpc -o 1 -d 1 cli")
            .starts_with("[RPC Rates of cli]\n")
    );
    let session = here.ok("show_session");
    assert!(session.starts_with("SESSION: s_ping ID: "), "{session}");
    assert!(session.ends_with("\nnodes\t2\t0\t0\t0\t2\n"), "{session}");
    assert_eq!(here.ok("end_session"), "");
    here.lst("show_session")
        .expect_code(1)
        .expect_error("there is no session; begin one with new_session");
    here.node.stop().expect_code(0);
}

/// A second node with the same NID would take messages of the first one.
#[test]
fn t_k01_a_configuration_of_the_running_node_makes_that_node_the_console() {
    let here = OnNode::new(&["--selftest"]);
    let file = here.bed.site.path("console.yaml");
    let port = here.bed.site.port.to_string();
    let begin = |config: &str, key: &str| {
        let words = ["new_session", "--config", config, "--port", &port];
        let mut command = here.command(&words);
        command
            .args(["--accept", "none", "t"])
            .env("LST_SESSION", key);
        run(command).expect_code(0)
    };
    let begun = begin(file.to_str().unwrap(), "77");
    assert!(
        begun
            .err
            .contains("runs on this machine: it is the console"),
        "{begun:?}"
    );
    assert!(!here.bed.site.path("finerail/lst/77.sock").exists());
    let other = here
        .bed
        .site
        .write("other.yaml", yaml(&["127.0.0.9@tcp"], ""));
    let begun = begin(other.to_str().unwrap(), "78");
    assert!(!begun.err.contains("it is the console"), "{begun:?}");
    assert!(here.bed.site.path("finerail/lst/78.sock").exists());
    for key in ["77", "78"] {
        let mut end = here.command(&["end_session"]);
        end.env("LST_SESSION", key);
        run(end).expect_code(0);
    }
}

#[test]
fn a_node_without_selftest_says_how_to_start_it() {
    let here = OnNode::new(&[]);
    here.lst("new_session t")
        .expect_code(1)
        .expect_error("start it with finerail node --selftest");
}

#[test]
fn a_node_has_sixteen_sessions_and_refuses_bad_keys() {
    let here = OnNode::new(&["--selftest"]);
    let of_key = |key: &str, words: &[&str]| {
        let mut command = here.command(words);
        command.env("LST_SESSION", key);
        run(command)
    };
    for key in 0..16 {
        of_key(&key.to_string(), &["new_session", "t"]).expect_code(0);
    }
    of_key("more", &["new_session", "t"])
        .expect_code(1)
        .expect_error("more than 16 sessions");
    of_key("7", &["end_session"]).expect_code(0);
    of_key("more", &["new_session", "t"]).expect_code(0);
    of_key("a/b", &["show_session"]).expect_code(2);
    // A session without commands ends by itself.
    of_key("8", &["new_session", "--force", "--timeout", "1", "t"]).expect_code(0);
    testkit::eventually("the silent session ends", || {
        of_key("late", &["new_session", "t"]).code() == Some(0)
    });
    of_key("9", &["show_session"]).expect_code(0);
}

#[test]
fn a_node_that_stops_ends_its_sessions_and_does_not_wait_for_dead_nodes() {
    let here = OnNode::new(&["--selftest"]);
    here.ok("new_session t");
    here.ok("add_group g 127.0.0.5@tcp");
    let waiting = Process::start(here.command(&["stat", "--delay", "60", "g"]));
    here.node.stop().expect_code(0);
    assert_ne!(waiting.wait().status.code(), Some(0));
    // The node of the group is free for another console.
    here.bed.new_session().expect_code(0);
    here.bed.ok("add_group g 127.0.0.5@tcp");
    here.bed.ok("end_session");
}

#[test]
fn t_k03_under_its_short_name_the_program_lists_its_commands_and_names_itself_once() {
    let bed = Bed::new();
    let link = bed.site.path("lst");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_finerail"), &link).unwrap();
    let call = |words: &[&str]| {
        let mut command = Command::new(&link);
        command.args(words).env("LST_SESSION", "9");
        run(command)
    };
    let listed = call(&["--list-commands"]).expect_code(0).out;
    for command in ["new_session", "add_test", "show_error", "end_session"] {
        assert!(listed.lines().any(|line| line == command), "{listed}");
    }
    let help = call(&["add_group", "--help"]).expect_code(0).out;
    assert!(help.contains("Usage: lst add_group"), "{help}");
    assert!(!help.contains("lst lst"), "{help}");
    call(&[]).expect_code(2).expect_error("Usage: lst");
}
