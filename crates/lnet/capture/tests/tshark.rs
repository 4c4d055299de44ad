//! Compares our messages of the kernels' captures with those of tshark's LNet dissector.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::Path;

use lnet_capture::LNET_PORT;

use common::tshark::{Fields, Incomparable, compare, difference, has_tshark};

#[test]
fn tshark_says_the_same_of_the_shared_captures() {
    if !has_tshark() {
        return;
    }
    for path in common::shared_captures().unwrap_or_default() {
        match compare(&path, LNET_PORT) {
            Ok(compared) => println!("{}: {compared} messages", path.display()),
            Err(Incomparable::LargeNids) => println!("{}: large NIDs", path.display()),
            Err(Incomparable::Differs(what)) => panic!("{}: {what}", path.display()),
        }
    }
}

#[test]
fn tshark_says_the_same_of_the_small_capture() {
    if !has_tshark() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ping.pcap");
    assert_eq!(compare(&path, LNET_PORT), Ok(8));
}

/// Shows that the comparison can fail.
#[test]
fn a_missing_field_of_tshark_is_a_difference() {
    let mut ours = Fields::new();
    ours.insert("lnet.ptl_index", 0);
    assert!(difference(&[ours], &[Fields::new()]).is_some());
}
