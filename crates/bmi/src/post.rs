//! Posting: what is checked before a method sees a message.

use std::fmt;

use crate::bmi::Bmi;
use crate::error::Error;
use crate::id::{Address, Class, ContextId, OpId, Tag};
use crate::method::{Kind, Posted, Request};
use crate::ops::Owner;
use crate::payload::Payload;

/// How a post ended.
#[derive(Debug)]
pub enum Post {
    /// Finished: this many bytes were sent or received, and here is the memory again. There is
    /// nothing to test.
    Immediate(usize, Payload),
    /// To be collected by a test.
    Pending(OpId),
}

/// A post that did not happen, with the memory that was to be posted.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The memory.
    pub payload: Payload,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.error)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

impl Bmi {
    /// Sends a message to a receive of the same tag at `to`.
    ///
    /// "Sent" is a local statement: the memory may be used again. `user` comes back with the
    /// [`crate::Completion`].
    ///
    /// # Errors
    ///
    /// [`Error::Proto`]: no such address. [`Error::Inval`]: no such context. [`Error::MsgSize`]:
    /// larger than [`crate::Question::MaxSize`] says. [`Error::NetDown`]: finalized. What else the
    /// method says, such as [`Error::ConnReset`].
    pub fn post_send(
        &self,
        context: ContextId,
        to: Address,
        payload: impl Into<Payload>,
        tag: Tag,
        user: u64,
    ) -> Result<Post, Refused> {
        self.post(context, to, payload.into(), Kind::Send, tag, user)
    }

    /// Sends a message that `to` collects without having posted anything.
    ///
    /// # Errors
    ///
    /// As [`Bmi::post_send`]; the limit is [`crate::Question::UnexpectedSize`].
    /// [`Error::OpNotSupp`]: not in this direction.
    pub fn post_send_unexpected(
        &self,
        context: ContextId,
        to: Address,
        payload: impl Into<Payload>,
        tag: Tag,
        class: Class,
        user: u64,
    ) -> Result<Post, Refused> {
        let kind = Kind::SendUnexpected(class);
        self.post(context, to, payload.into(), kind, tag, user)
    }

    /// Receives a message of at most the payload's size, which `from` sends with the same tag. A
    /// shorter message leaves the rest of the memory as it was.
    ///
    /// # Errors
    ///
    /// As [`Bmi::post_send`].
    pub fn post_receive(
        &self,
        context: ContextId,
        from: Address,
        payload: impl Into<Payload>,
        tag: Tag,
        user: u64,
    ) -> Result<Post, Refused> {
        self.post(context, from, payload.into(), Kind::Receive, tag, user)
    }

    fn post(
        &self,
        context: ContextId,
        address: Address,
        payload: Payload,
        kind: Kind,
        tag: Tag,
        user: u64,
    ) -> Result<Post, Refused> {
        let refuse = |error, payload| Err(Refused { error, payload });
        if let Err(error) = self.check_open() {
            return refuse(error, payload);
        }
        let Some((method, target)) = self.resolve(address) else {
            return refuse(Error::Proto, payload);
        };
        let limits = method.limits();
        let limit = match kind {
            Kind::SendUnexpected(_) => limits.unexpected,
            Kind::Send | Kind::Receive => limits.expected,
        };
        let Some(total) = payload.total().filter(|&total| total <= limit) else {
            return refuse(Error::MsgSize, payload);
        };
        let owner = Owner {
            method: target.method,
            context,
            merged: method.traits().single_context,
            user,
        };
        let op = match self.ops.reserve(owner) {
            Ok(op) => op,
            Err(error) => return refuse(error, payload),
        };
        let (segments, memory) = payload.into_parts();
        let request = Request {
            op,
            peer: target.peer,
            kind,
            tag,
            segments,
            total,
            memory,
        };
        let posted = method.post(&request);
        let payload = Payload::from_spans(request.segments, memory);
        match posted {
            Ok(Posted::Immediate(count)) => {
                self.ops.release(op);
                Ok(Post::Immediate(count, payload))
            }
            Ok(Posted::Pending) => {
                if self.ops.publish(op, payload) {
                    // Whoever tests for it may have looked before it was published.
                    method.wake();
                }
                Ok(Post::Pending(op))
            }
            Err(error) => {
                self.ops.release(op);
                refuse(error, payload)
            }
        }
    }
}
