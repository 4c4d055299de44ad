//! Buffer 0 of every RPC: who asks for what, and how the attempt ended.

use crate::message::Message;
use crate::text::Text;
use crate::view::View;

/// The length of the body that 2.12 and later send, in bytes.
pub const BODY_LEN: usize = 184;

/// The length of the body without a job, in bytes.
pub const BODY_SHORT_LEN: usize = 152;

/// The flags of a body.
pub mod flags {
    /// The request was sent before.
    pub const RESENT: u32 = 0x2;
    /// The request was executed before the server's restart, and is executed again.
    pub const REPLAY: u32 = 0x4;
    /// In a reply: the server banned this client (2.17 and later).
    pub const BANNED: u32 = 0x100;
    /// The body names user and group (2.16 and later).
    pub const HAS_IDS: u32 = 0x200;
    /// The body names the project (2.17 and later).
    pub const HAS_PROJECT: u32 = 0x400;
}

/// The kinds of body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A request.
    Request,
    /// A reply of the handler.
    Reply,
    /// A refusal before the handler, or outside of it.
    Error,
}

impl Type {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Request => 4711,
            Self::Error => 4712,
            Self::Reply => 4713,
        }
    }
}

/// A body that has its type.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    view: View<'a>,
    /// Whether it is a request, a reply or an error.
    pub kind: Type,
}

impl<'a> Body<'a> {
    /// Reads the body of a message; `None` if buffer 0 is none.
    // [PTLRPC-3]
    #[must_use]
    pub fn of(message: &Message<'a>) -> Option<Self> {
        let view = message.buffer(0)?;
        if view.bytes().len() < BODY_SHORT_LEN {
            return None;
        }
        let kind = match view.u32(8)? {
            4711 => Type::Request,
            4712 => Type::Error,
            4713 => Type::Reply,
            _ => return None,
        };
        Some(Self { view, kind })
    }

    /// Returns whether this is a request.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.kind == Type::Request
    }

    /// Returns the server's handle of the connection; 0 in a first connect.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.view.u64(0).unwrap_or_default()
    }

    /// Returns the version: the layout in the low half, the service in the high half.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.word(12)
    }

    /// Returns the opcode.
    #[must_use]
    pub fn opc(&self) -> u32 {
        self.word(16)
    }

    /// Returns the status of a reply: 0, a negative errno, or a positive code.
    #[must_use]
    pub fn status(&self) -> i32 {
        self.word(20) as i32
    }

    /// Returns the transaction number that a change got; in a request, that of a replay.
    #[must_use]
    pub fn transno(&self) -> u64 {
        self.view.u64(48).unwrap_or_default()
    }

    /// Returns the [`flags`].
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.word(56)
    }

    /// Returns the flags of a connect.
    #[must_use]
    pub fn op_flags(&self) -> u32 {
        self.word(60)
    }

    /// Returns the generation of the connection.
    #[must_use]
    pub fn conn_cnt(&self) -> u32 {
        self.word(64)
    }

    /// Returns the seconds that the server may take; in an early reply, those since the request was sent.
    #[must_use]
    pub fn timeout(&self) -> u32 {
        self.word(68)
    }

    /// Returns the seconds that the server took; in a request, those that the requester expects to pass in the network.
    #[must_use]
    pub fn service_time(&self) -> u32 {
        self.word(72)
    }

    /// Returns the match bits of the reply and of the bulk; 0 if they are the xid.
    #[must_use]
    pub fn mbits(&self) -> u64 {
        self.view.u64(120).unwrap_or_default()
    }

    /// Returns user and group, if the sender says them.
    // [PTLRPC-11]
    #[must_use]
    pub fn ids(&self) -> Option<(u32, u32)> {
        let says = self.is_request() && self.flags() & flags::HAS_IDS != 0;
        says.then(|| (self.word(144), self.word(148)))
    }

    /// Returns the job; empty in short bodies.
    #[must_use]
    pub fn job(&self) -> Text<'a> {
        Text::new(self.view.part(152, 32).bytes())
    }

    fn word(&self, at: usize) -> u32 {
        self.view.u32(at).unwrap_or_default()
    }
}
