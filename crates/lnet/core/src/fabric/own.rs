//! What this node says of itself to others, beside its interfaces: the numbers of its information, and whether it
//! routes.

use std::time::Duration;

use lnet_types::Time;

use crate::fabric::Fabric;

/// The numbers and states in this node's information about itself.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// The sequence number in the information, from 1: it counts changes of the set of interfaces, not of their
    /// statuses.
    pub(crate) sequence: u32,
    /// The number of changes of the information of any kind.
    pub(crate) version: u32,
    /// What has changed since the information was built.
    outdated: Outdated,
    /// True if pushes are accepted or were accepted earlier.
    pub(crate) has_discovered: bool,
    /// True if a peer has acknowledged a push of this node, so that changes must be pushed to it.
    pub(crate) has_pushed: bool,
    /// A change of routing that is under way.
    pub(crate) routing_change: Option<RoutingChange>,
}

/// What has changed since the information was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outdated {
    /// Nothing.
    #[default]
    Nothing,
    /// The status of a net.
    Status,
    /// The status of an interface, which counts as a change of the set.
    Interfaces,
}

impl Own {
    /// Notes a change; the information is built anew before anybody reads it.
    pub(in crate::fabric) fn changes(&mut self, what: Outdated) {
        self.outdated = self.outdated.max(what);
    }

    /// Returns what has changed, and forgets it.
    pub(crate) fn take_changes(&mut self) -> Outdated {
        std::mem::take(&mut self.outdated)
    }
}

/// A change of routing that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RoutingChange {
    /// The node forwards, and advertises this from `on`.
    Starting { on: Time },
    /// The node looks at `look` whether its buffers are free, and stops at `off` at the latest.
    Stopping { look: Time, off: Time },
}

impl RoutingChange {
    /// Returns when the change goes on.
    pub(crate) fn due(self) -> Time {
        match self {
            Self::Starting { on } => on,
            Self::Stopping { look, .. } => look,
        }
    }
}

/// The state of routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoutingState {
    /// The node forwards no messages.
    Off,
    /// The node forwards messages, but does not advertise this yet.
    Starting,
    /// The node forwards messages and advertises this.
    On,
    /// The node still forwards messages, but advertises that it does not, so that peers stop sending.
    Stopping,
}

impl Fabric {
    /// Returns the state of routing.
    pub(crate) fn routing(&self) -> RoutingState {
        match self.own.routing_change {
            Some(RoutingChange::Starting { .. }) => RoutingState::Starting,
            Some(RoutingChange::Stopping { .. }) => RoutingState::Stopping,
            None if self.ground.config.routing => RoutingState::On,
            None => RoutingState::Off,
        }
    }

    /// Returns whether this node routes, or will when it has started; false from the moment when it begins to stop.
    pub(crate) fn is_routing_on(&self) -> bool {
        matches!(self.routing(), RoutingState::Starting | RoutingState::On)
    }

    /// Returns how long a change of routing still takes, at least and at most; `None` if no change is under way. A node
    /// that stops waits for its buffers, so that the two times differ.
    pub(crate) fn routing_change_left(&self, now: Time) -> Option<(Duration, Duration)> {
        let (soonest, latest) = match self.own.routing_change? {
            RoutingChange::Starting { on } => (on, on),
            RoutingChange::Stopping { look, off } => (look, off),
        };
        Some((soonest.saturating_since(now), latest.saturating_since(now)))
    }
}
