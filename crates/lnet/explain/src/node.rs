//! The node that is explained: the state of its selection, and further facts about it.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::machine::Machine;
use lnet_config::{Ip2Nets, PeerCredits};
use lnet_core::state_json::StateJsonError;
use lnet_core::{PeerSelection, SelectionState};
use lnet_types::{Nid, Time};

/// A node to ask questions about.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Everything that the node's choices depend on.
    pub state: SelectionState,
    /// The time of the state, on the node's clock.
    pub now: Time,
    /// Facts that do not affect the node's choices but that explanations and findings use.
    pub facts: Facts,
}

/// Facts about a node beyond the state of its selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The names of the system interfaces under each local NI.
    pub interfaces: BTreeMap<Nid, Vec<String>>,
    /// True if the node discovers its peers.
    pub discovery: bool,
    /// The values that the input did not hold and that were assumed.
    pub assumed: Vec<Assumed>,
    /// Rules that the node prints but that no node applies: index and reason.
    pub dead_rules: Vec<(usize, String)>,
    /// The effective priorities that the node itself shows.
    pub shown: Vec<ShownPriority>,
    /// The state bits that the node prints for each peer, by primary NID: [PEER-20].
    pub peer_states: BTreeMap<Nid, u64>,
    /// The LND timeout of one try on each local NI in seconds, if the node prints it.
    pub lnd_timeouts: BTreeMap<Nid, u32>,
    /// The `map_on_demand` of each local NI on an o2ib net, if the node prints it.
    pub map_on_demand: BTreeMap<Nid, u32>,
    /// The times of the next recovery pings, in seconds of the node's uptime. They may be in the past.
    pub next_pings: BTreeMap<Nid, u64>,
    /// The `ip2nets` entries: nets that an import configures by address patterns.
    pub ip2nets: Vec<Ip2Nets>,
    /// The interfaces and addresses of the machine, if they are known.
    pub machine: Option<Machine>,
    /// The parts of the input that were left out because no node can have them, each with the reason.
    pub left_out: Vec<String>,
    /// Primary NIDs of the peers that the input lists as not Multi-Rail.
    pub single_rail: BTreeSet<Nid>,
    /// Local NIs that the node prints as not working, each with the printed words.
    pub down: BTreeMap<Nid, &'static str>,
    /// The credits of each peer NI, if the node prints them.
    pub credits: BTreeMap<Nid, PeerCredits>,
}

/// An effective priority that the node printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPriority {
    /// The NID of the local NI or peer NI.
    pub nid: Nid,
    /// True for a local NI, false for a peer NI.
    pub local: bool,
    /// The priority of its net; `None` if no rule sets one.
    pub net: Option<u32>,
    /// The priority of the NID itself; `None` if no rule sets one.
    pub own: Option<u32>,
}

/// A kind of value that the input does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Assumed {
    /// The round-robin sequence numbers. Assumed: all are 0.
    Sequences,
    /// The messages in flight on the local NIs. Assumed: none.
    NiLoad,
    /// The messages in flight to the peer NIs. Assumed: none.
    PeerLoad,
    /// The health of the local NIs. Assumed: full.
    NiHealth,
    /// The health of the peer NIs. Assumed: full.
    PeerHealth,
    /// The state of the routes. Assumed: up.
    RouteState,
    /// The NIDs of local NIs that are given by interface only. Assumed: made-up NIDs.
    Nids,
    /// The node-wide parameters. Assumed: the defaults.
    Globals,
    /// The NUMA distances of the local NIs. Assumed: all equal.
    Distances,
    /// The local NI that each peer without Multi-Rail is pinned to. Assumed: none yet.
    Pins,
}

impl Node {
    /// Returns a node whose whole state is known. Explanations of this node are exact.
    #[must_use]
    pub fn exact(state: SelectionState, now: Time) -> Self {
        let facts = Facts {
            discovery: state.config.globals.discovery,
            ..Facts::default()
        };
        Self { state, now, facts }
    }

    /// Returns the state as JSON, in the form that [`Node::from_json`] reads.
    ///
    /// # Errors
    ///
    /// No state causes an error.
    pub fn to_json(self) -> Result<String, StateJsonError> {
        lnet_core::state_json::to_json(self.state, self.now)
    }

    /// Returns the node whose state is in this JSON text. Explanations of this node are exact.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the JSON of a state. Whether a node can be in this state is checked
    /// later, by [`explain`](crate::explain).
    pub fn from_json(text: &str) -> Result<Self, StateJsonError> {
        let (state, now) = lnet_core::state_json::from_json(text)?;
        Ok(Self::exact(state, now))
    }

    /// Returns true if no value of the state is assumed.
    pub(crate) fn is_exact(&self) -> bool {
        self.facts.assumed.is_empty()
    }

    /// Returns the node without the peers that a message to `to` cannot involve. The peer with that NID, the
    /// gateways and the node's own NIDs stay. The path of the message is the same. Each core that is made to try a
    /// change copies the peers, so the copy must not contain up to 100,000 unrelated ones.
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

    /// Returns the NID, followed by the name of its interface in parentheses if the name is known.
    #[must_use]
    pub fn label(&self, nid: Nid) -> String {
        match self.facts.interfaces.get(&nid).map(Vec::as_slice) {
            Some([name, ..]) => format!("{nid} ({name})"),
            _ => nid.to_string(),
        }
    }
}
