//! A node as it is explained: the state of its selection, and what is known besides.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::machine::Machine;
use lnet_config::{Ip2Nets, PeerCredits};
use lnet_core::{PeerSelection, SelectionState};
use lnet_state::StateJsonError;
use lnet_types::{Nid, Time};

/// A node to ask about.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Everything that its choices depend on.
    pub state: SelectionState,
    /// The time of the state, on the node's clock.
    pub now: Time,
    /// What its choices do not depend on, and explanations and findings do.
    pub facts: Facts,
}

/// What is known of a node besides the state of its selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The system interfaces under the local NIs.
    pub interfaces: BTreeMap<Nid, Vec<String>>,
    /// Whether the node discovers its peers.
    pub discovery: bool,
    /// What the input did not say and how it was filled in.
    pub assumed: Vec<Assumed>,
    /// Rules that the node prints and that no node acts on: index and reason.
    pub dead_rules: Vec<(usize, String)>,
    /// What the node itself shows as effective priorities.
    pub shown: Vec<ShownPriority>,
    /// Peers by primary NID, with the state bits that the node prints (lnet-selection, section 1.3).
    pub peer_states: BTreeMap<Nid, u64>,
    /// Seconds that the LND of a local NI gives one try, where the node prints it.
    pub lnd_timeouts: BTreeMap<Nid, u32>,
    /// When recovery pings are due or were, in seconds of the node's uptime.
    pub next_pings: BTreeMap<Nid, u64>,
    /// Networks by address patterns, as an import asks for them.
    pub ip2nets: Vec<Ip2Nets>,
    /// What the machine itself looks like.
    pub machine: Option<Machine>,
    /// What the input says that cannot be built, each with the reason.
    pub left_out: Vec<String>,
    /// Peers, by primary NID, that the input lists as not Multi-Rail.
    pub single_rail: BTreeSet<Nid>,
    /// Local NIs that the node prints as not working, with what it prints.
    pub down: BTreeMap<Nid, &'static str>,
    /// Credits of peer NIs, where the node prints them.
    pub credits: BTreeMap<Nid, PeerCredits>,
}

/// An effective priority as the node printed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPriority {
    /// Of which interface or peer interface.
    pub nid: Nid,
    /// Whether it is one of the node's own.
    pub local: bool,
    /// Of its net; `None`: no rule.
    pub net: Option<u32>,
    /// Its own; `None`: no rule.
    pub own: Option<u32>,
}

/// Something that the input does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Assumed {
    /// Who was used last: all round-robin stamps are 0.
    Sequences,
    /// Messages under way on the local NIs: none.
    NiLoad,
    /// Messages under way to the peer NIs: none.
    PeerLoad,
    /// Health of the local NIs: full.
    NiHealth,
    /// Health of the peer NIs: full.
    PeerHealth,
    /// Whether routes are up: they are.
    RouteState,
    /// The NIDs of local NIs that are given by interface: stand-ins.
    Nids,
    /// Node-wide parameters: the defaults.
    Globals,
    /// NUMA distances of the local NIs: all the same.
    Distances,
    /// The local interface that peers without Multi-Rail are used to: none yet.
    Pins,
}

impl Node {
    /// A node whose whole state is known: what is said of it is exact.
    #[must_use]
    pub fn exact(state: SelectionState, now: Time) -> Self {
        let facts = Facts {
            discovery: state.config.globals.discovery,
            ..Facts::default()
        };
        Self { state, now, facts }
    }

    /// The state as JSON, which [`Node::from_json`] reads.
    ///
    /// # Errors
    ///
    /// None that a state can cause.
    pub fn to_json(self) -> Result<String, StateJsonError> {
        lnet_state::to_json(self.state, self.now)
    }

    /// The node that sent its state as this JSON; what is said of it is exact.
    ///
    /// # Errors
    ///
    /// When the text is no state. Whether a node can be in it is seen when it is explained.
    pub fn from_json(text: &str) -> Result<Self, StateJsonError> {
        let (state, now) = lnet_state::from_json(text)?;
        Ok(Self::exact(state, now))
    }

    /// True when nothing of its state had to be assumed.
    pub(crate) fn is_exact(&self) -> bool {
        self.facts.assumed.is_empty()
    }

    /// The node with those peers only that a message to `to` can meet: the one with that NID, the
    /// gateways, and the node itself. The path is the same, and 100,000 other peers need not be
    /// remembered by each of the cores that are made to try things.
    pub(crate) fn about(&self, to: Nid) -> Self {
        let state = &self.state;
        let gateways = state.gateways.iter().map(|gateway| gateway.nid);
        let own = state.nis.iter().map(|ni| ni.nid);
        let mut meant: BTreeSet<Nid> = gateways.chain(own).chain([to]).collect();
        let peers = state.peers.iter();
        let peers = peers.filter(|peer| peer.nids.iter().any(|nid| meant.contains(nid)));
        let peers: Vec<PeerSelection> = peers.cloned().collect();
        meant.extend(peers.iter().flat_map(|peer| &peer.nids));
        let peer_nis = state.peer_nis.iter().filter(|ni| meant.contains(&ni.nid));
        Self {
            state: SelectionState {
                config: state.config.clone(),
                sequence: state.sequence,
                nets: state.nets.clone(),
                nis: state.nis.clone(),
                peer_nis: peer_nis.cloned().collect(),
                peers,
                routes: state.routes.clone(),
                gateways: state.gateways.clone(),
                rules: state.rules.clone(),
            },
            now: self.now,
            facts: self.facts.clone(),
        }
    }

    /// A NID with the interface it belongs to, as people want to read it.
    #[must_use]
    pub fn label(&self, nid: Nid) -> String {
        match self.facts.interfaces.get(&nid).map(Vec::as_slice) {
            Some([name, ..]) => format!("{nid} ({name})"),
            _ => nid.to_string(),
        }
    }
}
