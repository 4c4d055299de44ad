//! Local network interfaces and their transmit credits (section 8.7).
//!
//! Interface 0 is loopback; it has no credits and is never a candidate of selection. Ids are not
//! reused.

use std::time::Duration;

use lnet_policy::Effective;
use lnet_types::{Net, Nid, Time};

use crate::config::{NiConfig, NiDevice, Tunables};
use crate::counts::counters::MessageStats;
use crate::counts::histogram::LatencyHistograms;
use crate::counts::latency::LatencyStats;
use crate::health::recovery::Recovery;
use crate::health::value::{Health, NiHealthStats};
use crate::io::{NiId, TxId};
use crate::send::credits::Credits;

/// A local interface.
#[derive(Debug)]
pub(crate) struct Ni {
    pub(crate) id: NiId,
    pub(crate) nid: Nid,
    /// The NID's net.
    pub(crate) net: Net,
    pub(crate) tunables: Tunables,
    /// The LND reported a fatal error, such as a link that is down.
    pub(crate) fatal: bool,
    pub(crate) health: Health,
    /// Advertised as up: false from health 0 until full health.
    pub(crate) status_up: bool,
    pub(crate) device: NiDevice,
    /// How long the LND says that one attempt may take.
    pub(crate) lnd_timeout: Option<Duration>,
    /// What the rules say of it.
    pub(crate) priority: Effective,
    pub(crate) recovery: Recovery,
    pub(crate) health_stats: NiHealthStats,
    /// Its place in the list of all interfaces.
    pub(crate) slot: usize,
    /// Messages with the LND hold one each; those that have their peer's credit wait for one.
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

    /// The LND or its own health took it out of service.
    pub(crate) fn is_down(&self) -> bool {
        self.fatal || !self.status_up
    }

    /// A resend may use it (section 2.2 of lnet-selection).
    pub(crate) fn is_optimal(&self) -> bool {
        !self.is_down() && self.health.is_full()
    }

    /// Credits left; negative by the number of messages that wait.
    pub(crate) fn tx_credits(&self) -> i64 {
        self.credits.left(self.tunables.credits)
    }
}

/// What routers know of one of their nets (section 8.3).
#[derive(Debug)]
pub(crate) struct NetState {
    pub(crate) net: Net,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// What the rules say of it.
    pub(crate) priority: Effective,
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
        for (slot, left) in self.list.iter_mut().enumerate() {
            left.slot = slot;
        }
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

    pub(crate) fn all_mut(&mut self) -> &mut [Ni] {
        &mut self.list
    }

    pub(crate) fn on_net(&self, net: Net) -> impl Iterator<Item = &Ni> {
        self.real().iter().filter(move |ni| ni.net == net)
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

    /// The health of a net: that of its best interface that has no fatal error.
    pub(crate) fn net_health(&self, net: Net) -> Health {
        let usable = self.on_net(net).filter(|ni| !ni.fatal);
        usable.map(|ni| ni.health).max().unwrap_or(Health::ZERO)
    }

    pub(crate) fn real_mut(&mut self) -> &mut [Ni] {
        self.list.get_mut(1..).unwrap_or_default()
    }

    /// Stamps an interface and its net as the ones used last.
    pub(crate) fn stamp(&mut self, id: NiId) {
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
