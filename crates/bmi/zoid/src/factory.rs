//! The factory of the method.

use std::sync::Arc;

use bmi::{Error, Factory, Method, Role, Setup};
use zoid_proto::Instance;

use crate::address::{Daemon, parse};
use crate::client::Client;
use crate::counters::Counters;
use crate::options::Options;
use crate::server::{Handle, Server};

/// `bmi_zoid`: creates the client or the server when the interface needs it.
#[derive(Clone, Debug, Default)]
pub struct Zoid {
    options: Options,
    counters: Arc<Counters>,
    over_tcp: bool,
    /// The instance of [`Options::io_nodes`] that this factory serves, if any.
    node: Option<Instance>,
}

impl Zoid {
    /// Returns the method with these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            counters: Arc::default(),
            over_tcp: false,
            node: None,
        }
    }

    /// Returns the method for addresses that begin with `zoid+tcp://`: for clients without a daemon on their
    /// own host. Its name in a list of methods is `bmi_zoid_tcp`.
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

    /// Returns a method for each of [`Options::io_nodes`], to be added after this one: it serves
    /// `zoid://NAME` of its instance, so that one client has a connection to each instance. Empty without
    /// [`Options::extended_addresses`].
    // [ADDR-12]
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

    /// Returns the method with the options of the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::new(Options::from_environment())
    }

    /// Returns the counters of this method.
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
            // The other instances have methods of their own.
            None => !extended || named.is_none_or(|named| !self.options.io_nodes.contains(&named)),
        }
    }

    // [ZOID-1]
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
                    // A server shares memory with its daemon, so it must be local.
                    Daemon::Tcp { .. } => return Err(Error::Inval),
                }
                let server = Server::start(options, setup.completions, counters)?;
                Ok(Arc::new(Handle(server)))
            }
        }
    }
}
