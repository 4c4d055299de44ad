//! Events of a device that own their bytes, for drivers that queue them.

use std::net::Ipv4Addr;

use crate::device::{CompletionError, ConnId, ConnectFailure, DeviceEvent, PortState, RequestId};

/// An event with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// See [`DeviceEvent::Resolved`].
    Resolved(ConnId),
    /// See [`DeviceEvent::Established`].
    Established(ConnId, Vec<u8>),
    /// See [`DeviceEvent::Failed`].
    Failed(ConnId, ConnectFailure, Vec<u8>),
    /// See [`DeviceEvent::Requested`].
    Requested(RequestId, Ipv4Addr, u16, Vec<u8>),
    /// See [`DeviceEvent::Received`].
    Received(ConnId, u32, Vec<u8>),
    /// See [`DeviceEvent::Sent`].
    Sent(ConnId, u64, Result<(), CompletionError>),
    /// See [`DeviceEvent::Disconnected`].
    Disconnected(ConnId),
    /// See [`DeviceEvent::Drained`].
    Drained(ConnId),
    /// See [`DeviceEvent::Port`].
    Port(Ipv4Addr, PortState),
    /// See [`DeviceEvent::Moved`].
    Moved(Ipv4Addr),
}

impl Event {
    /// Returns the event in the form that the LND takes.
    #[must_use]
    pub fn view(&self) -> DeviceEvent<'_> {
        match self {
            Self::Resolved(conn) => DeviceEvent::Resolved(*conn),
            Self::Established(conn, data) => DeviceEvent::Established(*conn, data),
            Self::Failed(conn, failure, data) => DeviceEvent::Failed(*conn, *failure, data),
            Self::Requested(request, address, source_port, private_data) => {
                DeviceEvent::Requested {
                    request: *request,
                    address: *address,
                    source_port: *source_port,
                    private_data,
                }
            }
            Self::Received(conn, buffer, bytes) => DeviceEvent::Received {
                conn: *conn,
                buffer: *buffer,
                bytes,
            },
            Self::Sent(conn, ticket, result) => DeviceEvent::Sent {
                conn: *conn,
                ticket: *ticket,
                result: *result,
            },
            Self::Disconnected(conn) => DeviceEvent::Disconnected(*conn),
            Self::Drained(conn) => DeviceEvent::Drained(*conn),
            Self::Port(address, state) => DeviceEvent::Port(*address, *state),
            Self::Moved(address) => DeviceEvent::Moved(*address),
        }
    }
}
