//! The requests of a client whose answers are still expected, by tag.
//!
//! ```text
//!           asked                 lose                    asked again, rejected once
//!   (tag) ─────────▶ UNANSWERED ─────────▶ LOST ────────────────────────────────────▶ (tag)
//!                        └── answered ──▶ (tag)
//! ```
//!
//! A request is an unexpected message that was accepted; its answer is an expected message with the same tag.
//! If the daemon that accepted a request is gone, or the server that fetched it, nobody will answer the
//! request, and a receive of that tag that is posted later would wait forever.

use bmi::Tag;
use rustc_hash::FxHashSet;

/// The tags, as many as are remembered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    unanswered: Remembered,
    lost: Remembered,
    /// The unanswered requests that the next server will receive.
    kept: FxHashSet<Tag>,
}

impl Requests {
    /// Records a request that was accepted.
    pub(super) fn asked(&mut self, tag: Tag) {
        self.unanswered.add(tag);
    }

    /// Records a new request: operations of its tag now belong to it.
    pub(super) fn asked_again(&mut self, tag: Tag) {
        self.lost.remove(tag);
    }

    /// Records that a message with the tag was received.
    pub(super) fn answered(&mut self, tag: Tag) {
        self.unanswered.remove(tag);
    }

    /// Records that the server died before it fetched the request.
    pub(super) fn keep(&mut self, tag: Tag) {
        if self.unanswered.has(tag) {
            self.kept.insert(tag);
        }
    }

    /// Marks all unanswered requests as lost, because the daemon is gone.
    pub(super) fn lose_all(&mut self) {
        self.kept.clear();
        self.lose();
    }

    /// Marks all unanswered requests as lost, except the kept ones, because the server is gone.
    pub(super) fn lose(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        for tag in self.unanswered.take() {
            match kept.contains(&tag) {
                true => self.unanswered.add(tag),
                false => self.lost.add(tag),
            }
        }
    }

    /// Returns whether a request with the tag was lost, and forgets it.
    pub(super) fn is_lost(&mut self, tag: Tag) -> bool {
        self.lost.remove(tag)
    }
}

/// The most tags in one generation; limits memory if a program is never answered.
const GENERATION: usize = 1024;

/// Remembers at least the last [`GENERATION`] tags, and at most twice as many.
#[derive(Debug, Default)]
struct Remembered {
    young: FxHashSet<Tag>,
    old: FxHashSet<Tag>,
}

impl Remembered {
    fn add(&mut self, tag: Tag) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(tag);
    }

    fn remove(&mut self, tag: Tag) -> bool {
        // Usually there is none.
        let young = !self.young.is_empty() && self.young.remove(&tag);
        let old = !self.old.is_empty() && self.old.remove(&tag);
        young || old
    }

    fn has(&self, tag: Tag) -> bool {
        self.young.contains(&tag) || self.old.contains(&tag)
    }

    fn take(&mut self) -> Vec<Tag> {
        let Self { young, old } = std::mem::take(self);
        old.into_iter().chain(young).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_request_is_never_lost() {
        let mut requests = Requests::default();
        requests.asked(Tag(1));
        requests.asked(Tag(2));
        requests.answered(Tag(1));
        requests.lose();
        assert!(!requests.is_lost(Tag(1)));
        assert!(requests.is_lost(Tag(2)));
    }

    // [DEATH-16]
    #[test]
    fn a_request_that_the_next_server_sees_is_not_lost() {
        let mut requests = Requests::default();
        requests.asked(Tag(1));
        requests.asked(Tag(2));
        requests.keep(Tag(2));
        requests.keep(Tag(3));
        requests.lose();
        assert!(requests.is_lost(Tag(1)));
        assert!(!requests.is_lost(Tag(2)) && !requests.is_lost(Tag(3)));
        // The daemon that kept the request is gone, too.
        requests.keep(Tag(2));
        requests.lose_all();
        assert!(requests.is_lost(Tag(2)));
    }

    // [DEATH-15]
    #[test]
    fn a_lost_request_is_told_once_and_not_after_it_was_made_again() {
        let mut requests = Requests::default();
        requests.asked(Tag(1));
        requests.asked(Tag(2));
        requests.lose();
        assert!(requests.is_lost(Tag(1)));
        assert!(!requests.is_lost(Tag(1)));
        requests.asked_again(Tag(2));
        assert!(!requests.is_lost(Tag(2)));
    }

    #[test]
    fn requests_that_nobody_answers_use_bounded_memory() {
        let mut requests = Requests::default();
        for tag in 0..10 * GENERATION as i32 {
            requests.asked(Tag(tag));
        }
        requests.lose();
        let kept = requests.lost.young.len() + requests.lost.old.len();
        assert!((GENERATION..=2 * GENERATION).contains(&kept));
        assert!(requests.is_lost(Tag(10 * GENERATION as i32 - 1)));
    }
}
