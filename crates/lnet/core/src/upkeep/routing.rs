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

use crate::fabric::own::{RoutingChange, RoutingState};
use crate::ground::timer::Timer;
use crate::upkeep::Upkeep;

/// The time between two checks whether the buffers of a stopping router are free.
const LOOK: Duration = Duration::from_secs(1);

impl Upkeep {
    pub(crate) fn start_routing(&mut self, now: Time) {
        if matches!(
            self.traffic.fabric.routing(),
            RoutingState::Starting | RoutingState::On
        ) {
            return;
        }
        self.traffic.fabric.ground.config.routing = true;
        let on = now + self.globals().quiet_window();
        self.change_routing(Some(RoutingChange::Starting { on }));
        self.traffic.fabric.watch_nets(now);
        self.traffic.rebuild_ping_info();
    }

    pub(crate) fn stop_routing(&mut self, now: Time) {
        if matches!(
            self.traffic.fabric.routing(),
            RoutingState::Off | RoutingState::Stopping
        ) {
            return;
        }
        let window = self.globals().quiet_window();
        let (look, off) = (now + window, now + window.saturating_mul(3));
        self.change_routing(Some(RoutingChange::Stopping { look, off }));
        self.traffic.rebuild_ping_info();
    }

    pub(crate) fn set_routing(&mut self, enabled: bool, now: Time) {
        self.change_routing(None);
        if self.traffic.fabric.ground.config.routing != enabled {
            self.traffic.fabric.ground.config.routing = enabled;
            if !enabled {
                self.traffic.stop_forwarding(now);
            }
            self.traffic.fabric.watch_nets(now);
        }
        self.traffic.rebuild_ping_info();
    }

    fn change_routing(&mut self, change: Option<RoutingChange>) {
        if let Some(before) = std::mem::replace(&mut self.traffic.fabric.own.routing_change, change)
        {
            self.traffic
                .fabric
                .ground
                .timers
                .disarm(before.due(), Timer::Routing);
        }
        if let Some(change) = change {
            self.traffic
                .fabric
                .ground
                .timers
                .arm(change.due(), Timer::Routing);
        }
    }

    /// Continues or completes a change of routing.
    pub(in crate::upkeep) fn routing_due(&mut self, now: Time) {
        match self.traffic.fabric.own.routing_change {
            Some(RoutingChange::Starting { .. }) => self.set_routing(true, now),
            Some(RoutingChange::Stopping { off, .. })
                if now < off && !self.traffic.pools.are_free() =>
            {
                let look = off.min(now + LOOK);
                self.change_routing(Some(RoutingChange::Stopping { look, off }));
            }
            Some(RoutingChange::Stopping { .. }) => self.set_routing(false, now),
            None => {}
        }
    }
}
