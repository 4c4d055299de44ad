//! RPCs by client, target, operation and job: counts, bytes, errors, and how long they took.

use std::sync::Arc;

use hdrhistogram::Histogram;
use lnet_types::Nid;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::opcode::service_of;
use crate::rpc::{End, Rpc, operation_name};

/// The most rows; RPCs beyond them count in one row of the name [`OTHER`].
pub const ROWS_MAX: usize = 4096;

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
    /// Bytes of bulk.
    pub bytes: u64,
    /// RPCs with a final reply.
    #[serde(skip)]
    pub answered: u64,
    /// The microseconds that the answered RPCs took together.
    #[serde(skip)]
    pub micros: u64,
    #[serde(skip)]
    times: Option<Histogram<u32>>,
}

impl Figures {
    fn new() -> Self {
        // An hour in microseconds; two digits are within 1 %.
        let times = Histogram::new_with_max(3_600_000_000, 2).ok();
        Self {
            rpcs: 0,
            errors: 0,
            unanswered: 0,
            bytes: 0,
            answered: 0,
            micros: 0,
            times,
        }
    }

    fn add(&mut self, rpc: &Rpc) {
        self.rpcs += 1;
        self.errors += u64::from(rpc.status.is_some_and(|status| status < 0));
        self.unanswered += u64::from(rpc.end == End::Unanswered);
        self.bytes = self.bytes.saturating_add(rpc.bulk);
        let Some(took) = rpc.took() else { return };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.answered += 1;
        self.micros = self.micros.saturating_add(micros);
        if let Some(times) = &mut self.times {
            times.saturating_record(micros);
        }
    }

    /// Returns the time in microseconds within which this share of the answered RPCs ended; `None` if none was answered.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<u64> {
        let times = self.times.as_ref().filter(|times| !times.is_empty())?;
        Some(times.value_at_quantile(share))
    }

    /// Returns the longest time in microseconds.
    #[must_use]
    pub fn longest(&self) -> Option<u64> {
        let times = self.times.as_ref().filter(|times| !times.is_empty())?;
        Some(times.max())
    }
}

/// A table of RPCs.
#[derive(Debug)]
pub struct Summary {
    by: Vec<By>,
    rows: FxHashMap<Vec<Value>, Row>,
    /// The key of the last RPC, whose memory serves the next.
    key: Vec<Value>,
    total: Figures,
}

#[derive(Debug)]
struct Row {
    names: Vec<String>,
    figures: Figures,
}

impl Summary {
    /// Makes an empty table with these columns.
    #[must_use]
    pub fn new(by: &[By]) -> Self {
        Self {
            by: by.to_vec(),
            rows: FxHashMap::default(),
            key: Vec::new(),
            total: Figures::new(),
        }
    }

    /// Counts an RPC.
    pub fn add(&mut self, rpc: &Rpc) {
        self.total.add(rpc);
        self.key.clear();
        self.key.extend(self.by.iter().map(|by| by.of(rpc)));
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&self.key) {
            self.key.fill(Value::Other);
        }
        if let Some(row) = self.rows.get_mut(&self.key) {
            return row.figures.add(rpc);
        }
        let mut row = Row {
            names: self.key.iter().map(Value::text).collect(),
            figures: Figures::new(),
        };
        row.figures.add(rpc);
        self.rows.insert(self.key.clone(), row);
    }

    /// Returns the columns that name a row.
    #[must_use]
    pub fn by(&self) -> &[By] {
        &self.by
    }

    /// Returns the rows, those with the most RPCs first, and of equal ones in the order of their names.
    #[must_use]
    pub fn rows(&self) -> Vec<(&[String], &Figures)> {
        let rows = self.rows.values().map(|row| (&row.names[..], &row.figures));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|(a, of_a), (b, of_b)| of_b.rpcs.cmp(&of_a.rpcs).then_with(|| a.cmp(b)));
        rows
    }

    /// Returns the figures of all RPCs.
    #[must_use]
    pub const fn total(&self) -> &Figures {
        &self.total
    }
}
