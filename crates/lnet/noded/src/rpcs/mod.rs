//! Counts the RPCs of Lustre that pass a router, or that begin or end at this node.
//!
//! ```text
//!  node, under its lock: header and at most 1 KiB ──▶ a batch of limited length ──▶ a thread: pairs, counts
//!                                                       └ full: missed  the clock ──▶ ├─▶ metrics, tables, the slowest
//!                                                                                     └─▶ watchers
//! ```

mod board;
mod metrics;
mod queue;
mod slowest;
mod view;
mod watching;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use lnet_node::Node;
use lnet_node::stack::{Shown, Watcher};
use lnet_ptlrpc::{By, Pairer, PortalUse, Rpc, Seen, portal_use};
use lnet_types::Time;
use lnet_wire::{Body, Header};

use self::board::Board;
use self::queue::{Batch, Queue, Waited};
use self::slowest::Slowest;
pub(crate) use self::view::RpcView;
use self::watching::Watchers;

/// The bytes of a message that are looked at: names and the job of every RPC are within.
const HEAD_MAX: usize = 1024;

/// The time in which half of what is known of who is busy is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(600);

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
    boards: [Board; 4],
    slowest: Slowest,
    aged: Time,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            pairer: Pairer::default(),
            boards: By::ALL.map(Board::new),
            slowest: Slowest::default(),
            aged: Time::ZERO,
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

    fn count_to_the_end(mut self, clock: impl Fn() -> Time) {
        loop {
            match self.shared.queue.wait(&mut self.batch) {
                Waited::Messages => self.shared.count(&self.batch),
                Waited::Nothing => self.shared.let_pass(&clock),
                Waited::End => return,
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
        let (watcher, queue) = RpcQueue::new();
        let shared = Arc::clone(&queue.shared);
        let of_node = node.clone();
        let clock = move || of_node.with_engine(|_, now| now);
        let thread = Builder::new()
            .name("lnet-rpcs".into())
            .spawn(move || queue.count_to_the_end(clock))?;
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

    /// Ends the RPCs whose time is over, where no message says what time it is. The clock takes the node's lock, so it is
    /// asked only while there are RPCs that wait, and while the counts are not locked.
    fn let_pass(&self, clock: &dyn Fn() -> Time) {
        let counted = || self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted().pairer.outstanding() > 0 {
            let now = clock();
            counted().let_pass(now, &self.watchers);
        }
    }
}

impl Counted {
    fn take(&mut self, message: &Seen<'_>, watchers: &Watchers) {
        self.age(message.time);
        let (pairer, mut ended) = self.parts(message.time, watchers);
        pairer.take(message, &mut ended);
    }

    fn let_pass(&mut self, now: Time, watchers: &Watchers) {
        self.age(now);
        let (pairer, mut ended) = self.parts(now, watchers);
        pairer.tick(now, &mut ended);
    }

    /// Returns what pairs, and what counts the RPCs that end.
    fn parts<'a>(
        &'a mut self,
        now: Time,
        watchers: &'a Watchers,
    ) -> (&'a mut Pairer, impl FnMut(Rpc) + 'a) {
        let Self {
            pairer,
            boards,
            slowest,
            ..
        } = self;
        let ended = move |rpc: Rpc| {
            boards.iter_mut().for_each(|board| board.add(&rpc));
            slowest.add(&rpc, now);
            watchers.tell(&rpc);
        };
        (pairer, ended)
    }

    fn age(&mut self, now: Time) {
        let elapsed = now.saturating_since(self.aged);
        if elapsed >= HALF_LIFE {
            self.aged = now;
            // No weight has more than 64 bits to lose.
            let halves = (elapsed.as_nanos() / HALF_LIFE.as_nanos()).min(64);
            for _ in 0..halves {
                self.boards.iter_mut().for_each(Board::age);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::client::{Exchange, Export, Limits, Service, Start, Step};
    use lnet_ptlrpc::{End, Flavor, OPEN_MAX, RESEND_WAIT};
    use lnet_types::{LndType, Net, Nid};
    use lnet_wire::{Handle, Put};

    use super::*;

    /// Shows a connect of its own number to a node.
    fn show_connect(feed: &mut dyn Watcher, number: u64) {
        let start = Start {
            first_xid: 128 * (number + 1),
            limits: Limits::within(Duration::from_secs(60)),
            now: Time::ZERO,
        };
        let uuid = "00000000-0000-4000-8000-000000000001".to_owned();
        let export = Export::new(Service::Ost, "fs1-OST0000_UUID", uuid, 7);
        let Step::Send(request) = Exchange::knock(export, start).step(Time::ZERO) else {
            panic!("it does not begin");
        };
        let header = Header {
            dest_nid: Nid::LOOPBACK,
            src_nid: Nid::LOOPBACK,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: request.bytes.len() as u32,
            body: Body::Put(Put {
                ack_wmd: Handle::NONE,
                match_bits: request.match_bits,
                hdr_data: 0,
                ptl_index: request.portal,
                offset: 0,
            }),
        };
        feed.take(Shown {
            ni: None,
            header: &header,
            head: &request.bytes,
            time: Time::ZERO,
        });
    }

    #[test]
    fn lost_request_counts_though_no_further_message_comes() {
        let (mut feed, queue) = RpcQueue::new();
        let shared = Arc::clone(&queue.shared);
        let watch = shared.watchers.add(Default::default());
        show_connect(&mut *feed, 0);
        let late = Time::ZERO + RESEND_WAIT + Duration::from_secs(3600);
        let thread = std::thread::spawn(move || queue.count_to_the_end(|| late));
        let line = "finerail_rpc_operation_unanswered_total{operation=\"OST_CONNECT\"} 1\n";
        testkit::eventually("the request is lost", || shared.metrics().contains(line));
        assert!(shared.metrics().contains("finerail_rpc_outstanding 0\n"));
        assert_eq!(watch.page(Duration::ZERO).len(), 1);
        drop(feed);
        thread.join().unwrap();
    }

    #[test]
    fn rpcs_beyond_the_limit_are_shown() {
        let (mut feed, mut queue) = RpcQueue::new();
        for number in 0..OPEN_MAX as u64 + 7 {
            show_connect(&mut *feed, number);
            if number.is_multiple_of(1 << 13) {
                queue.count_now();
            }
        }
        queue.count_now();
        let text = queue.shared.metrics();
        for line in [
            "not_followed_total 7\n",
            "outstanding 65536\n",
            "missed_total 0\n",
        ] {
            assert!(
                text.contains(&format!("finerail_rpc_{line}")),
                "{line} in {text}"
            );
        }
    }

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
