//! A census of the objects that a core holds, to find leaks.

use crate::Core;

/// The numbers of objects that a core holds. At rest these are only what the owner of the core created, and the core's
/// own ping target: one descriptor with one buffer. The descriptors that accept pushes, and their buffers, are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Memory descriptors, including those of the core.
    pub descriptors: usize,
    /// Messages being sent, including those that wait for a resend.
    pub sending: usize,
    /// Messages being received.
    pub receiving: usize,
    /// Messages that wait for a resend.
    pub resending: usize,
    /// The small buffers that the core owns.
    pub buffers: usize,
}

impl Core {
    /// Counts the objects that the core holds.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            descriptors: self.upkeep.traffic.mds.len() - self.upkeep.push_target.posted(),
            sending: self.upkeep.traffic.tx.len(),
            receiving: self.upkeep.traffic.rx.len(),
            resending: self.upkeep.traffic.resends.len(),
            buffers: self.upkeep.traffic.buffers.len() - self.upkeep.push_target.posted(),
        }
    }
}
