//! A connection that is not yet one: both roles of section 2.1.
//!
//! ```text
//!  we dialled:    CONNECTING --connected: connreq, HELLO--> AWAIT_REPLY --HELLO--> connection
//!  peer dialled:  REQUEST --connreq--> HELLO --HELLO: our HELLO--> connection
//!                    |                   |
//!                    +-- refusal sent ---+--> FAREWELL --peer closes--> gone
//! ```
//!
//! What we send here is less than a fresh socket buffer always takes, so that it goes out in one write.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;

use lnd::NiId;
use lnet_types::Time;
use lnet_wire::{Ctype, HelloVersion};

use crate::network::{Bytes, Stream, send_whole};
use crate::reader::HandshakeReader;

/// What a peer may still send after it was refused, before it is cut off.
const FAREWELL_BYTES: usize = 64 << 10;

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// We dialled; TCP is not connected yet.
    Connecting,
    /// We dialled and sent our HELLO.
    AwaitReply,
    /// The peer dialled; its connection request is to come.
    Request,
    /// The peer dialled this interface; its HELLO is to come.
    Hello(NiId),
    /// A refusal is sent. Closing with unread bytes would reset the connection, and the peer might lose
    /// the refusal; so we wait until it closes.
    Farewell {
        /// Bytes that it may still send.
        allowance: usize,
    },
}

/// Who dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// We did.
    Active {
        /// Index of the peer.
        peer: usize,
        /// The type that we ask for.
        ctype: Ctype,
        /// The version of our HELLO.
        version: HelloVersion,
    },
    /// The peer did.
    Passive {
        /// Grows with each accepted connection.
        sequence: u64,
    },
}

/// A connection that is not yet one.
#[derive(Debug)]
pub(crate) struct Handshake<S> {
    pub(crate) stream: Arc<S>,
    pub(crate) role: Role,
    pub(crate) stage: Stage,
    pub(crate) reader: HandshakeReader,
    pub(crate) remote: SocketAddr,
    pub(crate) deadline: Time,
    /// The peer has closed its side, as readiness told; it tells only once.
    pub(crate) peer_closed: bool,
}

impl<S: Stream> Handshake<S> {
    /// Sends a refusal and begins to wait for the peer to close. False when there is nothing to wait for.
    pub(crate) fn refuse(&mut self, bytes: &[u8]) -> bool {
        self.stage = Stage::Farewell {
            allowance: FAREWELL_BYTES,
        };
        send_whole(&*self.stream, bytes).is_ok() && self.stream.end_writing().is_ok()
    }

    /// Throws away what a refused peer still sends; false when it is gone, or sent too much.
    pub(crate) fn wave(&mut self, scratch: &mut [u8]) -> bool {
        let Stage::Farewell { allowance } = &mut self.stage else {
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
