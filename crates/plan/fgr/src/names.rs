//! Finds parts of a machine by the names that people use: numbers, NIDs, blades, cabinets, nets,
//! host lists.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thiserror::Error;

use crate::input::{HostListError, hosts};
use crate::machine::Machine;
use crate::problem::shown;

/// Why a list does not name parts of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is not a host list.
    #[error(transparent)]
    HostList(#[from] HostListError),
    /// No part has this name.
    #[error("'{0}' is not a node, blade, cabinet or net of the machine")]
    Unknown(String),
    /// The name of a router, blade, cabinet or net was given instead of a client.
    #[error("'{0}' is not a client")]
    NoClient(String),
    /// A client is named twice.
    #[error("client {0} is named twice")]
    Twice(u32),
}

/// Parts that have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// Indices of routers.
    pub routers: BTreeSet<u16>,
    /// Indices of clients. They keep their routes, because they may come back.
    pub clients: BTreeSet<usize>,
}

/// Returns the parts that a host list names. Each item is one of:
///
/// * a node: its number (`17736`), its NID (`17736@gni110`), its name, `nid17736`, or as the k-th node
///   of a blade (`c7-2c2s0n1`);
/// * a range of numbers (`17736-17739`);
/// * a blade or a cabinet, which means all its routers;
/// * a net, which means all routers on it: the leaf switch that carries the net.
///
/// # Errors
///
/// [`NameError`] for the first item that names nothing.
pub fn failed(machine: &Machine, list: &str) -> Result<Failed, NameError> {
    let names = Names::new(machine);
    let mut failed = Failed::default();
    for name in hosts(list)? {
        let before = failed.routers.len() + failed.clients.len();
        let numbers = numbers(&name);
        failed.clients.extend(names.clients_of(&numbers));
        failed.routers.extend(
            names
                .by_number
                .range(numbers)
                .flat_map(|(_, routers)| routers),
        );
        failed.clients.extend(names.client(&name));
        failed.routers.extend(names.routers_of(&name));
        let is_new = failed.routers.len() + failed.clients.len() > before;
        if !is_new && !names.knows(&name) {
            return Err(NameError::Unknown(shown(&name)));
        }
    }
    Ok(failed)
}

/// Returns the indices of the clients that a host list names, in ascending order. An item is a
/// number, a NID, a name, `nid00020`, or a range of numbers. In a range, numbers without a client
/// are ignored.
///
/// # Errors
///
/// [`NameError`] for the first item that does not name a client, or that names a client a second
/// time.
pub fn clients(machine: &Machine, list: &str) -> Result<Vec<usize>, NameError> {
    let names = Names::new(machine);
    let mut found = BTreeSet::new();
    for name in hosts(list)? {
        let by_number = names.clients_of(&numbers(&name));
        let is_number =
            name.starts_with(|c: char| c.is_ascii_digit()) && !numbers(&name).is_empty();
        let by_name = if is_number { None } else { names.client(&name) };
        let these: BTreeSet<usize> = by_number.chain(by_name).collect();
        if these.is_empty() {
            let is_known = names.knows(&name);
            let name = shown(&name);
            return Err(if is_known {
                NameError::NoClient(name)
            } else {
                NameError::Unknown(name)
            });
        }
        for client in these {
            if !found.insert(client) {
                return Err(NameError::Twice(machine.clients[client].id));
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the numbers that a name means: `20`, `20@gni101`, `20-29`, `nid00020`.
fn numbers(name: &str) -> Range<u64> {
    let name = name.split_once('@').map_or(name, |(number, _)| number);
    let name = name.strip_prefix("nid").unwrap_or(name);
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    match (first.parse::<u32>(), last.parse::<u32>()) {
        (Ok(first), Ok(last)) if first <= last => first.into()..u64::from(last) + 1,
        _ => 0..0,
    }
}

/// Lookup of names.
struct Names<'m> {
    machine: &'m Machine,
    /// Filled when the first name that is not a number is looked up.
    clients: OnceCell<BTreeMap<&'m str, usize>>,
    by_number: BTreeMap<u64, Vec<u16>>,
}

impl<'m> Names<'m> {
    fn new(machine: &'m Machine) -> Self {
        let mut by_number: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
        for (index, router) in (0_u16..).zip(&machine.routers) {
            by_number.entry(router.id.into()).or_default().push(index);
        }
        Self {
            machine,
            clients: OnceCell::new(),
            by_number,
        }
    }

    /// Returns the index of the client with this name.
    fn client(&self, name: &str) -> Option<usize> {
        let by_name = self.clients.get_or_init(|| {
            let clients = self.machine.clients.iter().enumerate();
            let named = clients.filter_map(|(index, c)| Some((c.name.as_deref()?, index)));
            named.collect()
        });
        by_name.get(name).copied()
    }

    /// Returns the indices of the clients with these numbers.
    fn clients_of(&self, numbers: &Range<u64>) -> Range<usize> {
        let before = |number: u64| {
            self.machine
                .clients
                .partition_point(|c| u64::from(c.id) < number)
        };
        before(numbers.start)..before(numbers.end)
    }

    /// Returns the routers of the blade, cabinet or net with this name, or the node of a blade.
    fn routers_of(&self, name: &str) -> Vec<u16> {
        let modules = self.machine.modules.iter();
        let named = modules
            .clone()
            .filter(|module| module.blade == name || module.cabinet == name);
        let mut routers: Vec<u16> = named.flat_map(|module| module.routers.clone()).collect();
        let nodes = self.machine.details.names.iter();
        let nodes = nodes.filter(|(_, known)| &***known == name);
        routers.extend(
            nodes
                .filter_map(|(&id, _)| self.by_number.get(&u64::from(id)))
                .flatten(),
        );
        routers.extend(modules.filter_map(|module| {
            let node: u16 = name
                .strip_prefix(module.blade.as_str())?
                .strip_prefix('n')?
                .parse()
                .ok()?;
            module.routers.clone().nth(node.into())
        }));
        let net = name.parse().ok();
        let nets = self
            .machine
            .nets
            .iter()
            .filter(|entry| Some(entry.net) == net);
        routers.extend(nets.flat_map(|entry| &entry.routers));
        routers
    }

    fn knows(&self, name: &str) -> bool {
        let numbers = numbers(name);
        !self.clients_of(&numbers).is_empty()
            || self.by_number.range(numbers).next().is_some()
            || self.client(name).is_some()
            || !self.routers_of(name).is_empty()
    }
}
