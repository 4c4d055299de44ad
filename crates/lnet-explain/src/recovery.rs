//! Recovery, foretold by letting it happen: a core made from the state pings, and every ping is answered.
//!
//! What a ping of one's own NID brings, how long the pauses are and who is pinged at all is the core's
//! business; here its messages are carried, and the clock is turned to its next deadline.

use lnet_core::{Core, Health, NiId, Output, StateError, Transmit, Verdict};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Header, Reply};

use crate::node::Node;

/// Pings that are followed: as many as the smallest sensitivity needs.
const PINGS_MAX: usize = 1000;
/// Deadlines that are met on the way, whoever has them.
const DEADLINES_MAX: usize = 16 * PINGS_MAX;

/// The pings that make a NID well again, each with its time; empty where nobody pings it.
///
/// # Errors
///
/// When no node can be in this state.
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

/// A core in which this NID is being recovered, if it may be, and gateways are left alone.
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
        // Outputs do not say when it was heard of; that it has counters says that it was.
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

/// Outputs do not say whether recovery has begun; setting the health to what it is begins it.
fn begin(core: &mut Core, nid: Nid, health: Health, now: Time) {
    let ours = core.nis().find(|ni| ni.nid == nid).map(|ni| ni.id);
    // Both are there, since the state has them.
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

    /// The message arrives. What goes to ourselves we receive; a peer answers a GET at once.
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

/// What a peer says to a ping. Recovery looks at nothing in it.
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
