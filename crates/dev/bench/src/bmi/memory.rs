//! Reused buffers, so that no measurement includes the cost of fresh pages, and their content when bytes are
//! verified.

use std::collections::BTreeMap;

use anyhow::Context;
use bmi::{Address, Bmi, Buffer, Memory};

use super::task::Origin;

/// Free buffers, by origin and size.
#[derive(Default)]
pub(super) struct Stock {
    free: BTreeMap<(bool, usize), Vec<Buffer>>,
}

impl Stock {
    /// Returns a buffer of exactly this size, with any content.
    pub(super) fn take(
        &mut self,
        bmi: &Bmi,
        peer: Address,
        origin: Origin,
        bytes: usize,
    ) -> anyhow::Result<Buffer> {
        let key = (origin == Origin::Pre, bytes);
        if let Some(buffer) = self.free.get_mut(&key).and_then(Vec::pop) {
            return Ok(buffer);
        }
        let fresh = || match origin {
            Origin::Pre => bmi.allocate(peer, bytes),
            Origin::Ext => Buffer::zeroed(bytes),
        };
        let buffer = fresh().or_else(|_| {
            // Buffers of other sizes may occupy the memory.
            self.free.clear();
            fresh()
        });
        let mut buffer = buffer.with_context(|| format!("no memory for {bytes} bytes"))?;
        // The first write to a page is expensive, so it is done here.
        buffer.fill(FILLER);
        Ok(buffer)
    }

    /// Returns a buffer to the stock.
    pub(super) fn put(&mut self, buffer: Buffer) {
        let key = (buffer.memory() == Memory::PreAllocated, buffer.len());
        self.free.entry(key).or_default().push(buffer);
    }
}

/// The byte that fills new buffers.
const FILLER: u8 = 0x5A;

/// Returns the length of message `index` of a client, at most `most` bytes. Each power of two is equally likely: a
/// length between 1 and 2 is as frequent as one between half of `most` and `most`.
pub(super) fn length_of(client: u64, index: u64, most: usize) -> usize {
    let draw = mix(client ^ mix(index));
    let doublings = u64::from(usize::BITS - most.leading_zeros()).max(1);
    // The value is below the number of bits of a size.
    let bits = (draw % doublings) as u32;
    let low = 1_usize << bits;
    let spread = mix(draw) as usize % low;
    (low + spread).min(most)
}

/// Fills the bytes of message `index` of a client.
pub(super) fn fill(client: u64, index: u64, bytes: &mut [u8]) {
    let mut word = mix(client.rotate_left(32) ^ index);
    for chunk in bytes.chunks_mut(8) {
        word = next(word);
        let content = word.to_le_bytes();
        chunk.copy_from_slice(&content[..chunk.len()]);
    }
}

/// Returns true if the bytes are those of message `index` of a client.
pub(super) fn is_filled(client: u64, index: u64, bytes: &[u8]) -> bool {
    let mut word = mix(client.rotate_left(32) ^ index);
    bytes.chunks(8).all(|chunk| {
        word = next(word);
        *chunk == word.to_le_bytes()[..chunk.len()]
    })
}

const fn next(word: u64) -> u64 {
    word.wrapping_mul(0x5851_F42D_4C95_7F2D)
        .wrapping_add(0x1405_7B7E_F767_814F)
}

/// Mixes the bits of a number.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_is_noticed_wherever_it_is() {
        for length in [1, 7, 8, 9, 100] {
            let mut bytes = vec![0; length];
            fill(3, 5, &mut bytes);
            assert!(is_filled(3, 5, &bytes));
            for at in 0..length {
                bytes[at] ^= 0x10;
                assert!(!is_filled(3, 5, &bytes), "byte {at} of {length}");
                bytes[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn messages_of_other_clients_and_numbers_have_other_bytes() {
        let mut bytes = [0; 64];
        fill(3, 5, &mut bytes);
        for (client, index) in [(3, 6), (4, 5), (5, 3)] {
            assert!(!is_filled(client, index, &bytes), "{client} {index}");
        }
    }

    #[test]
    fn lengths_reach_from_one_byte_to_the_most() {
        let most = 4 << 20;
        let lengths: Vec<usize> = (0..2000).map(|index| length_of(1, index, most)).collect();
        assert!(lengths.iter().all(|length| (1..=most).contains(length)));
        assert!(lengths.contains(&1) && lengths.iter().any(|length| *length > most / 2));
        let small = lengths.iter().filter(|length| **length < 2048).count();
        assert!((800..1200).contains(&small), "{small}");
    }
}
