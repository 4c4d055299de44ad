//! Scenarios: worlds and faults that people write in YAML.
//!
//! [`Scenario::parse`] reads a document, and [`Scenario::plan`] makes the plan of a seed from it. An error in a
//! document is reported with its line, its column and the right form ([`ScenarioError`]).
//!
//! ```yaml
//! name: failing-rail
//! summary: One of two rails fails and comes back
//! globals: { transaction_timeout: 20, retry_count: 3 }
//! fabric: star                          # or { dragonfly: … }, { fat_tree: … }
//! nodes:
//!   - name: client
//!     count: 4
//!     nis: [{ net: o2ib }, { net: o2ib, rail: second }]
//!   - name: server
//!     nis: [{ net: o2ib }]
//! traffic:
//!   - { from: client, to: server, kind: put-ack, size: 65536, every_us: 500, count: 2000 }
//! faults:
//!   - { at: 2, until: 5, what: { port: server0/0 } }
//! ```
//!
//! Node `N` of group `G` (both counted from 0) has the address `10.G.N.I` on its `I`th interface, counted from 1. A
//! group of more than 256 nodes takes as many values of `G` as it needs.

mod builtin;
mod compile;
mod document;
mod error;
mod fault;
mod shape;
#[cfg(test)]
mod tests;

pub use builtin::{BUILTIN, Builtin};
pub use error::ScenarioError;

use self::compile::Compiled;
use crate::cores::draw::{Limits, draw, faults_for};
use crate::cores::plan::Plan;
use crate::random::Random;

/// A scenario that was read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name.
    pub name: String,
    /// What the scenario shows, in one line.
    pub summary: String,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// Everything is drawn from the seed.
    Drawn(Limits),
    /// The document defines everything except what it leaves to the seed.
    Written(Box<Compiled>),
}

impl Scenario {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// Returns a [`ScenarioError`] with the place, the error, and the right form.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let document = document::read(text)?;
        let (name, summary) = (document.name.clone(), document.summary.clone());
        let content = match document.random {
            Some(limits) => Content::Drawn(limits),
            None => Content::Written(Box::new(compile::compile(&document)?)),
        };
        Ok(Self {
            name,
            summary,
            content,
        })
    }

    /// Returns the built-in scenario with this name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let builtin = BUILTIN.iter().find(|builtin| builtin.name == name)?;
        Self::parse(builtin.text).ok()
    }

    /// Returns the plan of a seed.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        let compiled = match &self.content {
            Content::Drawn(limits) => return draw(limits, seed),
            Content::Written(compiled) => compiled,
        };
        let mut random = Random::stream(seed, 5);
        let operations = compiled.operations(&mut random);
        let mut faults = compiled.faults.clone();
        if let Some(drawn) = &compiled.random_faults {
            faults.extend(faults_for(
                drawn.count.min(10_000),
                drawn.within.min(86_400),
                &compiled.world,
                &mut random,
            ));
        }
        Plan {
            seed,
            world: compiled.world.clone(),
            operations,
            faults,
        }
    }
}
