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

use bmi::{ContextId, OpId, Peer, Segments};
use zoid_proto::ctl::Request as Command;

use super::pool::Piece;
use super::waiting::Key;
use crate::counters::Counters;
use crate::spans;

/// An operation.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) context: ContextId,
    pub(super) peer: Peer,
    pub(super) tag: i32,
    pub(super) receives: bool,
    /// The program's memory.
    pub(super) segments: Segments,
    pub(super) total: usize,
    pub(super) need: Need,
    /// The memory of the pool that it needs, once allocated.
    pub(super) piece: Option<Piece>,
    pub(super) state: State,
    /// The program no longer has an address for the client: a cancel of this operation counts as the loss of
    /// the client.
    pub(super) forgotten: bool,
}

/// The memory of the pool that an operation needs besides the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// None: its memory is in the segment, and its list of segments fits in a command.
    Nothing,
    /// As many bytes as the message, to stand for memory outside the segment.
    Copy(usize),
    /// Space for a list of segments that does not fit in a command, until the command is answered.
    List(usize),
}

impl Need {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Copy(bytes) | Self::List(bytes) => bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Waits for memory of the pool.
    Waiting,
    /// The plugin's reply has not arrived; the operation may have been cancelled meanwhile.
    Posting { cancelled: bool },
    /// Registered with this id of the plugin.
    Registered(u64),
    /// Posted without an answer; the plugin uses the server's id.
    Announced,
}

impl Op {
    pub(super) fn key(&self) -> Key {
        (self.peer.0, self.tag, self.receives)
    }

    pub(super) fn plugin_id(&self) -> Option<u64> {
        match self.state {
            State::Registered(id) => Some(id),
            State::Waiting | State::Posting { .. } | State::Announced => None,
        }
    }

    /// Cancels an operation that does not wait for memory, or is just leaving that queue. Returns the command
    /// to send now, if any; otherwise the code that registers the operation sends it.
    pub(super) fn cancel_posted(&mut self, id: OpId) -> Option<Command<'static>> {
        match self.state {
            State::Waiting | State::Posting { .. } => {
                self.state = State::Posting { cancelled: true };
                None
            }
            State::Registered(plugin_id) => Some(Command::Cancel { plugin_id }),
            State::Announced => Some(Command::Recall {
                bmi_id: id.number().unsigned_abs(),
            }),
        }
    }

    /// Returns the temporary buffer, if there is one.
    pub(super) fn temporary(&self) -> Option<&Piece> {
        let piece = self.piece.as_ref();
        piece.filter(|_| matches!(self.need, Need::Copy(_)))
    }

    /// Removes the memory of the list of segments, if there is one.
    pub(super) fn take_list(&mut self) -> Option<Piece> {
        let piece = &mut self.piece;
        piece.take_if(|_| matches!(self.need, Need::List(_)))
    }

    /// Copies a message to be sent into the temporary buffer.
    pub(super) fn copy_in(&self, counters: &Counters) {
        if let Some(span) = self.temporary().and_then(Piece::span)
            && !self.receives
        {
            spans::copy(&self.segments, &[span]);
            counters.copies().up();
        }
    }

    /// Copies the `len` received bytes out of the temporary buffer.
    // [MEM-5]
    pub(super) fn copy_back(&self, len: usize, counters: &Counters) {
        if let Some(span) = self.temporary().and_then(Piece::span)
            && self.receives
        {
            let received = spans::part(&[span], 0, len);
            spans::copy(&received, &self.segments);
            counters.copies().up();
        }
    }
}

/// All operations.
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

    /// Marks the operations with one client as forgotten and returns them in order.
    pub(super) fn forget(&mut self, peer: Peer) -> Vec<OpId> {
        let mut forgotten = Vec::new();
        for (id, op) in self.0.iter_mut().filter(|(_, op)| op.peer == peer) {
            op.forgotten = true;
            forgotten.push(*id);
        }
        forgotten.sort_unstable();
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(state: State) -> Op {
        Op {
            context: ContextId::from_number(1).unwrap(),
            peer: Peer(1),
            tag: 0,
            receives: true,
            segments: Segments::new(),
            total: 0,
            need: Need::Nothing,
            piece: None,
            state,
            forgotten: false,
        }
    }

    #[test]
    fn r61_a_cancel_that_saw_an_operation_wait_does_not_lose_the_id_of_its_registration() {
        let mut registered = op(State::Registered(7));
        let cancel = registered.cancel_posted(OpId::from_number(3).unwrap());
        assert_eq!(cancel, Some(Command::Cancel { plugin_id: 7 }));
        assert_eq!(registered.plugin_id(), Some(7));
    }

    #[test]
    fn r61_a_cancel_before_the_registration_is_left_to_who_registers() {
        for state in [State::Waiting, State::Posting { cancelled: false }] {
            let mut early = op(state);
            assert_eq!(early.cancel_posted(OpId::from_number(3).unwrap()), None);
            assert_eq!(early.state, State::Posting { cancelled: true });
        }
    }
}
