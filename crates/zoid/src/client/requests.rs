//! Which answers a client may wait for: the tags of its requests.
//!
//! ```text
//!           asked                 lose                    asked again, refused once
//!   (tag) ─────────▶ UNANSWERED ─────────▶ LOST ────────────────────────────────────▶ (tag)
//!                        └── answered ──▶ (tag)
//! ```
//!
//! A request is an unexpected message that was taken; its answer is an expected message of the same
//! tag. When the daemon that took a request is gone, or the server that fetched it, nobody answers it: an operation of that tag that
//! is posted later would wait for ever.

use bmi::Tag;
use rustc_hash::FxHashSet;

/// The tags, as far as they are remembered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    unanswered: Remembered,
    lost: Remembered,
    /// Of those that are unanswered, the ones that the next server will see.
    kept: FxHashSet<Tag>,
}

impl Requests {
    /// A request was taken.
    pub(super) fn asked(&mut self, tag: Tag) {
        self.unanswered.add(tag);
    }

    /// A request is posted: operations of its tag are about this one.
    pub(super) fn asked_again(&mut self, tag: Tag) {
        self.lost.remove(tag);
    }

    /// A message of the tag was received.
    pub(super) fn answered(&mut self, tag: Tag) {
        self.unanswered.remove(tag);
    }

    /// The server dies before it has fetched the request.
    pub(super) fn keep(&mut self, tag: Tag) {
        if self.unanswered.has(tag) {
            self.kept.insert(tag);
        }
    }

    /// The daemon is gone: all that are unanswered stay so.
    pub(super) fn lose_all(&mut self) {
        self.kept.clear();
        self.lose();
    }

    /// The server is gone: all that are unanswered stay so, except those that are kept.
    pub(super) fn lose(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        for tag in self.unanswered.take() {
            match kept.contains(&tag) {
                true => self.unanswered.add(tag),
                false => self.lost.add(tag),
            }
        }
    }

    /// Whether a request of the tag was lost. It is forgotten.
    pub(super) fn is_lost(&mut self, tag: Tag) -> bool {
        self.lost.remove(tag)
    }
}

/// The most tags in one generation: a program that is never answered must not use up memory.
const GENERATION: usize = 1024;

/// At least the last [`GENERATION`] tags, at most twice as many.
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
        // Mostly there is none at all.
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
        // The daemon that kept it is gone, too.
        requests.keep(Tag(2));
        requests.lose_all();
        assert!(requests.is_lost(Tag(2)));
    }

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
