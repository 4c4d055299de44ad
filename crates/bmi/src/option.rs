//! Options by name. The C interface has numbers for them, which differ between its dialects.

use std::time::Duration;

/// An option with the value that it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// One more user of the address.
    IncrementReferences,
    /// One user of the address less. With the last one the interface may forget the address.
    DecrementReferences,
    /// Forget the address now.
    DropAddress,
    /// Cancel by force. Accepted, without effect.
    ForcefulCancel,
    /// The size of the send buffer of sockets, in bytes; 0 is what the system chooses.
    TcpSendBuffer(usize),
    /// The size of the receive buffer of sockets, in bytes; 0 is what the system chooses.
    TcpReceiveBuffer(usize),
    /// Close the connection with the address.
    CloseConnection,
    /// A buffer will be used often. Accepted, without effect.
    OptimisticRegistration,
    /// Whether a test of a context ends when an unexpected message waits. It does unless told
    /// otherwise.
    CheckUnexpected(bool),
    /// How long a post of the zoid method waits for its counterpart; 0, the default, is not at
    /// all. It counts in milliseconds.
    PostTimeout(Duration),
    /// A number that has no name here, for methods to make sense of.
    Other(i32),
}

/// A question with a number for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// The size in bytes of the largest expected message that every active method takes; 0 when
    /// none is active.
    MaxSize,
    /// The size in bytes of the largest unexpected message to the address.
    UnexpectedSize,
    /// 1 when the address is disconnected, else 0.
    IsDisconnected,
    /// How long posts wait, in milliseconds.
    PostTimeout,
    /// The port that the tcp method listens on; 0 when it does not.
    TcpPort,
    /// A number that has no name here.
    Other(i32),
}
