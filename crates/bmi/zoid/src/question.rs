//! Questions that only this method answers, for [`bmi::Bmi::get`].
//!
//! They have no number in the C interface.

use bmi::Question;

/// Whether there is a daemon: 1 or 0. Returns the current knowledge without asking the daemon; the next test
/// or post notices a daemon that has just died.
pub const LINK: Question = Question::Other(0x7A01);

/// The epoch of the daemon, which changes with each of its starts; 0 if there is none.
pub const EPOCH: Question = Question::Other(0x7A02);
