//! Questions that only this method answers, to be asked with [`bmi::Bmi::get`].
//!
//! They have no number in the C interface.

use bmi::Question;

/// Is there a daemon? 1 or 0. Tells what is known now, without asking it: a daemon that has just died
/// is noticed by the next test or post.
pub const LINK: Question = Question::Other(0x7A01);

/// The epoch of the daemon, another one after each of its starts; 0 when there is none.
pub const EPOCH: Question = Question::Other(0x7A02);
