//! The state behind the node's one lock: the stack, its clock, and the links under its interfaces.

use std::io;
use std::sync::Weak;

use lnet_core::{ConfigError, Core, CoreConfig, Entropy, Globals, NiConfig, NiId, Tunables};
use lnet_tcp::{
    AcceptMode, AddNiError, ConnectionView, LndNi, NiTuning, Sockets, Socklnd, SocklndConfig,
    SocklndStats, SourcePorts,
};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use mio::{Poll, Registry};
use thiserror::Error;

use crate::clock::{Clock, wall_clock_nanos};
use crate::herald::{Herald, Lines};
use crate::links::Links;
use crate::node::{FIRST_LND_TOKEN, LINKS, StartError};
use crate::options::NodeOptions;
use crate::queue::QueueState;
use crate::stack::{Stack, Watcher};

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
}

/// The reason why an interface cannot be taken into use.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// The net is not a tcp net. No other type can be run from user space.
    #[error("{0} is not a tcp network: only tcp networks have a driver here")]
    NotTcp(Net),
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
        let lnd = Socklnd::new(lnd, Sockets::new(registry, FIRST_LND_TOKEN), options.seed);
        let mut stack = Stack::new(lnd, Core::new(core, clock.now()));
        stack.side.memory.use_pipes();
        Ok(Self {
            stack,
            queues: Vec::new(),
            links: Links::default(),
            paths_lost: 0,
            herald: Herald::new(options.log_news),
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
    /// A net that is not tcp, an address that is not this machine's or is in use, a NID that the node already
    /// has. After an error, nothing has changed.
    pub fn add_interface(
        &mut self,
        nid: Nid,
        settings: NiSettings,
        now: Time,
    ) -> Result<NiId, InterfaceError> {
        let net = nid.net();
        if net.lnd != LndType::TCP {
            return Err(InterfaceError::NotTcp(net));
        }
        let system = sys::interface_addresses().map_err(InterfaceError::Addresses)?;
        let tunables = settings.tunables;
        let ni = self.core_mut().add_ni(NiConfig { nid, tunables }, now)?;
        let serving = self.stack.lnd.add_ni(LndNi {
            ni,
            nid,
            tuning: settings.lnd,
            incarnation: self.incarnation,
        });
        if let Err(error) = serving {
            // The core added the interface just now, so it is there.
            let _gone = self.core_mut().remove_ni(ni, now);
            return Err(error.into());
        }
        self.tune(ni, settings.lnd);
        self.links.add(ni, nid, &system);
        let went_down = self.links.refresh(&mut self.stack.side.core, now);
        self.let_go_of(went_down, now);
        Ok(ni)
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
