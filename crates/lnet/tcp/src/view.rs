//! The view of a connection that lists of connections show.

use std::net::SocketAddr;

use lnd::NiId;
use lnet_types::ProcessId;
use lnet_wire::{Ctype, HelloVersion};

/// The properties of an established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// The local interface.
    pub ni: NiId,
    /// The peer.
    pub peer: ProcessId,
    /// The connection's type, in our naming.
    pub ctype: Ctype,
    /// The connection's HELLO version.
    pub version: HelloVersion,
    /// The address of our end.
    pub local: SocketAddr,
    /// The address of the peer's end.
    pub remote: SocketAddr,
    /// True if this node dialled the connection.
    pub dialled: bool,
    /// The size of the stream's send buffer, in bytes.
    pub send_buffer: usize,
    /// The size of the stream's receive buffer, in bytes.
    pub receive_buffer: usize,
    /// Frames in the queue, including a partly written one.
    pub queued_frames: usize,
    /// Bytes of the queued frames that are not yet written.
    pub queued_bytes: u64,
    /// True while the node above holds a message of the connection, so that the connection is not read.
    pub held: bool,
}
