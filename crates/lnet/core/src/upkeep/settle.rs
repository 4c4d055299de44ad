//! What follows from an input: the events of pings and pushes, the changes that these events bring, and the ACKs to
//! pushes of peers.
//!
//! An input is handled first. What follows from the input is handled afterwards, since it may start further operations:
//! an answer to a ping may start a push, which may fail at once. So no room calls the room above it.

use crate::ground::event::{Event, EventKind};
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::lifecycle::Later;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Handles everything that waits since the input, and what follows from that, until nothing waits.
    pub(crate) fn settle(&mut self) {
        loop {
            self.traffic.refresh_ping_info();
            match self.traffic.later.pop_front() {
                None => return,
                Some(Later::Event { owner, event }) => {
                    self.event_happened(owner, &event);
                    if let Some(buffer) = owner.buffer() {
                        self.traffic.release_buffer(buffer);
                    }
                }
                Some(Later::Ack(origin, ack)) => {
                    let now = self.traffic.fabric.ground.latest;
                    self.traffic.acknowledge(&origin, ack, now);
                }
            }
        }
    }

    fn event_happened(&mut self, owner: Owner, event: &Event) {
        let now = self.traffic.fabric.ground.latest;
        match owner {
            Owner::User | Owner::PingTarget(_) => {}
            Owner::NetCheck(_) => {
                if event.kind == EventKind::Reply && event.status.is_ok() {
                    self.traffic.fabric.net_works(event.target.nid.net(), now);
                }
            }
            Owner::Check(buffer, gateway) => self.check_event(buffer, gateway, event),
            Owner::Recovery(buffer, target) => self.recovery_event(buffer, target, event, now),
            Owner::Discovery(buffer, asked) => self.discovery_ping_event(buffer, asked, event, now),
            Owner::Claim(buffer, nid) => self.claim_event(buffer, nid, event, now),
            Owner::Push(_, to) => self.push_sent_event(to, event, now),
            Owner::PushTarget(buffer) => self.push_event(buffer, event, now),
        }
    }
}
