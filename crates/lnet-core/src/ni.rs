//! Local network interfaces and their transmit credits (section 8.7).
//!
//! Interface 0 is loopback; it has no credits and is never a candidate of selection. Ids are not
//! reused.

use std::collections::VecDeque;

use lnet_types::{Net, Nid, Time};

use crate::config::{NiConfig, Tunables};
use crate::counters::MessageStats;
use crate::io::{NiId, TxId};

/// A local interface.
#[derive(Debug)]
pub(crate) struct Ni {
    pub(crate) id: NiId,
    pub(crate) nid: Nid,
    pub(crate) tunables: Tunables,
    /// The LND reported a fatal error, such as a link that is down.
    pub(crate) fatal: bool,
    /// Messages that are with the LND.
    pub(crate) in_flight: u32,
    /// Messages that have a peer credit and wait for one of this interface.
    pub(crate) queue: VecDeque<TxId>,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    pub(crate) stats: MessageStats,
}

impl Ni {
    fn new(id: NiId, config: NiConfig) -> Self {
        Self {
            id,
            nid: config.nid,
            tunables: config.tunables,
            fatal: false,
            in_flight: 0,
            queue: VecDeque::new(),
            seq: 0,
            stats: MessageStats::default(),
        }
    }

    /// Credits left; negative by the number of messages that wait.
    pub(crate) fn tx_credits(&self) -> i64 {
        i64::from(self.tunables.credits) - i64::from(self.in_flight) - self.queue.len() as i64
    }
}

/// What routers know of one of their nets (section 8.3).
#[derive(Debug)]
pub(crate) struct NetState {
    pub(crate) net: Net,
    /// When a remote node last pinged us over it.
    pub(crate) last_ping: Time,
    /// No such ping for too long: its interfaces are advertised as down.
    pub(crate) quiet: bool,
    /// When this is looked at next; never while the node does not route.
    pub(crate) watch: Option<Time>,
}

/// All interfaces, loopback first, then in the order of their creation, and their nets.
#[derive(Debug)]
pub(crate) struct Nis {
    list: Vec<Ni>,
    nets: Vec<NetState>,
    next_id: u32,
    /// Node-wide round-robin counter.
    pub(crate) net_seq: u64,
}

impl Nis {
    pub(crate) fn new() -> Self {
        let tunables = Tunables {
            credits: 0,
            peer_credits: 0,
            ..Tunables::default()
        };
        let loopback = Ni::new(
            NiId::LOOPBACK,
            NiConfig {
                nid: Nid::LOOPBACK,
                tunables,
            },
        );
        Self {
            list: vec![loopback],
            nets: Vec::new(),
            next_id: 1,
            net_seq: 0,
        }
    }

    pub(crate) fn add(&mut self, config: NiConfig, now: Time) -> NiId {
        let id = NiId(self.next_id);
        self.next_id += 1;
        self.list.push(Ni::new(id, config));
        let net = config.nid.net();
        if self.net_mut(net).is_none() {
            self.nets.push(NetState {
                net,
                last_ping: now,
                quiet: false,
                watch: None,
            });
        }
        id
    }

    /// Takes an interface out, and its net's state with the last one of the net.
    pub(crate) fn remove(&mut self, id: NiId) -> Option<Ni> {
        let at = self
            .list
            .iter()
            .position(|ni| ni.id == id && id != NiId::LOOPBACK)?;
        let ni = self.list.remove(at);
        if !self.has_net(ni.nid.net()) {
            self.nets.retain(|state| state.net != ni.nid.net());
        }
        Some(ni)
    }

    pub(crate) fn get(&self, id: NiId) -> Option<&Ni> {
        self.list.iter().find(|ni| ni.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: NiId) -> Option<&mut Ni> {
        self.list.iter_mut().find(|ni| ni.id == id)
    }

    /// The interface with this NID; loopback for `0@lo`.
    pub(crate) fn by_nid(&self, nid: Nid) -> Option<&Ni> {
        self.list.iter().find(|ni| ni.nid == nid)
    }

    /// All but loopback.
    pub(crate) fn real(&self) -> &[Ni] {
        &self.list[1..]
    }

    /// All, loopback first.
    pub(crate) fn all(&self) -> &[Ni] {
        &self.list
    }

    pub(crate) fn on_net(&self, net: Net) -> impl Iterator<Item = &Ni> {
        self.real().iter().filter(move |ni| ni.nid.net() == net)
    }

    pub(crate) fn has_net(&self, net: Net) -> bool {
        self.on_net(net).next().is_some()
    }

    /// The limits that hold for peers on a net: those of its first interface.
    pub(crate) fn net_tunables(&self, net: Net) -> Option<&Tunables> {
        self.on_net(net).next().map(|ni| &ni.tunables)
    }

    pub(crate) fn nets(&self) -> &[NetState] {
        &self.nets
    }

    pub(crate) fn nets_mut(&mut self) -> &mut [NetState] {
        &mut self.nets
    }

    pub(crate) fn net(&self, net: Net) -> Option<&NetState> {
        self.nets.iter().find(|state| state.net == net)
    }

    pub(crate) fn net_mut(&mut self, net: Net) -> Option<&mut NetState> {
        self.nets.iter_mut().find(|state| state.net == net)
    }

    /// Stamps an interface as the one used last.
    pub(crate) fn stamp(&mut self, id: NiId) {
        self.net_seq += 1;
        let seq = self.net_seq;
        if let Some(ni) = self.get_mut(id) {
            ni.seq = seq;
        }
    }
}
