//! Becoming a router, and ceasing to be one, without losing a message (section 2.6.2 of
//! lnet-selection).
//!
//! ```text
//!            start                W later
//!  off ─────────────▶ starting ───────────▶ on
//!   ▲                     │                  │  W = check interval + ping timeout: by then every
//!   │                     └───── stop ───────┤  peer that checks its gateways has asked us
//!   │  W later, when all buffers are free    ▼
//!   └────────── 3 W later at most ─────── stopping
//! ```
//!
//! In all states but `off` messages are forwarded; peers are told so only while it is `on`.

use std::time::Duration;

use lnet_types::Time;

use crate::Core;
use crate::record::Input;
use crate::timer::Timer;

/// How often a node that is stopping looks whether its buffers are free.
const LOOK: Duration = Duration::from_secs(1);

/// What a router tells its peers, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoutingState {
    /// Nothing is forwarded.
    Off,
    /// Messages are forwarded, and nobody has been told yet.
    Starting,
    /// Messages are forwarded.
    On,
    /// Messages are forwarded, but no more should come.
    Stopping,
}

/// A change that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Starting { on: Time },
    Stopping { look: Time, off: Time },
}

impl Change {
    fn due(self) -> Time {
        match self {
            Self::Starting { on } => on,
            Self::Stopping { look, .. } => look,
        }
    }
}

impl Core {
    /// Whether this node routes.
    #[must_use]
    pub fn routing(&self) -> RoutingState {
        match self.routing_change {
            Some(Change::Starting { .. }) => RoutingState::Starting,
            Some(Change::Stopping { .. }) => RoutingState::Stopping,
            None if self.config.routing => RoutingState::On,
            None => RoutingState::Off,
        }
    }

    /// Becomes a router; peers hear of it when it has forwarded for a while.
    pub fn start_routing(&mut self, now: Time) {
        let input = self.noted(|| Input::StartRouting { now });
        self.take_in(input, |core| core.start_routing_unrecorded(now));
    }

    fn start_routing_unrecorded(&mut self, now: Time) {
        if matches!(self.routing(), RoutingState::Starting | RoutingState::On) {
            return;
        }
        self.config.routing = true;
        let on = now + self.config.globals.quiet_window();
        self.change_routing(Some(Change::Starting { on }));
        self.watch_nets(now);
        self.rebuild_ping_info();
    }

    /// Ceases to be a router: peers hear of it at once, and what they still send is forwarded for a
    /// while.
    pub fn stop_routing(&mut self, now: Time) {
        let input = self.noted(|| Input::StopRouting { now });
        self.take_in(input, |core| core.stop_routing_unrecorded(now));
    }

    fn stop_routing_unrecorded(&mut self, now: Time) {
        if matches!(self.routing(), RoutingState::Off | RoutingState::Stopping) {
            return;
        }
        let window = self.config.globals.quiet_window();
        let (look, off) = (now + window, now + window.saturating_mul(3));
        self.change_routing(Some(Change::Stopping { look, off }));
        self.rebuild_ping_info();
    }

    /// Becomes a router, or ceases to be one, at once: what waits is dropped.
    pub fn set_routing(&mut self, enabled: bool, now: Time) {
        let input = self.noted(|| Input::SetRouting { enabled, now });
        self.take_in(input, |core| core.set_routing_unrecorded(enabled, now));
    }

    fn set_routing_unrecorded(&mut self, enabled: bool, now: Time) {
        self.change_routing(None);
        if self.config.routing != enabled {
            self.config.routing = enabled;
            if !enabled {
                self.stop_forwarding(now);
            }
            self.watch_nets(now);
        }
        self.rebuild_ping_info();
    }

    fn change_routing(&mut self, change: Option<Change>) {
        if let Some(before) = std::mem::replace(&mut self.routing_change, change) {
            self.timers.disarm(before.due(), Timer::Routing);
        }
        if let Some(change) = change {
            self.timers.arm(change.due(), Timer::Routing);
        }
    }

    /// A change goes on, or is over.
    pub(crate) fn routing_due(&mut self, now: Time) {
        match self.routing_change {
            Some(Change::Starting { .. }) => self.set_routing(true, now),
            Some(Change::Stopping { off, .. }) if now < off && !self.pools.are_free() => {
                let look = off.min(now + LOOK);
                self.change_routing(Some(Change::Stopping { look, off }));
            }
            Some(Change::Stopping { .. }) => self.set_routing(false, now),
            None => {}
        }
    }
}
