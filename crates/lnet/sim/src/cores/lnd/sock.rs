//! The virtual socket LND: the classes of what a socket reports, as the design documents of LNet Health ask.
//!
//! The table is that of the o2ib LND (`o2ib.rs`), with sockets in place of queue pairs, except:
//!
//! | event | posted messages |
//! |---|---|
//! | connection reset | `REMOTE_ERROR`: the peer runs, and rejected the message after a possible delivery |
//! | a send call fails ([`CompletionError::Local`]) | `LOCAL_ERROR` |
//! | any other failed completion | `NETWORK_TIMEOUT`: the errno of a stream does not say how far the message came |
//!
//! A message counts as sent when the other end has it, as with zero-copy acknowledgements.

use lnet_core::MessageStatus;

use super::CompletionError;
use super::engine::Classes;

pub(super) const CLASSES: Classes = Classes {
    closed: MessageStatus::RemoteError,
    completion,
};

fn completion(error: CompletionError) -> MessageStatus {
    match error {
        CompletionError::Local => MessageStatus::LocalError,
        _ => MessageStatus::NetworkTimeout,
    }
}
