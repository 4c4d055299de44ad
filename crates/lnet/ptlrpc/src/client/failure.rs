//! Why a conversation did not come to its end.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::opcode::opcode_name;
use crate::text::Status;

/// Why a target did not answer what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// No reply came.
    #[error("no reply to {} within {}", operation(*opc), Seconds(*after))]
    NoReply {
        /// The opcode of the request.
        opc: u32,
        /// How long it was awaited.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("{} is answered with {}", operation(*opc), Status(*status))]
    Refused {
        /// The opcode of the request.
        opc: u32,
        /// The error, negative.
        status: i32,
        /// Whether the server says that it banned this client.
        is_banned: bool,
    },
    /// The reply is none.
    #[error("the reply to {} cannot be read: {what}", operation(*opc))]
    Garbage {
        /// The opcode of the request.
        opc: u32,
        /// What is wrong.
        what: String,
    },
    /// The MGS has no such file system.
    #[error("the MGS has no such file system")]
    NoFileSystem,
    /// The log cannot be read to its end.
    #[error("{0}")]
    Log(String),
    /// The time for the whole conversation is over.
    #[error("the time for the questions was over after {}", Seconds(*.0))]
    Late(Duration),
    /// Something between here and the server failed.
    #[error("the request could not be sent: {0}")]
    Unsent(String),
    /// This machine could not do its part.
    #[error("{0}")]
    Own(String),
    /// The caller stopped the conversation.
    #[error("interrupted")]
    Stopped,
}

/// A time as people write it.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.0 < Duration::from_secs(10) && self.0.subsec_millis() >= 50);
        write!(f, "{:.digits$} s", self.0.as_secs_f64())
    }
}

fn operation(opc: u32) -> &'static str {
    opcode_name(opc).unwrap_or("a request")
}
