//! A line on standard error when nothing comes from the service for a while: silence looks like a hang.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use lnet_node::Node;
use lnet_types::Nid;

use crate::common::complaint;

/// Says so once when nothing comes for some seconds, until this is dropped.
pub(super) struct Waiting {
    _ended: Sender<()>,
}

/// How long nobody is told.
const SILENCE: Duration = Duration::from_secs(2);

impl Waiting {
    /// Watches what a node receives from now on.
    pub(super) fn watch(node: Node, server: Nid, limit: Duration) -> Self {
        let (ended, watch) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let before = node.stats().recv_count;
                match watch.recv_timeout(SILENCE) {
                    Err(RecvTimeoutError::Timeout) if node.stats().recv_count == before => break,
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
            complaint(&format!(
                "waiting for an answer of {server}, {} s at most for each call (--timeout)",
                limit.as_secs()
            ));
        });
        Self { _ended: ended }
    }
}
