//! The method in a list of methods.

use std::sync::Arc;

use bmi::{Error, Factory, Method, Role, Setup};

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
}

impl Zoid {
    /// The method with these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            counters: Arc::default(),
            over_tcp: false,
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
