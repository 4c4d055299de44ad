//! The forwarder behind an I/O-node daemon.

mod common;
#[path = "../examples/zero_copy.rs"]
mod zero_copy;

use std::sync::Arc;

use files::{Caller, FileSystem};
use files_bmi::{ClientOptions, ForwarderOptions};

use common::{Exported, ZoidSite, at};

#[test]
fn the_setting_of_pipelined_posts_is_the_zoid_methods() {
    assert_eq!(files_bmi::PIPELINED, zoid::setting::PIPELINED);
}

#[test]
fn a_transfer_through_the_daemon_arrives_whole() {
    let exported = Exported::new();
    let site = ZoidSite::new(
        Arc::clone(&exported.files) as _,
        ForwarderOptions::default(),
    );
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern((9 << 20) + 12_345);
    assert_eq!(files.write(&caller, file, 7, &bytes), Ok(bytes.len()));
    let mut back = vec![0; bytes.len() + (5 << 20)];
    assert_eq!(files.read(&caller, file, 7, &mut back), Ok(bytes.len()));
    assert!(back[..bytes.len()] == bytes);
    assert_eq!(
        site.forwarder().counters().snapshot().buffers_of_the_heap,
        0
    );
}

#[test]
fn the_example_writes_and_reads_without_copies() {
    let exported = Exported::new();
    let site = ZoidSite::new(
        Arc::clone(&exported.files) as _,
        ForwarderOptions::default(),
    );
    let files = site.client(ClientOptions::default());
    zero_copy::run(&files, "f").unwrap();
    assert_eq!(files.counters().snapshot().copied_bytes, 0);
    let stored = std::fs::read(exported.directory.path().join("f")).unwrap();
    assert!(stored.len() == 16 << 20 && stored.iter().all(|&byte| byte == 7));
}
