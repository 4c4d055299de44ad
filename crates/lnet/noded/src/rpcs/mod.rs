//! Counts the RPCs of Lustre that pass a router, or that begin or end at this node.
//!
//! ```text
//!  node, under its lock: header and at most 1 KiB ──▶ a queue of limited length ──▶ a thread: pairs, counts
//!                                                       └ full: missed                ├─▶ metrics, tables, the slowest
//!                                                                                     └─▶ watchers
//! ```

mod metrics;
mod slowest;
mod view;
mod watching;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use lnet_node::Node;
use lnet_node::stack::{Shown, Watcher};
use lnet_ptlrpc::{By, Pairer, PortalUse, Rpc, Seen, Summary, portal_use};
use lnet_types::Time;
use lnet_wire::{Body, Header};

use self::slowest::Slowest;
pub(crate) use self::view::RpcView;
use self::watching::Watchers;

/// The bytes of a message that are looked at: names and the job of every RPC are within.
const HEAD_MAX: usize = 1024;

/// The messages that may wait for the thread: 20 MB.
const QUEUE_MAX: usize = 1 << 14;

/// The place of messages that this node sends; those that arrive have the number of their interface.
const OWN: u64 = u64::MAX;

/// The RPCs that a node sees are counted for as long as this value exists.
pub struct RpcCounts {
    node: Node,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
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

    fn take(&mut self, message: Shown<'_>) {
        let copied = Copied {
            place: message.ni.map_or(OWN, |ni| ni.0.into()),
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
    /// Begins to count the RPCs that the node sees.
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
        node.with_engine(|engine, _| engine.watch_messages(Some(Box::new(feed))));
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
    fn count(&self, messages: &Receiver<Copied>) {
        while let Ok(first) = messages.recv() {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.take(&first, &self.watchers);
            let mut taken = 1;
            for message in messages.try_iter().take(256) {
                counted.take(&message, &self.watchers);
                taken += 1;
            }
            drop(counted);
            self.taken.fetch_add(taken, Ordering::Relaxed);
        }
    }
}

impl Counted {
    fn take(&mut self, message: &Copied, watchers: &Watchers) {
        let Self {
            pairer,
            tables,
            slowest,
        } = self;
        let seen = Seen {
            time: message.time,
            place: message.place,
            header: &message.header,
            head: &message.head,
        };
        pairer.take(&seen, &mut |rpc: Rpc| {
            tables.iter_mut().for_each(|table| table.add(&rpc));
            slowest.add(&rpc, message.time);
            watchers.tell(&rpc);
        });
    }
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::{End, Flavor};
    use lnet_types::{LndType, Net, Nid};

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
