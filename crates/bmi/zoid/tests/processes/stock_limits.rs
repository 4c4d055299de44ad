//! An ordinary user with the limits that Linux ships with: 819,200 bytes of queues (`ulimit -q`), and no
//! right to exceed the system's 10 messages per queue, 8192 bytes per message, 256 queues.
//!
//! The system's limits do not apply to root. If these tests run as root, a selection of them runs once more
//! as another user. `.ci/as-user` runs all of them.

use std::process::Command;

use testkit::QueueTurn;

use crate::faults::{NOBODY, may_be_nobody, public_copy};

/// The bytes of queues that Linux allows a user by default.
const QUEUE_BYTES: &str = "819200";

/// The tests that need most queues, and one of each kind.
const AGAIN: [&str; 7] = [
    "kills::kill_9_of_any_party_leaves_nothing",
    "kills::a_daemon_started_after_kills_removes_what_they_left",
    "requirements::client::r07_a_client_reaches_the_server_of_its_own_daemon_and_nobody_else",
    "requirements::server::r47_every_sleeping_call_has_a_reply_queue_and_queues_are_used_again",
    "requirements::server::r64_a_test_of_any_operation_collects_what_other_threads_posted",
    "faults::without_a_queue_left_a_server_is_told_which_limit_it_is",
    "stock_limits::this_user_has_the_stock_limits",
];

/// Requires that [`this_user_has_the_stock_limits`] holds.
const ORDINARY: &str = "ZOID_TEST_ORDINARY_USER";

// [CTL-3]
#[test]
fn the_suite_passes_with_the_limits_that_linux_ships_with() {
    if sys::effective_user() != 0 || !may_be_nobody() {
        println!("skipped: this user's limits are what they are");
        return;
    }
    // The system's limit is one for all users, who do not share a lock.
    let _turn = QueueTurn::take();
    let (directory, program) = public_copy();
    let limit = format!("--msgqueue={QUEUE_BYTES}:{QUEUE_BYTES}");
    let ran = Command::new("prlimit")
        .arg(limit)
        .args(NOBODY)
        .arg(program)
        .args(["--exact", "--test-threads=1"])
        .args(AGAIN)
        .env("TMPDIR", directory.path())
        .env(ORDINARY, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    let all = format!("{} passed", AGAIN.len());
    assert!(said.contains(&all), "{said}");
}

#[test]
fn this_user_has_the_stock_limits() {
    if std::env::var_os(ORDINARY).is_none() {
        return;
    }
    assert_ne!(sys::effective_user(), 0);
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max msgqueue"));
    assert!(line.unwrap().contains(QUEUE_BYTES), "{line:?}");
    // Only an administrator can exceed the system's limits.
    let long = sys::QueueShape {
        messages: 11,
        message_bytes: 64,
    };
    let name = format!("/zoid-long.{}", std::process::id());
    let made = sys::MessageQueue::create(&name, sys::QueueAccess::Receive, long);
    if made.is_ok() {
        sys::unlink_queue(&name).unwrap();
    }
    let most = std::fs::read_to_string("/proc/sys/fs/mqueue/msg_max");
    let is_stock = most.is_ok_and(|most| most.trim() == "10");
    assert!(made.is_err() || !is_stock);
}
