//! Runs that are interrupted or killed, and what the next run finds.

use nix::sys::signal::Signal;

use crate::common::lustre::LustreNode;
use crate::common::process::{Ended, Process, run};
use crate::common::site::Site;
use crate::common::{eventually, finerail};
use crate::words;
use crate::world::{AMPLE, MGS, World};

fn check(site: &Site, more: &[&str]) -> std::process::Command {
    let (port, state) = (site.port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    let words = words(&port, state.to_str().unwrap(), AMPLE, more);
    finerail(words.into_iter().chain([source.as_str()]))
}

fn asked(nodes: &[LustreNode]) -> usize {
    let counts = nodes.iter();
    counts
        .map(|node| node.server.lock().unwrap().asked.len())
        .sum()
}

fn connected(nodes: &[LustreNode]) -> Vec<(String, String)> {
    let all = nodes.iter();
    all.flat_map(|node| node.server.lock().unwrap().connected())
        .collect()
}

/// Runs the check until the servers have `requests` requests of it, and then sends the signal.
fn interrupt(
    site: &Site,
    nodes: &[LustreNode],
    more: &[&str],
    requests: usize,
    signal: Signal,
) -> Ended {
    let before = asked(nodes);
    let mut process = Process::start(check(site, more));
    eventually("the request comes", || {
        (asked(nodes) - before >= requests || !process.is_running()).then_some(())
    });
    if process.is_running() {
        process.signal(signal);
    }
    process.wait()
}

#[test]
fn interrupted_runs_leave_no_connection_that_the_next_run_does_not_end() {
    let runs = if std::env::var_os("FINERAIL_LONG").is_some() {
        1000
    } else {
        40
    };
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    // Killed while an MGS, and while a target had a connection. On a busy machine a run may get far before its signal.
    let mut killed_open = [0; 2];
    for number in 0.. {
        if number >= runs && killed_open.iter().all(|count| *count > 0) {
            break;
        }
        assert!(
            number < 25 * runs,
            "no run was killed while it was connected: {killed_open:?}"
        );
        let signals = [
            Signal::SIGINT,
            Signal::SIGKILL,
            Signal::SIGTERM,
            Signal::SIGHUP,
        ];
        let signal = signals[number % 4];
        // The MGS has eight requests before the targets have theirs.
        let (more, requests) = match number / 4 % 2 {
            0 => (&[][..], number / 8 % 9),
            _ => (&["--targets"][..], 7 + number / 8 * 2 % 14),
        };
        let before = connected(&nodes);
        let ended = interrupt(&site, &nodes, more, requests, signal);
        for connection in connected(&nodes) {
            let (target, uuid) = &connection;
            // A run that ends before it has looked around leaves what it found, and the record of that.
            let is_recorded = site.path("state").join(format!("{uuid}.json")).exists();
            let may_be_silent = signal == Signal::SIGKILL || before.contains(&connection);
            assert!(
                ended.out.contains(uuid) || may_be_silent && is_recorded,
                "{uuid} hidden in {}",
                ended.out
            );
            if signal == Signal::SIGKILL {
                killed_open[usize::from(target != "MGS")] += 1;
            }
        }
        nodes
            .iter()
            .for_each(|node| node.expect_no_harm("interrupted"));
    }
    run(check(&site, &["--targets"])).expect_code(0);
    assert_eq!(connected(&nodes), []);
    assert_eq!(std::fs::read_dir(site.path("state")).unwrap().count(), 0);
}

#[test]
fn record_that_cannot_be_read_is_named_and_stays() {
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    std::fs::create_dir(site.path("state")).unwrap();
    let record = site.write("state/half.json", "{\"server\": \"127.0");
    let ended = run(check(&site, &[])).expect_code(0);
    let (path, err) = (record.to_str().unwrap(), &ended.err);
    assert!(
        err.contains(path) && err.contains("cannot be read"),
        "{err}"
    );
    assert!(record.exists());
    drop(nodes);
}
