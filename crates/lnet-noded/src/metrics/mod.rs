//! The metrics endpoint: what a node counts, over HTTP, for Prometheus.
//!
//! ```text
//!  listener thread ── accept ── one thread a connection (at most 8)
//!                                 read a request (at most 8 KiB, at most 5 s)
//!                                 ── GET /metrics: collect, page by page ── write the text ── close
//!
//!  collect:  lock ─ node, interfaces, routes ─ unlock      (a copy; nothing is formatted inside)
//!            lock ─ 64 peers ─ unlock ─ lock ─ 64 peers … ─ fold what is above the limit, in turns
//! ```
//!
//! The text is that of OpenMetrics 1.0. The number of its series has a limit: beyond
//! [`MetricsOptions::peer_nis_max`] interfaces of peers, the others appear together as
//! `peer="others"`, and beyond [`MetricsOptions::routes_max`] routes only their numbers are told.
//! `others` may count backwards when peers come and go, which readers of counters take for a restart.
//!
//! Metrics are not secret but say who talks with whom, and nobody is asked who he is: the endpoint is
//! meant for loopback, or for a network on which everybody may see them.

mod family;
mod http;
mod peers;
mod snapshot;
mod table;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lnet_node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tracing::{debug, error};

use crate::serving::{self, Clients};
use peers::Walk;
use snapshot::Snapshot;

/// Where metrics are served, and how many series there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsOptions {
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// Interfaces of peers with series of their own.
    pub peer_nis_max: usize,
    /// Routes with series of their own.
    pub routes_max: usize,
}

impl MetricsOptions {
    /// At this address, with 1,000 interfaces of peers and 1,000 routes.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self {
            address,
            peer_nis_max: 1000,
            routes_max: 1000,
        }
    }

    /// At this port of the loopback address.
    #[must_use]
    pub const fn at_port(port: u16) -> Self {
        Self::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

/// Metrics cannot be served.
#[derive(Debug, Error)]
#[error("cannot serve metrics at {address}: {error}")]
pub struct MetricsError {
    /// Where.
    pub address: SocketAddr,
    /// What the operating system says.
    pub error: io::Error,
}

/// An open metrics endpoint. It closes when this is dropped.
#[derive(Debug)]
pub struct MetricsEndpoint {
    address: SocketAddr,
    clients: Arc<Clients<TcpStream>>,
    listener: Option<JoinHandle<()>>,
}

/// Connections at once; one more is closed at once. A scraper has one, and somebody may look, too.
const CLIENTS_MAX: usize = 8;

/// How long waking the own listener may take; it is on this machine.
const WAKE: Duration = Duration::from_secs(1);

/// The text that an endpoint with these limits serves.
#[must_use]
pub fn metrics(node: &Node, options: &MetricsOptions) -> String {
    let mut walk = Walk::default();
    exposition(Snapshot::of(node, options, &mut walk, Instant::now()))
}

impl MetricsEndpoint {
    /// Serves a node's metrics at `http://ADDRESS/metrics`.
    ///
    /// # Errors
    ///
    /// The address is not this machine's, is taken, or needs a privilege.
    pub fn open(node: &Node, options: &MetricsOptions) -> Result<Self, MetricsError> {
        let (node, options) = (node.clone(), *options);
        let walk: Mutex<Walk> = Mutex::default();
        Self::open_text(options.address, move || scrape(&node, &options, &walk))
    }

    /// Serves what `text` makes at `http://ADDRESS/metrics`: the metrics of a program without a node, as text of
    /// OpenMetrics 1.0.
    ///
    /// # Errors
    ///
    /// As [`MetricsEndpoint::open`].
    pub fn open_text(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, MetricsError> {
        let failed = |error| MetricsError { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let clients = Arc::new(Clients::new("metrics", CLIENTS_MAX));
        let accepting = Accepting {
            text: Arc::new(text),
            clients: Arc::clone(&clients),
        };
        let thread = std::thread::Builder::new()
            .name("lnet-metrics".into())
            .spawn(move || accepting.run(&listener))
            .map_err(failed)?;
        Ok(Self {
            address: bound,
            clients,
            listener: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.clients.stop();
        // Wakes the listener out of accept; it sees the flag.
        if let Err(error) = TcpStream::connect_timeout(&self.address, WAKE) {
            debug!(%error, "the metrics listener was not woken");
        }
        if let Some(listener) = self.listener.take() {
            serving::join(listener);
        }
        self.clients.end();
    }
}

/// The listener's thread.
struct Accepting {
    text: Arc<dyn Fn() -> String + Send + Sync>,
    clients: Arc<Clients<TcpStream>>,
}

impl Accepting {
    fn run(&self, listener: &TcpListener) {
        serving::accept(&self.clients, listener.incoming(), |stream| {
            let text = Arc::clone(&self.text);
            let served = self.clients.serve(stream, move |stream| {
                http::serve(stream, || text());
            });
            if let Err(error) = served {
                debug!(%error, "metrics connection not served");
            }
        });
    }
}

/// One scrape at a time: they share the walk.
fn scrape(node: &Node, options: &MetricsOptions, walk: &Mutex<Walk>) -> String {
    let now = Instant::now();
    let snapshot = {
        let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot::of(node, options, &mut walk, now)
    };
    exposition(snapshot)
}

/// Put before every name.
const PREFIX: &str = "finerail";

/// The text of a snapshot.
fn exposition(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(snapshot));
    let mut exposition = String::new();
    if text::encode(&mut exposition, &registry).is_err() {
        // Writing to a String does not fail, and no value of ours refuses to be written.
        error!("metrics cannot be written");
    }
    exposition
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        family::encode_all(&mut encoder, table::NODE, &self.node)?;
        family::encode_all(&mut encoder, table::SOCKLND, &self.node)?;
        family::encode_all(&mut encoder, table::POOL, &self.pools)?;
        family::encode_all(&mut encoder, table::NI, &self.nis)?;
        family::encode_all(&mut encoder, table::ROUTE, &self.routes)?;
        family::encode_all(&mut encoder, table::PEER_NI, &self.peer_nis)
    }
}
