//! C programs in the stand-alone dialect, compiled by the system's compiler against the headers and the
//! shared library.

#![cfg(not(feature = "orangefs"))]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod common;
#[path = "common/run.rs"]
mod run;

use std::process::Command;

use common::Prefix;
use run::{Under, has_valgrind, run_pair};

const C_MODES: [&str; 5] = ["-std=c89", "-std=c99", "-std=c11", "-std=c17", "-std=c2x"];
const CPP_MODES: [&str; 5] = [
    "-std=c++98",
    "-std=c++11",
    "-std=c++14",
    "-std=c++17",
    "-std=c++20",
];
const TCP: &str = "tcp://127.0.0.1:0";

// [CABI-3]
#[test]
fn the_header_is_clean_c_of_every_standard() {
    let prefix = Prefix::new();
    for mode in C_MODES {
        let program = prefix.compile("cc", &[mode], "tests/c/header.c");
        assert!(Command::new(program).status().unwrap().success(), "{mode}");
    }
}

// [CABI-3]
#[test]
fn the_header_is_clean_cpp_of_every_standard() {
    let prefix = Prefix::new();
    for mode in CPP_MODES {
        let program = prefix.compile("c++", &[mode, "-x", "c++"], "tests/c/header.c");
        assert!(Command::new(program).status().unwrap().success(), "{mode}");
    }
}

// [BMI-50] [BMI-51] [OPT-1] [OPT-6] [CABI-10] [CABI-11] [CABI-12] [CABI-13] [CABI-14] [CABI-15] [CABI-16] [CABI-20] [CABI-22] [CABI-23] [CABI-24] [CABI-26]
#[test]
fn arguments_that_cannot_be_are_answered() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c99"], "tests/c/arguments.c");
    assert!(Command::new(&program).status().unwrap().success());
    if has_valgrind() {
        assert!(
            Under::Valgrind
                .command(&program)
                .status()
                .unwrap()
                .success()
        );
    } else {
        println!("not run under valgrind, which is not installed");
    }
}

#[test]
fn the_message_pair_runs_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Nothing, &program, TCP, &[], &[]);
}

#[test]
fn pingpong_runs_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    let table = run_pair(Under::Nothing, &program, TCP, &["20"], &[]);
    assert_eq!(table.lines().count(), 1 + 23, "{table}");
}

/// A server in C that listens without a port, as RPC libraries start one.
const PORTLESS: &str = "tcp://127.0.0.1";

#[test]
fn lists_and_early_messages_of_file_systems_run_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "tests/c/file_system.c");
    run_pair(Under::Nothing, &program, TCP, &[], &[]);
}

#[test]
fn two_servers_in_c_exchange_bytes_in_both_directions() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "tests/c/two_servers.c");
    run_pair(Under::Nothing, &program, PORTLESS, &[], &[]);
}

#[test]
fn the_patterns_of_rpc_libraries_run_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "tests/c/rpc.c");
    run_pair(Under::Nothing, &program, PORTLESS, &[], &[]);
}

// [CABI-25]
#[test]
fn the_library_says_on_standard_error_what_it_is_asked_for_and_else_nothing() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    let said = |level: Option<&str>| {
        let mut command = Command::new(&program);
        // Nobody listens at that address: the program ends soon after its start.
        command.args(["client", "tcp://127.0.0.1:1"]);
        command.env("ZOID_JOB", "many").env_remove("FINERAIL_LOG");
        command.envs(level.map(|level| ("FINERAIL_LOG", level)));
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(said(Some("warn")).contains("ZOID_JOB is ignored"));
    for quiet in [None, Some("error"), Some("off")] {
        let said = said(quiet);
        assert!(!said.contains("ZOID_JOB"), "{quiet:?}: {said}");
    }
}

// [CABI-25]
#[test]
fn a_server_without_a_daemon_says_what_it_waits_for() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    let mut command = Command::new(&program);
    command
        .args(["server", "zoid://"])
        .env_remove("FINERAIL_LOG");
    command.env("ZOID_INSTANCE", "nobody-starts-this");
    command.env("ZBMI_CONNECT_TIMEOUT_MS", "2500");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(
        said.contains("daemon --instance nobody-starts-this"),
        "{said}"
    );
}

#[test]
fn the_examples_are_clean_under_valgrind() {
    if !has_valgrind() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Valgrind, &program, TCP, &[], &[]);
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    run_pair(Under::Valgrind, &program, TCP, &["2"], &[]);
}
