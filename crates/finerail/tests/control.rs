//! Who may control a node, and the messages when no node answers.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use common::process::{Ended, Process, run};
use common::site::{Site, yaml};
use common::{eventually, finerail};

/// Starts a node on this NID with more arguments. Its default control socket is in the site's directory.
fn node(site: &Site, nid: &str, more: &[&str]) -> Process {
    let config = site.write(&format!("{nid}.yaml"), yaml(&[nid], ""));
    let mut command = finerail(["node", "--port", &site.port.to_string(), "--config"]);
    command.arg(config).args(more);
    command.env("XDG_RUNTIME_DIR", site.path(""));
    Process::start(command)
}

fn ctl(site: &Site, words: &[&str]) -> Command {
    let mut command = finerail([&["ctl"], words].concat());
    command.env("XDG_RUNTIME_DIR", site.path(""));
    command
}

#[test]
fn a_ready_node_says_where_it_is_controlled_or_why_not() {
    let site = Site::new();
    let socket = site.path("finerail/control.sock");
    let first = node(&site, "127.0.0.1@tcp", &[]);
    first.wait_for_output(&format!(
        "ready: 127.0.0.1@tcp on port {}; controlled at {}",
        site.port,
        socket.display()
    ));
    let second = node(&site, "127.0.0.2@tcp", &[]);
    second.wait_for_output("; not controlled: another node is controlled at");
    second.wait_for_error("this node has no control socket");
    let third = node(&site, "127.0.0.3@tcp", &["--no-control"]);
    third.wait_for_output("; not controlled (--no-control)");
    drop((first, second, third));
}

#[test]
fn who_changes_one_of_several_nodes_is_told_which() {
    let site = Site::new();
    let first = node(&site, "127.0.0.1@tcp", &[]);
    first.wait_for_output("ready: ");
    let second = node(&site, "127.0.0.2@tcp", &[]);
    second.wait_for_output("ready: ");
    let changed = run(ctl(&site, &["set", "retry_count", "1"]));
    let named = format!(
        "the node 127.0.0.1@tcp (at {}",
        site.path("finerail/control.sock").display()
    );
    changed.expect_code(0).expect_error(&named);
    let looked = run(ctl(&site, &["net", "show"])).expect_code(0);
    assert_eq!(looked.err, "");
    drop((first, second));
}

/// A node that is stopped accepts no connection, but the queue of its socket still takes some.
#[test]
fn a_node_that_does_not_answer_is_given_up_and_named() {
    let site = Site::new();
    let stopped = node(&site, "127.0.0.1@tcp", &[]);
    stopped.wait_for_output("ready: ");
    stopped.signal(Signal::SIGSTOP);
    let socket = site.path("finerail/control.sock").display().to_string();
    let expected = format!(
        "{socket} (process {}) has not answered for 1 s",
        stopped.id()
    );
    let said = |ended: Ended, code| ended.expect_code(code).expect_error(&expected);
    said(run(ctl(&site, &["--timeout", "1", "net", "show"])), 1);
    let mut top = finerail(["top", "--once", "--timeout", "1"]);
    top.env("XDG_RUNTIME_DIR", site.path(""));
    said(run(top), 1);
    let mut lnetctl = ctl(&site, &[]);
    lnetctl.args(["--timeout=1", "set", "retry_count", "1"]);
    said(run(lnetctl), 1);
    // Connections fill the queue, so the next one waits.
    let waiting: Vec<UnixStream> = filled(Path::new(&socket));
    run(ctl(&site, &["--timeout", "1", "net", "show"]))
        .expect_code(1)
        .expect_error(&format!("{socket} has not answered for 1 s"));
    drop(waiting);
    stopped.signal(Signal::SIGCONT);
    run(ctl(&site, &["net", "show"])).expect_code(0);
}

/// Opens connections until the queue is full.
fn filled(path: &Path) -> Vec<UnixStream> {
    use socket2::{Domain, SockAddr, Socket, Type};
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let connected = socket.connect(&SockAddr::unix(path).unwrap());
        connected
            .ok()
            .map(|()| UnixStream::from(std::os::fd::OwnedFd::from(socket)))
    };
    std::iter::from_fn(connect).take(1000).collect()
}

/// The group that may control the node; the next ids may not.
const GROUP: u32 = 54_321;
const OTHERS: u32 = 54_322;
const NOBODY: u32 = 65_534;

/// Needs root, to run commands as other users.
#[test]
fn who_may_not_control_a_node_is_told_so_whatever_the_mode_of_its_socket() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let site = Site::new();
    let node = node(
        &site,
        "127.0.0.1@tcp",
        &["--control-group", &GROUP.to_string()],
    );
    node.wait_for_output("ready: ");
    let permit = |path: &str, mode| {
        fs::set_permissions(site.path(path), Permissions::from_mode(mode)).unwrap();
    };
    permit("", 0o755);
    permit("finerail", 0o755);
    // The program may be in a directory that only root can enter.
    let program = site.path("program");
    fs::copy(env!("CARGO_BIN_EXE_finerail"), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let as_other = |group: u32| {
        let mut command = Command::new(&program);
        command
            .args(["ctl", "net", "show"])
            .env("XDG_RUNTIME_DIR", site.path(""));
        command.uid(NOBODY).gid(group);
        run(command)
    };
    as_other(GROUP).expect_code(0);
    as_other(OTHERS)
        .expect_code(1)
        .expect_error("this user may not control the node");
    permit("finerail/control.sock", 0o666);
    as_other(GROUP).expect_code(0);
    as_other(OTHERS)
        .expect_code(1)
        .expect_error("user 65534")
        .expect_error(&format!("the members of group {GROUP} may"));
}

/// This node has TCP nets only, but gateways and peers may have nets of other LNDs.
#[test]
fn names_of_every_lnd_are_taken_shown_and_exported() {
    const LNDS: [&str; 6] = ["gni", "ptlf", "kfi", "efa", "bxi3f", "o2ib"];
    let site = Site::new();
    let first = node(&site, "127.0.0.1@tcp", &[]);
    first.wait_for_output("ready: ");
    let nids = LNDS.map(|lnd| match lnd {
        "efa" | "o2ib" => format!("10.2.0.7@{lnd}3"),
        _ => format!("167903239@{lnd}3"),
    });
    let changed = |words: &[&str]| run(ctl(&site, words)).expect_code(0);
    let added = nids.join(",");
    changed(&[
        "peer",
        "add",
        "--prim_nid",
        "127.0.0.2@tcp",
        "--nid",
        &added,
    ]);
    for lnd in LNDS {
        let (net, rule) = (format!("{lnd}4"), format!("{lnd}3"));
        changed(&["route", "add", "--net", &net, "--gateway", "127.0.0.2@tcp"]);
        changed(&["udsp", "add", "--dst", &rule, "--priority", "2"]);
    }
    let export = || run(ctl(&site, &["export", "--backup"])).expect_code(0).out;
    let exported = export();
    for (lnd, nid) in LNDS.iter().zip(&nids) {
        for expected in [nid.clone(), format!("{lnd}4"), format!("dst: {lnd}3")] {
            assert!(exported.contains(&expected), "{expected}:\n{exported}");
        }
    }
    first.stop().expect_code(0);
    let file = site.write("export.yaml", &exported);
    let mut again = finerail(["node", "--port", &site.port.to_string(), "--config"]);
    again.arg(file).env("XDG_RUNTIME_DIR", site.path(""));
    let second = Process::start(again);
    second.wait_for_output("ready: ");
    assert_eq!(export(), exported);
    drop(second);
}

#[test]
fn nids_of_a_peer_are_listed_by_net_and_the_time_of_its_last_recovery_ping_stays() {
    let site = Site::new();
    let config = site.write("n.yaml", yaml(&["127.0.0.1@tcp", "127.0.0.2@tcp1"], ""));
    let mut command = finerail(["node", "--port", &site.port.to_string(), "--config"]);
    command.arg(config).env("XDG_RUNTIME_DIR", site.path(""));
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let ctl = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        run(ctl(&site, &words)).expect_code(0).out
    };
    let others = "127.0.0.22@tcp1,127.0.0.23@tcp,127.0.0.24@tcp2,127.0.0.25@tcp1";
    ctl(&format!(
        "peer add --prim_nid 127.0.0.21@tcp --nid {others}"
    ));
    let shown = ctl("peer show --nid 127.0.0.25@tcp1");
    let nids: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix("nid: "))
        .collect();
    let [a, b, c] = ["tcp", "tcp1", "tcp2"];
    let grouped = [(21, a), (23, a), (22, b), (25, b), (24, c)];
    let grouped = grouped.map(|(host, net)| format!("127.0.0.{host}@{net}"));
    assert_eq!(nids, grouped);

    ctl("net set --nid 127.0.0.1@tcp --health 900");
    let number = |key: &str| {
        let shown = ctl("net show --net tcp -v 2");
        let line = shown.lines().find(|line| line.trim().starts_with(key));
        let number = line.unwrap().trim().trim_start_matches(key);
        number
            .trim_start_matches([':', ' '])
            .parse::<u64>()
            .unwrap()
    };
    testkit::eventually("it is well again", || number("health value") == 1000);
    assert_eq!(number("ping_count"), 0);
    assert!(number("next_ping") > 0, "kernels keep it");
    node.stop().expect_code(0);
}

#[test]
fn a_network_that_went_down_comes_up_with_what_the_nodes_file_says() {
    let site = Site::new();
    let rest = "route:\n- net: tcp9\n  gateway: 127.0.0.9@tcp\n";
    let config = site.write("n.yaml", yaml(&["127.0.0.1@tcp", "127.0.0.2@tcp1"], rest));
    let mut command = finerail(["node", "--port", &site.port.to_string(), "--config"]);
    command.arg(config).env("XDG_RUNTIME_DIR", site.path(""));
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let lctl = |words: &str| {
        let mut command = finerail(words.split(' '));
        command.arg0("lctl").env("XDG_RUNTIME_DIR", site.path(""));
        run(command).expect_code(0).out
    };
    let both = "127.0.0.1@tcp\n127.0.0.2@tcp1\n";
    for down in ["down", "unconfigure"] {
        lctl(&format!("network {down}"));
        assert_eq!(lctl("list_nids"), "");
        run(ctl(&site, &["lnet", "configure"])).expect_code(0);
        assert_eq!(lctl("list_nids"), "", "without --all nothing is added");
        lctl("network up");
        assert_eq!(lctl("list_nids"), both);
        let routes = run(ctl(&site, &["route", "show"])).expect_code(0).out;
        assert!(routes.contains("gateway: 127.0.0.9@tcp"), "{routes}");
    }
    // A configure of a node that is up does not undo an administrator's change.
    run(ctl(&site, &["net", "del", "--net", "tcp1"])).expect_code(0);
    run(ctl(&site, &["lnet", "configure", "--all"])).expect_code(0);
    assert_eq!(lctl("list_nids"), "127.0.0.1@tcp\n");
    node.stop().expect_code(0);
}

/// Returns the first event of health that an administrator caused. A watch shows only changes after its begin, so the
/// health is set until the watch prints an event. A watch of health also shows the pings of recovery.
fn watched_change(site: &Site, more: &[&str]) -> String {
    let words = [&["watch", "--health", "--count", "1"], more].concat();
    let mut healths = ["400", "900"].iter().cycle();
    eventually("an administrator's change is watched", || {
        let mut watch = Process::start(ctl(site, &words));
        while watch.is_running() {
            let health = healths.next()?;
            run(ctl(site, &["net", "set", "--all", "--health", health])).expect_code(0);
        }
        let line = watch.wait().expect_code(0).out;
        line.contains("an administrator set it").then_some(line)
    })
}

#[test]
fn a_watch_tells_what_happens_and_why() {
    let site = Site::new();
    let node = node(&site, "127.0.0.1@tcp", &[]);
    node.wait_for_output("ready: ");
    let line = watched_change(&site, &[]);
    let expected = "health: interface 127.0.0.1@tcp";
    assert!(line.contains(expected), "{line}");
    assert!(
        line.trim_end().ends_with(": an administrator set it"),
        "{line}"
    );
    let event: serde_json::Value =
        serde_json::from_str(&watched_change(&site, &["--json"])).unwrap();
    assert_eq!(event["event"], "health");
    assert_eq!(
        (&event["nid"], &event["own"]),
        (&"127.0.0.1@tcp".into(), &true.into())
    );
    assert!(event["time"].as_f64().unwrap() > 1.7e9);
}

#[test]
fn watches_that_have_left_make_room_and_the_end_of_a_node_ends_a_watch() {
    let site = Site::new();
    let node = node(&site, "127.0.0.1@tcp", &[]);
    node.wait_for_output("ready: ");
    // A watch that ends frees its connection: a node serves 32 connections at the same time.
    let watches: Vec<Process> = (0..32)
        .map(|_| Process::start(ctl(&site, &["watch"])))
        .collect();
    drop(watches);
    let watch = eventually("there is room for a watch", || {
        let mut watch = Process::start(ctl(&site, &["watch", "--health"]));
        while watch.is_running() {
            for health in ["400", "900"] {
                run(ctl(&site, &["net", "set", "--all", "--health", health]));
            }
            if watch.output().contains("health: ") {
                return Some(watch);
            }
        }
        None
    });
    // A node that ends closes the watch at once.
    node.stop();
    watch
        .wait()
        .expect_code(1)
        .expect_error("has ended, or has closed it");
}
