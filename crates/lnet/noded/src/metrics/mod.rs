//! The metrics endpoint: serves a node's counters over HTTP for Prometheus.
//!
//! ```text
//!  listener thread ── accept ── one thread a connection (at most 32: one more ends the oldest idle one)
//!                                 read a request (at most 8 KiB, at most 5 s)
//!                                 ── GET /metrics: collect, page by page ── write the text ── close
//!
//!  collect:  lock ─ node, interfaces, routes ─ unlock      (a copy; nothing is formatted inside)
//!            lock ─ 64 peers ─ unlock ─ lock ─ 64 peers … ─ fold what is above the limit, in turns
//! ```
//!
//! The text is OpenMetrics 1.0. The number of its series is limited. If there are more than
//! [`MetricsOptions::peer_nis_max`] interfaces of peers, the others appear together as `peer="others"`. Routes beyond
//! [`MetricsOptions::routes_max`] appear only in the number of routes. `others` may count backwards when peers come and
//! go; readers of counters take that for a restart.
//!
//! Metrics are not secret, but they show which nodes talk with each other, and the endpoint does not authenticate its
//! clients. It is meant for loopback, or for a network on which everybody may see the metrics.

mod family;
mod http;
mod o2ib;
mod peers;
mod service;
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

use crate::serving::{self, Clients, Full};
use peers::Walk;
pub use service::{Service, ServiceMetric};
use snapshot::Snapshot;

/// The address at which metrics are served, and the limits of the number of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsOptions {
    /// The address to listen on; port 0 takes a free port.
    pub address: SocketAddr,
    /// The most interfaces of peers with series of their own.
    pub peer_nis_max: usize,
    /// The most routes with series of their own.
    pub routes_max: usize,
}

impl MetricsOptions {
    /// Returns options for this address, with 1,000 interfaces of peers and 1,000 routes.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self {
            address,
            peer_nis_max: 1000,
            routes_max: 1000,
        }
    }

    /// Returns options for this port of the loopback address.
    #[must_use]
    pub const fn at_port(port: u16) -> Self {
        Self::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

/// The error of an endpoint that cannot serve metrics.
#[derive(Debug, Error)]
#[error("cannot serve metrics at {address}: {error}")]
pub struct MetricsError {
    /// The address.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub error: io::Error,
}

/// An open metrics endpoint. Dropping this value closes it.
#[derive(Debug)]
pub struct MetricsEndpoint {
    address: SocketAddr,
    clients: Arc<Clients<TcpStream>>,
    listener: Option<JoinHandle<()>>,
}

/// The limit of simultaneous connections. A scraper has one, and people may look, too. At the limit, a new connection
/// ends the oldest idle one. So many others must arrive within the moment in which a scraper asks to end its connection.
const CLIENTS_MAX: usize = 32;

/// How long the connection that wakes the own listener may take; it stays on this machine.
const WAKE: Duration = Duration::from_secs(1);

/// Returns the text that an endpoint with these limits serves.
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
    /// The address is not this machine's, is in use, or needs a privilege.
    pub fn open(node: &Node, options: &MetricsOptions) -> Result<Self, MetricsError> {
        let (node, options) = (node.clone(), *options);
        let walk: Mutex<Walk> = Mutex::default();
        Self::open_text(options.address, move || scrape(&node, &options, &walk))
    }

    /// Serves a node's metrics, and those of the service on it, at `http://ADDRESS/metrics`.
    ///
    /// # Errors
    ///
    /// Those of [`MetricsEndpoint::open`].
    pub fn open_with(
        node: &Node,
        options: &MetricsOptions,
        service: Arc<Service>,
    ) -> Result<Self, MetricsError> {
        let (node, options) = (node.clone(), *options);
        let walk: Mutex<Walk> = Mutex::default();
        Self::open_text(options.address, move || {
            let mut exposition = scrape(&node, &options, &walk);
            service::add(&mut exposition, &service());
            exposition
        })
    }

    /// Serves a node's metrics, and lines of OpenMetrics of something beside it, at `http://ADDRESS/metrics`.
    ///
    /// # Errors
    ///
    /// Those of [`MetricsEndpoint::open`].
    pub fn open_beside(
        node: &Node,
        options: &MetricsOptions,
        lines: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, MetricsError> {
        let (node, options) = (node.clone(), *options);
        let walk: Mutex<Walk> = Mutex::default();
        Self::open_text(options.address, move || {
            let mut exposition = scrape(&node, &options, &walk);
            service::add_lines(&mut exposition, &lines());
            exposition
        })
    }

    /// Serves the result of `text` at `http://ADDRESS/metrics`: the metrics of a program without a node, as
    /// OpenMetrics 1.0 text.
    ///
    /// # Errors
    ///
    /// Those of [`MetricsEndpoint::open`].
    pub fn open_text(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, MetricsError> {
        let failed = |error| MetricsError { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let clients = Arc::new(Clients::new("metrics", CLIENTS_MAX, Full::EndOldest));
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

    /// Returns the address that the endpoint listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.clients.stop();
        // Wakes the listener from accept; it then sees the flag.
        if let Err(error) = TcpStream::connect_timeout(&self.address, WAKE) {
            debug!(%error, "cannot wake the metrics listener");
        }
        if let Some(listener) = self.listener.take() {
            serving::join(listener);
        }
        self.clients.end();
    }
}

/// The state of the listener's thread.
struct Accepting {
    text: Arc<dyn Fn() -> String + Send + Sync>,
    clients: Arc<Clients<TcpStream>>,
}

impl Accepting {
    fn run(&self, listener: &TcpListener) {
        serving::accept(&self.clients, listener.incoming(), |stream| {
            let text = Arc::clone(&self.text);
            let served = self.clients.serve(stream, move |stream, busy| {
                http::serve(stream, || busy.with(|| text()));
            });
            if let Err(error) = served {
                debug!(%error, "metrics connection not served");
            }
        });
    }
}

/// Makes the text of one scrape. Scrapes run one at a time, because they share the walk.
fn scrape(node: &Node, options: &MetricsOptions, walk: &Mutex<Walk>) -> String {
    let now = Instant::now();
    let snapshot = {
        let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot::of(node, options, &mut walk, now)
    };
    exposition(snapshot)
}

/// The prefix of every name.
const PREFIX: &str = "finerail";

/// Returns the text of a snapshot.
fn exposition(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(snapshot));
    let mut exposition = String::new();
    if text::encode(&mut exposition, &registry).is_err() {
        // Writing to a String does not fail, and every value here can be written.
        error!("metrics cannot be written");
    }
    exposition
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        family::encode_all(&mut encoder, table::NODE, &self.node)?;
        family::encode_all(&mut encoder, table::SOCKLND, &self.node)?;
        if !self.o2ib.is_empty() {
            family::encode_all(&mut encoder, o2ib::O2IB, &self.o2ib)?;
        }
        family::encode_all(&mut encoder, table::POOL, &self.pools)?;
        family::encode_all(&mut encoder, table::NI, &self.nis)?;
        family::encode_all(&mut encoder, table::ROUTE, &self.routes)?;
        family::encode_all(&mut encoder, table::PEER_NI, &self.peer_nis)
    }
}
