//! The bulk memory of a call, which goes from one attempt to the next.
//!
//! ```text
//!            lend                     the descriptor's last event
//!   Here ───────────▶ Lent ──────────────────────────────────────▶ Here
//!     │ received
//!     ▼
//!   the program
//! ```
//!
//! Memory that receives is one vector for the whole call, and one attempt at a time has it. While the memory is
//! lent, only the node can reach it. After the node gives the memory back, the node does not write to it any
//! more. Memory that is sent does not change, so all attempts share it.
//!
//! This module does no I/O: the driver of the call attaches the descriptors, and cancels them when the call
//! asks for the memory.

use bytes::Bytes;
use lnet_node::Memory;

use crate::buffers::Buffers;
use crate::client::Bulk;

/// The bulk memory of a call, and whether the call or an attempt has it.
#[derive(Debug)]
pub(crate) enum CallMemory {
    /// The call has no bulk.
    None,
    /// Data for the server, shared by all attempts.
    Send(Bytes),
    /// Memory for the server's data; the call has it.
    Here(Vec<u8>),
    /// Memory for the server's data; the last attempt has it.
    Lent,
}

impl CallMemory {
    pub(crate) fn new(bulk: &Bulk, spare: &Buffers) -> Self {
        match bulk {
            Bulk::None => Self::None,
            Bulk::Send(data) => Self::Send(data.clone()),
            Bulk::Receive(length) => Self::Here(spare.take(*length)),
        }
    }

    /// Reports whether the next attempt can have the memory.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self, Self::Lent)
    }

    /// Returns the memory for the descriptor of an attempt; `None` for a call without bulk.
    pub(crate) fn lend(&mut self) -> Option<Memory> {
        match self {
            Self::None => None,
            Self::Send(data) => Some(Memory::Source(data.clone())),
            Self::Here(room) => {
                let room = std::mem::take(room);
                *self = Self::Lent;
                Some(Memory::Sink(room))
            }
            Self::Lent => {
                // `CallState` begins no attempt before the memory is back.
                debug_assert!(false, "memory is lent twice");
                None
            }
        }
    }

    /// Takes the memory that the node gives back with the last event of a bulk descriptor.
    pub(crate) fn came_back(&mut self, memory: Memory) {
        if let (Self::Lent, Memory::Sink(room)) = (&*self, memory) {
            *self = Self::Here(room);
        }
    }

    /// Returns the first `length` bytes that the server wrote. Returns no bytes for a call that receives no
    /// bulk, and `None` if the memory is shorter than `length`, or lent.
    pub(crate) fn received(&mut self, length: usize) -> Option<Vec<u8>> {
        match self {
            Self::None | Self::Send(_) => Some(Vec::new()),
            Self::Here(room) if length <= room.len() => {
                let mut room = std::mem::take(room);
                room.truncate(length);
                Some(room)
            }
            Self::Here(_) | Self::Lent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_with_the_call_or_with_one_attempt() {
        let mut memory = CallMemory::new(&Bulk::Receive(4), &Buffers::new(0));
        assert!(memory.is_here());
        let lent = memory.lend().unwrap();
        assert!(!memory.is_here());
        assert_eq!(memory.received(4), None);
        memory.came_back(lent);
        assert!(memory.is_here());
        assert_eq!(memory.received(5), None);
        assert_eq!(memory.received(3), Some(vec![0; 3]));
    }

    #[test]
    fn data_to_send_goes_with_every_attempt_and_is_never_asked_back() {
        let data = Bytes::from_static(b"data");
        let mut memory = CallMemory::new(&Bulk::Send(data.clone()), &Buffers::new(0));
        for _ in 0..2 {
            let Some(Memory::Source(lent)) = memory.lend() else {
                panic!("data is a source")
            };
            assert_eq!(lent, data);
            assert!(memory.is_here());
        }
        memory.came_back(Memory::Source(data));
        assert_eq!(memory.received(4), Some(Vec::new()));
    }
}
