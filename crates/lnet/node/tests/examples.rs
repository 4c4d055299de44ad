//! Runs the examples of the README, one after the other and in a network of their own, because all use the same port.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::path::PathBuf;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

/// Returns what an example says. Cargo builds the examples together with the tests.
fn output(name: &str, words: &[&str]) -> String {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let program: PathBuf = [profile, "examples".as_ref(), name.as_ref()]
        .iter()
        .collect();
    let ended = Command::new(&program).args(words).output();
    let ended = ended.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(ended.status.success() || name == "ping", "{name}: {said}");
    said
}

#[test]
fn each_example_does_what_it_shows() {
    // Programs that this thread starts are in its network.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("skipped: no network namespace: {error}");
        return;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    let put_get = output("put_get", &[]);
    assert!(
        put_get.contains("127.0.0.1@tcp says hello\nand reads \"server\""),
        "{put_get}"
    );
    let segments = output("segments", &[]);
    assert!(
        segments.contains("4194404 bytes, the last is Some(3)"),
        "{segments}"
    );
    let events = output("events", &[]);
    assert!(
        events.contains("5 bytes at 45, number 9\nOk(10) acknowledgements"),
        "{events}"
    );
    let router = output("router", &[]);
    assert!(router.contains("127.0.0.3@tcp1 answers after"), "{router}");
    let ping = output("ping", &[]);
    assert!(ping.contains("usage: ping OWN_NID TARGET_NID"), "{ping}");
}
