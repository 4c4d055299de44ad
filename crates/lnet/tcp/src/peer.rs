//! A peer: its connections, its dialling and the messages that wait for a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use lnd::{NiId, SendRequest};
use lnet_types::{ProcessId, Time};
use lnet_wire::{Ctype, Header, HelloVersion};
use smallvec::SmallVec;

use crate::dialling::Dialler;
use crate::job::Source;
use crate::stats::DialFailure;

/// What identifies a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeerKey {
    pub(crate) ni: NiId,
    pub(crate) id: ProcessId,
}

/// Whether a peer with a 4-byte address reads headers with 16-byte NIDs. They need a
/// HELLO version that not all peers know, so that the peer is dialled with it only if a message
/// needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargeNids {
    /// No message has needed 16-byte NIDs.
    Untried,
    /// A message needed 16-byte NIDs: from now on the peer is dialled in that version.
    Wanted,
    /// The peer rejected that version; it is not tried until the peer's connections have closed.
    Refused,
}

/// A connection of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) slot: usize,
    /// The type, in our naming.
    pub(crate) ctype: Ctype,
    pub(crate) version: HelloVersion,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) key: PeerKey,
    /// The address to dial; `None` if the peer's NID has no IP address.
    pub(crate) address: Option<SocketAddr>,
    /// Its connections.
    pub(crate) links: SmallVec<[Link; 3]>,
    /// True if no connection was missing when this was last looked at, and nothing has changed since.
    pub(crate) is_complete: bool,
    /// Slots of connections that are only read, to their end: the peer has closed another one.
    pub(crate) parting: SmallVec<[usize; 3]>,
    /// When the connections in `parting` are closed, even if more could arrive.
    pub(crate) parting_until: Time,
    /// The incarnation of its open connections.
    pub(crate) incarnation: Option<u64>,
    /// The incarnation whose connections were closed when the present incarnation appeared.
    pub(crate) displaced: Option<u64>,
    pub(crate) dialler: Dialler,
    pub(crate) large_nids: LargeNids,
    /// The slot of our unfinished handshake.
    pub(crate) dial_slot: Option<usize>,
    /// Why the last attempt to dial it failed; `None` once there is a connection.
    pub(crate) last_failure: Option<DialFailure>,
    /// We dial this peer: a message once found no connection. A peer that dialled us opens the
    /// connections that it needs; we dial it only if those are not enough.
    pub(crate) is_dialled: bool,
    /// Messages that wait for a connection.
    pub(crate) waiting: VecDeque<SendRequest<Source>>,
    /// A time no later than the first deadline among the waiting messages.
    pub(crate) waiting_until: Time,
    /// Number of queued messages of this peer, waiting or on a connection.
    pub(crate) queued_messages: usize,
    /// The bytes that those messages count for.
    pub(crate) queued_bytes: u64,
    /// When its connections are checked next.
    pub(crate) check_at: Time,
    pub(crate) keepalive_at: Time,
    /// The time of this peer's timer; `None` if it has none.
    pub(crate) armed: Option<Time>,
}

/// Returns true for headers with NIDs of more than 8 bytes.
pub(crate) const fn is_large(header: &Header) -> bool {
    header.src_nid.is_large() || header.dest_nid.is_large()
}

/// Returns true if connections of this version can carry the header.
pub(crate) fn carries(version: HelloVersion, header: &Header) -> bool {
    version == HelloVersion::V4 || !is_large(header)
}

/// Later than any real time.
pub(crate) const NEVER: Time = Time::from_nanos(u64::MAX);

impl Peer {
    pub(crate) fn new(key: PeerKey, address: Option<SocketAddr>) -> Self {
        Self {
            key,
            address,
            links: SmallVec::new(),
            is_complete: false,
            parting: SmallVec::new(),
            parting_until: NEVER,
            incarnation: None,
            displaced: None,
            dialler: Dialler::default(),
            large_nids: LargeNids::Untried,
            dial_slot: None,
            last_failure: None,
            is_dialled: false,
            waiting: VecDeque::new(),
            waiting_until: NEVER,
            queued_messages: 0,
            queued_bytes: 0,
            check_at: NEVER,
            keepalive_at: Time::ZERO,
            armed: None,
        }
    }

    /// Returns the slots of its connections.
    pub(crate) fn slots(&self) -> SmallVec<[usize; 3]> {
        self.links.iter().map(|link| link.slot).collect()
    }

    pub(crate) fn add_link(&mut self, link: Link) {
        self.links.push(link);
        self.is_complete = false;
    }

    pub(crate) fn remove_link(&mut self, slot: usize) {
        self.links.retain(|link| link.slot != slot);
        self.is_complete = false;
    }

    /// From now on the peer is dialled in the version whose headers have 16-byte NIDs, or in the usual one.
    pub(crate) fn set_large_nids(&mut self, large_nids: LargeNids) {
        self.large_nids = large_nids;
        self.is_complete = false;
    }

    /// Makes a message wait for a connection, at most until `deadline`.
    pub(crate) fn wait(&mut self, request: SendRequest<Source>, deadline: Time) {
        self.waiting_until = self.waiting_until.min(deadline);
        self.waiting.push_back(SendRequest {
            deadline,
            ..request
        });
    }

    /// Returns true if the header needs the version that is dialled only on demand. For a peer with
    /// a large NID the usual version carries every header.
    pub(crate) fn needs_more_than_usual(&self, header: &Header) -> bool {
        !self.key.id.nid.is_large() && is_large(header)
    }

    /// Forgets a rejected version when the peer's connections are gone: the peer may come back with
    /// another release.
    pub(crate) fn forget_refusal(&mut self) {
        if self.links.is_empty() && self.large_nids == LargeNids::Refused {
            self.set_large_nids(LargeNids::Untried);
        }
    }

    /// Removes and returns the messages whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now: Time) -> Vec<SendRequest<Source>> {
        if self.waiting_until > now {
            return Vec::new();
        }
        let mut expired = Vec::new();
        for request in std::mem::take(&mut self.waiting) {
            if request.deadline > now {
                self.waiting.push_back(request);
            } else {
                expired.push(request);
            }
        }
        self.waiting_until = self
            .waiting
            .iter()
            .map(|request| request.deadline)
            .min()
            .unwrap_or(NEVER);
        expired
    }

    /// Removes and returns all messages that wait for a connection.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<SendRequest<Source>> {
        self.waiting_until = NEVER;
        std::mem::take(&mut self.waiting)
    }

    /// Returns true if forgetting this peer would lose nothing.
    pub(crate) fn is_forgettable(&self, now: Time) -> bool {
        self.links.is_empty()
            && self.parting.is_empty()
            && self.waiting.is_empty()
            && !self.dialler.is_active()
            && self.dialler.forget_at().is_none_or(|time| time <= now)
    }

    /// Returns when something is due for this peer.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let idle = self.links.is_empty() && !self.dialler.is_active();
        let forget_at = self.dialler.forget_at().filter(|_| idle);
        let check_at = Some(self.check_at).filter(|_| !self.links.is_empty());
        let waiting_until = Some(self.waiting_until).filter(|_| !self.waiting.is_empty());
        let parting_until = Some(self.parting_until).filter(|_| !self.parting.is_empty());
        [
            self.dialler.next_due(),
            forget_at,
            check_at,
            waiting_until,
            parting_until,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
