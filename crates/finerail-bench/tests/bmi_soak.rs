//! The soak of `finerail-bench bmi`, with the processes that a site has: daemons, servers, clients.
//!
//! The bench itself looks at every byte, and between two rounds at the memory of every process, at
//! pools, segments and reply queues. Here is looked at what is left when it is over.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;

use sys::{MessageQueue, QueueAccess, QueueShape};

/// Seconds of the ordinary run, and of the long one.
const SECONDS: (&str, &str) = ("20", "600");

/// Queues are limited per user, so tests that use them take turns: one lock for all of this user.
fn take_turn() -> File {
    let name = format!("finerail-queues-{}.lock", nix::unistd::geteuid());
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
    file.lock().unwrap();
    file
}

/// Queues that this user can still make: the file system that lists them may not be mounted.
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

/// The segments of benches. Where shared memory is not listed, none.
fn segments() -> BTreeSet<String> {
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with("zbmi.bench"))
        .collect()
}

#[test]
fn eight_clients_exchange_messages_of_all_sizes_and_nothing_grows_or_is_left() {
    let _turn = take_turn();
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
