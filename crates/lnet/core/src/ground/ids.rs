//! Ids that only the core knows.

use crate::ground::table::Key;

/// Id of a peer NI. It becomes invalid when the peer NI is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerNiId(u64);

impl Key for PeerNiId {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn raw(self) -> u64 {
        self.0
    }
}
