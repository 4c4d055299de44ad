//! The small buffers that the core owns, for ping information that is sent or received.
//!
//! The users of a buffer are the messages and descriptors that name it. The buffer is freed when its last user
//! releases it. So the node can rebuild its ping information while older information is being sent.

use slab::Slab;

use crate::ground::io::CoreBuffer;
use crate::traffic::Traffic;

/// The buffers of the core.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    slots: Slab<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    data: Vec<u8>,
    users: u32,
}

impl Buffers {
    /// Inserts a buffer with one user.
    pub(crate) fn insert(&mut self, data: Vec<u8>) -> CoreBuffer {
        let slot = self.slots.insert(Buffer { data, users: 1 });
        CoreBuffer(slot as u32)
    }

    /// Returns the bytes; empty if there is no such buffer.
    pub(crate) fn data(&self, buffer: CoreBuffer) -> &[u8] {
        self.slots
            .get(buffer.0 as usize)
            .map_or(&[], |slot| &slot.data)
    }

    /// Returns the bytes to write to; empty if there is no such buffer.
    pub(crate) fn data_mut(&mut self, buffer: CoreBuffer) -> &mut [u8] {
        self.slots
            .get_mut(buffer.0 as usize)
            .map_or(&mut [], |slot| &mut slot.data)
    }

    pub(in crate::traffic) fn retain(&mut self, buffer: CoreBuffer) {
        if let Some(slot) = self.slots.get_mut(buffer.0 as usize) {
            slot.users += 1;
        }
    }

    /// Removes one user, and frees the buffer after the last one. Returns false if there is no such buffer.
    pub(in crate::traffic) fn release(&mut self, buffer: CoreBuffer) -> bool {
        let index = buffer.0 as usize;
        let Some(slot) = self.slots.get_mut(index) else {
            return false;
        };
        slot.users -= 1;
        if slot.users == 0 {
            self.slots.remove(index);
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

impl Traffic {
    /// Removes one user of a buffer.
    pub(crate) fn release_buffer(&mut self, buffer: CoreBuffer) {
        if !self.buffers.release(buffer) {
            self.broken("a buffer of the core that is released");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_ceases_with_its_last_user() {
        let mut buffers = Buffers::default();
        let buffer = buffers.insert(vec![1, 2]);
        buffers.retain(buffer);
        assert!(buffers.release(buffer));
        assert_eq!(buffers.data(buffer), [1, 2]);
        assert!(buffers.release(buffer));
        assert!(!buffers.release(buffer));
        assert!(buffers.data(buffer).is_empty());
        assert_eq!(buffers.len(), 0);
    }
}
