//! Tests a process without free file descriptors. This file has one test, because the limit holds for the whole
//! process.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;

use lnet_tcp::Refusal;
use lnet_wire::Ctype;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use common::{Node, Raw, config, hello, opening, until};

// [LIMIT-2]
#[test]
fn silent_clients_that_take_all_descriptors_keep_nobody_out() {
    let mut node = Node::new(config());
    let _silent: Vec<Raw> = (0..20).map(|_| Raw::connect(&node)).collect();
    let mut honest = Raw::connect(&node);
    honest.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL)));
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let room_for_10 = u64::try_from(next).unwrap() + 10;
    setrlimit(Resource::RLIMIT_NOFILE, room_for_10, hard).unwrap();

    until(&mut node, |node| (node.open() == 1).then_some(()));
    let refused = node.lnd.stats().refused.of(Refusal::TooManyHandshakes);
    assert!(refused >= 10, "{refused}");
}
