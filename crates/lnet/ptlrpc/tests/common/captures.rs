//! The captures of a real client and its servers, message by message.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use lnet_capture::{Decoder, Direction, Kind, LNET_PORT, Payload};
use lnet_ptlrpc::{Pairer, PortalUse, Role, Rpc, Seen, portal, portal_use};
use lnet_types::Time;
use lnet_wire::{Body, Header};

/// The captures, or nothing where the folder of shared data is absent.
pub(crate) fn captures() -> Vec<PathBuf> {
    let folder = testkit::workspace::root().join("../shared/data/captures/ptlrpc");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "pcap"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no captures in {}", folder.display());
    files
}

fn keep(header: &Header) -> usize {
    match header.body {
        Body::Put(put) if put.ptl_index == portal::MGS_BULK => 1 << 20,
        Body::Put(put) if portal_use(put.ptl_index) != PortalUse::Bulk => 64 << 10,
        _ => 0,
    }
}

/// An LNet message.
pub(crate) struct Heard {
    time: Time,
    place: u64,
    pub(crate) header: Header,
    /// The bytes of requests, replies, and tables of an MGS.
    pub(crate) payload: Vec<u8>,
}

/// All LNet messages of a capture.
fn messages(path: &PathBuf) -> Vec<Heard> {
    let file = BufReader::new(File::open(path).expect("the capture opens"));
    let mut all = Vec::new();
    let decoder = Decoder::new(&[LNET_PORT]).keeping(keep);
    let (_, result) = decoder.decode(file, |message| {
        if let Kind::Lnet(lnet) = message.kind {
            let head = match lnet.payload {
                Payload::Opaque { head, .. } => head,
                _ => &[],
            };
            let side = u64::from(message.direction == Direction::FromAcceptor);
            all.push(Heard {
                time: message.time,
                place: u64::from(message.connection.id) << 1 | side,
                header: lnet.header,
                payload: head.to_vec(),
            });
        }
        Ok(())
    });
    result.expect("the capture is readable");
    all
}

/// All RPCs of a capture, and what each message is.
pub(crate) fn pair(path: &PathBuf) -> (Vec<Rpc>, Pairer, Vec<(Heard, Role)>) {
    let mut pairer = Pairer::default();
    let mut rpcs = Vec::new();
    let mut roles = Vec::new();
    for heard in messages(path) {
        let seen = Seen {
            time: heard.time,
            place: heard.place,
            header: &heard.header,
            head: &heard.payload,
        };
        let role = pairer.take(&seen, &mut |rpc| rpcs.push(rpc));
        roles.push((heard, role));
    }
    pairer.finish(&mut |rpc| rpcs.push(rpc));
    (rpcs, pairer, roles)
}
