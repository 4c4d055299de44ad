//! The metrics of peer interfaces: some interfaces have series of their own, all others are added up in one series.
//!
//! ```text
//!  peers in the order of the node's table
//!  |── own series, each scrape ──|─ rest of ─|───────────── in turns ─────────────|
//!                                  that page        ▲ the walk goes on from here
//! ```
//!
//! A scrape copies the interfaces that have series of their own. To read 100,000 others would take 25 ms. So the walk
//! over the others stops when it has used its allowance, which grows with time, and the next scrape continues it. The
//! sum shown is that of the last complete walk: with one scrape per second it may be some seconds old, with one in 15
//! seconds it is current. The first walk is not divided.

use std::time::Instant;

use lnet_core::{PeerCursor, PeerNiView, PeerView, TypeCounts};
use lnet_node::Node;

use super::family::Series;
use super::snapshot::series;

/// The label value of the interfaces without series of their own.
const OTHERS: &str = "others";

/// Peers that are read under one lock, which takes some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// The number of others that are read for each second since the last scrape: 2 ms of work.
const OTHERS_PER_SECOND: u64 = 1 << 13;

/// All interfaces of peers, as a scrape shows them.
pub(super) struct PeerNis {
    /// The number of interfaces.
    pub(super) count: u64,
    pub(super) series: Vec<Series<PeerNiView>>,
}

/// The position of the walk over the others between scrapes.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The sum so far and the place at which the walk continues; `None` between two walks.
    under_way: Option<(Sum, PeerCursor)>,
    /// The sum of the last complete walk; `None` before its end.
    whole: Option<Sum>,
    last_scrape: Option<Instant>,
}

/// The sum of some interfaces of peers.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    view: Option<PeerNiView>,
}

impl PeerNis {
    /// Reads the interfaces with series of their own, at most `max`, and continues the walk over the others.
    pub(super) fn of(node: &Node, max: usize, walk: &mut Walk, now: Instant) -> Self {
        let mut own = Own::new(max);
        let mut from = Some(PeerCursor::START);
        while let Some(cursor) = from.filter(|_| !own.is_full()) {
            let (page, next) = page(node, cursor);
            page.iter().for_each(|peer| own.add(peer));
            from = next;
        }
        let mut others = own.rest;
        if let Some(beyond) = from {
            others.add_sum(&walk.go_on(node, beyond, now));
        }
        let series = own.series.into_iter();
        Self {
            count: series.len() as u64 + others.count,
            series: series.chain(others.series()).collect(),
        }
    }
}

fn page(node: &Node, from: PeerCursor) -> (Vec<PeerView>, Option<PeerCursor>) {
    node.look(|engine| engine.core().peer_page(from, PEERS_PER_PAGE))
}

/// The interfaces with series of their own, and the rest of the page on which their limit was reached.
struct Own {
    max: usize,
    series: Vec<Series<PeerNiView>>,
    rest: Sum,
}

impl Own {
    fn new(max: usize) -> Self {
        Self {
            max,
            series: Vec::new(),
            rest: Sum::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.series.len() >= self.max
    }

    fn add(&mut self, peer: &PeerView) {
        for peer_ni in &peer.nis {
            if self.is_full() {
                self.rest.add(peer_ni);
            } else {
                let label = ("peer", peer_ni.nid.to_string());
                self.series.push(series([label], *peer_ni));
            }
        }
    }
}

impl Walk {
    /// Reads as many interfaces as the time since the last scrape allows, and returns the sum of the last complete
    /// walk. A new walk begins at `beyond`.
    fn go_on(&mut self, node: &Node, beyond: PeerCursor, now: Instant) -> Sum {
        let mut allowed = self.allowance(now);
        let (mut sum, mut cursor) = self.under_way.take().unwrap_or((Sum::default(), beyond));
        while allowed > 0 {
            let (page, next) = page(node, cursor);
            let before = sum.count;
            page.iter()
                .flat_map(|peer| &peer.nis)
                .for_each(|peer_ni| sum.add(peer_ni));
            // A stretch of the table without interfaces costs time, too.
            allowed = allowed.saturating_sub((sum.count - before).max(PEERS_PER_PAGE as u64 / 4));
            match next {
                Some(next) => cursor = next,
                None => {
                    self.whole = Some(sum);
                    return sum;
                }
            }
        }
        self.under_way = Some((sum, cursor));
        self.whole.unwrap_or(sum)
    }

    fn allowance(&mut self, now: Instant) -> u64 {
        let last = self.last_scrape.replace(now);
        let (Some(last), Some(_)) = (last, &self.whole) else {
            return u64::MAX;
        };
        let millis =
            u64::try_from(now.saturating_duration_since(last).as_millis()).unwrap_or(u64::MAX);
        (millis.saturating_mul(OTHERS_PER_SECOND) / 1000).max(PEERS_PER_PAGE as u64)
    }
}

impl Sum {
    fn add(&mut self, peer_ni: &PeerNiView) {
        self.count += 1;
        match &mut self.view {
            Some(view) => merge(view, peer_ni),
            None => self.view = Some(*peer_ni),
        }
    }

    fn add_sum(&mut self, other: &Self) {
        if let Some(view) = &other.view {
            self.add(view);
            self.count += other.count - 1;
        }
    }

    fn series(self) -> Option<Series<PeerNiView>> {
        self.view
            .map(|view| series([("peer", OTHERS.to_owned())], view))
    }
}

/// Adds another interface: adds up counts and credits, and keeps the lowest health and the lowest of the fewest
/// credits. The sum is up if all its interfaces are up.
fn merge(into: &mut PeerNiView, other: &PeerNiView) {
    into.up &= other.up;
    into.max_tx_credits = into.max_tx_credits.saturating_add(other.max_tx_credits);
    into.tx_credits = into.tx_credits.saturating_add(other.tx_credits);
    into.min_tx_credits = into.min_tx_credits.min(other.min_tx_credits);
    into.queued_bytes = into.queued_bytes.saturating_add(other.queued_bytes);
    into.router_credits = into.router_credits.saturating_add(other.router_credits);
    into.min_router_credits = into.min_router_credits.min(other.min_router_credits);
    add_types(&mut into.stats.sent, other.stats.sent);
    add_types(&mut into.stats.received, other.stats.received);
    add_types(&mut into.stats.dropped, other.stats.dropped);
    let (stats, more) = (&mut into.stats, &other.stats);
    stats.sent_length = stats.sent_length.saturating_add(more.sent_length);
    stats.received_length = stats.received_length.saturating_add(more.received_length);
    into.health.health = into.health.health.min(other.health.health);
    into.health.in_recovery |= other.health.in_recovery;
    let (failed, more) = (&mut into.health_stats, &other.health_stats);
    failed.dropped = failed.dropped.saturating_add(more.dropped);
    failed.timeout = failed.timeout.saturating_add(more.timeout);
    failed.error = failed.error.saturating_add(more.error);
    failed.network_timeout = failed.network_timeout.saturating_add(more.network_timeout);
    into.latency.merge(&other.latency);
}

fn add_types(into: &mut TypeCounts, other: TypeCounts) {
    into.put = into.put.saturating_add(other.put);
    into.get = into.get.saturating_add(other.get);
    into.reply = into.reply.saturating_add(other.reply);
    into.ack = into.ack.saturating_add(other.ack);
}
