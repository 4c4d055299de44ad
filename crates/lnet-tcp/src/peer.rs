//! A peer: its connections, its dialling and the messages that wait for a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use lnd::{NiId, SendRequest};
use lnet_types::{ProcessId, Time};
use smallvec::SmallVec;

use crate::dialling::Dialler;
use crate::job::Source;
use crate::stats::DialFailure;

/// What a peer is known by (section 2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeerKey {
    pub(crate) ni: NiId,
    pub(crate) id: ProcessId,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) key: PeerKey,
    /// Where to dial it; `None` when it has no IP address.
    pub(crate) address: Option<SocketAddr>,
    /// Slots of its connections.
    pub(crate) links: SmallVec<[usize; 3]>,
    /// Slots of connections that are only read, to their end: the peer has closed another one.
    pub(crate) parting: SmallVec<[usize; 3]>,
    /// When those are closed, whatever is still to come.
    pub(crate) parting_until: Time,
    /// That of its open connections.
    pub(crate) incarnation: u64,
    pub(crate) dialler: Dialler,
    /// The slot of the handshake of ours that is under way.
    pub(crate) dial_slot: Option<usize>,
    /// Why it could not be dialled the last time, until there is a connection.
    pub(crate) last_failure: Option<DialFailure>,
    /// We dial this peer: a message once found no connection. A peer that dialled us provides what it
    /// needs itself, and is dialled only when that is not enough (section 2.9).
    pub(crate) is_dialled: bool,
    /// Messages that wait for a connection.
    pub(crate) waiting: VecDeque<SendRequest<Source>>,
    /// No later than the first deadline among them.
    pub(crate) waiting_until: Time,
    /// Messages of this peer that wait anywhere.
    pub(crate) queued_messages: usize,
    /// What they count for.
    pub(crate) queued_bytes: u64,
    /// When its connections are to be checked.
    pub(crate) check_at: Time,
    pub(crate) keepalive_at: Time,
    /// The time under which this peer stands among the timers.
    pub(crate) armed: Option<Time>,
}

/// Later than any time that means something.
pub(crate) const NEVER: Time = Time::from_nanos(u64::MAX);

impl Peer {
    pub(crate) fn new(key: PeerKey, address: Option<SocketAddr>) -> Self {
        Self {
            key,
            address,
            links: SmallVec::new(),
            parting: SmallVec::new(),
            parting_until: NEVER,
            incarnation: 0,
            dialler: Dialler::default(),
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

    /// A message waits for a connection, at most until `deadline`.
    pub(crate) fn wait(&mut self, request: SendRequest<Source>, deadline: Time) {
        self.waiting_until = self.waiting_until.min(deadline);
        self.waiting.push_back(SendRequest {
            deadline,
            ..request
        });
    }

    /// The messages whose time is up.
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

    /// All messages that wait for a connection.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<SendRequest<Source>> {
        self.waiting_until = NEVER;
        std::mem::take(&mut self.waiting)
    }

    /// True when nothing would be lost by forgetting this peer.
    pub(crate) fn is_forgettable(&self, now: Time) -> bool {
        self.links.is_empty()
            && self.parting.is_empty()
            && self.waiting.is_empty()
            && !self.dialler.is_active()
            && self.dialler.forget_at().is_none_or(|time| time <= now)
    }

    /// When something is to be done for this peer.
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
