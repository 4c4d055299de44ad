//! The virtual o2ib LND: the classes of what verbs report, as the design documents of LNet Health ask.
//!
//! | event | messages not posted yet | posted messages | interface |
//! |---|---|---|---|
//! | fatal device event | `LOCAL_DROPPED` | `LOCAL_ERROR` | fatal |
//! | device ready | | | no longer fatal |
//! | port down | wait | wait for their completion | fatal |
//! | port up | continue | | no longer fatal |
//! | driver stopped | `LOCAL_INTERRUPT` | `NETWORK_TIMEOUT` | |
//! | connection rejected | `REMOTE_DROPPED` | | |
//! | peer unreachable | `REMOTE_DROPPED` | | |
//! | address or route unresolved | `LOCAL_NO_ROUTE` | | |
//! | connection setup cancelled here | `LOCAL_ABORTED` | | |
//! | disconnected | reconnect | `NETWORK_TIMEOUT` | |
//! | completion: local error | | `LOCAL_ERROR` | |
//! | completion: flushed | | `NETWORK_TIMEOUT` | |
//! | completion: retries exceeded | | `REMOTE_TIMEOUT` | |
//! | completion: receiver not ready | | `REMOTE_DROPPED` | |
//! | completion: remote error | | `REMOTE_ERROR` | |
//! | transmit timeout | `LOCAL_TIMEOUT` | `REMOTE_TIMEOUT`; `NETWORK_TIMEOUT` if the port was down meanwhile | |
//!
//! A failed completion, or the timeout of a posted message, also closes the connection: its other posted messages
//! are flushed. A message that was posted to a failed device ends with `LOCAL_ERROR` and not with `LOCAL_ABORTED`,
//! because the other end may have received it.

use lnet_core::MessageStatus;

use super::CompletionError;
use super::engine::Classes;

pub(super) const CLASSES: Classes = Classes {
    closed: MessageStatus::NetworkTimeout,
    completion,
};

fn completion(error: CompletionError) -> MessageStatus {
    match error {
        CompletionError::Local => MessageStatus::LocalError,
        CompletionError::Flushed => MessageStatus::NetworkTimeout,
        CompletionError::RetryExceeded => MessageStatus::RemoteTimeout,
        CompletionError::ReceiverNotReady => MessageStatus::RemoteDropped,
        CompletionError::Remote => MessageStatus::RemoteError,
    }
}
