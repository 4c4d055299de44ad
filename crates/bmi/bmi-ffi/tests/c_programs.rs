//! C programs in the stand-alone dialect, compiled by the system's compiler against the headers and the
//! shared library.

#![cfg(not(feature = "orangefs"))]
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;
#[path = "common/run.rs"]
mod run;

use std::process::Command;

use testkit::c::{C_MODES, CPP_MODES, succeed};

use common::bmi;
use run::{Under, run_pair};

const TCP: &str = "tcp://127.0.0.1:0";

// [CABI-3]
#[test]
fn the_header_is_clean_c_of_every_standard() {
    let library = bmi();
    for mode in C_MODES {
        let program = library.compile("cc", &[mode], "tests/c/header.c");
        succeed(Command::new(program));
    }
}

// [CABI-3]
#[test]
fn the_header_is_clean_cpp_of_every_standard() {
    let library = bmi();
    for mode in CPP_MODES {
        let program = library.compile("c++", &[mode, "-x", "c++"], "tests/c/header.c");
        succeed(Command::new(program));
    }
}

// [BMI-50] [BMI-51] [OPT-1] [OPT-6] [CABI-10] [CABI-11] [CABI-12] [CABI-13] [CABI-14] [CABI-15] [CABI-16] [CABI-20] [CABI-22] [CABI-23] [CABI-24] [CABI-26]
#[test]
fn arguments_that_cannot_be_are_answered() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c99"], "tests/c/arguments.c");
    succeed(Command::new(&program));
    if testkit::require("valgrind") {
        succeed(Under::Valgrind.command(&program));
    }
}

#[test]
fn the_message_pair_runs_in_c_over_tcp() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Nothing, &program, TCP, &[], &[]);
}

#[test]
fn pingpong_runs_in_c_over_tcp() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "examples/pingpong.c");
    let table = run_pair(Under::Nothing, &program, TCP, &["20"], &[]);
    assert_eq!(table.lines().count(), 1 + 23, "{table}");
}

/// A server in C that listens without a port, as RPC libraries start one.
const PORTLESS: &str = "tcp://127.0.0.1";

#[test]
fn lists_and_early_messages_of_file_systems_run_in_c_over_tcp() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "tests/c/file_system.c");
    run_pair(Under::Nothing, &program, TCP, &[], &[]);
}

#[test]
fn two_servers_in_c_exchange_bytes_in_both_directions() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "tests/c/two_servers.c");
    run_pair(Under::Nothing, &program, PORTLESS, &[], &[]);
}

#[test]
fn the_patterns_of_rpc_libraries_run_in_c_over_tcp() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "tests/c/rpc.c");
    run_pair(Under::Nothing, &program, PORTLESS, &[], &[]);
}

// [CABI-25]
#[test]
fn the_library_says_on_standard_error_what_it_is_asked_for_and_else_nothing() {
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "examples/pingpong.c");
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
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "examples/pingpong.c");
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
    if !testkit::require("valgrind") {
        return;
    }
    let library = bmi();
    let program = library.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Valgrind, &program, TCP, &[], &[]);
    let program = library.compile("cc", &["-std=c89"], "examples/pingpong.c");
    run_pair(Under::Valgrind, &program, TCP, &["2"], &[]);
}
