//! Random bytes from the operating system, and the numbers derived from them.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// 32 random bytes, a secret that no other node can guess. The caller that makes a client or a server provides
/// them, so that a test can provide known bytes.
#[derive(Clone)]
pub struct Entropy([u8; 32]);

impl Entropy {
    /// Uses these bytes. Two clients must not have the same bytes, because a server would take them for one
    /// client.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the bytes from the operating system.
    ///
    /// # Errors
    ///
    /// `/dev/urandom` cannot be read.
    pub fn from_system() -> io::Result<Self> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns sixteen bytes for one purpose; different purposes have independent bytes.
    #[must_use]
    pub fn bytes(&self, purpose: &str) -> [u8; 16] {
        let mut bytes = [0; 16];
        let hash = blake3::keyed_hash(&self.0, purpose.as_bytes());
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        bytes
    }

    /// Returns a number for one purpose, never 0.
    #[must_use]
    pub fn number(&self, purpose: &str) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.bytes(purpose);
        u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
    }
}

/// A source of match bits that no other node can guess, so that no other node can write into memory that waits
/// for a peer's data.
pub(crate) struct MatchBits {
    entropy: Entropy,
    drawn: AtomicU64,
}

impl MatchBits {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self {
            entropy,
            drawn: AtomicU64::new(0),
        }
    }

    /// Returns bits that were not drawn before.
    pub(crate) fn draw(&self) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        let hash = blake3::keyed_hash(&self.entropy.0, &count.to_le_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_draws_differ() {
        let entropy = Entropy::new([1; 32]);
        assert_ne!(entropy.bytes("a"), entropy.bytes("b"));
        let bits = MatchBits::new(entropy);
        assert_ne!(bits.draw(), bits.draw());
    }
}
