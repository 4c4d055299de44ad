//! The state of path selection as JSON. A running node sends the state, and tools that explain the
//! node's choices read it.
//!
//! NIDs, nets and rules are text; times and durations are nanoseconds. The JSON has every field of
//! the state, and a reader rejects unknown fields, so a tool explains exactly the state that the
//! node sent. Limits: the crate does not select paths, and the format may change with every
//! version.
//!
//! ```
//! use lnet_core::{Core, CoreConfig, Entropy, Globals, RouterBuffers};
//! use lnet_types::Time;
//!
//! let config = CoreConfig {
//!     entropy: Entropy::from_seed(1),
//!     seed: 1,
//!     globals: Globals::default(),
//!     buffers: RouterBuffers::default(),
//!     routing: false,
//!     pid: 12345,
//! };
//! let state = Core::new(config, Time::ZERO).selection_state();
//! let text = lnet_core::state_json::to_json(state.clone(), Time::ZERO)?;
//! assert_eq!(lnet_core::state_json::from_json(&text)?, (state, Time::ZERO));
//! # Ok::<(), lnet_core::state_json::StateJsonError>(())
//! ```

pub(crate) mod mirror;
pub(crate) mod text;

use lnet_policy::{Action, Priority, Profile, Rule, RuleList, RuleText};
use lnet_types::Time;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::mirror::{ConfigDef, GatewayJson, NetJson, NiJson, PeerJson, PeerNiJson, RouteJson};
use crate::{CoreConfig, SelectionState};

/// Why a text is not a state.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateJsonError {
    /// The text is not the JSON of a state; the source has the place and the reason.
    #[error("not the state of a node")]
    Json(#[from] serde_json::Error),
    /// One of the rules is invalid.
    #[error("not the state of a node: rule {index}")]
    Rule {
        /// The index of the rule.
        index: usize,
        /// The reason.
        #[source]
        error: lnet_policy::PolicyError,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    now: u64,
    #[serde(with = "ConfigDef")]
    config: CoreConfig,
    sequence: u64,
    nets: Vec<NetJson>,
    nis: Vec<NiJson>,
    peer_nis: Vec<PeerNiJson>,
    peers: Vec<PeerJson>,
    routes: Vec<RouteJson>,
    gateways: Vec<GatewayJson>,
    rules: Vec<RuleJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleJson {
    src: Option<String>,
    dst: Option<String>,
    rte: Option<String>,
    priority: Option<u32>,
    disabled: bool,
}

/// Returns the state at time `now` as JSON. Takes the state by value, because the state of a node
/// with many peers is large.
///
/// # Errors
///
/// None for a state; the error is that of the JSON encoder's interface.
pub fn to_json(state: SelectionState, now: Time) -> Result<String, StateJsonError> {
    let document = Document {
        now: now.as_nanos(),
        config: state.config,
        sequence: state.sequence,
        nets: state.nets.into_iter().map(NetJson).collect(),
        nis: state.nis.into_iter().map(NiJson).collect(),
        peer_nis: state.peer_nis.into_iter().map(PeerNiJson).collect(),
        peers: state.peers.into_iter().map(PeerJson).collect(),
        routes: state.routes.into_iter().map(RouteJson).collect(),
        gateways: state.gateways.into_iter().map(GatewayJson).collect(),
        rules: state.rules.rules().iter().map(RuleJson::of).collect(),
    };
    Ok(serde_json::to_string(&document)?)
}

/// Returns the state in this JSON and its time.
///
/// # Errors
///
/// Text that is not a state. [`crate::Core::from_selection_state`] checks whether a core can
/// have the state.
pub fn from_json(text: &str) -> Result<(SelectionState, Time), StateJsonError> {
    let document: Document = serde_json::from_str(text)?;
    let rules = rules(&document.rules)?;
    let state = SelectionState {
        config: document.config,
        sequence: document.sequence,
        nets: document.nets.into_iter().map(|one| one.0).collect(),
        nis: document.nis.into_iter().map(|one| one.0).collect(),
        peer_nis: document.peer_nis.into_iter().map(|one| one.0).collect(),
        peers: document.peers.into_iter().map(|one| one.0).collect(),
        routes: document.routes.into_iter().map(|one| one.0).collect(),
        gateways: document.gateways.into_iter().map(|one| one.0).collect(),
        rules,
    };
    Ok((state, Time::from_nanos(document.now)))
}

impl RuleJson {
    fn of(rule: &Rule) -> Self {
        let [src, dst, rte] = rule.selector().descriptors();
        let text =
            |descriptor: Option<&lnet_types::expr::Descriptor>| descriptor.map(ToString::to_string);
        Self {
            src: text(src),
            dst: text(dst),
            rte: text(rte),
            priority: match rule.action() {
                Action::Priority(priority) => Some(priority.value()),
                Action::Preferred => None,
            },
            disabled: rule.is_disabled(),
        }
    }

    fn rule(&self) -> Result<Rule, lnet_policy::PolicyError> {
        let priority = self.priority.map(|value| {
            let bad = || lnet_policy::PolicyError::BadPriority(value.to_string());
            Priority::new(value).ok_or_else(bad).map(Action::Priority)
        });
        let text = RuleText {
            src: self.src.as_deref(),
            dst: self.dst.as_deref(),
            rte: self.rte.as_deref(),
            action: priority.transpose()?,
        };
        // A node that changed its profile may hold rules that the new profile would reject.
        let rule = Rule::from_text(&text, Profile::Design)?;
        Ok(rule.disabled(self.disabled))
    }
}

fn rules(given: &[RuleJson]) -> Result<RuleList, StateJsonError> {
    let mut rules = RuleList::new();
    for (index, one) in given.iter().enumerate() {
        let added = one.rule().and_then(|rule| rules.add(rule, None));
        added.map_err(|error| StateJsonError::Rule { index, error })?;
    }
    Ok(rules)
}
