//! A stream of what happens in a node, for watchers: drops, attempts to send, health, routes, connections, each with
//! its reason.
//!
//! Watching may lose events on purpose. While at least one watcher exists, the core keeps the last [`KEPT_MAX`]
//! events; a watcher that is slower than the node learns how many events it missed. Without a watcher the core keeps
//! no event.

use std::collections::VecDeque;

use lnet_types::{Nid, Time};
use lnet_wire::MessageType;

use crate::fabric::Fabric;
use crate::fabric::gateways::obstacle::RouteFault;
use crate::ground::event::Errno;
use crate::ground::health::Health;
use crate::ground::ids::PeerNiId;
use crate::ground::status::{DropReason, MessageStatus};

/// The limit of events that are kept, some 500 KB.
const KEPT_MAX: usize = 4096;

/// An event and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// When the core took the input that caused the event.
    pub at: Time,
    /// What happened.
    pub what: Watched,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A message that arrived was dropped.
    Dropped {
        /// The interface that received the message; `None` if the interface was removed.
        ni: Option<Nid>,
        /// The last hop.
        sender: Nid,
        /// The type of the message.
        message: MessageType,
        /// Payload, in bytes.
        length: u32,
        /// The reason of the drop.
        reason: DropReason,
    },
    /// A message failed before the core handed it to the LND.
    GivenUp {
        /// Its destination.
        target: Nid,
        /// The type of the message.
        message: MessageType,
        /// Payload, in bytes.
        length: u32,
        /// The error that its sender receives.
        errno: Errno,
        /// The drop reason that a forwarded message is counted under; `None` for a message of this node.
        reason: Option<DropReason>,
    },
    /// The LND reported the end of an attempt to send.
    Attempt(WatchedAttempt),
    /// The health of an interface of this node changed.
    NiHealth {
        /// The interface.
        nid: Nid,
        /// Its health before.
        before: Health,
        /// Its health now.
        health: Health,
        /// The reason of the change.
        cause: HealthCause,
    },
    /// The health of an interface of a peer changed.
    PeerNiHealth {
        /// The interface.
        nid: Nid,
        /// Its health before.
        before: Health,
        /// Its health now.
        health: Health,
        /// The reason of the change.
        cause: HealthCause,
    },
    /// The LND reported that an interface of this node has a fatal error, such as a link that is down, or no longer
    /// has one.
    Fatal {
        /// The interface.
        nid: Nid,
        /// True if the interface has a fatal error now.
        fatal: bool,
    },
    /// The number of routes through a gateway that are down has changed.
    Routes {
        /// The gateway.
        gateway: Nid,
        /// Number of the gateway's routes that are down.
        down: u32,
        /// Number of the gateway's routes.
        all: u32,
        /// The reason why the first route that is down is down.
        fault: Option<RouteFault>,
    },
    /// A configured peer or a gateway has lost its last connection, or has a connection again.
    Peer {
        /// The interface of the peer.
        nid: Nid,
        /// True if there is a connection.
        connected: bool,
    },
}

/// An attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedAttempt {
    /// The interface that sent the message; `None` if the interface was removed.
    pub ni: Option<Nid>,
    /// The next hop.
    pub next_hop: Nid,
    /// The destination.
    pub target: Nid,
    /// The type of the message.
    pub message: MessageType,
    /// Payload, in bytes.
    pub length: u32,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// How the attempt ended.
    pub status: MessageStatus,
    /// True if the message waits for another attempt.
    pub again: bool,
}

/// The reason why a health value changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCause {
    /// A message was sent.
    Sent,
    /// A message was received.
    Received,
    /// An attempt to send failed.
    Failed(MessageStatus),
    /// No response came in time.
    NoResponse,
    /// A recovery ping was answered.
    Recovered,
    /// The node that owns the interface reported the interface up or down.
    Told,
    /// An administrator set the value.
    Administrator,
}

/// A reader of the events: [`Core::watch`](crate::Core::watch) makes one, [`Core::unwatch`](crate::Core::unwatch) ends
/// it.
#[derive(Debug)]
#[must_use]
pub struct Watcher {
    /// The number of the next event to read.
    next: u64,
    successes: bool,
}

/// The events that watchers have yet to read.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    watchers: u32,
    /// Watchers that also want successful attempts to send.
    of_successes: u32,
    kept: VecDeque<WatchedEvent>,
    /// The number of the next event.
    next: u64,
}

impl Watch {
    /// Decides whether to keep the event of an attempt to send that ended with this status.
    pub(crate) const fn wants(&self, status: MessageStatus) -> bool {
        match status {
            MessageStatus::Ok => self.of_successes > 0,
            _ => self.watchers > 0,
        }
    }

    fn push(&mut self, event: WatchedEvent) {
        if self.watchers == 0 {
            return;
        }
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
        self.next += 1;
    }

    /// Begins a watch.
    pub(crate) fn begin(&mut self, successes: bool) -> Watcher {
        self.watchers += 1;
        self.of_successes += u32::from(successes);
        Watcher {
            next: self.next,
            successes,
        }
    }

    /// Ends a watch.
    pub(crate) fn end(&mut self, watcher: Watcher) {
        self.watchers = self.watchers.saturating_sub(1);
        let successes = u32::from(watcher.successes);
        self.of_successes = self.of_successes.saturating_sub(successes);
        if self.watchers == 0 {
            self.kept = VecDeque::new();
        }
    }

    /// Returns the next events of a watcher, at most `most`, and how many events before them were lost.
    pub(crate) fn read(&self, watcher: &mut Watcher, most: usize) -> (Vec<WatchedEvent>, u64) {
        let first = self.first();
        let lost = first.saturating_sub(watcher.next);
        watcher.next += lost;
        let skipped = (watcher.next - first) as usize;
        let events = self.kept.iter().skip(skipped).take(most);
        let events: Vec<WatchedEvent> = events.copied().collect();
        watcher.next += events.len() as u64;
        (events, lost)
    }

    /// Returns the number of the oldest event that is kept.
    fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }
}

impl Fabric {
    pub(crate) fn happened(&mut self, what: Watched) {
        let at = self.ground.latest;
        self.watch.push(WatchedEvent { at, what });
    }

    pub(in crate::fabric) fn ni_health_happened(
        &mut self,
        nid: Nid,
        (before, health): (Health, Health),
        cause: HealthCause,
    ) {
        if before != health {
            self.happened(Watched::NiHealth {
                nid,
                before,
                health,
                cause,
            });
        }
    }

    /// Reports the health of a peer's interface if it differs from `before`.
    pub(in crate::fabric) fn peer_health_happened(
        &mut self,
        id: PeerNiId,
        before: Health,
        cause: HealthCause,
    ) {
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let (nid, health) = (peer_ni.nid, peer_ni.health);
        if before != health {
            self.happened(Watched::PeerNiHealth {
                nid,
                before,
                health,
                cause,
            });
        }
    }
}
