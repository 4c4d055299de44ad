//! Starts and stops routing without losing a message: [GATE-34], [GATE-35].
//!
//! ```text
//!            start                W later
//!  off ─────────────▶ starting ───────────▶ on
//!   ▲                     │                  │  W = check interval + ping timeout: by then every
//!   │                     └───── stop ───────┤  peer that checks its gateways has pinged it
//!   │  W later, when all buffers are free    ▼
//!   └────────── 3 W later at most ─────── stopping
//! ```
//!
//! Messages are forwarded in all states except `off`. The ping information says that the node routes only in the state
//! `on`.

use std::time::Duration;

use lnet_types::Time;

use crate::Core;
use crate::own::RoutingChange;
use crate::timer::Timer;

/// The time between two checks whether the buffers of a stopping router are free.
const LOOK: Duration = Duration::from_secs(1);

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

pub(crate) fn start_routing(core: &mut Core, now: Time) {
    if matches!(core.routing(), RoutingState::Starting | RoutingState::On) {
        return;
    }
    core.config.routing = true;
    let on = now + core.config.globals.quiet_window();
    core.change_routing(Some(RoutingChange::Starting { on }));
    core.watch_nets(now);
    core.rebuild_ping_info();
}

pub(crate) fn stop_routing(core: &mut Core, now: Time) {
    if matches!(core.routing(), RoutingState::Off | RoutingState::Stopping) {
        return;
    }
    let window = core.config.globals.quiet_window();
    let (look, off) = (now + window, now + window.saturating_mul(3));
    core.change_routing(Some(RoutingChange::Stopping { look, off }));
    core.rebuild_ping_info();
}

pub(crate) fn set_routing(core: &mut Core, enabled: bool, now: Time) {
    core.change_routing(None);
    if core.config.routing != enabled {
        core.config.routing = enabled;
        if !enabled {
            core.stop_forwarding(now);
        }
        core.watch_nets(now);
    }
    core.rebuild_ping_info();
}

impl Core {
    /// Returns the state of routing.
    #[must_use]
    pub fn routing(&self) -> RoutingState {
        match self.own.routing_change {
            Some(RoutingChange::Starting { .. }) => RoutingState::Starting,
            Some(RoutingChange::Stopping { .. }) => RoutingState::Stopping,
            None if self.config.routing => RoutingState::On,
            None => RoutingState::Off,
        }
    }

    /// Returns whether this node routes, or will when it has started; false from the moment when it begins to stop.
    #[must_use]
    pub fn is_routing_on(&self) -> bool {
        matches!(self.routing(), RoutingState::Starting | RoutingState::On)
    }

    /// Returns how long a change of routing still takes, at least and at most; `None` if no change is under way. A node
    /// that stops waits for its buffers, so that the two times differ.
    #[must_use]
    pub fn routing_change_left(&self, now: Time) -> Option<(Duration, Duration)> {
        let (soonest, latest) = match self.own.routing_change? {
            RoutingChange::Starting { on } => (on, on),
            RoutingChange::Stopping { look, off } => (look, off),
        };
        Some((soonest.saturating_since(now), latest.saturating_since(now)))
    }

    fn change_routing(&mut self, change: Option<RoutingChange>) {
        if let Some(before) = std::mem::replace(&mut self.own.routing_change, change) {
            self.timers.disarm(before.due(), Timer::Routing);
        }
        if let Some(change) = change {
            self.timers.arm(change.due(), Timer::Routing);
        }
    }

    /// Continues or completes a change of routing.
    pub(crate) fn routing_due(&mut self, now: Time) {
        match self.own.routing_change {
            Some(RoutingChange::Starting { .. }) => self.set_routing(true, now),
            Some(RoutingChange::Stopping { off, .. }) if now < off && !self.pools.are_free() => {
                let look = off.min(now + LOOK);
                self.change_routing(Some(RoutingChange::Stopping { look, off }));
            }
            Some(RoutingChange::Stopping { .. }) => self.set_routing(false, now),
            None => {}
        }
    }
}
