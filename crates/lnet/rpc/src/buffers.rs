//! Buffers for bulk pieces, kept for reuse so that their pages are faulted in once and not with every piece.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// A limited store of buffers.
pub(crate) struct Buffers {
    kept: Mutex<Vec<Vec<u8>>>,
    kept_max: usize,
}

impl Buffers {
    pub(crate) fn new(kept_max: usize) -> Self {
        Self {
            kept: Mutex::new(Vec::new()),
            kept_max,
        }
    }

    /// Returns a buffer of any length, which may hold old bytes; an empty one if none is kept.
    pub(crate) fn any(&self) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop().unwrap_or_default()
    }

    /// Returns a buffer of `len` bytes; it may hold old bytes.
    pub(crate) fn take(&self, len: u32) -> Vec<u8> {
        let mut buffer = self.any();
        buffer.resize(len as usize, 0);
        buffer
    }

    /// Keeps a buffer for later, if fewer than `kept_max` are kept.
    pub(crate) fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.kept_max {
            kept.push(buffer);
        }
    }

    /// Keeps the buffer of `data` for later, unless there is another reference to its bytes.
    pub(crate) fn keep_shared(&self, data: Bytes) {
        if let Ok(buffer) = data
            .try_into_mut()
            .map(|buffer: BytesMut| Vec::from(buffer))
        {
            self.keep(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_comes_back_is_used_again() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.take(4);
        buffer.fill(7);
        buffers.keep_shared(Bytes::from(buffer));
        assert_eq!(buffers.take(6), [7, 7, 7, 7, 0, 0]);
    }

    #[test]
    fn bytes_that_are_held_elsewhere_do_not_come_back() {
        let buffers = Buffers::new(1);
        let data = Bytes::from(vec![7; 4]);
        let held = data.clone();
        buffers.keep_shared(data);
        assert_eq!(buffers.take(4), [0; 4]);
        drop(held);
    }
}
