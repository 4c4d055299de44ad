//! The forwarder over BMI's tcp method: its clients see the same as the directory does.

mod common;

use std::io::IoSliceMut;
use std::sync::Arc;

use files::reftest::{compare, steps};
use files::{Caller, Data, FileSystem, Reply, Request, Segment, XattrMode};
use files_bmi::{ClientOptions, ForwarderOptions};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use common::{Exported, TcpSite, at, is_long};

fn site() -> (Exported, TcpSite) {
    let exported = Exported::new();
    let site = TcpSite::new(
        Arc::clone(&exported.files) as _,
        ForwarderOptions::default(),
    );
    (exported, site)
}

#[test]
fn random_operations_over_tcp_give_what_the_model_gives() {
    let (_exported, site) = site();
    let clients = [
        site.client(ClientOptions::default()),
        site.client(ClientOptions::default()),
    ];
    let mut runner = TestRunner::new(ProptestConfig {
        cases: if is_long() { 2000 } else { 100 },
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let site = std::cell::RefCell::new(site);
    let result = runner.run(&steps(60, 2), |steps| {
        let exported = Exported::new();
        site.borrow_mut().replace(
            Arc::clone(&exported.files) as _,
            ForwarderOptions::default(),
        );
        for client in &clients {
            client.null(&Caller::default()).unwrap();
        }
        let clients: Vec<&dyn FileSystem> = clients.iter().map(|client| client as _).collect();
        compare(&clients, &Caller::default(), &steps)
            .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_transfer_of_many_pieces_and_many_segments_arrives_whole() {
    let (exported, site) = site();
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern((9 << 20) + 12_345);
    assert_eq!(files.write(&caller, file, 7, &bytes), Ok(bytes.len()));
    let stored = std::fs::read(exported.directory.path().join("f")).unwrap();
    assert!(stored[7..] == bytes);
    let mut back = vec![0; bytes.len() + (5 << 20)];
    assert_eq!(files.read(&caller, file, 7, &mut back), Ok(bytes.len()));
    let wrong = back
        .iter()
        .zip(&bytes)
        .position(|(one, other)| one != other);
    assert_eq!(wrong, None, "the first wrong byte");

    let segment = |number: u64| Segment {
        offset: 7 + number * 5000,
        length: 10,
    };
    let segments: Vec<Segment> = (0..1000).map(segment).collect();
    let mut memory = vec![0; 10_000];
    let mut list = [IoSliceMut::new(&mut memory)];
    let request = Request::Read {
        handle: file,
        segments,
    };
    let reply = files
        .call(&caller, &request, Data::Read(&mut list))
        .unwrap();
    assert_eq!(reply, Reply::Counts(vec![10; 1000]));
    for (number, piece) in memory.chunks(10).enumerate() {
        assert_eq!(piece, &bytes[number * 5000..][..10], "segment {number}");
    }
}

#[test]
fn requests_and_replies_longer_than_a_message_arrive_whole() {
    let (_exported, site) = site();
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    for number in 0..1000 {
        files
            .mkdir(&caller, at(&format!("{number:0>200}")), 0o755)
            .unwrap();
    }
    let listing = files
        .readdir(&caller, files::Handle::ROOT, 0, 1024, true)
        .unwrap();
    assert!(listing.entries.len() >= 500, "{}", listing.entries.len());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let value = testkit::pattern(50_000);
    match files.setxattr(&caller, file, b"user.long", &value, XattrMode::Any) {
        Ok(()) => assert_eq!(files.getxattr(&caller, file, b"user.long"), Ok(value)),
        // The directory's file system has no room for such an attribute, but the request has
        // arrived.
        Err(errno) => println!("no long attributes here: {errno}"),
    }
}

#[test]
fn a_small_operation_is_one_exchange_of_two_messages() {
    let (_exported, site) = site();
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let before = (
        files.counters().snapshot(),
        site.forwarder().counters().snapshot(),
    );
    files.write(&caller, file, 0, &[7; 4096]).unwrap();
    let mut back = [0; 4096];
    assert_eq!(files.read(&caller, file, 0, &mut back), Ok(4096));
    files.getattr(&caller, file).unwrap();
    let after = (
        files.counters().snapshot(),
        site.forwarder().counters().snapshot(),
    );
    assert_eq!(after.0.attempts - before.0.attempts, 3);
    assert_eq!(after.0.messages - before.0.messages, 6);
    // The forwarder posts only the answers.
    assert_eq!(after.1.messages - before.1.messages, 3);
    assert_eq!(back, [7; 4096]);
}

#[test]
fn memory_of_the_interface_is_written_and_read_without_a_copy() {
    let (_exported, site) = site();
    let (files, caller) = (site.client(ClientOptions::default()), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern(3 << 20);
    let mut buffer = files.buffer(bytes.len()).unwrap();
    buffer.copy_from_slice(&bytes);
    let place = buffer.addresses();
    let (mut buffer, written) = files.write_buffer(&caller, file, 0, buffer);
    assert_eq!(written, Ok(bytes.len()));
    buffer.fill(0);
    let (buffer, read) = files.read_buffer(&caller, file, 0, buffer);
    assert_eq!((read, buffer.addresses()), (Ok(bytes.len()), place));
    assert!(buffer[..] == bytes);
    assert_eq!(files.counters().snapshot().copied_bytes, 0);
}
