//! C programs in the OrangeFS dialect.

#![cfg(feature = "orangefs")]
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::process::Command;

use testkit::c::succeed;

use common::bmi;

// [CABI-5]
#[test]
fn the_orangefs_dialect_is_clean_c_and_cpp() {
    let library = bmi();
    let dialect = "-DBMI_DIALECT_ORANGEFS";
    let program = library.compile("cc", &["-std=c89", dialect], "tests/c/header.c");
    succeed(Command::new(program));
    let program = library.compile(
        "c++",
        &["-std=c++98", dialect, "-x", "c++"],
        "tests/c/header.c",
    );
    succeed(Command::new(program));
    let program = library.compile("cc", &["-std=c11", dialect], "tests/c/orangefs.c");
    succeed(Command::new(program));
}
