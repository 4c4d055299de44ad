//! C programs, compiled by the system's compiler against the header and the shared library.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::process::{Child, Command, Stdio};

use finerail_lnet::abi::*;
use testkit::c::{C_MODES, CLibrary, CPP_MODES, POSIX, succeed};

use common::lnet;

/// The leaks that are none of the threads that end with the process.
const LEAKS: &str = "definite,indirect";

macro_rules! layout {
    ($($type:ident { $($field:ident)* })*) => {
        [$(
            format!("{} {}", stringify!($type), size_of::<$type>()),
            $(format!(
                "{}.{} {}",
                stringify!($type),
                stringify!($field),
                offset_of!($type, $field)
            ),)*
        )*]
    };
}

#[test]
fn the_header_has_the_layout_of_the_library_in_c_and_cpp_of_every_standard() {
    let layout = layout! {
        flnet_nid {}
        flnet_id { pid }
        flnet_address { portal match_bits }
        flnet_options { port accept io_threads spin_us progress }
        flnet_message { match_bits hdr_data length }
        flnet_event {
            status md user unlinked portal target initiator sender offset match_bits hdr_data rlength mlength
        }
        flnet_md { length options threshold max_size user }
        flnet_match { first match_bits ignore_bits from }
        flnet_put { to offset ack hdr_data source }
        flnet_get { from offset source }
        flnet_interface { up }
        flnet_counters { events_lost }
    };
    let library = lnet();
    for mode in C_MODES {
        let program = library.compile("cc", &[mode], "tests/c/layout.c");
        let printed = succeed(Command::new(program));
        assert_eq!(printed.lines().collect::<Vec<_>>(), layout, "{mode}");
    }
    for mode in CPP_MODES {
        let program = library.compile("c++", &[mode, "-x", "c++"], "tests/c/layout.c");
        let printed = succeed(Command::new(program));
        assert_eq!(printed.lines().collect::<Vec<_>>(), layout, "{mode}");
    }
}

/// Runs a program with a port of its own, and under valgrind once more.
fn run_twice(arguments: &[&str], source: &str) -> String {
    let library = lnet();
    let program = library.compile("cc", arguments, source);
    let port = testkit::port().to_string();
    let mut command = Command::new(&program);
    command.arg(&port);
    let printed = succeed(command);
    if testkit::require("valgrind") {
        let mut command = testkit::c::valgrind(&program, LEAKS);
        command.arg(&port);
        succeed(command);
    }
    printed
}

#[test]
fn a_message_and_memory_that_is_read() {
    let printed = run_twice(&["-std=c89"], "examples/put_get.c");
    let expected = "hello (6 bytes, number 42)\nmemory of the server\n";
    assert_eq!(printed, expected);
}

#[test]
fn many_puts_and_their_events_through_a_file_descriptor() {
    let printed = run_twice(POSIX, "examples/events.c");
    let expected =
        "100 puts have begun\n100 arrived, 100 were acknowledged; the last one: one of many\n";
    assert_eq!(printed, expected);
}

#[test]
fn a_node_of_a_file_pings_another_program() {
    let library = lnet();
    let ping = library.compile("cc", &["-std=c89"], "examples/ping.c");
    let port = testkit::port().to_string();
    let mut target = Target::start(&library, "127.0.0.1@tcp", &port);
    let document = tempfile::NamedTempFile::new().unwrap();
    let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.2@tcp\n";
    std::fs::write(document.path(), yaml).unwrap();
    let mut command = Command::new(ping);
    command.arg(document.path()).args(["127.0.0.1@tcp", &port]);
    assert_eq!(succeed(command), "127.0.0.1@tcp up\n");
    target.end();
}

#[test]
fn arguments_that_cannot_be_are_answered() {
    run_twice(&["-std=c99"], "tests/c/arguments.c");
}

#[test]
fn calls_of_several_threads_are_answered() {
    run_twice(POSIX, "tests/c/threads.c");
}

#[test]
fn the_thread_that_waits_may_drive_the_node() {
    run_twice(&["-std=c99"], "tests/c/caller.c");
}

#[test]
fn a_forked_child_has_no_node_of_its_parent_and_starts_its_own() {
    let library = lnet();
    let program = library.compile("cc", POSIX, "tests/c/fork.c");
    let mut command = Command::new(&program);
    command.arg(testkit::port().to_string());
    succeed(command);
}

#[test]
fn a_target_that_stands_still_and_dies_holds_no_call_and_no_memory() {
    let library = lnet();
    let program = library.compile("cc", POSIX, "tests/c/killed.c");
    for under_valgrind in [false, true] {
        if under_valgrind && !testkit::require("valgrind") {
            return;
        }
        let port = testkit::port().to_string();
        let target = Target::start(&library, "127.0.0.1@tcp", &port);
        let mut command = match under_valgrind {
            true => testkit::c::valgrind(&program, LEAKS),
            false => Command::new(&program),
        };
        command.args(["127.0.0.2@tcp", &port, "127.0.0.1@tcp"]);
        command.arg(target.0.id().to_string());
        succeed(command);
    }
}

#[test]
fn the_sanitizers_find_nothing() {
    let library = lnet();
    let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for source in [
        "examples/put_get.c",
        "examples/events.c",
        "tests/c/arguments.c",
    ] {
        let program = library.compile("cc", &[POSIX, &sanitizers].concat(), source);
        let mut command = Command::new(&program);
        command.arg(testkit::port().to_string());
        succeed(command);
    }
}

/// A program that offers memory.
struct Target(Child);

impl Target {
    fn start(library: &CLibrary, nid: &str, port: &str) -> Self {
        let program = library.compile("cc", POSIX, "tests/c/target.c");
        let mut command = Command::new(program);
        command.args([nid, port, "4194304"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut target = Self(command.spawn().unwrap());
        let mut line = String::new();
        let stdout = target.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        target
    }

    /// Ends it in an orderly way.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}
