//! The secrets of a core.

use std::fmt;

use lnet_types::SplitMix64;

/// The source of a core's secrets: 32 bytes that no other node can guess.
///
/// Two cores with the same entropy have the same handles, so a node takes fresh bytes from the operating system at
/// each start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entropy([u64; 4]);

impl Entropy {
    /// Creates entropy from these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }

    /// Creates reproducible entropy, for a simulation or a test. Anybody who knows the seed can forge responses.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        Self(std::array::from_fn(|_| random.number()))
    }

    /// Returns a substitute for the entropy of a core whose state is copied. A copy selects the same paths, and its
    /// readers learn nothing about the core's handles.
    #[must_use]
    pub const fn withheld() -> Self {
        Self([0; 4])
    }

    /// Returns the bytes that the entropy was made from, for a record from which the same core can be made. Anybody
    /// who has the bytes can forge responses.
    #[must_use]
    pub fn reveal(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Returns the words from which the handles on the wire are made.
    pub(crate) fn handle_words(&self) -> [u64; 3] {
        let [cookie, low, high, _] = self.0;
        [cookie, low, high]
    }

    /// Returns the key of the peer table's hash.
    pub(crate) fn hash_key(&self) -> u64 {
        self.0[3]
    }
}

/// Entropy is a secret, so it appears in no log.
impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}
