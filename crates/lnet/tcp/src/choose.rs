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

use std::cmp::Ordering;

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
}

/// How much a connection was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Bytes queued here for the connection. Bytes in its socket are not included: to ask for them
    /// would cost a system call per message.
    pub(crate) queued: u64,
    /// A number that grows with each use.
    pub(crate) last_use: u64,
}

/// Returns the slot of the best candidate; `None` if none suits. Mostly one connection suits best, and `load_of` is
/// not called.
// [FRAME-15]
pub(crate) fn choose(
    candidates: impl Iterator<Item = Candidate>,
    load_of: impl Fn(usize) -> Option<Load>,
) -> Option<usize> {
    let suiting = candidates.filter(|candidate| candidate.suits != Suits::No);
    let best = suiting.reduce(|best, next| {
        let fit = |candidate: &Candidate| (candidate.version, candidate.suits);
        match fit(&next).cmp(&fit(&best)) {
            Ordering::Greater => next,
            Ordering::Equal if load_of(next.slot) < load_of(best.slot) => next,
            _ => best,
        }
    });
    best.map(|candidate| candidate.slot)
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

    fn candidate(slot: usize, suits: Suits) -> Candidate {
        Candidate {
            slot,
            version: V3,
            suits,
        }
    }

    /// Chooses between the candidates 1 and 2, with these queued bytes and last uses.
    fn choose_of(candidates: [Candidate; 2], loads: [(u64, u64); 2]) -> Option<usize> {
        choose(candidates.into_iter(), |slot| {
            let (queued, last_use) = loads[slot - 1];
            Some(Load { queued, last_use })
        })
    }

    #[test]
    fn a_yes_beats_a_maybe_whatever_is_queued() {
        let two = [candidate(1, Suits::Maybe), candidate(2, Suits::Yes)];
        assert_eq!(choose_of(two, [(0, 0), (9000, 9)]), Some(2));
    }

    #[test]
    fn a_newer_version_beats_everything() {
        let newer = Candidate {
            version: HelloVersion::V4,
            ..candidate(2, Suits::Maybe)
        };
        let loads = [(0, 0), (9000, 9)];
        assert_eq!(choose_of([candidate(1, Suits::Yes), newer], loads), Some(2));
        let useless = Candidate {
            suits: Suits::No,
            ..newer
        };
        assert_eq!(
            choose_of([candidate(1, Suits::Yes), useless], loads),
            Some(1)
        );
    }

    // [FRAME-15]
    #[test]
    fn the_fewest_bytes_queued_win() {
        let two = [candidate(1, Suits::Yes), candidate(2, Suits::Yes)];
        assert_eq!(choose_of(two, [(10, 0), (9, 9)]), Some(2));
        assert_eq!(choose_of(two, [(9, 9), (10, 0)]), Some(1));
    }

    #[test]
    fn a_tie_goes_to_the_least_recently_used() {
        let two = [candidate(1, Suits::Yes), candidate(2, Suits::Yes)];
        assert_eq!(choose_of(two, [(0, 8), (0, 7)]), Some(2));
        assert_eq!(choose_of(two, [(0, 7), (0, 8)]), Some(1));
    }

    #[test]
    fn nothing_suitable_is_nothing() {
        assert_eq!(
            choose([candidate(1, Suits::No)].into_iter(), |_| None),
            None
        );
    }
}
