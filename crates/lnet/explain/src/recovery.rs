//! A forecast of recovery: a core that is made from the state sends its pings, and every ping is answered.
//!
//! The core decides which NIDs are pinged, how long the pauses are and what a ping of a local NID changes. This
//! module delivers the core's messages and advances the clock to the core's next deadline.

use lnet_core::{Core, Health, NiId, Output, StateError, Transmit, Verdict};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Header, Reply};

use crate::node::Node;

/// The limit on the pings that are followed: at a sensitivity of 1, the smallest, so many pings restore the full
/// health.
const PINGS_MAX: usize = 1000;
/// The limit on the deadlines of the core that are processed, including deadlines that have nothing to do with the
/// NID.
const DEADLINES_MAX: usize = 16 * PINGS_MAX;

/// Returns the times of the pings that restore the full health of a NID. The list is empty if nothing pings the
/// NID.
///
/// # Errors
///
/// Returns an error if no node can be in this state.
pub(crate) fn pings(node: &Node, nid: Nid) -> Result<Vec<Time>, StateError> {
    let mut ward = Ward {
        core: core_in_recovery(node, nid)?,
        nid,
        now: node.now,
        pings: Vec::new(),
    };
    for _ in 0..DEADLINES_MAX {
        ward.carry_all();
        if ward.is_well() || ward.pings.len() >= PINGS_MAX {
            break;
        }
        let Some(next) = ward.core.next_deadline() else {
            break;
        };
        ward.now = ward.now.max(next);
        ward.core.tick(ward.now);
    }
    Ok(ward.pings)
}

/// Returns a core in which the recovery of this NID has begun, if it may begin. Pings of gateways are switched off.
fn core_in_recovery(node: &Node, nid: Nid) -> Result<Core, StateError> {
    let mut node = node.about(nid);
    let exact = node.is_exact();
    let state = &mut node.state;
    state
        .gateways
        .iter_mut()
        .for_each(|one| one.next_check = None);
    state.config.globals.alive_router_check_interval = std::time::Duration::ZERO;
    let mut health = None;
    for ni in state.nis.iter().filter(|ni| ni.nid == nid) {
        health = ni.recovery.next_ping.is_none().then_some(ni.health);
    }
    for ni in state.peer_nis.iter_mut().filter(|ni| ni.nid == nid) {
        health = ni.recovery.next_ping.is_none().then_some(ni.health);
        // Outputs do not say when this peer NI was last heard of. It has counters, so it was heard of at some time.
        if !exact {
            ni.last_alive = ni.last_alive.or(Some(node.now));
        }
    }
    let mut core = Core::from_selection_state(state, node.now)?;
    if let Some(health) = health {
        begin(&mut core, nid, health, node.now);
    }
    Ok(core)
}

/// Begins the recovery by setting the health to its present value, because outputs do not say whether recovery has
/// begun.
fn begin(core: &mut Core, nid: Nid, health: Health, now: Time) {
    let ours = core.nis().find(|ni| ni.nid == nid).map(|ni| ni.id);
    // The NID exists, since the state has it.
    let _known = match ours {
        Some(ni) => core.set_ni_health(ni, health, now),
        None => core.set_peer_ni_health(nid, health, now),
    };
}

struct Ward {
    core: Core,
    nid: Nid,
    now: Time,
    pings: Vec<Time>,
}

impl Ward {
    fn is_well(&self) -> bool {
        let mut ours = self.core.nis().map(|ni| (ni.nid, ni.health.health));
        let peers = self.core.peers().flat_map(|peer| peer.nis);
        let mut theirs = peers.map(|ni| (ni.nid, ni.health.health));
        let meant = |(nid, _): &(Nid, Health)| *nid == self.nid;
        let found = ours.find(meant).or_else(|| theirs.find(meant));
        found.is_none_or(|(_, health)| health.is_full())
    }

    fn carry_all(&mut self) {
        while let Some(output) = self.core.poll_output() {
            if let Output::Transmit(transmit) = output {
                self.carry(&transmit);
            }
        }
    }

    /// Delivers a message. A message to a local NID is received by this core; a peer answers a Get at once.
    fn carry(&mut self, transmit: &Transmit) {
        let to = transmit.to.nid;
        let header = &transmit.header;
        let is_get = matches!(header.body, Body::Get(_));
        if is_get && header.dest_nid == self.nid {
            self.pings.push(self.now);
        }
        self.core
            .sent(transmit.tx, lnet_core::MessageStatus::Ok, self.now);
        if let Some(ni) = self.own(to) {
            let from = self.source(transmit.ni);
            self.receive(ni, from, header);
        } else if let Some(answer) = answer_to(header) {
            self.receive(transmit.ni, to, &answer);
        }
    }

    fn receive(&mut self, ni: NiId, from: Nid, header: &Header) {
        let from = ProcessId::lustre(from);
        if let Verdict::Receive { rx, .. } = self.core.header(ni, from, header, self.now) {
            self.core.arrived(rx, Ok(()), self.now);
        }
    }

    fn own(&self, nid: Nid) -> Option<NiId> {
        let mut nis = self.core.nis();
        nis.find(|ni| ni.nid == nid).map(|ni| ni.id)
    }

    fn source(&self, id: NiId) -> Nid {
        let mut nis = self.core.nis();
        nis.find(|ni| ni.id == id)
            .map_or(Nid::LOOPBACK, |ni| ni.nid)
    }
}

/// Returns the answer of a peer to a ping. The answer has no payload, because recovery does not read it.
fn answer_to(asked: &Header) -> Option<Header> {
    let Body::Get(get) = asked.body else {
        return None;
    };
    Some(Header {
        dest_nid: asked.src_nid,
        src_nid: asked.dest_nid,
        dest_pid: asked.src_pid,
        src_pid: asked.dest_pid,
        payload_length: 0,
        body: Body::Reply(Reply {
            dst_wmd: get.return_wmd,
        }),
    })
}
