//! What the LND needs of an RDMA device: connections of the CM, posted work, registered memory.

use std::fmt;
use std::net::Ipv4Addr;

use lnet_wire::o2ib::Fragment;
use thiserror::Error;

use crate::event::Event;

/// A connection. The LND chooses the number, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A connection request of a peer, until it is accepted or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A piece of memory that is registered with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u64);

/// Memory with payload to be sent.
pub trait Source {
    /// Returns the length in bytes.
    fn len(&self) -> usize;
    /// Returns true if the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies the first bytes into `to`.
    fn copy_out(&self, to: &mut [u8]);
}

/// Memory for payload that arrives.
pub trait Sink {
    /// Returns the length in bytes.
    fn len(&self) -> usize;
    /// Returns true if the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies `from` to a place. What does not fit is left out.
    fn copy_in(&self, at: usize, from: &[u8]);
}

/// Registered memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The name under which the LND uses and releases the registration.
    pub id: MappingId,
    /// The key for the other end.
    pub rkey: u32,
    /// The addresses for the other end, in the order of the bytes.
    pub fragments: Vec<Fragment>,
}

/// An RDMA write of a part of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The memory to read from.
    pub mapping: MappingId,
    /// Where the part begins, in bytes from the start of the memory.
    pub offset: u32,
    /// The bytes of the part.
    pub length: u32,
    /// The memory to write to, at the other end.
    pub address: u64,
    /// The key of the memory at the other end.
    pub rkey: u32,
}

/// The size of a connection's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Receive buffers of [`lnet_wire::o2ib::MESSAGE_MAX`] bytes, all posted before the connection is made.
    pub receives: u32,
    /// Messages that may be posted for sending and not completed.
    pub messages: u32,
    /// Work requests that may be posted for sending and not completed: messages, and the writes before them.
    pub sends: u32,
}

/// The failure of a posted message, in the terms of a work completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CompletionError {
    /// The local device rejected the work.
    Local,
    /// The connection broke before the work was done, or while it was.
    Flushed,
    /// The peer's device never acknowledged.
    RetryExceeded,
    /// The peer had no receive buffer posted, after all retries.
    ReceiverNotReady,
    /// The peer's device rejected the work: a wrong key, or an address outside the memory.
    RemoteAccess,
}

/// The reason why a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// No address, no route, or no answer.
    Unreachable,
    /// The acceptor rejected the request; its private data says why.
    Rejected,
    /// The CM at the other end still knows an older connection.
    Stale,
    /// Nobody listens at the service number.
    NobodyListens,
    /// Something failed at this end.
    Local,
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the address has no route over RDMA, or does not answer",
            Self::Rejected => "the request was rejected without a reason of LNet",
            Self::Stale => "the host still has an older connection of this machine",
            Self::NobodyListens => {
                "the host answers over RDMA, and nothing listens at LNet's service number"
            }
            Self::Local => "the device of this machine refused",
        })
    }
}

/// A device did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// The state of a port, or of the address that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortState {
    /// The port is active, the link up and the address present.
    Up,
    /// One of them is not.
    Down,
    /// The device is gone, with everything that it had.
    Removed,
}

/// An event of a device.
#[derive(Debug)]
pub enum DeviceEvent<'a> {
    /// Address and route of a dialled connection are known.
    Resolved(ConnId),
    /// A connection is established. The dialler gets the private data of the acceptor.
    Established(ConnId, &'a [u8]),
    /// A dialled connection was not made. The device has forgotten the connection.
    Failed(ConnId, ConnectFailure, &'a [u8]),
    /// A peer asks for a connection at the listener of this address.
    Requested {
        /// The request.
        request: RequestId,
        /// The listener.
        address: Ipv4Addr,
        /// The port that the peer dialled from.
        source_port: u16,
        /// The private data.
        private_data: &'a [u8],
    },
    /// A message is in a receive buffer, which [`Device::post_receive`] posts again.
    Received {
        /// The connection.
        conn: ConnId,
        /// The buffer.
        buffer: u32,
        /// The bytes that arrived.
        bytes: &'a [u8],
    },
    /// A posted message has completed, together with the writes before it.
    Sent {
        /// The connection.
        conn: ConnId,
        /// The number that the message was posted with.
        ticket: u64,
        /// The result.
        result: Result<(), CompletionError>,
    },
    /// The other end closed the connection, or the connection broke.
    Disconnected(ConnId),
    /// The queues of the connection are in error state and empty: the device touches no memory for it any more, and
    /// has forgotten it. Follows each [`Device::disconnect`].
    Drained(ConnId),
    /// The port of an address has changed.
    Port(Ipv4Addr, PortState),
    /// The address has moved to another port or device, as that of a bond does. The listener and the connections of the
    /// address are of no use any more.
    Moved(Ipv4Addr),
}

/// A driver of RDMA devices. No call waits. All results that are not known at once come as events.
pub trait Device {
    /// Memory with payload to be sent.
    type Source: Source;
    /// Memory for payload that arrives.
    type Sink: Sink;

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// No device has the address, the service number is in use, or a privilege is missing.
    fn listen(&mut self, address: Ipv4Addr) -> Result<(), DeviceError>;

    /// Ends listening at an address.
    fn unlisten(&mut self, address: Ipv4Addr);

    /// Returns the state of the port that an address belongs to, while the device listens there.
    fn port_state(&self, address: Ipv4Addr) -> PortState;

    /// Returns the most work requests for sending that a connection of this address can have.
    fn sends_max(&self, address: Ipv4Addr) -> u32;

    /// Begins to dial: finds the route from one address to another.
    ///
    /// # Errors
    ///
    /// The device has forgotten the connection.
    fn resolve(&mut self, conn: ConnId, from: Ipv4Addr, to: Ipv4Addr) -> Result<(), DeviceError>;

    /// Makes the queues of a resolved connection, posts its receive buffers and sends the request.
    ///
    /// # Errors
    ///
    /// The device has forgotten the connection.
    fn connect(
        &mut self,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError>;

    /// Makes the queues of a requested connection, posts its receive buffers and accepts the request.
    ///
    /// # Errors
    ///
    /// The device has forgotten the connection; the request can still be rejected.
    fn accept(
        &mut self,
        request: RequestId,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError>;

    /// Rejects a request.
    fn reject(&mut self, request: RequestId, private_data: &[u8]);

    /// Posts a receive buffer again.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    fn post_receive(&mut self, conn: ConnId, buffer: u32) -> Result<(), DeviceError>;

    /// Posts writes and a message behind them as one chain. One [`DeviceEvent::Sent`] answers it.
    ///
    /// # Errors
    ///
    /// Nothing was posted.
    fn post_send(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        message: &[u8],
        ticket: u64,
    ) -> Result<(), DeviceError>;

    /// Registers memory to be read by writes of a connection.
    ///
    /// # Errors
    ///
    /// The memory cannot be registered, such as for a limit of pinned memory.
    fn map_source(&mut self, conn: ConnId, memory: &Self::Source) -> Result<Mapped, DeviceError>;

    /// Registers memory that the other end of a connection may write to.
    ///
    /// # Errors
    ///
    /// The memory cannot be registered, such as for a limit of pinned memory.
    fn map_sink(&mut self, conn: ConnId, memory: &Self::Sink) -> Result<Mapped, DeviceError>;

    /// Releases a registration.
    fn unmap(&mut self, mapping: MappingId);

    /// Closes a connection in any state. [`DeviceEvent::Drained`] follows.
    fn disconnect(&mut self, conn: ConnId);
}

/// A device whose events wait inside until the driver of a node takes them.
pub trait PolledDevice: Device {
    /// Takes what has happened. Returns true if there is an event.
    ///
    /// # Errors
    ///
    /// The device cannot be asked.
    fn poll(&mut self) -> Result<bool, DeviceError>;

    /// Prepares a wait. Returns true if there is an event, so that no wait is due.
    ///
    /// # Errors
    ///
    /// The device cannot be asked.
    fn arm(&mut self) -> Result<bool, DeviceError>;

    /// Returns the next event; `None` until [`Self::poll`] finds more.
    fn next_event(&mut self) -> Option<Event>;
}
