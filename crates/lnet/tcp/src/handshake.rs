//! A connection during its handshake, in both roles.
//!
//! ```text
//!  we dialled:    CONNECTING --connected: connreq, HELLO--> AWAIT_REPLY --HELLO--> connection
//!  peer dialled:  REQUEST --connreq--> HELLO --HELLO: our HELLO--> connection
//!                    |                   |
//!                    +- rejection sent --+--> FAREWELL --peer closes--> gone
//! ```
//!
//! The bytes that we send here always fit into an empty socket buffer, so they go out in one write.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;

use lnd::NiId;
use lnet_types::Time;
use lnet_wire::{Ctype, HelloVersion};

use crate::network::{Bytes, Stream, send_whole};
use crate::reader::HandshakeReader;

/// How many bytes a rejected peer may still send before its connection is closed.
const FAREWELL_BYTES: usize = 64 << 10;

/// The state of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// We dialled; TCP is not connected yet.
    Connecting,
    /// We dialled and sent our HELLO.
    AwaitReply,
    /// The peer dialled; its connection request has not arrived.
    Request,
    /// The peer dialled this interface; its HELLO has not arrived.
    Hello(NiId),
    /// A rejection was sent; we wait until the peer closes. If we closed with unread bytes, TCP would
    /// reset the connection and the peer might lose the rejection.
    Rejected {
        /// Bytes that the peer may still send.
        allowance: usize,
    },
}

/// Which side dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// We dialled.
    Active {
        /// Index of the peer.
        peer: usize,
        /// The type that we ask for.
        ctype: Ctype,
        /// The version of our HELLO.
        version: HelloVersion,
    },
    /// The peer dialled.
    Passive {
        /// A number that grows with each accepted connection.
        sequence: u64,
    },
}

/// A connection during its handshake.
#[derive(Debug)]
pub(crate) struct Handshake<S> {
    pub(crate) stream: Arc<S>,
    pub(crate) role: Role,
    pub(crate) stage: Stage,
    pub(crate) reader: HandshakeReader,
    pub(crate) remote: SocketAddr,
    pub(crate) deadline: Time,
    /// Readiness reported, once, that the peer has closed its side.
    pub(crate) peer_closed: bool,
}

impl<S: Stream> Handshake<S> {
    /// Sends a rejection and begins to wait for the peer to close. Returns false if there is nothing
    /// to wait for.
    pub(crate) fn reject(&mut self, bytes: &[u8]) -> bool {
        self.stage = Stage::Rejected {
            allowance: FAREWELL_BYTES,
        };
        send_whole(&*self.stream, bytes).is_ok() && self.stream.end_writing().is_ok()
    }

    /// Drops the bytes that a rejected peer still sends. Returns false if the peer has closed or sent too
    /// much.
    pub(crate) fn drop_rest(&mut self, scratch: &mut [u8]) -> bool {
        let Stage::Rejected { allowance } = &mut self.stage else {
            return true;
        };
        let mut socket = Bytes(&*self.stream);
        loop {
            match socket.read(scratch) {
                Ok(0) => return false,
                Ok(count) if count > *allowance => return false,
                Ok(count) => *allowance -= count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}
