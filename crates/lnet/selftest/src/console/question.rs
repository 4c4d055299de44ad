//! Questions: requests that read from nodes and change no test, so that they can wait for answers without the console.
//!
//! ```text
//!   console, locked ── makes ──▶ Question ── send, not locked ──▶ Asked ── note, locked ──▶ states of nodes
//!                                                                   └──── read ──▶ answers
//! ```

use std::time::Duration;

use lnet_types::Nid;

use super::{Answer, Caller, ConsoleError, map};
use crate::driver::{CallError, Request};
use crate::wire::{Body, FEATURE_BULK_LEN, SessionId};

/// A question to nodes, with the timeout of each answer.
pub struct Question<T> {
    session: SessionId,
    nodes: Vec<Nid>,
    body: Body,
    timeout: Duration,
    of: fn(Body) -> Option<T>,
}

/// A question that each node has answered, or has not answered in time.
pub struct Asked {
    pub(super) session: SessionId,
    pub(super) replies: Vec<(Nid, Result<Body, CallError>)>,
}

impl<T> Question<T> {
    pub(super) fn of(
        session: SessionId,
        nodes: &[Nid],
        body: Body,
        timeout: Duration,
        of: fn(Body) -> Option<T>,
    ) -> Self {
        Self {
            session,
            nodes: nodes.to_vec(),
            body,
            timeout,
            of,
        }
    }

    /// Sends the question, and waits for the answers. The console need not be locked.
    pub fn send(&self, caller: &impl Caller) -> Asked {
        let requests = self.nodes.iter().map(|&target| Request {
            target,
            features: FEATURE_BULK_LEN,
            body: self.body,
            source: None,
        });
        let replies = caller.call(requests.collect(), self.timeout);
        Asked {
            session: self.session,
            replies: self.nodes.iter().copied().zip(replies).collect(),
        }
    }

    /// Returns the answers.
    #[must_use]
    pub fn read(&self, asked: Asked) -> Vec<Answer<T>> {
        let replies = asked.replies.into_iter();
        let replies = replies.map(|(nid, reply)| (nid, reply.map_err(ConsoleError::Call)));
        map(replies.collect(), self.of)
    }
}
