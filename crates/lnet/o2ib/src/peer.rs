//! A peer: its connections, and the messages that wait for the first of them.

use std::collections::VecDeque;

use lnd::{NiId, SendRequest};
use lnet_types::{Nid, Time};

use crate::device::ConnId;

/// The number of races in a row after which the peer with the lower NID is let through.
// [IB-10]
pub(crate) const RACES_MAX: u8 = 20;

/// The number of reconnections in a row, after which the next waits for a second.
// [IB-15]
pub(crate) const RECONNECTS_MAX: u8 = 10;

#[derive(Debug)]
pub(crate) struct Peer<P> {
    pub(crate) ni: NiId,
    pub(crate) nid: Nid,
    /// Established connections.
    pub(crate) open: Vec<ConnId>,
    /// Connections that we dial.
    pub(crate) dialled: Vec<ConnId>,
    /// Connections that we have accepted and that are not established yet.
    pub(crate) accepted: Vec<ConnId>,
    /// Messages that wait for a connection, each with its deadline.
    pub(crate) waiting: VecDeque<SendRequest<P>>,
    /// The incarnation of its NI; `None` if it is not known.
    pub(crate) incarnation: Option<u64>,
    /// The depth and fragments that the peer accepted at most, as far as it said so.
    pub(crate) depth_max: u16,
    pub(crate) fragments_max: u16,
    /// Races in a row that were lost by the peer.
    pub(crate) races: u8,
    /// Reconnections in a row.
    pub(crate) reconnects: u8,
    /// When to dial again.
    pub(crate) dial_at: Option<Time>,
    /// The connection that the next message goes to, as a number that wraps.
    pub(crate) turn: usize,
    /// True if the node above was last told that the peer is alive.
    pub(crate) told_alive: bool,
}

impl<P> Peer<P> {
    pub(crate) fn new(ni: NiId, nid: Nid) -> Self {
        Self {
            ni,
            nid,
            open: Vec::new(),
            dialled: Vec::new(),
            accepted: Vec::new(),
            waiting: VecDeque::new(),
            incarnation: None,
            depth_max: u16::MAX,
            fragments_max: u16::MAX,
            races: 0,
            reconnects: 0,
            dial_at: None,
            turn: 0,
            told_alive: false,
        }
    }

    /// Returns the number of connections in any state.
    pub(crate) fn connections(&self) -> usize {
        self.open.len() + self.dialled.len() + self.accepted.len()
    }

    /// Returns true if a connection may come without further dialling.
    pub(crate) fn is_connecting(&self) -> bool {
        !self.dialled.is_empty() || !self.accepted.is_empty() || self.dial_at.is_some()
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        for list in [&mut self.open, &mut self.dialled, &mut self.accepted] {
            list.retain(|&other| other != conn);
        }
    }

    /// Returns the established connection whose turn it is.
    pub(crate) fn next_open(&mut self) -> Option<ConnId> {
        self.turn = self.turn.wrapping_add(1);
        let index = self.turn.checked_rem(self.open.len())?;
        self.open.get(index).copied()
    }
}
