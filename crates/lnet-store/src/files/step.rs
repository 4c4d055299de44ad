//! The steps of an operation that runs once, where a test can end the process.

use std::str::FromStr;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is written down.
    BeforeIntent,
    /// The intent is on the disk, and nothing has been done.
    AfterIntent,
    /// The operation has been carried out, and its reply is not written down.
    AfterOperation,
    /// The reply is written down.
    AfterReply,
    /// Nothing but the answer is left to do.
    BeforeAnswer,
}

impl Step {
    /// All steps with their names, in their order.
    pub const ALL: [(&'static str, Self); 5] = [
        ("before-intent", Self::BeforeIntent),
        ("after-intent", Self::AfterIntent),
        ("after-operation", Self::AfterOperation),
        ("after-reply", Self::AfterReply),
        ("before-answer", Self::BeforeAnswer),
    ];
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let step = Self::ALL.iter().find(|(name, _)| *name == text);
        step.map(|(_, step)| *step)
            .ok_or_else(|| format!("{text:?} is no step of an operation"))
    }
}
