//! Options by name. The C interface has numbers for them, which differ between its dialects.

use std::time::Duration;

/// An option and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// Add a reference to the address.
    IncrementReferences,
    /// Release a reference to the address. When the last one is released, the interface may forget the
    /// address.
    DecrementReferences,
    /// Forget the address now.
    DropAddress,
    /// Cancel by force. Accepted without effect.
    ForcefulCancel,
    /// The size of the send buffer of sockets, in bytes; 0 leaves it to the system.
    TcpSendBuffer(usize),
    /// The size of the receive buffer of sockets, in bytes; 0 leaves it to the system.
    TcpReceiveBuffer(usize),
    /// Close the connection with the address.
    CloseConnection,
    /// Announce that a buffer will be used often. Accepted without effect.
    OptimisticRegistration,
    /// Whether a test of a context ends when an unexpected message waits. The default is true.
    CheckUnexpected(bool),
    /// How long a post of the zoid method waits for its counterpart, in whole milliseconds. The default is 0:
    /// no wait.
    PostTimeout(Duration),
    /// A number that has no name here; methods may know it.
    Other(i32),
}

/// A question whose answer is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// The size in bytes of the largest expected message that every active method accepts; 0 if no method is
    /// active.
    MaxSize,
    /// The size in bytes of the largest unexpected message to the address.
    UnexpectedSize,
    /// 1 if the address is disconnected, else 0.
    IsDisconnected,
    /// How long posts wait, in milliseconds.
    PostTimeout,
    /// The port that the tcp method listens on; 0 if it does not listen.
    TcpPort,
    /// A number that has no name here.
    Other(i32),
}
