//! The server's operations that have not completed.
//!
//! ```text
//!            no memory                 memory, POST              reply
//!  (post) ─────────────▶ WAITING ────────────────▶ POSTING ────────────▶ REGISTERED
//!     └──────────────────────────────────────────────┘                     │
//!                                 the plugin may report it done meanwhile  ▼
//!                                                                     TEST reply: gone
//! ```

use std::collections::HashMap;

use bmi::{OpId, Peer, Segments};

use super::pool::Piece;
use super::waiting::Key;
use crate::counters::Counters;
use crate::spans;

/// An operation.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) peer: Peer,
    pub(super) tag: i32,
    pub(super) receives: bool,
    /// The program's memory.
    pub(super) segments: Segments,
    pub(super) total: usize,
    /// The program's memory is outside the segment.
    pub(super) external: bool,
    /// The memory in the segment that stands for the program's, once there is one.
    pub(super) temporary: Option<Piece>,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// For a temporary buffer.
    Waiting,
    /// The plugin's reply is awaited; somebody may have cancelled it meanwhile.
    Posting { cancelled: bool },
    /// Under the plugin's id.
    Registered(u64),
}

impl Op {
    pub(super) fn key(&self) -> Key {
        (self.peer.0, self.tag, self.receives)
    }

    pub(super) fn plugin_id(&self) -> Option<u64> {
        match self.state {
            State::Registered(id) => Some(id),
            State::Waiting | State::Posting { .. } => None,
        }
    }

    /// Copies what is sent into the temporary buffer.
    pub(super) fn copy_in(&self, counters: &Counters) {
        if let Some(span) = self.temporary.as_ref().and_then(Piece::span)
            && !self.receives
        {
            spans::copy(&self.segments, &[span]);
            counters.copies().up();
        }
    }

    /// Copies the `len` bytes that were received out of the temporary buffer.
    pub(super) fn copy_back(&self, len: usize, counters: &Counters) {
        if let Some(span) = self.temporary.as_ref().and_then(Piece::span)
            && self.receives
        {
            let received = spans::part(&[span], 0, len);
            spans::copy(&received, &self.segments);
            counters.copies().up();
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ops(HashMap<OpId, Op>);

impl Ops {
    pub(super) fn insert(&mut self, id: OpId, op: Op) {
        self.0.insert(id, op);
    }

    pub(super) fn get(&self, id: OpId) -> Option<&Op> {
        self.0.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> Option<&mut Op> {
        self.0.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: OpId) -> Option<Op> {
        self.0.remove(&id)
    }

    pub(super) fn take_all(&mut self) -> Vec<(OpId, Op)> {
        let mut all: Vec<(OpId, Op)> = self.0.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// The operations with one client.
    pub(super) fn take_of(&mut self, peer: Peer) -> Vec<(OpId, Op)> {
        let mut taken: Vec<(OpId, Op)> = self.0.extract_if(|_, op| op.peer == peer).collect();
        taken.sort_unstable_by_key(|(id, _)| *id);
        taken
    }
}
