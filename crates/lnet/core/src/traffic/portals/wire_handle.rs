//! Handles in the form of the wire, which no other node can guess: [TYPE-8].
//!
//! ```text
//!  entropy ─┬─▶ interface cookie, the first half of every handle
//!           ├─▶ key of a permutation:  descriptor 1, 2, 3 … ◀──▶ object cookie, the second half
//!           └─▶ key of the peer table's hash
//! ```
//!
//! A node that can name a descriptor can complete its operation with bytes of its own choice. A peer learns the
//! handles of the requests that it received, and nothing about other handles: the object cookie is the descriptor's
//! number, encrypted with the block cipher Speck64/128 (Beaulieu and others, 2013). A permutation, unlike a hash, has
//! an inverse. So the descriptor of an answer is found without a table, and numbers that are never reused give cookies
//! that are never reused.

use std::fmt;

use lnet_wire::Handle;

use crate::ground::entropy::Entropy;
use crate::ground::md::MdHandle;

const ROUNDS: usize = 27;

/// The translation between descriptors and their handles on the wire.
pub(crate) struct WireHandles {
    interface: u64,
    round_keys: [u32; ROUNDS],
}

impl WireHandles {
    pub(crate) fn new(entropy: &Entropy) -> Self {
        let [cookie, low, high] = entropy.handle_words();
        Self {
            // A half with all bits set would be a half of the handle that names nothing.
            interface: if cookie == u64::MAX { 1 } else { cookie },
            round_keys: expand([
                low as u32,
                (low >> 32) as u32,
                high as u32,
                (high >> 32) as u32,
            ]),
        }
    }

    /// Returns the handle of a descriptor.
    // [TYPE-7] [TYPE-8]
    pub(crate) fn of(&self, md: MdHandle) -> Handle {
        Handle {
            interface: self.interface,
            object: encrypt(&self.round_keys, md.0),
        }
    }

    /// Returns the descriptor that a handle names; `None` if another instance made the handle.
    pub(crate) fn descriptor(&self, handle: Handle) -> Option<MdHandle> {
        let ours = handle.interface == self.interface;
        ours.then(|| MdHandle(decrypt(&self.round_keys, handle.object)))
    }
}

/// The keys are secrets, so they appear in no log.
impl fmt::Debug for WireHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WireHandles")
    }
}

/// Computes the key schedule of Speck64/128. The first word of the key is the lowest.
fn expand([first, mut l0, mut l1, mut l2]: [u32; 4]) -> [u32; ROUNDS] {
    let mut keys = [first; ROUNDS];
    for round in 1..ROUNDS {
        let before = keys[round - 1];
        let next = before.wrapping_add(l0.rotate_right(8)) ^ (round as u32 - 1);
        keys[round] = before.rotate_left(3) ^ next;
        (l0, l1, l2) = (l1, l2, next);
    }
    keys
}

fn encrypt(keys: &[u32; ROUNDS], block: u64) -> u64 {
    let (mut x, mut y) = ((block >> 32) as u32, block as u32);
    for key in keys {
        x = x.rotate_right(8).wrapping_add(y) ^ key;
        y = y.rotate_left(3) ^ x;
    }
    u64::from(x) << 32 | u64::from(y)
}

fn decrypt(keys: &[u32; ROUNDS], block: u64) -> u64 {
    let (mut x, mut y) = ((block >> 32) as u32, block as u32);
    for key in keys.iter().rev() {
        y = (y ^ x).rotate_right(3);
        x = (x ^ key).wrapping_sub(y).rotate_left(8);
    }
    u64::from(x) << 32 | u64::from(y)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_cipher_gives_the_published_vector() {
        let keys = expand([0x0302_0100, 0x0b0a_0908, 0x1312_1110, 0x1b1a_1918]);
        let (plain, secret) = (0x3b72_6574_7475_432d, 0x8c6f_a548_454e_028b);
        assert_eq!(encrypt(&keys, plain), secret);
        assert_eq!(decrypt(&keys, secret), plain);
    }

    // [TYPE-8]
    #[test]
    fn a_handle_tells_nothing_of_the_next_one() {
        let handles = WireHandles::new(&Entropy::from_seed(1));
        for number in 1..1000 {
            let [this, next] = [number, number + 1].map(|n| handles.of(MdHandle(n)).object);
            let differing = (this ^ next).count_ones();
            assert!((10..54).contains(&differing), "{this:x} {next:x}");
        }
    }

    #[test]
    fn the_same_descriptor_has_other_handles_with_other_entropy() {
        let of = |seed| WireHandles::new(&Entropy::from_seed(seed)).of(MdHandle(1));
        assert_ne!(of(1).interface, of(2).interface);
        assert_ne!(of(1).object, of(2).object);
    }

    proptest! {
        #[test]
        fn a_handle_finds_its_descriptor(seed in any::<u64>(), number in any::<u64>()) {
            let handles = WireHandles::new(&Entropy::from_seed(seed));
            let handle = handles.of(MdHandle(number));
            prop_assert_eq!(handles.descriptor(handle), Some(MdHandle(number)));
            let other = Handle { interface: !handle.interface, ..handle };
            prop_assert_eq!(handles.descriptor(other), None);
        }
    }
}
