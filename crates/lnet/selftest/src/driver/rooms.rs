//! Memory for bulk, kept for reuse so that its pages are faulted in once and not with every RPC. Data with the
//! check "discard" shares one buffer, because that data is not kept.

use lnet_node::{Md, Scrap};

use crate::pattern::{self, Check};
use crate::wire::BULK_MAX;

/// A limited stock of buffers.
#[derive(Default)]
pub(super) struct Rooms {
    kept: Vec<Vec<u8>>,
    scrap: Option<Scrap>,
}

/// The limit of buffers that are kept. At 1 MiB each, this is as much as can be read at once.
const KEPT_MAX: usize = 64;

impl Rooms {
    /// Makes a descriptor over memory of this length, at most [`BULK_MAX`], for data with this check.
    pub(super) fn sink(&mut self, len: u32, check: Check) -> Md {
        if check == Check::Discard {
            let scrap = self
                .scrap
                .get_or_insert_with(|| Scrap::of_len(BULK_MAX as usize));
            if let Some(room) = scrap.first(len as usize) {
                return Md::scrap(room);
            }
        }
        let mut room = self.take(len);
        pattern::poison(&mut room, check);
        Md::sink(room)
    }

    /// Returns memory of this length; it may hold old bytes.
    fn take(&mut self, len: u32) -> Vec<u8> {
        let mut room = self.kept.pop().unwrap_or_default();
        room.resize(len as usize, 0);
        room
    }

    pub(super) fn free(&mut self, room: Vec<u8>) {
        if self.kept.len() < KEPT_MAX && !room.is_empty() {
            self.kept.push(room);
        }
    }
}
