//! Room for bulk, used again so that its pages are touched once and not with every RPC.

/// A bounded stock of buffers.
#[derive(Default)]
pub(super) struct Rooms {
    kept: Vec<Vec<u8>>,
}

/// What is kept for later: with a megabyte each, as much as is read at once at most.
const KEPT_MAX: usize = 64;

impl Rooms {
    /// Room of this length, holding anything.
    pub(super) fn take(&mut self, len: u32) -> Vec<u8> {
        let mut room = self.kept.pop().unwrap_or_default();
        room.resize(len as usize, 0);
        room
    }

    pub(super) fn give_back(&mut self, room: Vec<u8>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(room);
        }
    }
}
