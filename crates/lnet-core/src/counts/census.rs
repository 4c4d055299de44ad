//! What is alive inside a core, counted: for whoever looks for leaks.

use crate::Core;

/// Numbers of what a core keeps. At rest all of it is what its owner asked for, and the core's own ping
/// target: one descriptor with one buffer. The descriptors that take pushes are left out, with their buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Memory descriptors, the core's own among them.
    pub descriptors: usize,
    /// Messages being sent, with the paths that they have used.
    pub sending: usize,
    /// Messages being received.
    pub receiving: usize,
    /// Messages that wait to be sent again; they count as being sent, too.
    pub resending: usize,
    /// The core's own small buffers.
    pub buffers: usize,
}

impl Core {
    /// Counts what is alive.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            descriptors: self.mds.len() - self.push_target.posted(),
            sending: self.tx.len(),
            receiving: self.rx.len(),
            resending: self.resends.len(),
            buffers: self.buffers.len() - self.push_target.posted(),
        }
    }
}
