//! Memory descriptors at run time.
//!
//! ```text
//!            bind / attach
//!                 │
//!                 ▼   operation begins: users + 1, threshold - 1
//!               live ◀────────────────────────────────────────────┐
//!    unlink or    │   operation ends: users - 1, one event ───────┘
//!    expiry       ▼
//!               dead (lookups by handle find nothing)
//!                 │ users = 0
//!                 ▼
//!               freed: the last event carries `unlinked`
//! ```
//!
//! A live descriptor that is to be unlinked when exhausted is freed in the same manner. Handles count up from 1 and
//! are never reused, so a late ACK or REPLY finds nothing. On the wire they are permuted.

use lnet_types::Nid;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ground::io::{CoreBuffer, Place, TxId};
use crate::ground::md::{MdHandle, MdOptions, MdSpec, MeHandle};
use crate::ground::timer::RecoveryTarget;
use crate::traffic::latency::Departure;
use crate::traffic::portals::responses::Responses;

/// The user of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The caller, who receives its events.
    User,
    /// The answer to pings. The descriptor's memory is this buffer.
    PingTarget(CoreBuffer),
    /// A ping of a gateway by the checker. The descriptor's memory is this buffer.
    Check(CoreBuffer, Nid),
    /// A ping of another interface of a gateway, so that the gateway sees pings on that net. The descriptor's memory
    /// is this buffer.
    NetCheck(CoreBuffer),
    /// A recovery ping. The descriptor's memory is this buffer.
    Recovery(CoreBuffer, RecoveryTarget),
    /// A ping that discovers the peer with this NID. The descriptor's memory is this buffer.
    Discovery(CoreBuffer, Nid),
    /// A ping of a NID that two peers name. The descriptor's memory is this buffer.
    Claim(CoreBuffer, Nid),
    /// A push of this node to the peer with this NID. The descriptor's memory is this buffer.
    Push(CoreBuffer, Nid),
    /// The target of a push of a peer. The descriptor's memory is this buffer.
    PushTarget(CoreBuffer),
}

impl Owner {
    /// Returns whether the core itself started the operation: a ping or a push.
    pub(crate) fn is_started_here(self) -> bool {
        matches!(
            self,
            Self::Check(..)
                | Self::NetCheck(_)
                | Self::Recovery(..)
                | Self::Discovery(..)
                | Self::Claim(..)
                | Self::Push(..)
        )
    }

    /// Returns whether a failure of the operation at the remote side leaves the peer's health unchanged: a ping whose
    /// result has its own effect, on a gateway, on recovery or on the peer that has a NID. A discovery is none of them,
    /// and lowers health as a ping of the caller does.
    pub(in crate::traffic) fn spares_peer(self) -> bool {
        matches!(
            self,
            Self::Check(..) | Self::NetCheck(_) | Self::Recovery(..) | Self::Claim(..)
        )
    }

    /// Returns the memory of this descriptor.
    pub(crate) fn place(self, md: MdHandle) -> Place {
        self.buffer().map_or(Place::Md(md), Place::Core)
    }

    /// Returns the core's buffer behind the descriptor; `None` for a descriptor of the caller.
    pub(crate) fn buffer(self) -> Option<CoreBuffer> {
        match self {
            Self::User => None,
            Self::PingTarget(buffer)
            | Self::Check(buffer, _)
            | Self::NetCheck(buffer)
            | Self::Recovery(buffer, _)
            | Self::Discovery(buffer, _)
            | Self::Claim(buffer, _)
            | Self::Push(buffer, _)
            | Self::PushTarget(buffer) => Some(buffer),
        }
    }
}

/// A memory descriptor.
#[derive(Debug)]
pub(crate) struct Md {
    pub(crate) spec: MdSpec,
    pub(crate) owner: Owner,
    /// True if the descriptor was created by attaching. ACKs and REPLYs never apply to such a descriptor.
    pub(in crate::traffic) attached: bool,
    /// The match entry that the descriptor is attached to, until it is detached.
    pub(in crate::traffic) me: Option<MeHandle>,
    /// The running offset, in bytes.
    pub(in crate::traffic) offset: u32,
    /// Operations left; `None` for no limit.
    pub(in crate::traffic) threshold: Option<u32>,
    /// Operations under way.
    pub(in crate::traffic) users: u32,
    /// The operations under way that are messages being sent.
    pub(crate) sends: SmallVec<[TxId; 2]>,
    /// True if the descriptor is unlinked or has expired.
    pub(crate) dead: bool,
    /// ACKs and REPLYs that may still arrive.
    pub(crate) responses: Responses,
    /// When and by which path the last request was sent; `None` once it is answered.
    pub(in crate::traffic) departure: Option<Departure>,
}

impl Md {
    pub(crate) fn new(spec: MdSpec, owner: Owner, me: Option<MeHandle>) -> Self {
        Self {
            spec,
            owner,
            attached: me.is_some(),
            me,
            offset: 0,
            threshold: spec.threshold,
            users: 0,
            sends: SmallVec::new(),
            dead: false,
            responses: Responses::default(),
            departure: None,
        }
    }

    pub(in crate::traffic) fn is_exhausted(&self) -> bool {
        let full = self.spec.options.contains(MdOptions::MAX_SIZE)
            && u64::from(self.offset) + u64::from(self.spec.max_size) > u64::from(self.spec.length);
        self.threshold == Some(0) || full
    }

    /// Returns whether the descriptor is freed as soon as no operation is under way.
    pub(in crate::traffic) fn is_to_be_freed(&self) -> bool {
        self.dead || (self.spec.unlink_when_exhausted && self.is_exhausted())
    }

    /// Begins an operation.
    pub(in crate::traffic) fn begin(&mut self) {
        self.users += 1;
        self.threshold = self.threshold.map(|left| left.saturating_sub(1));
    }

    /// Returns the number of bytes that an operation may move from `offset` on. An offset beyond the end moves
    /// nothing; in a kernel the subtraction wraps.
    pub(in crate::traffic) fn room(&self, offset: u32) -> u32 {
        let left = self.spec.length.saturating_sub(offset);
        if self.spec.options.contains(MdOptions::MAX_SIZE) {
            self.spec.max_size.min(left)
        } else {
            left
        }
    }
}

/// All descriptors by handle.
#[derive(Debug, Default)]
pub(crate) struct Mds {
    by_handle: FxHashMap<MdHandle, Md>,
    last: u64,
}

impl Mds {
    pub(crate) fn insert(&mut self, md: Md) -> MdHandle {
        self.last += 1;
        let handle = MdHandle(self.last);
        self.by_handle.insert(handle, md);
        handle
    }

    pub(crate) fn get(&self, handle: MdHandle) -> Option<&Md> {
        self.by_handle.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: MdHandle) -> Option<&mut Md> {
        self.by_handle.get_mut(&handle)
    }

    pub(in crate::traffic) fn remove(&mut self, handle: MdHandle) -> Option<Md> {
        self.by_handle.remove(&handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_handle.len()
    }

    /// Returns the number of pings that ask whether a net works.
    #[cfg(test)]
    pub(crate) fn net_checks(&self) -> usize {
        let is_check = |md: &&Md| matches!(md.owner, Owner::NetCheck(_));
        self.by_handle.values().filter(is_check).count()
    }
}
