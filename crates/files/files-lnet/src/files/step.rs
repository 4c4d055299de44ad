//! The steps of an operation that runs once. A test can end the process at each of them.

use std::str::FromStr;

/// A step of an operation that runs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The log does not have the intent yet.
    BeforeIntent,
    /// The intent is on the disk, and the operation has not been carried out.
    AfterIntent,
    /// The operation has been carried out, and the log does not have its reply yet.
    AfterOperation,
    /// The log has the reply.
    AfterReply,
    /// Everything is done except to answer the client.
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
            .ok_or_else(|| format!("{text:?} is not a step of an operation"))
    }
}
