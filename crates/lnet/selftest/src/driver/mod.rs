//! The test node: the framework, the services and the generators on a running node, with one thread.
//!
//! ```text
//!   event queue ──▶ thread ──┬─ requests ──▶ Server ──▶ framework, replies, bulk
//!                            ├─ replies, bulk ──▶ Calls ──▶ generators, programs that wait
//!                            └─ clock ──▶ sessions and RPCs that are too late
//!   program ── call ─────────▶ Calls
//! ```

mod calls;
mod consoles;
mod counting;
mod rooms;
mod serve;
mod station;
mod tag;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lnet_node::{EventQueue, Md, Node, NodeError, NodeOptions, Progress, WaitError};
use lnet_types::{Nid, ProcessId, Time};
use thiserror::Error;

use self::calls::Waiter;
use self::station::{Asked, Station};
use self::tag::{Part, Tag};
use crate::flow::FlowReport;
use crate::load::Generator;
use crate::wire::Body;

pub use self::calls::CallError;
pub use self::consoles::{Consoles, Lease};
pub use self::counting::{Drops, TestNodeCounters};

/// Why a test node does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The node rejected the request buffers.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A node that serves consoles and tests, and that sends the RPCs of a console in this process. Dropping it
/// stops it.
pub struct TestNode {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// An RPC that a program asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The node to send the request to.
    pub target: Nid,
    /// The features in the header of the request.
    pub features: u32,
    /// A request. [`TestNode::call`] fills in the match bits of the reply and of the bulk.
    pub body: Body,
    /// The data that the server fetches.
    pub source: Option<Bytes>,
}

struct Shared {
    node: Node,
    queue: EventQueue,
    station: Mutex<Station>,
    is_stopping: AtomicBool,
    origin: Instant,
}

/// How often the thread checks the clock if no event comes.
const TICK: Duration = Duration::from_secs(1);
/// The limit of events that are handled between two checks of the clock.
const EVENTS_PER_TURN: usize = 64;

impl TestNode {
    /// Changes options so that the thread of the test node drives the node, too, and nothing is handed from
    /// thread to thread. If the options ask for two or more I/O threads, those threads move bytes beside the
    /// test node's thread.
    pub fn driving(options: NodeOptions) -> NodeOptions {
        let progress = match options.io_threads {
            0 | 1 => Progress::Caller,
            _ => Progress::Thread,
        };
        NodeOptions {
            progress,
            ..options
        }
    }

    /// Starts to serve on `node`, and to send RPCs of this process.
    ///
    /// # Errors
    ///
    /// The node rejects the request buffers, or a thread cannot be started.
    pub fn start(node: Node) -> Result<Self, StartError> {
        let queue = node.event_queue();
        let mut station = Station::new(&node, &queue);
        station.open()?;
        let shared = Arc::new(Shared {
            node,
            queue,
            station: Mutex::new(station),
            is_stopping: AtomicBool::new(false),
            origin: Instant::now(),
        });
        let running = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("selftest".to_owned())
            .spawn(move || running.run())
            .map_err(StartError::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the node that the test node runs on.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.shared.node
    }

    /// Stops to serve, and aborts the RPCs under way: programs that wait for one continue at once.
    pub fn close(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.ring();
    }

    /// Returns what the test node has counted so far.
    #[must_use]
    pub fn counters(&self) -> TestNodeCounters {
        self.shared.station().counters
    }

    /// Returns how many RPCs have not ended: those that this node began, and those for this node.
    #[must_use]
    pub fn under_way(&self) -> (usize, usize) {
        self.shared.station().under_way()
    }

    /// Returns the name and the id of the session that a console made at this node.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        let station = self.shared.station();
        let (name, id, _) = station.framework.session()?;
        Some(format!("{name} ({id})"))
    }

    /// Sends these requests at once, and waits until each has its reply or has failed. A request without a
    /// reply fails after `timeout`.
    #[must_use]
    pub fn call(&self, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Body, CallError>> {
        let (to, from) = mpsc::channel();
        let mut results: Vec<_> = requests.iter().map(|_| Err(CallError::Aborted)).collect();
        let mut station = self.shared.station();
        let now = self.shared.now();
        for (number, request) in requests.into_iter().enumerate() {
            let asked = Asked {
                target: ProcessId::lustre(request.target),
                features: request.features,
                body: request.body,
                source: request.source,
            };
            let to = to.clone();
            station.call(asked, timeout, Waiter { to, number }, now);
        }
        drop((station, to));
        self.shared.ring();
        // The loop ends when all senders are dropped: each is dropped when its RPC has ended, or when the test
        // node stops.
        for (number, result) in from {
            if let Some(place) = results.get_mut(number) {
                *place = result;
            }
        }
        results
    }

    /// Starts a generator of RPCs. Each RPC has this timeout.
    pub fn load(&self, generator: impl Generator + 'static, timeout: Duration) -> LoadId {
        let mut station = self.shared.station();
        let id = station.start(Box::new(generator), timeout);
        station.pump(self.shared.now());
        drop(station);
        self.shared.ring();
        LoadId(id)
    }

    /// Stops a load: it makes no further RPCs. With `abort`, the RPCs under way are aborted.
    pub fn stop(&self, load: LoadId, abort: bool) {
        let mut station = self.shared.station();
        station.stop(load.0, abort);
        drop(station);
        self.shared.ring();
    }

    /// Reports whether a load makes RPCs or has some under way.
    #[must_use]
    pub fn is_running(&self, load: LoadId) -> bool {
        self.shared.station().is_running(load.0)
    }

    /// Returns what a load has done so far. For a load that is over, only the first call returns the report.
    #[must_use]
    pub fn report(&self, load: LoadId) -> Option<FlowReport> {
        self.shared.station().report(load.0)
    }

    /// Returns the time of the clock that generators use.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.now()
    }
}

/// The id of a load of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadId(u64);

impl Drop for TestNode {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread of the test node ended with a panic");
        }
    }
}

impl Shared {
    fn station(&self) -> MutexGuard<'_, Station> {
        self.station.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Wakes the thread, by an event of a descriptor that serves no other purpose.
    fn ring(&self) {
        let tag = Tag {
            part: Part::Bell,
            number: 0,
        };
        let bell = Md::source(Bytes::new()).user(tag.value());
        let bell = self.node.bind(&self.queue, bell);
        // A node that rejects this is shutting down, which ends the thread's wait as well.
        let _rung = bell.and_then(|bell| self.node.unlink(bell));
    }

    fn run(&self) {
        let mut ticked = Time::ZERO;
        while !self.is_stopping.load(Ordering::Acquire) {
            let deadline = self.station().deadline();
            let until = deadline.map(|time| time.saturating_since(self.now()));
            let event = self.queue.wait(Some(until.unwrap_or(TICK).min(TICK)));
            let mut station = self.station();
            match event {
                Ok(event) => {
                    station.event(event, self.now());
                    let more = std::iter::from_fn(|| self.queue.try_next());
                    for event in more.take(EVENTS_PER_TURN) {
                        station.event(event, self.now());
                    }
                }
                Err(WaitError::TimedOut | WaitError::PathLost) => {}
                Err(WaitError::Closed) => break,
            }
            let now = self.now();
            if now.saturating_since(ticked) >= TICK {
                ticked = now;
                station.tick(now);
            }
            station.pump(now);
        }
        self.station().close();
    }
}
