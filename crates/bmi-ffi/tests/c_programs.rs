//! C programs, compiled by the system's compiler against the headers and the shared library.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{Prefix, Under, crate_path, has_valgrind, library, run_pair};

const C_MODES: [&str; 5] = ["-std=c89", "-std=c99", "-std=c11", "-std=c17", "-std=c2x"];
const CPP_MODES: [&str; 5] = [
    "-std=c++98",
    "-std=c++11",
    "-std=c++14",
    "-std=c++17",
    "-std=c++20",
];
const TCP: &str = "tcp://127.0.0.1:0";

#[cfg(not(feature = "orangefs"))]
#[test]
fn the_header_is_clean_c_of_every_standard() {
    let prefix = Prefix::new();
    for mode in C_MODES {
        let program = prefix.compile("cc", &[mode], "tests/c/header.c");
        assert!(Command::new(program).status().unwrap().success(), "{mode}");
    }
}

#[cfg(not(feature = "orangefs"))]
#[test]
fn the_header_is_clean_cpp_of_every_standard() {
    let prefix = Prefix::new();
    for mode in CPP_MODES {
        let program = prefix.compile("c++", &[mode, "-x", "c++"], "tests/c/header.c");
        assert!(Command::new(program).status().unwrap().success(), "{mode}");
    }
}

#[cfg(feature = "orangefs")]
#[test]
fn the_orangefs_dialect_is_clean_c_and_cpp() {
    let prefix = Prefix::new();
    let dialect = "-DBMI_DIALECT_ORANGEFS";
    let program = prefix.compile("cc", &["-std=c89", dialect], "tests/c/header.c");
    assert!(Command::new(program).status().unwrap().success());
    let program = prefix.compile(
        "c++",
        &["-std=c++98", dialect, "-x", "c++"],
        "tests/c/header.c",
    );
    assert!(Command::new(program).status().unwrap().success());
    let program = prefix.compile("cc", &["-std=c11", dialect], "tests/c/orangefs.c");
    assert!(Command::new(program).status().unwrap().success());
}

#[cfg(not(feature = "orangefs"))]
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

#[cfg(not(feature = "orangefs"))]
#[test]
fn the_message_pair_runs_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Nothing, &program, TCP, &[]);
}

#[cfg(not(feature = "orangefs"))]
#[test]
fn pingpong_runs_in_c_over_tcp() {
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    let table = run_pair(Under::Nothing, &program, TCP, &["20"]);
    assert_eq!(table.lines().count(), 1 + 23, "{table}");
}

#[cfg(not(feature = "orangefs"))]
#[test]
fn the_examples_are_clean_under_valgrind() {
    if !has_valgrind() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let prefix = Prefix::new();
    let program = prefix.compile("cc", &["-std=c89"], "examples/message_pair.c");
    run_pair(Under::Valgrind, &program, TCP, &[]);
    let program = prefix.compile("cc", &["-std=c89"], "examples/pingpong.c");
    run_pair(Under::Valgrind, &program, TCP, &["2"]);
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(library())
        .output()
        .unwrap();
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<&str> = symbols.lines().collect();
    assert_eq!(exported, declared());
    assert_eq!(
        exported.len(),
        if cfg!(feature = "orangefs") { 26 } else { 28 }
    );
}

/// The functions of the dialect.
fn declared() -> BTreeSet<&'static str> {
    const BOTH: &str = "BMI_initialize BMI_finalize BMI_open_context BMI_close_context \
        BMI_post_send BMI_post_send_list BMI_post_sendunexpected BMI_post_sendunexpected_list \
        BMI_post_recv BMI_post_recv_list BMI_test BMI_testsome BMI_testcontext \
        BMI_testunexpected BMI_unexpected_free BMI_memalloc BMI_memfree BMI_set_info \
        BMI_get_info BMI_addr_lookup BMI_addr_rev_lookup BMI_addr_rev_lookup_unexpected \
        BMI_query_addr_range BMI_cancel bmi_errno_to_pvfs";
    const OWN: &str = if cfg!(feature = "orangefs") {
        "bmi_status_string"
    } else {
        "BMI_post_sendunexpected_class BMI_post_sendunexpected_list_class BMI_testunexpected_class"
    };
    BOTH.split_whitespace()
        .chain(OWN.split_whitespace())
        .collect()
}

#[test]
fn the_shared_library_has_the_name_that_programs_load() {
    let output = Command::new("readelf")
        .arg("-d")
        .arg(library())
        .output()
        .unwrap();
    let dynamic = String::from_utf8_lossy(&output.stdout);
    assert!(dynamic.contains("soname: [libbmi.so]"), "{dynamic}");
}

#[test]
fn the_pkg_config_file_is_a_template() {
    let template = std::fs::read_to_string(crate_path("bmi.pc.in")).unwrap();
    for field in [
        "prefix=@prefix@",
        "Version: @version@",
        "Libs: -L${libdir} -lbmi",
    ] {
        assert!(template.contains(field), "{field}");
    }
}
