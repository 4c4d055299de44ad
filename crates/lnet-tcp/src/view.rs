//! A connection as lists of connections show it.

use std::net::SocketAddr;

use lnd::NiId;
use lnet_types::ProcessId;
use lnet_wire::{Ctype, HelloVersion};

/// What is to be said of an established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// The local interface.
    pub ni: NiId,
    /// The peer.
    pub peer: ProcessId,
    /// The connection's type, in our naming.
    pub ctype: Ctype,
    /// The HELLO version that it speaks.
    pub version: HelloVersion,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// True when we dialled it.
    pub dialled: bool,
    /// The size of the stream's send buffer, in bytes.
    pub send_buffer: usize,
    /// The size of the stream's receive buffer, in bytes.
    pub receive_buffer: usize,
    /// Frames that wait to be written, in part or in whole.
    pub queued_frames: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// True while the node above holds a message of it, so that it is not read.
    pub held: bool,
}
