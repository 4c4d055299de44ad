//! RPCs by client, target, operation and job: counts, bytes, errors, and how long they took.

use std::sync::Arc;

use hdrhistogram::Histogram;
use lnet_types::Nid;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::opcode::service_of;
use crate::rpc::{End, Rpc, operation_name};

/// The most rows. When there are more, those with the fewest RPCs become part of one row of the name [`OTHER`].
pub const ROWS_MAX: usize = 4096;

/// How many rows go at a time.
const EVICTED: usize = ROWS_MAX / 4;

/// The bounds of the counts of RPCs by their time, in microseconds. RPCs that take longer than the last are in no count.
pub const TIME_BOUNDS: [u64; 13] = [
    100,
    300,
    1_000,
    3_000,
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
];

/// The name of the row of everything that has no row of its own.
pub const OTHER: &str = "other";

/// What rows are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// The requester.
    Client,
    /// The target, or the server.
    Target,
    /// The operation.
    Operation,
    /// The job.
    Job,
}

impl By {
    /// All columns, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Client, Self::Target, Self::Operation, Self::Job];

    /// Returns the name of the column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Target => "target",
            Self::Operation => "operation",
            Self::Job => "job",
        }
    }

    fn of(self, rpc: &Rpc) -> Value {
        match self {
            Self::Client => Value::Client(rpc.client),
            Self::Target => match &rpc.target {
                Some(target) if **target == *OTHER => Value::Other,
                Some(target) => Value::Text(Arc::clone(target)),
                None => Value::Server(service_of(rpc.portal), rpc.server),
            },
            Self::Operation => Value::Operation(rpc.opc),
            Self::Job if &*rpc.job == OTHER => Value::Other,
            Self::Job => Value::Text(Arc::clone(&rpc.job)),
        }
    }
}

/// What stands in a column of a row. As text only once for each row: an RPC is counted without a word of text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Client(Nid),
    Text(Arc<str>),
    Server(&'static str, Nid),
    Operation(Option<u32>),
    Other,
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Client(nid) => nid.to_string(),
            Self::Text(text) => text.to_string(),
            Self::Server(service, nid) => format!("{service}@{nid}"),
            Self::Operation(opc) => operation_name(*opc),
            Self::Other => OTHER.to_owned(),
        }
    }
}

/// Figures of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// RPCs.
    pub rpcs: u64,
    /// RPCs whose reply has an error.
    pub errors: u64,
    /// RPCs without a reply.
    pub unanswered: u64,
    /// Bytes of data: bulk, or what stood in the messages themselves.
    pub bytes: u64,
    /// RPCs with a final reply.
    #[serde(skip)]
    pub answered: u64,
    /// The microseconds that the answered RPCs took together.
    #[serde(skip)]
    pub micros: u64,
    /// How many of them took no longer than a bound of [`TIME_BOUNDS`], and longer than the bound before.
    #[serde(skip)]
    pub by_time: [u64; TIME_BOUNDS.len()],
    /// The longest time in microseconds, exactly: the histogram knows only about how long it was.
    #[serde(skip)]
    longest: Option<u64>,
    #[serde(skip)]
    times: Option<Histogram<u32>>,
}

impl Figures {
    /// Times of up to an hour in microseconds, whose first `digits` digits are right.
    fn new(digits: u8) -> Self {
        let times = Histogram::new_with_max(3_600_000_000, digits).ok();
        Self {
            rpcs: 0,
            errors: 0,
            unanswered: 0,
            bytes: 0,
            answered: 0,
            micros: 0,
            by_time: [0; TIME_BOUNDS.len()],
            longest: None,
            times,
        }
    }

    fn add(&mut self, sample: &Sample) {
        self.rpcs += 1;
        self.errors += u64::from(sample.is_error);
        self.unanswered += u64::from(sample.is_unanswered);
        self.bytes = self.bytes.saturating_add(sample.bytes);
        let Some(micros) = sample.micros else { return };
        self.answered += 1;
        self.micros = self.micros.saturating_add(micros);
        if let Some(count) = self.by_time.get_mut(sample.bound) {
            *count += 1;
        }
        self.longest = self.longest.max(Some(micros));
        if let Some(times) = &mut self.times {
            times.saturating_record(micros);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.rpcs += other.rpcs;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.answered += other.answered;
        self.micros = self.micros.saturating_add(other.micros);
        for (count, more) in self.by_time.iter_mut().zip(other.by_time) {
            *count += more;
        }
        self.longest = self.longest.max(other.longest);
        if let (Some(times), Some(more)) = (&mut self.times, &other.times) {
            // Both have the same range.
            let _added = times.add(more);
        }
    }

    /// Returns the time in microseconds within which this share of the answered RPCs ended, about, and never more than the
    /// longest; `None` if none was answered.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<u64> {
        let times = self.times.as_ref()?;
        Some(times.value_at_quantile(share).min(self.longest?))
    }

    /// Returns the longest time in microseconds, exactly; `None` if none was answered.
    #[must_use]
    pub const fn longest(&self) -> Option<u64> {
        self.longest
    }
}

/// What an RPC adds to figures.
struct Sample {
    is_error: bool,
    is_unanswered: bool,
    bytes: u64,
    micros: Option<u64>,
    bound: usize,
}

impl Sample {
    fn of(rpc: &Rpc) -> Self {
        let took = rpc.took();
        let micros = took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let bound = micros.map_or(0, |micros| {
            TIME_BOUNDS.partition_point(|bound| *bound < micros)
        });
        Self {
            is_error: rpc.status.is_some_and(|status| status < 0),
            is_unanswered: rpc.end == End::Unanswered,
            bytes: rpc.moved(),
            micros,
            bound,
        }
    }
}

/// A table of RPCs.
///
/// The number of its rows is limited. A row with few RPCs makes room for a new one, so that what is busy has a row,
/// whenever it begins; what a row had then counts in the row [`OTHER`], and the sum of all rows stays that of all RPCs.
#[derive(Debug)]
pub struct Summary {
    by: Vec<By>,
    rows: FxHashMap<Vec<Value>, Row>,
    /// The key of the last RPC, whose memory serves the next.
    key: Vec<Value>,
    /// How many digits of times are right.
    digits: u8,
    /// What has no row of its own, and its names.
    rest: Figures,
    rest_names: Vec<String>,
    births: u64,
    evicted: u64,
    /// The most weight of a row that went. A new row has more, so that those that went last do not go again and again.
    floor: u64,
}

#[derive(Debug)]
struct Row {
    names: Vec<String>,
    figures: Figures,
    /// The RPCs that decide which row stays: those of the row, and of those that it may have had before.
    weight: u64,
    born: u64,
}

/// A row with what decides whether it stays.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// What the row is made by.
    pub names: &'a [String],
    /// Its figures.
    pub figures: &'a Figures,
    /// Its RPCs, where older ones count less ([`Summary::age`]).
    pub weight: u64,
    /// The number of the row: later rows have higher ones, also later rows of the same name.
    pub born: u64,
}

impl Summary {
    /// Makes an empty table with these columns, whose percentiles are within 1 %.
    #[must_use]
    pub fn new(by: &[By]) -> Self {
        Self::with_digits(by, 2)
    }

    /// Makes an empty table for a program that runs on: percentiles are within 10 %, and a row takes 2 KB instead of 13.
    #[must_use]
    pub fn coarse(by: &[By]) -> Self {
        Self::with_digits(by, 1)
    }

    fn with_digits(by: &[By], digits: u8) -> Self {
        Self {
            by: by.to_vec(),
            rows: FxHashMap::default(),
            key: Vec::new(),
            digits,
            rest: Figures::new(digits),
            rest_names: vec![OTHER.to_owned(); by.len()],
            births: 0,
            evicted: 0,
            floor: 0,
        }
    }

    /// Counts an RPC.
    pub fn add(&mut self, rpc: &Rpc) {
        let sample = Sample::of(rpc);
        self.key.clear();
        self.key.extend(self.by.iter().map(|by| by.of(rpc)));
        if let Some(row) = self.rows.get_mut(&self.key) {
            row.weight += 1;
            return row.figures.add(&sample);
        }
        // A job or a target may have the name of the rest.
        if self.key.iter().all(|value| *value == Value::Other) {
            return self.rest.add(&sample);
        }
        if self.rows.len() >= ROWS_MAX {
            self.evict();
        }
        self.births += 1;
        let mut row = Row {
            names: self.key.iter().map(Value::text).collect(),
            figures: Figures::new(self.digits),
            weight: self.floor + 1,
            born: self.births,
        };
        row.figures.add(&sample);
        self.rows.insert(self.key.clone(), row);
    }

    /// Makes room: the rows of the least weight, and of equal ones the oldest, become part of the rest.
    fn evict(&mut self) {
        let ranks = self.rows.values().map(|row| (row.weight, row.born));
        let mut ranks: Vec<(u64, u64)> = ranks.collect();
        if ranks.len() <= EVICTED {
            return;
        }
        let (_, stays, _) = ranks.select_nth_unstable(EVICTED);
        let stays = *stays;
        let Self {
            rows, rest, floor, ..
        } = self;
        rows.retain(|_, row| {
            let is_kept = (row.weight, row.born) >= stays;
            if !is_kept {
                *floor = row.weight.max(*floor);
                rest.merge(&row.figures);
            }
            is_kept
        });
        self.evicted += EVICTED as u64;
    }

    /// Halves the weight of what was so far, so that what is busy now has more.
    pub fn age(&mut self) {
        self.floor /= 2;
        self.rows.values_mut().for_each(|row| row.weight /= 2);
    }

    /// Returns the columns that name a row.
    #[must_use]
    pub fn by(&self) -> &[By] {
        &self.by
    }

    /// Returns the rows, those with the most RPCs first, and of equal ones in the order of their names; last the row
    /// [`OTHER`] if it has RPCs.
    #[must_use]
    pub fn rows(&self) -> Vec<(&[String], &Figures)> {
        let rows = self.rows.values().map(|row| (&row.names[..], &row.figures));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|(a, of_a), (b, of_b)| of_b.rpcs.cmp(&of_a.rpcs).then_with(|| a.cmp(b)));
        let rest = (self.rest.rpcs > 0).then_some((&self.rest_names[..], &self.rest));
        rows.extend(rest);
        rows
    }

    /// Returns the rows but for [`OTHER`], in no order.
    pub fn ranked(&self) -> impl Iterator<Item = Ranked<'_>> {
        self.rows.values().map(|row| Ranked {
            names: &row.names,
            figures: &row.figures,
            weight: row.weight,
            born: row.born,
        })
    }

    /// Returns the number of the youngest row.
    #[must_use]
    pub const fn births(&self) -> u64 {
        self.births
    }

    /// Returns how many rows made room for others, and count in the row [`OTHER`].
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the figures of everything that has no row of its own.
    #[must_use]
    pub const fn rest(&self) -> &Figures {
        &self.rest
    }

    /// Adds up the figures of all RPCs.
    #[must_use]
    pub fn total(&self) -> Figures {
        let mut total = Figures::new(self.digits);
        let rows = self.rows.values().map(|row| &row.figures);
        rows.chain([&self.rest])
            .for_each(|figures| total.merge(figures));
        total
    }
}

#[cfg(test)]
mod tests {
    use lnet_types::Time;

    use super::*;
    use crate::opcode::opc;
    use crate::security::Flavor;

    fn rpc(job: &str) -> Rpc {
        Rpc {
            opc: Some(400),
            xid: 128,
            client: Nid::LOOPBACK,
            server: Nid::LOOPBACK,
            portal: 28,
            target: None,
            job: job.into(),
            ids: None,
            subject: String::new(),
            flavor: Flavor(0),
            started: Time::ZERO,
            ended: Some(Time::from_nanos(300_000)),
            beyond: None,
            service_time: None,
            status: Some(0),
            asked: 0,
            bulk: 10,
            bulk_parts: 1,
            early: 0,
            resends: 0,
            is_replay: false,
            timeout: 30,
            end: End::Answered,
        }
    }

    #[test]
    fn data_within_the_messages_counts_as_bytes() {
        let bytes = |opc, status, asked, bulk| {
            let mut table = Summary::new(&[By::Job]);
            let opc = Some(opc);
            table.add(&Rpc {
                opc,
                status,
                asked,
                bulk,
                ..rpc("a")
            });
            table.total().bytes
        };
        let (read, write, punch) = (opc::OST_READ, opc::OST_WRITE, 10);
        assert_eq!(bytes(read, Some(4096), 8192, 0), 4096);
        assert_eq!(bytes(read, Some(8192), 8192, 8192), 8192);
        assert_eq!(bytes(write, Some(0), 2, 0), 2);
        assert_eq!(bytes(write, Some(0), 8192, 4096), 4096);
        for (opc, status) in [(read, Some(-5)), (write, Some(-28)), (write, None)] {
            assert_eq!(bytes(opc, status, 2, 0), 0);
        }
        assert_eq!(bytes(punch, Some(7), 0, 0), 0);
    }

    fn of(table: &Summary, job: &str) -> Option<u64> {
        let rows = table.rows();
        let row = rows.iter().find(|(names, _)| names[0] == job);
        row.map(|(_, figures)| figures.rpcs)
    }

    #[test]
    fn the_longest_time_is_exact_and_no_percentile_is_longer() {
        let hour = 3_600_000_000;
        let times = [1_234_567, 987_654, 3 * hour + 7];
        for mut table in [Summary::new(&[By::Job]), Summary::coarse(&[By::Job])] {
            assert_eq!(table.total().longest(), None);
            for (at, micros) in times.into_iter().enumerate() {
                let ended = Some(Time::from_nanos(micros * 1000));
                let job = if at < 2 { "a" } else { "b" };
                table.add(&Rpc { ended, ..rpc(job) });
            }
            let rows = table.rows();
            let longest = rows.iter().map(|(_, row)| row.longest());
            assert_eq!(
                longest.collect::<Vec<_>>(),
                [Some(times[0]), Some(times[2])]
            );
            assert_eq!(table.total().longest(), Some(times[2]));
            assert!(rows.iter().all(|(_, row)| row.within(1.0) <= row.longest()));
        }
    }

    #[test]
    fn coarse_table_has_small_rows_with_times_within_a_tenth() {
        let mut tables = [Summary::new(&[By::Job]), Summary::coarse(&[By::Job])];
        let mut slow = rpc("a");
        slow.ended = Some(Time::from_nanos(123_456_000));
        tables.iter_mut().for_each(|table| table.add(&slow));
        let [fine, coarse] = tables.map(|table| table.total());
        let (micros, most) = (123_456, |digits: u64| 123_456 + 123_456 / digits);
        assert!((micros..=most(100)).contains(&fine.within(0.5).unwrap()));
        assert!((micros..=most(10)).contains(&coarse.within(0.5).unwrap()));
        let buckets =
            |figures: &Figures| figures.times.as_ref().map_or(0, Histogram::distinct_values);
        assert!(buckets(&coarse) * 5 < buckets(&fine));
    }

    /// Checks that no RPC of so many is missing, in any figure.
    fn is_whole(table: &Summary, added: usize) {
        let (rows, added) = (table.rows(), added as u64);
        assert!(rows.len() <= ROWS_MAX + 1);
        let sum = |part: fn(&Figures) -> u64| rows.iter().map(|(_, row)| part(row)).sum::<u64>();
        assert_eq!(sum(|row| row.rpcs), added);
        assert_eq!(sum(|row| row.bytes), 10 * added);
        assert_eq!(sum(|row| row.answered), added);
        assert_eq!(sum(|row| row.micros), 300 * added);
        assert_eq!(sum(|row| row.by_time[1]), added);
        let total = table.total();
        assert_eq!((total.rpcs, total.within(1.0)), (added, Some(300)));
    }

    #[test]
    fn jobs_that_begin_late_and_are_busy_have_rows_whatever_came_before() {
        let mut table = Summary::new(&[By::Job]);
        for job in 0..ROWS_MAX {
            (0..3).for_each(|_| table.add(&rpc(&format!("early.{job}"))));
        }
        assert_eq!((table.evicted(), table.rows().len()), (0, ROWS_MAX));
        // Two jobs, and between them more jobs of one RPC than there are rows.
        for round in 0..2 * ROWS_MAX {
            table.add(&rpc("late"));
            table.add(&rpc(&format!("once.{round}")));
            table.add(&rpc("later"));
        }
        for job in ["late", "later"] {
            assert_eq!(of(&table, job), Some(2 * ROWS_MAX as u64), "{job}");
        }
        assert!(
            table.evicted() >= 2 * ROWS_MAX as u64,
            "{}",
            table.evicted()
        );
        is_whole(&table, 9 * ROWS_MAX);
        let rows = table.rows();
        let (names, rest) = rows.last().unwrap();
        assert_eq!(names[0], OTHER);
        assert!(rest.rpcs >= table.evicted());
    }

    #[test]
    fn job_that_was_busy_once_makes_room_in_time() {
        let mut table = Summary::new(&[By::Job]);
        (0..1000).for_each(|_| table.add(&rpc("old")));
        (0..10).for_each(|_| table.age());
        for job in 0..=ROWS_MAX {
            (0..2).for_each(|_| table.add(&rpc(&format!("new.{job}"))));
        }
        assert_eq!(of(&table, "old"), None);
        assert!(of(&table, OTHER) >= Some(1000));
        is_whole(&table, 1000 + 2 * (ROWS_MAX + 1));
    }

    #[test]
    fn job_of_the_name_of_the_rest_is_part_of_the_rest() {
        let mut table = Summary::new(&[By::Job]);
        table.add(&rpc(OTHER));
        table.add(&rpc("a"));
        assert_eq!(of(&table, OTHER), Some(1));
        assert_eq!(table.ranked().count(), 1);
        is_whole(&table, 2);
        let mut both = Summary::new(&[By::Client, By::Job]);
        both.add(&rpc(OTHER));
        assert_eq!(both.ranked().count(), 1);
        is_whole(&both, 1);
    }

    #[test]
    fn bounds_of_times_are_within_their_counts() {
        let mut table = Summary::new(&[By::Job]);
        for micros in [0, 100, 101, 300, 100_000_000, 100_000_001] {
            let ended = Some(Time::from_nanos(micros * 1000));
            table.add(&Rpc { ended, ..rpc("a") });
        }
        let total = table.total();
        assert_eq!(
            (total.by_time[0], total.by_time[1], total.by_time[12]),
            (2, 2, 1)
        );
        assert_eq!((total.by_time.iter().sum::<u64>(), total.answered), (5, 6));
    }
}
