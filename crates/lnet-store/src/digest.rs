//! BLAKE3 of a file, chunk by chunk and in any order.
//!
//! BLAKE3 is a tree. A [`CHUNK`] of a file at a multiple of its length is a whole subtree, so its digest
//! can be computed without the rest, by whichever thread has the chunk, on either side; and the digests
//! of all chunks give the digest of the file.
//!
//! ```text
//!              root = digest of the file
//!             /    \
//!          node     chunk 2        4 MiB each, the last one may be shorter
//!         /    \
//!    chunk 0  chunk 1
//! ```

use std::fmt;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes of a chunk. A power of two, because a subtree is.
pub const CHUNK: u64 = 4 << 20;

/// The BLAKE3 digest of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    /// 64 hexadecimal digits, as `b3sum` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many chunks a file of this size has; one if it is empty.
#[must_use]
pub fn chunks(size: u64) -> u64 {
    size.div_ceil(CHUNK).max(1)
}

/// Length of the chunk at `index` of a file of this size; 0 behind its end.
#[must_use]
pub fn chunk_len(size: u64, index: u64) -> u32 {
    let left = size.saturating_sub(index.saturating_mul(CHUNK));
    // At most `CHUNK`, which fits.
    u32::try_from(left.min(CHUNK)).unwrap_or(u32::MAX)
}

/// Digests one chunk, piece after piece.
pub struct ChunkHasher {
    hasher: blake3::Hasher,
    is_whole_file: bool,
}

impl ChunkHasher {
    /// For the chunk at `index` of a file of `size` bytes.
    #[must_use]
    pub fn new(size: u64, index: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        let is_whole_file = chunks(size) == 1;
        if !is_whole_file {
            hasher.set_input_offset(index.saturating_mul(CHUNK));
        }
        Self {
            hasher,
            is_whole_file,
        }
    }

    /// Adds the next bytes of the chunk.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The chunk's part in the file's digest. The chunk must not be empty unless the file is.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        if self.is_whole_file {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

/// The digest of a file from the parts of all its chunks, in order. `None` when there are none.
#[must_use]
pub fn merge(parts: &[[u8; 32]]) -> Option<Digest> {
    match parts {
        [] => None,
        [only] => Some(Digest(*only)),
        _ => {
            let (left, right) = parts.split_at(left_len(parts.len()));
            let root = merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash);
            Some(Digest(*root.as_bytes()))
        }
    }
}

fn subtree(parts: &[[u8; 32]]) -> [u8; 32] {
    match parts {
        [] => [0; 32],
        [only] => *only,
        _ => {
            let (left, right) = parts.split_at(left_len(parts.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// The left subtree is the largest complete one that leaves something for the right.
fn left_len(parts: usize) -> usize {
    parts.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_chunks(bytes: &[u8]) -> Digest {
        let size = bytes.len() as u64;
        let parts: Vec<[u8; 32]> = (0..chunks(size))
            .map(|index| {
                let start = (index * CHUNK) as usize;
                let chunk = &bytes[start..start + chunk_len(size, index) as usize];
                let mut hasher = ChunkHasher::new(size, index);
                chunk.chunks(1 << 20).for_each(|piece| hasher.update(piece));
                hasher.finish()
            })
            .collect();
        merge(&parts).unwrap()
    }

    #[test]
    fn chunk_by_chunk_is_the_plain_digest() {
        let chunk = CHUNK as usize;
        let bytes: Vec<u8> = (0..5 * chunk + 3)
            .map(|index| (index % 251) as u8)
            .collect();
        for length in [
            0,
            1,
            chunk - 1,
            chunk,
            chunk + 1,
            2 * chunk,
            3 * chunk,
            5 * chunk + 3,
        ] {
            assert_eq!(
                in_chunks(&bytes[..length]),
                Digest::of(&bytes[..length]),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_chunk_in_the_wrong_place_changes_the_digest() {
        let parts = [[1; 32], [2; 32], [3; 32]];
        assert_ne!(merge(&parts), merge(&[parts[1], parts[0], parts[2]]));
    }
}
