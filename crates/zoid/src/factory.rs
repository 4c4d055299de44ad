//! The method in a list of methods.

use std::sync::Arc;

use bmi::{Error, Factory, Method, Role, Setup};
use zoid_proto::Instance;

use crate::address::{Daemon, parse};
use crate::client::Client;
use crate::counters::Counters;
use crate::options::Options;
use crate::server::{Handle, Server};

/// `bmi_zoid`: makes the client or the server when the interface needs it.
#[derive(Clone, Debug, Default)]
pub struct Zoid {
    options: Options,
    counters: Arc<Counters>,
    over_tcp: bool,
    /// The one of [`Options::io_nodes`] that it is for.
    node: Option<Instance>,
}

impl Zoid {
    /// The method with these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            counters: Arc::default(),
            over_tcp: false,
            node: None,
        }
    }

    /// The method for addresses of the extension that begin with `zoid+tcp://`: for clients
    /// without a daemon on their own host. It is `bmi_zoid_tcp` in a list of methods.
    #[must_use]
    pub fn over_tcp(options: Options) -> Self {
        let options = Options {
            extended_addresses: true,
            ..options
        };
        Self {
            over_tcp: true,
            ..Self::new(options)
        }
    }

    /// A method for each of [`Options::io_nodes`], to be added behind this one: `zoid://NAME` of such an
    /// instance is looked up there, so that one client has a connection to each. None without
    /// [`Options::extended_addresses`].
    pub fn io_nodes(&self) -> impl Iterator<Item = Self> + use<> {
        let nodes = match self.options.extended_addresses && !self.over_tcp {
            true => self.options.io_nodes.clone(),
            false => Vec::new(),
        };
        let options = self.options.clone();
        nodes.into_iter().map(move |node| Self {
            node: Some(node),
            ..Self::new(options.clone())
        })
    }

    /// The method as the environment describes it.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::new(Options::from_environment())
    }

    /// The counters of the method that this makes.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

impl Factory for Zoid {
    fn name(&self) -> &'static str {
        match self.over_tcp {
            false => "bmi_zoid",
            true => "bmi_zoid_tcp",
        }
    }

    fn scheme(&self) -> &'static str {
        match self.over_tcp {
            false => "zoid",
            true => "zoid+tcp",
        }
    }

    fn serves(&self, address: &str) -> bool {
        let extended = self.options.extended_addresses;
        let named = match parse(address, extended) {
            Ok(Daemon::Instance(instance)) => Some(instance),
            _ => None,
        };
        match &self.node {
            Some(node) => named.as_ref() == Some(node),
            // The others have their own.
            None => !extended || named.is_none_or(|named| !self.options.io_nodes.contains(&named)),
        }
    }

    fn start(&self, setup: Setup) -> Result<Arc<dyn Method>, Error> {
        let options = self.options.clone();
        let counters = Arc::clone(&self.counters);
        match setup.role {
            Role::Client => Ok(Client::start(options, setup.completions, counters)?),
            Role::Server { listen } => {
                let mut options = options;
                match parse(&listen, options.extended_addresses)? {
                    Daemon::Own => {}
                    Daemon::Instance(instance) => options.instance = instance,
                    // The server shares memory with its daemon.
                    Daemon::Tcp { .. } => return Err(Error::Inval),
                }
                let server = Server::start(options, setup.completions, counters)?;
                Ok(Arc::new(Handle(server)))
            }
        }
    }
}
