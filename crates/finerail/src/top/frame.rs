//! Tables of cells for the interfaces, the peers, the routes and the RPCs.

use std::cmp::Ordering;
use std::collections::HashMap;

use lnet_dlc::protocol::{Condition, NiNumbers, PeerNiNumbers, RouteNumbers, Traffic};

use super::o2ib;
use super::rates::{Span, quantile};
use super::rpcs;
use super::sample::Sample;
use super::text;

/// The subject of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Interfaces,
    Peers,
    Routes,
    O2ib,
    Clients,
    Targets,
    Operations,
    Jobs,
    Slowest,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// The name of the column in JSON.
    pub(super) name: &'static str,
    /// The width in characters. A longer name takes the remaining space.
    pub(super) width: u16,
    /// The order in which columns are left out on a narrow terminal: the highest rank first, rank 0 never.
    pub(super) rank: u8,
    /// Whether the column holds names, which are aligned left. Counts are aligned right.
    pub(super) is_name: bool,
}

/// The content of a cell. `Nothing` means an unknown value, such as a rate before the second sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Nothing,
    Name(String),
    State(State),
    /// The available credits, and their maximum. A negative value is the number of messages that wait.
    Credits(i64, i64),
    Number(f64),
    Bytes(f64),
    Nanos(u64),
}

/// The state of an interface, a peer or a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Down,
    /// LNet is recovering it.
    Recovering,
    /// Its health is below the maximum.
    Ill,
    Up,
}

/// A row of a table, and the state of its subject.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) cells: Vec<Cell>,
}

pub(super) const fn column(
    title: &'static str,
    name: &'static str,
    width: u16,
    rank: u8,
) -> Column {
    Column {
        title,
        name,
        width,
        rank,
        is_name: false,
    }
}

pub(super) const fn names(title: &'static str, name: &'static str, width: u16, rank: u8) -> Column {
    Column {
        is_name: true,
        ..column(title, name, width, rank)
    }
}

const NID: Column = names("NID", "nid", 18, 0);
const STATE: Column = names("STATE", "state", 5, 0);
const HEALTH: Column = column("HEALTH", "health", 6, 1);
const CREDITS: Column = column("CREDITS", "credits", 8, 2);
const SENT: Column = column("SENT/S", "sent_per_second", 6, 1);
const RECEIVED: Column = column("RECV/S", "received_per_second", 6, 1);
const OUT: Column = column("OUT/S", "sent_bytes_per_second", 6, 2);
const IN: Column = column("IN/S", "received_bytes_per_second", 6, 2);
const DROPPED: Column = column("DROP/S", "dropped_per_second", 6, 1);
const FAILED: Column = column("FAIL/S", "failures_per_second", 6, 3);

const INTERFACES: &[Column] = &[
    NID,
    STATE,
    HEALTH,
    CREDITS,
    SENT,
    RECEIVED,
    OUT,
    IN,
    DROPPED,
    FAILED,
    column("RTT50", "round_trip_median_nanos", 6, 4),
    column("RTT99", "round_trip_99_nanos", 6, 4),
];

const PEERS: &[Column] = &[
    NID,
    STATE,
    HEALTH,
    CREDITS,
    SENT,
    RECEIVED,
    OUT,
    IN,
    DROPPED,
    FAILED,
    column("QUEUED", "queued_bytes", 6, 3),
    names("PEER", "primary", 18, 5),
];

const ROUTES: &[Column] = &[
    names("NET", "net", 8, 0),
    names("GATEWAY", "gateway", 18, 0),
    STATE,
    column("HOPS", "hops", 4, 2),
    column("PRIO", "priority", 4, 2),
    SENT,
    OUT,
    DROPPED,
    column("SENT", "sent", 6, 3),
    column("DROP", "dropped", 6, 3),
];

impl Page {
    /// The number of pages.
    pub(super) const COUNT: usize = 9;

    /// The pages about the node itself.
    pub(super) const OF_NODE: &[Self] = &[Self::Interfaces, Self::Peers, Self::Routes];

    /// The pages about a node with networks over RDMA.
    pub(super) const OF_NODE_WITH_O2IB: &[Self] =
        &[Self::Interfaces, Self::Peers, Self::Routes, Self::O2ib];

    /// The pages about RPCs.
    pub(super) const OF_RPCS: &[Self] = &[
        Self::Clients,
        Self::Targets,
        Self::Operations,
        Self::Jobs,
        Self::Slowest,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Interfaces => "Interfaces",
            Self::Peers => "Peers",
            Self::Routes => "Routes",
            Self::O2ib => "RDMA",
            Self::Clients => "Clients",
            Self::Targets => "Targets",
            Self::Operations => "Operations",
            Self::Jobs => "Jobs",
            Self::Slowest => "Slowest",
        }
    }

    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Interfaces => INTERFACES,
            Self::Peers => PEERS,
            Self::Routes => ROUTES,
            Self::O2ib => o2ib::COUNTERS,
            Self::Clients => rpcs::CLIENTS,
            Self::Targets => rpcs::TARGETS,
            Self::Operations => rpcs::OPERATIONS,
            Self::Jobs => rpcs::JOBS,
            Self::Slowest => rpcs::SLOWEST,
        }
    }

    /// Returns the rows in the node's order. Rates compare the counts with those in `before`, which was taken
    /// `span` earlier.
    pub(super) fn rows(self, before: &Sample, now: &Sample, span: Option<Span>) -> Vec<Row> {
        match self {
            Self::Interfaces => {
                let old = by_key(&before.nis, |ni| ni.nid.as_str());
                let rows = now.nis.iter();
                rows.map(|ni| of_ni(old.get(ni.nid.as_str()).copied(), ni, span))
                    .collect()
            }
            Self::Peers => {
                let old = by_key(&before.peer_nis, |peer| peer.nid.as_str());
                let rows = now.peer_nis.iter();
                rows.map(|peer| of_peer(old.get(peer.nid.as_str()).copied(), peer, span))
                    .collect()
            }
            Self::Routes => {
                let old = by_key(&before.routes, |route| (&route.net, &route.gateway));
                let rows = now.routes.iter();
                rows.map(|route| {
                    let old = old.get(&(&route.net, &route.gateway)).copied();
                    of_route(old, route, span)
                })
                .collect()
            }
            Self::O2ib => o2ib::rows(&before.o2ib, &now.o2ib, span),
            Self::Clients => rpcs::rows("client", &before.rpcs, &now.rpcs, span),
            Self::Targets => rpcs::rows("target", &before.rpcs, &now.rpcs, span),
            Self::Operations => rpcs::rows("operation", &before.rpcs, &now.rpcs, span),
            Self::Jobs => rpcs::rows("job", &before.rpcs, &now.rpcs, span),
            Self::Slowest => now.rpcs.slowest.iter().map(rpcs::of_told).collect(),
        }
    }
}

pub(super) fn by_key<'a, T, K: std::hash::Hash + Eq>(
    list: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> HashMap<K, &'a T> {
    list.iter().map(|one| (key(one), one)).collect()
}

fn of_ni(old: Option<&NiNumbers>, ni: &NiNumbers, span: Option<Span>) -> Row {
    let fresh = NiNumbers::default();
    let old = old.unwrap_or(&fresh);
    let rtt = |share| {
        let of = span.and_then(|_| quantile(&old.round_trips, &ni.round_trips, share));
        of.map_or(Cell::Nothing, Cell::Nanos)
    };
    let mut row = of_interface(&ni.nid, &ni.condition);
    row.cells
        .extend(of_traffic(&old.traffic, &ni.traffic, span));
    row.cells.extend([rtt(0.5), rtt(0.99)]);
    row
}

fn of_peer(old: Option<&PeerNiNumbers>, peer: &PeerNiNumbers, span: Option<Span>) -> Row {
    let fresh = PeerNiNumbers::default();
    let old = old.unwrap_or(&fresh);
    let mut row = of_interface(&peer.nid, &peer.condition);
    row.cells
        .extend(of_traffic(&old.traffic, &peer.traffic, span));
    let primary = peer.primary.clone();
    row.cells.extend([
        Cell::Bytes(peer.queued_bytes as f64),
        primary.map_or(Cell::Nothing, Cell::Name),
    ]);
    row
}

fn of_interface(nid: &str, condition: &Condition) -> Row {
    let state = match condition {
        Condition { up: false, .. } => State::Down,
        Condition {
            recovering: true, ..
        } => State::Recovering,
        Condition { health, .. } if *health < FULL_HEALTH => State::Ill,
        _ => State::Up,
    };
    let cells = vec![
        Cell::Name(nid.to_owned()),
        Cell::State(state),
        Cell::Number(condition.health.into()),
        Cell::Credits(condition.credits, condition.credits_max),
    ];
    Row { state, cells }
}

const FULL_HEALTH: u16 = 1000;

fn of_traffic(old: &Traffic, new: &Traffic, span: Option<Span>) -> [Cell; 6] {
    let rate = |before, after| span.map(|span| span.rate(before, after));
    let number = |before, after| rate(before, after).map_or(Cell::Nothing, Cell::Number);
    let bytes = |before, after| rate(before, after).map_or(Cell::Nothing, Cell::Bytes);
    [
        number(old.sent, new.sent),
        number(old.received, new.received),
        bytes(old.sent_bytes, new.sent_bytes),
        bytes(old.received_bytes, new.received_bytes),
        number(old.dropped, new.dropped),
        number(old.failures, new.failures),
    ]
}

fn of_route(old: Option<&RouteNumbers>, route: &RouteNumbers, span: Option<Span>) -> Row {
    let fresh = RouteNumbers::default();
    let old = old.unwrap_or(&fresh);
    let rate = |before, after| span.map(|span| span.rate(before, after));
    let state = if route.up { State::Up } else { State::Down };
    let hops = route.hops.map(f64::from);
    let cells = vec![
        Cell::Name(route.net.clone()),
        Cell::Name(route.gateway.clone()),
        Cell::State(state),
        hops.map_or(Cell::Nothing, Cell::Number),
        Cell::Number(route.priority.into()),
        rate(old.sent, route.sent).map_or(Cell::Nothing, Cell::Number),
        rate(old.sent_bytes, route.sent_bytes).map_or(Cell::Nothing, Cell::Bytes),
        rate(old.dropped, route.dropped).map_or(Cell::Nothing, Cell::Number),
        Cell::Number(route.sent as f64),
        Cell::Number(route.dropped as f64),
    ];
    Row { state, cells }
}

impl Row {
    /// Returns whether a name contains the text, or the word of the state begins with it.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.cells.iter().any(|cell| match cell {
            Cell::Name(name) => name.contains(text),
            Cell::State(state) => state.word().starts_with(text),
            _ => false,
        })
    }
}

impl State {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Recovering => "recov",
            Self::Ill => "ill",
            Self::Up => "up",
        }
    }
}

impl Cell {
    /// Returns the displayed text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Name(name) => name.clone(),
            Self::State(state) => state.word().to_owned(),
            Self::Credits(left, most) => format!("{left}/{most}"),
            Self::Number(value) if value.fract() == 0.0 && *value < 10_000.0 => {
                format!("{value:.0}")
            }
            Self::Number(value) => text::short(*value),
            Self::Bytes(value) => text::bytes(*value),
            Self::Nanos(nanos) => text::latency(*nanos),
        }
    }

    /// Compares cells of the same column for sorting. Unknown values come first.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Name(one), Self::Name(other)) => one.cmp(other),
            (Self::State(one), Self::State(other)) => one.cmp(other),
            _ => self.size().total_cmp(&other.size()),
        }
    }

    fn size(&self) -> f64 {
        match self {
            Self::Nothing | Self::Name(_) | Self::State(_) => f64::NEG_INFINITY,
            Self::Credits(left, _) => *left as f64,
            Self::Number(value) | Self::Bytes(value) => *value,
            Self::Nanos(nanos) => *nanos as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use lnet_dlc::protocol::O2ibNumber;

    use super::*;

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        let sample = Sample {
            nis: vec![NiNumbers::default()],
            routes: vec![RouteNumbers::default()],
            peer_nis: vec![PeerNiNumbers::default()],
            o2ib: vec![O2ibNumber::default()],
            rpcs: rpcs::tests::one_of_each(),
            ..Sample::default()
        };
        for &page in [Page::OF_NODE_WITH_O2IB, Page::OF_RPCS].concat().iter() {
            let rows = page.rows(&Sample::default(), &sample, None);
            assert_eq!(rows.len(), 1);
            assert_eq!(rows[0].cells.len(), page.columns().len(), "{page:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_below_everything() {
        let zero = Cell::Number(0.0);
        assert_eq!(Cell::Nothing.compare(&zero), Ordering::Less);
        assert_eq!(Cell::Nothing.compare(&Cell::Nothing), Ordering::Equal);
        let names = (Cell::Name("a".into()), Cell::Name("b".into()));
        assert_eq!(names.0.compare(&names.1), Ordering::Less);
    }

    #[test]
    fn health_that_is_not_full_shows_in_the_state() {
        let state = |up, recovering, health| {
            let condition = Condition {
                up,
                recovering,
                health,
                ..Condition::default()
            };
            of_interface("", &condition).state
        };
        assert_eq!(state(true, false, 1000), State::Up);
        assert_eq!(state(true, false, 999), State::Ill);
        assert_eq!(state(true, true, 0), State::Recovering);
        assert_eq!(state(false, true, 0), State::Down);
    }
}
