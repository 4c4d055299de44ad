//! Options of a node: its parameters, and how it uses the operating system.

use std::time::Duration;

use lnet_core::{Globals, RouterBuffers};
use lnet_tcp::{AcceptMode, SourcePorts};

/// Who drives the node's I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A thread of the node's own. The node answers at all times.
    #[default]
    Thread,
    /// The thread that waits on an event queue. This saves the hand-over between threads. But the node answers
    /// only while a thread waits, and messages leave only when a thread waits or some tens of calls have
    /// gathered. Meant for benchmarks and one-shot tools.
    Caller,
}

/// Options of a node. Its interfaces, routes and peers come later: [`crate::Node::start_with`].
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// TCP port to listen on and to dial; 988 is LNet's.
    pub port: u16,
    /// Which source ports may connect. `None`: `Secure` if `port` is privileged, else `All`.
    pub accept: Option<AcceptMode>,
    /// Accept a peer only if it dials from the address of its NID. Kernel nodes do not check this.
    pub match_addresses: bool,
    /// Which source ports this node dials from. `None`: privileged ports if `port` is privileged, else any
    /// port.
    pub source_ports: Option<SourcePorts>,
    /// Who drives I/O.
    pub progress: Progress,
    /// The number of threads that move bytes, including the driver, at least 1. More threads help if several
    /// connections have much to move, as in a router. Without effect under [`Progress::Caller`].
    pub io_threads: u16,
    /// How long the driving thread polls for work before it sleeps. It yields the CPU between two polls. Zero:
    /// it does not poll. Polling saves a wake-up if the peer answers within this time, and costs CPU time while
    /// nothing happens.
    pub spin: Duration,
    /// The TCP congestion control of every connection, by its name in the operating system; `None` keeps the
    /// system's default.
    pub congestion: Option<String>,
    /// Log each change of routes, of health and of configured peers as a warning, at most 30 a minute. Meant
    /// for nodes that run for long; a tool reports its own failures.
    pub log_news: bool,
    /// Open one CONTROL connection per peer, and from an unprivileged port present this process as a user-space
    /// peer. This needs no privilege if the peer accepts any source port, and does not disturb
    /// an LNet node on the same address.
    pub one_shot: bool,
    /// The seed of all pseudo-random choices; the same seed gives the same choices.
    pub seed: u64,
    /// How long a connection handshake may take.
    pub accept_timeout: Duration,
    /// A peer is sent a keepalive after this time without traffic; `None` is 30 s.
    pub keepalive: Option<Duration>,
    /// LNet's parameters. A one-shot node has no health, even if they switch it on.
    pub globals: Globals,
    /// Router buffers; without effect if `routing` is false.
    pub buffers: RouterBuffers,
    /// Forward messages between nets.
    pub routing: bool,
    /// Threads of this program that call this node act as other users now and then (`setfsuid(2)`). The kernel refuses
    /// RDMA calls of a thread whose credentials were ever changed. If this is set and the node has an o2ib network, the
    /// node's own threads carry out what calls cause, and each call wakes the node. Without effect under
    /// [`Progress::Caller`].
    pub callers_act_as_others: bool,
}

impl NodeOptions {
    /// The port of LNet.
    // [CONN-1]
    pub const LNET_PORT: u16 = 988;
    /// Ports below this number need a privilege.
    pub const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

    pub(crate) fn accept_mode(&self) -> AcceptMode {
        match self.accept {
            Some(mode) => mode,
            None if self.port < Self::FIRST_UNPRIVILEGED_PORT => AcceptMode::Secure,
            None => AcceptMode::All,
        }
    }

    pub(crate) fn source_port_choice(&self) -> SourcePorts {
        match self.source_ports {
            Some(choice) => choice,
            None if self.port < Self::FIRST_UNPRIVILEGED_PORT => SourcePorts::Privileged,
            None => SourcePorts::Any,
        }
    }
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            port: Self::LNET_PORT,
            accept: None,
            match_addresses: false,
            source_ports: None,
            progress: Progress::default(),
            io_threads: 1,
            spin: Duration::ZERO,
            congestion: None,
            log_news: false,
            one_shot: false,
            seed: 0,
            accept_timeout: Duration::from_secs(5),
            keepalive: None,
            globals: Globals::default(),
            buffers: RouterBuffers::default(),
            routing: false,
            callers_act_as_others: false,
        }
    }
}
