//! Selection rules (User Defined Selection Policies), with which an administrator prefers
//! interfaces, peer interfaces or gateways. The rules that
//! the crate follows are in `docs/selection/policies.md`, where a rule of this crate is a "policy".
//!
//! ```text
//!  text, blocks ──▶ RuleList ──┐
//!  local NIs, gateways ────────┼──▶ Policy ──▶ per net, NI, peer net, peer NI:
//!                              │               priority, preferred sources, preferred gateways,
//!                              ┘               each with the rule that set it
//! ```
//!
//! [`RuleList`] is the ordered list of rules. [`Policy`] is that list compiled for
//! the local interfaces and gateways; its answers depend on nothing else. After a change of a rule,
//! an interface or a route, compile the list again instead of changing a `Policy`. [`evaluate`]
//! computes the values of a whole [`Topology`]; [`audit`] finds rules that are without effect or
//! shadowed. [`DesignRules`] shows the list as the three lists of the design's library, and
//! [`RuleBlock`] is the form in which that library and a node exchange rules.
//!
//! Limits: the crate does not know the state of peers, such as health, credits or sequence numbers;
//! it ranks candidates, and `lnet-core` selects the path.
//!
//! ```
//! use lnet_policy::{Policy, Profile, Rule, RuleList, RuleText};
//!
//! let text = RuleText { src: Some("10.0.0.1@tcp"), dst: Some("10.0.9.*@tcp"), ..RuleText::default() };
//! let mut rules = RuleList::new();
//! rules.add(Rule::from_text(&text, Profile::Design)?, None)?;
//!
//! let local = ["10.0.0.1@tcp".parse()?, "10.0.0.2@tcp".parse()?];
//! let mut policy = Policy::new(&rules, Profile::Design, &local, &[]);
//! let effect = policy.peer_ni("10.0.9.7@tcp".parse()?, true);
//! assert_eq!(effect.sources.nids().collect::<Vec<_>>(), [local[0]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod block;
mod design;
mod error;
mod list;
mod matcher;
mod policy;
mod preferred;
mod priority;
mod rule;
mod topology;

pub use audit::{Inert, RuleState, Side, audit};
pub use block::{
    BlockError, BlockProblem, Expr, IndexedRule, NetDescr, NetRule, NidDescr, NidRule, P2pRule,
    Place, RuleBlock, RuleBlockHeader, RuleType, kernel_rule, lnet_sel_rule_deserialize,
    lnet_sel_rule_serialize,
};
pub use design::{DesignRules, NetPolicy, NidPolicy, PeerPolicy};
pub use error::{Argument, PolicyError};
pub use list::{Added, RuleList, parse_index};
pub use policy::{Effective, PeerNiEffect, Policy};
pub use preferred::{Preferred, PreferredList};
pub use priority::Priority;
pub use rule::{Action, Profile, Rule, RuleKind, RuleText, Selector};
pub use topology::{Effects, Gateway, Peer, PeerEffects, Topology, evaluate};
