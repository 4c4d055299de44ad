//! Posts: the checks before a method sees a message.

use std::fmt;

use crate::bmi::Bmi;
use crate::error::Error;
use crate::id::{Address, Class, ContextId, OpId, Tag};
use crate::method::{Posted, Request, RequestKind};
use crate::ops::Owner;
use crate::payload::Payload;

/// The outcome of a post.
#[derive(Debug)]
pub enum Post {
    /// The operation has completed: the number of bytes sent or received, and the memory. There is nothing to
    /// test.
    Immediate(usize, Payload),
    /// A test will collect the operation.
    Pending(OpId),
}

/// A post that failed, with the memory that was to be posted.
#[derive(Debug)]
pub struct Rejected {
    /// Why.
    pub error: Error,
    /// The memory.
    pub payload: Payload,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not posted: {}", self.error)
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Error {
        rejected.error
    }
}

impl Bmi {
    /// Sends a message to a receive of the same tag at `to`.
    ///
    /// Completion is local: the memory may be used again, and the peer may not have received the message yet.
    /// `user` comes back with the [`crate::Completion`].
    ///
    /// # Errors
    ///
    /// [`Error::Proto`]: no such address. [`Error::Inval`]: no such context. [`Error::MsgSize`]: larger than
    /// [`crate::Question::MaxSize`]. [`Error::NetDown`]: finalized. Errors of the method, such as
    /// [`Error::ConnReset`].
    pub fn post_send(
        &self,
        context: ContextId,
        to: Address,
        payload: impl Into<Payload>,
        tag: Tag,
        user: u64,
    ) -> Result<Post, Rejected> {
        self.post(context, to, payload.into(), RequestKind::Send, tag, user)
    }

    /// Sends an unexpected message, which `to` collects without having posted a receive.
    ///
    /// # Errors
    ///
    /// As [`Bmi::post_send`]; the limit is [`crate::Question::UnexpectedSize`]. [`Error::OpNotSupp`]: the
    /// method does not send unexpected messages in this direction.
    pub fn post_send_unexpected(
        &self,
        context: ContextId,
        to: Address,
        payload: impl Into<Payload>,
        tag: Tag,
        class: Class,
        user: u64,
    ) -> Result<Post, Rejected> {
        let kind = RequestKind::SendUnexpected(class);
        self.post(context, to, payload.into(), kind, tag, user)
    }

    /// Receives a message that `from` sends with the same tag, of at most the payload's size. A shorter
    /// message leaves the rest of the memory unchanged.
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
    ) -> Result<Post, Rejected> {
        self.post(
            context,
            from,
            payload.into(),
            RequestKind::Receive,
            tag,
            user,
        )
    }

    // [BMI-1]
    fn post(
        &self,
        context: ContextId,
        address: Address,
        payload: Payload,
        kind: RequestKind,
        tag: Tag,
        user: u64,
    ) -> Result<Post, Rejected> {
        let reject = |error, payload| Err(Rejected { error, payload });
        if let Err(error) = self.check_open() {
            return reject(error, payload);
        }
        let Some((method, target)) = self.resolve(address) else {
            // [BMI-2]
            return reject(Error::Proto, payload);
        };
        let limits = method.limits();
        let limit = match kind {
            RequestKind::SendUnexpected(_) => limits.unexpected,
            RequestKind::Send | RequestKind::Receive => limits.expected,
        };
        // [BMI-3]
        let Some(total) = payload.total().filter(|&total| total <= limit) else {
            return reject(Error::MsgSize, payload);
        };
        let owner = Owner {
            method: target.method,
            context,
            user,
        };
        let op = match self.ops.reserve(owner) {
            Ok(op) => op,
            Err(error) => return reject(error, payload),
        };
        // [BMI-5]
        let (segments, memory) = payload.into_parts();
        let request = Request {
            op,
            context,
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
                    // A thread that tests for this operation may have checked before it was published.
                    method.wake();
                }
                Ok(Post::Pending(op))
            }
            Err(error) => {
                self.ops.release(op);
                reject(error, payload)
            }
        }
    }
}
