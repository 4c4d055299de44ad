//! What a node is told when it starts: its parameters, and how it meets the operating system.

use std::time::Duration;

use lnet_core::{Globals, RouterBuffers};
use lnet_tcp::{AcceptMode, SourcePorts};

/// Who drives the node's I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A thread of the node's own. The node answers whatever the program does.
    #[default]
    Thread,
    /// Whoever waits on an event queue. No hand-over between threads, but the node answers only while
    /// somebody waits, and messages leave when somebody waits or some tens of them have gathered: for
    /// benchmarks and one-shot tools.
    Caller,
}

/// Options of a node. Its interfaces, routes and peers come later: [`crate::Node::start_with`].
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// TCP port to listen on and to dial; 988 is LNet's.
    pub port: u16,
    /// Which source ports may connect. `None`: `Secure` on a privileged port, `All` on others.
    pub accept: Option<AcceptMode>,
    /// Accept a peer only where the address of its NID is the one it dials from. Kernel nodes do not ask.
    pub match_addresses: bool,
    /// Which source ports this node dials from. `None`: privileged ones towards a privileged port, any
    /// towards others.
    pub source_ports: Option<SourcePorts>,
    /// Who drives I/O.
    pub progress: Progress,
    /// Threads that move bytes, the driver among them, at least 1; more carry more where several connections have much
    /// to move, as in a router. Of no effect where callers drive.
    pub io_threads: u16,
    /// How long whoever drives looks for work before it sleeps, letting others have the CPU between two looks; zero: not
    /// at all. Spares a peer that answers within that time a wake-up, and costs CPU time while nothing happens.
    pub spin: Duration,
    /// TCP congestion control of every connection, by its name in the operating system; `None` leaves
    /// the system's default.
    pub congestion: Option<String>,
    /// Log what happens to routes, to health and to configured peers: a warning each change, at most 30 a minute. For nodes
    /// that run for long; a tool says itself what it could not do.
    pub log_news: bool,
    /// Open one CONTROL connection a peer, and from an unprivileged port present this process as a
    /// user-space peer (section 2.11): needs no privilege where the node accepts any port, and disturbs
    /// no LNet node on the same address.
    pub one_shot: bool,
    /// Seed of everything that is drawn; the same seed draws the same.
    pub seed: u64,
    /// How long a connection handshake may take.
    pub accept_timeout: Duration,
    /// How long a peer may be silent before it is sent a keepalive; `None` is 30 s (section 3.7).
    pub keepalive: Option<Duration>,
    /// LNet's parameters; a one-shot node has no health, whatever they say.
    pub globals: Globals,
    /// Router buffers; of no effect where the node does not route.
    pub buffers: RouterBuffers,
    /// Forward messages between networks.
    pub routing: bool,
}

impl NodeOptions {
    /// The port of LNet (section 2.2).
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
        }
    }
}
