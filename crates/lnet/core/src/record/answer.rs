//! The answer of the core to an input.

use std::fmt::Debug;

use lnet_policy::{Added, Rule};

use crate::ground::io::{NiId, Verdict};
use crate::ground::md::{MdHandle, MeHandle};

/// The result of a call of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, or a result that is no decision.
    Nothing,
    /// A number: a handle, an interface, an index, a count, or 1 for true and 0 for false.
    Number(u64),
    /// The verdict about a message that arrived.
    Verdict(Verdict),
    /// The call was rejected with this error.
    Refused(String),
}

/// The conversion of a result into its recorded form.
pub(crate) trait ToAnswer {
    fn to_answer(&self) -> Answer;
}

impl ToAnswer for () {
    fn to_answer(&self) -> Answer {
        Answer::Nothing
    }
}

impl ToAnswer for bool {
    fn to_answer(&self) -> Answer {
        Answer::Number((*self).into())
    }
}

impl ToAnswer for usize {
    fn to_answer(&self) -> Answer {
        Answer::Number(*self as u64)
    }
}

impl ToAnswer for NiId {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0.into())
    }
}

impl ToAnswer for MdHandle {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0)
    }
}

impl ToAnswer for MeHandle {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0)
    }
}

impl ToAnswer for Added {
    fn to_answer(&self) -> Answer {
        let (Self::Inserted(index) | Self::Updated(index)) = self;
        index.to_answer()
    }
}

impl ToAnswer for Rule {
    fn to_answer(&self) -> Answer {
        Answer::Nothing
    }
}

impl ToAnswer for Verdict {
    fn to_answer(&self) -> Answer {
        Answer::Verdict(*self)
    }
}

impl<T: ToAnswer, E: Debug> ToAnswer for Result<T, E> {
    fn to_answer(&self) -> Answer {
        match self {
            Ok(value) => value.to_answer(),
            Err(error) => Answer::Refused(format!("{error:?}")),
        }
    }
}
