//! The state of the view: the samples of the node and the settings of the user. It is a function of samples and
//! keys.

use std::time::Duration;

use lnet_dlc::protocol::ServiceNumber;

use super::feed::Look;
use super::frame::{Page, Row};
use super::keys::Action;
use super::rates::Span;
use super::sample::Sample;

/// The limit of bytes of the filter.
const FILTER_MAX: usize = 64;

/// How much later than planned a sample may arrive before the shown values count as stale.
const LATE: Duration = Duration::from_secs(2);

pub(super) struct Model {
    /// The path of the node's control socket.
    pub(super) path: String,
    before: Sample,
    now: Option<Sample>,
    /// The reason why the last request for a sample failed.
    pub(super) away: Option<String>,
    /// Seconds since the last sample, if this is longer than it should be: the shown values are stale.
    pub(super) stale: Option<u64>,
    /// The pages that there are, in the order of their numbers.
    pub(super) pages: &'static [Page],
    pub(super) page: Page,
    orders: [Order; Page::COUNT],
    pub(super) filter: String,
    pub(super) is_editing: bool,
    pub(super) shows_help: bool,
    /// The index of the first visible row.
    pub(super) first: usize,
    /// The rows of the page, sorted and filtered.
    rows: Vec<Row>,
    /// The number of rows without the filter.
    pub(super) unfiltered: usize,
}

/// The column by which a page is sorted; `None` keeps the node's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Option<usize>,
    pub(super) descends: bool,
}

/// The rates of the whole node, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) routed: f64,
    pub(super) sent_bytes: f64,
    pub(super) received_bytes: f64,
    pub(super) routed_bytes: f64,
    pub(super) dropped: f64,
    pub(super) resends: f64,
    pub(super) given_up: f64,
    pub(super) failures: f64,
    pub(super) timeouts: f64,
}

impl Model {
    /// Returns the view of a node itself.
    pub(super) fn new(path: String) -> Self {
        Self::of(path, Page::OF_NODE, Page::Interfaces)
    }

    /// Returns the view of the RPCs that a node sees.
    pub(super) fn of_rpcs(path: String) -> Self {
        Self::of(path, Page::OF_RPCS, Page::Clients)
    }

    fn of(path: String, pages: &'static [Page], page: Page) -> Self {
        // At first the peers and the RPCs are sorted by traffic, because users usually look for the busiest ones.
        let mut orders = [Order::default(); Page::COUNT];
        let busiest = |column| Order {
            column: Some(column),
            descends: true,
        };
        orders[Page::Peers as usize] = busiest(SENT_COLUMN);
        for page in [Page::Clients, Page::Targets, Page::Operations, Page::Jobs] {
            orders[page as usize] = busiest(super::rpcs::RATE_COLUMN);
        }
        Self {
            path,
            before: Sample::default(),
            now: None,
            away: None,
            stale: None,
            pages,
            page,
            orders,
            filter: String::new(),
            is_editing: false,
            shows_help: false,
            first: 0,
            rows: Vec::new(),
            unfiltered: 0,
        }
    }

    /// Takes a new sample, or the reason why there is none.
    pub(super) fn take(&mut self, look: Look) {
        match look {
            Ok(sample) => {
                self.away = None;
                let has_o2ib = !sample.o2ib.is_empty();
                let before = self.now.replace(sample);
                self.before = before.unwrap_or_default();
                self.show_o2ib(has_o2ib);
                self.refresh();
            }
            Err(why) => self.away = Some(why),
        }
    }

    /// Shows the page of RDMA as long as the node has networks over it.
    fn show_o2ib(&mut self, has_o2ib: bool) {
        if self.is_of_rpcs() {
            return;
        }
        self.pages = match has_o2ib {
            true => Page::OF_NODE_WITH_O2IB,
            false => Page::OF_NODE,
        };
        if !self.pages.contains(&self.page) {
            self.page = Page::Interfaces;
            self.first = 0;
        }
    }

    /// Updates the age of the last sample. Returns whether this changes the display.
    pub(super) fn age(&mut self, since_seen: Duration, interval: Duration) -> bool {
        let late = interval + LATE;
        let stale = (since_seen > late).then_some(since_seen.as_secs());
        std::mem::replace(&mut self.stale, stale) != stale
    }

    /// Returns the last sample.
    pub(super) fn sample(&self) -> Option<&Sample> {
        self.now.as_ref()
    }

    /// Returns the time between the last two samples; `None` if rates cannot be computed.
    pub(super) fn span(&self) -> Option<Span> {
        let now = self.now.as_ref()?;
        // `before` is empty until the second sample. An uptime of 0 marks it, and gives no rates.
        let before = Some(self.before.node.uptime_nanos).filter(|nanos| *nanos > 0)?;
        Span::between(before, now.node.uptime_nanos)
    }

    /// Returns the rates of the whole node.
    pub(super) fn totals(&self) -> Option<Totals> {
        let span = self.span()?;
        let (old, new) = (&self.before.node, &self.now.as_ref()?.node);
        Some(Totals {
            sent: span.rate(old.sent, new.sent),
            received: span.rate(old.received, new.received),
            routed: span.rate(old.routed, new.routed),
            sent_bytes: span.rate(old.sent_bytes, new.sent_bytes),
            received_bytes: span.rate(old.received_bytes, new.received_bytes),
            routed_bytes: span.rate(old.routed_bytes, new.routed_bytes),
            dropped: span.rate(old.dropped, new.dropped),
            resends: span.rate(old.resends, new.resends),
            given_up: span.rate(old.resends_failed, new.resends_failed),
            failures: span.rate(old.failures, new.failures),
            timeouts: span.rate(old.response_timeouts, new.response_timeouts),
        })
    }

    /// Returns the growth per second of RPCs, errors, RPCs without a reply, and bytes.
    pub(super) fn rpc_totals(&self) -> Option<[f64; 4]> {
        let span = self.span()?;
        let (old, new) = (&self.before.rpcs.all, &self.now.as_ref()?.rpcs.all);
        Some([
            span.rate(old.rpcs, new.rpcs),
            span.rate(old.errors, new.errors),
            span.rate(old.unanswered, new.unanswered),
            span.rate(old.bytes, new.bytes),
        ])
    }

    /// Returns whether this is the view of RPCs.
    pub(super) fn is_of_rpcs(&self) -> bool {
        self.pages == Page::OF_RPCS
    }

    /// Returns how fast a counter of the service grows, per second.
    pub(super) fn service_rate(&self, now: &ServiceNumber) -> Option<f64> {
        let before = self
            .before
            .service
            .iter()
            .find(|number| number.name == now.name);
        let span = self.span()?;
        Some(span.rate(before.map_or(0, |number| number.value), now.value))
    }

    pub(super) fn uptime(&self) -> Option<Duration> {
        let now = self.now.as_ref()?;
        Some(Duration::from_nanos(now.node.uptime_nanos))
    }

    /// Returns the rows of the current page.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the rows of any page, in the order that the user chose for that page.
    pub(super) fn rows_of(&self, page: Page) -> Vec<Row> {
        let Some(now) = &self.now else {
            return Vec::new();
        };
        let mut rows = page.rows(&self.before, now, self.span());
        self.orders[page as usize].sort(&mut rows);
        rows
    }

    pub(super) fn order(&self) -> Order {
        self.orders[self.page as usize]
    }

    /// Returns the number of rows on a page without the filter.
    pub(super) fn count(&self, page: Page) -> usize {
        let Some(now) = &self.now else { return 0 };
        match page {
            Page::Interfaces => now.nis.len(),
            Page::Peers => now.peer_nis.len(),
            Page::Routes => now.routes.len(),
            Page::O2ib => now.o2ib.len(),
            Page::Slowest => now.rpcs.slowest.len(),
            Page::Clients | Page::Targets | Page::Operations | Page::Jobs => {
                page.rows(&self.before, now, None).len()
            }
        }
    }

    /// Carries out an action; `height` is the number of visible rows. Returns whether to continue.
    pub(super) fn act(&mut self, action: Action, height: usize) -> bool {
        let step = height.max(1);
        if self.shows_help && action != Action::Quit {
            // Any key except Quit only closes the help, because the user was reading.
            self.shows_help = false;
            return true;
        }
        match action {
            Action::Quit => return false,
            Action::Help => self.shows_help = true,
            Action::Up => self.first = self.first.saturating_sub(1),
            Action::Down => self.first = self.first.saturating_add(1),
            Action::PageUp => self.first = self.first.saturating_sub(step),
            Action::PageDown => self.first = self.first.saturating_add(step),
            Action::Top => self.first = 0,
            Action::Bottom => self.first = usize::MAX,
            Action::Page(_) | Action::NextPage | Action::PreviousPage => self.turn(action),
            Action::NextColumn => self.sort_by(1),
            Action::PreviousColumn => self.sort_by(-1),
            Action::Reverse => {
                let order = &mut self.orders[self.page as usize];
                order.descends = !order.descends;
                self.refresh();
            }
            Action::Filter | Action::Type(_) | Action::Erase | Action::Accept | Action::Cancel => {
                self.edit(action)
            }
        }
        self.scroll_into(height);
        true
    }

    /// Limits scrolling, so that the last row is not above the lowest visible line.
    pub(super) fn scroll_into(&mut self, height: usize) {
        let last = self.rows.len().saturating_sub(height.max(1));
        self.first = self.first.min(last);
    }

    fn turn(&mut self, action: Action) {
        let count = self.pages.len();
        let here = self.pages.iter().position(|page| *page == self.page);
        let here = here.unwrap_or_default();
        let there = match action {
            Action::Page(page) => page,
            Action::NextPage => (here + 1) % count,
            _ => (here + count - 1) % count,
        };
        self.page = self.pages.get(there).copied().unwrap_or(self.page);
        self.first = 0;
        self.refresh();
    }

    /// Moves the sort column by `step`. The position before the first column stands for the node's own order.
    fn sort_by(&mut self, step: isize) {
        let columns = self.page.columns().len() as isize;
        let order = &mut self.orders[self.page as usize];
        let at = order.column.map_or(0, |column| column as isize + 1);
        let next = (at + step).rem_euclid(columns + 1);
        order.column = usize::try_from(next - 1).ok();
        // Names and states are sorted in ascending order, counts in descending order, because users look for
        // the largest counts.
        order.descends = next > 2;
        self.refresh();
    }

    fn edit(&mut self, action: Action) {
        match action {
            Action::Filter => {
                self.is_editing = true;
            }
            Action::Type(letter) if self.filter.len() < FILTER_MAX && !letter.is_control() => {
                self.filter.push(letter);
            }
            Action::Erase if self.is_editing => {
                self.filter.pop();
            }
            Action::Accept => self.is_editing = false,
            Action::Cancel => {
                self.is_editing = false;
                self.filter.clear();
            }
            _ => {}
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let mut rows = self.rows_of(self.page);
        self.unfiltered = rows.len();
        if !self.filter.is_empty() {
            rows.retain(|row| row.contains(&self.filter));
        }
        self.rows = rows;
    }
}

/// The index of the column with the rate of sent messages, on the pages of interfaces and peers.
const SENT_COLUMN: usize = 4;

impl Order {
    /// Sorts the rows. Equal rows keep the node's order.
    fn sort(self, rows: &mut [Row]) {
        let Some(column) = self.column else {
            if self.descends {
                rows.reverse();
            }
            return;
        };
        let compare = |one: &Row, other: &Row| {
            let cells = one.cells.get(column).zip(other.cells.get(column));
            let rising = cells.map(|(one, other)| one.compare(other));
            let rising = rising.unwrap_or(std::cmp::Ordering::Equal);
            if self.descends {
                rising.reverse()
            } else {
                rising
            }
        };
        rows.sort_by(compare);
    }
}
