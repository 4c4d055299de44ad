//! The soak of `finerail bench bmi`, with the processes that a site has: daemons, servers, clients.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs::File;
use std::process::Command;

/// Seconds of the ordinary run, and of the long one.
const SECONDS: (&str, &str) = ("8", "600");

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

#[test]
fn eight_clients_exchange_messages_of_all_sizes_without_a_wrong_byte_or_growing_memory() {
    let _turn = take_turn();
    let long = std::env::var_os("FINERAIL_LONG").is_some();
    let seconds = if long { SECONDS.1 } else { SECONDS.0 };
    let soak = Command::new(env!("CARGO_BIN_EXE_finerail"))
        .args(["bench", "bmi", "--soak", seconds])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&soak.stdout);
    if !soak.status.success() || !said.contains("every byte right") {
        let complaint = String::from_utf8_lossy(&soak.stderr);
        panic!("{}\n{said}{complaint}", soak.status);
    }
}
