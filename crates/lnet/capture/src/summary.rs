//! Counts over a capture.

use std::collections::BTreeMap;

use crate::ip::Skipped;
use crate::message::{Kind, Message, Reason};
use crate::payload::Payload;

/// Counts over a whole capture.
///
/// Every payload byte of a connection with LNet counts in exactly one field of [`Bytes`], and
/// only once if it was retransmitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets in the file.
    pub packets: u64,
    /// Packets without a TCP segment and without an RDMA packet, by reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// Connections with LNet, or with an attempt to open one.
    pub connections: u64,
    /// Those that began before the capture.
    pub joined: u64,
    /// Those whose handshake was broken or rejected.
    pub rejected: u64,
    /// Items by [name](Kind::name).
    pub messages: BTreeMap<&'static str, u64>,
    /// The bytes by result.
    pub bytes: Bytes,
    /// RDMA packets that were sent again.
    pub packets_repeated: u64,
    /// RDMA packets that are not in the capture.
    pub packets_lost: u64,
}

/// Bytes of TCP streams, and of SENDs and writes of RDMA, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Part of a decoded structure, or its opaque payload.
    pub decoded: u64,
    /// Part of an accepted connection, and not decoded because of damage or a gap.
    pub undecoded: u64,
    /// The beginning of a frame at the end of a connection.
    pub cut: u64,
    /// Before the first frame boundary of a connection that began before the capture.
    pub before_join: u64,
    /// Part of a connection that was not accepted: a broken handshake, and everything after a
    /// broken or rejected one.
    pub unaccepted: u64,
    /// Not in the capture, and not in the other counts.
    pub lost: u64,
}

impl Summary {
    /// Returns true if every captured byte of every accepted connection was decoded.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.bytes.undecoded == 0
    }

    pub(crate) fn count(&mut self, message: &Message<'_>) {
        *self.messages.entry(message.kind.name()).or_default() += 1;
        let bytes = &mut self.bytes;
        match message.kind {
            Kind::Connreq(_)
            | Kind::Rejection
            | Kind::Hello(_)
            | Kind::Noop(_)
            | Kind::Cm(_)
            | Kind::O2ib(_)
            | Kind::Write(_)
            | Kind::Nak(_) => bytes.decoded += message.length,
            Kind::PacketsLost { packets, undecoded } => {
                self.packets_lost += u64::from(packets);
                bytes.undecoded += undecoded;
            }
            Kind::Lnet(lnet) => match lnet.payload {
                Payload::Opaque { lost, .. } => {
                    bytes.decoded += message.length - lost;
                    bytes.lost += lost;
                }
                Payload::BadPing(_) => {
                    let payload = u64::from(lnet.header.payload_length);
                    bytes.undecoded += payload;
                    bytes.decoded += message.length - payload;
                }
                Payload::None | Payload::Ping(_) => bytes.decoded += message.length,
            },
            // The bytes of an accepted connection are counted at the end of the following search.
            Kind::Broken(_) if message.connection.rejected => bytes.unaccepted += message.length,
            Kind::Broken(_) => {}
            Kind::Cut { .. } => bytes.cut += message.length,
            Kind::Gap { lost, undecoded } => {
                bytes.lost += lost;
                bytes.undecoded += undecoded;
            }
            Kind::Resumed {
                reason: Reason::Joined,
                skipped,
                ..
            } => bytes.before_join += skipped,
            Kind::Resumed { skipped, .. } => bytes.undecoded += skipped,
        }
    }
}
