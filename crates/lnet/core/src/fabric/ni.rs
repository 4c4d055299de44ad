//! Local network interfaces and their transmit credits.
//!
//! Interface 0 is loopback; it has no credits and is never a candidate of selection. Ids are not reused.

use std::time::Duration;

use lnet_policy::Effective;
use lnet_types::{Net, Nid, Time};

use crate::fabric::health::recovery::Recovery;
use crate::ground::config::{NiConfig, NiDevice, Tunables};
use crate::ground::counters::MessageStats;
use crate::ground::credits::Credits;
use crate::ground::health::{Health, NiHealthStats};
use crate::ground::histogram::LatencyHistograms;
use crate::ground::io::{NiId, TxId};
use crate::ground::latency::LatencyStats;

/// A local interface.
#[derive(Debug)]
pub(crate) struct Ni {
    pub(crate) id: NiId,
    pub(crate) nid: Nid,
    /// The NID's net.
    pub(in crate::fabric) net: Net,
    pub(crate) tunables: Tunables,
    /// True if the LND reported a fatal error, such as a link that is down.
    pub(crate) fatal: bool,
    pub(crate) health: Health,
    /// True if the interface is advertised as up: false from the time that health reaches 0 until health is full.
    pub(crate) status_up: bool,
    pub(crate) device: NiDevice,
    /// How long one attempt may take, as the LND reported; `None` if it did not.
    pub(crate) lnd_timeout: Option<Duration>,
    /// The effective values of the selection rules for the interface.
    pub(crate) priority: Effective,
    pub(crate) recovery: Recovery,
    pub(crate) health_stats: NiHealthStats,
    /// The index in the list of all interfaces.
    pub(in crate::fabric) slot: usize,
    /// Credits of the interface. Each message with the LND holds one. A message waits for one after it has a credit of
    /// its peer NI.
    pub(crate) credits: Credits<TxId>,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    pub(crate) stats: MessageStats,
    pub(crate) latency: LatencyStats,
    pub(crate) histograms: LatencyHistograms,
}

impl Ni {
    fn new(id: NiId, config: NiConfig) -> Self {
        Self {
            id,
            nid: config.nid,
            net: config.nid.net(),
            tunables: config.tunables,
            fatal: false,
            health: Health::MAX,
            status_up: true,
            device: NiDevice::default(),
            lnd_timeout: None,
            priority: Effective::NONE,
            recovery: Recovery::default(),
            health_stats: NiHealthStats::default(),
            slot: 0,
            credits: Credits::default(),
            seq: 0,
            stats: MessageStats::default(),
            latency: LatencyStats::default(),
            histograms: LatencyHistograms::default(),
        }
    }

    /// Returns whether the LND or low health took the interface out of service.
    pub(crate) fn is_down(&self) -> bool {
        self.fatal || !self.status_up
    }

    /// Returns whether a resend may use the interface.
    // [RESEND-20]
    pub(crate) fn is_optimal(&self) -> bool {
        !self.is_down() && self.health.is_full()
    }

    /// Returns the credits left; negative by the number of messages that wait for one.
    pub(crate) fn tx_credits(&self) -> i64 {
        self.credits.left(self.tunables.credits)
    }
}

/// The state of a local net. Routers use it to decide whether the net is alive.
#[derive(Debug)]
pub(crate) struct NetState {
    pub(crate) net: Net,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// The effective values of the selection rules for the net.
    pub(crate) priority: Effective,
    /// When a remote node last pinged this node over the net, or answered a ping of this node.
    pub(crate) last_ping: Time,
    /// True if this node has pinged peers on the net because nobody pinged this node.
    pub(crate) asked: bool,
    /// True if no such ping arrived for too long: the net's interfaces are advertised as down.
    pub(crate) quiet: bool,
    /// When the net was last quiet no longer; `None` if it never was quiet.
    pub(crate) returned: Option<Time>,
    /// When to check for such pings next; `None` while the node does not route.
    pub(crate) watch: Option<Time>,
}

/// All interfaces and their nets: loopback first, then the others in the order of their creation.
#[derive(Debug)]
pub(crate) struct Nis {
    list: Vec<Ni>,
    nets: Vec<NetState>,
    next_id: u32,
    /// The round-robin counter of the node.
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
        let slot = self.list.len();
        self.list.push(Ni {
            slot,
            ..Ni::new(id, config)
        });
        let net = config.nid.net();
        if self.net_mut(net).is_none() {
            self.nets.push(NetState {
                net,
                seq: 0,
                priority: Effective::NONE,
                last_ping: now,
                asked: false,
                quiet: false,
                returned: None,
                watch: None,
            });
        }
        id
    }

    /// Removes an interface. The last interface of a net also removes the state of the net.
    pub(crate) fn remove(&mut self, id: NiId) -> Option<Ni> {
        let at = self
            .list
            .iter()
            .position(|ni| ni.id == id && id != NiId::LOOPBACK)?;
        let ni = self.list.remove(at);
        for (slot, left) in self.list.iter_mut().enumerate() {
            left.slot = slot;
        }
        if !self.has_net(ni.nid.net()) {
            self.nets.retain(|state| state.net != ni.nid.net());
        }
        Some(ni)
    }

    pub(crate) fn get(&self, id: NiId) -> Option<&Ni> {
        self.list.get(self.place_of(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: NiId) -> Option<&mut Ni> {
        let place = self.place_of(id)?;
        self.list.get_mut(place)
    }

    /// Returns the index of an interface in the list. Until an interface is removed, it equals the id.
    fn place_of(&self, id: NiId) -> Option<usize> {
        let likely = id.0 as usize;
        let is_there = self.list.get(likely).is_some_and(|ni| ni.id == id);
        is_there
            .then_some(likely)
            .or_else(|| self.list.iter().position(|ni| ni.id == id))
    }

    /// Returns the interface with this NID; loopback for `0@lo`.
    pub(crate) fn by_nid(&self, nid: Nid) -> Option<&Ni> {
        self.list.iter().find(|ni| ni.nid == nid)
    }

    /// Returns all interfaces except loopback.
    pub(crate) fn real(&self) -> &[Ni] {
        &self.list[1..]
    }

    /// Returns all interfaces, loopback first.
    pub(crate) fn all(&self) -> &[Ni] {
        &self.list
    }

    pub(in crate::fabric) fn all_mut(&mut self) -> &mut [Ni] {
        &mut self.list
    }

    pub(crate) fn on_net(&self, net: Net) -> impl Iterator<Item = &Ni> {
        self.real().iter().filter(move |ni| ni.net == net)
    }

    pub(crate) fn has_net(&self, net: Net) -> bool {
        self.on_net(net).next().is_some()
    }

    /// Returns the limits for peers on a net, which are those of the net's first interface.
    pub(crate) fn net_tunables(&self, net: Net) -> Option<&Tunables> {
        self.on_net(net).next().map(|ni| &ni.tunables)
    }

    pub(crate) fn nets(&self) -> &[NetState] {
        &self.nets
    }

    pub(in crate::fabric) fn nets_mut(&mut self) -> &mut [NetState] {
        &mut self.nets
    }

    pub(crate) fn net(&self, net: Net) -> Option<&NetState> {
        self.nets.iter().find(|state| state.net == net)
    }

    pub(crate) fn net_mut(&mut self, net: Net) -> Option<&mut NetState> {
        self.nets.iter_mut().find(|state| state.net == net)
    }

    /// Returns the health of a net: the health of its healthiest interface without a fatal error.
    pub(in crate::fabric) fn net_health(&self, net: Net) -> Health {
        let usable = self.on_net(net).filter(|ni| !ni.fatal);
        usable.map(|ni| ni.health).max().unwrap_or(Health::ZERO)
    }

    pub(in crate::fabric) fn real_mut(&mut self) -> &mut [Ni] {
        self.list.get_mut(1..).unwrap_or_default()
    }

    /// Stamps an interface and its net as used last.
    pub(in crate::fabric) fn stamp(&mut self, id: NiId) {
        self.net_seq += 1;
        let seq = self.net_seq;
        let Some(ni) = self.get_mut(id) else { return };
        ni.seq = seq;
        let net = ni.nid.net();
        if let Some(state) = self.net_mut(net) {
            state.seq = seq;
        }
    }
}
