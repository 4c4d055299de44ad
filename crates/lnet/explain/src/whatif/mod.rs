//! Changes to try. Each change is applied to the state; then the whole explanation is made from the changed state.
//!
//! This module chooses no path. A change sets what an administrator, a cable or a failure would set; the core that
//! is made from the changed state computes all consequences.

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
    /// A local NI, peer NI, gateway or system interface fails.
    Fail(Target),
    /// A local NI, peer NI, gateway or system interface is in full health and up.
    Restore(Target),
    /// The health of a local NI or peer NI is set to this value, 0 to 1000.
    Health(Nid, u16),
    /// A rule is added before the rule with this index, or at the end of the list if the index is `None`.
    AddRule(Box<Rule>, Option<usize>),
    /// The rule with this index is deleted.
    DeleteRule(usize),
    /// A local NI is added, and its net if this NI is the first one on it. The string is the name of the interface
    /// under the NI, if that name matters.
    AddNi(Nid, Option<String>),
    /// A local NI is deleted.
    DeleteNi(Nid),
    /// A local net is deleted with all its NIs.
    DeleteNet(Net),
    /// The peer with the first NID gets the second NID, too.
    AddPeerNid(Nid, Nid),
    /// A NID is deleted from its peer.
    DeletePeerNid(Nid),
    /// A route is added.
    AddRoute(Route),
    /// The route to this net by this gateway is deleted.
    DeleteRoute(Net, Nid),
    /// A parameter is set.
    Set(Parameter),
    /// A switch is turned on (`true`) or off.
    Switch(Switch, bool),
}

/// The object that fails or is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The NID of a local NI, a gateway, or a peer NI.
    Nid(Nid),
    /// The name of a system interface. Every NI on it fails or is restored.
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

/// A property of the node or the peer that is on or off.
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

/// The reason why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The argument does not have the form that the change takes.
    #[error("'{given}' is not {expected}")]
    Unreadable {
        /// The argument.
        given: String,
        /// A description of the right form.
        expected: String,
    },
    /// The node has no object of this name.
    #[error("the node has no {what} {name}")]
    Unknown {
        /// The kind of the object.
        what: &'static str,
        /// The name of the object.
        name: String,
    },
    /// The node already has the object.
    #[error("the node has {0} already")]
    Exists(String),
    /// The rule is not valid, or the list of rules rejects it.
    #[error("{0}")]
    Rule(String),
    /// No node can have this configuration.
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
            Self::Restore(target) => write!(f, "{target} is restored"),
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
