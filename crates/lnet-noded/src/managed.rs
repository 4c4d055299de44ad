//! A node together with what its configuration says beyond it.
//!
//! ```text
//!  locks, in the order in which they are taken:
//!    turn    whoever has it may change the configuration (`changing`)
//!    kept    what the configuration says beyond the node; `document` is taken alone
//!    engine  the node itself: no message moves while somebody has it
//! ```
//!
//! Whoever has a lock takes none that stands above it.

use std::sync::{Arc, Mutex, PoisonError};

use lnet_config::Config;
use lnet_core::{Core, Recorder};
use lnet_node::{Engine, Node, NodeOptions};
use lnet_types::Time;

use crate::setup::{self, Kept, StartError};

/// A running node whose configuration is known, so that it can be shown and changed. Clones are handles to the same
/// node.
#[derive(Clone)]
pub struct ManagedNode {
    node: Node,
    pub(crate) shared: Arc<Shared>,
}

/// What all handles share.
pub(crate) struct Shared {
    /// Whoever has it may change the configuration.
    pub(crate) turn: Mutex<()>,
    kept: Mutex<Kept>,
    /// What the node was started with besides its configuration.
    options: NodeOptions,
    /// Networks, routes and routing of the document that was read last.
    document: Mutex<Config>,
}

/// What a configuration configures: a node's engine, and what is kept beside it.
pub(crate) struct Configured<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) kept: &'a mut Kept,
}

/// Starts the node of a configuration. Parameters that the configuration does not name are those of
/// [`NodeOptions::globals`]; router buffers and routing are the configuration's.
///
/// # Errors
///
/// What is wrong with the configuration or this machine, and what to do about it; also that the configuration has no
/// network.
pub fn start(config: &Config, options: NodeOptions) -> Result<ManagedNode, StartError> {
    start_if(config, options, None, |core| core.primary_nid().is_some())
}

/// Starts the node of a configuration that may have no network, as `lnetctl lnet configure` does: networks are added
/// while the node runs.
///
/// # Errors
///
/// As of [`start`]; a configuration without a network may have no routes.
pub fn start_with_or_without_networks(
    config: &Config,
    options: NodeOptions,
) -> Result<ManagedNode, StartError> {
    start_recorded(config, options, None)
}

/// As [`start_with_or_without_networks`], and gives all that enters the node to a recorder, if there is one:
/// [`RecordFile::create`](crate::RecordFile::create) makes one.
///
/// # Errors
///
/// As there.
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
        }),
    })
}

/// What module parameters say of a kernel node.
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
    /// The node itself.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// The node alone, for whoever does not change its configuration.
    #[must_use]
    pub fn into_node(self) -> Node {
        self.node
    }

    /// What the node was started with besides its configuration.
    pub(crate) fn options(&self) -> &NodeOptions {
        &self.shared.options
    }

    /// Networks, routes and routing of the document that was read last.
    pub(crate) fn networks_of_document(&self) -> Config {
        let document = self.shared.document.lock();
        document.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_document(&self, config: &Config) {
        let document = self.shared.document.lock();
        *document.unwrap_or_else(PoisonError::into_inner) = networks(config);
    }

    /// Takes both locks that a look at the configuration needs.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut Configured<'_>, Time) -> R) -> R {
        let kept = self.shared.kept.lock();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        self.node.with_engine(|engine, now| {
            let kept = &mut kept;
            call(&mut Configured { engine, kept }, now)
        })
    }

    /// For what concerns the core alone.
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
