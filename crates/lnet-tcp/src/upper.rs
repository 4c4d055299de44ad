//! The border between the socket LND and the node above it.
//!
//! The LND moves bytes between sockets and memory that the upper side owns. It learns from the upper
//! side where an arriving payload goes and where a departing one is, and never copies either.

use lnet_types::{ProcessId, Time};
use lnet_wire::Header;

/// A local interface, in the upper side's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NiKey(pub u32);

/// A message being received, in the upper side's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RxToken(pub u64);

/// A message being sent, in the upper side's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxToken(pub u64);

/// What the upper side wants done with a message whose header arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Read `wanted` bytes into [`Upper::landing`], throw away the rest, then call
    /// [`Upper::received`].
    Receive {
        /// Names the message.
        rx: RxToken,
        /// Bytes wanted, at most the header's `payload_length`.
        wanted: u32,
    },
    /// Read nothing more from this connection until [`crate::Socklnd::resume`].
    Hold(RxToken),
    /// Read the payload and throw it away.
    Discard,
    /// The peer broke the protocol: close the connection and its siblings. The text says how.
    Refuse(&'static str),
}

/// How the sending or receiving of a message failed, as LNet's health classes (section 3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The write failed here, or the queue was flushed for a reason other than those below.
    LocalError,
    /// There was nothing to send on, or a received message could not be acknowledged.
    RemoteError,
    /// The queue was flushed because the peer could not be reached or reset the connection.
    RemoteDropped,
    /// The socket gave up on bytes that had been written.
    RemoteTimeout,
    /// No progress within the socket timeout.
    NetworkTimeout,
}

/// A message for [`crate::Socklnd::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Names the message until [`Upper::sent`].
    pub tx: TxToken,
    /// Over which local interface.
    pub ni: NiKey,
    /// Whose connections carry it (next hop).
    pub to: ProcessId,
    /// The header; its `payload_length` is the length of [`Upper::payload`].
    pub header: Header,
    /// Not worth sending after this point.
    pub deadline: Time,
}

/// The node above the LND.
pub trait Upper {
    /// A header arrived from `peer` on the interface `ni`.
    fn header(&mut self, ni: NiKey, peer: ProcessId, header: &Header, now: Time) -> Disposition;

    /// The memory for the wanted payload of a message: exactly `wanted` bytes, the same memory on every
    /// call until the message is reported as received.
    fn landing(&mut self, rx: RxToken) -> &mut [u8];

    /// The wanted payload is in place, or will never be. Called exactly once for every `Receive` and
    /// `Hold`.
    fn received(&mut self, rx: RxToken, result: Result<(), Failure>, now: Time);

    /// The payload of a message being sent: exactly `payload_length` bytes, the same on every call
    /// until the message is reported as sent.
    fn payload(&self, tx: TxToken) -> &[u8];

    /// The message is in the socket (all of it), or failed. Called exactly once for every
    /// [`SendRequest`], possibly before `send` returns.
    fn sent(&mut self, tx: TxToken, result: Result<(), Failure>, now: Time);

    /// The first connection to `peer` came up, or there is none: the last one went, or could not be made. Of a peer
    /// that stays away this is told once for each failed pass.
    fn peer_changed(&mut self, ni: NiKey, peer: ProcessId, alive: bool, now: Time);
}
