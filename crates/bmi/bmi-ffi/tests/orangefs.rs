//! C programs in the OrangeFS dialect.

#![cfg(feature = "orangefs")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod common;

use std::process::Command;

use common::Prefix;

// [CABI-5]
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
