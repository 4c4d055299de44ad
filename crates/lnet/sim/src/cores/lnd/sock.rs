//! The virtual socket LND: the classes of what a socket reports, as the design documents of LNet Health ask.
//!
//! The table is that of [the o2ib LND](super::O2ibLnd), with sockets in place of queue pairs, except:
//!
//! | event | posted messages |
//! |---|---|
//! | connection reset | `REMOTE_ERROR`: the peer runs, and rejected the message after a possible delivery |
//! | a send call fails ([`CompletionError::Local`]) | `LOCAL_ERROR` |
//! | any other failed completion | `NETWORK_TIMEOUT`: the errno of a stream does not say how far the message came |
//!
//! A message counts as sent when the other end has it, as with zero-copy acknowledgements.

use std::time::Duration;

use lnet_core::MessageStatus;
use lnet_types::Time;

use super::engine::{Classes, Engine};
use super::{Actions, CompletionError, ConnectError, Lnd, LndEvent, Message};

/// A virtual TCP driver.
#[derive(Debug)]
pub struct SockLnd(Engine);

impl SockLnd {
    /// Makes a driver without connections. A message expires after `timeout`.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self(Engine::new(&CLASSES, timeout))
    }
}

impl Lnd for SockLnd {
    fn transmit(&mut self, message: Message, now: Time, actions: &mut Actions) {
        self.0.transmit(message, now, actions);
    }

    fn event(&mut self, event: LndEvent, now: Time, actions: &mut Actions) {
        self.0.event(event, now, actions);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.0.next_deadline()
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        self.0.tick(now, actions);
    }
}

const CLASSES: Classes = Classes {
    closed: MessageStatus::RemoteError,
    connect,
    completion,
};

fn connect(error: ConnectError) -> MessageStatus {
    match error {
        ConnectError::Rejected | ConnectError::Unreachable => MessageStatus::RemoteDropped,
        ConnectError::NoRoute => MessageStatus::LocalNoRoute,
        ConnectError::Aborted => MessageStatus::LocalAborted,
    }
}

fn completion(error: CompletionError) -> MessageStatus {
    match error {
        CompletionError::Local => MessageStatus::LocalError,
        _ => MessageStatus::NetworkTimeout,
    }
}
