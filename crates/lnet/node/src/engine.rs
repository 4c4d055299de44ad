//! The state behind the node's one lock: the stack, its clock, and the links under its interfaces.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Weak;

use lnet_core::{ConfigError, Core, CoreConfig, Entropy, Globals, NiConfig, NiId, Tunables};
use lnet_o2ib::{O2ibConfig, O2ibStats};
use lnet_tcp::{
    AcceptMode, AddNiError, ConnectionView, LndNi, NiTuning, Sockets, Socklnd, SocklndConfig,
    SocklndStats, SourcePorts,
};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use lnet_verbs::VerbsDevice;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry};
use thiserror::Error;

use crate::clock::{Clock, wall_clock_nanos};
use crate::herald::{Herald, Lines};
use crate::links::Links;
use crate::node::{FIRST_LND_TOKEN, LINKS, RDMA, StartError};
use crate::options::NodeOptions;
use crate::queue::QueueState;
use crate::stack::{Rdma, Stack, Watcher};

/// The configured part of a node: interfaces, routes, peers, rules, parameters.
///
/// [`crate::Node::start_with`] and [`crate::Node::with_engine`] lend the engine under the node's lock. It is
/// meant for the administrator; programs send and receive by the calls of [`crate::Node`].
pub struct Engine {
    pub(crate) stack: Stack<Sockets, QueueState>,
    /// The queues of programs, which are closed when the node ends.
    pub(crate) queues: Vec<Weak<QueueState>>,
    links: Links,
    /// The number of lost paths that were reported to programs.
    paths_lost: u64,
    herald: Herald,
    registry: Registry,
    /// True if this node only dials.
    dials_only: bool,
    /// The number by which peers tell this incarnation of the node from earlier ones.
    incarnation: u64,
    one_shot: bool,
    clock: Clock,
    latest: Time,
}

/// Settings of a local interface. The defaults are LNet's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NiSettings {
    /// The interface's credits, and how long its peers may be silent.
    pub tunables: Tunables,
    /// The socket LND's settings of the interface. Only these may change while the interface is in use:
    /// [`Engine::tune`].
    pub lnd: NiTuning,
    /// The o2ib LND's settings of the interface; its `peer_credits` and `conns_per_peer` are those above.
    pub o2ib: lnet_o2ib::NiTuning,
}

/// The reason why an interface cannot be taken into use.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// The net is neither a tcp nor an o2ib net. No other type can be run from user space.
    #[error("{0} is neither a tcp nor an o2ib network: no other network has a driver here")]
    NoDriver(Net),
    /// RDMA cannot be used: libraries or kernel modules are missing.
    #[error("RDMA cannot be used: {0}")]
    Rdma(io::Error),
    /// The o2ib LND cannot serve the interface.
    #[error(transparent)]
    O2ib(#[from] lnet_o2ib::AddNiError),
    /// The addresses of this machine cannot be listed.
    #[error("cannot list this machine's network interfaces: {0}")]
    Addresses(io::Error),
    /// The LND cannot serve the interface.
    #[error(transparent)]
    Lnd(#[from] AddNiError),
    /// The core rejected the interface.
    #[error(transparent)]
    Core(#[from] ConfigError),
}

impl Engine {
    pub(crate) fn new(
        options: &NodeOptions,
        registry: Registry,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let globals = possible(options.globals, options.one_shot);
        let core = CoreConfig {
            entropy: entropy()?,
            seed: options.seed,
            globals,
            buffers: options.buffers,
            routing: options.routing,
            pid: ProcessId::LUSTRE_PID,
        };
        let lnd = socklnd_config(options, &globals);
        let sockets = registry.try_clone().map_err(StartError::EventLoop)?;
        let sockets = Sockets::new(sockets, FIRST_LND_TOKEN);
        let lnd = Socklnd::new(lnd, sockets, options.seed);
        let mut stack = Stack::new(lnd, Core::new(core, clock.now()));
        stack.side.memory.use_pipes();
        Ok(Self {
            stack,
            queues: Vec::new(),
            links: Links::default(),
            paths_lost: 0,
            herald: Herald::new(options.log_news),
            registry,
            dials_only: options.accept_mode() == AcceptMode::None,
            // [HELLO-18]
            incarnation: wall_clock_nanos(),
            one_shot: options.one_shot,
            clock,
            latest: Time::ZERO,
        })
    }

    /// Returns an engine that no node drives and that accepts no connection, to try out how changes would
    /// affect a node with these options.
    ///
    /// # Errors
    ///
    /// An error of the operating system.
    pub fn unreachable(options: &NodeOptions) -> Result<Self, StartError> {
        let options = NodeOptions {
            accept: Some(AcceptMode::None),
            ..options.clone()
        };
        // No event is polled: only the registry is needed.
        let poll = Poll::new().map_err(StartError::EventLoop)?;
        let registry = poll.registry().try_clone().map_err(StartError::EventLoop)?;
        Self::new(&options, registry, Clock::start())
    }

    /// Returns the node's state machine, to read its state and its counters.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.stack.side.core
    }

    /// Returns the node's state machine, to change routes, peers, rules, router buffers and health. To change
    /// interfaces and parameters, use the methods of the engine, because the LND must know of these changes.
    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.stack.side.core
    }

    /// Takes an interface into use: the node listens on its address, and the state of the link under the
    /// interface counts as the interface's state.
    ///
    /// # Errors
    ///
    /// A net that is neither tcp nor o2ib, an address that is not this machine's or is in use, a NID that the node already
    /// has. After an error, nothing has changed.
    pub fn add_interface(
        &mut self,
        nid: Nid,
        settings: NiSettings,
        now: Time,
    ) -> Result<NiId, InterfaceError> {
        let net = nid.net();
        if !has_driver(net) {
            return Err(InterfaceError::NoDriver(net));
        }
        let system = sys::interface_addresses().map_err(InterfaceError::Addresses)?;
        let tunables = settings.tunables;
        let ni = self.core_mut().add_ni(NiConfig { nid, tunables }, now)?;
        if let Err(error) = self.serve(ni, nid, settings) {
            // The core added the interface just now, so it is there.
            let _gone = self.core_mut().remove_ni(ni, now);
            return Err(error);
        }
        self.tune(ni, settings.lnd);
        self.links.add(ni, nid, &system);
        let went_down = self.links.refresh(&mut self.stack.side.core, now);
        self.let_go_of(went_down, now);
        let rdma = self.stack.rdma.as_ref();
        if rdma.is_some_and(|rdma| rdma.is_fatal(ni)) {
            self.stack.side.port_news.push((ni, true));
            self.ports_changed();
        }
        Ok(ni)
    }

    /// Gives an interface to its LND.
    fn serve(&mut self, ni: NiId, nid: Nid, settings: NiSettings) -> Result<(), InterfaceError> {
        let incarnation = self.incarnation;
        if nid.net().lnd == LndType::O2IB {
            let tuning = lnet_o2ib::NiTuning {
                peer_credits: u8::try_from(settings.tunables.peer_credits).unwrap_or(u8::MAX),
                conns_per_peer: settings.lnd.conns_per_peer,
                timeout: settings.lnd.timeout,
                ..settings.o2ib
            };
            // The protocol counts in microseconds.
            let incarnation = incarnation / 1000;
            return Ok(self.rdma()?.add_ni(lnet_o2ib::LndNi {
                ni,
                nid,
                tuning,
                incarnation,
            })?);
        }
        let tuning = settings.lnd;
        Ok(self.stack.lnd.add_ni(LndNi {
            ni,
            nid,
            tuning,
            incarnation,
        })?)
    }

    /// Returns the o2ib LND. The first call loads the libraries and opens the devices.
    fn rdma(&mut self) -> Result<&mut Rdma, InterfaceError> {
        let made = match self.stack.rdma.take() {
            Some(rdma) => rdma,
            None => {
                let device = VerbsDevice::new().map_err(InterfaceError::Rdma)?;
                let device = if self.dials_only {
                    device.dial_only()
                } else {
                    device
                };
                let config = O2ibConfig {
                    timeout: self.core().globals().lnd_timeout(),
                    ..O2ibConfig::default()
                };
                let rdma = Box::new(Rdma::new(config, device));
                let fd = rdma.devices().as_fd().as_raw_fd();
                let registered =
                    (self.registry).register(&mut SourceFd(&fd), RDMA, Interest::READABLE);
                registered.map_err(InterfaceError::Rdma)?;
                self.stack.side.memory.use_memory_only();
                rdma
            }
        };
        Ok(self.stack.rdma.insert(made))
    }

    /// Takes an interface out of use and closes its connections. Without effect if the node does not have the
    /// interface.
    pub fn remove_interface(&mut self, ni: NiId, now: Time) {
        self.stack.remove_ni(ni, now);
        self.links.remove(ni);
    }

    /// Changes the LND settings of an interface; its connections stay open. Without effect if the node does not
    /// have the interface.
    pub fn tune(&mut self, ni: NiId, lnd: NiTuning) {
        // The core knows the same interfaces as the LND. The error for an unknown interface does not matter.
        let _gone = self.core_mut().set_ni_lnd_timeout(ni, lnd.timeout);
        self.stack.lnd.tune(ni, lnd);
        if let Some(rdma) = &mut self.stack.rdma {
            rdma.tune(ni, lnd.conns_per_peer, lnd.timeout);
        }
    }

    /// Sets [`NodeOptions::match_addresses`] for later connections.
    pub fn match_addresses(&mut self, on: bool) {
        self.stack.lnd.match_addresses(on);
    }

    /// Changes the parameters of the whole node.
    ///
    /// # Errors
    ///
    /// Those of [`Core::change_globals`]. After an error, nothing has changed.
    pub fn change_globals(&mut self, globals: Globals, now: Time) -> Result<(), ConfigError> {
        let globals = possible(globals, self.one_shot);
        self.core_mut().change_globals(globals, now)?;
        let timeout = self.core().globals().lnd_timeout();
        self.stack.lnd.set_sock_timeout(timeout);
        if let Some(rdma) = &mut self.stack.rdma {
            rdma.set_timeout(timeout);
        }
        Ok(())
    }

    /// Returns this machine's network interface with the address of the NI, if there is one.
    #[must_use]
    pub fn link(&self, ni: NiId) -> Option<&str> {
        self.links.interface(ni)
    }

    /// Lets a watcher look at the messages of this node from now on, those that it forwards among them; `None` ends that.
    pub fn watch_messages(&mut self, watcher: Option<Box<dyn Watcher>>) {
        self.stack.watch_messages(watcher);
    }

    /// Returns the established connections of the socket LND, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        self.stack.lnd.connections()
    }

    /// Returns the counters of the socket LND.
    #[must_use]
    pub fn socklnd_stats(&self) -> &SocklndStats {
        self.stack.lnd.stats()
    }

    /// Returns the counters of the o2ib LND; `None` if no o2ib interface was ever used.
    #[must_use]
    pub fn o2iblnd_stats(&self) -> Option<&O2ibStats> {
        self.stack.rdma.as_ref().map(|rdma| rdma.stats())
    }

    /// Returns the connections of the o2ib LND.
    pub fn o2ib_connections(&self) -> impl Iterator<Item = lnet_o2ib::ConnectionView> {
        let rdma = self.stack.rdma.iter();
        rdma.flat_map(|rdma| rdma.connections())
    }

    /// Returns the bytes of memory that RDMA devices have pinned.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.stack
            .rdma
            .as_ref()
            .map_or(0, |rdma| rdma.devices().pinned())
    }

    /// Returns the number of payloads that are registered with RDMA devices.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.stack
            .rdma
            .as_ref()
            .map_or(0, |rdma| rdma.devices().registrations())
    }

    /// Returns the number of events lost because a program did not take them from its queue.
    #[must_use]
    pub fn events_lost(&self) -> u64 {
        self.stack.side.events_lost
    }

    /// Returns the number of bytes of router buffers allocated so far.
    #[must_use]
    pub fn router_buffer_bytes(&self) -> u64 {
        self.stack.side.memory.router_bytes()
    }

    /// Returns a number that differs between this incarnation of the node and earlier ones.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Reads the time. The caller holds the node's lock, so the time never goes back from one reading to the
    /// next.
    pub(crate) fn now(&mut self) -> Time {
        let now = self.clock.now();
        debug_assert!(now >= self.latest, "time went back");
        self.latest = now;
        now
    }

    /// Begins to watch links. A one-shot node does not watch: it ends before a link could change.
    pub(crate) fn watch_links(&mut self, registry: &Registry) {
        if !self.one_shot {
            self.links.watch(registry, LINKS);
        }
    }

    /// Takes the news of routes, health and peers that are to be logged.
    pub(crate) fn news(&mut self) -> Lines {
        let now = self.now();
        self.herald.choose(self.stack.side.core.take_news(), now)
    }

    /// Handles a change of the links under the interfaces.
    pub(crate) fn links_changed(&mut self, now: Time) {
        let went_down = self.links.ready(&mut self.stack.side.core, now);
        self.let_go_of(went_down, now);
    }

    /// Handles a change of the ports of RDMA devices.
    pub(crate) fn ports_changed(&mut self) {
        if self.stack.side.port_news.is_empty() {
            return;
        }
        let now = self.now();
        let side = &mut self.stack.side;
        for (ni, is_down) in std::mem::take(&mut side.port_news) {
            self.links.port_changed(ni, is_down, &mut side.core, now);
        }
    }

    /// Fails the messages of interfaces that went down, instead of waiting for their timeouts.
    fn let_go_of(&mut self, went_down: Vec<NiId>, now: Time) {
        for ni in went_down {
            self.stack.ni_went_down(ni, now);
        }
    }

    /// Reports a lost path to the queues that asked for such news, if a path was lost since the last call.
    pub(crate) fn tell_of_lost_paths(&mut self) {
        let lost = self.core().paths_lost();
        if std::mem::replace(&mut self.paths_lost, lost) != lost {
            let queues = self.queues.iter().filter_map(Weak::upgrade);
            queues.for_each(|queue| queue.path_lost());
        }
    }
}

/// Returns true if this node can have interfaces on a net of this type.
#[must_use]
pub fn has_driver(net: Net) -> bool {
    matches!(net.lnd, LndType::TCP | LndType::O2IB)
}

/// Returns whether a program of this machine, or its kernel, listens at this address over RDMA, as a node does. The answer
/// is no if there is no RDMA device, or if this program may not look.
#[must_use]
pub fn has_o2ib_listener(address: Ipv4Addr) -> bool {
    VerbsDevice::new().is_ok_and(|mut device| device.is_taken(address))
}

fn entropy() -> Result<Entropy, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(StartError::Random)?;
    Ok(Entropy::new(bytes))
}

/// Returns the globals that a node can follow. A one-shot node has one connection to one peer and cannot be
/// pinged, so it has no health and no recovery.
fn possible(globals: Globals, one_shot: bool) -> Globals {
    Globals {
        health_sensitivity: if one_shot {
            0
        } else {
            globals.health_sensitivity
        },
        ..globals
    }
}

fn socklnd_config(options: &NodeOptions, globals: &Globals) -> SocklndConfig {
    let default = SocklndConfig::default();
    SocklndConfig {
        port: options.port,
        accept: options.accept_mode(),
        match_addresses: options.match_addresses,
        source_ports: options.source_port_choice(),
        accept_timeout: options.accept_timeout,
        sock_timeout: globals.lnd_timeout(),
        typed: !options.one_shot,
        // A user-space peer is a peer that dials from an unprivileged port.
        user_pid: options.one_shot && options.source_port_choice() == SourcePorts::Any,
        congestion: options.congestion.clone(),
        keepalive: options.keepalive.unwrap_or(default.keepalive),
        ..default
    }
}
