//! Counts the RPCs of Lustre that pass a router, or that begin or end at this node.
//!
//! ```text
//!  node, under its lock: header and at most 1 KiB ──▶ a batch of limited length ──▶ a thread: pairs, counts
//!                                                       └ full: missed                ├─▶ metrics, tables, the slowest
//!                                                                                     └─▶ watchers
//! ```

mod metrics;
mod queue;
mod slowest;
mod view;
mod watching;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use lnet_node::Node;
use lnet_node::stack::{Shown, Watcher};
use lnet_ptlrpc::{By, Pairer, PortalUse, Rpc, Seen, Summary, portal_use};
use lnet_wire::{Body, Header};

use self::queue::{Batch, Queue};
use self::slowest::Slowest;
pub(crate) use self::view::RpcView;
use self::watching::Watchers;

/// The bytes of a message that are looked at: names and the job of every RPC are within.
const HEAD_MAX: usize = 1024;

/// The RPCs that a node sees are counted for as long as this value exists.
pub struct RpcCounts {
    node: Node,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Messages on their way from a node into the counts.
pub struct RpcQueue {
    shared: Arc<Shared>,
    batch: Batch,
}

#[derive(Default)]
struct Shared {
    queue: Queue,
    counted: Mutex<Counted>,
    watchers: Watchers,
    shown: AtomicU64,
    missed: AtomicU64,
    taken: AtomicU64,
}

struct Counted {
    pairer: Pairer,
    tables: [Summary; 4],
    slowest: Slowest,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            pairer: Pairer::default(),
            tables: By::ALL.map(|by| Summary::new(&[by])),
            slowest: Slowest::default(),
        }
    }
}

/// The end of the queue in the node.
struct Feed(Arc<Shared>);

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.queue.end();
    }
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

    fn take(&mut self, message: Shown<'_>) {
        self.0.shown.fetch_add(1, Ordering::Relaxed);
        if !self.0.queue.push(&message) {
            self.0.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn miss(&mut self) {
        self.0.shown.fetch_add(1, Ordering::Relaxed);
        self.0.missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl RpcQueue {
    /// Makes a queue, and the watcher that fills it.
    #[must_use]
    pub fn new() -> (Box<dyn Watcher>, Self) {
        let shared = Arc::new(Shared::default());
        let feed = Feed(Arc::clone(&shared));
        let batch = Batch::default();
        (Box::new(feed), Self { shared, batch })
    }

    /// Counts the messages that are in the queue now. Returns how many.
    pub fn count_now(&mut self) -> usize {
        self.shared.queue.take(&mut self.batch);
        self.shared.count(&self.batch);
        self.batch.len()
    }

    fn count_to_the_end(mut self) {
        while self.shared.queue.wait(&mut self.batch) {
            self.shared.count(&self.batch);
        }
    }
}

impl RpcCounts {
    /// Begins to count the RPCs that the node sees.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub fn start(node: &Node) -> io::Result<Self> {
        let (watcher, queue) = RpcQueue::new();
        let shared = Arc::clone(&queue.shared);
        let thread = Builder::new()
            .name("lnet-rpcs".into())
            .spawn(move || queue.count_to_the_end())?;
        node.with_engine(|engine, _| engine.watch_messages(Some(watcher)));
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

    /// Returns what control clients see.
    pub(crate) fn view(&self) -> RpcView {
        RpcView::new(Arc::clone(&self.shared))
    }
}

impl Drop for RpcCounts {
    fn drop(&mut self) {
        // The queue ends with the watcher, and the thread with the queue.
        self.node
            .with_engine(|engine, _| engine.watch_messages(None));
        if let Some(thread) = self.thread.take() {
            crate::serving::join(thread);
        }
    }
}

impl Shared {
    fn count(&self, batch: &Batch) {
        let mut messages = batch.iter();
        loop {
            // Those who read the counts wait for a part of the batch only.
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = 0;
            for message in messages.by_ref().take(256) {
                counted.take(&message, &self.watchers);
                taken += 1;
            }
            drop(counted);
            if taken == 0 {
                return;
            }
            self.taken.fetch_add(taken, Ordering::Relaxed);
        }
    }
}

impl Counted {
    fn take(&mut self, message: &Seen<'_>, watchers: &Watchers) {
        let Self {
            pairer,
            tables,
            slowest,
        } = self;
        pairer.take(message, &mut |rpc: Rpc| {
            tables.iter_mut().for_each(|table| table.add(&rpc));
            slowest.add(&rpc, message.time);
            watchers.tell(&rpc);
        });
    }
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::{End, Flavor};
    use lnet_types::{LndType, Net, Nid, Time};

    use super::*;

    /// An RPC of a client.
    pub(super) fn rpc(client: u32) -> Rpc {
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
}
