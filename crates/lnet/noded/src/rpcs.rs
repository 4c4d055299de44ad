//! Counts the RPCs of Lustre that pass a router.
//!
//! ```text
//!  node, under its lock: header and at most 1 KiB ──▶ a queue of limited length ──▶ a thread: pairs, counts
//!                                                       └ full: missed                └─▶ metrics
//! ```

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use lnet_node::Node;
use lnet_node::stack::{Forwarded, Watcher};
use lnet_ptlrpc::{By, Figures, OTHER, Pairer, PortalUse, Seen, Summary, portal_use};
use lnet_types::Time;
use lnet_wire::{Body, Header};

/// The bytes of a message that are looked at: names and the job of every RPC are within.
const HEAD_MAX: usize = 1024;

/// The messages that may wait for the thread: 20 MB.
const QUEUE_MAX: usize = 1 << 14;

/// The most clients, jobs and targets with series of their own.
const OWN_MAX: usize = 100;

/// The RPCs that pass a node are counted for as long as this value exists.
pub struct RpcCounts {
    node: Node,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    counted: Mutex<Counted>,
    shown: AtomicU64,
    missed: AtomicU64,
    taken: AtomicU64,
}

struct Counted {
    pairer: Pairer,
    tables: [Summary; 4],
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            pairer: Pairer::default(),
            tables: By::ALL.map(|by| Summary::new(&[by])),
        }
    }
}

/// A message on its way to the thread.
struct Copied {
    place: u64,
    header: Header,
    head: Vec<u8>,
    time: Time,
}

/// The end of the queue in the node.
struct Feed {
    queue: SyncSender<Copied>,
    shared: Arc<Shared>,
}

impl Watcher for Feed {
    fn wants(&self, header: &Header) -> Option<usize> {
        let wanted = |portal| match portal_use(portal) {
            PortalUse::Request | PortalUse::Reply => Some(HEAD_MAX),
            PortalUse::Bulk => Some(0),
            PortalUse::Other => None,
        };
        match header.body {
            Body::Put(put) => wanted(put.ptl_index),
            Body::Get(get) => wanted(get.ptl_index),
            Body::Reply(_) => Some(0),
            Body::Ack(_) => None,
        }
    }

    fn forwarded(&mut self, message: Forwarded<'_>) {
        let copied = Copied {
            place: message.ni.0.into(),
            header: *message.header,
            head: message.head.to_vec(),
            time: message.time,
        };
        self.shared.shown.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(copied) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl RpcCounts {
    /// Begins to count the RPCs that pass the node.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub fn start(node: &Node) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let counting = Arc::clone(&shared);
        let thread = Builder::new()
            .name("lnet-rpcs".into())
            .spawn(move || counting.count(&messages))?;
        let feed = Feed {
            queue,
            shared: Arc::clone(&shared),
        };
        node.with_engine(|engine, _| engine.watch_forwarded(Some(Box::new(feed))));
        Ok(Self {
            node: node.clone(),
            shared,
            thread: Some(thread),
        })
    }

    /// Returns whether every message that the node showed so far is counted.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let done = self.shared.taken.load(Ordering::Relaxed) + self.missed();
        done >= self.shared.shown.load(Ordering::Relaxed)
    }

    /// Returns the number of messages that were not looked at, because the queue was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Returns a reader of the metrics as lines of OpenMetrics, without its last line.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.metrics()
    }
}

impl Drop for RpcCounts {
    fn drop(&mut self) {
        // The queue ends with the watcher, and the thread with the queue.
        self.node
            .with_engine(|engine, _| engine.watch_forwarded(None));
        if let Some(thread) = self.thread.take() {
            crate::serving::join(thread);
        }
    }
}

impl Shared {
    fn count(&self, messages: &Receiver<Copied>) {
        while let Ok(first) = messages.recv() {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.take(&first);
            let mut taken = 1;
            for message in messages.try_iter().take(256) {
                counted.take(&message);
                taken += 1;
            }
            drop(counted);
            self.taken.fetch_add(taken, Ordering::Relaxed);
        }
    }

    fn metrics(&self) -> String {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for table in &counted.tables {
            let by = table.by().first().map_or("", |by| by.name());
            families(&mut text, by, &top(table));
        }
        let outstanding = counted.pairer.outstanding() as u64;
        drop(counted);
        single(
            &mut text,
            "outstanding",
            "RPCs without a reply so far",
            "gauge",
            outstanding,
        );
        let missed = self.missed.load(Ordering::Relaxed);
        single(
            &mut text,
            "missed",
            "Messages that were not looked at",
            "counter",
            missed,
        );
        text
    }
}

impl Counted {
    fn take(&mut self, message: &Copied) {
        let Self { pairer, tables } = self;
        let seen = Seen {
            time: message.time,
            place: message.place,
            header: &message.header,
            head: &message.head,
        };
        pairer.take(&seen, &mut |rpc| {
            tables.iter_mut().for_each(|table| table.add(&rpc));
        });
    }
}

/// What a series shows.
#[derive(Clone, Copy, Default)]
struct Sums {
    rpcs: u64,
    errors: u64,
    unanswered: u64,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, figures: &Figures) {
        self.rpcs += figures.rpcs;
        self.errors += figures.errors;
        self.unanswered += figures.unanswered;
        self.bytes = self.bytes.saturating_add(figures.bytes);
    }
}

/// Returns the rows with the most RPCs, and one row of all others.
fn top(table: &Summary) -> Vec<(String, Sums)> {
    let mut own: Vec<(String, Sums)> = Vec::new();
    let mut rest: Option<Sums> = None;
    for (key, figures) in table.rows() {
        let name = key.first().cloned().unwrap_or_default();
        if own.len() < OWN_MAX && name != OTHER {
            let mut sums = Sums::default();
            sums.add(figures);
            own.push((name, sums));
        } else {
            rest.get_or_insert_default().add(figures);
        }
    }
    own.extend(rest.map(|rest| (OTHER.to_owned(), rest)));
    own
}

fn families(text: &mut String, by: &str, rows: &[(String, Sums)]) {
    type Part = (&'static str, &'static str, fn(&Sums) -> u64);
    let parts: [Part; 4] = [
        ("rpcs", "RPCs that have ended", |sums| sums.rpcs),
        ("errors", "RPCs whose reply has an error", |sums| {
            sums.errors
        }),
        ("unanswered", "RPCs without a reply", |sums| sums.unanswered),
        ("bulk_bytes", "Bytes of bulk of RPCs", |sums| sums.bytes),
    ];
    for (part, help, value) in parts {
        let name = format!("finerail_rpc_{by}_{part}");
        // Writing to a String does not fail.
        let _written = writeln!(
            text,
            "# HELP {name} {help}, by {by}.\n# TYPE {name} counter"
        );
        for (row, sums) in rows {
            let row = row.replace('\\', "\\\\").replace('"', "\\\"");
            let _written = writeln!(text, "{name}_total{{{by}=\"{row}\"}} {}", value(sums));
        }
    }
}

fn single(text: &mut String, name: &str, help: &str, kind: &str, value: u64) {
    let name = format!("finerail_rpc_{name}");
    let ending = if kind == "counter" { "_total" } else { "" };
    // Writing to a String does not fail.
    let _written = writeln!(
        text,
        "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{ending} {value}"
    );
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::{End, Flavor, Rpc};
    use lnet_types::{LndType, Net, Nid};

    use super::*;

    fn rpc(client: u32) -> Rpc {
        let net = Net::new(LndType::TCP, 0);
        Rpc {
            opc: Some(400),
            xid: 128,
            client: Nid::from_ip(net, std::net::Ipv4Addr::from_bits(client).into()),
            server: Nid::LOOPBACK,
            portal: 28,
            target: None,
            job: "a \"job\"".into(),
            ids: None,
            subject: String::new(),
            flavor: Flavor(0),
            started: Time::ZERO,
            ended: None,
            beyond: None,
            service_time: None,
            status: Some(-5),
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
    fn others_are_one_series_and_no_rpc_is_lost() {
        let mut table = Summary::new(&[By::Client]);
        for client in 1..=150 {
            for _ in 0..client {
                table.add(&rpc(client));
            }
        }
        let rows = top(&table);
        assert_eq!(rows.len(), OWN_MAX + 1);
        assert_eq!(rows[0].0, "0.0.0.150@tcp");
        let (name, rest) = rows.last().unwrap();
        assert_eq!((name.as_str(), rest.rpcs), (OTHER, (1..=50).sum::<u64>()));
        let sum: u64 = rows.iter().map(|(_, sums)| sums.rpcs).sum();
        assert_eq!(sum, (1..=150).sum::<u64>());
    }

    #[test]
    fn names_cannot_end_a_label() {
        let mut table = Summary::new(&[By::Job]);
        table.add(&rpc(1));
        let mut text = String::new();
        families(&mut text, "job", &top(&table));
        assert!(
            text.contains("finerail_rpc_job_rpcs_total{job=\"a \\\"job\\\"\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("finerail_rpc_job_bulk_bytes_total{job=\"a \\\"job\\\"\"} 10\n"),
            "{text}"
        );
        assert!(
            text.contains("finerail_rpc_job_errors_total{job=\"a \\\"job\\\"\"} 1\n"),
            "{text}"
        );
    }
}
