//! Rates: their bounds, where they come from, and routers that a plan gives more than they forward.
//!
//! ```text
//!   nets of routers with known rates:  C = sum of what the routers forward
//!   a router with the share s of the net's load is given s × C; a slow one forwards less: `router-rate`
//! ```
//!
//! A router forwards what its slower side lets pass. A router whose rate is not known limits nothing, and of its nets
//! nothing is found.

use std::collections::BTreeMap;
use std::fmt;

use crate::evaluate::{Gateways, clients_of_routers};
use crate::machine::Machine;
use crate::plan::Plan;

/// What [`is_rate`] accepts, for messages.
pub(crate) const RATE: &str = "a number of GB/s from 0.001 to 1,000,000";

/// How much more than its rate a router must be given to be found, as a factor.
const TOLERANCE: f64 = 1.1;

/// Returns whether a number of GB/s can be the rate of an interface, a link or a router: from 1 MB/s to 1 PB/s.
#[must_use]
pub fn is_rate(rate: f64) -> bool {
    (0.001..=1e6).contains(&rate)
}

/// How a rate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A figure that a maker or an operator published.
    Published,
    /// Measured on the machine.
    Measured,
    /// Neither: an assumption.
    Assumed,
}

impl Known {
    /// All ways, with their words in machine files.
    pub(crate) const ALL: [(&str, Self); 3] = [
        ("published", Self::Published),
        ("measured", Self::Measured),
        ("assumed", Self::Assumed),
    ];

    /// The word in machine files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
            Self::Assumed => "assumed",
        }
    }
}

/// Where rates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSource {
    /// How the rates are known.
    pub known: Known,
    /// Who published them, or how they were measured or assumed.
    pub source: String,
}

impl RateSource {
    /// A source that a description does not name.
    #[must_use]
    pub fn unnamed() -> Self {
        Self::new(Known::Assumed, "the description names no source")
    }

    pub(crate) fn new(known: Known, source: &str) -> Self {
        let source = source.to_owned();
        Self { known, source }
    }

    /// Reads `published: SOURCE`, `measured: SOURCE` or `assumed: SOURCE`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (word, source) = text.split_once(':')?;
        let known = Known::ALL.iter().find(|(name, _)| *name == word.trim())?.1;
        let source = source.trim();
        (!source.is_empty()).then(|| Self::new(known, source))
    }
}

impl fmt::Display for RateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.known.name(), self.source)
    }
}

/// The sources of a machine's rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSources {
    /// Of the links of the fabric.
    pub links: RateSource,
    /// Of the interfaces of clients and routers.
    pub nics: RateSource,
}

impl Default for RateSources {
    fn default() -> Self {
        Self {
            links: RateSource::unnamed(),
            nics: RateSource::unnamed(),
        }
    }
}

/// A router that a plan gives a larger share of a net's bandwidth than the router has: `router-rate`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterRate {
    /// The router, by index.
    pub router: u16,
    /// The name of the router.
    pub name: String,
    /// The net to which it forwards.
    pub net: String,
    /// GB/s that the router forwards to the net: those of its slower side, divided among its nets.
    pub forwards: f64,
    /// GB/s that the plan gives it when all routers of the net together are full.
    pub given: f64,
}

impl fmt::Display for RouterRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            net,
            forwards,
            given,
            ..
        } = self;
        write!(
            f,
            "router-rate: {name} forwards {forwards:.1} GB/s to {net} by its slower side, and the plan gives it \
             {given:.1} GB/s when the routers of the net are full"
        )
    }
}

/// Returns the routers that the plan gives more than they forward, in the order of the machine.
#[must_use]
pub fn router_rates(machine: &Machine, plan: &Plan) -> Vec<RouterRate> {
    if machine.details.nics.is_empty() {
        return Vec::new();
    }
    let mut nets_of: BTreeMap<u32, u32> = BTreeMap::new();
    for router in &machine.routers {
        *nets_of.entry(router.id).or_default() += 1;
    }
    let loads = clients_of_routers(machine, plan, Gateways::Primary);
    let mut found = Vec::new();
    for net in machine.data_nets() {
        let alive = machine.nets[net].routers.iter().copied();
        let alive: Vec<u16> = alive.filter(|router| !plan.dead.contains(router)).collect();
        let rate = |&router: &u16| {
            let id = machine.routers[usize::from(router)].id;
            let rate = machine.details.forwarding_rate(id)?;
            Some(rate / f64::from(nets_of.get(&id).copied().unwrap_or(1)))
        };
        let Some(rates) = alive.iter().map(rate).collect::<Option<Vec<f64>>>() else {
            continue;
        };
        let load = |router: u16| loads[usize::from(router)] as f64;
        let whole: f64 = alive.iter().map(|&router| load(router)).sum();
        let sum: f64 = rates.iter().sum();
        for (&router, forwards) in alive.iter().zip(rates) {
            let given = load(router) / whole.max(1.0) * sum;
            // A router that is as fast as the others has only more clients, which the balance shows.
            let is_slow = forwards * alive.len() as f64 * TOLERANCE < sum;
            if is_slow && given > forwards * TOLERANCE {
                let name = machine.router_name(machine.routers[usize::from(router)].id);
                let net = machine.nets[net].net.to_string();
                found.push(RouterRate {
                    router,
                    name,
                    net,
                    forwards,
                    given,
                });
            }
        }
    }
    found.sort_by_key(|found| found.router);
    found
}

/// Returns the numbers of router nodes whose rate is known, and of those whose rate is not.
#[must_use]
pub fn known_routers(machine: &Machine) -> (usize, usize) {
    let ids: std::collections::BTreeSet<u32> = machine.routers.iter().map(|one| one.id).collect();
    let is_known = |id: &&u32| machine.details.forwarding_rate(**id).is_some();
    let known = ids.iter().filter(is_known).count();
    (known, ids.len() - known)
}

#[cfg(test)]
mod tests {
    use super::{Known, RateSource, is_rate};

    #[test]
    fn rates_have_bounds() {
        for rate in [0.001, 0.5, 12.5, 1e6] {
            assert!(is_rate(rate), "{rate}");
        }
        for rate in [0.0, 0.0009, 1.1e6, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!is_rate(rate), "{rate}");
        }
    }

    #[test]
    fn a_source_is_a_word_and_a_text() {
        let source = RateSource::parse("measured: lst, 2025-03: writes").unwrap();
        assert_eq!(source.known, Known::Measured);
        assert_eq!(source.to_string(), "measured: lst, 2025-03: writes");
        for text in ["measured", "guessed: x", "assumed:", ""] {
            assert_eq!(RateSource::parse(text), None, "{text}");
        }
    }
}
