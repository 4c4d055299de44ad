//! C programs over the zoid method, compiled by the system's compiler. The test runs the daemon between them.

#![cfg(not(feature = "orangefs"))]
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;
#[path = "common/run.rs"]
mod run;

use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use tempfile::TempDir;
use testkit::QueueTurn;
use zoidd::{Daemon, Options, Stopper};

use common::bmi;
use run::{Under, run_pair};

const ZOID: &str = "zoid://";

/// A daemon, and the environment that leads programs started by this process to it.
struct Bed {
    stopper: Stopper,
    running: Option<JoinHandle<()>>,
    environment: [(&'static str, String); 2],
    /// The address of the daemon for clients on other machines.
    remote: String,
    _directory: TempDir,
    _turn: QueueTurn,
}

impl Bed {
    fn new() -> Bed {
        let turn = QueueTurn::share();
        let directory = TempDir::new().unwrap();
        // No other test has this port, in this process and in others.
        let instance = format!("c{}", testkit::port());
        let socket = directory.path().join("socket");
        let environment = [
            ("ZOID_INSTANCE", instance.clone()),
            ("ZOID_SOCKET", socket.display().to_string()),
        ];
        let daemon = Daemon::open(Options {
            instance: instance.parse().unwrap(),
            directory: Some(directory.path().to_path_buf()),
            socket: Some(socket),
            total: 64 << 20,
            listen: Some("127.0.0.1:0".parse().unwrap()),
            ..Options::default()
        });
        let daemon = daemon.unwrap();
        let remote = format!("zoid+tcp://{}/{instance}", daemon.address().unwrap());
        let stopper = daemon.stopper();
        Bed {
            stopper,
            running: Some(std::thread::spawn(move || daemon.run().unwrap())),
            environment,
            remote,
            _directory: directory,
            _turn: turn,
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(running) = self.running.take() {
            // A daemon that failed has printed the reason on its thread.
            let _failed = running.join();
        }
    }
}

fn run(under: Under, example: &str, arguments: &[&str]) -> String {
    let bed = Bed::new();
    let library = bmi();
    // The programs may use no more of POSIX than C89 can express.
    let program = library.compile("cc", &["-std=c89", "-D_POSIX_C_SOURCE=200112L"], example);
    run_pair(under, &program, ZOID, arguments, &bed.environment)
}

#[test]
fn the_message_pair_runs_in_c_over_zoid() {
    run(Under::Nothing, "examples/message_pair.c", &[]);
}

#[test]
fn pingpong_runs_in_c_over_zoid() {
    let table = run(Under::Nothing, "examples/pingpong.c", &["20"]);
    assert_eq!(table.lines().count(), 1 + 23, "{table}");
}

#[test]
fn lists_and_early_messages_of_file_systems_run_in_c_over_zoid() {
    run(Under::Nothing, "tests/c/file_system.c", &[]);
}

#[test]
fn the_patterns_of_rpc_libraries_run_in_c_over_zoid() {
    run(Under::Nothing, "tests/c/rpc.c", &[]);
}

#[test]
fn pingpong_runs_in_c_from_another_machine_where_the_extension_is_asked_for() {
    let bed = Bed::new();
    let library = bmi();
    let arguments = ["-std=c89", "-D_POSIX_C_SOURCE=200112L"];
    let program = library.compile("cc", &arguments, "examples/pingpong.c");
    let client = |extended: &str| {
        let mut command = Command::new(&program);
        command.args(["client", &bed.remote, "3"]);
        command.env("ZOID_EXTENDED_ADDR", extended);
        command
    };
    assert!(!client("0").output().unwrap().status.success());
    let mut server = Command::new(&program);
    server.args(["server", ZOID]).envs(bed.environment.clone());
    let mut server = server.stdout(Stdio::null()).spawn().unwrap();
    let table = client("1").output().unwrap();
    if !table.status.success() {
        // The server waits for a client that never comes.
        server.kill().unwrap();
    }
    assert!(server.wait().unwrap().success());
    let lines = String::from_utf8(table.stdout).unwrap();
    assert_eq!(lines.lines().count(), 1 + 23, "{lines}");
}

#[test]
fn the_examples_are_clean_under_valgrind_over_zoid() {
    if !testkit::require("valgrind") {
        return;
    }
    run(Under::Valgrind, "examples/message_pair.c", &[]);
    run(Under::Valgrind, "examples/pingpong.c", &["2"]);
}

// [BMI-54]
#[test]
fn a_child_that_fork_made_has_no_interface_and_takes_none_away() {
    run(Under::Nothing, "tests/c/fork.c", &[]);
}

// [MEM-6] [CABI-20] [CABI-21]
#[test]
fn memory_of_a_server_that_is_not_what_its_caller_says_is_refused() {
    run(Under::Nothing, "tests/c/memory.c", &[]);
}

// [ZOID-61]
#[test]
fn a_storm_of_signals_amid_transfers_is_not_noticed() {
    let said = run(Under::Nothing, "tests/c/storm.c", &[]);
    println!("{said}");
}
