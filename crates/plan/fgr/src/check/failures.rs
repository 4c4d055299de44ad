//! Single failures: what can fail, how long a failure goes unnoticed, and which messages are lost
//! meanwhile.
//!
//! ```text
//!   failure ──── unnoticed: messages still go there, and are lost ────▶ other routers ──▶ repaired
//!            I: check interval, T: ping timeout, X: transaction timeout, L: LND timeout
//!            the sender's gateway rejects, or is known down:  about I
//!            the gateway hangs, its connections stay:         kernel nodes I + X, Finerail I + T
//!            the gateway is silent:                           kernel nodes I + L, Finerail I + T
//!            its far side is silent:                          2 I + T: the router notices it, then
//!                                                             the next ping reports it
//! ```
//!
//! The check of a gateway by a kernel node is a discovery, which ends with its transaction;
//! `router_ping_timeout` decides only what a router says of its own interfaces. Measured on 2.16.1
//! and 2.17.0 with I = 10: a router that was stopped was left after 36 to 42 s with X = 30 and was
//! still used after 150 s with X = 150; a router without power was left after 63.5 s.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use lnet_types::{LndType, Net, Nid};

use crate::check::Direction;
use crate::check::index::{Index, Router, State};
use crate::check::passage::Conversation;
use crate::config::Timing;

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A router node.
    Router,
    /// A module: all router nodes of a blade.
    Module,
    /// A router's interface towards the clients.
    ClientSide,
    /// A router's interface towards the servers.
    ServerSide,
    /// A router's interface towards the next router of a chain.
    Between,
    /// A leaf switch: all interfaces on a net behind the routers.
    Leaf,
}

impl FailureKind {
    /// All kinds of failures.
    pub const ALL: [Self; 6] = [
        Self::Router,
        Self::Module,
        Self::ClientSide,
        Self::ServerSide,
        Self::Between,
        Self::Leaf,
    ];

    /// The kind in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Module => "module",
            Self::ClientSide => "client side of router",
            Self::ServerSide => "server side of router",
            Self::Between => "chain side of router",
            Self::Leaf => "leaf",
        }
    }

    /// Returns about how long a failure goes unnoticed; `None` if no other router can take over.
    #[must_use]
    pub fn unnoticed(self, direction: Direction, timing: Timing) -> Option<Unnoticed> {
        let interval = timing.check_interval;
        let after = |wait: u32| interval.saturating_add(wait);
        let finerail = after(timing.ping_timeout);
        let silent = after(timing.lnd_timeout());
        let reported = finerail.saturating_add(interval);
        let (kernel_hung, kernel_silent, finerail) = match (self, direction) {
            (Self::Leaf, _) => return None,
            (Self::Router | Self::Module, _) => {
                (Some(after(timing.transaction_timeout)), silent, finerail)
            }
            (Self::ClientSide, Direction::Requests)
            | (Self::ServerSide, Direction::ServerStarted) => (None, silent, finerail),
            (Self::ClientSide, Direction::ServerStarted)
            | (Self::ServerSide, Direction::Requests) => (None, reported, reported),
            // Towards the next router the gateway is silent; towards the previous one its far side.
            (Self::Between, _) => (None, reported.max(silent), reported),
        };
        Some(Unnoticed {
            shown: interval,
            kernel_hung,
            kernel_silent,
            finerail,
        })
    }
}

/// Longest time in seconds until a failure is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unnoticed {
    /// If the failure shows: a connection is refused, or a link is known to be down.
    pub shown: u32,
    /// If a router hangs and its connections stay, by kernel nodes; `None` for an adapter, which
    /// cannot hang in this way.
    pub kernel_hung: Option<u32>,
    /// If messages vanish, as after a loss of power, by kernel nodes.
    pub kernel_silent: u32,
    /// If a router hangs or messages vanish, by nodes of Finerail.
    pub finerail: u32,
}

impl Unnoticed {
    /// The longest time by kernel nodes if the failure does not show.
    #[must_use]
    pub fn kernel(self) -> u32 {
        self.kernel_hung.unwrap_or(self.kernel_silent)
    }
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The kind of what fails.
    pub kind: FailureKind,
    /// The name of what fails.
    pub name: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// What the worst failure of one kind costs in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The failure that affects most pairs.
    pub failure: Failure,
    /// Direction of the lost messages.
    pub direction: Direction,
    /// Pairs of a client and a server that lose messages until the failure is noticed.
    pub pairs: u64,
    /// How many of `pairs` lose messages until the failure is repaired.
    pub lasting: u64,
    /// How long the failure goes unnoticed; `None` if it lasts until the repair.
    pub unnoticed: Option<Unnoticed>,
}

/// Number of pairs that each failure affects, while it is unnoticed and afterwards.
#[derive(Default)]
pub(super) struct Tally(BTreeMap<(Failure, Direction), (u64, u64)>);

impl Tally {
    pub(super) fn add(&mut self, failure: &Failure, direction: Direction, pairs: u64, lasts: bool) {
        let entry = self.0.entry((failure.clone(), direction)).or_default();
        entry.0 += pairs;
        entry.1 += if lasts { pairs } else { 0 };
    }

    /// Returns the worst failure of each kind and direction.
    pub(super) fn outages(self, timing: Timing) -> Vec<Outage> {
        let mut worst: BTreeMap<(FailureKind, Direction), Outage> = BTreeMap::new();
        for ((failure, direction), (pairs, lasting)) in self.0 {
            let outage = Outage {
                unnoticed: failure.kind.unnoticed(direction, timing),
                failure,
                direction,
                pairs,
                lasting,
            };
            let key = (outage.failure.kind, direction);
            let known = worst.get(&key).map(|known| (known.lasting, known.pairs));
            if known.is_none_or(|known| known < (lasting, pairs)) {
                worst.insert(key, outage);
            }
        }
        worst.into_values().collect()
    }
}

/// Returns every single failure that can affect a pair, each with the state that it leaves.
pub(super) fn failures(index: &Index<'_>, pair: &Conversation<'_>) -> Vec<(Failure, State)> {
    let mut numbers = index.on_the_way(pair.client, pair.net);
    numbers.append(&mut index.on_the_way(pair.server, pair.session));
    numbers.append(&mut index.only_pingers_of(&numbers));
    let mut found = Vec::new();
    let mut blades: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for router in index.routers(&numbers) {
        found.push((
            Failure {
                kind: FailureKind::Router,
                name: router.name.to_owned(),
            },
            State {
                dead: BTreeSet::from([router.number]),
                ..State::default()
            },
        ));
        if let Some(blade) = router.blade {
            blades.entry(blade).or_default().insert(router.number);
        }
        found.extend(sides(router, pair.net, pair.session));
    }
    found.extend(blades.into_iter().map(|(blade, dead)| {
        let failure = Failure {
            kind: FailureKind::Module,
            name: blade.to_owned(),
        };
        (
            failure,
            State {
                dead,
                ..State::default()
            },
        )
    }));
    found.push((
        Failure {
            kind: FailureKind::Leaf,
            name: pair.net.to_string(),
        },
        State {
            net: Some(pair.net),
            ..State::default()
        },
    ));
    found
}

/// Returns the failures of a router's network adapters. NIDs of one LND with one address share an
/// adapter. An adapter is named by its NID if the router has several on the same side.
fn sides(router: &Router<'_>, server_net: Net, session: Net) -> Vec<(Failure, State)> {
    let mut adapters: BTreeMap<(LndType, Option<IpAddr>, u32), BTreeSet<Nid>> = BTreeMap::new();
    for &nid in &router.nids {
        let adapter = (nid.net().lnd, nid.ip(), nid.number());
        adapters.entry(adapter).or_default().insert(nid);
    }
    let side = |nids: &BTreeSet<Nid>| {
        let is_on = |net: Net| nids.iter().any(|nid| nid.net() == net);
        match router.nid_on(server_net).is_some() && router.nid_on(session).is_some() {
            _ if is_on(server_net) => FailureKind::ServerSide,
            false if !is_on(session) => FailureKind::Between,
            _ => FailureKind::ClientSide,
        }
    };
    let kinds: Vec<FailureKind> = adapters.values().map(side).collect();
    let failures = adapters.into_values().zip(&kinds).map(|(nids, &kind)| {
        let mut name = router.name.to_owned();
        let same = kinds.iter().filter(|&&other| other == kind).count();
        if let (2.., Some(nid)) = (same, nids.first()) {
            name = format!("{name} {nid}");
        }
        let state = State {
            nids,
            ..State::default()
        };
        (Failure { kind, name }, state)
    });
    failures.collect()
}
