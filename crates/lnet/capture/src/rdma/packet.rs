//! RDMA packets: the base transport header, and what its operation puts behind it.
//!
//! ```text
//!  UDP 4791            ┐         [DETH 8 │ RETH 16 │ AETH 4]
//!  InfiniBand LRH [GRH]├─ BTH 12 [immediate data 4 │ IETH 4] ─ payload ─ pad ─ ICRC 4 [VCRC 2]
//! ```
//!
//! Layouts are those of the InfiniBand Architecture Specification, volume 1, chapters 5 to 9. Checksums are not
//! verified.

use std::net::{IpAddr, Ipv6Addr};

use crate::ip::{Skipped, array_at, byte_at, u16_at};

/// A packet to a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaPacket<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// The number of the receiver's queue pair.
    pub(crate) qp: u32,
    /// The sequence number, 24 bits.
    pub(crate) psn: u32,
    pub(crate) operation: Operation,
    pub(crate) payload: &'a [u8],
    /// Payload bytes at the end that the capture lacks.
    pub(crate) cut: usize,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A part of a SEND of a reliable connection.
    Send(Part),
    /// A part of an RDMA WRITE. The first part has the memory.
    Write(Part, Option<Memory>),
    /// An acknowledgement, positive or negative.
    Acknowledge(u8),
    /// A datagram.
    Datagram,
    /// Another operation, which LNet does not use.
    Other,
}

/// Which part of an operation a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    First,
    Middle,
    Last,
    Only,
}

impl Part {
    pub(crate) const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// The memory that an RDMA WRITE goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) address: u64,
    pub(crate) rkey: u32,
    pub(crate) length: u32,
}

const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
const RETH_LEN: usize = 16;
const AETH_LEN: usize = 4;
/// Bytes of immediate data, and of a key to invalidate.
const IMMEDIATE_LEN: usize = 4;
const ICRC_LEN: usize = 4;
/// Bytes of a global route header.
const GRH_LEN: usize = 40;

impl<'a> RdmaPacket<'a> {
    /// Reads a packet from its base transport header on. The capture lacks `cut` bytes at its end.
    pub(crate) fn read(ends: [IpAddr; 2], data: &'a [u8], cut: usize) -> Result<Self, Skipped> {
        let [from, to] = ends;
        let opcode = byte_at(data, 0)?;
        let (operation, header_len) = operation(opcode, data)?;
        let pad = usize::from(byte_at(data, 1)? >> 4 & 3);
        let payload_len = (data.len() + cut).checked_sub(header_len + pad + ICRC_LEN);
        let payload_len = payload_len.ok_or(Skipped::Malformed)?;
        let present = data.get(header_len..).ok_or(Skipped::Malformed)?;
        let payload = present.get(..payload_len).unwrap_or(present);
        Ok(Self {
            from,
            to,
            qp: u24_at(data, 5)?,
            psn: u24_at(data, 9)?,
            operation,
            payload,
            cut: payload_len - payload.len(),
        })
    }
}

/// Returns the operation, and the bytes of all headers.
fn operation(opcode: u8, data: &[u8]) -> Result<(Operation, usize), Skipped> {
    const MORE: usize = BTH_LEN + IMMEDIATE_LEN;
    let memory = || {
        Ok(Memory {
            address: u64::from_be_bytes(array_at(data, BTH_LEN)?),
            rkey: u32::from_be_bytes(array_at(data, BTH_LEN + 8)?),
            length: u32::from_be_bytes(array_at(data, BTH_LEN + 12)?),
        })
    };
    const WITH_MEMORY: usize = BTH_LEN + RETH_LEN;
    Ok(match opcode {
        0x00 => (Operation::Send(Part::First), BTH_LEN),
        0x01 => (Operation::Send(Part::Middle), BTH_LEN),
        0x02 => (Operation::Send(Part::Last), BTH_LEN),
        0x03 | 0x16 => (Operation::Send(Part::Last), MORE),
        0x04 => (Operation::Send(Part::Only), BTH_LEN),
        0x05 | 0x17 => (Operation::Send(Part::Only), MORE),
        0x06 => (Operation::Write(Part::First, Some(memory()?)), WITH_MEMORY),
        0x07 => (Operation::Write(Part::Middle, None), BTH_LEN),
        0x08 => (Operation::Write(Part::Last, None), BTH_LEN),
        0x09 => (Operation::Write(Part::Last, None), MORE),
        0x0A => (Operation::Write(Part::Only, Some(memory()?)), WITH_MEMORY),
        0x0B => (
            Operation::Write(Part::Only, Some(memory()?)),
            WITH_MEMORY + IMMEDIATE_LEN,
        ),
        0x11 => (
            Operation::Acknowledge(byte_at(data, BTH_LEN)?),
            BTH_LEN + AETH_LEN,
        ),
        0x64 => (Operation::Datagram, BTH_LEN + DETH_LEN),
        _ => (Operation::Other, BTH_LEN),
    })
}

/// Finds the packet in an InfiniBand frame, which begins with its local route header. An end without a global
/// address is shown with its LID as the address `::LID`.
pub(crate) fn of_infiniband(data: &[u8]) -> Result<RdmaPacket<'_>, Skipped> {
    const LRH_LEN: usize = 8;
    /// The next header: a base transport header, or a global route header before it.
    const TRANSPORT: u8 = 2;
    const GLOBAL: u8 = 3;
    let lid = |at| u16_at(data, at).map(|lid| IpAddr::V6(Ipv6Addr::from(u128::from(lid))));
    // The length of the packet in words, without the variant CRC.
    let length = usize::from(u16_at(data, 4)? & 0x07FF) * 4;
    let cut = length.saturating_sub(data.len());
    let data = data.get(..length).unwrap_or(data);
    let behind = |len| data.get(len..).ok_or(Skipped::Malformed);
    match byte_at(data, 1)? & 3 {
        TRANSPORT => RdmaPacket::read([lid(6)?, lid(2)?], behind(LRH_LEN)?, cut),
        GLOBAL => behind_global_route(behind(LRH_LEN)?, cut),
        _ => Err(Skipped::OtherProtocol),
    }
}

/// Reads a packet of RDMA over Converged Ethernet, version 1. The length in its global route header ends before the
/// Ethernet frame's padding.
pub(crate) fn of_global_route(data: &[u8]) -> Result<RdmaPacket<'_>, Skipped> {
    let length = GRH_LEN + usize::from(u16_at(data, 4)?);
    let cut = length.saturating_sub(data.len());
    behind_global_route(data.get(..length).unwrap_or(data), cut)
}

fn behind_global_route(data: &[u8], cut: usize) -> Result<RdmaPacket<'_>, Skipped> {
    let gid = |at| array_at::<16>(data, at).map(|gid| IpAddr::V6(Ipv6Addr::from(gid)));
    let ends = [gid(8)?, gid(24)?];
    RdmaPacket::read(ends, data.get(GRH_LEN..).ok_or(Skipped::Malformed)?, cut)
}

pub(super) fn u24_at(data: &[u8], at: usize) -> Result<u32, Skipped> {
    let [a, b, c] = array_at(data, at)?;
    Ok(u32::from_be_bytes([0, a, b, c]))
}
