//! Memory descriptors and match entries as callers name them (section 5.2).

use bitflags::bitflags;
use lnet_types::ProcessId;

/// Names a memory descriptor of this core; never reused, and never seen on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MdHandle(pub u64);

/// Names a match entry; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeHandle(pub u64);

bitflags! {
    /// Options of a memory descriptor.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MdOptions: u32 {
        /// Attached: accepts PUT.
        const OP_PUT = 0x0001;
        /// Attached: accepts GET.
        const OP_GET = 0x0002;
        /// Use the offset in the message, not the descriptor's own running offset.
        const MANAGE_REMOTE = 0x0004;
        /// Accept data that is too long, and cut it.
        const TRUNCATE = 0x0010;
        /// Never send an ACK.
        const ACK_DISABLE = 0x0020;
        /// At most `max_size` bytes an operation; exhausted when fewer are left.
        const MAX_SIZE = 0x0080;
        /// Track the response whatever the node's setting is.
        const TRACK_RESPONSE = 0x0400;
        /// Never track the response.
        const NO_TRACK_RESPONSE = 0x0800;
    }
}

/// A memory descriptor as the caller asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MdSpec {
    /// Length of the memory, in bytes.
    pub length: u32,
    /// Operations left, or `None` for any number.
    pub threshold: Option<u32>,
    /// Most bytes of one operation (with [`MdOptions::MAX_SIZE`]).
    pub max_size: u32,
    /// Options.
    pub options: MdOptions,
    /// Remove the descriptor when it is exhausted.
    pub unlink_when_exhausted: bool,
    /// Returned in every event of the descriptor.
    pub user: u64,
}

/// A match entry as the caller asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeSpec {
    /// Portal, 0 to 63.
    pub portal: u32,
    /// Which initiators match; NID and pid may each be the wildcard.
    pub match_id: ProcessId,
    /// Bits that must be equal …
    pub match_bits: u64,
    /// … except where these are set.
    pub ignore_bits: u64,
    /// Goes when its descriptor goes.
    pub unlink_with_md: bool,
    /// Before or after the entries already there.
    pub position: InsertPosition,
}

/// Where a match entry is put in its portal's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertPosition {
    /// At the head.
    Before,
    /// At the tail.
    #[default]
    After,
}
