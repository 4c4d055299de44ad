//! What the tests of this crate share: where captures are, and small captures made by hand.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};

/// The captures of kernel nodes, or `None` with a message where they are absent.
pub(crate) fn shared_captures() -> Option<Vec<PathBuf>> {
    let root = std::env::var_os("FINERAIL_SHARED_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let directory = root.join("captures");
    let Ok(entries) = std::fs::read_dir(&directory) else {
        eprintln!("skipped: no captures in {}", directory.display());
        return None;
    };
    let mut captures: Vec<_> = entries
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
