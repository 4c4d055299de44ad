//! The state machine of the discovery of one peer, as two tables.
//!
//! An event changes the state as the row of [`EVENTS`] for that event says. Then the first row of [`STEPS`] that
//! applies gives the next action.

use std::collections::VecDeque;

use bitflags::bitflags;
use lnet_types::{Net, Nid, Time};
use lnet_wire::PING_BUFFER_MIN;

use crate::fabric::Fabric;
use crate::ground::event::Errno;
use crate::ground::io::TxId;
use crate::ground::md::MdHandle;
use crate::ground::timer::Timer;

bitflags! {
    /// The state of a peer, with the numbers that `lnetctl peer show -v 4` prints.
    // [PEER-20]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PeerState: u32 {
        /// The peer is Multi-Rail.
        const MULTI_RAIL = 1 << 0;
        /// The peer has discovery switched off.
        const NO_DISCOVERY = 1 << 1;
        /// The peer routes.
        const ROUTER_ENABLED = 1 << 2;
        /// An administrator has configured the peer.
        const CONFIGURED = 1 << 3;
        /// A discovery has completed successfully at least once.
        const DISCOVERED = 1 << 4;
        /// The next message starts another discovery.
        const REDISCOVER = 1 << 5;
        /// Discovery is under way.
        const DISCOVERING = 1 << 6;
        /// Ping information of the peer is ready to be merged.
        const DATA_PRESENT = 1 << 7;
        /// The last ping information of the peer has been merged.
        const NIDS_UPTODATE = 1 << 8;
        /// A ping is under way.
        const PING_SENT = 1 << 9;
        /// A push is under way.
        const PUSH_SENT = 1 << 10;
        /// The ping has failed.
        const PING_FAILED = 1 << 11;
        /// The push has failed.
        const PUSH_FAILED = 1 << 12;
        /// Send a ping even if the peer's information is up to date.
        const FORCE_PING = 1 << 13;
        /// Send a push even if the peer has acknowledged the present information.
        const FORCE_PUSH = 1 << 14;
        /// Discovery may not change the primary NID.
        const LOCK_PRIMARY = 1 << 20;
    }
}

/// The events in the discovery of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A message for the peer was started.
    Wanted,
    /// A discovery was requested.
    Forced,
    /// The ping was answered, and the answer is valid.
    Answered,
    /// The answer was truncated: a larger buffer is needed.
    CutOff,
    /// The ping was answered, but a push of the peer arrived after the ping was sent: it is unknown which of the two
    /// is newer.
    Overtaken,
    /// The ping failed.
    PingFailed,
    /// The peer has acknowledged this node's push.
    Acknowledged,
    /// The push failed.
    PushFailed,
    /// The peer has pushed valid information.
    Pushed,
    /// The peer has pushed invalid information.
    BadPush,
    /// A gateway has answered the router checker, and the answer is valid.
    Checked,
    /// A NID that another peer also names was pinged, and the answer shows that it is this peer's.
    Granted,
    /// The peer has restarted.
    Restarted,
    /// This node's own information has changed.
    Changed,
}

/// The change of the state by one event.
struct Row {
    /// The section of the protocol's description that the row follows.
    #[cfg_attr(not(test), expect(dead_code, reason = "a citation, which tests check"))]
    section: &'static str,
    event: Happening,
    clear: PeerState,
    set: PeerState,
}

macro_rules! bits {
    ($($name:ident)*) => { PeerState::empty()$(.union(PeerState::$name))* };
}

const EVENTS: [Row; 14] = [
    Row {
        section: "7.1",
        event: Happening::Wanted,
        clear: bits!(),
        set: bits!(DISCOVERING),
    },
    Row {
        section: "7.1",
        event: Happening::Forced,
        clear: bits!(),
        set: bits!(DISCOVERING FORCE_PING),
    },
    Row {
        section: "7.3",
        // The answer may come after a failed push has ended the discovery.
        event: Happening::Answered,
        clear: bits!(PING_SENT),
        set: bits!(DISCOVERING DATA_PRESENT),
    },
    Row {
        section: "6.7",
        event: Happening::CutOff,
        clear: bits!(PING_SENT),
        set: bits!(FORCE_PING),
    },
    Row {
        section: "7.4",
        event: Happening::Overtaken,
        clear: bits!(PING_SENT),
        set: bits!(DISCOVERING FORCE_PING),
    },
    Row {
        section: "7.3",
        event: Happening::PingFailed,
        clear: bits!(PING_SENT),
        set: bits!(PING_FAILED),
    },
    Row {
        section: "7.3",
        event: Happening::Acknowledged,
        clear: bits!(PUSH_SENT),
        set: bits!(),
    },
    Row {
        section: "7.3",
        event: Happening::PushFailed,
        clear: bits!(PUSH_SENT),
        set: bits!(PUSH_FAILED),
    },
    Row {
        section: "7.4, step 7",
        event: Happening::Pushed,
        clear: bits!(NIDS_UPTODATE),
        set: bits!(DISCOVERING DATA_PRESENT),
    },
    Row {
        section: "7.4, step 3",
        event: Happening::BadPush,
        clear: bits!(NIDS_UPTODATE),
        set: bits!(DISCOVERING FORCE_PING),
    },
    Row {
        section: "8.2",
        event: Happening::Checked,
        clear: bits!(NIDS_UPTODATE),
        set: bits!(DISCOVERING DATA_PRESENT FORCE_PUSH),
    },
    Row {
        section: "7.5",
        event: Happening::Granted,
        clear: bits!(NIDS_UPTODATE),
        set: bits!(DISCOVERING DATA_PRESENT),
    },
    Row {
        section: "6.5",
        // The peer has lost what it knew of this node. Its information counts from sequence number 1 again, so the
        // number does not show whether the information has changed. The next message to the peer waits until the peer
        // has been pinged.
        event: Happening::Restarted,
        clear: bits!(NIDS_UPTODATE),
        set: bits!(REDISCOVER),
    },
    Row {
        section: "6.5",
        event: Happening::Changed,
        clear: bits!(),
        set: bits!(DISCOVERING),
    },
];

/// The next action of a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Merge the peer's information, then take the next step.
    Merge,
    /// The discovery has failed: the messages that wait fail, too.
    Fail,
    /// Send a ping.
    Ping,
    /// Send a push.
    Push,
    /// Wait for an answer, or do nothing because there is nothing to do.
    Wait,
    /// The discovery is complete: the messages that wait are sent.
    Complete,
}

/// What follows from a state: the step that a peer in this state takes next.
struct Step {
    #[cfg_attr(not(test), expect(dead_code, reason = "a citation, which tests check"))]
    section: &'static str,
    /// The step applies if all of these bits are set …
    all: PeerState,
    /// … none of these is set …
    none: PeerState,
    /// … and, if this is true, a push is needed.
    needs_push: bool,
    action: Action,
    clear: PeerState,
    set: PeerState,
}

/// The defaults of a step.
const NO_STEP: Step = Step {
    section: "",
    all: bits!(),
    none: bits!(),
    needs_push: false,
    action: Action::Wait,
    clear: bits!(),
    set: bits!(),
};

/// The steps in order; the first that applies is taken. After an invalid answer a kernel sends another ping at once,
/// without a limit. Here the discovery fails instead.
// [PING-16]
const STEPS: [Step; 10] = [
    Step {
        section: "7.3",
        none: bits!(DISCOVERING),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 2",
        all: bits!(DATA_PRESENT),
        action: Action::Merge,
        clear: bits!(DATA_PRESENT),
        set: bits!(NIDS_UPTODATE),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 3",
        all: bits!(PING_FAILED),
        action: Action::Fail,
        clear: bits!(PING_FAILED DISCOVERING),
        set: bits!(FORCE_PING REDISCOVER),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 4",
        all: bits!(PUSH_FAILED),
        action: Action::Fail,
        clear: bits!(PUSH_FAILED DISCOVERING),
        set: bits!(REDISCOVER),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 5",
        all: bits!(PING_SENT),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 5",
        all: bits!(FORCE_PING),
        action: Action::Ping,
        clear: bits!(FORCE_PING),
        set: bits!(PING_SENT),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 5",
        none: bits!(NIDS_UPTODATE),
        action: Action::Ping,
        set: bits!(PING_SENT),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 6",
        all: bits!(PUSH_SENT),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 6",
        all: bits!(MULTI_RAIL),
        needs_push: true,
        action: Action::Push,
        clear: bits!(FORCE_PUSH),
        set: bits!(PUSH_SENT),
        ..NO_STEP
    },
    Step {
        section: "7.3, rule 7",
        action: Action::Complete,
        clear: bits!(DISCOVERING REDISCOVER FORCE_PUSH),
        set: bits!(DISCOVERED),
        ..NO_STEP
    },
];

/// The facts about this node that the discovery of a peer depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    /// True if discovery is switched on at this node.
    pub(in crate::fabric) enabled: bool,
    /// The version of this node's ping information.
    pub(in crate::fabric) version: u32,
}

/// The last information of a peer about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// True if the information came in a push, false if it was the answer to a ping.
    pub pushed: bool,
    /// When the information was merged.
    pub at: Time,
    /// The peer's feature bits.
    pub features: u32,
    /// Number of interfaces in the information, without loopback.
    pub nids: u32,
}

/// The state of the discovery of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryView {
    /// The state, as `lnetctl peer show -v 4` prints it.
    pub state: PeerState,
    /// When a discovery last completed successfully.
    pub finished: Option<Time>,
    /// The reason why the last discovery failed; `None` if it did not.
    pub failure: Option<Errno>,
    /// The last information of the peer about itself.
    pub heard: Option<Heard>,
}

/// The discovery of one peer.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    view: DiscoveryView,
    /// The version of this node's information that the peer has acknowledged; `None` before the first acknowledgement.
    acknowledged: Option<u32>,
    /// The last information of the peer, until it is merged.
    data: Vec<u8>,
    /// True if `data` came in a push.
    pushed: bool,
    /// True if a push of the peer arrived after the last ping was sent.
    overtaken: bool,
    /// Bytes that the complete information of the peer needs.
    info_size: u32,
    /// The ping under way. Events of other pings, which belonged to a peer that became part of this one, are ignored.
    pub(crate) ping: Option<MdHandle>,
    /// The push under way.
    pub(crate) push: Option<MdHandle>,
    /// The NIDs that the last answer used: this node's and the peer's. The push that follows uses the same
    /// pair.
    pub(crate) answered: Option<(Nid, Nid)>,
    /// A NID of another peer that the next merge may assign to this one.
    granted: Option<Nid>,
    /// Messages that wait for the end of the discovery.
    pub(crate) parked: VecDeque<TxId>,
}

impl Discovery {
    /// Changes the state by an event.
    pub(crate) fn happens(&mut self, event: Happening) {
        if let Some(row) = EVENTS.iter().find(|row| row.event == event) {
            self.view.state.remove(row.clear);
            self.view.state.insert(row.set);
        }
    }

    /// Returns the next action, and updates the state as if the action is under way.
    pub(crate) fn step(&mut self, ours: &Ours) -> Action {
        let applies = |step: &&Step| {
            self.view.state.contains(step.all)
                && (step.none.is_empty() || !self.view.state.intersects(step.none))
                && (!step.needs_push || self.needs_push(ours))
        };
        let Some(step) = STEPS.iter().find(applies) else {
            return Action::Wait;
        };
        self.view.state.remove(step.clear);
        self.view.state.insert(step.set);
        step.action
    }

    /// Returns whether a push is needed: it is forced, or discovery is on at both ends and the peer does not have the
    /// present information. The row of the table checks the bit MULTI_RAIL.
    // [PUSH-3]
    fn needs_push(&self, ours: &Ours) -> bool {
        let is_behind = self.acknowledged != Some(ours.version);
        let listens = !self.view.state.contains(PeerState::NO_DISCOVERY);
        self.view.state.contains(PeerState::FORCE_PUSH) || listens && ours.enabled && is_behind
    }

    /// Returns whether a message may go to the peer at once.
    pub(in crate::fabric) fn is_up_to_date(&self, ours: &Ours) -> bool {
        let known = bits!(DISCOVERED NIDS_UPTODATE);
        let busy = bits!(DISCOVERING FORCE_PING FORCE_PUSH REDISCOVER);
        let owes = self.view.state.contains(PeerState::MULTI_RAIL) && self.needs_push(ours);
        self.view.state.contains(known) && !self.view.state.intersects(busy) && !owes
    }

    /// Returns whether the peer has been discovered and has not acknowledged the present information of this node. If
    /// discovery was switched off here, forces the push that says so.
    pub(crate) fn owes(&mut self, ours: &Ours) -> bool {
        let discovered = self.view.state.contains(bits!(DISCOVERED MULTI_RAIL));
        let is_owed = discovered && self.acknowledged != Some(ours.version);
        if is_owed && !ours.enabled {
            self.view.state.insert(PeerState::FORCE_PUSH);
        }
        is_owed
    }

    /// Returns whether nothing is under way and no message waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.ping.is_none() && self.push.is_none() && self.parked.is_empty()
    }

    pub(crate) fn state(&self) -> PeerState {
        self.view.state
    }

    /// Returns the state that is shown.
    pub(crate) fn view(&self) -> DiscoveryView {
        self.view
    }

    /// Creates the discovery of a copied state.
    pub(crate) fn restored(view: DiscoveryView) -> Self {
        Self {
            view,
            ..Self::default()
        }
    }

    /// Sets or clears bits of the state.
    pub(crate) fn set(&mut self, bits: PeerState, on: bool) {
        self.view.state.set(bits, on);
    }

    /// Keeps information of the peer until it is merged. `pushed`: it came in a push, otherwise in an answer. Newer
    /// information replaces older.
    pub(crate) fn keep(&mut self, data: Vec<u8>, pushed: bool) {
        (self.data, self.pushed) = (data, pushed);
        self.overtaken |= pushed;
    }

    /// Notes that a ping is sent now.
    pub(crate) fn begin_ping(&mut self, md: MdHandle) {
        self.ping = Some(md);
        self.overtaken = false;
    }

    /// Returns whether the answer to the last ping may be older than the peer's last push. The sequence number does
    /// not show this, because a change of only a status keeps it, and the peer does not repeat an
    /// acknowledged push.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken
    }

    pub(crate) fn take_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }

    /// Returns whether the information to merge came in a push.
    pub(crate) fn has_pushed(&self) -> bool {
        self.pushed
    }

    /// Notes that the kept information was read: these features and this number of interfaces.
    pub(crate) fn heard(&mut self, features: u32, nids: u32, at: Time) {
        self.view.heard = Some(Heard {
            pushed: self.pushed,
            at,
            features,
            nids,
        });
    }

    /// Notes that this NID is the peer's, as the peer said.
    pub(crate) fn grant(&mut self, nid: Nid) {
        self.granted = Some(nid);
    }

    pub(crate) fn take_granted(&mut self) -> Option<Nid> {
        self.granted.take()
    }

    /// Handles a restart of the peer: forgets what the peer has acknowledged.
    pub(crate) fn restart(&mut self) {
        self.acknowledged = None;
        self.happens(Happening::Restarted);
    }

    /// Notes that the peer has acknowledged this version of this node's information.
    pub(crate) fn acknowledge(&mut self, version: u32) {
        self.acknowledged = Some(version);
    }

    /// Returns the size of the largest information of the peer so far, in bytes.
    pub(in crate::fabric) fn info_size(&self) -> u32 {
        self.info_size
    }

    /// Notes that the peer's information needs this many bytes. Returns whether that is more than before.
    // [PUSH-8]
    pub(crate) fn grow(&mut self, bytes: u32) -> bool {
        let grows = bytes > self.info_size;
        self.info_size = self.info_size.max(bytes);
        grows
    }

    /// Returns the reason why the last ping or push failed.
    pub(crate) fn failure(&self) -> Option<Errno> {
        self.view.failure
    }

    pub(crate) fn fail(&mut self, errno: Errno) {
        self.view.failure = Some(errno);
    }

    pub(crate) fn complete(&mut self, now: Time) {
        self.view.finished = Some(now);
        self.answered = None;
        self.view.failure = None;
    }
}

impl Fabric {
    /// Returns whether a NID that a peer names may become an interface of the peer of this name: it is no NID of a
    /// configured peer, and none of this node unless the peer is this node. A gateway's NID can become part of another
    /// peer only if that peer is a gateway, too.
    // [DISC-10] [PEER-5] [PEER-6]
    pub(crate) fn may_join(&self, nid: Nid, name: Nid) -> bool {
        let owner = self.peers.primary_of(nid);
        let is_configured = self.peers.peer(owner).is_some_and(|peer| peer.configured);
        let routes = |name| self.peers.peer(name).is_some_and(|peer| peer.routes > 0);
        let is_of_gateway = owner != name && routes(owner) && !routes(name);
        let is_usable = !nid.is_any() && nid.net() != Net::LO;
        let is_ours = |nid| self.nis.by_nid(nid).is_some();
        let is_of_node = is_ours(nid) == is_ours(name);
        is_of_node && is_usable && !is_configured && !is_of_gateway
    }

    /// Returns the discovery of the peer with this primary NID.
    pub(crate) fn discovery_mut(&mut self, name: Nid) -> Option<&mut Discovery> {
        let peer_ni = self.peers.by_nid_mut(name)?;
        Some(peer_ni.discovery.get_or_insert_default())
    }

    pub(crate) fn ours(&self) -> Ours {
        Ours {
            enabled: self.globals().discovery,
            version: self.own.version,
        }
    }

    /// Removes a message that has failed from the messages that wait for the discovery of `target`.
    pub(crate) fn unpark(&mut self, target: Nid, id: TxId) {
        let name = self.peers.primary_of(target);
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.parked.retain(|parked| *parked != id);
        }
    }

    /// Returns the size of the buffer for a ping of this peer, in bytes.
    // [PING-3]
    pub(crate) fn ping_size(&self, name: Nid) -> u32 {
        let known = self.peers.by_nid(name);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        known.map_or(PING_BUFFER_MIN, |known| {
            known.info_size().max(PING_BUFFER_MIN)
        })
    }

    /// Plans pushes after this node's information has changed, also by switching discovery off. They go
    /// to each peer that has acknowledged older information, to some peers at a time.
    // [PUSH-5] [PUSH-10]
    pub(crate) fn plan_pushes(&mut self) {
        if self.own.has_pushed {
            self.ground.timers.arm(self.ground.latest, Timer::Push(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Ours = Ours {
        enabled: true,
        version: 2,
    };

    fn after(events: &[Happening]) -> Discovery {
        let mut discovery = Discovery::default();
        events.iter().for_each(|&event| discovery.happens(event));
        discovery
    }

    #[test]
    fn each_event_has_one_row_and_each_row_cites_a_section() {
        for (at, row) in EVENTS.iter().enumerate() {
            assert!(EVENTS[..at].iter().all(|other| other.event != row.event));
            assert!(row.section.starts_with(['6', '7', '8']));
        }
        assert!(STEPS.iter().all(|step| step.section.starts_with('7')));
    }

    #[test]
    fn a_multi_rail_peer_is_pinged_merged_pushed_to_and_then_known() {
        let mut peer = after(&[Happening::Wanted]);
        assert_eq!(peer.step(&OURS), Action::Ping);
        assert_eq!(peer.step(&OURS), Action::Wait);
        peer.happens(Happening::Answered);
        assert_eq!(peer.step(&OURS), Action::Merge);
        peer.set(PeerState::MULTI_RAIL, true);
        assert_eq!(peer.step(&OURS), Action::Push);
        assert_eq!(peer.step(&OURS), Action::Wait);
        assert!(!peer.is_up_to_date(&OURS));
        peer.happens(Happening::Acknowledged);
        peer.acknowledge(2);
        assert_eq!(peer.step(&OURS), Action::Complete);
        assert!(peer.is_up_to_date(&OURS));
        // The number that `peer show -v 4` prints for such a peer.
        assert_eq!(peer.state().bits(), 273);
        assert_eq!(peer.step(&OURS), Action::Wait, "nothing is left to do");
    }

    // [PUSH-3]
    #[test]
    fn a_peer_without_multi_rail_or_discovery_is_never_pushed_to() {
        for (bits, on) in [
            (PeerState::MULTI_RAIL, false),
            (PeerState::NO_DISCOVERY, true),
        ] {
            let mut peer = after(&[Happening::Wanted, Happening::Answered]);
            assert_eq!(peer.step(&OURS), Action::Merge);
            peer.set(PeerState::MULTI_RAIL, true);
            peer.set(bits, on);
            assert_eq!(peer.step(&OURS), Action::Complete);
            assert!(peer.is_up_to_date(&OURS));
        }
    }

    #[test]
    fn a_failure_ends_the_discovery_and_the_next_message_starts_another() {
        for (sent, failed) in [
            (Action::Ping, Happening::PingFailed),
            (Action::Push, Happening::PushFailed),
        ] {
            let mut peer = after(&[Happening::Wanted]);
            if sent == Action::Push {
                peer.happens(Happening::Answered);
                peer.step(&OURS);
                peer.set(PeerState::MULTI_RAIL, true);
            }
            assert_eq!(peer.step(&OURS), sent);
            peer.happens(failed);
            assert_eq!(peer.step(&OURS), Action::Fail);
            assert_eq!(peer.step(&OURS), Action::Wait, "no loop");
            assert!(!peer.is_up_to_date(&OURS));
            peer.happens(Happening::Wanted);
            assert_eq!(peer.step(&OURS), sent);
        }
    }

    #[test]
    fn a_change_of_ours_is_owed_to_those_who_acknowledged_an_older_one() {
        let mut peer = after(&[Happening::Wanted, Happening::Answered]);
        peer.step(&OURS);
        peer.set(PeerState::MULTI_RAIL, true);
        peer.acknowledge(2);
        assert_eq!(peer.step(&OURS), Action::Complete);
        let newer = Ours { version: 3, ..OURS };
        assert!(!peer.is_up_to_date(&newer));
        peer.happens(Happening::Changed);
        assert_eq!(peer.step(&newer), Action::Push);
        let off = Ours {
            enabled: false,
            ..newer
        };
        assert!(after(&[Happening::Wanted]).step(&off) == Action::Ping);
    }

    // [PING-16]
    #[test]
    fn no_order_of_events_lets_the_steps_go_on_without_end() {
        let all = [
            Happening::Wanted,
            Happening::Forced,
            Happening::Answered,
            Happening::CutOff,
            Happening::Overtaken,
            Happening::PingFailed,
            Happening::Acknowledged,
            Happening::PushFailed,
            Happening::Pushed,
            Happening::BadPush,
            Happening::Checked,
            Happening::Granted,
            Happening::Restarted,
            Happening::Changed,
        ];
        for bits in 0..1 << 15 {
            for event in all {
                let mut peer = Discovery::restored(DiscoveryView {
                    state: PeerState::from_bits_retain(bits),
                    ..DiscoveryView::default()
                });
                peer.happens(event);
                let steps = (0..6).map(|_| peer.step(&OURS));
                let ended = steps.filter(|step| matches!(step, Action::Wait)).count();
                assert!(ended > 0, "{bits:#x} {event:?}");
            }
        }
    }
}
