//! The virtual socket LND: what a socket reports, as classes (work item W4, section 3.10 of
//! lnet-selection).
//!
//! As [the o2ib LND's](super::O2ibLnd) table, with sockets for queue pairs, except:
//!
//! | event | posted messages |
//! |---|---|
//! | connection reset | `REMOTE_ERROR`: the peer lives and refused after possible delivery |
//! | a send call fails ([`CompletionError::Local`]) | `LOCAL_ERROR` |
//! | any other failed completion | `NETWORK_TIMEOUT`: an errno of a stream does not say how far it came |
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
    /// A driver without connections that gives each message so long.
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
