//! Tests the soak of `finerail-bench bmi` with the processes of a site: daemons, servers, clients.
//!
//! The bench itself verifies every byte, and between two rounds checks the memory of every process, pools, segments
//! and reply queues. This test checks what remains after the soak.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::process::Command;

use sys::{MessageQueue, QueueAccess, QueueShape};
use testkit::QueueTurn;

/// The seconds of an ordinary run, and of a long one.
const SECONDS: (&str, &str) = ("20", "600");

/// Returns the number of queues that this user can still make. The file system that lists queues may not be
/// mounted, so this function makes queues until it fails.
fn queues_left() -> usize {
    let shape = QueueShape {
        messages: 2,
        message_bytes: 4096,
    };
    let name = |number: usize| format!("/soak-count.{}.{number}", std::process::id());
    let make = |number| MessageQueue::create(&name(number), QueueAccess::Receive, shape).ok();
    let made = (0..).map_while(make).collect::<Vec<_>>().len();
    for number in 0..made {
        sys::unlink_queue(&name(number)).unwrap();
    }
    made
}

/// Returns the segments of benches; none if shared memory is not listed.
fn segments() -> BTreeSet<String> {
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with("zbmi.bench"))
        .collect()
}

#[test]
fn eight_clients_exchange_messages_of_all_sizes_and_nothing_grows_or_is_left() {
    let _turn = QueueTurn::take();
    let long = std::env::var_os("FINERAIL_LONG").is_some();
    let seconds = if long { SECONDS.1 } else { SECONDS.0 };
    let place = tempfile::tempdir().unwrap();
    let (queues, segments_before) = (queues_left(), segments());
    let soak = Command::new(env!("CARGO_BIN_EXE_finerail-bench"))
        .args(["bmi", "--soak", seconds])
        .env("TMPDIR", place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&soak.stdout);
    if !soak.status.success() || !said.contains("every byte right") {
        let complaint = String::from_utf8_lossy(&soak.stderr);
        panic!("{}\n{said}{complaint}", soak.status);
    }
    println!("{said}");
    assert_eq!(queues_left(), queues, "queues are left");
    assert!(segments().is_subset(&segments_before), "segments are left");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
