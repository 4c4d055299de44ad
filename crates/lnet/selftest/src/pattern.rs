//! The data of bulk: how it is made, and how it is checked.
//!
//! The data repeats the magic word, in the byte order of the node that sent the request. This data passes both
//! kinds of check, wherever the pages of the peer begin.

use crate::wire::Order;

/// The word that good data repeats.
const MAGIC: u64 = 0xEEB0_EEB1_EEB2_EEB3;
/// The word that fills the memory before a transfer, so that data that did not arrive is noticed.
const POISON: u64 = 0xBEEF_BEEF_BEEF_BEEF;

/// How the receiver checks data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// No check.
    None,
    /// Checks the first and the last eight bytes.
    Simple,
    /// Checks every byte.
    Full,
    /// No check, and the receiver need not keep the data. Nodes of releases that do not know this check answer
    /// EINVAL.
    Discard,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 4] = [Self::None, Self::Simple, Self::Full, Self::Discard];

    /// Returns the check with this flag in a request; `None` for a flag that does not exist.
    #[must_use]
    pub const fn of_flags(flags: u32) -> Option<Self> {
        Some(match flags {
            1 => Self::None,
            2 => Self::Simple,
            3 => Self::Full,
            4 => Self::Discard,
            _ => return None,
        })
    }

    /// Returns the flag of the check in requests.
    #[must_use]
    pub const fn flags(self) -> u16 {
        match self {
            Self::None => 1,
            Self::Simple => 2,
            Self::Full => 3,
            Self::Discard => 4,
        }
    }

    /// Returns the name of the check in commands and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Simple => "simple",
            Self::Full => "full",
            Self::Discard => "discard",
        }
    }

    /// Returns the check with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// Makes good data of this length.
// [LST-21]
#[must_use]
pub fn data(len: usize, order: Order) -> Vec<u8> {
    repeated(order.bytes(MAGIC), len)
}

/// Overwrites the bytes that an earlier transfer left in the memory, as far as the check will look at them.
pub fn poison(room: &mut [u8], check: Check) {
    match check {
        Check::None | Check::Discard => {}
        Check::Simple => {
            let (head, tail) = ends(room.len());
            room[head].fill(0xEF);
            room[tail].fill(0xEF);
        }
        Check::Full => {
            let mut words = room.chunks_exact_mut(8);
            for word in &mut words {
                word.copy_from_slice(&POISON.to_le_bytes());
            }
            words.into_remainder().fill(0xEF);
        }
    }
}

/// Reports whether data is good, as far as this check looks.
#[must_use]
pub fn is_good(data: &[u8], check: Check, order: Order) -> bool {
    let magic = order.bytes(MAGIC);
    match check {
        Check::None | Check::Discard => true,
        // If the length is not a multiple of eight, the last eight bytes do not begin at a word. Accept them
        // cut from the repeated word, or as a whole word that a sender put at the end.
        Check::Simple => {
            let (head, tail) = ends(data.len());
            let cut = tail.start % 8;
            let mut rotated = magic;
            rotated.rotate_left(cut);
            let tail = &data[tail];
            data[head.clone()] == magic[..head.len()]
                && (*tail == rotated[..tail.len()] || *tail == magic[..tail.len()])
        }
        Check::Full => {
            let words = data.chunks_exact(8);
            let rest = words.remainder();
            let is_rest_good = *rest == magic[..rest.len()];
            is_rest_good && words.into_iter().all(|word| word == magic)
        }
    }
}

/// Returns the ranges of the first and the last eight bytes, or of all bytes if there are fewer.
fn ends(len: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    (0..len.min(8), len.saturating_sub(8)..len)
}

fn repeated(word: [u8; 8], len: usize) -> Vec<u8> {
    let mut bytes = word.repeat(len.div_ceil(8));
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    // [LST-21]
    #[test]
    fn good_data_passes_every_check_in_its_byte_order_only() {
        for len in [1, 7, 8, 9, 4096, 4097, 1 << 20] {
            let good = data(len, Order::Little);
            for check in Check::ALL {
                assert!(is_good(&good, check, Order::Little), "{len} {check:?}");
            }
            assert!(!is_good(&good, Check::Full, Order::Big));
            assert!(!is_good(&good, Check::Simple, Order::Big));
        }
    }

    #[test]
    fn the_captured_data_of_a_kernel_is_ours() {
        assert_eq!(
            data(8, Order::Little),
            [0xB3, 0xEE, 0xB2, 0xEE, 0xB1, 0xEE, 0xB0, 0xEE]
        );
    }

    #[test]
    fn simple_looks_at_the_ends_and_full_at_everything() {
        for (at, simple, full) in [(0, false, false), (4095, false, false), (2000, true, false)] {
            let mut bad = data(4096, Order::Little);
            bad[at] ^= 1;
            assert_eq!(is_good(&bad, Check::Simple, Order::Little), simple);
            assert_eq!(is_good(&bad, Check::Full, Order::Little), full);
            assert!(is_good(&bad, Check::Discard, Order::Little));
        }
    }

    #[test]
    fn a_whole_word_at_an_end_that_is_not_aligned_is_good_for_simple() {
        let mut ended = data(4099, Order::Little);
        ended[4091..].copy_from_slice(&data(8, Order::Little));
        assert!(is_good(&ended, Check::Simple, Order::Little));
    }

    #[test]
    fn poisoned_room_is_not_good() {
        for check in [Check::Simple, Check::Full] {
            for len in [3, 8, 21, 4096] {
                let mut room = data(len, Order::Little);
                poison(&mut room, check);
                assert!(!is_good(&room, check, Order::Little), "{len} {check:?}");
            }
        }
    }
}
