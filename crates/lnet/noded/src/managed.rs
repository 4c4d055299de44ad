//! A node together with the parts of its configuration that the node does not keep.
//!
//! ```text
//!  locks, in the order in which they are taken:
//!    turn    its holder may change the configuration (`changing`)
//!    kept    parts of the configuration that the node does not keep; `document` is taken alone
//!    engine  the node itself: no message moves while it is held
//! ```
//!
//! A thread that holds a lock takes none that is above it in this list.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use lnet_config::Config;
use lnet_core::{Core, Recorder};
use lnet_node::{Engine, Node, NodeOptions};
use lnet_types::Time;

use crate::metrics::{Service, ServiceMetric};
use crate::record::{RecordFile, RecordView};
use crate::rpcs::{RpcCounts, RpcView};
use crate::setup::{self, Kept, StartError};
use crate::testing::TestConsole;

/// A running node whose configuration is known, so that it can be shown and changed. Clones are handles of the same
/// node.
#[derive(Clone)]
pub struct ManagedNode {
    node: Node,
    pub(crate) shared: Arc<Shared>,
}

/// The state that all handles share.
pub(crate) struct Shared {
    /// The right to change the configuration.
    pub(crate) turn: Mutex<()>,
    kept: Mutex<Kept>,
    /// The options of the node besides its configuration.
    options: NodeOptions,
    /// The nets, routes and routing of the last document that was read.
    document: Mutex<Config>,
    /// The file of the node's record, also after the record has ended.
    record: OnceLock<RecordView>,
    /// What is counted of Lustre's RPCs.
    rpcs: OnceLock<RpcView>,
    service: OnceLock<Arc<Service>>,
    tests: OnceLock<Weak<dyn TestConsole>>,
}

/// The parts that a configuration configures: a node's engine, and the settings kept beside it.
pub(crate) struct Configured<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) kept: &'a mut Kept,
}

/// Starts the node of a configuration. Parameters that the configuration does not name are taken from
/// [`NodeOptions::globals`]; router buffers and routing are the configuration's.
///
/// # Errors
///
/// A fault of the configuration or of this machine, with its remedy; also a configuration without a net.
pub fn start(config: &Config, options: NodeOptions) -> Result<ManagedNode, StartError> {
    start_if(config, options, None, |core| core.primary_nid().is_some())
}

/// Starts the node of a configuration that may have no net, as `lnetctl lnet configure` does: nets can be added while
/// the node runs.
///
/// # Errors
///
/// Those of [`start`], but a configuration without a net is accepted if it has no routes.
pub fn start_with_or_without_networks(
    config: &Config,
    options: NodeOptions,
) -> Result<ManagedNode, StartError> {
    start_recorded(config, options, None)
}

/// Starts a node as [`start_with_or_without_networks`] does, and passes all inputs of the node to a recorder, if
/// there is one: [`RecordFile::create`](crate::RecordFile::create) makes one.
///
/// # Errors
///
/// Those of [`start_with_or_without_networks`].
pub fn start_recorded(
    config: &Config,
    options: NodeOptions,
    recorder: Option<Box<dyn Recorder>>,
) -> Result<ManagedNode, StartError> {
    let is_complete = |core: &Core| core.primary_nid().is_some() || config.routes.is_empty();
    start_if(config, options, recorder, is_complete)
}

fn start_if(
    config: &Config,
    options: NodeOptions,
    recorder: Option<Box<dyn Recorder>>,
    is_complete: impl FnOnce(&Core) -> bool,
) -> Result<ManagedNode, StartError> {
    setup::warn_of_settings_without_effect(config);
    let config = &setup::taken_over(config, options.globals);
    setup::warn_of_locked_memory(config);
    let mut kept = Kept::of(config, &options);
    let node = Node::start_with(setup::node_options(config, &options)?, |engine, now| {
        let kept = &mut kept;
        let mut node = Configured { engine, kept };
        if let Some(recorder) = recorder {
            node.core_mut().record(recorder)?;
        }
        setup::add_interfaces(&mut node, config, now)?;
        if !is_complete(node.core()) {
            return Err(StartError::NoNetwork);
        }
        setup::add_routes_peers_and_rules(node.core_mut(), config, now)
    })?;
    Ok(ManagedNode {
        node,
        shared: Arc::new(Shared {
            turn: Mutex::default(),
            kept: Mutex::new(kept),
            options,
            document: Mutex::new(networks(config)),
            record: OnceLock::new(),
            rpcs: OnceLock::new(),
            service: OnceLock::new(),
            tests: OnceLock::new(),
        }),
    })
}

/// Returns the part of a configuration that a kernel node takes from module parameters.
fn networks(config: &Config) -> Config {
    Config {
        nets: config.nets.clone(),
        ip2nets: config.ip2nets.clone(),
        routes: config.routes.clone(),
        routing: config.routing,
        buffers: config.buffers,
        ..Config::default()
    }
}

impl ManagedNode {
    /// Returns the node itself.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Sets what reads the numbers of the service on this node, which `finerail top` shows. Later calls have no effect.
    pub fn set_service(&self, service: Arc<Service>) {
        let _first = self.shared.service.get_or_init(|| service);
    }

    pub(crate) fn service(&self) -> Option<Vec<ServiceMetric>> {
        self.shared.service.get().map(|service| service())
    }

    /// Lets commands of `lst` reach this console of LNet selftest for as long as the caller keeps it. Later calls have no
    /// effect.
    pub fn set_tests(&self, tests: &Arc<dyn TestConsole>) {
        let _first = self.shared.tests.get_or_init(|| Arc::downgrade(tests));
    }

    pub(crate) fn tests(&self) -> Option<Arc<dyn TestConsole>> {
        self.shared.tests.get().and_then(Weak::upgrade)
    }

    /// Returns the node alone, for a program that does not change its configuration.
    #[must_use]
    pub fn into_node(self) -> Node {
        self.node
    }

    /// Makes the file of the node's record known to clients that ask for the record, also after the record has ended.
    pub fn tell_of_record(&self, file: &RecordFile) {
        let _there_is_one_record = self.shared.record.set(file.view());
    }

    /// Returns the file that the node records into, or did.
    pub(crate) fn record(&self) -> Option<&RecordView> {
        self.shared.record.get()
    }

    /// Lets control clients see the RPCs that are counted. Later calls have no effect.
    pub fn tell_of_rpcs(&self, counts: &RpcCounts) {
        let _first = self.shared.rpcs.get_or_init(|| counts.view());
    }

    pub(crate) fn rpcs(&self) -> Option<&RpcView> {
        self.shared.rpcs.get()
    }

    /// Returns the options of the node besides its configuration.
    pub(crate) fn options(&self) -> &NodeOptions {
        &self.shared.options
    }

    /// Returns the nets, routes and routing of the last document that was read.
    pub(crate) fn networks_of_document(&self) -> Config {
        let document = self.shared.document.lock();
        document.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_document(&self, config: &Config) {
        let document = self.shared.document.lock();
        *document.unwrap_or_else(PoisonError::into_inner) = networks(config);
    }

    /// Takes both locks that reading or changing the configuration needs.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut Configured<'_>, Time) -> R) -> R {
        let kept = self.shared.kept.lock();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        self.node.with_engine(|engine, now| {
            let kept = &mut kept;
            call(&mut Configured { engine, kept }, now)
        })
    }

    /// Takes the engine's lock only, for calls that need the core alone.
    pub(crate) fn with_core<R>(&self, call: impl FnOnce(&mut Core, Time) -> R) -> R {
        self.node
            .with_engine(|engine, now| call(engine.core_mut(), now))
    }
}

impl Configured<'_> {
    pub(crate) fn core(&self) -> &Core {
        self.engine.core()
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        self.engine.core_mut()
    }
}
