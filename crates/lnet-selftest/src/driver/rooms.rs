//! Room for bulk, used again so that its pages are touched once and not with every RPC. What is discarded has one room for
//! all.

use lnet_node::{Md, Scrap};

use crate::pattern::{self, Check};
use crate::wire::BULK_MAX;

/// A bounded stock of buffers.
#[derive(Default)]
pub(super) struct Rooms {
    kept: Vec<Vec<u8>>,
    scrap: Option<Scrap>,
}

/// What is kept for later: with a megabyte each, as much as is read at once at most.
const KEPT_MAX: usize = 64;

impl Rooms {
    /// A descriptor over room of this length, at most [`BULK_MAX`], for data that is checked so.
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

    /// Room of this length, holding anything.
    fn take(&mut self, len: u32) -> Vec<u8> {
        let mut room = self.kept.pop().unwrap_or_default();
        room.resize(len as usize, 0);
        room
    }

    pub(super) fn give_back(&mut self, room: Vec<u8>) {
        if self.kept.len() < KEPT_MAX && !room.is_empty() {
            self.kept.push(room);
        }
    }
}
