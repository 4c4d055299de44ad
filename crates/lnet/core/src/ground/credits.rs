//! Credits: how many messages may hold a resource at the same time, and which messages wait for it, first in, first
//! out.
//!
//! ```text
//!  enter ─▶ waiting ─▶ take_next ─▶ held ─▶ release
//!              └─────▶ leave
//! ```
//!
//! The limit is no part of the credits: it is a tunable, which may change while messages hold credits. Messages above
//! a limit that has shrunk keep what they hold, and no other message gets a credit until enough have come back.

use std::collections::VecDeque;

use lnet_types::Time;

/// The credits of one resource, and the messages (`T` names one) that wait for them.
#[derive(Debug)]
pub(crate) struct Credits<T> {
    held: u32,
    waiting: VecDeque<T>,
    most: u32,
    /// When the deadlines of the waiting messages are checked next; `None` if no timer is armed.
    pub(crate) checked_at: Option<Time>,
    /// The latest deadline among the messages of this node that entered since the queue was last empty; `None` once a
    /// message with an earlier deadline has entered behind it.
    pub(crate) in_order_until: Option<Time>,
}

impl<T> Default for Credits<T> {
    fn default() -> Self {
        Self {
            held: 0,
            waiting: VecDeque::new(),
            most: 0,
            checked_at: None,
            in_order_until: Some(Time::ZERO),
        }
    }
}

impl<T: Copy + PartialEq> Credits<T> {
    /// Puts a message at the end of the queue.
    pub(crate) fn enter(&mut self, message: T) {
        self.waiting.push_back(message);
        self.note_demand();
    }

    /// Gives a credit to the message that has waited longest; `None` if no message waits or no credit is below the
    /// limit.
    pub(crate) fn take_next(&mut self, limit: u32) -> Option<T> {
        if self.held >= limit {
            return None;
        }
        let message = self.waiting.pop_front()?;
        self.held += 1;
        Some(message)
    }

    /// Gives the message a credit at once, or lets it wait if others wait or no credit is left. Returns whether the
    /// message has a credit.
    pub(crate) fn take_or_wait(&mut self, message: T, limit: u32) -> bool {
        let free = self.waiting.is_empty() && self.held < limit;
        if free {
            self.held += 1;
            self.note_demand();
        } else {
            self.enter(message);
        }
        free
    }

    /// Takes a credit back. Returns false if none was held.
    #[must_use]
    pub(crate) fn release(&mut self) -> bool {
        let left = self.held.checked_sub(1);
        self.held = left.unwrap_or(0);
        left.is_some()
    }

    /// Removes a message from the queue. Mostly it has waited longest, so the search from the front is short.
    pub(crate) fn leave(&mut self, message: T) {
        if let Some(at) = self.waiting.iter().position(|waiting| *waiting == message) {
            self.waiting.remove(at);
        }
    }

    /// Returns the messages that wait, oldest first.
    pub(crate) fn waiting(&self) -> &VecDeque<T> {
        &self.waiting
    }

    /// Returns whether no message waits and no timer is armed for the queue.
    pub(crate) fn are_at_rest(&self) -> bool {
        self.waiting.is_empty() && self.checked_at.is_none()
    }

    /// Returns whether no message holds a credit or waits for one.
    pub(crate) fn are_idle(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }

    /// Returns the number of messages that hold a credit or wait for one.
    pub(crate) fn demand(&self) -> u32 {
        self.held.saturating_add(self.waiting.len() as u32)
    }

    /// Returns the credits left below a limit; negative by the number of messages that wait.
    pub(crate) fn left(&self, limit: u32) -> i64 {
        i64::from(limit) - i64::from(self.demand())
    }

    /// Returns the fewest credits that were ever left below a limit.
    pub(crate) fn fewest_left(&self, limit: u32) -> i64 {
        i64::from(limit) - i64::from(self.most)
    }

    /// Sets the number of held credits to that of the node that a state was copied from.
    pub(crate) fn set_held(&mut self, held: u32) {
        self.held = held;
        self.note_demand();
    }

    fn note_demand(&mut self) {
        self.most = self.most.max(self.demand());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_go_to_those_who_have_waited_longest() {
        let mut credits = Credits::default();
        (1..=4).for_each(|message| credits.enter(message));
        assert_eq!(credits.take_next(2), Some(1));
        assert_eq!(credits.take_next(2), Some(2));
        assert_eq!(credits.take_next(2), None);
        assert_eq!(credits.left(2), -2);
        assert!(credits.release());
        assert_eq!(credits.take_next(2), Some(3));
    }

    #[test]
    fn who_comes_later_does_not_overtake_who_waits() {
        let mut credits = Credits::default();
        assert!(credits.take_or_wait(1, 1));
        assert!(!credits.take_or_wait(2, 1));
        assert!(!credits.take_or_wait(3, 2), "2 waits");
        assert_eq!(credits.waiting(), &[2, 3]);
    }

    #[test]
    fn a_limit_that_shrinks_lets_no_message_in_until_enough_credits_came_back() {
        let mut credits = Credits::default();
        (1..=3).for_each(|message| assert!(credits.take_or_wait(message, 3)));
        credits.enter(4);
        assert!(credits.release());
        assert_eq!(credits.take_next(1), None);
        assert!(credits.release() && credits.release());
        assert_eq!(credits.take_next(1), Some(4));
    }

    #[test]
    fn a_credit_that_nobody_held_is_reported_and_not_counted() {
        let mut credits = Credits::<u8>::default();
        assert!(!credits.release());
        assert!(credits.are_idle());
    }

    #[test]
    fn the_fewest_left_counts_messages_that_waited_and_left() {
        let mut credits = Credits::default();
        (1..=3).for_each(|message| _ = credits.take_or_wait(message, 1));
        credits.leave(2);
        credits.leave(2);
        assert_eq!((credits.left(1), credits.fewest_left(1)), (-1, -2));
        assert!(credits.release());
        assert_eq!(credits.take_next(1), Some(3));
        assert!(credits.release());
        assert!(credits.are_idle());
        assert_eq!(credits.fewest_left(1), -2);
    }
}
