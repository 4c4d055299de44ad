//! The structures of the header, and what they are in Rust.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::{c_char, c_int, c_void};

use lnet_node::{
    Address, Event, EventKind, GetRequest, InsertPosition, MatchEntry, MdHandle, PutRequest,
};
use lnet_types::{Nid, ProcessId};
use nix::errno::Errno;

use crate::arguments::{self, Places};
use crate::failure::{Failure, returned};

/// See `struct flnet_nid`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_nid {
    /// The wire form; zeros for none.
    pub bytes: [u8; 20],
}

/// See `struct flnet_id`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_id {
    /// The NID.
    pub nid: flnet_nid,
    /// The process id.
    pub pid: u32,
}

/// See `struct flnet_address`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_address {
    /// The process.
    pub target: flnet_id,
    /// The portal, 1 to 63.
    pub portal: u32,
    /// The match bits.
    pub match_bits: u64,
}

/// See `struct flnet_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_options {
    /// The size of this structure in bytes.
    pub size: usize,
    /// The TCP port; 0 for 988.
    pub port: u32,
    /// A number of `enum flnet_accept`.
    pub accept: u32,
    /// Threads that move bytes; 0 for 1.
    pub io_threads: u32,
    /// Microseconds of polling before the node sleeps.
    pub spin_us: u32,
    /// A number of `enum flnet_progress`.
    pub progress: u32,
}

/// See `struct flnet_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_message {
    /// The sender.
    pub from: flnet_id,
    /// The match bits.
    pub match_bits: u64,
    /// The number that travelled with the message.
    pub hdr_data: u64,
    /// The bytes that were sent.
    pub length: usize,
}

/// See `struct flnet_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_event {
    /// A number of `enum flnet_event_kind`.
    pub kind: u32,
    /// 0, or a negative errno.
    pub status: i32,
    /// The descriptor.
    pub md: u64,
    /// The descriptor's `user`.
    pub user: u64,
    /// 1 in the last event of the descriptor.
    pub unlinked: u32,
    /// The portal.
    pub portal: u32,
    /// The process that the operation was for.
    pub target: flnet_id,
    /// The process that began the operation.
    pub initiator: flnet_id,
    /// The last hop of an arrived message, the first hop of a sent one.
    pub sender: flnet_nid,
    /// Where the bytes begin in the descriptor.
    pub offset: u32,
    /// The match bits.
    pub match_bits: u64,
    /// The number of a put.
    pub hdr_data: u64,
    /// The bytes that were asked for.
    pub rlength: u32,
    /// The bytes that were moved.
    pub mlength: u32,
}

/// See `struct flnet_md`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct flnet_md {
    /// The first byte of the memory.
    pub start: *mut c_void,
    /// The length in bytes.
    pub length: usize,
    /// Bits of `FLNET_MD_*`.
    pub options: u32,
    /// The number of operations; 0 for any.
    pub threshold: u32,
    /// The most bytes of one operation.
    pub max_size: u32,
    /// A value that every event returns.
    pub user: u64,
}

/// See `struct flnet_match`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_match {
    /// The portal, 1 to 63.
    pub portal: u32,
    /// 1 for a place before the entries of the portal.
    pub first: u32,
    /// The match bits.
    pub match_bits: u64,
    /// Bits that may differ.
    pub ignore_bits: u64,
    /// The initiator; with a NID of zeros anybody.
    pub from: flnet_id,
}

/// See `struct flnet_put`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_put {
    /// The bound descriptor.
    pub md: u64,
    /// The target.
    pub to: flnet_address,
    /// The offset in the target's memory.
    pub offset: u32,
    /// 1 to ask for an ACK.
    pub ack: u32,
    /// A number for the target's event.
    pub hdr_data: u64,
    /// The NID to send from; zeros for any.
    pub source: flnet_nid,
}

/// See `struct flnet_get`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_get {
    /// The bound descriptor.
    pub md: u64,
    /// The target.
    pub from: flnet_address,
    /// The offset in the target's memory.
    pub offset: u32,
    /// The NID to send from; zeros for any.
    pub source: flnet_nid,
}

/// See `struct flnet_interface`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_interface {
    /// The NID.
    pub nid: flnet_nid,
    /// 0 if the interface is down.
    pub up: u32,
}

/// See `struct flnet_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct flnet_counters {
    /// The size of this structure in bytes.
    pub size: usize,
    /// Messages that were sent.
    pub send_count: u64,
    /// Bytes that were sent.
    pub send_length: u64,
    /// Messages that were received.
    pub recv_count: u64,
    /// Bytes that were received.
    pub recv_length: u64,
    /// Messages that were forwarded.
    pub route_count: u64,
    /// Bytes that were forwarded.
    pub route_length: u64,
    /// Messages that were dropped.
    pub drop_count: u64,
    /// Bytes that were dropped.
    pub drop_length: u64,
    /// Messages that were sent again.
    pub resend_count: u64,
    /// Responses that did not come in time.
    pub response_timeout_count: u64,
    /// Events for which a queue had no room.
    pub events_lost: u64,
}

impl From<Nid> for flnet_nid {
    fn from(nid: Nid) -> Self {
        Self {
            bytes: nid.to_wire(),
        }
    }
}

impl flnet_nid {
    /// The NID; `None` for zeros.
    pub(crate) fn optional(self) -> Result<Option<Nid>, Failure> {
        if self.bytes == [0; 20] {
            return Ok(None);
        }
        let nid = Nid::from_wire(self.bytes);
        let unknown = || Failure::new(Errno::EINVAL, "the bytes are no NID; see flnet_parse_nid");
        nid.map(Some).ok_or_else(unknown)
    }

    pub(crate) fn required(self) -> Result<Nid, Failure> {
        let missing = || Failure::new(Errno::EINVAL, "a NID is missing; see flnet_parse_nid");
        self.optional()?.ok_or_else(missing)
    }
}

impl From<ProcessId> for flnet_id {
    fn from(id: ProcessId) -> Self {
        Self {
            nid: id.nid.into(),
            pid: id.pid,
        }
    }
}

impl flnet_address {
    pub(crate) fn address(&self) -> Result<Address, Failure> {
        Ok(Address {
            target: ProcessId {
                nid: self.target.nid.required()?,
                pid: self.target.pid,
            },
            portal: self.portal,
            match_bits: self.match_bits,
        })
    }
}

impl flnet_match {
    pub(crate) fn entry(&self) -> Result<MatchEntry, Failure> {
        let from = self.from.nid.optional()?;
        Ok(MatchEntry {
            portal: self.portal,
            match_id: from.map_or(ProcessId::ANY, |nid| ProcessId {
                nid,
                pid: self.from.pid,
            }),
            match_bits: self.match_bits,
            ignore_bits: self.ignore_bits,
            position: match self.first {
                0 => InsertPosition::After,
                _ => InsertPosition::Before,
            },
        })
    }
}

impl flnet_put {
    pub(crate) fn request(&self) -> Result<PutRequest, Failure> {
        let to = self.to.address()?;
        Ok(PutRequest {
            md: MdHandle(self.md),
            ack: self.ack != 0,
            source: self.source.optional()?,
            target: to.target,
            portal: to.portal,
            match_bits: to.match_bits,
            offset: self.offset,
            hdr_data: self.hdr_data,
        })
    }
}

impl flnet_get {
    pub(crate) fn request(&self) -> Result<GetRequest, Failure> {
        let from = self.from.address()?;
        Ok(GetRequest {
            md: MdHandle(self.md),
            source: self.source.optional()?,
            target: from.target,
            portal: from.portal,
            match_bits: from.match_bits,
            offset: self.offset,
        })
    }
}

impl From<&Event> for flnet_event {
    fn from(event: &Event) -> Self {
        Self {
            kind: match event.kind {
                EventKind::Get => 1,
                EventKind::Put => 2,
                EventKind::Reply => 3,
                EventKind::Ack => 4,
                EventKind::Send => 5,
                EventKind::Unlink => 6,
                EventKind::Timeout => 7,
            },
            status: event.status.map_or_else(|errno| -errno.0, |()| 0),
            md: event.md.0,
            user: event.user,
            unlinked: event.unlinked.into(),
            portal: event.portal,
            target: event.target.into(),
            initiator: event.initiator.into(),
            sender: event.sender.into(),
            offset: event.offset,
            match_bits: event.match_bits,
            hdr_data: event.hdr_data,
            rlength: event.rlength,
            mlength: event.mlength,
        }
    }
}

/// See the header.
///
/// # Safety
///
/// `text` is null or a string; `nid` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_parse_nid(text: *const c_char, nid: *mut flnet_nid) -> c_int {
    // SAFETY: the caller promises the same.
    let arguments = unsafe { (arguments::text(text, "text"), Places::one(nid, "nid")) };
    returned(parsed(arguments.0).and_then(|parsed| {
        arguments.1?.set(0, parsed.into());
        Ok(0)
    }))
}

fn parsed(text: Result<&str, Failure>) -> Result<Nid, Failure> {
    let text = text?;
    text.parse()
        .map_err(|error| Failure::new(Errno::EINVAL, format_args!("{text:?}: {error}")))
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or points to a NID; `text` is null or valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_format_nid(
    nid: *const flnet_nid,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises the same.
    let arguments = unsafe {
        (
            arguments::read(nid, "nid"),
            Places::array(text.cast::<u8>(), size, "text"),
        )
    };
    returned(arguments.0.and_then(|nid| {
        let written = nid.required()?.to_string() + "\0";
        let mut text = arguments.1?;
        if text.len() < written.len() {
            let why = format_args!("{size} bytes are too few: the text has {}", written.len());
            return Err(Failure::new(Errno::ENOSPC, why));
        }
        text.copy(written.as_bytes());
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or a string; `address` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_parse_address(
    nid: *const c_char,
    portal: u32,
    match_bits: u64,
    address: *mut flnet_address,
) -> c_int {
    // SAFETY: the caller promises the same.
    let arguments = unsafe { (arguments::text(nid, "nid"), Places::one(address, "address")) };
    returned(parsed(arguments.0).and_then(|nid| {
        let checked = Address::new(nid, portal, match_bits);
        checked.check()?;
        let address = flnet_address {
            target: checked.target.into(),
            portal,
            match_bits,
        };
        arguments.1?.set(0, address);
        Ok(0)
    }))
}
