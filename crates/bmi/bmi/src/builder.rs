//! The builder of an interface: its methods, its role, its listen address.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use crate::address::{Addresses, check_length, scheme};
use crate::bmi::{Bmi, Slot};
use crate::error::Error;
use crate::method::{Completions, Factory, Method, Role, Setup};
use crate::ops::Ops;

/// Collects the settings of a [`Bmi`]; [`Bmi::builder`] creates one.
///
/// Without [`Builder::listen`] this process is a client: a method starts when the first address with its
/// scheme is looked up. With [`Builder::listen`] this process is a server, and the methods of the listen
/// address start at once.
#[derive(Default)]
pub struct Builder {
    factories: Vec<Box<dyn Factory>>,
    listed: Option<String>,
    listen: Option<String>,
    bind_specific: bool,
    auto_reference: bool,
}

impl Builder {
    /// Adds a method to those that may be used.
    #[must_use]
    pub fn method(mut self, factory: impl Factory + 'static) -> Builder {
        self.factories.push(Box::new(factory));
        self
    }

    /// Returns the names of the methods that were added, without the prefix `bmi_`, each name once.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> {
        let names = self.factories.iter().map(|factory| factory.name());
        let first = move |(index, name): &(usize, &str)| {
            let mut before = self.factories.iter().take(*index);
            before.all(|other| other.name() != *name)
        };
        let names = names.enumerate().filter(first);
        names.map(|(_, name)| name.trim_start_matches("bmi_"))
    }

    /// Restricts the interface to the named methods, separated by commas, such as `bmi_tcp,bmi_zoid`. They
    /// start at once. Without this call every added method may be used.
    #[must_use]
    pub fn only(mut self, names: &str) -> Builder {
        self.listed = Some(names.to_owned());
        self
    }

    /// Makes this process a server that listens on an address, or on one address per method, separated by
    /// commas: `tcp://node7:3334,zoid://`. Addresses of methods that are not used are ignored.
    #[must_use]
    pub fn listen(mut self, addresses: &str) -> Builder {
        self.listen = Some(addresses.to_owned());
        self
    }

    /// Listens only on the host of the listen address. Without this option a method may listen on every
    /// address of the machine.
    #[must_use]
    pub fn bind_specific(mut self, specific: bool) -> Builder {
        self.bind_specific = specific;
        self
    }

    /// Adds a reference to the sender's address with each unexpected message.
    #[must_use]
    pub fn auto_reference(mut self, automatic: bool) -> Builder {
        self.auto_reference = automatic;
        self
    }

    /// Starts the interface.
    ///
    /// # Errors
    ///
    /// [`Error::NoProtoOpt`]: a listed method is unknown. [`Error::Inval`]: a server's method has no listen
    /// address or two, or no listen address was given. Errors of starting a method; methods that started
    /// before it are closed.
    pub fn start(self) -> Result<Bmi, Error> {
        let plan = self.plan()?;
        let Builder {
            factories,
            bind_specific,
            auto_reference,
            ..
        } = self;
        let slots = factories
            .into_iter()
            .zip(&plan)
            .map(|(factory, plan)| Slot {
                factory,
                usable: *plan != Plan::Unused,
                method: OnceLock::new(),
                starting: Mutex::new(()),
                check_unexpected: AtomicBool::new(true),
            });
        let bmi = Bmi {
            slots: slots.collect(),
            ops: Arc::new(Ops::default()),
            addresses: Mutex::new(Addresses::default()),
            auto_reference,
            closed: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
        };
        for (index, plan) in plan.into_iter().enumerate() {
            let role = match plan {
                Plan::Unused | Plan::Later => continue,
                Plan::Client => Role::Client,
                Plan::Server(listen) => Role::Server { listen },
            };
            // On an error, dropping the interface closes the methods that have started.
            bmi.start(index, role, bind_specific)?;
        }
        Ok(bmi)
    }

    /// Decides for each method whether and in which role it starts.
    // [BMI-50]
    fn plan(&self) -> Result<Vec<Plan>, Error> {
        let listed = self.listed()?;
        let Some(listen) = &self.listen else {
            let of = |&listed: &Option<bool>| match listed {
                None => Plan::Later,
                Some(true) => Plan::Client,
                Some(false) => Plan::Unused,
            };
            return Ok(listed.iter().map(of).collect());
        };
        let mut plan = vec![Plan::Unused; self.factories.len()];
        for part in listen.split(',') {
            check_length(part)?;
            let index = self.of_scheme(scheme(part)?);
            let Some(index) = index.filter(|&index| listed[index] != Some(false)) else {
                continue;
            };
            if plan[index] != Plan::Unused {
                return Err(Error::Inval);
            }
            plan[index] = Plan::Server(part.to_owned());
        }
        if plan.iter().all(|plan| *plan == Plan::Unused) {
            return Err(Error::Inval);
        }
        let heard = |name| {
            let mut named = self.factories.iter().zip(&plan);
            named.any(|(factory, plan)| factory.name() == name && *plan != Plan::Unused)
        };
        let mut named = self.factories.iter().zip(&listed);
        if named.any(|(factory, listed)| *listed == Some(true) && !heard(factory.name())) {
            return Err(Error::Inval);
        }
        Ok(plan)
    }

    /// Returns for each method whether it is listed. `None` for every method if there is no list.
    // [BMI-51]
    fn listed(&self) -> Result<Vec<Option<bool>>, Error> {
        let Some(list) = &self.listed else {
            return Ok(vec![None; self.factories.len()]);
        };
        let mut listed = vec![Some(false); self.factories.len()];
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let mut known = false;
            for (factory, listed) in self.factories.iter().zip(&mut listed) {
                if factory.name() == name {
                    (known, *listed) = (true, Some(true));
                }
            }
            if !known {
                return Err(Error::NoProtoOpt);
            }
        }
        Ok(listed)
    }

    fn of_scheme(&self, scheme: &str) -> Option<usize> {
        self.factories
            .iter()
            .position(|known| known.scheme() == scheme)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    /// The method is not listed.
    Unused,
    /// The method starts as a client at the first lookup.
    Later,
    Client,
    Server(String),
}

impl Bmi {
    /// Starts the method of a slot, unless it has started.
    pub(crate) fn start(
        &self,
        index: usize,
        role: Role,
        bind_specific: bool,
    ) -> Result<&Arc<dyn Method>, Error> {
        let slot = &self.slots[index];
        let _alone = slot
            .starting
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(method) = slot.method.get() {
            return Ok(method);
        }
        let setup = Setup {
            role,
            bind_specific,
            completions: Completions::new(Arc::clone(&self.ops)),
        };
        let method = slot.factory.start(setup)?;
        Ok(slot.method.get_or_init(|| method))
    }
}
