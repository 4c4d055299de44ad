//! Changes to try: each is applied to the state, and the whole explanation made again.
//!
//! Nothing here chooses or judges. A change sets what an administrator, a cable or a failure would set; what
//! follows from it is for the core that is made from the changed state.

mod apply;
mod parse;

use lnet_core::Route;
use lnet_policy::Rule;
use lnet_types::{Net, Nid};
use thiserror::Error;

pub(crate) use self::apply::{new_gateway, new_ni};
pub use self::apply::{new_peer, new_peer_ni};

/// A change of a node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// An interface, peer interface, gateway or system interface fails.
    Fail(Target),
    /// It is well again.
    Restore(Target),
    /// Health of an interface or peer interface.
    Health(Nid, u16),
    /// Another rule, before the one with this index.
    AddRule(Box<Rule>, Option<usize>),
    /// A rule less.
    DeleteRule(usize),
    /// Another local NI, and its net with the first one; the interface under it, if that matters.
    AddNi(Nid, Option<String>),
    /// A local NI less.
    DeleteNi(Nid),
    /// A local net with all its NIs less.
    DeleteNet(Net),
    /// The peer with this NID has another one, too.
    AddPeerNid(Nid, Nid),
    /// A NID less of the peer that has it.
    DeletePeerNid(Nid),
    /// Another route.
    AddRoute(Route),
    /// A route less.
    DeleteRoute(Net, Nid),
    /// A parameter.
    Set(Parameter),
    /// A switch.
    Switch(Switch, bool),
}

/// What fails or is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A NID: of a local NI, a gateway, or a peer NI.
    Nid(Nid),
    /// A system interface (a link), with every NI on it.
    Interface(String),
}

/// A parameter and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// `health_sensitivity`.
    HealthSensitivity(u16),
    /// `retry_count`.
    RetryCount(u32),
    /// `transaction_timeout`, in seconds.
    TransactionTimeout(u32),
    /// `numa_range`.
    NumaRange(u32),
    /// The priority of the rule with this index.
    RulePriority(usize, u32),
    /// The priority of a route.
    RoutePriority(Net, Nid, u32),
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The node discovers its peers.
    Discovery,
    /// The peer that is asked about is Multi-Rail.
    MultiRail,
    /// The node forwards messages.
    Routing,
    /// `avoid_asym_router_failure`.
    AvoidAsymmetric,
    /// `drop_asym_route`.
    DropAsymmetric,
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The argument is not of the form that the change takes.
    #[error("'{given}' is not {expected}")]
    Unreadable {
        /// What was given.
        given: String,
        /// What would be right.
        expected: String,
    },
    /// The node has nothing of this name.
    #[error("the node has no {what} {name}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The node has it already.
    #[error("the node has {0} already")]
    Exists(String),
    /// The rules refuse it.
    #[error("{0}")]
    Rule(String),
    /// No node takes it.
    #[error("{0}")]
    Refused(String),
}

impl ChangeError {
    fn unreadable(given: &str, expected: impl ToString) -> Self {
        Self::Unreadable {
            given: given.to_owned(),
            expected: expected.to_string(),
        }
    }

    fn unknown(what: &'static str, name: impl ToString) -> Self {
        let name = name.to_string();
        Self::Unknown { what, name }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on_off = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::Fail(target) => write!(f, "{target} fails"),
            Self::Restore(target) => write!(f, "{target} is well again"),
            Self::Health(nid, health) => write!(f, "{nid} has health {health}"),
            Self::AddRule(rule, None) => write!(f, "rule added: {rule}"),
            Self::AddRule(rule, Some(at)) => write!(f, "rule added before {at}: {rule}"),
            Self::DeleteRule(index) => write!(f, "rule {index} deleted"),
            Self::AddNi(nid, _) => write!(f, "local NI {nid} added"),
            Self::DeleteNi(nid) => write!(f, "local NI {nid} deleted"),
            Self::DeleteNet(net) => write!(f, "local net {net} deleted"),
            Self::AddPeerNid(peer, nid) => write!(f, "peer {peer} has {nid}, too"),
            Self::DeletePeerNid(nid) => write!(f, "peer NID {nid} deleted"),
            Self::AddRoute(route) => write!(f, "route to {} by {} added", route.net, route.gateway),
            Self::DeleteRoute(net, by) => write!(f, "route to {net} by {by} deleted"),
            Self::Set(parameter) => write!(f, "{parameter}"),
            Self::Switch(switch, on) => write!(f, "{} {}", switch.name(), on_off(*on)),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nid(nid) => write!(f, "{nid}"),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HealthSensitivity(value) => write!(f, "health_sensitivity = {value}"),
            Self::RetryCount(value) => write!(f, "retry_count = {value}"),
            Self::TransactionTimeout(value) => write!(f, "transaction_timeout = {value}"),
            Self::NumaRange(value) => write!(f, "numa_range = {value}"),
            Self::RulePriority(index, value) => write!(f, "priority of rule {index} = {value}"),
            Self::RoutePriority(net, by, value) => {
                write!(f, "priority of the route to {net} by {by} = {value}")
            }
        }
    }
}

impl Switch {
    fn name(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::MultiRail => "Multi-Rail of the peer",
            Self::Routing => "routing",
            Self::AvoidAsymmetric => "avoid_asym_router_failure",
            Self::DropAsymmetric => "drop_asym_route",
        }
    }
}
