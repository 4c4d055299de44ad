//! Messages of the connection manager (CM), which travel as datagrams to queue pair 1.
//!
//! ```text
//!  MAD header (24): version, class 7, …, attribute ─ attribute (232): ids, queue pair, PSN, …, private data
//!                                                    request: private data = CMA header (36) ─ LNet's CONNREQ
//! ```
//!
//! Layouts are those of the InfiniBand Architecture Specification, volume 1, chapters 12 and 13, and of its annex 11 for
//! the service numbers and the private data of TCP's port space.

use std::net::IpAddr;

use crate::ip::{Skipped, array_at, byte_at, u16_at};
use crate::rdma::packet::u24_at;

/// A message of the CM with what pairs it with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct CmMessage<'a> {
    pub(super) step: Step,
    /// The sender's number of the connection, and the receiver's if the sender knows it.
    pub(super) local: u32,
    pub(super) remote: u32,
    /// The private data of who uses the CM.
    pub(super) data: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Asks for a connection to a port; the queue pair of who asks, and the sequence number with which the other end is to
    /// begin.
    Request {
        port: u16,
        source: Option<(IpAddr, u16)>,
        qp: u32,
        psn: u32,
    },
    /// Agrees; the queue pair of who agrees, and the sequence number with which the other end is to begin.
    Reply { qp: u32, psn: u32 },
    /// Refuses, for this reason.
    Reject(u16),
    /// The connection is ready.
    Ready,
    /// Ends a connection.
    Disconnect,
    /// Confirms the end.
    Disconnected,
}

const HEADER_LEN: usize = 24;
const CMA_HEADER_LEN: usize = 36;
const CLASS_CM: u8 = 7;
/// The upper bytes of a service number in TCP's port space; the last two are the port.
const SERVICE_TCP: u64 = 0x0106_0000;

/// Reads a message; `None` if the datagram is none of the CM, or a message that says nothing about LNet.
pub(super) fn read(datagram: &[u8]) -> Result<Option<CmMessage<'_>>, Skipped> {
    if byte_at(datagram, 1)? != CLASS_CM {
        return Ok(None);
    }
    let attribute = u16_at(datagram, 16)?;
    let body = datagram.get(HEADER_LEN..).ok_or(Skipped::Malformed)?;
    let (step, data) = match attribute {
        0x10 => return request(body),
        0x12 => (Step::Reject(u16_at(body, 10)?), 84),
        0x13 => {
            let (qp, psn) = (u24_at(body, 12)?, u24_at(body, 20)?);
            (Step::Reply { qp, psn }, 36)
        }
        0x14 => (Step::Ready, 8),
        0x15 => (Step::Disconnect, 12),
        0x16 => (Step::Disconnected, 8),
        _ => return Ok(None),
    };
    Ok(Some(CmMessage {
        step,
        local: u32::from_be_bytes(array_at(body, 0)?),
        remote: u32::from_be_bytes(array_at(body, 4)?),
        data: body.get(data..).ok_or(Skipped::Malformed)?,
    }))
}

/// Reads a request; `None` if it asks for something else than a port of TCP's port space.
fn request(body: &[u8]) -> Result<Option<CmMessage<'_>>, Skipped> {
    const DATA_AT: usize = 140;
    let service = u64::from_be_bytes(array_at(body, 8)?);
    if service & !0xFFFF != SERVICE_TCP {
        return Ok(None);
    }
    let data = body.get(DATA_AT..).ok_or(Skipped::Malformed)?;
    let step = Step::Request {
        port: u16_at(body, 14)?,
        source: source(data)?,
        qp: u24_at(body, 32)?,
        psn: u24_at(body, 44)?,
    };
    Ok(Some(CmMessage {
        step,
        local: u32::from_be_bytes(array_at(body, 0)?),
        remote: 0,
        data: data.get(CMA_HEADER_LEN..).ok_or(Skipped::Malformed)?,
    }))
}

/// Returns the address and the port of who asks, from the header that RDMA CM puts before the private data.
fn source(data: &[u8]) -> Result<Option<(IpAddr, u16)>, Skipped> {
    let port = u16_at(data, 2)?;
    let address = match byte_at(data, 1)? >> 4 {
        4 => IpAddr::from(array_at::<4>(data, 16)?),
        6 => IpAddr::from(array_at::<16>(data, 4)?),
        _ => return Ok(None),
    };
    Ok(Some((address, port)))
}
