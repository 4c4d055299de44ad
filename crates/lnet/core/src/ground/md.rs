//! Memory descriptors and match entries in the interface for callers.

use bitflags::bitflags;
use lnet_types::ProcessId;

/// Name of a memory descriptor of this core; never reused, and never sent on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MdHandle(pub u64);

/// Name of a match entry; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeHandle(pub u64);

bitflags! {
    /// Options of a memory descriptor.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MdOptions: u32 {
        /// For an attached descriptor: accepts PUT.
        const OP_PUT = 0x0001;
        /// For an attached descriptor: accepts GET.
        const OP_GET = 0x0002;
        /// Uses the offset in the message, not the descriptor's own running offset.
        const MANAGE_REMOTE = 0x0004;
        /// Accepts a payload that is too long, and truncates it.
        const TRUNCATE = 0x0010;
        /// Never sends an ACK.
        const ACK_DISABLE = 0x0020;
        /// Moves at most `max_size` bytes per operation; the descriptor is exhausted when fewer are left.
        const MAX_SIZE = 0x0080;
        /// Tracks the response whatever the node's setting is.
        const TRACK_RESPONSE = 0x0400;
        /// Never tracks the response.
        const NO_TRACK_RESPONSE = 0x0800;
    }
}

/// The parameters of a memory descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MdSpec {
    /// Length of the memory, in bytes.
    pub length: u32,
    /// Limit of operations; `None` for no limit.
    pub threshold: Option<u32>,
    /// Limit of bytes of one operation (with [`MdOptions::MAX_SIZE`]).
    pub max_size: u32,
    /// Options.
    pub options: MdOptions,
    /// True if the descriptor is removed when it is exhausted.
    pub unlink_when_exhausted: bool,
    /// The value that every event of the descriptor returns.
    pub user: u64,
}

/// The parameters of a match entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeSpec {
    /// Portal, 0 to 63.
    pub portal: u32,
    /// The initiators that match; NID and pid may each be the wildcard.
    pub match_id: ProcessId,
    /// The match bits of matching messages …
    pub match_bits: u64,
    /// … except the bits that are set here, which may have any value.
    pub ignore_bits: u64,
    /// True if the entry is removed together with its descriptor.
    pub unlink_with_md: bool,
    /// The position relative to the existing entries.
    pub position: InsertPosition,
}

/// The position of a new match entry in its portal's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertPosition {
    /// At the head.
    Before,
    /// At the tail.
    #[default]
    After,
}
