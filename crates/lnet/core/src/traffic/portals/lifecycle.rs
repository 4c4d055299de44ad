//! The end of operations and descriptors: events, unlinking, overdue responses.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Header, MessageType};

use crate::ground::event::{Errno, Event, EventKind};
use crate::ground::io::Output;
use crate::ground::md::{MdHandle, MdOptions};
use crate::ground::status::DropReason;
use crate::ground::timer::Timer;
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::{Md, Owner};
use crate::traffic::portals::responses::Tracked;
use crate::traffic::receive::rx::Origin;
use crate::traffic::send::tx::End;

/// What waits until an input is handled, because it may start further operations.
#[derive(Debug)]
pub(crate) enum Later {
    /// The event of an operation that the core itself started, or of a push of a peer.
    Event {
        /// The owner of the descriptor, whose memory is kept for the event.
        owner: Owner,
        /// The event.
        event: Event,
    },
    /// The ACK to a push of a peer. As in kernels, it follows what the push causes.
    Ack(Origin, Header),
}

impl Traffic {
    /// Notes that a ping of the checker failed at a local interface.
    pub(in crate::traffic) fn check_failed_here(&mut self, md: MdHandle) {
        if let Some(Owner::Check(_, gateway)) = self.mds.get(md).map(|md| md.owner)
            && let Some(gateway) = self.fabric.routes.gateway_mut(gateway)
        {
            gateway.failed_here = true;
        }
    }

    /// Ends one operation of a descriptor with its event. Frees the descriptor if this was its last operation.
    pub(in crate::traffic) fn complete_operation(&mut self, mut event: Event) {
        let Some(md) = self.mds.get_mut(event.md) else {
            return self.broken("the descriptor of an operation");
        };
        let owner = md.owner;
        let Some(users) = md.users.checked_sub(1) else {
            return self.broken("an operation that ends has begun");
        };
        md.users = users;
        // Only this ends the descriptor of a ping or push that failed.
        md.dead |= owner.is_started_here() && event.status.is_err();
        let last = md.users == 0 && md.is_to_be_freed();
        if last && md.dead && event.status.is_ok() {
            event.status = Err(Errno::ETIMEDOUT);
        }
        event.unlinked = last;
        let handle = event.md;
        self.deliver(owner, event);
        if last {
            self.free_md(handle);
        }
    }

    /// Passes an event to the owner of its descriptor. What follows from an event of an operation that the core itself
    /// started waits until the input is handled: it may start further operations.
    fn deliver(&mut self, owner: Owner, event: Event) {
        match owner {
            Owner::User => self.fabric.ground.outputs.push_back(Output::Event(event)),
            Owner::PingTarget(_) => {}
            _ => {
                // The descriptor may be freed before the event is handled, which needs its memory.
                if let Some(buffer) = owner.buffer() {
                    self.buffers.retain(buffer);
                }
                self.later.push_back(Later::Event { owner, event });
            }
        }
    }

    /// Unlinks a descriptor, so that neither messages nor the caller find it. Frees the descriptor now, with an UNLINK
    /// event of this status, or after the last operation that is under way. Cancels the operations whose messages the
    /// LND does not have yet.
    pub(crate) fn unlink_md(&mut self, handle: MdHandle, status: Result<(), Errno>, now: Time) {
        let Some(md) = self.mds.get_mut(handle) else {
            return self.broken("a descriptor to unlink");
        };
        md.dead = true;
        let (users, owner, user) = (md.users, md.owner, md.spec.user);
        let sends = md.sends.clone();
        self.untrack(handle);
        self.detach(handle);
        if users == 0 {
            let mut event = bare_event(EventKind::Unlink, handle, user);
            event.status = status;
            event.unlinked = true;
            self.deliver(owner, event);
            self.free_md(handle);
        }
        for send in sends {
            self.cancel_queued(
                send,
                End::Failed(Errno::ECANCELED, DropReason::NoRoute),
                now,
            );
        }
    }

    /// Detaches a descriptor from its match entry, and removes the entry if it is to be unlinked with the
    /// descriptor.
    pub(in crate::traffic) fn detach(&mut self, handle: MdHandle) {
        let Some(me) = self.mds.get_mut(handle).and_then(|md| md.me.take()) else {
            return;
        };
        if !self.portals.detach(me) {
            self.broken("the match entry of a descriptor");
        }
    }

    fn free_md(&mut self, handle: MdHandle) {
        self.untrack(handle);
        self.detach(handle);
        let Some(md) = self.mds.remove(handle) else {
            return self.broken("a descriptor to free");
        };
        if let Some(buffer) = md.owner.buffer() {
            self.release_buffer(buffer);
        }
        if let Owner::Recovery(_, target) = md.owner {
            self.fabric.recovery_ping_ended(target, handle);
        }
        if let Owner::Check(_, gateway) = md.owner
            && let Some(gateway) = self.fabric.routes.gateway_mut(gateway)
            && gateway.ping == Some(handle)
        {
            gateway.ping = None;
        }
    }

    /// Starts or restarts the wait for a response to an operation.
    pub(in crate::traffic) fn track(&mut self, handle: MdHandle, tracked: Tracked) {
        let Some(md) = self.mds.get_mut(handle) else {
            return self.broken("a descriptor that waits for a response");
        };
        if !is_tracked(
            md,
            tracked.operation,
            self.fabric.globals().response_tracking,
        ) {
            return;
        }
        let before = md.responses.track(tracked);
        self.counters().rst_alloc += u64::from(before.is_none());
        if let Some(before) = before {
            self.fabric
                .ground
                .timers
                .disarm(before.deadline, Timer::Response(handle));
        }
        self.fabric
            .ground
            .timers
            .arm(tracked.deadline, Timer::Response(handle));
    }

    fn untrack(&mut self, handle: MdHandle) {
        let md = self.mds.get_mut(handle);
        if let Some(tracked) = md.and_then(|md| md.responses.untrack()) {
            self.counters().end_wait();
            self.fabric
                .ground
                .timers
                .disarm(tracked.deadline, Timer::Response(handle));
        }
    }

    /// Ends the wait after a response arrived, if no other response is awaited.
    pub(in crate::traffic) fn responded(&mut self, handle: MdHandle) {
        let md = self.mds.get(handle);
        if md.is_some_and(|md| md.responses.are_complete()) {
            self.untrack(handle);
        }
    }

    /// Handles a response that did not arrive in time: reports a TIMEOUT event and unlinks the descriptor.
    // [DATA-11] [RESEND-34]
    pub(crate) fn response_overdue(&mut self, handle: MdHandle, now: Time) {
        let tracked = self.mds.get_mut(handle);
        let tracked =
            tracked.and_then(|md| Some((md.responses.untrack()?, md.owner, md.spec.user)));
        let Some((tracked, owner, user)) = tracked else {
            return self.broken("a descriptor whose response is overdue");
        };
        self.counters().end_wait();
        self.counters().response_timeout_count += 1;
        if tracked.departed {
            self.fabric.no_response_through(tracked.next_hop, now);
            let nid = tracked.next_hop;
            self.fabric.ground.outputs.push_back(Output::Doubt { nid });
        }
        let mut event = bare_event(EventKind::Timeout, handle, user);
        event.status = Err(Errno::ETIMEDOUT);
        event.target = tracked.target;
        event.sender = tracked.next_hop;
        event.message_type = Some(tracked.operation);
        event.portal = tracked.portal;
        event.match_bits = tracked.match_bits;
        self.deliver(owner, event);
        self.unlink_md(handle, Err(Errno::ETIMEDOUT), now);
    }
}

/// Returns whether to track the response: the descriptor's options decide, then the node's setting.
/// Operations of the core are always tracked.
// [RESEND-35]
fn is_tracked(md: &Md, operation: MessageType, setting: u8) -> bool {
    let by_node = match operation {
        MessageType::Get => setting & 1 != 0,
        _ => setting & 2 != 0,
    };
    let options = md.spec.options;
    md.owner != Owner::User
        || !options.contains(MdOptions::NO_TRACK_RESPONSE)
            && (options.contains(MdOptions::TRACK_RESPONSE) || by_node)
}

/// Returns an event that no message caused.
fn bare_event(kind: EventKind, md: MdHandle, user: u64) -> Event {
    Event {
        kind,
        md,
        user,
        status: Ok(()),
        unlinked: false,
        target: ProcessId::ANY,
        initiator: ProcessId::ANY,
        source: ProcessId::ANY,
        sender: Nid::ANY,
        message_type: None,
        portal: 0,
        match_bits: 0,
        rlength: 0,
        mlength: 0,
        offset: 0,
        hdr_data: 0,
    }
}
