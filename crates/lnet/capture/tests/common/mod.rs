//! Shared parts of the tests: the paths of captures, and small artificial captures.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod capture;
pub(crate) mod roce;
pub(crate) mod talk;
pub(crate) mod tshark;
pub(crate) mod tshark_rdma;

use std::path::PathBuf;

use lnet_capture::{Direction, LNET_PORT, Summary, decode_capture};

/// The captures of kernel nodes; `None`, with a message, if they are absent.
pub(crate) fn shared_captures() -> Option<Vec<PathBuf>> {
    let directory = testkit::shared_data("captures")?;
    let mut captures: Vec<_> = std::fs::read_dir(&directory)
        .expect("a directory that can be read")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    captures.sort();
    assert!(
        !captures.is_empty(),
        "{} holds no captures",
        directory.display()
    );
    Some(captures)
}

/// The first ping between two kernel nodes: three connections and their handshakes, GETs and REPLYs.
pub(crate) const PING_CAPTURE: &[u8] = include_bytes!("../data/ping.pcap");

/// The items of a capture in each direction: a name (and error text) for each item.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) dialler: Vec<String>,
    pub(crate) listener: Vec<String>,
    pub(crate) summary: Summary,
}

/// Decodes a whole capture of one connection.
pub(crate) fn listen_to(capture: &[u8]) -> Said {
    let mut said = Said::default();
    let (summary, read) = decode_capture(capture, &[LNET_PORT], |message| {
        let side = match message.direction {
            Direction::FromInitiator => &mut said.dialler,
            Direction::FromAcceptor => &mut said.listener,
        };
        side.push(message.kind.name().to_owned());
        Ok(())
    });
    read.expect("the capture is whole");
    said.summary = summary;
    said
}
