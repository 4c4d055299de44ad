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
use common::{roce, tshark_rdma};

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

/// Messages of every type, among them some that were sent again.
#[test]
fn tshark_says_the_same_of_messages_over_rdma() {
    if !has_tshark() {
        return;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("every-message-over-rdma.pcap");
    std::fs::write(&path, roce::every_message()).expect("the capture is written");
    assert_eq!(tshark_rdma::compare(&path), Ok(12));
}

/// A capture that was made by a run between two real devices: `FINERAIL_RDMA_CAPTURE=FILE`.
#[test]
fn tshark_says_the_same_of_a_run_over_rdma() {
    let Some(path) = std::env::var_os("FINERAIL_RDMA_CAPTURE") else {
        println!("skipped: FINERAIL_RDMA_CAPTURE names no capture");
        return;
    };
    let compared = tshark_rdma::compare(Path::new(&path)).expect("both say the same");
    println!("{compared} messages");
    assert!(compared > 0, "no message of the o2ib LND in the capture");
}

/// Shows that the comparison can fail.
#[test]
fn a_missing_field_of_tshark_is_a_difference() {
    let mut ours = Fields::new();
    ours.insert("lnet.ptl_index", 0);
    assert!(difference(&[ours], &[Fields::new()]).is_some());
}
