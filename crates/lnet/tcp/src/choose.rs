//! Chooses the connection that carries a message: [FRAME-13], [FRAME-14], [FRAME-15].
//!
//! | Type | HELLO version 2 | version 3, 4 |
//! |---|---|---|
//! | `ANY` | yes | no |
//! | `CONTROL` | small: yes, else maybe | small: yes, else maybe |
//! | `BULK_OUT` | large: yes, else maybe | large: yes, else maybe |
//! | `BULK_IN` | maybe | no |
//!
//! The best "yes" wins, else the best "maybe". The best is the connection with the fewest bytes
//! queued; among equals, the one used longest ago. If a peer has connections of two HELLO versions,
//! the newer version carries everything: a peer with a 4-byte address has both while it is dialled
//! again for 16-byte NIDs.

use std::cmp::Reverse;

use lnet_wire::{Ctype, HelloVersion};

/// How well a connection suits a message; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suits {
    No,
    Maybe,
    Yes,
}

/// Returns how well a connection of type `ctype`, in our naming, suits an LNET frame of `bytes`
/// bytes.
// [FRAME-13] [FRAME-14] [SET-4]
pub(crate) fn suits(version: HelloVersion, ctype: Ctype, bytes: u64, min_bulk: u32) -> Suits {
    let is_small = bytes < u64::from(min_bulk);
    let typed_frames = matches!(version, HelloVersion::V3 | HelloVersion::V4);
    match ctype {
        Ctype::ANY if !typed_frames => Suits::Yes,
        Ctype::CONTROL if is_small => Suits::Yes,
        Ctype::BULK_OUT if !is_small => Suits::Yes,
        Ctype::CONTROL | Ctype::BULK_OUT => Suits::Maybe,
        Ctype::BULK_IN if !typed_frames => Suits::Maybe,
        _ => Suits::No,
    }
}

/// A connection that could carry a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) slot: usize,
    pub(crate) version: HelloVersion,
    pub(crate) suits: Suits,
    /// Bytes queued here for the connection. Bytes in its socket are not included: to ask for them
    /// would cost a system call per message.
    pub(crate) queued: u64,
    /// A number that grows with each use.
    pub(crate) last_use: u64,
}

/// Returns the slot of the best candidate; `None` if none suits.
// [FRAME-15]
pub(crate) fn choose(candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
    candidates
        .filter(|candidate| candidate.suits != Suits::No)
        .min_by_key(|candidate| {
            (
                Reverse(candidate.version),
                Reverse(candidate.suits),
                candidate.queued,
                candidate.last_use,
            )
        })
        .map(|candidate| candidate.slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: HelloVersion = HelloVersion::V2;
    const V3: HelloVersion = HelloVersion::V3;

    // [FRAME-13] [FRAME-14]
    #[test]
    fn messages_go_where_the_table_says() {
        let table = [
            (Ctype::ANY, V2, Suits::Yes, Suits::Yes),
            (Ctype::CONTROL, V2, Suits::Yes, Suits::Maybe),
            (Ctype::BULK_OUT, V2, Suits::Maybe, Suits::Yes),
            (Ctype::BULK_IN, V2, Suits::Maybe, Suits::Maybe),
            (Ctype::ANY, V3, Suits::No, Suits::No),
            (Ctype::CONTROL, V3, Suits::Yes, Suits::Maybe),
            (Ctype::BULK_OUT, V3, Suits::Maybe, Suits::Yes),
            (Ctype::BULK_IN, V3, Suits::No, Suits::No),
        ];
        for (ctype, version, small, large) in table {
            assert_eq!(
                suits(version, ctype, 1023, 1024),
                small,
                "{ctype} {version:?} small"
            );
            assert_eq!(
                suits(version, ctype, 1024, 1024),
                large,
                "{ctype} {version:?} large"
            );
        }
    }

    fn candidate(slot: usize, suits: Suits, queued: u64, last_use: u64) -> Candidate {
        Candidate {
            slot,
            version: V3,
            suits,
            queued,
            last_use,
        }
    }

    #[test]
    fn a_yes_beats_a_maybe_whatever_is_queued() {
        let two = [
            candidate(1, Suits::Maybe, 0, 0),
            candidate(2, Suits::Yes, 9000, 9),
        ];
        assert_eq!(choose(two.into_iter()), Some(2));
    }

    #[test]
    fn a_newer_version_beats_everything() {
        let newer = Candidate {
            version: HelloVersion::V4,
            ..candidate(2, Suits::Maybe, 9000, 9)
        };
        let two = [candidate(1, Suits::Yes, 0, 0), newer];
        assert_eq!(choose(two.into_iter()), Some(2));
        let useless = Candidate {
            suits: Suits::No,
            ..newer
        };
        let two = [candidate(1, Suits::Yes, 0, 0), useless];
        assert_eq!(choose(two.into_iter()), Some(1));
    }

    // [FRAME-15]
    #[test]
    fn the_fewest_bytes_queued_win() {
        let two = [
            candidate(1, Suits::Yes, 10, 0),
            candidate(2, Suits::Yes, 9, 9),
        ];
        assert_eq!(choose(two.into_iter()), Some(2));
    }

    #[test]
    fn a_tie_goes_to_the_least_recently_used() {
        let two = [
            candidate(1, Suits::Yes, 0, 8),
            candidate(2, Suits::Yes, 0, 7),
        ];
        assert_eq!(choose(two.into_iter()), Some(2));
    }

    #[test]
    fn nothing_suitable_is_nothing() {
        assert_eq!(choose([candidate(1, Suits::No, 0, 0)].into_iter()), None);
    }
}
