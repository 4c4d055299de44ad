//! `finerail watch-kernel` with the outputs of a kernel node, from files and from commands.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use common::process::{Process, run};
use common::{eventually, finerail};

const NET: &str = "\
net:
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.5@tcp
          status: up
          interfaces:
              0: eth0
          statistics:
              send_count: 10
              recv_count: 9
              drop_count: 0
          health stats:
              fatal_error: 0
              health value: 1000
";

fn stats(timeouts: u32) -> String {
    format!("statistics:\n    send_count: 500\n    remote_timeout_count: {timeouts}\n")
}

fn page(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Returns when LNet was read, as the page says; `None` before the first reading.
fn read_at(page: &str) -> Option<u64> {
    let mut times = page
        .lines()
        .filter_map(|line| line.strip_prefix("lnet_reading_time_seconds "));
    times.next().map(|time| time.parse().unwrap())
}

/// Makes a program of this name that prints what stands in files named by its arguments.
fn program(directory: &Path, name: &str) {
    let script = format!("#!/bin/sh\ncat \"{}/$1.out\"\n", directory.display());
    let path = directory.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A folder of outputs has other files, too, and each is named once.
#[test]
fn what_is_no_text_is_passed_over_and_named_once() {
    let folder = TempDir::with_prefix("finerail-test-").unwrap();
    fs::write(folder.path().join("net.yaml"), NET).unwrap();
    fs::write(
        folder.path().join("a.core"),
        [0x7F, b'E', b'L', b'F', 0xFF, 0xFE],
    )
    .unwrap();
    let path = folder.path().to_str().unwrap();
    let ended = run(finerail(["watch-kernel", "--once", "--files", path])).expect_code(0);
    let ended = ended.expect_error("passed over: ").expect_error("a.core");
    assert_eq!(ended.out, "no findings\n");

    let port = testkit::port().to_string();
    let words = [
        "watch-kernel",
        "--files",
        path,
        "--interval",
        "1s",
        "--metrics",
        &port,
    ];
    let watch = Process::start(finerail(words));
    watch.wait_for_output("ready: metrics at ");
    let port: u16 = port.parse().unwrap();
    let first = eventually("the first reading", || read_at(&page(port)));
    eventually("the second reading", || {
        (read_at(&page(port)) > Some(first)).then_some(())
    });
    let ended = watch.stop().expect_code(0);
    assert_eq!(ended.err.matches("a.core").count(), 1, "{ended:#?}");
}

#[test]
fn files_are_read_once_and_their_findings_are_printed() {
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    fs::write(directory.path().join("net.yaml"), NET.replace("1000", "0")).unwrap();
    fs::write(directory.path().join("stats.yaml"), stats(700)).unwrap();
    let folder = directory.path().to_str().unwrap();
    let ended = run(finerail(["watch-kernel", "--once", "--files", folder])).expect_code(0);
    for code in ["warning[health-zero]", "warning[messages-failed]"] {
        assert!(ended.out.contains(code), "{}", ended.out);
    }
    let healthy = TempDir::with_prefix("finerail-test-").unwrap();
    fs::write(healthy.path().join("net.yaml"), NET).unwrap();
    let healthy = healthy.path().to_str().unwrap();
    let ended = run(finerail(["watch-kernel", "--once", "--files", healthy])).expect_code(0);
    assert_eq!(ended.out, "no findings\n");
    run(finerail([
        "watch-kernel",
        "--once",
        "--files",
        "/nonexistent",
    ]))
    .expect_code(2);
    let empty = TempDir::with_prefix("finerail-test-").unwrap();
    let empty = empty.path().to_str().unwrap();
    run(finerail(["watch-kernel", "--once", "--files", empty]))
        .expect_code(2)
        .expect_error("nothing that was read shows");
}

#[test]
fn commands_are_read_on_a_timer_and_served_with_what_rises() {
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["lnetctl", "lctl"] {
        program(directory.path(), name);
    }
    fs::write(at("net.out"), NET).unwrap();
    fs::write(at("stats.out"), stats(700)).unwrap();
    let port = testkit::port();
    let mut command = finerail([
        "watch-kernel",
        "--interval",
        "1s",
        "--metrics",
        &port.to_string(),
    ]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", directory.path().display()));
    let watch = Process::start(command);
    watch.wait_for_output("ready: metrics at 127.0.0.1:");
    watch.wait_for_output("messages-failed");
    let first = page(port);
    for line in [
        "lnet_reading_ok 1\n",
        "finerail_ni_health{nid=\"10.0.0.5@tcp\"} 1000\n",
        "finerail_send_failures_total{class=\"remote_timeout\"} 700\n",
    ] {
        assert!(first.contains(line), "no {line} in {first}");
    }
    fs::write(at("stats.out"), stats(740)).unwrap();
    watch.wait_for_output("40 remote timeouts");
    // LNet is stopped: the last numbers are not repeated for ever.
    fs::remove_file(at("net.out")).unwrap();
    eventually("the page says that nothing is read", || {
        page(port).contains("lnet_reading_ok 0\n").then_some(())
    });
    watch.wait_for_error("shows nothing here");
    // It stays so until LNet is back, and is said once.
    let then = read_at(&page(port));
    let later = eventually("the next reading", || {
        let page = page(port);
        (read_at(&page) > then).then_some(page)
    });
    assert!(later.contains("lnet_reading_ok 0\n"), "{later}");
    fs::write(at("net.out"), NET).unwrap();
    eventually("the page has numbers again", || {
        page(port).contains("lnet_reading_ok 1\n").then_some(())
    });
    let ended = watch.stop().expect_code(0);
    assert_eq!(
        ended.err.matches("shows nothing here").count(),
        1,
        "{}",
        ended.err
    );
}

#[test]
fn without_the_programs_of_lustre_one_sentence_says_what_is_missing_and_what_to_do() {
    let empty = TempDir::with_prefix("finerail-test-").unwrap();
    let mut command = finerail(["watch-kernel", "--once"]);
    command.env("PATH", empty.path());
    let said = run(command).expect_code(2).err;
    for what in [
        "lnetctl: not installed, or not in PATH; lctl: not installed",
        "modprobe lnet",
        "--files DIR",
    ] {
        assert!(said.contains(what), "no '{what}' in {said}");
    }
    assert_eq!(said.matches("lnetctl: ").count(), 1, "{said}");
    // A command that is there and fails is named with its words.
    program(empty.path(), "lnetctl");
    let mut command = finerail(["watch-kernel", "--once"]);
    command.env("PATH", empty.path());
    run(command)
        .expect_code(2)
        .expect_error("lnetctl net show -v 4 and 5 other commands: exit status: ");
}
